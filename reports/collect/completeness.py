# SPDX-License-Identifier: Apache-2.0
"""Which intervals of a run are missing, by agent. Pure.

Nothing is ever filled in. A run that came to its end owes every planned interval and
each agent's drain. A run that was ended early owes the intervals before its drain,
whatever an agent without a coordinator measured later. A run that is not over, or has
no decided drain, owes the intervals up to the last that any agent sent in full. If all
streams of an agent have a count, as the logs of replays have, it owes the intervals up
to its own last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import groupby

from ldapslam.reports.collect.timeline import NS_PER_S, Plan
from ldapslam.reports.collect.totals import Collected
from ldapslam.results.records import FINAL_STATES, EventRecord, RunRecord


@dataclass(frozen=True, slots=True)
class Gap:
    """Intervals that an agent owed and the store does not have."""

    agent: str
    first_index: int
    last_index: int
    start_s: float
    end_s: float

    @property
    def count(self) -> int:
        return self.last_index - self.first_index + 1

    @property
    def numbers(self) -> str:
        """As people read them: 4, or 4–7."""
        if self.first_index == self.last_index:
            return str(self.first_index)
        return f"{self.first_index}\N{EN DASH}{self.last_index}"


@dataclass(frozen=True, slots=True)
class Partial:
    """The interval in which an agent's load ended, before the plan had it."""

    agent: str
    index: int
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Completeness:
    """What a run lacks."""

    #: By agent, then time.
    gaps: tuple[Gap, ...]
    partials: tuple[Partial, ...]
    #: Intervals of the measure phase, of all agents: due, and there in full.
    measure_due: int
    measure_there: int
    #: Agents that began the load and delivered no drain: they may have sent requests
    #: that no interval counts.
    undrained: tuple[str, ...]
    #: More may still come.
    is_live: bool

    @cached_property
    def missing(self) -> Counter[str]:
        """Agent -> number of its missing intervals."""
        missing: Counter[str] = Counter()
        for gap in self.gaps:
            missing[gap.agent] += gap.count
        return missing


def completeness(run: RunRecord, plan: Plan, collected: Collected) -> Completeness:
    """Return what the planned agents lack; `collected` has an entry for each."""
    due, planned = _due(run, plan, collected), len(plan.intervals)
    gaps: list[Gap] = []
    partials: list[Partial] = []
    measured = measured_due = 0
    for name in run.agents:
        agent = collected.agents[name]
        owed = due
        last = agent.final_index
        if last is not None and plan.all_counted(agent.streams):
            if last < planned:
                owed = [index for index in due if index < last]
        elif agent.cut is not None:
            index, end_ns = agent.cut
            start_ns, _ = plan.span_ns(index)
            # a load that ended before T0 has its first interval cut
            end_s = max(start_ns, end_ns) / NS_PER_S
            partials.append(Partial(name, index, start_ns / NS_PER_S, end_s))
        missing = [
            index
            for index in owed
            # the drain is whatever was its last
            if (index not in agent.seen if index < planned else last is None)
        ]
        gaps += _gaps(name, missing, plan)
        in_measure = [index for index in owed if plan.phase_of(index) == "measure"]
        measured_due += len(in_measure)
        lacking = {*missing, *(one.index for one in partials if one.agent == name)}
        measured += sum(index not in lacking for index in in_measure)
    return Completeness(
        gaps=tuple(gaps),
        partials=tuple(partials),
        measure_due=measured_due,
        measure_there=measured,
        undrained=tuple(
            name
            for name in run.agents
            if run.t0_utc is not None and collected.agents[name].final_index is None
        ),
        is_live=run.state not in FINAL_STATES,
    )


def _due(run: RunRecord, plan: Plan, collected: Collected) -> Sequence[int]:
    """Return the intervals that an agent owes if it is never lost; the drain follows
    the planned intervals."""
    planned = len(plan.intervals)
    if run.state == "finished":
        # where counts ended the run, the plan goes on
        return range(plan.shown + (0 < planned == plan.shown))
    ending = run.manifest.ending
    if ending is not None and (drained_ns := ending.drained_ns) is not None:
        # what it was told in is cut short
        return range(sum(one.end_ns <= drained_ns for one in plan.intervals))
    in_full = [agent.in_full for agent in collected.agents.values()]
    lasts = (max(numbers) for numbers in in_full if numbers)
    return range(min(planned, max(lasts, default=-1) + 1))


def _gaps(agent: str, missing: Sequence[int], plan: Plan) -> Iterator[Gap]:
    # in a run of neighbours, number and place differ by the same
    for _, group in groupby(enumerate(missing), key=lambda one: one[1] - one[0]):
        numbers = [index for _, index in group]
        start_ns, _ = plan.span_ns(numbers[0])
        _, end_ns = plan.span_ns(numbers[-1])
        yield Gap(
            agent, numbers[0], numbers[-1], start_ns / NS_PER_S, end_ns / NS_PER_S
        )


#: Their texts begin with the agent, as the coordinator writes them.
_KINDS = ("agent_lost", "agent_early", "agent_failed")


@dataclass(frozen=True, slots=True)
class Loss:
    """The end of an agent's part before its time."""

    #: Since T0: when the coordinator knew.
    at_s: float
    reason: str


def losses_of(
    events: Iterable[EventRecord], agents: Sequence[str], t0_utc: str | None
) -> dict[str, Loss]:
    """Agent -> its first loss; none of a run without T0."""
    losses: dict[str, Loss] = {}
    if t0_utc is None:
        return losses
    t0 = datetime.fromisoformat(t0_utc)
    for event in events:
        for agent in agents:
            start = f"agent {agent!r}: "
            if event.kind in _KINDS and event.text.startswith(start):
                at_s = (datetime.fromisoformat(event.at_utc) - t0).total_seconds()
                losses.setdefault(agent, Loss(at_s, event.text.removeprefix(start)))
    return losses
