# SPDX-License-Identifier: Apache-2.0
"""One pass over a run's intervals: what there is to know of them, in bounded memory.

`collect` adds counters and merges histograms by operation, stream, agent and worker,
and makes the timeline. Memory grows with the number of operations, agents and workers
and with the points of the charts, not with the length of the run. Nothing is judged
or rounded here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from ldapslam.reports.results.histogram import Histogram
from ldapslam.reports.results.records import (
    IntervalRecord,
    OperationInterval,
    StreamInterval,
    WorkerInterval,
)
from ldapslam.reports.timeline import NS_PER_S, AgentSeries, Plan, Series, Timeline

COUNTERS = (
    "scheduled",
    "sent",
    "completed",
    "succeeded",
    "failed",
    "dropped",
    "unresolved",
    "timed_out",
    "entries",
    "references",
)
CONNECTION_COUNTERS = (
    "connects",
    "connect_failures",
    "disconnects",
    "protocol_errors",
    "late_responses",
    "unexpected_messages",
    "notices",
    "stamps_missing",
)

#: Of these, the requests without an answer rank above every value.
UNANSWERED_METRICS = ("response_time", "service_time")

_AnySeries = TypeVar("_AnySeries", Series, AgentSeries)


@dataclass(slots=True)
class OperationTotals:
    """One operation of one stream, over all agents."""

    #: Of the whole run, for the accounting identities.
    whole: Counter[str] = field(default_factory=Counter)
    #: Of the requests whose intended time lies in the measure phase.
    measured: Counter[str] = field(default_factory=Counter)
    result_codes: Counter[int] = field(default_factory=Counter)
    #: Completions and successes that happened within the measure phase.
    completed_in_measure: int = 0
    succeeded_in_measure: int = 0
    #: (metric, outcome) -> durations of the measured requests.
    histograms: defaultdict[tuple[str, str], Histogram] = field(
        default_factory=lambda: defaultdict(Histogram)
    )
    #: Values above the range of the histograms, in any phase.
    overflow: int = 0


@dataclass(slots=True)
class StreamTotals:
    """The connections of one stream, over all agents and phases."""

    counters: Counter[str] = field(default_factory=Counter)
    connect_time: Histogram = field(default_factory=Histogram)


@dataclass(slots=True)
class WorkerTotals:
    """One engine thread in the measure phase."""

    wall_ns: int = 0
    #: Of it, the intervals in which a limit was exceeded. By length: a run that ends
    #: early has a last interval of any length.
    saturated_ns: int = 0
    highest_busy_share: float = 0.0
    highest_run_queue_share: float = 0.0


@dataclass(slots=True)
class AgentTotals:
    """One agent; figures of the measure phase unless said otherwise."""

    completed_in_measure: int = 0
    measured: Counter[str] = field(default_factory=Counter)
    #: (stream, operation) -> response times of measured successes.
    response_times: defaultdict[tuple[str, str], Histogram] = field(
        default_factory=lambda: defaultdict(Histogram)
    )
    #: (model, worker) -> its figures.
    workers: dict[tuple[str, int], WorkerTotals] = field(default_factory=dict)
    worker_cpu_ns: int = 0
    worker_busy_ns: int = 0
    worker_wall_ns: int = 0
    #: Weighted by the length of the intervals that have it.
    cpu_utilisation_ns: float = 0.0
    cpu_utilisation_wall_ns: int = 0
    highest_steal_share: float | None = None
    throttled_ns: int = 0
    #: Whole run: the largest, by amount.
    clock_step_ns: int = 0
    #: Whole run: the numbers of the intervals that arrived, without the drain.
    seen: set[int] = field(default_factory=set)
    sent_final: bool = False


@dataclass(slots=True)
class Collected:
    timeline: Timeline
    operations: dict[tuple[str, str], OperationTotals]
    streams: dict[str, StreamTotals]
    agents: dict[str, AgentTotals]
    #: First start and last end of the measure phase's intervals, None without any.
    measure_start_ns: int | None
    measure_end_ns: int | None
    intervals: int


def unanswered(counts: Mapping[str, int]) -> int:
    """Requests without an answer: they timed out, or were lost with their connection
    or at the run's end."""
    return counts["timed_out"] + counts["unresolved"]


def collect(
    records: Iterable[IntervalRecord],
    plan: Plan,
    agents: Sequence[str],
    operations: Sequence[tuple[str, str]],
    *,
    busy_share_limit: float,
    run_queue_share_limit: float,
) -> Collected:
    """`records` come in the order of their index; `agents` are the planned ones."""
    collector = _Collector(
        plan, agents, operations, busy_share_limit, run_queue_share_limit
    )
    for record in records:
        collector.add(record)
    return collector.finish()


class _Collector:
    def __init__(
        self,
        plan: Plan,
        agents: Sequence[str],
        operations: Sequence[tuple[str, str]],
        busy_share_limit: float,
        run_queue_share_limit: float,
    ) -> None:
        self._plan = plan
        self._busy_share_limit = busy_share_limit
        self._run_queue_share_limit = run_queue_share_limit
        # shares of less than a tenth of an interval say little
        self._fragment_ns = plan.interval_s * NS_PER_S / 10
        self._operations = {key: OperationTotals() for key in operations}
        self._streams: defaultdict[str, StreamTotals] = defaultdict(StreamTotals)
        self._agents = {agent: AgentTotals() for agent in agents}
        self._planned_agents = tuple(agents)
        self._measure_start_ns: int | None = None
        self._measure_end_ns: int | None = None
        self._intervals = 0
        self._timeline = Timeline(plan.phases, plan.intervals_per_point)
        self._point: _Point | None = None

    def add(self, record: IntervalRecord) -> None:
        self._intervals += 1
        number = self._plan.point(record.index)
        if self._point is None or number != self._point.number:
            self._flush()
            self._point = _Point(number)
        self._point.add(record)
        in_measure = record.phase == "measure"
        if in_measure:
            self._measure_start_ns = _least(self._measure_start_ns, record.start_ns)
            self._measure_end_ns = max(self._measure_end_ns or 0, record.end_ns)
        agent = self._agents.setdefault(record.agent, AgentTotals())
        if record.final:
            agent.sent_final = True
        else:
            agent.seen.add(record.index)
        if abs(record.clock_step_ns) > abs(agent.clock_step_ns):
            agent.clock_step_ns = record.clock_step_ns
        for operation in record.operations:
            self._add_operation(agent, operation, in_measure)
        for stream in record.streams:
            self._add_stream(stream)
        if in_measure:
            for worker in record.workers:
                self._add_worker(agent, worker)
            _add_host(agent, record)

    def finish(self) -> Collected:
        self._flush()
        _pad(self._timeline)
        of_operations = (stream for stream, _ in self._operations)
        streams = dict.fromkeys([*of_operations, *self._streams])
        return Collected(
            timeline=self._timeline,
            operations=self._operations,
            streams={stream: self._streams[stream] for stream in streams},
            agents=self._agents,
            measure_start_ns=self._measure_start_ns,
            measure_end_ns=self._measure_end_ns,
            intervals=self._intervals,
        )

    def _add_operation(
        self, agent: AgentTotals, operation: OperationInterval, in_measure: bool
    ) -> None:
        key = operation.stream, operation.operation
        totals = self._operations.setdefault(key, OperationTotals())
        counts = {name: getattr(operation, name) for name in COUNTERS}
        totals.whole.update(counts)
        if in_measure:
            totals.completed_in_measure += operation.completed
            totals.succeeded_in_measure += operation.succeeded
            agent.completed_in_measure += operation.completed
        if not operation.measured:
            for packed in operation.histograms.values():
                totals.overflow += Histogram.overflow_of(packed)
            return
        totals.measured.update(counts)
        agent.measured.update(counts)
        totals.result_codes.update(operation.result_codes)
        for name, packed in operation.histograms.items():
            totals.overflow += Histogram.overflow_of(packed)
            totals.histograms[name].add_packed(packed)
            if name == ("response_time", "succeeded"):
                agent.response_times[key].add_packed(packed)

    def _add_stream(self, stream: StreamInterval) -> None:
        totals = self._streams[stream.stream]
        totals.counters.update(
            {name: getattr(stream, name) for name in CONNECTION_COUNTERS}
        )
        if stream.connect_time is not None:
            totals.connect_time.add_packed(stream.connect_time)

    def _add_worker(self, agent: AgentTotals, worker: WorkerInterval) -> None:
        agent.worker_cpu_ns += worker.cpu_ns
        agent.worker_busy_ns += worker.busy_ns
        agent.worker_wall_ns += worker.wall_ns
        key = worker.model, worker.worker
        totals = agent.workers.setdefault(key, WorkerTotals())
        busy, run_queue = _shares(worker)
        is_busy = busy > self._busy_share_limit
        is_waiting = run_queue > self._run_queue_share_limit
        totals.wall_ns += worker.wall_ns
        if is_busy or is_waiting:
            totals.saturated_ns += worker.wall_ns
        if worker.wall_ns < self._fragment_ns:
            return
        totals.highest_busy_share = max(totals.highest_busy_share, busy)
        totals.highest_run_queue_share = max(totals.highest_run_queue_share, run_queue)

    def _flush(self) -> None:
        point, timeline = self._point, self._timeline
        if point is None:
            return
        self._point = None
        length_s = (point.end_ns - point.start_ns) / NS_PER_S
        if length_s <= 0:
            return
        expected = set(range(min(point.indexes), max(point.indexes) + 1))
        is_gap = any(
            expected - point.indexes_of[agent] for agent in self._planned_agents
        )
        # The drain may last a millisecond: rates and shares of it would be noise.
        is_short = point.is_drain and length_s < self._plan.interval_s / 2
        before = len(timeline.start_s)
        timeline.start_s.append(point.start_ns / NS_PER_S)
        timeline.end_s.append(point.end_ns / NS_PER_S)
        timeline.is_gap.append(is_gap)
        for key, done in point.operations.items():
            series = timeline.operations.setdefault(key, _padded(Series(), before))
            if not is_gap:
                _append_operation(series, done, None if is_short else length_s)
        for agent, seen in point.agents.items():
            of_agent = timeline.agents.setdefault(agent, _padded(AgentSeries(), before))
            if not is_short:
                rate = seen.completed * NS_PER_S / seen.wall_ns
                of_agent.throughput_per_s.append(rate)
                of_agent.busy_share.append(seen.busy_share)
                of_agent.run_queue_share.append(seen.run_queue_share)
                of_agent.cpu_utilisation.append(seen.cpu_utilisation)
        _pad(timeline)


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
    """The point of the timeline that is being filled."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.start_ns = 2**63
        self.end_ns = 0
        self.is_drain = False
        self.indexes: set[int] = set()
        self.indexes_of: dict[str, set[int]] = defaultdict(set)
        self.operations: dict[tuple[str, str], _OperationPoint] = {}
        self.agents: dict[str, _AgentPoint] = {}

    def add(self, record: IntervalRecord) -> None:
        self.start_ns = min(self.start_ns, record.start_ns)
        self.end_ns = max(self.end_ns, record.end_ns)
        self.is_drain |= record.final
        self.indexes.add(record.index)
        self.indexes_of[record.agent].add(record.index)
        agent = self.agents.setdefault(record.agent, _AgentPoint())
        agent.wall_ns += record.end_ns - record.start_ns
        for worker in record.workers:
            busy, run_queue = _shares(worker)
            agent.busy_share = _most(agent.busy_share, busy)
            agent.run_queue_share = _most(agent.run_queue_share, run_queue)
        if record.host is not None and record.host.cpu_utilisation is not None:
            agent.cpu_utilisation = _most(
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
            packed = operation.histograms.get(("response_time", "succeeded"))
            if packed is not None:
                done.response_times.add_packed(packed)


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


def _add_host(agent: AgentTotals, record: IntervalRecord) -> None:
    host = record.host
    if host is None:
        return
    length_ns = record.end_ns - record.start_ns
    if host.cpu_utilisation is not None:
        agent.cpu_utilisation_ns += host.cpu_utilisation * length_ns
        agent.cpu_utilisation_wall_ns += length_ns
    if host.steal_share is not None:
        agent.highest_steal_share = _most(agent.highest_steal_share, host.steal_share)
    agent.throttled_ns += host.throttled_ns or 0


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


def _shares(worker: WorkerInterval) -> tuple[float, float]:
    """Share of the interval the worker was busy, and waited for a CPU."""
    if worker.wall_ns <= 0:
        return 0.0, 0.0
    return worker.busy_ns / worker.wall_ns, worker.run_queue_ns / worker.wall_ns


def _us(value_ns: float | None) -> float | None:
    return None if value_ns is None else value_ns / 1000


def _least(known: int | None, value: int) -> int:
    return value if known is None else min(known, value)


def _most(known: float | None, value: float) -> float:
    return value if known is None else max(known, value)
