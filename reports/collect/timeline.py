# SPDX-License-Identifier: Apache-2.0
"""The run's time axis: planned intervals, merged for display, and what each shows.

A chart has at most DISPLAY_POINTS points, and one more for each phase. Where a run has
more intervals, neighbours of one phase are merged: their histograms and counters are
added, nothing is sampled away, and envelopes keep the lowest and highest of the single
intervals. Statistics are of the intervals that every agent reported in full; a point
without any is a gap: its statistics are None, never interpolated.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from functools import cached_property
from itertools import pairwise, starmap
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ldapslam.jobs.run_plan import PlannedStream, RunPlan
from ldapslam.results.facts import AgentFacts

DISPLAY_POINTS = 600
#: Reports and intervals of a part of a run, at least; and parts of a run, about.
_PART_REPORTS, _PART_INTERVALS, _MOST_PARTS = 20_000, 60, 300
NS_PER_S = 1_000_000_000
#: Higher than any number of an interval.
_NO_INTERVAL = 1 << 31


@dataclass(frozen=True, slots=True)
class Phase:
    name: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Interval:
    """A planned interval; its number is its place in the plan."""

    phase: str
    start_ns: int
    end_ns: int


#: One value for each point; None in a gap or without enough data.
Values = list[float | None]

#: In us, ten in each power of ten: the rows of a heat map lie between them.
HEAT_EDGES_US = 10 ** (np.arange(-10, 97) / 10)


@dataclass(slots=True)
class Envelope:
    """Lowest and highest of the single intervals in each point."""

    low: Values = field(default_factory=list)
    high: Values = field(default_factory=list)


@dataclass(slots=True)
class Series:
    """An operation, a stream, an agent or a server over the points of the timeline: a
    list for each figure, with None at the points that do not have it.

    Times in us, of successes; requests without an answer rank above them. Send lag is
    that of all requests.
    """

    #: Arrivals that were due.
    offered_per_s: Values = field(default_factory=list)
    throughput_per_s: Values = field(default_factory=list)
    #: Of ERRORS.
    errors_per_s: Values = field(default_factory=list)
    p50_us: Values = field(default_factory=list)
    p90_us: Values = field(default_factory=list)
    p99_us: Values = field(default_factory=list)
    max_us: Values = field(default_factory=list)
    #: Number of requests that the percentiles are taken over.
    sample: Values = field(default_factory=list)
    #: Requests without an answer, within `sample`.
    unanswered: Values = field(default_factory=list)
    service_p99_us: Values = field(default_factory=list)
    send_lag_p99_us: Values = field(default_factory=list)
    #: Response times by HEAT_EDGES_US.
    heat: list[tuple[int, ...] | None] = field(default_factory=list)
    #: A stream's gauges: the mean of each interval (see ServiceSlots), and at its end.
    in_flight: Values = field(default_factory=list)
    backlog: Values = field(default_factory=list)
    #: An agent's: in the busiest worker and the busiest interval of the point.
    busy_share: Values = field(default_factory=list)
    run_queue_share: Values = field(default_factory=list)
    #: Name of a list above -> its envelope, where points are of several intervals.
    envelopes: dict[str, Envelope] = field(default_factory=dict)


@dataclass(slots=True)
class Shown:
    """What one point has of an operation, a stream, an agent or a server."""

    #: Name of a list of its series -> value.
    values: Mapping[str, float | None]
    heat: tuple[int, ...] | None = None
    #: Name -> lowest and highest of the single intervals.
    spread: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(slots=True)
class Point:
    """A point of the charts; without operations, no interval of it is complete."""

    #: Edges in s since T0; a gap in time has points on neither side.
    start_s: float
    end_s: float
    operations: Mapping[tuple[str, str], Shown] = field(default_factory=dict)
    streams: Mapping[str, Shown] = field(default_factory=dict)
    agents: Mapping[str, Shown] = field(default_factory=dict)
    servers: Mapping[str, Shown] = field(default_factory=dict)


_Key = TypeVar("_Key")
_NOTHING = Shown({})
_FIGURES = [one.name for one in fields(Series) if one.name not in ("heat", "envelopes")]


def _series(points: Sequence[Mapping[_Key, Shown]]) -> dict[_Key, Series]:
    """Key -> what all points show of it."""
    found = {key: Series() for point in points for key in point}
    for key, series in found.items():
        shown = [point.get(key, _NOTHING) for point in points]
        for name in _FIGURES:
            setattr(series, name, [one.values.get(name) for one in shown])
        series.heat = [one.heat for one in shown]
        for name in dict.fromkeys(name for one in shown for name in one.spread):
            ends = [one.spread.get(name, (None, None)) for one in shown]
            series.envelopes[name] = Envelope(*map(list, zip(*ends, strict=True)))
    return found


class IntervalState(IntEnum):
    """An interval of the measure phase against one threshold."""

    #: It is not complete, has too few requests, or the generator was disturbed.
    UNKNOWN = 0
    MET = 1
    MISSED = 2


@dataclass
class Timeline:
    phases: tuple[Phase, ...]
    #: Planned intervals in one point of the charts, at most.
    intervals_per_point: int
    points: list[Point] = field(default_factory=list)
    #: From and to in s since T0: planned intervals that are not complete.
    gaps: list[tuple[float, float]] = field(default_factory=list)
    #: Expression of a threshold on a percentile, or of one that must be missed for some
    #: time -> (stream, operation) -> an IntervalState for each planned interval.
    states: dict[str, dict[tuple[str, str], bytearray]] = field(default_factory=dict)

    @cached_property
    def start_s(self) -> list[float]:
        return [one.start_s for one in self.points]

    @cached_property
    def end_s(self) -> list[float]:
        return [one.end_s for one in self.points]

    @cached_property
    def operations(self) -> dict[tuple[str, str], Series]:
        """(stream, operation) -> statistics."""
        return _series([one.operations for one in self.points])

    @cached_property
    def streams(self) -> dict[str, Series]:
        return _series([one.streams for one in self.points])

    @cached_property
    def agents(self) -> dict[str, Series]:
        """None where an agent did not report."""
        return _series([one.agents for one in self.points])

    @cached_property
    def servers(self) -> dict[str, Series]:
        """URI -> statistics; of the streams that have several servers."""
        return _series([one.servers for one in self.points])

    @property
    def measured(self) -> list[int]:
        """Places of the points of the measure phase."""
        span = next((one for one in self.phases if one.name == "measure"), None)
        if span is None:
            return []
        edges = zip(self.start_s, self.end_s, strict=True)
        return [
            place
            for place, edges_s in enumerate(edges)
            if span.start_s < sum(edges_s) / 2 < span.end_s
        ]

    def extend(self, later: Timeline) -> None:
        """Takes the points that follow."""
        self.points += later.points
        for expression, of_operations in later.states.items():
            known = self.states.setdefault(expression, {})
            for key, more in of_operations.items():
                # an interval is in one part only
                known[key] = highest(known.get(key, bytes(len(more))), more)

    def states_of(self, expression: str) -> bytes | None:
        """Return the states over all operations of a threshold: an interval is missed
        if any operation misses it. None: the threshold is not about intervals."""
        found = self.states.get(expression)
        if found is None:
            return None
        return bytes(map(max, zip(*found.values(), strict=True)))


def with_facts(plan: RunPlan, facts: Mapping[str, AgentFacts]) -> RunPlan:
    """A run's plan with what its agents found out, by their facts: the requests in the
    log of a replay, which are its count, and the result codes that it, or a Python
    class, expected."""
    return replace(
        plan, streams=tuple(_stream_with(stream, facts) for stream in plan.streams)
    )


def _stream_with(
    stream: PlannedStream, facts: Mapping[str, AgentFacts]
) -> PlannedStream:
    name, count = stream.name, stream.count
    codes: dict[str, set[int]] = {}
    for known in facts.values():
        expected = [known.python_expected_codes.get(name, {})]
        if (replay := known.replays.get(name)) is not None:
            count = replay.count
            expected.append(replay.expected_codes)
        for by_operation in expected:
            for operation, of_operation in by_operation.items():
                codes.setdefault(operation, set()).update(of_operation)
    operations = tuple(
        replace(operation, expected_codes=tuple(sorted(codes[operation.name])))
        if operation.name in codes
        else operation
        for operation in stream.operations
    )
    return replace(stream, count=count, operations=operations)


class Plan:
    """The planned intervals of a run and the points they are shown as."""

    def __init__(self, plan: RunPlan, extent: tuple[int, int] | None = None) -> None:
        """`extent`: number of the last interval there is, and the run's end in ns. When
        every stream came to the end of its count, charts end there."""
        self._plan = plan
        self._starts = [span.start_ns for span in plan.phases]
        self.phases = tuple(
            Phase(span.name, span.start_ns / NS_PER_S, span.end_ns / NS_PER_S)
            for span in plan.phases
        )
        boundaries = plan.boundaries_ns
        starts = [0, *boundaries[:-1]] if boundaries else []
        self._begins_ns = starts
        self.intervals = tuple(
            Interval(self._phase_at((start_ns + end_ns) // 2), start_ns, end_ns)
            for start_ns, end_ns in zip(starts, boundaries, strict=True)
        )
        longest_ns = max(
            (one.end_ns - one.start_ns for one in self.intervals), default=0
        )
        #: Length of a full interval.
        self.interval_s = longest_ns / NS_PER_S
        shown = self.intervals
        is_counted = self.all_counted(plan.by_stream)
        if extent and 0 <= extent[0] < len(shown) and is_counted:
            shown = shown[: extent[0] + 1]
            self.phases = _cut(self.phases, extent[1] / NS_PER_S)
        #: Number of planned intervals in the charts.
        self.shown = len(shown)
        self.intervals_per_point = -(-max(len(shown), 1) // DISPLAY_POINTS)
        self._point_of = _points(shown, self.intervals_per_point)

    def point(self, index: int) -> int:
        """Number of the point that shows an interval; the drain has one of its own."""
        if index < len(self._point_of):
            return self._point_of[index]
        last = self._point_of[-1] if self._point_of else -1
        return last + 1 + index - len(self._point_of)

    def parts(self, agents: int) -> list[range]:
        """The numbers of all intervals, with the drain and any that follow it, in
        parts that begin where a point does."""
        reports, most = -(-_PART_REPORTS // max(agents, 1)), len(self._point_of)
        step = max(reports, _PART_INTERVALS, most // _MOST_PARTS)
        starts = [0]
        for index, (before, point) in enumerate(pairwise(self._point_of), 1):
            if point != before and index - starts[-1] >= step:
                starts.append(index)
        return list(starmap(range, pairwise([*starts, _NO_INTERVAL])))

    def span_ns(self, index: int) -> tuple[int, int]:
        """Planned start and end of an interval; of the drain, the plan's end."""
        if index < len(self.intervals):
            return self.intervals[index].start_ns, self.intervals[index].end_ns
        end_ns = self.intervals[-1].end_ns if self.intervals else 0
        return end_ns, end_ns

    def touched(self, since_ns: int, until_ns: int) -> range:
        """Return the numbers of the intervals that a span of time touches."""
        first = max(bisect_right(self._begins_ns, since_ns) - 1, 0)
        last = max(bisect_left(self._begins_ns, until_ns) - 1, first)
        return range(first, last + 1)

    def has_load(self, stream: str, index: int) -> bool:
        """Was the stream to be at work in all of an interval?"""
        return self._plan.stream(stream).is_at_work(*self.span_ns(index))

    def phase_of(self, index: int) -> str:
        """Empty of the drain."""
        return self.intervals[index].phase if index < len(self.intervals) else ""

    def batches(self, most: int) -> npt.NDArray[np.intp]:
        """By interval, the drain last: the number of its batch, of at most this many of
        the measure phase. What comes before the phase is in the first, what comes after
        in the last."""
        is_measured = [
            one.phase == "measure" and index < self.shown
            for index, one in enumerate(self.intervals)
        ]
        before = np.cumsum([0, *is_measured])
        every = max(int(before[-1]), 1)
        batches = min(most, every)
        numbers: npt.NDArray[np.intp]
        numbers = np.minimum(before, every - 1) * batches // every
        return numbers

    def batch_lengths_s(self, most: int) -> list[float]:
        """Return the length of the measure phase in each batch."""
        lengths = [
            (one.end_ns - one.start_ns) / NS_PER_S * (one.phase == "measure")
            for one in self.intervals[: self.shown]
        ]
        numbers = self.batches(most)[: len(lengths)]
        return [float(one) for one in np.bincount(numbers, lengths)]

    def wanted_of(self, operation: tuple[str, str]) -> str:
        """Return the outcome that an operation's response times are shown for."""
        return self._plan.stream(operation[0]).operation(operation[1]).shown_outcome

    def all_counted(self, streams: Iterable[str]) -> bool:
        """Do all of these streams end by a count?"""
        return all(self._plan.stream(name).count for name in streams)

    def _phase_at(self, at_ns: int) -> str:
        place = bisect_right(self._starts, at_ns) - 1
        return self.phases[place].name if place >= 0 else ""


def highest(one: bytes | bytearray, other: bytes | bytearray) -> bytearray:
    """The higher of both numbers at each place."""
    both = np.frombuffer(one, np.uint8), np.frombuffer(other, np.uint8)
    return bytearray(np.maximum(*both).tobytes())


def _cut(phases: Sequence[Phase], end_s: float) -> tuple[Phase, ...]:
    return tuple(
        Phase(one.name, one.start_s, min(one.end_s, end_s))
        for one in phases
        if one.start_s < end_s
    )


def _points(intervals: Sequence[Interval], per_point: int) -> list[int]:
    points: list[int] = []
    phase, used, point = None, 0, -1
    for interval in intervals:
        if interval.phase != phase or used == per_point:
            phase, used, point = interval.phase, 0, point + 1
        used += 1
        points.append(point)
    return points
