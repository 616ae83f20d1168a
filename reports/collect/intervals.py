# SPDX-License-Identifier: Apache-2.0
"""A window's columns by interval: arrays with one element for each interval.

A *slot* is an interval's place in its window. Exact: counts are added, and percentiles
are taken over the union of what the agents counted, as `Histogram` takes them. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ldapslam.base.arrays import Flags, Floats, Integers, Places, Unsigned
from ldapslam.jobs.fields.thresholds import SHARES, UNANSWERED, samples_needed, total
from ldapslam.results.histogram import (
    EMPTY_MIN_NS,
    Block,
    Histogram,
    Sums,
    middles_ns,
    sums_of,
)
from ldapslam.results.window import Columns, Window


@dataclass(frozen=True, slots=True)
class Reports:
    """The reports of a window; arrays have one element for each report."""

    indexes: tuple[int, ...]
    #: Agents with a report in the window; `agent` are places in it.
    agents: tuple[str, ...]
    agent: Places
    slot: Places
    start_ns: Integers
    end_ns: Integers
    is_final: Flags
    #: Ended before the plan had it, by an early end of the agent's load; the final one,
    #: its drain, follows.
    is_cut: Flags
    in_measure: Flags

    def sum(self, reports: npt.ArrayLike, amounts: npt.ArrayLike) -> Floats:
        """Return the sums by agent and slot of amounts, each with its report."""
        where = np.asarray(reports, dtype=np.intp)
        cells = self.agent[where] * len(self.indexes) + self.slot[where]
        added = np.bincount(
            cells,
            weights=np.asarray(amounts, dtype=np.float64),
            minlength=len(self.agents) * len(self.indexes),
        )
        # of nothing at all it would be integers
        floats = added.astype(np.float64, copy=False)
        return floats.reshape(len(self.agents), len(self.indexes))

    def largest(self, reports: Sequence[int] | Places, values: Floats) -> Floats:
        """By agent and slot: the largest value; NaN where there is none."""
        where = np.asarray(reports, dtype=np.intp)
        found = np.full((len(self.agents), len(self.indexes)), np.nan)
        np.fmax.at(found, (self.agent[where], self.slot[where]), values)
        return found


def reports_of(window: Window, planned_ends_ns: Integers) -> Reports:
    """`planned_ends_ns` has the end of each planned interval."""
    columns = window.reports
    agents = tuple(dict.fromkeys(columns["agent"]))
    codes = {agent: code for code, agent in enumerate(agents)}
    numbers, end_ns, is_final = (
        columns[name] for name in ("interval_index", "end_ns", "final")
    )
    is_cut = ~is_final & (numbers < planned_ends_ns.size)
    is_cut[is_cut] = end_ns[is_cut] < planned_ends_ns[numbers[is_cut]]
    return Reports(
        indexes=window.indexes,
        agents=agents,
        agent=np.array([codes[agent] for agent in columns["agent"]], np.intp),
        slot=np.searchsorted(np.array(window.indexes), numbers),
        start_ns=columns["start_ns"],
        end_ns=end_ns,
        is_final=is_final,
        is_cut=is_cut,
        in_measure=np.array([name == "measure" for name in columns["phase"]], np.bool_),
    )


@dataclass(slots=True)
class Times:
    """Durations of one operation by row: a slot, a point, or that of one member."""

    #: The buckets that hold any value, ascending; columns of `counts`.
    buckets: Places
    #: Values by row and bucket.
    counts: Integers
    total: Integers
    overflow: Integers
    min_ns: Unsigned
    max_ns: Unsigned
    _ranks: Integers | None = None

    def percentile(self, p: float, unanswered: Integers) -> Floats:
        """By row, in ns: `Histogram.reliable_percentile` with this number of
        requests without an answer; NaN where they are too few, and infinite above the
        values counted."""
        sample = self.total + self.overflow + unanswered
        parts = round(p * 1_000_000)
        rank = np.maximum(1, -(-parts * sample // 100_000_000))
        is_enough = (sample >= samples_needed(p)) & (sample > 0)
        known = (rank <= self.total) & is_enough
        values = np.where(is_enough, np.inf, np.nan)
        if self.buckets.size and known.any():
            if self._ranks is None:
                self._ranks = np.cumsum(self.counts, axis=1)
            chosen = slice(None) if known.all() else known
            below = self._ranks[chosen] < rank[chosen, np.newaxis]
            places = np.count_nonzero(below, axis=1)
            middles = middles_ns()[self.buckets[places]]
            low, high = self.min_ns[known], self.max_ns[known]
            values[known] = np.minimum(np.maximum(middles, low), high)
        return values

    def add_to(self, histogram: Histogram, row: int) -> None:
        """Adds what a row counted; not the sum of the values."""
        sums = Sums(
            total=int(self.total[row]),
            overflow=int(self.overflow[row]),
            sum_ns=0,
            min_ns=int(self.min_ns[row]),
            max_ns=int(self.max_ns[row]),
        )
        histogram.add_counts(self.buckets, self.counts[row], sums)


#: Metrics that are shown over time.
SHOWN = ("response_time", "service_time", "send_lag")


#: Counters of an operation that are shown over time, or judged by interval.
_COUNTED = dict.fromkeys(("scheduled", *SHARES["errors"][0], *SHARES["errors"][1]))


@dataclass(slots=True)
class OperationSlots:
    """One operation in a window, all agents together; arrays by slot."""

    counts: dict[str, Integers]
    #: Name in SHOWN -> durations, if there are any.
    times: dict[str, Durations] = field(default_factory=dict)
    #: The same by point, of the slots that are complete.
    points: dict[str, Times] = field(default_factory=dict)
    _percentiles_us: dict[tuple[str, float, tuple[str, ...]], Floats] = field(
        default_factory=dict
    )

    @classmethod
    def of(cls, slots: int) -> OperationSlots:
        """Nothing counted yet."""
        return cls({name: np.zeros(slots, np.int64) for name in _COUNTED})

    def add_counters(self, reports: Reports, rows: Columns) -> None:
        """Takes the rows of an operation, measured or not."""
        for name, sums in self.counts.items():
            np.add.at(sums, reports.slot[rows["report"]], rows[name])

    def total(self, names: Sequence[str]) -> Integers:
        """By slot: the sum of these counters."""
        amounts: Integers = total(self.counts, names)
        return amounts

    @property
    def longest_lag_us(self) -> Floats:
        """By slot: how late a request was sent at most."""
        lags = self.times.get("send_lag")
        if lags is None:
            return np.zeros(self.counts["scheduled"].size)
        return lags.by_slot.max_ns / 1000

    def percentile_us(
        self, p: float, metric: str, above: tuple[str, ...] = UNANSWERED
    ) -> Floats:
        """Return the percentile of a metric by slot: infinite among the requests of
        the counters `above`, which rank above every value, and NaN with too few
        requests."""
        key = metric, p, above
        if key not in self._percentiles_us:
            outside = self.total(above)
            if times := self.times.get(metric):
                values = times.by_slot.percentile(p, outside) / 1000
            else:
                values = np.where(outside < samples_needed(p), np.nan, np.inf)
            self._percentiles_us[key] = values
        return self._percentiles_us[key]


@dataclass(slots=True)
class MemberSlots:
    """All operations by agent, or by server; arrays by member and slot."""

    names: tuple[str, ...]
    completed: Floats
    #: Requests without an answer.
    unanswered: Integers
    #: Response times of each operation, by member * number of points + point.
    times: list[Times] = field(default_factory=list)

    @classmethod
    def of(cls, names: Sequence[str], slots: int) -> MemberSlots:
        """Nothing counted yet."""
        shape = len(names), slots
        return cls(tuple(names), np.zeros(shape), np.zeros(shape, np.int64))

    def add_counters(self, reports: Reports, rows: Columns, member: Places) -> None:
        """Takes the rows of an operation; `member` has the place of each."""
        where = member, reports.slot[rows["report"]]
        np.add.at(self.completed, where, rows["completed"])
        np.add.at(self.unanswered, where, total(rows, UNANSWERED))

    def add_to(
        self, histogram: Histogram, member: int, slots: Places, point: int
    ) -> None:
        """Adds what a member counted in a point; `slots` are those of the point."""
        histogram.unanswered += int(self.unanswered[member, slots].sum())
        for times in self.times:
            points = times.total.size // len(self.names)
            times.add_to(histogram, member * points + point)


#: Gauge -> its sum over the agents at each slot's end.
StreamSlots = Mapping[str, Floats]


@dataclass(slots=True)
class ServiceSlots:
    """The service times of all requests of a stream that ended, whatever their outcome;
    arrays by slot."""

    sum_ns: Unsigned
    longest_ns: Unsigned

    def mean_in_flight(
        self, at_end: Floats, lengths_ns: Floats, slots: Places
    ) -> Floats:
        """Requests in flight on average in some slots of these lengths, which by
        Little's law is what the service times add up to over the length. It counts a
        request where it ended: in a slot in which none did, or one that took longer
        than the slot, the number `at_end` is nearer to the truth."""
        sum_ns, longest_ns = self.sum_ns[slots], self.longest_ns[slots]
        is_known = (longest_ns > 0) & (longest_ns <= lengths_ns)
        found: Floats = np.where(is_known, sum_ns / lengths_ns, at_end)
        return found


@dataclass(slots=True)
class AgentSlots:
    """The agents in a window; arrays by agent and slot."""

    wall_ns: Floats
    completed: Floats
    #: NaN where the agent has none.
    busy_share: Floats
    run_queue_share: Floats


@dataclass(slots=True)
class Slots:
    """A window as the timeline takes it."""

    reports: Reports
    #: By slot: which of the window's points it is of, and whether it counts there.
    point: Places
    complete: Flags
    agents: AgentSlots
    #: The load of each; without members where there is only one.
    by_agent: MemberSlots
    #: Members of streams with several servers; other streams have one without a name.
    by_server: MemberSlots
    operations: dict[tuple[str, str], OperationSlots] = field(default_factory=dict)
    streams: dict[str, StreamSlots] = field(default_factory=dict)
    services: dict[str, ServiceSlots] = field(default_factory=dict)
    #: By slot: was any agent disturbed?
    disturbed: Flags = field(default_factory=lambda: np.zeros(0, np.bool_))

    def service_of(self, stream: str) -> ServiceSlots:
        size = len(self.reports.indexes)
        none = np.zeros(size, np.uint64)
        return self.services.setdefault(stream, ServiceSlots(none, none.copy()))


def worker_shares(workers: Columns) -> tuple[Floats, Floats]:
    """Share of the interval each worker was busy, and waited for a CPU."""
    wall_ns = np.asarray(workers["wall_ns"], np.float64)
    counted = np.maximum(wall_ns, 1)
    busy = np.asarray(workers["busy_ns"], np.float64) / counted
    waited = np.asarray(workers["run_queue_ns"], np.float64) / counted
    return np.where(wall_ns > 0, busy, 0.0), np.where(wall_ns > 0, waited, 0.0)


#: Histograms of a group that are added one by one.
_FEW = 4


class Durations:
    """Histograms of one metric of one operation in a window."""

    def __init__(self, block: Block, where: Places, reports: Reports) -> None:
        self._block = block
        #: Which report each histogram is of.
        self.where = where
        self._slots = len(reports.indexes)
        #: Slot of each histogram.
        self.slot = reports.slot[where]
        #: `_columns` has the place of each bucket among them.
        self._buckets, self._columns = block.used()

    @cached_property
    def by_slot(self) -> Times:
        return self.by(self.slot, self._slots)

    def by(self, rows: Places, count: int) -> Times:
        """By row; `rows` has that of each histogram, -1 of one that is left out."""
        block, headers = self._block, self._block.headers
        filled = ((headers["total"] | headers["overflow"]) != 0) & (rows >= 0)
        where, found = rows[filled], headers[filled]
        lowest = np.full(count, EMPTY_MIN_NS, np.uint64)
        highest = np.zeros(count, np.uint64)
        np.minimum.at(lowest, where, found["min_ns"])
        np.maximum.at(highest, where, found["max_ns"])
        return Times(
            buckets=self._buckets,
            counts=block.table(rows, count, self._columns, self._buckets.size),
            total=_added(where, found["total"], count),
            overflow=_added(where, found["overflow"], count),
            min_ns=lowest,
            max_ns=highest,
        )

    def add_by(
        self,
        groups: Places,
        histogram_of: Callable[[int], Histogram],
        chosen: Flags,
    ) -> None:
        """Adds the chosen histograms to those of their groups; `groups` has the group
        of each report."""
        group = np.where(chosen, groups[self.where], -1)
        numbers = sorted(set(group[chosen].tolist()))
        if np.count_nonzero(chosen) <= _FEW * len(numbers):
            # a table of many groups would be nearly empty
            self._block.add_each(group, histogram_of)
            return
        height, width = numbers[-1] + 1, self._buckets.size
        table = self._block.table(group, height, self._columns, width)
        for number in numbers:
            sums = sums_of(self._block.headers[group == number])
            histogram_of(number).add_counts(self._buckets, table[number], sums)


def _added(where: Places, amounts: Unsigned, size: int) -> Integers:
    added = np.zeros(size, np.int64)
    np.add.at(added, where, amounts.astype(np.int64))
    return added
