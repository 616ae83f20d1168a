# SPDX-License-Identifier: Apache-2.0
"""The CPU before others get it, for tests that measure time.

Where the kernel groups processes by session (autogroup), sessions share the CPU, and
the nice value of a process counts within its own only: it is the session's that is set.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

FIRST = -20


def set_session_priority(pid: int | str, nice: int) -> bool:
    """Of the session that a process belongs to; whether the kernel let us."""
    try:
        Path(f"/proc/{pid}/autogroup").write_text(str(nice))
    except OSError:
        return False
    return True


@contextlib.contextmanager
def session_first() -> Iterator[None]:
    """This process's own session, meanwhile."""
    set_session_priority("self", FIRST)
    try:
        yield
    finally:
        set_session_priority("self", 0)


@pytest.fixture
def real_time() -> None:
    """Skip the test where SCHED_FIFO is not granted."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        pytest.skip("SCHED_FIFO is not granted here: needs root or CAP_SYS_NICE")
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
