# SPDX-License-Identifier: Apache-2.0
"""Live statistics of a run: each interval's snapshots merged over agents. Pure,
but for a count of what was too much.

For people who watch; reports use the store. An interval is given once, in order, when
every agent that is still in the run has reported it; or without those that are so far
behind that too much would have to be kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ldapslam.coordinator.bounds import Bound, note_exceeded
from ldapslam.coordinator.runs.abort import AbortWatch
from ldapslam.jobs.run_plan import PlannedOperation, PlannedStream, RunPlan
from ldapslam.proto.common_pb2 import Snapshot
from ldapslam.proto.operator_pb2 import (
    IntervalFigures,
    OperationFigures,
    StreamFigures,
)
from ldapslam.results.histogram import Histogram
from ldapslam.results.window import OperationRows, Window, window_of

_NS_PER_S = 1e9
#: Serialised snapshots that are kept for agents that report nothing.
MOST_KEPT_BYTES = 64 << 20


class Measured(NamedTuple):
    """One interval: for people, and as the agents reported it."""

    figures: IntervalFigures
    window: Window


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
            reported = self._open[index]
            window = window_of((index,), list(reported.values()), list(reported))
            measured.append(Measured(self._merge(index, window), window))
            if index in complete and not self.abort_reason:
                self.abort_reason = self._watch.take(window)
            self._done_up_to = index
            del self._open[index], self._open_bytes[index]
        return measured

    def _merge(self, index: int, window: Window) -> IntervalFigures:
        reports, workers = window.reports, window.workers
        rows: dict[str, dict[str, list[OperationRows]]] = {}
        for (stream, operation, _), of_operation in window.operations.items():
            operations = rows.setdefault(stream, {})
            operations.setdefault(operation, []).append(of_operation)
        gauges = {
            name: window.by_stream(name) for name in ("in_flight", "backlog", "down_ns")
        }
        # streams without connections send nothing
        names = {*rows, *+gauges["down_ns"]}
        length_s = window.length_ns() / _NS_PER_S
        has_time = workers["wall_ns"] > 0
        busy = workers["busy_ns"][has_time] / workers["wall_ns"][has_time]
        return IntervalFigures(
            index=index,
            phase=reports["phase"][0],
            start_ns=int(reports["start_ns"].min()),
            end_ns=int(reports["end_ns"].max()),
            streams=[
                _stream_figures(
                    self._plan.stream(name),
                    rows.get(name, {}),
                    {gauge: sums[name] for gauge, sums in gauges.items()},
                    length_s,
                )
                for name in _in_order(names, [one.name for one in self._plan.streams])
            ],
            agents_reported=len(reports["agent"]),
            agents_planned=self._planned,
            busy_share=busy.max(initial=0.0),
        )


class _Part(NamedTuple):
    """One operation of a stream."""

    planned: PlannedOperation
    rows: Sequence[OperationRows]
    times: Histogram


def _in_order(names: Iterable[str], planned: Sequence[str]) -> list[str]:
    """As planned; others by name, after those."""
    there = set(names)
    return [
        *(name for name in planned if name in there),
        *sorted(there.difference(planned)),
    ]


def _stream_figures(
    planned: PlannedStream,
    operations: Mapping[str, Sequence[OperationRows]],
    gauges: Mapping[str, int],
    length_s: float,
) -> StreamFigures:
    figures = StreamFigures(
        stream=planned.name,
        dropped=sum(_count(rows, "dropped") for rows in operations.values()),
        in_flight=gauges["in_flight"],
        backlog=gauges["backlog"],
        connections=planned.connections,
        clients=planned.clients,
    )
    if length_s > 0:
        figures.connections_down = gauges["down_ns"] / _NS_PER_S / length_s
    parts = [
        _Part(planned.operation(name), rows := operations[name], _response_times(rows))
        for name in _in_order(operations, [one.name for one in planned.operations])
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
        figures.completed += _count(rows, "completed")
        figures.errors += _count(rows, "failed", "timed_out", "unresolved")
        if planned.kind == "search":
            figures.searches += _count(rows, "completed")
            figures.entries += _count(rows, "entries")
            figures.empty += _count(rows, "empty")
        for row in rows:
            for code, count in row.result_codes.items():
                failures[code] += count * (code not in planned.accepted_codes)
    figures.throughput_per_s = figures.completed / length_s if length_s > 0 else 0.0
    for code, count in failures.most_common(1):
        if count:
            figures.error_code = code
    times = [part.times for part in parts]
    _set_times(figures, times[0] if len(times) == 1 else Histogram.union(times))


def _count(rows: Iterable[OperationRows], *counters: str) -> int:
    return sum(one.count(counter) for one in rows for counter in counters)


def _set_times(figures: StreamFigures | OperationFigures, times: Histogram) -> None:
    if times.total:
        figures.response_time_max_us = times.max_ns / 1000
    for p in (50, 95, 99):
        if (value_ns := times.reliable_percentile(p)) is not None:
            setattr(figures, f"response_time_p{p}_us", value_ns / 1000)


def _response_times(rows: Iterable[OperationRows]) -> Histogram:
    """The successes' times of each row; those of expected results where it has no
    success."""
    times = Histogram()
    for one in rows:
        succeeded = one.histograms.get(("response_time", "succeeded"))
        expected = one.histograms.get(("response_time", "expected"))
        if succeeded is not None:
            times.add_block(succeeded.read())
        if expected is not None:
            is_shown = np.full(expected.rows.shape, fill_value=True)
            if succeeded is not None:
                is_shown = ~np.isin(expected.rows, succeeded.rows)
            times.add_block(expected.read(is_shown))
    return times
