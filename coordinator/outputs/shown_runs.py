# SPDX-License-Identifier: Apache-2.0
"""What is shown of runs while they go: the last interval, and totals since the start.

Ended runs stay for a while, so that a scrape sees their last values; of very many
streams only the newest runs' are shown.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from ldapslam.coordinator.extension import Extension
from ldapslam.coordinator.observer import JudgedRun
from ldapslam.coordinator.outputs.time_buckets import TimeBuckets
from ldapslam.jobs.fields.result_codes import code_name
from ldapslam.jobs.plan import DRAIN
from ldapslam.proto import operator_pb2 as pb
from ldapslam.proto.fields import OUTCOMES
from ldapslam.results.histogram import Histogram
from ldapslam.results.records import FINAL_STATES
from ldapslam.results.window import OperationRows, Window

#: How long an ended run is shown.
KEPT_S = 60.0
MAX_RUNS = 100
MAX_STREAMS = 500
#: An operation has some hundred series.
MAX_OPERATIONS = 200
#: Of an operation; what comes later is `OTHER_CODES`.
MAX_CODES = 30
OTHER_CODES = "more"

#: Counters of an operation that tell what became of its requests.
REQUEST_OUTCOMES = (*OUTCOMES, "abandoned", "dropped")
#: A stream's totals: those of its operations, and of its connections.
OPERATION_TOTALS = ("completed", "errors", "dropped")
CONNECTION_TOTALS = ("connects", "connect_failures", "disconnects")
#: Metric and outcome.
TimesKey = tuple[str, str]


@dataclass(slots=True)
class StreamFigures:
    """One stream of a run: of the last planned interval, and since the run's start."""

    last: pb.StreamFigures
    #: OPERATION_TOTALS and CONNECTION_TOTALS by name.
    totals: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class OperationTotals:
    """Of one operation since the run's start."""

    counts: Counter[str] = field(default_factory=Counter)
    #: By name.
    result_codes: Counter[str] = field(default_factory=Counter)
    times: dict[TimesKey, TimeBuckets] = field(default_factory=dict)

    def add(self, rows: OperationRows) -> None:
        for name in ("scheduled", "entries", *REQUEST_OUTCOMES):
            self.counts[name] += rows.count(name)
        for code, count in rows.result_codes.items():
            self._count(code_name(code), count)
        for key, histograms in rows.histograms.items():
            if key[0] in ("response_time", "service_time"):
                times = self.times.setdefault(key, TimeBuckets())
                times.add(histograms.read())

    def copy(self) -> OperationTotals:
        return replace(
            self,
            counts=self.counts.copy(),
            result_codes=self.result_codes.copy(),
            times={key: times.copy() for key, times in self.times.items()},
        )

    def _count(self, name: str, count: int) -> None:
        is_kept = name in self.result_codes or len(self.result_codes) < MAX_CODES
        self.result_codes[name if is_kept else OTHER_CODES] += count


@dataclass(slots=True)
class RunFigures:
    run_id: str
    job_name: str
    state: str
    #: None before the first interval.
    interval: pb.IntervalFigures | None = None
    streams: dict[str, StreamFigures] = field(default_factory=dict)
    #: By stream and operation.
    operations: dict[tuple[str, str], OperationTotals] = field(default_factory=dict)
    #: Of the last planned interval: p99 of all requests, and the longest that a host
    #: woke a thread too late.
    send_lag_p99_ns: float | None = None
    hiccup_max_ns: int | None = None
    verdict: str | None = None
    #: When it ended, on the clock; None of a live run.
    ended_s: float | None = None

    def add(self, figures: pb.IntervalFigures, window: Window) -> None:
        # a drain's length is arbitrary, so its rates mean nothing
        is_drain = figures.phase == DRAIN and self.interval is not None
        if not is_drain:
            self.interval = figures
            self._add_generator(window)
        for row in figures.streams:
            stream = self.streams.setdefault(row.stream, StreamFigures(row))
            if not is_drain:
                stream.last = row
            for name in OPERATION_TOTALS:
                stream.totals[name] += getattr(row.total, name)
        for counter in CONNECTION_TOTALS:
            for name, count in window.by_stream(counter).items():
                if name in self.streams:
                    self.streams[name].totals[counter] += count
        for (stream_name, operation, _), rows in window.operations.items():
            key = stream_name, operation
            self.operations.setdefault(key, OperationTotals()).add(rows)

    def copy(self) -> RunFigures:
        """As it is now, for another thread: families of many operations take a second,
        which the event loop has not."""
        return replace(
            self,  # its messages are replaced, never changed
            streams={
                name: replace(stream, totals=stream.totals.copy())
                for name, stream in self.streams.items()
            },
            operations={key: one.copy() for key, one in self.operations.items()},
        )

    def _add_generator(self, window: Window) -> None:
        lag = Histogram()
        for rows in window.operations.values():
            for outcome in OUTCOMES:
                rows.add_times(lag, "send_lag", outcome)
        self.send_lag_p99_ns = lag.reliable_percentile(99)
        hiccups_ns = window.reports["hiccup_max_ns"]
        known_ns = hiccups_ns[~np.isnan(hiccups_ns)]
        self.hiccup_max_ns = int(known_ns.max()) if known_ns.size else None


class ShownRuns(Extension):
    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._runs: dict[str, RunFigures] = {}
        #: (state, verdict or "none") -> runs that ended since the start.
        self.ended: Counter[tuple[str, str]] = Counter()

    @property
    def stream_count(self) -> int:
        return sum(len(run.streams) for run in self._newest())

    @property
    def operation_count(self) -> int:
        return sum(len(run.operations) for run in self._newest())

    def run_changed(self, status: pb.RunStatus) -> None:
        run = self._runs.get(status.run_id)
        is_over = status.state in FINAL_STATES
        if run is None:
            if is_over:
                return
            self._forget()  # perhaps nobody asks for what is shown
            run = RunFigures(status.run_id, status.job_name, status.state)
            self._runs[status.run_id] = run
        run.state = status.state
        if is_over and run.ended_s is None:
            run.ended_s = self._now_s()

    def interval_measured(
        self, run_id: str, figures: pb.IntervalFigures, window: Window
    ) -> None:
        run = self._runs.get(run_id)
        if run is not None:
            run.add(figures, window)

    def run_judged(self, judged: JudgedRun) -> None:
        record = judged.record
        if judged.ended_s is not None:
            self.ended[record.state, record.verdict or "none"] += 1
        run = self._runs.get(record.run_id)
        if run is not None:
            run.state, run.verdict = record.state, record.verdict
            # its verdict stays as long
            run.ended_s = self._now_s()

    def states(self) -> Counter[str]:
        return Counter(run.state for run in self._runs.values() if run.ended_s is None)

    def shown(self) -> Iterator[RunFigures]:
        """The runs with statistics that fit the limits, the newest first."""
        streams, shown = 0, 0
        for run in self._newest():
            if run.interval is None:
                continue
            if shown == MAX_RUNS or streams + len(run.streams) > MAX_STREAMS:
                continue
            streams, shown = streams + len(run.streams), shown + 1
            yield run

    def _newest(self) -> Iterator[RunFigures]:
        self._forget()
        return reversed(self._runs.values())

    def _forget(self) -> None:
        before_s = self._now_s() - KEPT_S
        forgotten = [
            run_id
            for run_id, run in self._runs.items()
            if run.ended_s is not None and run.ended_s < before_s
        ]
        for run_id in forgotten:
            del self._runs[run_id]
