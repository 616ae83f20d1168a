# SPDX-License-Identifier: Apache-2.0
"""Fills the timeline: intervals of all agents merged into the points of the charts.

Records come in the order of their index, so one point is open at a time and memory
does not grow with the run. A point that lacks an interval of an agent that was still at
work is a gap.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from ldapslam.reports.results.histogram import Histogram
from ldapslam.reports.results.records import IntervalRecord, WorkerInterval
from ldapslam.reports.timeline import NS_PER_S, AgentSeries, Plan, Series, Timeline

_AnySeries = TypeVar("_AnySeries", Series, AgentSeries)


class TimelineBuilder:
    """`agents` are the planned ones: all are awaited until they sent their last."""

    def __init__(self, plan: Plan, agents: Sequence[str]) -> None:
        self._plan = plan
        self._awaited = set(agents)
        self._timeline = Timeline(plan.phases, plan.intervals_per_point)
        self._point: _Point | None = None

    def add(self, record: IntervalRecord) -> None:
        number = self._plan.point(record.index)
        if self._point is None or number != self._point.number:
            self._close_point()
            self._point = _Point(number, self._plan)
        self._point.add(record)

    def finish(self) -> Timeline:
        self._close_point()
        _pad(self._timeline)
        return self._timeline

    def _close_point(self) -> None:
        point, timeline = self._point, self._timeline
        if point is None:
            return
        self._point = None
        is_gap = any(point.lacks(agent) for agent in self._awaited)
        self._awaited -= point.ended
        length_s = (point.end_ns - point.start_ns) / NS_PER_S
        if length_s <= 0:
            return
        # The drain may last a millisecond: rates and shares of it would be noise.
        is_short = bool(point.ended) and length_s < self._plan.interval_s / 2
        before = len(timeline.start_s)
        timeline.start_s.append(point.start_ns / NS_PER_S)
        timeline.end_s.append(point.end_ns / NS_PER_S)
        timeline.is_gap.append(is_gap)
        for key, done in point.operations.items():
            if not is_gap:
                series = timeline.operations.setdefault(key, Series())
                _padded(series, before)
                _append_operation(series, done, None if is_short else length_s)
        for agent, seen in point.agents.items():
            of_agent = timeline.agents.setdefault(agent, AgentSeries())
            if not is_short and seen.wall_ns > 0:
                _padded(of_agent, before)
                rate = seen.completed * NS_PER_S / seen.wall_ns
                of_agent.throughput_per_s.append(rate)
                of_agent.busy_share.append(seen.busy_share)
                of_agent.run_queue_share.append(seen.run_queue_share)
                of_agent.cpu_utilisation.append(seen.cpu_utilisation)


@dataclass(slots=True)
class _OperationPoint:
    completed: int = 0
    errors: int = 0
    response_times: Histogram = field(default_factory=Histogram)


@dataclass(slots=True)
class _AgentPoint:
    wall_ns: int = 0
    completed: int = 0
    busy_share: float | None = None
    run_queue_share: float | None = None
    cpu_utilisation: float | None = None


class _Point:
    """The point that is being filled."""

    def __init__(self, number: int, plan: Plan) -> None:
        self.number = number
        self._plan = plan
        self.start_ns = 2**63
        self.end_ns = 0
        #: Agents whose last interval is in it.
        self.ended: set[str] = set()
        self.operations: dict[tuple[str, str], _OperationPoint] = {}
        self.agents: dict[str, _AgentPoint] = {}
        self._indexes: set[int] = set()
        self._indexes_of: dict[str, set[int]] = defaultdict(set)

    def add(self, record: IntervalRecord) -> None:
        self.start_ns = min(self.start_ns, record.start_ns)
        self.end_ns = max(self.end_ns, record.end_ns)
        if record.final:
            self.ended.add(record.agent)
        self._indexes.add(record.index)
        self._indexes_of[record.agent].add(record.index)
        agent = self.agents.setdefault(record.agent, _AgentPoint())
        agent.wall_ns += record.end_ns - record.start_ns
        for worker in record.workers:
            busy, run_queue = shares(worker)
            agent.busy_share = most(agent.busy_share, busy)
            agent.run_queue_share = most(agent.run_queue_share, run_queue)
        if record.host is not None and record.host.cpu_utilisation is not None:
            agent.cpu_utilisation = most(
                agent.cpu_utilisation, record.host.cpu_utilisation
            )
        for operation in record.operations:
            key = operation.stream, operation.operation
            done = self.operations.setdefault(key, _OperationPoint())
            done.completed += operation.completed
            lost = operation.timed_out + operation.unresolved
            done.errors += operation.failed + lost
            done.response_times.unanswered += lost
            agent.completed += operation.completed
            wanted = self._plan.wanted_of(key)
            packed = operation.histograms.get(("response_time", wanted))
            if packed is not None:
                done.response_times.add_packed(packed)

    def lacks(self, agent: str) -> bool:
        """Is an interval of the agent missing that came before its last?"""
        theirs = self._indexes_of[agent]
        last = max(theirs if agent in self.ended else self._indexes)
        return not theirs.issuperset(range(min(self._indexes), last + 1))


def _append_operation(
    series: Series, done: _OperationPoint, length_s: float | None
) -> None:
    times = done.response_times
    if length_s is not None:
        series.throughput_per_s.append(done.completed / length_s)
        series.errors_per_s.append(done.errors / length_s)
    series.p50_us.append(_us(times.reliable_percentile(50)))
    series.p90_us.append(_us(times.reliable_percentile(90)))
    series.p99_us.append(_us(times.reliable_percentile(99)))
    series.max_us.append(_us(times.percentile(100)))
    series.sample.append(times.sample)
    series.unanswered.append(times.unanswered)


def _pad(timeline: Timeline) -> None:
    for series in timeline.operations.values():
        _padded(series, len(timeline.start_s))
    for agent in timeline.agents.values():
        _padded(agent, len(timeline.start_s))


def _padded(series: _AnySeries, length: int) -> _AnySeries:
    for name in series.__slots__:
        values = getattr(series, name)
        values += [None] * (length - len(values))
    return series


def shares(worker: WorkerInterval) -> tuple[float, float]:
    """Share of the interval the worker was busy, and waited for a CPU."""
    if worker.wall_ns <= 0:
        return 0.0, 0.0
    return worker.busy_ns / worker.wall_ns, worker.run_queue_ns / worker.wall_ns


def most(known: float | None, value: float) -> float:
    return value if known is None else max(known, value)


def _us(value_ns: float | None) -> float | None:
    return None if value_ns is None else value_ns / 1000
