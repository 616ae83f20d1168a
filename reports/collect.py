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

from ldapslam.reports.points import TimelineBuilder, most, shares
from ldapslam.reports.results.histogram import Histogram
from ldapslam.reports.results.records import (
    SET_UP_TIMES,
    IntervalRecord,
    OperationInterval,
    StreamInterval,
    WorkerInterval,
)
from ldapslam.reports.timeline import NS_PER_S, Plan, Timeline

COUNTERS = (
    "scheduled",
    "sent",
    "completed",
    "succeeded",
    "expected",
    "failed",
    "dropped",
    "timed_out",
    "unresolved",
    "abandoned",
    "substituted",
    "captures_missing",
    "requests",
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
    "binds",
    "extended",
    "unbinds",
)

#: Outcomes of requests that had a response.
ANSWERED = ("succeeded", "expected", "failed")
#: Of every request, whatever became of it.
GENERATOR_LAGS = ("send_lag", "receive_lag")
#: Of these, the requests without an answer rank above every value.
UNANSWERED_METRICS = ("response_time", "service_time")


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
    #: Values above the range of the histograms, outside the measure phase.
    unmeasured_overflow: int = 0

    @property
    def overflow(self) -> int:
        """Values above the range of the histograms, in any phase."""
        measured = sum(one.overflow for one in self.histograms.values())
        return self.unmeasured_overflow + measured


@dataclass(slots=True)
class StreamTotals:
    """The connections of one stream, over all agents and phases."""

    counters: Counter[str] = field(default_factory=Counter)
    #: Name in SET_UP_TIMES -> durations.
    set_up: defaultdict[str, Histogram] = field(
        default_factory=lambda: defaultdict(Histogram)
    )
    #: When the last response was processed, since T0; None without one.
    last_done_ns: int | None = None


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
    #: (stream, operation) -> response times of measured successes, or of expected
    #: results where the job expects no success.
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
    #: Whole run: the numbers of the intervals that arrived, without the last.
    seen: set[int] = field(default_factory=set)
    #: Number of its last interval, the drain; None while that has not arrived.
    final_index: int | None = None
    #: The streams that it drove.
    streams: set[str] = field(default_factory=set)


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
        self._measure_start_ns: int | None = None
        self._measure_end_ns: int | None = None
        self._intervals = 0
        self._timeline = TimelineBuilder(plan, agents)

    def add(self, record: IntervalRecord) -> None:
        self._intervals += 1
        self._timeline.add(record)
        in_measure = record.phase == "measure"
        if in_measure:
            self._measure_start_ns = _least(self._measure_start_ns, record.start_ns)
            self._measure_end_ns = max(self._measure_end_ns or 0, record.end_ns)
        agent = self._agents.setdefault(record.agent, AgentTotals())
        if record.final:
            agent.final_index = record.index
        else:
            agent.seen.add(record.index)
        if abs(record.clock_step_ns) > abs(agent.clock_step_ns):
            agent.clock_step_ns = record.clock_step_ns
        for operation in record.operations:
            self._add_operation(agent, operation, in_measure)
        for stream in record.streams:
            self._add_stream(agent, stream, record)
        if in_measure:
            for worker in record.workers:
                self._add_worker(agent, worker)
            _add_host(agent, record)

    def finish(self) -> Collected:
        of_operations = (stream for stream, _ in self._operations)
        streams = dict.fromkeys([*of_operations, *self._streams])
        return Collected(
            timeline=self._timeline.finish(),
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
        counters = [totals.whole]
        if operation.measured:
            counters += totals.measured, agent.measured
        for name in COUNTERS:
            if number := getattr(operation, name):
                for counter in counters:
                    counter[name] += number
        if in_measure:
            totals.completed_in_measure += operation.completed
            totals.succeeded_in_measure += operation.succeeded
            agent.completed_in_measure += operation.completed
        if not operation.measured:
            for packed in operation.histograms.values():
                totals.unmeasured_overflow += Histogram.overflow_of(packed)
            return
        totals.result_codes.update(operation.result_codes)
        for one, packed in operation.histograms.items():
            totals.histograms[one].add_packed(packed)
        shown = operation.histograms.get(("response_time", self._plan.wanted_of(key)))
        if shown is not None:
            agent.response_times[key].add_packed(shown)

    def _add_stream(
        self, agent: AgentTotals, stream: StreamInterval, record: IntervalRecord
    ) -> None:
        agent.streams.add(stream.stream)
        totals = self._streams[stream.stream]
        for name in CONNECTION_COUNTERS:
            if number := getattr(stream, name):
                totals.counters[name] += number
        for name in SET_UP_TIMES:
            packed = getattr(stream, name)
            if packed is not None:
                totals.set_up[name].add_packed(packed)
        last_ns = stream.last_done_ns
        if last_ns is None and any(
            one.completed for one in record.operations if one.stream == stream.stream
        ):
            last_ns = record.end_ns  # of an engine that does not tell
        if last_ns is not None:
            totals.last_done_ns = max(totals.last_done_ns or 0, last_ns)

    def _add_worker(self, agent: AgentTotals, worker: WorkerInterval) -> None:
        agent.worker_cpu_ns += worker.cpu_ns
        agent.worker_busy_ns += worker.busy_ns
        agent.worker_wall_ns += worker.wall_ns
        key = worker.model, worker.worker
        totals = agent.workers.setdefault(key, WorkerTotals())
        busy, run_queue = shares(worker)
        is_busy = busy > self._busy_share_limit
        is_waiting = run_queue > self._run_queue_share_limit
        totals.wall_ns += worker.wall_ns
        if is_busy or is_waiting:
            totals.saturated_ns += worker.wall_ns
        if worker.wall_ns < self._fragment_ns:
            return
        totals.highest_busy_share = max(totals.highest_busy_share, busy)
        totals.highest_run_queue_share = max(totals.highest_run_queue_share, run_queue)


def _add_host(agent: AgentTotals, record: IntervalRecord) -> None:
    host = record.host
    if host is None:
        return
    length_ns = record.end_ns - record.start_ns
    if host.cpu_utilisation is not None:
        agent.cpu_utilisation_ns += host.cpu_utilisation * length_ns
        agent.cpu_utilisation_wall_ns += length_ns
    if host.steal_share is not None:
        agent.highest_steal_share = most(agent.highest_steal_share, host.steal_share)
    agent.throttled_ns += host.throttled_ns or 0


def _least(known: int | None, value: int) -> int:
    return value if known is None else min(known, value)
