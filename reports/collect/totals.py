# SPDX-License-Identifier: Apache-2.0
"""What was counted in a run: by operation, stream, agent and worker. Pure data.

Parts of a run that follow each other can be collected apart and added up.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from operator import or_
from typing import NamedTuple, Self, TypeVar

from ldapslam.jobs.fields.thresholds import UNANSWERED
from ldapslam.proto.fields import LATEST_TIMES, SLOTS, STREAM_TIMES
from ldapslam.reports.collect.timeline import Timeline, highest
from ldapslam.results.histogram import Histogram

#: Outcomes of requests that had a response.
ANSWERED = ("succeeded", "expected", "failed")
#: Times of all requests, whatever their outcome.
GENERATOR_LAGS = ("send_lag", "receive_lag")
#: Counters with other words in reports than in result.json.
_TITLES = {"unresolved": "no response", "substituted": "fallback add"}
#: What disturbs a generator, and any of it.
DISTURBANCES = (
    "stood still",
    "a worker was busy throughout",
    "waited for a CPU",
    "CPU time was stolen",
    "was throttled",
)
DISTURBED = "disturbed"
#: Times in which requests without an answer rank above every value.
UNANSWERED_METRICS = ("response_time", "service_time")
#: The wall clock may be slewed, by 500 ppm at most; more than this is a step.
CLOCK_STEP_LIMIT_NS = 1_000_000
#: Steps that are kept of each agent, with their intervals.
STEPS_KEPT = 20
#: Distinct diagnostic messages that are kept for a result code of an operation.
MESSAGES_KEPT = 3
#: LDAP result code -> diagnostic messages, in the order of arrival.
Messages = Mapping[int, Sequence[str]]


#: One server's part in an interval of the measure phase: its URI, empty where there is
#: one server, and the interval's number.
Place = tuple[str, int]

N = TypeVar("N")


def known(choose: Callable[[N, N], N], one: N | None, other: N | None) -> N | None:
    """What is chosen of two values, of which either may be None."""
    if one is None or other is None:
        return other if one is None else one
    return choose(one, other)


def first_messages(one: Messages, later: Messages) -> Messages:
    """Return the first MESSAGES_KEPT of both."""
    return {
        code: list(dict.fromkeys((*one.get(code, ()), *later.get(code, ()))))[
            :MESSAGES_KEPT
        ]
        for code in {**one, **later}
    }


#: What a generator that is disturbed may have caused, or delayed.
IN_DOUBT = ("completed", "dropped", "timed_out", "unresolved")

#: How two parts of a run are added up; numbers without it are summed.
_HIGHEST = {"add": partial(known, max)}
_FIRST_MESSAGES = {"add": first_messages}
_FURTHEST = {"add": lambda one, other: max(one, other, key=abs)}
_FIRST_STEPS = {
    "add": lambda one, other: dict(sorted({**one, **other}.items())[:STEPS_KEPT])
}


class Responses(NamedTuple):
    """Of one server in an interval, over all agents; ns after T0, 0: none."""

    last_ns: int
    #: The longest silence that ended, of all who waited: the last response before it,
    #: the first request that waited, how long that is certain, and the next response.
    silence_after_ns: int
    silence_since_ns: int
    silence_through_ns: int
    silence_until_ns: int
    #: At its end: what waits for the directory does so since then, without a response.
    waiting_since_ns: int
    #: Bits of its slots: in which a response came, and in all of which one waited.
    heard: int
    waited: int

    def with_others(self, others: Responses) -> Responses:
        latest, slots = len(LATEST_TIMES), len(STREAM_TIMES) - len(SLOTS)
        return Responses(
            *map(max, self[:latest], others[:latest]),
            *map(_earliest, self[latest:slots], others[latest:slots]),
            *map(or_, self[slots:], others[slots:]),
        )


def _earliest(*times_ns: int) -> int:
    return min(filter(None, times_ns), default=0)


def _together(
    one: dict[Place, Responses], other: Mapping[Place, Responses]
) -> dict[Place, Responses]:
    for place in other:
        ours = one.get(place)
        one[place] = other[place].with_others(ours) if ours else other[place]
    return one


_TOGETHER = {"add": _together}


@dataclass(slots=True)
class _Totals:
    def add(self, later: Self) -> None:
        """Takes what came after."""
        for one in fields(self):
            ours, theirs = getattr(self, one.name), getattr(later, one.name)
            if how := one.metadata.get("add"):
                setattr(self, one.name, how(ours, theirs))
            elif isinstance(ours, Counter | set):
                ours.update(theirs)
            elif isinstance(ours, Histogram):
                ours.add(theirs)
            elif isinstance(ours, defaultdict):
                for key, value in theirs.items():
                    if isinstance(value, Counter):
                        ours[key].update(value)
                    else:
                        ours[key].add(value)
            else:
                setattr(self, one.name, ours + theirs)


@dataclass(slots=True)
class BatchTotals(_Totals):
    """One operation in consecutive intervals of the measure phase, over all agents."""

    #: Completions and successes that happened in it.
    completed: int = 0
    succeeded: int = 0
    #: Requests that its intervals counted with an intended start in the measure
    #: phase: counters, and response times of the wanted outcome, with the
    #: requests without an answer.
    measured: Counter[str] = field(default_factory=Counter)
    times: Histogram = field(default_factory=Histogram)


@dataclass(slots=True)
class ServerTotals(_Totals):
    """What one server of several was sent of an operation."""

    #: As in OperationTotals.
    whole: Counter[str] = field(default_factory=Counter)
    measured: Counter[str] = field(default_factory=Counter)
    completed_in_measure: int = 0
    #: Name in UNANSWERED_METRICS -> durations of the measured requests with the wanted
    #: outcome.
    times: defaultdict[str, Histogram] = field(
        default_factory=lambda: defaultdict(Histogram)
    )


@dataclass(slots=True)
class OperationTotals(_Totals):
    """One operation of one stream, over all agents."""

    #: In the whole run, for the accounting identities.
    whole: Counter[str] = field(default_factory=Counter)
    #: Requests with an intended start in the measure phase.
    measured: Counter[str] = field(default_factory=Counter)
    result_codes: Counter[int] = field(default_factory=Counter)
    diagnostic_messages: Messages = field(
        default_factory=dict, metadata=_FIRST_MESSAGES
    )
    #: Those of IN_DOUBT in disturbed intervals of their agents.
    disturbed: Counter[str] = field(default_factory=Counter)
    #: Completions and successes that happened within the measure phase.
    completed_in_measure: int = 0
    succeeded_in_measure: int = 0
    #: (metric, outcome) -> durations of the measured requests.
    histograms: defaultdict[tuple[str, str], Histogram] = field(
        default_factory=lambda: defaultdict(Histogram)
    )
    #: Number of a batch of the measure phase (reports/uncertainty.py) -> its totals;
    #: requests that are counted after the phase belong to the last batch.
    batches: defaultdict[int, BatchTotals] = field(
        default_factory=lambda: defaultdict(BatchTotals)
    )
    #: URI -> its part; empty where the stream has one server.
    servers: defaultdict[str, ServerTotals] = field(
        default_factory=lambda: defaultdict(ServerTotals)
    )
    #: Values above the range of the histograms, outside the measure phase.
    unmeasured_overflow: int = 0

    @property
    def overflow(self) -> int:
        """Values above the range of the histograms, in any phase."""
        measured = sum(one.overflow for one in self.histograms.values())
        return self.unmeasured_overflow + measured

    def union(self, metric: str, outcomes: Iterable[str]) -> Histogram:
        """The durations of all these outcomes."""
        keys = ((metric, outcome) for outcome in outcomes)
        known = (self.histograms[key] for key in keys if key in self.histograms)
        return Histogram.union(known)


@dataclass(slots=True)
class StreamTotals(_Totals):
    """The connections of one stream, over all agents and phases."""

    #: URI, empty where the stream has one server -> counters.
    servers: defaultdict[str, Counter[str]] = field(
        default_factory=lambda: defaultdict(Counter)
    )
    #: Name in SET_UP_TIMES -> durations.
    set_up: defaultdict[str, Histogram] = field(
        default_factory=lambda: defaultdict(Histogram)
    )
    #: When the last response was processed, since T0; None without one.
    last_done_ns: int | None = field(default=None, metadata=_HIGHEST)
    #: In the measure phase, summed over the connections: could not be made by the
    #: generator's fault.
    unable_ns: int = 0
    #: Time in which connections were lost, or not made, and not yet set up again;
    #: summed over the connections.
    down_ns: Counter[Place] = field(default_factory=Counter)
    responses: dict[Place, Responses] = field(default_factory=dict, metadata=_TOGETHER)
    #: Number of the measure phase's last interval with load of the stream, and the
    #: arrivals that waited at its end.
    waiting: tuple[int, int] | None = field(default=None, metadata=_HIGHEST)

    @property
    def counters(self) -> Counter[str]:
        """The sums over the servers."""
        return sum(self.servers.values(), Counter[str]())


@dataclass(slots=True)
class WorkerTotals(_Totals):
    """One engine thread in the measure phase."""

    wall_ns: int = 0
    highest_busy_share: float = field(default=0.0, metadata=_HIGHEST)
    highest_run_queue_share: float = field(default=0.0, metadata=_HIGHEST)


@dataclass(slots=True)
class AgentTotals(_Totals):
    """One agent; statistics of the measure phase unless said otherwise."""

    completed_in_measure: int = 0
    #: (stream, operation) -> counters of its measured requests.
    operations: defaultdict[tuple[str, str], Counter[str]] = field(
        default_factory=lambda: defaultdict(Counter)
    )
    #: (stream, operation) -> response times of measured successes, or of expected
    #: results where the job expects no success.
    response_times: defaultdict[tuple[str, str], Histogram] = field(
        default_factory=lambda: defaultdict(Histogram)
    )
    #: (model, worker) -> its statistics.
    workers: defaultdict[tuple[str, int], WorkerTotals] = field(
        default_factory=lambda: defaultdict(WorkerTotals)
    )
    worker_cpu_ns: int = 0
    worker_busy_ns: int = 0
    worker_wall_ns: int = 0
    #: Length of its intervals; and of those in which the generator was disturbed, by
    #: what (DISTURBANCES), and in all. By length: a run that ends early has a last
    #: interval of any length.
    wall_ns: int = 0
    disturbed_ns: Counter[str] = field(default_factory=Counter)
    #: Number of an interval -> how long it stood still in it, or around it, in ns.
    stalled: Counter[int] = field(default_factory=Counter)
    #: Weighted by the length of the intervals that have it.
    cpu_utilisation_ns: float = 0.0
    cpu_utilisation_wall_ns: int = 0
    highest_steal_share: float | None = field(default=None, metadata=_HIGHEST)
    throttled_ns: int = 0
    #: The longest that a thread woke up late from a sleep of 1 ms, and the sum of all
    #: that were 1 ms and more; over the length of the intervals that tell it.
    longest_hiccup_ns: int | None = field(default=None, metadata=_HIGHEST)
    stalled_ns: int = 0
    hiccups_wall_ns: int = 0
    #: Whole run: the largest, by amount; and the first that were steps indeed, by the
    #: interval that they were in.
    clock_step_ns: int = field(default=0, metadata=_FURTHEST)
    clock_steps_ns: dict[int, int] = field(default_factory=dict, metadata=_FIRST_STEPS)
    #: Intervals with such a step.
    stepped: int = 0
    #: Whole run: the numbers of the intervals that arrived, without the drain.
    seen: set[int] = field(default_factory=set)
    #: Number of its last interval, the drain; None while that has not arrived.
    final_index: int | None = field(default=None, metadata=_HIGHEST)
    #: Number and end of the interval that its early end cut short, before the drain;
    #: None without an early end.
    cut: tuple[int, int] | None = field(default=None, metadata=_HIGHEST)
    #: The streams that it drove.
    streams: set[str] = field(default_factory=set)

    @property
    def measured(self) -> Counter[str]:
        """The counters over all operations."""
        return sum(self.operations.values(), Counter[str]())

    @property
    def stalled_share(self) -> float | None:
        """Stalls as a share of the time in which hiccups were measured."""
        wall_ns = self.hiccups_wall_ns
        return self.stalled_ns / wall_ns if wall_ns else None

    @property
    def in_full(self) -> set[int]:
        """The numbers of the intervals that arrived and were not cut short."""
        return self.seen if self.cut is None else self.seen - {self.cut[0]}


@dataclass(slots=True)
class Collected:
    timeline: Timeline
    #: By planned interval: 1 where every agent at work reported all of it.
    complete: bytearray
    operations: dict[tuple[str, str], OperationTotals]
    streams: dict[str, StreamTotals]
    agents: dict[str, AgentTotals]
    #: First start and last end of the measure phase's intervals, None without any.
    measure_start_ns: int | None
    measure_end_ns: int | None
    #: Reports, of all agents.
    intervals: int

    def add(self, later: Collected) -> None:
        """Takes what was collected of the intervals after these."""
        self.timeline.extend(later.timeline)
        self.complete = highest(self.complete, later.complete)
        for key, operation in later.operations.items():
            self.operations.setdefault(key, OperationTotals()).add(operation)
        for name, stream in later.streams.items():
            self.streams.setdefault(name, StreamTotals()).add(stream)
        for name, agent in later.agents.items():
            self.agents.setdefault(name, AgentTotals()).add(agent)
        for name, choose in (("measure_start_ns", min), ("measure_end_ns", max)):
            setattr(
                self, name, known(choose, getattr(self, name), getattr(later, name))
            )
        self.intervals += later.intervals

    @property
    def last_index(self) -> int:
        """Number of the last interval that any agent reported, if only a part of it;
        -1 without any. Drains are none."""
        seen = (max(agent.seen) for agent in self.agents.values() if agent.seen)
        return max(seen, default=-1)


def counter_title(name: str) -> str:
    """A counter or an outcome in words."""
    return _TITLES.get(name, name.replace("_", " "))


def unanswered(counts: Mapping[str, int]) -> int:
    """Requests without an answer."""
    return sum(counts[name] for name in UNANSWERED)
