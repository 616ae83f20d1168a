# SPDX-License-Identifier: Apache-2.0
"""Agents' clocks over the run: how far their intervals diverged. Pure arithmetic.

T0 is given to an agent as a time of its own monotonic clock, by the offset O0 from the
coordinator's, and from then on the agent cuts its intervals by its own clock. At time t
its interval boundaries are early or late by

    deviation(t) = offset(t) - O0        known to ± the bound of the sample at t

so the error of O0 itself is the deviation at the start. Totals, percentiles and
throughput of the run do not depend on it: requests are counted once, and their times
are differences of one clock. A statistic of one interval over all agents does: with a
deviation of d, up to d / interval of it happened outside the interval.

A sample bounds the offset at other times too, more loosely, by what clocks drift:

    |offset(t) - offset_i| <= bound_i + DRIFT_LIMIT * |t - t_i|

which covers single exchanges that were delayed. A step is a change from one sample to
the next that neither the bounds of both nor the largest drift allow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ldapslam.reports.collect.timeline import NS_PER_S
from ldapslam.results.facts import AgentFacts
from ldapslam.results.records import ClockSample

#: Two hosts' monotonic clocks, one against the other: 100 parts per million.
DRIFT_LIMIT = 100e-6
_STEPS_KEPT = 50


@dataclass(frozen=True, slots=True)
class Deviation:
    """How far the agent's intervals were off at one time; positive: later."""

    at_s: float
    ns: float
    bound_ns: float

    @property
    def at_most_ns(self) -> float:
        return abs(self.ns) + self.bound_ns


@dataclass(frozen=True, slots=True)
class Clock:
    """One agent's clock over the run."""

    #: In the order of time, one at least.
    deviations: tuple[Deviation, ...]
    #: Jumps against the coordinator's clock, the first of them.
    steps: tuple[Deviation, ...]
    step_count: int

    @property
    def largest(self) -> Deviation:
        """The deviation with the largest upper bound."""
        return max(self.deviations, key=lambda one: one.at_most_ns)


def clocks_of(
    samples: Mapping[str, Sequence[ClockSample]],
    facts: Mapping[str, AgentFacts],
) -> dict[str, Clock]:
    """Return the clocks of the agents that have a sample, by agent."""
    clocks = {}
    for agent, found in sorted(samples.items()):
        if found:
            known = facts.get(agent, AgentFacts())
            told_us, bound_us = known.clock_offset_us, known.clock_offset_bound_us
            first_ns = found[0].offset_ns
            told_ns = first_ns if told_us is None else round(told_us * 1000)
            clocks[agent] = clock_of(
                found, told_ns, None if bound_us is None else bound_us * 1000
            )
    return clocks


def clock_of(
    samples: Sequence[ClockSample], told_ns: int, told_bound_ns: float | None = None
) -> Clock:
    """`samples` are in the order of time; `told_ns` is the offset by which T0 was
    converted, `told_bound_ns` its bound then."""
    raw = [
        Deviation(one.at_ns / NS_PER_S, one.offset_ns - told_ns, one.bound_ns)
        for one in samples
    ]
    steps = list(_steps(raw))
    known = [] if told_bound_ns is None else [Deviation(0.0, 0.0, told_bound_ns)]
    return Clock(
        # the bound of T0 still holds where later exchanges were delayed
        deviations=tuple(_tightened([*known, *raw])[len(known) :]),
        steps=tuple(steps[:_STEPS_KEPT]),
        step_count=len(steps),
    )


def _steps(raw: Sequence[Deviation]) -> Iterable[Deviation]:
    for before, after in pairwise(raw):
        allowed_ns = before.bound_ns + after.bound_ns
        drifted_ns = DRIFT_LIMIT * (after.at_s - before.at_s) * NS_PER_S
        if abs(after.ns - before.ns) > allowed_ns + drifted_ns:
            yield Deviation(after.at_s, after.ns - before.ns, allowed_ns)


def _tightened(raw: Sequence[Deviation]) -> list[Deviation]:
    """Return each sample, with the bound of a nearby sample if that is tighter."""
    best = list(raw)
    for order in (range(len(raw)), reversed(range(len(raw)))):
        carried: Deviation | None = None
        for place in order:
            at_s = raw[place].at_s
            if carried is not None:
                aged_ns = DRIFT_LIMIT * abs(at_s - carried.at_s) * NS_PER_S
                carried = Deviation(at_s, carried.ns, carried.bound_ns + aged_ns)
            if carried is None or best[place].bound_ns <= carried.bound_ns:
                carried = best[place]
            best[place] = carried
    return best
