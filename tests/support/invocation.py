# SPDX-License-Identifier: Apache-2.0
"""The options of a call of ldapslam, for functions that are called without one."""

from __future__ import annotations

import click

from ldapslam.cli.console import Invocation


def with_json(is_given: bool = True) -> click.Context:
    """A context manager: within, `--json` is given, or not."""
    return click.Context(click.Command("command"), obj=Invocation(json=is_given))
