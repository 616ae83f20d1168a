# SPDX-License-Identifier: Apache-2.0
"""Fills the timeline: intervals of all agents merged into the points of the charts.

Windows come in the order of their intervals, so one point is open at a time and memory
does not grow with the run. An interval counts for the fleet when it is complete: every
planned agent reported all of it, or had ended because its counts were through. A point
adds up its complete intervals; one without any is a gap.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np

from ldapslam.reports.collect.intervals import (
    Flags,
    Floats,
    OperationSlots,
    Places,
    Slots,
)
from ldapslam.reports.collect.timeline import (
    NS_PER_S,
    AgentSeries,
    Envelope,
    Plan,
    Series,
    Timeline,
    padded,
)
from ldapslam.reports.collect.totals import known
from ldapslam.reports.distribution import us_of
from ldapslam.results.histogram import Histogram

#: Of single intervals, shown as an envelope around those of the point.
_SPREAD_OF = {"p50_us": 50.0, "p99_us": 99.0}


class TimelineBuilder:
    """`agents` are the planned ones: each is awaited until its end.

    `ended`: agents that ended before the plan did -> their last interval.
    """

    def __init__(
        self, plan: Plan, agents: Sequence[str], ended: Mapping[str, int]
    ) -> None:
        self._plan = plan
        self._awaited = tuple(agents)
        self._ended = ended
        self._timeline = Timeline(plan.phases, plan.intervals_per_point)
        self._point: _Point | None = None
        #: By planned interval: 1 where it is complete.
        self.complete = bytearray(len(plan.intervals))

    def add(self, slots: Slots) -> None:
        indexes = slots.reports.indexes
        complete = self._completeness(slots)
        for slot in np.flatnonzero(complete).tolist():
            if indexes[slot] < len(self.complete):
                self.complete[indexes[slot]] = 1
        for number, places in self._points_of(indexes):
            if self._point is None or number != self._point.number:
                self._close_point()
                self._point = _Point(number, self._plan.intervals_per_point > 1)
            self._point.add(slots, places, places[complete[places]])

    def finish(self) -> Timeline:
        self._close_point()
        timeline = self._timeline
        every: tuple[Series | AgentSeries, ...]
        every = (*timeline.operations.values(), *timeline.agents.values())
        for series in every:
            padded(series, len(timeline.start_s))
        return timeline

    def _completeness(self, slots: Slots) -> Flags:
        """By slot."""
        reports, planned = slots.reports, len(self._plan.intervals)
        numbers = np.array(reports.indexes)
        present = np.zeros((len(reports.agents), numbers.size), np.bool_)
        counted = np.array([agent in self._ended for agent in reports.agents], bool)
        whole = ~reports.is_final | (numbers[reports.slot] >= planned)
        # where counts ended the load, there was no more of that interval
        whole &= ~reports.is_cut | counted[reports.agent]
        present[reports.agent[whole], reports.slot[whole]] = True
        for code, slot in zip(
            reports.agent[~whole].tolist(), reports.slot[~whole].tolist(), strict=True
        ):
            last = self._ended.get(reports.agents[code])
            present[code, slot] = reports.indexes[slot] == last
        complete = np.ones(numbers.size, np.bool_)
        codes = {agent: code for code, agent in enumerate(reports.agents)}
        for agent in self._awaited:
            excused = numbers > self._ended.get(agent, math.inf)
            if agent in codes:
                excused |= present[codes[agent]]
            complete &= excused
        return complete

    def _points_of(self, indexes: Sequence[int]) -> Iterator[tuple[int, Places]]:
        """Number of each point, and its slots."""
        numbered = (
            (self._plan.point(index), slot) for slot, index in enumerate(indexes)
        )
        for number, group in groupby(numbered, key=lambda one: one[0]):
            yield number, np.array([slot for _, slot in group], np.intp)

    def _close_point(self) -> None:
        point, timeline = self._point, self._timeline
        if point is None:
            return
        self._point = None
        span_s = (point.end_ns - point.start_ns) / NS_PER_S
        if span_s <= 0:
            return
        # The drain may last a millisecond: rates and shares of it would be noise.
        is_short = point.has_final and span_s < self._plan.interval_s / 2
        before = len(timeline.start_s)
        timeline.start_s.append(point.start_ns / NS_PER_S)
        timeline.end_s.append(point.end_ns / NS_PER_S)
        timeline.is_gap.append(point.length_ns <= 0)
        length_s = None if is_short else point.length_ns / NS_PER_S
        for key, done in point.operations.items():
            if point.length_ns > 0:
                series = padded(timeline.operations.setdefault(key, Series()), before)
                _append_operation(series, done, length_s)
        for agent, seen in point.agents.items():
            of_agent = timeline.agents.setdefault(agent, AgentSeries())
            if not is_short and seen.wall_ns > 0:
                padded(of_agent, before)
                rate = seen.completed * NS_PER_S / seen.wall_ns
                of_agent.throughput_per_s.append(rate)
                of_agent.busy_share.append(seen.busy_share)
                of_agent.run_queue_share.append(seen.run_queue_share)
                of_agent.cpu_utilisation.append(seen.cpu_utilisation)


@dataclass(slots=True)
class _OperationPoint:
    completed: float = 0
    errors: float = 0
    response_times: Histogram = field(default_factory=Histogram)
    #: Name in Series -> lowest and highest of the point's intervals.
    spread: dict[str, tuple[float, float]] = field(default_factory=dict)

    def widen(self, name: str, values: Floats) -> None:
        """Take values of intervals; NaN is none."""
        known = values[~np.isnan(values)]
        if known.size:
            low, high = self.spread.get(name, (math.inf, -math.inf))
            found = float(known.min()), float(known.max())
            self.spread[name] = min(low, found[0]), max(high, found[1])


@dataclass(slots=True)
class _AgentPoint:
    wall_ns: float = 0
    completed: float = 0
    busy_share: float | None = None
    run_queue_share: float | None = None
    cpu_utilisation: float | None = None


class _Point:
    """The point that is being filled."""

    def __init__(self, number: int, is_merged: bool) -> None:
        self.number = number
        self._is_merged = is_merged
        self.start_ns = 2**63
        self.end_ns = 0
        #: Of its complete intervals.
        self.length_ns = 0
        self.has_final = False
        self.operations: dict[tuple[str, str], _OperationPoint] = {}
        self.agents: dict[str, _AgentPoint] = {}

    def add(self, slots: Slots, places: Places, complete: Places) -> None:
        """`places` are slots of the point, `complete` those that count."""
        reports = slots.reports
        chosen = (reports.slot >= places[0]) & (reports.slot <= places[-1])
        self.start_ns = min(self.start_ns, int(reports.start_ns[chosen].min()))
        self.end_ns = max(self.end_ns, int(reports.end_ns[chosen].max()))
        self.has_final |= bool(reports.is_final[chosen].any())
        lengths_ns = _lengths(slots, complete)
        self.length_ns += int(lengths_ns.sum())
        for key, operation in slots.operations.items():
            done = self.operations.setdefault(key, _OperationPoint())
            self._add_operation(done, operation, complete, lengths_ns)
        self._add_agents(slots, places)

    def _add_operation(
        self,
        done: _OperationPoint,
        operation: OperationSlots,
        complete: Places,
        lengths_ns: Floats,
    ) -> None:
        if not complete.size:
            return
        done.completed += float(operation.completed[complete].sum())
        done.errors += float(operation.errors[complete].sum())
        done.response_times.unanswered += int(operation.unanswered[complete].sum())
        if operation.times is not None:
            operation.times.add_to(done.response_times, complete)
        if not self._is_merged:
            return
        for name, amounts in (
            ("throughput_per_s", operation.completed),
            ("errors_per_s", operation.errors),
        ):
            done.widen(name, amounts[complete] / (lengths_ns / NS_PER_S))
        for name, p in _SPREAD_OF.items():
            done.widen(name, operation.percentile_us(p)[complete])

    def _add_agents(self, slots: Slots, places: Places) -> None:
        found, first, last = slots.agents, places[0], places[-1] + 1
        for code, agent in enumerate(slots.reports.agents):
            wall_ns = float(found.wall_ns[code, first:last].sum())
            if not wall_ns:
                continue
            seen = self.agents.setdefault(agent, _AgentPoint())
            seen.wall_ns += wall_ns
            seen.completed += float(found.completed[code, first:last].sum())
            for name in ("busy_share", "run_queue_share", "cpu_utilisation"):
                values = getattr(found, name)[code, first:last]
                there = values[~np.isnan(values)]
                if there.size:
                    value = known(max, getattr(seen, name), float(there.max()))
                    setattr(seen, name, value)


def gaps_of(
    plan: Plan, complete: bytes | bytearray, due: int
) -> list[tuple[float, float]]:
    """From and to in s: the first `due` planned intervals, where not complete."""
    gaps: list[tuple[float, float]] = []
    spans = zip(plan.intervals[:due], complete, strict=False)
    for is_complete, group in groupby(spans, key=lambda one: bool(one[1])):
        if not is_complete:
            missing = [interval for interval, _ in group]
            start_s = missing[0].start_ns / NS_PER_S
            gaps.append((start_s, missing[-1].end_ns / NS_PER_S))
    return gaps


def _lengths(slots: Slots, complete: Places) -> Floats:
    """In ns, of complete intervals: the mean of the agents that were at work in all of
    it. From the first one's start to the last one's end would count what agents close
    late twice, in this interval and the next."""
    reports = slots.reports
    number = len(reports.indexes)
    starts = np.full(number, 2**62, np.int64)
    ends = np.zeros(number, np.int64)
    np.minimum.at(starts, reports.slot, reports.start_ns)
    np.maximum.at(ends, reports.slot, reports.end_ns)
    whole = ~reports.is_final & ~reports.is_cut
    sums = np.zeros(number, np.int64)
    np.add.at(sums, reports.slot[whole], (reports.end_ns - reports.start_ns)[whole])
    agents = np.bincount(reports.slot[whole], minlength=number)
    means = sums // np.maximum(agents, 1)
    lengths = np.maximum(np.where(agents > 0, means, ends - starts), 1)
    return lengths[complete].astype(np.float64)


def _append_operation(
    series: Series, done: _OperationPoint, length_s: float | None
) -> None:
    times = done.response_times
    if length_s is not None:
        series.throughput_per_s.append(done.completed / length_s)
        series.errors_per_s.append(done.errors / length_s)
    series.p50_us.append(us_of(times.reliable_percentile(50)))
    series.p90_us.append(us_of(times.reliable_percentile(90)))
    series.p99_us.append(us_of(times.reliable_percentile(99)))
    series.max_us.append(us_of(times.percentile(100)))
    series.sample.append(times.sample)
    series.unanswered.append(times.unanswered)
    place = len(series.sample) - 1
    for name, (low, high) in done.spread.items():
        if length_s is not None or not name.endswith("_per_s"):
            envelope = padded(series.envelopes.setdefault(name, Envelope()), place)
            envelope.low.append(low)
            envelope.high.append(high)
