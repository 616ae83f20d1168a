# SPDX-License-Identifier: Apache-2.0
"""The arrival rate over time, and how many arrivals are due by a time.

A profile is a sequence of segments that follow one another from T0; after the last one
there are no arrivals. With t the time since a segment's start and R(t) its rate in
arrivals per ns,

    R(t) = a + (b - a) t / d             over a duration d
    N(t) = a t + (b - a) t^2 / (2 d)     its integral from 0 to t

The run's arrivals are numbered from 0; the constant arrival x is due when N(t) = x. The
engine does the same arithmetic (agent/csrc/load/pacer.c); here it serves the plan, the
checks of a job and the reports. Pure: no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

#: Duration of a segment that does not end; the engine's time is 64 bits of ns.
FOREVER_NS = 1 << 62


class Segment(NamedTuple):
    """A piece of a profile, as the engine takes it; rates in arrivals per ns."""

    duration_ns: int
    a: float
    b: float

    def rate_at(self, t_ns: float) -> float:
        """R(t), t from the segment's start."""
        return self.a + (self.b - self.a) * t_ns / self.duration_ns

    def arrivals_by(self, t_ns: float) -> float:
        """N(t), t from the segment's start and within it."""
        return self.a * t_ns + (self.b - self.a) * t_ns * t_ns / (2 * self.duration_ns)


Profile = tuple[Segment, ...]


def hold(rate: float, duration_ns: int) -> Segment:
    return Segment(duration_ns, rate, rate)


def ramp(from_rate: float, to_rate: float, duration_ns: int) -> Segment:
    return Segment(duration_ns, from_rate, to_rate)


def arrivals_by(profile: Sequence[Segment], time_ns: float) -> float:
    """N(time), since T0."""
    total, start_ns = 0.0, 0
    for segment in profile:
        if time_ns < start_ns + segment.duration_ns:
            return total + segment.arrivals_by(time_ns - start_ns)
        total += segment.arrivals_by(segment.duration_ns)
        start_ns += segment.duration_ns
    return total


def peak_rate(profile: Iterable[Segment]) -> float:
    """The highest rate, in arrivals per ns."""
    return max((max(one.a, one.b) for one in profile), default=0.0)


def final_rate(profile: Sequence[Segment]) -> float:
    """The rate at the end of the last segment."""
    return profile[-1].rate_at(profile[-1].duration_ns) if profile else 0.0


def between(profile: Sequence[Segment], start_ns: int, end_ns: int) -> Profile:
    """The profile without arrivals before start_ns and from end_ns on."""
    kept: list[Segment] = []
    if start_ns:
        kept.append(hold(0.0, start_ns))
    begin_ns = 0
    for segment in profile:
        end = min(begin_ns + segment.duration_ns, end_ns)
        start = max(begin_ns, start_ns)
        if start < end:
            kept.append(_piece(segment, start - begin_ns, end - begin_ns))
        begin_ns += segment.duration_ns
    return tuple(kept)


def _piece(segment: Segment, from_ns: int, to_ns: int) -> Segment:
    if segment.a == segment.b:
        return hold(segment.a, to_ns - from_ns)
    return ramp(segment.rate_at(from_ns), segment.rate_at(to_ns), to_ns - from_ns)


def profile_of(
    stages: Sequence[Segment],
    *,
    ramp_up_ns: int,
    measure_start_ns: int,
    start_ns: int = 0,
    end_ns: int = 0,
) -> Profile:
    """A stream's profile over the whole run; an end_ns of 0 is the run's end.

    ramp_up rises from zero to the stages' first rate and warm_up holds it; the stages
    begin with the measure phase, or when a stream that starts later starts. After them
    the last rate holds.
    """
    first = stages[0].rate_at(0)
    begin_ns = max(measure_start_ns, start_ns)
    before: list[Segment] = []
    if ramp_up_ns:
        before.append(ramp(0.0, first, ramp_up_ns))
    if begin_ns > ramp_up_ns:
        before.append(hold(first, begin_ns - ramp_up_ns))
    whole = (*before, *stages, hold(final_rate(stages), FOREVER_NS))
    return between(_joined(whole), start_ns, end_ns or 2 * FOREVER_NS)


def _joined(segments: Iterable[Segment]) -> Profile:
    """Neighbouring segments of one constant rate as one."""
    joined: list[Segment] = []
    for segment in segments:
        last = joined[-1] if joined else None
        if last and last.a == last.b == segment.a == segment.b:
            joined[-1] = hold(
                last.a, min(last.duration_ns + segment.duration_ns, FOREVER_NS)
            )
        else:
            joined.append(segment)
    return tuple(joined)
