# SPDX-License-Identifier: Apache-2.0
"""Fills the timeline: intervals of all agents merged into the points of the charts.

Windows come in the order of their intervals, so one point is open at a time and memory
does not grow with the run. An interval counts for the fleet when it is complete: every
planned agent reported all of it, or had ended because its counts were through. A point
adds up its complete intervals; one without any is a gap.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np

from ldapslam.base.arrays import Flags, Floats, Places
from ldapslam.jobs.fields.thresholds import (
    COMPARISONS,
    ERRORS,
    PERCENTILES,
    SHARES,
    UNANSWERED,
    Threshold,
    total,
)
from ldapslam.reports.collect.intervals import SHOWN, OperationSlots, Reports, Slots
from ldapslam.reports.collect.timeline import (
    HEAT_EDGES_US,
    NS_PER_S,
    IntervalState,
    Plan,
    Point,
    Shown,
    Timeline,
)
from ldapslam.reports.collect.totals import UNANSWERED_METRICS
from ldapslam.reports.distribution import us_of
from ldapslam.results.histogram import Histogram

_NS_PER_US = 1000
#: Of single intervals, shown as an envelope around those of the point.
_SPREAD_OF = {"p50_us": 50.0, "p99_us": 99.0}
#: Name in the series -> counters.
_RATES = {"throughput_per_s": ("completed",), "errors_per_s": ERRORS}


class TimelineBuilder:
    """`agents` are the planned agents: each is awaited until its end.

    `ended`: agents that ended before the plan did -> their last interval.
    """

    def __init__(
        self,
        plan: Plan,
        agents: Sequence[str],
        ended: Mapping[str, int],
        thresholds: Sequence[Threshold] = (),
    ) -> None:
        self._plan = plan
        self._thresholds = [one for one in thresholds if _is_of_intervals(one)]
        self._awaited = tuple(agents)
        self._ended = ended
        self._timeline = Timeline(plan.phases, plan.intervals_per_point)
        for one in self._thresholds:
            self._timeline.states[one.expression] = {}
        self._point: _Point | None = None
        #: By planned interval: 1 where it is complete.
        self.complete = bytearray(len(plan.intervals))

    def add(self, slots: Slots) -> None:
        indexes = slots.reports.indexes
        complete = slots.complete
        for slot in np.flatnonzero(complete).tolist():
            if indexes[slot] < len(self.complete):
                self.complete[indexes[slot]] = 1
        if self._thresholds:
            measured = [self._plan.phase_of(index) == "measure" for index in indexes]
            self._add_states(slots, complete & np.array(measured))
        for place in range(int(slots.point[-1]) + 1):
            places = np.flatnonzero(slots.point == place)
            number = self._plan.point(indexes[places[0]])
            if self._point is None or number != self._point.number:
                self._close_point()
                self._point = _Point(number, self._plan.intervals_per_point > 1)
            self._point.add(slots, place, places, places[complete[places]])

    def _add_states(self, slots: Slots, chosen: Flags) -> None:
        places = np.flatnonzero(chosen)
        lengths_s = np.ones(chosen.size)
        lengths_s[places] = _lengths(slots, places) / NS_PER_S
        for threshold in self._thresholds:
            for key, operation in slots.operations.items():
                if threshold.matches(*key):
                    values = _of_intervals(threshold, operation, lengths_s)
                    known, misses = ~np.isnan(values), _misses(threshold, values)
                    if threshold.hold_ns:
                        known &= ~(misses & _in_doubt(threshold, operation, slots))
                        is_idle = ~self._has_load(key[0], operation, slots)
                        known |= is_idle
                        misses &= ~is_idle
                    states = self._timeline.states[threshold.expression].setdefault(
                        key, bytearray(len(self._plan.intervals))
                    )
                    for place in np.flatnonzero(known & chosen).tolist():
                        states[slots.reports.indexes[place]] = (
                            IntervalState.MISSED if misses[place] else IntervalState.MET
                        )

    def _has_load(self, stream: str, operation: OperationSlots, slots: Slots) -> Flags:
        """By slot: was the stream to be at work in all of it?"""
        indexes = slots.reports.indexes
        planned = [self._plan.has_load(stream, index) for index in indexes]
        has_load = np.array(planned, np.bool_)
        if self._plan.all_counted((stream,)):
            has_load &= operation.total(("scheduled", "completed")) > 0
        return has_load

    def finish(self) -> Timeline:
        self._close_point()
        return self._timeline

    def complete_of(self, reports: Reports) -> Flags:
        """By slot: has every agent reported all of it?"""
        planned = len(self._plan.intervals)
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

    def points_of(self, reports: Reports) -> Places:
        """By slot: which of the window's points it is of."""
        numbers = [self._plan.point(index) for index in reports.indexes]
        return np.unique(numbers, return_inverse=True)[1]

    def _close_point(self) -> None:
        point, self._point = self._point, None
        if point is not None and point.end_ns > point.start_ns:
            self._timeline.points.append(point.shown(self._plan.interval_s))


@dataclass(slots=True)
class _Spread:
    """Lowest and highest of the point's intervals, by name in the series."""

    spread: dict[str, tuple[float, float]] = field(default_factory=dict)

    def widen(self, name: str, values: Floats) -> None:
        """Take values of intervals; NaN is none."""
        known = values[~np.isnan(values)]
        if known.size:
            low, high = self.spread.get(name, (math.inf, -math.inf))
            found = float(known.min()), float(known.max())
            self.spread[name] = min(low, found[0]), max(high, found[1])


@dataclass(slots=True)
class _OperationPoint(_Spread):
    counts: Counter[str] = field(default_factory=Counter)
    times: dict[str, Histogram] = field(
        default_factory=lambda: {metric: Histogram() for metric in SHOWN}
    )

    def shown(self, length_s: float | None) -> Shown:
        """Without rates, if the length is None."""
        times = self.times["response_time"]
        values = {
            **_percentiles(times, p50_us=50, p90_us=90, p99_us=99),
            **_percentiles(self.times["service_time"], service_p99_us=99),
            **_percentiles(self.times["send_lag"], send_lag_p99_us=99),
            "max_us": us_of(times.percentile(100)),
            "sample": times.sample,
            "unanswered": times.unanswered,
        }
        heat = tuple(times.between(HEAT_EDGES_US * _NS_PER_US).tolist())
        if length_s is None:
            spread = {k: v for k, v in self.spread.items() if k not in _RATES}
            return Shown(values, heat, spread)
        values["offered_per_s"] = self.counts["scheduled"] / length_s
        for name, counters in _RATES.items():
            values[name] = total(self.counts, counters) / length_s
        return Shown(values, heat, self.spread)


@dataclass(slots=True)
class _StreamPoint(_Spread):
    #: Gauge -> its sum over the intervals.
    sums: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def shown(self, intervals: int) -> Shown:
        means = {gauge: total / intervals for gauge, total in self.sums.items()}
        return Shown(means, spread=self.spread)


@dataclass(slots=True)
class _MemberPoint:
    """An agent, or a server."""

    completed: float = 0
    times: Histogram = field(default_factory=Histogram)
    #: The length of an agent's intervals, and its highest shares.
    wall_ns: float = 0
    shares: dict[str, float] = field(default_factory=dict)

    def shown(self, length_ns: float) -> Shown:
        rate = self.completed * NS_PER_S / length_ns
        percentiles = _percentiles(self.times, p90_us=90, p99_us=99)
        return Shown({"throughput_per_s": rate, **percentiles, **self.shares})


def _percentiles(times: Histogram, **wanted: float) -> dict[str, float | None]:
    """Name -> percentile in us; None if the values are too few."""
    return {name: us_of(times.reliable_percentile(p)) for name, p in wanted.items()}


class _Point:
    """The point that is being filled."""

    def __init__(self, number: int, is_merged: bool) -> None:
        self.number = number
        self._is_merged = is_merged
        self.start_ns = 2**63
        self.end_ns = 0
        #: Its complete intervals, and their length.
        self.intervals = 0
        self.length_ns = 0
        self.has_final = False
        self.operations: dict[tuple[str, str], _OperationPoint] = {}
        self.streams: dict[str, _StreamPoint] = {}
        self.agents: dict[str, _MemberPoint] = {}
        self.servers: dict[str, _MemberPoint] = {}

    def shown(self, interval_s: float) -> Point:
        point = Point(self.start_ns / NS_PER_S, self.end_ns / NS_PER_S)
        # The drain may last a millisecond: rates and shares of it would be noise.
        is_short = self.has_final and point.end_s - point.start_s < interval_s / 2
        length_s = None if is_short else self.length_ns / NS_PER_S
        if self.length_ns > 0:
            point.operations = {
                k: v.shown(length_s) for k, v in self.operations.items()
            }
            point.streams = {
                k: v.shown(self.intervals) for k, v in self.streams.items()
            }
        if not is_short:
            point.agents = {k: v.shown(v.wall_ns) for k, v in self.agents.items()}
        if length_s:
            length_ns = self.length_ns
            point.servers = {k: v.shown(length_ns) for k, v in self.servers.items()}
        return point

    def add(self, slots: Slots, point: int, places: Places, complete: Places) -> None:
        """`places` are slots of the point, which is the window's `point`-th;
        `complete` are the slots that count."""
        reports = slots.reports
        chosen = (reports.slot >= places[0]) & (reports.slot <= places[-1])
        self.start_ns = min(self.start_ns, int(reports.start_ns[chosen].min()))
        self.end_ns = max(self.end_ns, int(reports.end_ns[chosen].max()))
        self.has_final |= bool(reports.is_final[chosen].any())
        lengths_ns = _lengths(slots, complete)
        self.intervals += complete.size
        self.length_ns += int(lengths_ns.sum())
        for key, operation in slots.operations.items():
            done = self.operations.setdefault(key, _OperationPoint())
            self._add_operation(done, operation, point, complete, lengths_ns)
        for name, gauges in slots.streams.items():
            stream = self.streams.setdefault(name, _StreamPoint())
            mean = slots.service_of(name).mean_in_flight(
                gauges["in_flight"][complete], lengths_ns, complete
            )
            for gauge, values in (
                ("in_flight", mean),
                ("backlog", gauges["backlog"][complete]),
            ):
                stream.sums[gauge] += float(values.sum())
                if self._is_merged:
                    stream.widen(gauge, values)
        self._add_agents(slots, point, places)
        for code, uri in enumerate(slots.by_server.names):
            if uri:
                server = self.servers.setdefault(uri, _MemberPoint())
                server.completed += float(
                    slots.by_server.completed[code, complete].sum()
                )
                slots.by_server.add_to(server.times, code, complete, point)

    def _add_operation(
        self,
        done: _OperationPoint,
        operation: OperationSlots,
        point: int,
        complete: Places,
        lengths_ns: Floats,
    ) -> None:
        if not complete.size:
            return
        for counter, amounts in operation.counts.items():
            done.counts[counter] += int(amounts[complete].sum())
        for metric in UNANSWERED_METRICS:
            done.times[metric].unanswered = total(done.counts, UNANSWERED)
        for metric, times in operation.points.items():
            times.add_to(done.times[metric], point)
        if not self._is_merged:
            return
        for name, counters in _RATES.items():
            amounts = operation.total(counters)[complete]
            done.widen(name, amounts / (lengths_ns / NS_PER_S))
        for name, p in _SPREAD_OF.items():
            values_us = operation.percentile_us(p, "response_time")[complete]
            done.widen(name, np.where(np.isinf(values_us), np.nan, values_us))

    def _add_agents(self, slots: Slots, point: int, places: Places) -> None:
        found, first, last = slots.agents, places[0], places[-1] + 1
        for code, agent in enumerate(slots.reports.agents):
            wall_ns = float(found.wall_ns[code, first:last].sum())
            if not wall_ns:
                continue
            seen = self.agents.setdefault(agent, _MemberPoint())
            seen.wall_ns += wall_ns
            seen.completed += float(found.completed[code, first:last].sum())
            if slots.by_agent.names:
                slots.by_agent.add_to(seen.times, code, places, point)
            for name in ("busy_share", "run_queue_share"):
                values = getattr(found, name)[code, first:last]
                there = values[~np.isnan(values)]
                if there.size:
                    highest = float(there.max())
                    seen.shares[name] = max(highest, seen.shares.get(name, highest))


def _is_of_intervals(threshold: Threshold) -> bool:
    """Is it an upper limit of a percentile that intervals have, or to be missed for
    some time?"""
    return bool(threshold.hold_ns) or (
        threshold.metric in UNANSWERED_METRICS
        and threshold.statistic in PERCENTILES
        and threshold.comparison.startswith("<")
        and not threshold.per
    )


def _of_intervals(
    threshold: Threshold, operation: OperationSlots, lengths_s: Floats
) -> Floats:
    """The threshold's figure by slot, in its unit; NaN where there is none."""
    if threshold.metric == "throughput":
        return operation.counts["completed"] / lengths_s
    if threshold.metric == "errors":
        some, every = map(operation.total, SHARES["errors"])
        shares: Floats = np.full(lengths_s.size, np.nan)
        return np.divide(some, every, out=shares, where=every > 0)
    above = ERRORS if threshold.hold_ns else UNANSWERED
    p = PERCENTILES[threshold.statistic or ""]
    return operation.percentile_us(p, threshold.metric, above)


def _in_doubt(threshold: Threshold, operation: OperationSlots, slots: Slots) -> Flags:
    """By slot: would it be missed but for the generator?"""
    if threshold.metric != "response_time":
        return slots.disturbed
    p = PERCENTILES[threshold.statistic or ""]
    values = operation.percentile_us(p, threshold.metric, ERRORS)
    return slots.disturbed | ~_misses(threshold, values - operation.longest_lag_us)


def _misses(threshold: Threshold, values: Floats) -> Flags:
    met: Flags = COMPARISONS[threshold.comparison](values, threshold.limit)
    return ~met & ~np.isnan(values)


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
    """Return the lengths of complete intervals in ns: the mean over the agents that
    were at work in all of the interval. From the first start to the last end, time that
    an agent closes late would count twice, in this interval and the next."""
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
