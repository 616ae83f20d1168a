# SPDX-License-Identifier: Apache-2.0
"""The CPU before others get it, for tests that measure time.

Where the kernel groups processes by session (autogroup), sessions share the CPU, and
the nice value of a process counts within its own only: it is the session's that is set.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

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
