# SPDX-License-Identifier: Apache-2.0
"""What a verdict rests on: the run, its plan and limits, and what was collected. Pure.

A stream may start after T0, stop before the run does, or end when its count of
operations is done. Its throughput is over the part of the measure phase in which it was
at work, else it would look slower the sooner it was through.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby

from ldapslam.jobs.fields.validity import Validity
from ldapslam.jobs.run_plan import PlannedOperation, PlannedStream
from ldapslam.proto.fields import OUTCOMES
from ldapslam.reports.collect.clocks import Clock
from ldapslam.reports.collect.completeness import (
    Completeness,
    Loss,
    completeness,
    losses_of,
)
from ldapslam.reports.collect.replication import replication_of
from ldapslam.reports.collect.telemetry import MonitorSummary
from ldapslam.reports.collect.timeline import NS_PER_S, Plan
from ldapslam.reports.collect.totals import (
    ANSWERED,
    GENERATOR_LAGS,
    Collected,
    OperationTotals,
    StreamTotals,
)
from ldapslam.reports.rules.reconciliation import (
    Reconciliation,
    SentRequests,
    reconcile,
    sent_requests,
)
from ldapslam.reports.rules.steady import Steady, steady_findings
from ldapslam.reports.streams import Outage, Window
from ldapslam.results.facts import AgentFacts, ReplicationFacts
from ldapslam.results.records import EventRecord, RunRecord

_OF_MONITORS = ("observer_failed", "observer_overdue")


def window_of(
    planned: PlannedStream,
    totals: StreamTotals,
    collected: Collected,
    *,
    is_short: bool = False,
) -> Window:
    """`planned` is the stream in the run's plan; `is_short`: it has a count that it did
    not reach, so it was at work for as long as the run."""
    starts_ns, stops_ns = planned.start_ns, planned.end_ns
    last_ns = totals.last_done_ns
    elapsed_s = None
    if last_ns is not None and last_ns > starts_ns and not is_short:
        elapsed_s = (last_ns - starts_ns) / NS_PER_S
    start_ns, end_ns = collected.measure_start_ns, collected.measure_end_ns
    if start_ns is None or end_ns is None:
        return Window(None, elapsed_s)
    if planned.count and last_ns is not None and not is_short:
        end_ns = min(end_ns, last_ns)
    if stops_ns:
        # requests in flight then are completed later, and count
        end_ns = min(end_ns, max(stops_ns, last_ns or 0))
    start_ns = max(start_ns, starts_ns)
    if end_ns <= start_ns:
        return Window(None, elapsed_s)
    return Window((end_ns - start_ns) / NS_PER_S, elapsed_s)


def chains(indexes: Iterable[int]) -> Iterator[tuple[int, int]]:
    """First and last of numbers that follow each other."""
    numbered = enumerate(sorted(indexes))
    for _, group in groupby(numbered, key=lambda one: one[1] - one[0]):
        numbers = [index for _, index in group]
        yield numbers[0], numbers[-1]


def measured_s(
    streams: Mapping[str, PlannedStream], collected: Collected
) -> float | None:
    """Length of the measure phase as it was run, over all agents: to the last response
    when every stream has a count."""
    start_ns, end_ns = collected.measure_start_ns, collected.measure_end_ns
    if start_ns is None or end_ns is None:
        return None
    lasts_ns = [totals.last_done_ns or 0 for totals in collected.streams.values()]
    if lasts_ns and all(one.count for one in streams.values()):
        end_ns = min(end_ns, max(lasts_ns))
    return (end_ns - start_ns) / NS_PER_S if end_ns > start_ns else None


#: Arrivals that wait at an instant, by chance: more than 44 do in 1 % of those at which
#: all slots of an M/M/n queue at 90 % load are busy, whatever n is (0.9 ** 44).
_BY_CHANCE = 50
#: A response is long if it takes this many usual times of the most frequent operation,
#: and of the slowest.
_USUAL_TIMES = 10
_SLOW_TIMES = 3
#: Of fewer responses than these, no time is usual.
_FEW = 10


@dataclass(frozen=True)
class Evidence:
    """What the rules look at."""

    run: RunRecord
    plan: Plan
    validity: Validity
    collected: Collected
    #: Agent -> its facts.
    facts: Mapping[str, AgentFacts]
    #: Agent -> its clock over the run, if it was sampled.
    clocks: Mapping[str, Clock] = field(default_factory=dict)
    #: What was read of servers and hosts.
    monitors: tuple[MonitorSummary, ...] = ()
    events: Sequence[EventRecord] = ()
    #: Stream -> its outages (reports/rules/outages.py).
    outages: Mapping[str, Outage] = field(default_factory=dict)

    @cached_property
    def streams(self) -> Mapping[str, PlannedStream]:
        """The planned streams by name."""
        return self.run.plan.by_stream

    @property
    def has_realtime(self) -> bool:
        """Have all agents real-time priority? Then they do not lack CAP_SYS_NICE."""
        agents = self.facts.values()
        return bool(agents) and all(one.realtime for one in agents)

    def sessions_of(self, stream: str) -> int:
        """Begun, or dropped; each page of a paged search counts like a session, and so
        does each operation of a Python class: this may be too many, never too few."""
        return sum(count for _, count in self._first_requests(stream))

    def _first_requests(self, stream: str) -> Iterator[tuple[PlannedOperation, int]]:
        """The operations that begin sessions, and how many of each were due."""
        for operation in self.streams[stream].operations:
            totals = self.collected.operations.get((stream, operation.name))
            if totals is not None and operation.is_first:
                counts = totals.whole
                yield operation, counts["scheduled"] - counts["substituted"]

    def is_replay(self, stream: str) -> bool:
        return self.run.plan.stream(stream).is_replay

    def arrivals_due(self, stream: str) -> float | None:
        """Return the arrivals planned in the measure phase; None without a rate."""
        start_ns, end_ns = (
            self.collected.measure_start_ns,
            self.collected.measure_end_ns,
        )
        if start_ns is None or end_ns is None:
            return None
        planned = self.streams[stream]
        start_ns = max(start_ns, planned.start_ns)
        end_ns = min(end_ns, planned.end_ns or end_ns)
        return planned.arrivals_due(start_ns, end_ns) if end_ns > start_ns else None

    def arrivals_of(self, stream: str) -> int:
        """Scheduled in the measure phase; too many, never too few, as `sessions_of`."""
        return sum(
            self.collected.operations[stream, operation.name].measured["scheduled"]
            for operation, _ in self._first_requests(stream)
        )

    def is_short(self, stream: str) -> bool:
        """Has it a count that was not reached?"""
        count = self.streams[stream].count
        return count is not None and self.sessions_of(stream) < count

    def may_be_short(self, stream: str) -> bool:
        """Is it not certain that a count was reached? It is when its agents have ended
        before the plan did, or when no session can have counted twice."""
        planned = self.streams[stream]
        count = planned.count
        ends = self._early_ends(stream)
        if count is None or (ends and all(ends)):
            return self.is_short(stream)
        sessions = 0
        for operation, requests in self._first_requests(stream):
            if operation.is_paged or planned.engine == "python":
                return True
            sessions += -(-requests // operation.per_session)
        return sessions < count

    def _early_ends(self, stream: str) -> list[bool]:
        """Return for each agent of the stream whether it ended before the plan did."""
        planned = len(self.plan.intervals)
        return [
            agent.final_index is not None and agent.final_index < planned
            for agent in self.collected.agents.values()
            if stream in agent.streams
        ]

    def totals_of(self, stream: str) -> StreamTotals:
        """Empty where no agent reported of it."""
        return self.collected.streams.get(stream, StreamTotals())

    def window_of(self, stream: str) -> Window:
        """When the stream was at work."""
        planned = self.run.plan.stream(stream)
        totals = self.totals_of(stream)
        is_short = stream in self.streams and self.is_short(stream)
        window = window_of(planned, totals, self.collected, is_short=is_short)
        if stream in self.streams and self.may_be_short(stream):
            return replace(window, elapsed_s=None)
        return window

    def outage_of(self, stream: str) -> Outage:
        """When its connections were down, or its requests had no response."""
        return self.outages.get(stream, Outage())

    def unsent_of(self, stream: str) -> float | None:
        """The arrivals that waited for a connection when the stream's load ended within
        the measure phase, or that phase, as a share of all that it had; None of streams
        without a backlog.

        A queue is never empty for long under load: what chance leaves waiting, and the
        stream works off in a few response times, is none that it cannot carry, and
        counts as 0.
        """
        waiting = self.totals_of(stream).waiting
        window_s = self.window_of(stream).measure_s
        is_open = self.run.plan.stream(stream).model == "open"
        begun = self.arrivals_of(stream) if is_open else 0
        if waiting is None or not begun or not window_s:
            return None
        due = self.arrivals_due(stream) or begun
        behind_s = waiting[1] / max(begun - waiting[1], 1) * window_s
        if waiting[1] <= _BY_CHANCE and behind_s <= self.long_response_s(stream):
            return 0.0
        return min(1.0, waiting[1] / min(begun, due))

    def stalled_s(self, stream: str, intervals: range) -> float:
        """Return how long each of its agents stood still in these intervals or their
        neighbours, as an agent may report it later."""
        near = range(intervals[0] - 1, intervals[-1] + 2)
        stalled_ns = (
            max(agent.stalled[one] for one in near)
            for agent in self.collected.agents.values()
            if stream in agent.streams
        )
        return min(stalled_ns, default=0) / NS_PER_S

    def has_stalled_at_end(self, stream: str) -> bool:
        """Did an agent stand still when the measure phase ended?"""
        waiting = self.totals_of(stream).waiting
        return waiting is not None and any(
            agent.stalled[one] > 0
            for agent in self.collected.agents.values()
            if stream in agent.streams
            for one in (waiting[0] - 1, waiting[0])
        )

    def usual_response_s(self, stream: str, server: str = "") -> float:
        """Return the usual response time of the most frequent operation; of a slower
        server, its lower quartile, which what waited for a silence to end hardly
        moves."""
        of_all = max(self._usual_s[stream], default=(0, 0.0))[1]
        own_ns = [
            totals.servers[server].times["response_time"].percentile(25) or 0
            for (name, _), totals in self.collected.operations.items()
            if name == stream and server in totals.servers
        ]
        return max(of_all, *(time_ns / NS_PER_S for time_ns in own_ns), 0.0)

    def long_response_s(self, stream: str, server: str = "") -> float:
        """Return a time that no usual response takes."""
        slowest_s = max((time_s for _, time_s in self._usual_s[stream]), default=0.0)
        usual_s = self.usual_response_s(stream, server)
        return max(_USUAL_TIMES * usual_s, _SLOW_TIMES * slowest_s)

    @cached_property
    def _usual_s(self) -> Mapping[str, list[tuple[int, float]]]:
        """Stream -> responses and usual response time of each operation."""
        found: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
        for key, totals in self.collected.operations.items():
            usual_s = self._usual_response_s(*key)
            found[key[0]].append((totals.measured["completed"], usual_s))
        return found

    def _usual_response_s(self, stream: str, operation: str) -> float:
        """The lowest median of the charts' points, so that what waited for a silence to
        end is no part of it; of all responses, where the points have too few. Of few
        responses, none is usual: then it is the slowest."""
        timeline, key = self.collected.timeline, (stream, operation)
        series = timeline.operations.get(key)
        points_us = [series.p50_us[place] for place in timeline.measured if series]
        known_us = [one for one in points_us if one is not None]
        if known_us:
            return min(known_us) / 1e6
        times = self.collected.operations[key].union("response_time", ANSWERED)
        if times.total < _FEW:
            return times.max_ns / NS_PER_S
        return (times.percentile(50) or 0) / NS_PER_S

    def loop_share(self, stream: str) -> float:
        """Lags of the generator as a share of the time of a closed stream's clients, in
        which these sent nothing; 0 of other streams."""
        planned = self.run.plan.stream(stream)
        window_s, clients = self.window_of(stream).measure_s, planned.clients
        if planned.model != "closed" or not clients or not window_s:
            return 0.0
        share: float = self._lags_ns[stream] / NS_PER_S / (clients * window_s)
        return min(0.99, share)

    @cached_property
    def _lags_ns(self) -> Counter[str]:
        """Stream -> sum of the generator's lags."""
        found: Counter[str] = Counter()
        for (stream, _), totals in self.collected.operations.items():
            for lag in GENERATOR_LAGS:
                found[stream] += totals.union(lag, OUTCOMES).sum_ns
        return found

    @cached_property
    def missing_share(self) -> float:
        """The share of the measured intervals, over all agents."""
        due = self.completeness.measure_due
        return (due - self.completeness.measure_there) / due if due else 0.0

    def unseen_s(self, stream: str) -> tuple[float, float]:
        """Time of the measure phase that none of its agents reported: the longest at a
        stretch, and all of it."""
        seen = [
            agent.seen
            for agent in self.collected.agents.values()
            if stream in agent.streams and agent.seen
        ]
        last = max(map(max, seen), default=-1)
        unseen = {
            index
            for index, interval in enumerate(self.plan.intervals[: last + 1])
            if interval.phase == "measure" and not any(index in one for one in seen)
        }
        lengths_s = [
            (self.plan.span_ns(end)[1] - self.plan.span_ns(first)[0]) / NS_PER_S
            for first, end in chains(unseen)
        ]
        return max(lengths_s, default=0.0), sum(lengths_s)

    def operation_plan(self, key: tuple[str, str]) -> PlannedOperation:
        """With all defaults where none is planned by this name."""
        return self.run.plan.stream(key[0]).operation(key[1])

    def was_through_before(self, stream: str) -> bool:
        """Did it come to an end of its own before the measure phase?"""
        planned = self.run.plan.stream(stream)
        has_end = bool(planned.count or planned.end_ns)
        return has_end and self.window_of(stream).measure_s is None

    def ended_early(self, stream: str) -> bool:
        """Did an agent that drove it end before the plan did?"""
        return any(self._early_ends(stream))

    def operations_of(self, model: str) -> dict[tuple[str, str], OperationTotals]:
        streams = {
            name for name, stream in self.streams.items() if stream.model == model
        }
        return {
            key: totals
            for key, totals in self.collected.operations.items()
            if key[0] in streams
        }

    @property
    def paged_operations(self) -> set[tuple[str, str]]:
        return {
            (name, operation.name)
            for name, stream in self.streams.items()
            for operation in stream.operations
            if operation.is_paged
        }

    @cached_property
    def steady(self) -> Mapping[tuple[str, str], Steady]:
        """The finding for each operation under constant load."""
        found = steady_findings(self.collected.timeline, self.streams)
        return {(one.stream, one.operation): one for one in found}

    @cached_property
    def losses(self) -> dict[str, Loss]:
        """Agent -> when and why it was lost."""
        return losses_of(self.events, self.run.agents, self.run.t0_utc)

    @cached_property
    def observer_failures(self) -> list[str]:
        """Why monitors saw nothing more, or nothing at all."""
        return [event.text for event in self.events if event.kind in _OF_MONITORS]

    @cached_property
    def completeness(self) -> Completeness:
        """What there is of what agents owed."""
        return completeness(self.run, self.plan, self.collected)

    @cached_property
    def sent_requests(self) -> SentRequests:
        """What agents sent to each server."""
        return sent_requests(self.run, self.collected)

    @cached_property
    def reconciliations(self) -> dict[str, Reconciliation]:
        """Empty where no server was watched."""
        return reconcile(self.run, self.sent_requests, self.collected)

    @cached_property
    def replication(self) -> ReplicationFacts | None:
        """What the job asked to be checked after the load."""
        return replication_of(self.run, self.observer_failures)

    @property
    def clock_deviation_limit_ns(self) -> float:
        """How far clocks may come apart during the run."""
        return self.validity.clock_deviation * self.plan.interval_s * NS_PER_S
