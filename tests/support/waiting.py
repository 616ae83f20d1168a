# SPDX-License-Identifier: Apache-2.0
"""Waiting for what other processes and threads do."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

_LOOK_EVERY_S = 0.02


def wait_until(holds: Callable[[], object], what: str, timeout_s: float = 60.0) -> None:
    """Return once `holds()` is true; fail the test after the time-out."""
    deadline_s = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > deadline_s:
            pytest.fail(f"not within {timeout_s:g} s: {what}")
        time.sleep(_LOOK_EVERY_S)
