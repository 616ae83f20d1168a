# SPDX-License-Identifier: Apache-2.0
"""The one error of lab/: a throw-away directory could not be made or asked."""

from __future__ import annotations

from ldapslam.base.errors import TargetError


class LabError(TargetError):
    """A throw-away directory cannot be made, started, loaded or asked."""
