# SPDX-License-Identifier: Apache-2.0
"""How writing to a store goes: counts and times, for those who watch it.

Written under the store's lock, read by anyone: each figure is one assignment, and a
reader that sees one of them newer than the other is not misled.
"""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(slots=True)
class WriteLog:
    """Of one Store since it was opened."""

    #: Transactions that were to write: those committed, and those that failed.
    commits: int = 0
    failures: int = 0
    #: From begin to the end of the commit, waiting for other writers included.
    total_s: float = 0.0
    last_s: float = 0.0
    #: CLOCK_MONOTONIC of the last commit; None before the first.
    committed_s: float | None = None
    #: Why the last write failed; None when it was committed.
    failure: str | None = None

    def note_commit(self, took_s: float) -> None:
        self.commits += 1
        self.total_s += took_s
        self.last_s = took_s
        self.committed_s = time.monotonic()
        self.failure = None

    def note_failure(self, why: str) -> None:
        self.failures += 1
        self.failure = why
