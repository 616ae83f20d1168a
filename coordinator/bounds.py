# SPDX-License-Identifier: Apache-2.0
"""How often the coordinator refused, dropped or cut off what was too much.

Counted for the process, like its CPU and memory; metrics.py shows it. What an operator
is told at once, such as the size of a job, is no bound of these.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TypeVar

from google.protobuf.message import Message

from ldapslam.transport.messages import BoundExceeded, checked

M = TypeVar("M", bound=Message)


class Bound(StrEnum):
    """What there is only so much of; docs/how-to/run-a-coordinator.md says what happens
    then."""

    CALLS = "calls_of_a_caller"
    REQUEST_BYTES = "request_bytes"
    FIELDS = "fields_of_a_message"
    RECORDS = "records_of_an_answer"
    STORE_WRITES = "store_writes"
    RUN_END_COMMANDS = "run_end_commands"
    LIVE_BYTES = "live_bytes_of_a_run"
    UNREAD = "unread_figures_of_a_watcher"
    REFUSALS = "refused_reports_of_a_run"
    REPORT_ROWS = "rows_of_a_report"
    AUDIT = "audited_refusals"
    RENEWALS = "renewals"


_lock = threading.Lock()
_exceeded = Counter[Bound]()


def note_exceeded(bound: Bound) -> None:
    with _lock:
        _exceeded[bound] += 1


@contextmanager
def fields_counted() -> Iterator[None]:
    """Within, count a message that has too much."""
    try:
        yield
    except BoundExceeded:
        note_exceeded(Bound.FIELDS)
        raise


def within_bounds(message: M) -> M:
    """Return a message as transport's `checked` does, and count what is too much."""
    with fields_counted():
        return checked(message)


def exceeded() -> dict[Bound, int]:
    """How often each was, since the start."""
    return {bound: _exceeded[bound] for bound in Bound}
