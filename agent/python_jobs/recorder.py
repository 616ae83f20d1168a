# SPDX-License-Identifier: Apache-2.0
"""What one client of a Python job type counts in one interval, in the engine's terms.

A client has one request at a time, and may have observations beside it, which any
thread ends. Its thread begins and ends requests; the reporter's thread swaps the two
records once an interval, so neither waits for the other longer than an exchange of
references takes. Histograms are the engine's own. No clock here:
times are arguments, CLOCK_MONOTONIC in ns. python-ldap has no receive stamps of the
kernel: `received` is when libldap handed the last response over.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from ldapslam.proto.fields import OPERATION_COUNTERS, SET_UP_TIMES, STREAM_COUNTERS

#: Numbers of the engine's metrics and outcomes (agent/csrc/recorder.h).
RESPONSE_TIME, SERVICE_TIME, SEND_LAG, RECEIVE_LAG, BACKLOG_WAIT = range(5)
SUCCEEDED, FAILED, EXPECTED, TIMED_OUT, UNRESOLVED = range(5)

_COMPLETED = {SUCCEEDED: "succeeded", FAILED: "failed", EXPECTED: "expected"}
_GIVEN_UP = {TIMED_OUT: "timed_out", UNRESOLVED: "unresolved"}


class Histogram(Protocol):
    """What this module uses of `_engine.Histogram`."""

    def record_ns(self, value_ns: int) -> None: ...
    def pack(self) -> bytes: ...


@dataclass(slots=True)
class Request:
    """One request under way."""

    operation: int
    #: Intended in the measure phase.
    measured: bool
    intended_ns: int
    #: When the client became free, if that was after the request was due.
    slot_free_ns: int
    sent_ns: int
    requests: int = 0
    entries: int = 0
    references: int = 0

    @property
    def could_send_ns(self) -> int:
        return max(self.intended_ns, self.slot_free_ns)

    @property
    def send_lag_ns(self) -> int:
        return self.sent_ns - self.could_send_ns


@dataclass(slots=True)
class OperationFigures:
    """One operation in one interval, of requests in or outside the measure phase."""

    counts: Counter[str] = field(default_factory=Counter)
    result_codes: Counter[int] = field(default_factory=Counter)
    #: (metric, outcome) -> packed histogram; empty ones are left out.
    histograms: dict[tuple[int, int], bytes] = field(default_factory=dict)


@dataclass(slots=True)
class IntervalFigures:
    """What one client, or several together, counted in one interval."""

    #: (operation, measured) -> figures
    operations: dict[tuple[int, bool], OperationFigures] = field(default_factory=dict)
    stream: Counter[str] = field(default_factory=Counter)
    #: Packed; empty when nothing connected.
    connect_time: bytes = b""
    #: CLOCK_MONOTONIC; None when nothing completed.
    last_done_ns: int | None = None


@dataclass(slots=True)
class HostInterval:
    """One interval of all clients of the stream on this agent."""

    start_ns: int
    end_ns: int
    figures: IntervalFigures
    #: One for each client: see the engine's worker figures.
    workers: list[dict[str, int]]


class _Record:
    """The open form of IntervalFigures. Histograms are kept when it is emptied."""

    def __init__(self, new_histogram: Callable[[], Histogram]) -> None:
        self._new_histogram = new_histogram
        self._histograms: dict[tuple[int, bool, int, int], Histogram] = {}
        self._used: set[tuple[int, bool, int, int]] = set()
        self._connect_time: Histogram | None = None
        self._figures = IntervalFigures()

    def operation(self, operation: int, measured: bool) -> OperationFigures:
        return self._figures.operations.setdefault(
            (operation, measured), OperationFigures()
        )

    @property
    def stream(self) -> Counter[str]:
        return self._figures.stream

    def record(self, request: Request, outcome: int, metric: int, value: int) -> None:
        key = (request.operation, request.measured, metric, outcome)
        histogram = self._histograms.get(key)
        if histogram is None:
            histogram = self._histograms[key] = self._new_histogram()
        self._used.add(key)
        # a duration below zero is two readings of the clock in the wrong order
        histogram.record_ns(max(0, value))

    def record_connect(self, value_ns: int) -> None:
        if self._connect_time is None:
            self._connect_time = self._new_histogram()
        self._connect_time.record_ns(max(0, value_ns))
        self.stream["connects"] += 1

    def done(self, done_ns: int) -> None:
        self._figures.last_done_ns = max(self._figures.last_done_ns or 0, done_ns)

    def take(self) -> IntervalFigures:
        """The figures; the record is empty afterwards."""
        figures, self._figures = self._figures, IntervalFigures()
        for operation, measured, metric, outcome in sorted(self._used):
            key = (operation, measured, metric, outcome)
            packed = self._histograms[key].pack()
            figures.operations[operation, measured].histograms[metric, outcome] = packed
        self._used.clear()
        if self._connect_time is not None and figures.stream["connects"]:
            figures.connect_time = self._connect_time.pack()
        return figures


class Recorder:
    """The figures of one client; `is_open`: its stream is an open loop."""

    def __init__(
        self, new_histogram: Callable[[], Histogram], *, is_open: bool
    ) -> None:
        self._guard = threading.Lock()
        self._active = _Record(new_histogram)
        self._other = _Record(new_histogram)
        self._is_open = is_open
        self._request: Request | None = None
        #: By identity: those that are under way.
        self._observations: dict[int, Request] = {}

    def begin(self, request: Request) -> None:
        """The request is sent now; it is the client's only one."""
        with self._guard:
            self._request = request
            counts = self._active.operation(request.operation, request.measured).counts
            counts["scheduled"] += 1
            counts["sent"] += 1

    def complete(
        self, code: int, outcome: int, *, received_ns: int, done_ns: int
    ) -> bool:
        """The request has a final response. False: it had been given up."""
        with self._guard:
            request, self._request = self._request, None
            if request is None:
                self._active.stream["late_responses"] += 1
                return False
            self._complete(request, code, outcome, received_ns, done_ns)
            self._sending(request, outcome)
            if self._is_open:
                wait_ns = request.could_send_ns - request.intended_ns
                self._active.record(request, outcome, BACKLOG_WAIT, wait_ns)
            self._active.stream["stamps_missing"] += 1
            return True

    def _complete(
        self, request: Request, code: int, outcome: int, received_ns: int, done_ns: int
    ) -> None:
        record = self._active
        figures = self._close(record, request, _COMPLETED[outcome])
        figures.counts["completed"] += 1
        figures.result_codes[code if 0 <= code < 128 else -1] += 1
        self._times(record, request, outcome, received_ns)
        record.record(request, outcome, RECEIVE_LAG, done_ns - received_ns)
        record.done(done_ns)

    def observe(self, request: Request) -> None:
        """Begin an observation: it counts like a request that was sent, and has no send
        lag, for nothing is sent."""
        with self._guard:
            self._observations[id(request)] = request
            counts = self._active.operation(request.operation, request.measured).counts
            counts["scheduled"] += 1
            counts["sent"] += 1

    def observed(self, request: Request, *, received_ns: int, done_ns: int) -> bool:
        """An observation has succeeded. False: it had been given up."""
        with self._guard:
            if self._observations.pop(id(request), None) is None:
                self._active.stream["late_responses"] += 1
                return False
            self._complete(request, 0, SUCCEEDED, received_ns, done_ns)
            return True

    def missed(self, request: Request, outcome: int, now_ns: int) -> bool:
        """An observation has not: TIMED_OUT or UNRESOLVED. False: it had ended."""
        with self._guard:
            if self._observations.pop(id(request), None) is None:
                return False
            self._give_up(request, outcome, now_ns)
            return True

    def give_up(self, outcome: int, now_ns: int) -> bool:
        """No response will be waited for: TIMED_OUT or UNRESOLVED. False: there is no
        request."""
        with self._guard:
            request, self._request = self._request, None
            if request is None:
                return False
            self._give_up(request, outcome, now_ns)
            self._sending(request, outcome)
            return True

    def give_up_all(self, now_ns: int) -> None:
        """The request and the observations are unresolved: the run is over."""
        self.give_up(UNRESOLVED, now_ns)
        for request in list(self._observations.values()):
            self.missed(request, UNRESOLVED, now_ns)

    def _give_up(self, request: Request, outcome: int, now_ns: int) -> None:
        record = self._active
        self._close(record, request, _GIVEN_UP[outcome])
        self._times(record, request, outcome, now_ns)

    def _sending(self, request: Request, outcome: int) -> None:
        self._active.record(request, outcome, SEND_LAG, request.send_lag_ns)

    @staticmethod
    def _close(record: _Record, request: Request, counter: str) -> OperationFigures:
        figures = record.operation(request.operation, request.measured)
        figures.counts[counter] += 1
        figures.counts["requests"] += request.requests
        figures.counts["entries"] += request.entries
        figures.counts["references"] += request.references
        return figures

    @staticmethod
    def _times(record: _Record, request: Request, outcome: int, end_ns: int) -> None:
        record.record(request, outcome, RESPONSE_TIME, end_ns - request.intended_ns)
        record.record(request, outcome, SERVICE_TIME, end_ns - request.sent_ns)

    def drop(self, operation: int, measured: bool) -> None:
        """An arrival that found the backlog full."""
        with self._guard:
            counts = self._active.operation(operation, measured).counts
            counts["scheduled"] += 1
            counts["dropped"] += 1

    def count(self, counter: str, number: int = 1) -> None:
        """Add to a counter of the stream."""
        with self._guard:
            self._active.stream[counter] += number

    def connected(self, duration_ns: int) -> None:
        with self._guard:
            self._active.record_connect(duration_ns)

    def close_interval(self, *, backlog: int = 0) -> IntervalFigures:
        """The figures since the last call; the reporter's thread only."""
        with self._guard:
            closed, self._active = self._active, self._other
            self._other = closed
            under_way = int(self._request is not None) + len(self._observations)
            closed.stream["in_flight"] = under_way
            closed.stream["backlog"] = backlog
        return closed.take()


def operation_row(
    stream: int, operation: int, measured: bool, figures: OperationFigures
) -> dict[str, Any]:
    """As in the engine's snapshots."""
    return {
        "stream": stream,
        "operation": operation,
        "measured": measured,
        **{name: figures.counts[name] for name in OPERATION_COUNTERS},
        "result_codes": dict(figures.result_codes),
        "histograms": [
            (metric, outcome, packed)
            for (metric, outcome), packed in sorted(figures.histograms.items())
        ],
    }


def stream_row(stream: int, figures: IntervalFigures, t0_ns: int) -> dict[str, Any]:
    """As in the engine's snapshots. The steps of a set-up cannot be told apart from
    Python: their histograms stay empty, `connect_time` has the whole."""
    last_done_ns = figures.last_done_ns
    return {
        "stream": stream,
        **{name: figures.stream[name] for name in STREAM_COUNTERS},
        **dict.fromkeys(SET_UP_TIMES, b""),
        "connect_time": figures.connect_time,
        "last_done_ns": None if last_done_ns is None else last_done_ns - t0_ns,
    }


class Outage:
    """A connection that is being made again: the time that it is down, into the
    intervals that it belongs to."""

    def __init__(self, recorder: Recorder, *, is_down: bool) -> None:
        """`is_down`: it was lost. Replaced on purpose, it is when an attempt fails."""
        self._recorder = recorder
        self._tallied_ns = time.monotonic_ns()
        self.is_down = is_down

    def tally(self) -> None:
        """The time since the last call."""
        if not self.is_down:
            return
        now_ns = time.monotonic_ns()
        self._recorder.count("down_ns", now_ns - self._tallied_ns)
        self._tallied_ns = now_ns
