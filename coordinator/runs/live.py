# SPDX-License-Identifier: Apache-2.0
"""Live statistics of a run: each interval's snapshots merged over agents. Pure,
but for a count of what was too much.

For people who watch; reports use the store. An interval is given once, in order, when
every agent that is still in the run has reported it; or without those that are so far
behind that too much would have to be kept.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ldapslam.coordinator.bounds import Bound, note_exceeded
from ldapslam.coordinator.runs.abort import AbortWatch, length_of
from ldapslam.jobs.run_plan import PlannedOperation, PlannedStream, RunPlan
from ldapslam.proto import common_pb2
from ldapslam.proto.common_pb2 import (
    METRIC_RESPONSE_TIME,
    OUTCOME_EXPECTED,
    OUTCOME_SUCCEEDED,
    OperationInterval,
    Snapshot,
    StreamInterval,
)
from ldapslam.proto.operator_pb2 import (
    IntervalFigures,
    OperationFigures,
    StreamFigures,
)
from ldapslam.results.histogram import Histogram

_NS_PER_S = 1e9
#: Serialised snapshots that are kept for agents that report nothing.
MOST_KEPT_BYTES = 64 << 20


class Measured(NamedTuple):
    """One interval: for people, and as the agents reported it."""

    figures: IntervalFigures
    snapshots: Sequence[Snapshot]


class LiveStatistics:
    """The intervals of one run that are not complete yet."""

    def __init__(self, agents: Iterable[str], plan: RunPlan | None = None) -> None:
        self._plan = plan or RunPlan()
        self._watch = AbortWatch(self._plan)
        #: Why the run is to end; empty: it goes on.
        self.abort_reason = ""
        self._expected = set(agents)
        self._planned = len(self._expected)
        self._open: dict[int, dict[str, Snapshot]] = {}
        self._open_bytes: Counter[int] = Counter()
        self._done_up_to = -1

    @property
    def kept_bytes(self) -> int:
        return self._open_bytes.total()

    def add(self, agent: str, snapshot: Snapshot) -> list[Measured]:
        """Take an agent's snapshot; the intervals that it completes."""
        if snapshot.index <= self._done_up_to:
            return []  # late: its interval was shown without it
        self._open.setdefault(snapshot.index, {})[agent] = snapshot
        self._open_bytes[snapshot.index] += snapshot.ByteSize()
        if snapshot.final:
            # its plan is over: the drain may be one agent's only
            self._expected.discard(agent)
        return self._complete()

    def drop(self, agent: str) -> list[Measured]:
        self._expected.discard(agent)
        return self._complete()

    def _complete(self) -> list[Measured]:
        measured: list[Measured] = []
        complete = {
            index
            for index, reported in self._open.items()
            if self._expected <= reported.keys()
        }
        # agents report in order: what an interval before lacks came to the coordinator
        # that was here before
        last = max(complete, default=-1)
        for index in sorted(self._open):
            if index > last and self.kept_bytes <= MOST_KEPT_BYTES:
                break
            if index > last:
                note_exceeded(Bound.LIVE_BYTES)
            snapshots = list(self._open[index].values())
            measured.append(Measured(self._merge(index, snapshots), snapshots))
            if index in complete and not self.abort_reason:
                self.abort_reason = self._watch.take(snapshots)
            self._done_up_to = index
            del self._open[index], self._open_bytes[index]
        return measured

    def _merge(self, index: int, snapshots: list[Snapshot]) -> IntervalFigures:
        rows: dict[str, list[OperationInterval]] = defaultdict(list)
        gauges: dict[str, list[StreamInterval]] = defaultdict(list)
        for snapshot in snapshots:
            for row in snapshot.operations:
                rows[row.stream].append(row)
            for gauge in snapshot.streams:
                gauges[gauge.stream].append(gauge)
        # streams without connections send nothing
        down = [name for name, of in gauges.items() if any(one.down_ns for one in of)]
        length_s = length_of(snapshots) / _NS_PER_S
        return IntervalFigures(
            index=index,
            phase=snapshots[0].phase,
            start_ns=min(snapshot.start_ns for snapshot in snapshots),
            end_ns=max(snapshot.end_ns for snapshot in snapshots),
            streams=[
                _stream_figures(
                    name,
                    self._plan.stream(name),
                    rows[name],
                    gauges[name],
                    length_s,
                )
                for name in dict.fromkeys([*rows, *down])
            ],
            agents_reported=len(snapshots),
            agents_planned=self._planned,
            busy_share=max(
                (
                    worker.busy_ns / worker.wall_ns
                    for snapshot in snapshots
                    for worker in snapshot.workers
                    if worker.wall_ns
                ),
                default=0.0,
            ),
        )


class _Part(NamedTuple):
    """One operation of a stream."""

    planned: PlannedOperation
    rows: Sequence[OperationInterval]
    times: Histogram


def _stream_figures(
    name: str,
    planned: PlannedStream,
    rows_of_stream: Sequence[OperationInterval],
    gauges: Sequence[StreamInterval],
    length_s: float,
) -> StreamFigures:
    operations: dict[str, list[OperationInterval]] = defaultdict(list)
    for row in rows_of_stream:
        operations[row.operation].append(row)
    figures = StreamFigures(
        stream=name,
        dropped=sum(row.dropped for row in rows_of_stream),
        in_flight=sum(row.in_flight for row in gauges),
        backlog=sum(row.backlog for row in gauges),
        connections=planned.connections,
        clients=planned.clients,
    )
    if length_s > 0:
        down_s = sum(row.down_ns for row in gauges) / _NS_PER_S
        figures.connections_down = down_s / length_s
    parts = [
        _Part(
            planned.operation(name),
            rows,
            Histogram.merge(one.packed for row in rows for one in _response_times(row)),
        )
        for name, rows in operations.items()
    ]
    for part in parts:
        _set_figures(
            figures.operations.add(operation=part.planned.name), [part], length_s
        )
    _set_figures(figures, parts, length_s)
    return figures


def _set_figures(
    figures: StreamFigures | OperationFigures, parts: Sequence[_Part], length_s: float
) -> None:
    failures: Counter[int] = Counter()
    for planned, rows, _ in parts:
        figures.completed += sum(row.completed for row in rows)
        figures.errors += sum(
            row.failed + row.timed_out + row.unresolved for row in rows
        )
        if planned.kind == "search":
            figures.searches += sum(row.completed for row in rows)
            figures.entries += sum(row.entries for row in rows)
            figures.empty += sum(row.empty for row in rows)
        for row in rows:
            for code, count in row.result_codes.items():
                failures[code] += count * (code not in planned.accepted_codes)
    figures.throughput_per_s = figures.completed / length_s if length_s > 0 else 0.0
    for code, count in failures.most_common(1):
        if count:
            figures.error_code = code
    times = [part.times for part in parts]
    _set_times(figures, times[0] if len(times) == 1 else Histogram.union(times))


def _set_times(figures: StreamFigures | OperationFigures, times: Histogram) -> None:
    if times.total:
        figures.response_time_max_us = times.max_ns / 1000
    for p in (50, 95, 99):
        if (value_ns := times.reliable_percentile(p)) is not None:
            setattr(figures, f"response_time_p{p}_us", value_ns / 1000)


def _response_times(row: OperationInterval) -> Iterable[common_pb2.Histogram]:
    """The successes' times; those of expected results where there is no success."""
    shown: tuple[common_pb2.Histogram, ...] = ()
    for histogram in row.histograms:
        if histogram.metric == METRIC_RESPONSE_TIME:
            if histogram.outcome == OUTCOME_SUCCEEDED:
                return (histogram,)
            if histogram.outcome == OUTCOME_EXPECTED:
                shown = (histogram,)
    return shown
