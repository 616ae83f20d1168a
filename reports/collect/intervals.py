# SPDX-License-Identifier: Apache-2.0
"""A window's columns by interval: arrays with one element for each interval.

A *slot* is an interval's place in its window. Exact: counts are added, and percentiles
are taken over the union of what the agents counted, as `Histogram` takes them. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ldapslam.jobs.fields.thresholds import SHARES, samples_needed
from ldapslam.results.columns import Columns, Window
from ldapslam.results.histogram import (
    BUCKETS,
    EMPTY_MIN_NS,
    Block,
    Histogram,
    Sums,
    middles_ns,
    sums_of,
)

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Unsigned = npt.NDArray[np.uint64]
Places = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]


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
        """By agent and slot: amounts, each of the report beside it."""
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
    slots = {index: slot for slot, index in enumerate(window.indexes)}
    numbers = np.array(columns["interval_index"], np.intp)
    end_ns = np.array(columns["end_ns"], np.int64)
    is_final = np.array(columns["final"], np.bool_)
    is_cut = ~is_final & (numbers < planned_ends_ns.size)
    is_cut[is_cut] = end_ns[is_cut] < planned_ends_ns[numbers[is_cut]]
    return Reports(
        indexes=window.indexes,
        agents=agents,
        agent=np.array([codes[agent] for agent in columns["agent"]], np.intp),
        slot=np.array([slots[index] for index in columns["interval_index"]], np.intp),
        start_ns=np.array(columns["start_ns"], np.int64),
        end_ns=end_ns,
        is_final=is_final,
        is_cut=is_cut,
        in_measure=np.array([name == "measure" for name in columns["phase"]], np.bool_),
    )


@dataclass(slots=True)
class Times:
    """Durations of one operation, all agents together, by slot."""

    #: The buckets that hold any value, ascending; columns of `counts`.
    buckets: Places
    #: Values by slot and bucket. Floats hold them exactly up to 2^53.
    counts: Floats
    total: Integers
    overflow: Integers
    min_ns: Unsigned
    max_ns: Unsigned
    _ranks: Integers | None = None

    def percentile(self, p: float, unanswered: Integers) -> Floats:
        """By slot, in ns: `Histogram.reliable_percentile` with this number of
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
                # sums of integers do not wait for each other
                self._ranks = np.cumsum(self.counts.astype(np.int64), axis=1)
            chosen = slice(None) if known.all() else known
            below = self._ranks[chosen] < rank[chosen, np.newaxis]
            places = np.count_nonzero(below, axis=1)
            middles = middles_ns()[self.buckets[places]]
            low, high = self.min_ns[known], self.max_ns[known]
            values[known] = np.minimum(np.maximum(middles, low), high)
        return values

    def add_to(self, histogram: Histogram, slots: Places) -> None:
        """Adds what these slots counted, in their order; not the sum of the values."""
        chosen: Places | slice = slots
        if slots.size and slots[-1] - slots[0] + 1 == slots.size:
            chosen = slice(int(slots[0]), int(slots[-1]) + 1)  # copies no row
        sums = Sums(
            total=int(self.total[slots].sum()),
            overflow=int(self.overflow[slots].sum()),
            sum_ns=0,
            min_ns=int(self.min_ns[slots].min(initial=EMPTY_MIN_NS)),
            max_ns=int(self.max_ns[slots].max(initial=0)),
        )
        histogram.add_counts(self.buckets, self.counts[chosen].sum(axis=0), sums)


#: Metrics that are shown over time.
SHOWN = ("response_time", "service_time", "send_lag")


@dataclass(slots=True)
class OperationSlots:
    """One operation in a window, all agents together; arrays by slot."""

    scheduled: Floats
    completed: Floats
    errors: Floats
    #: The same and the arrivals that could not be sent: what is an error in a
    #: threshold; and of how many.
    missed: Floats
    due: Floats
    #: Requests without an answer.
    unanswered: Integers
    #: Name in SHOWN -> durations; without those that there are none of.
    times: dict[str, Times] = field(default_factory=dict)
    _percentiles_us: dict[tuple[str, float], Floats] = field(default_factory=dict)

    @classmethod
    def of(cls, slots: int) -> OperationSlots:
        """Nothing counted yet."""
        scheduled, completed, errors, missed, due = np.zeros((5, slots))
        lost = np.zeros(slots, np.int64)
        return cls(scheduled, completed, errors, missed, due, lost)

    def add_counters(self, reports: Reports, rows: Columns) -> None:
        """Takes the rows of an operation, measured or not."""
        slot = reports.slot[np.array(rows["report"], np.intp)]
        lost = np.array(rows["timed_out"]) + np.array(rows["unresolved"])
        np.add.at(self.scheduled, slot, np.array(rows["scheduled"]))
        np.add.at(self.completed, slot, np.array(rows["completed"]))
        np.add.at(self.errors, slot, np.array(rows["failed"]) + lost)
        for sums, names in zip((self.missed, self.due), SHARES["errors"], strict=True):
            for name in names:
                np.add.at(sums, slot, np.array(rows[name]))
        np.add.at(self.unanswered, slot, lost)

    def percentile_of_all_us(self, p: float, metric: str) -> Floats:
        """As `percentile_us`; failures and dropped arrivals are above every value,
        too."""
        outside = self.missed.astype(np.int64)
        if times := self.times.get(metric):
            return times.percentile(p, outside) / 1000
        return np.where(outside < samples_needed(p), np.nan, np.inf)

    @property
    def longest_lag_us(self) -> Floats:
        """By slot: how late a request was sent at most."""
        lags = self.times.get("send_lag")
        if lags is None:
            return np.zeros(self.scheduled.size)
        return lags.max_ns / 1000

    def percentile_us(self, p: float, metric: str = "response_time") -> Floats:
        """Of a metric in which requests without an answer are above every value: those
        among them are infinite, and NaN those with too few requests."""
        if (metric, p) not in self._percentiles_us:
            if times := self.times.get(metric):
                values = times.percentile(p, self.unanswered) / 1000
            else:
                few = self.unanswered < samples_needed(p)
                values = np.where(few, np.nan, np.inf)
            self._percentiles_us[metric, p] = values
        return self._percentiles_us[metric, p]


@dataclass(slots=True)
class MemberSlots:
    """All operations by agent, or by server; arrays by member and slot."""

    names: tuple[str, ...]
    completed: Floats
    #: Requests without an answer.
    unanswered: Integers
    #: Response times of each operation, by member * number of slots + slot.
    times: list[Times] = field(default_factory=list)

    @classmethod
    def of(cls, names: Sequence[str], slots: int) -> MemberSlots:
        """Nothing counted yet."""
        shape = len(names), slots
        return cls(tuple(names), np.zeros(shape), np.zeros(shape, np.int64))

    def add_counters(self, reports: Reports, rows: Columns, member: Places) -> None:
        """Takes the rows of an operation; `member` has the place of each."""
        where = member, reports.slot[np.array(rows["report"], np.intp)]
        lost = np.array(rows["timed_out"]) + np.array(rows["unresolved"])
        np.add.at(self.completed, where, np.array(rows["completed"]))
        np.add.at(self.unanswered, where, lost)

    def add_to(self, histogram: Histogram, member: int, slots: Places) -> None:
        """Adds what a member counted in these slots."""
        histogram.unanswered += int(self.unanswered[member, slots].sum())
        for times in self.times:
            times.add_to(histogram, member * self.completed.shape[1] + slots)


#: Gauge -> its sum over the agents at each slot's end.
StreamSlots = Mapping[str, Floats]


@dataclass(slots=True)
class AgentSlots:
    """The agents in a window; arrays by agent and slot."""

    wall_ns: Floats
    completed: Floats
    #: NaN where the agent has none.
    busy_share: Floats
    run_queue_share: Floats
    cpu_utilisation: Floats


@dataclass(slots=True)
class Slots:
    """A window as the timeline takes it."""

    reports: Reports
    agents: AgentSlots
    #: The load of each; without members where there is only one.
    by_agent: MemberSlots
    #: Of the streams with several servers; that of the others is one without a name.
    by_server: MemberSlots
    operations: dict[tuple[str, str], OperationSlots] = field(default_factory=dict)
    streams: dict[str, StreamSlots] = field(default_factory=dict)
    #: By slot: was any agent disturbed?
    disturbed: Flags = field(default_factory=lambda: np.zeros(0, np.bool_))


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

    def __init__(self, block: Block, reports: Places) -> None:
        """`reports`: which report each histogram is of."""
        self._block = block
        self._reports = reports
        indexes = block.indexes.astype(np.intp)  # casts at once, not piece by piece
        self.buckets: Places = np.flatnonzero(np.bincount(indexes, minlength=BUCKETS))
        places = np.zeros(BUCKETS, np.intp)
        places[self.buckets] = np.arange(self.buckets.size)
        #: Of each bucket of each histogram.
        self._column = places[indexes]
        self._weights = self._block.counts.astype(np.float64)

    def times(
        self, reports: Reports, member: Places | int = 0, members: int = 1
    ) -> Times:
        """By slot; with the member that each histogram is of, by member * number of
        slots + slot."""
        slots, headers = len(reports.indexes) * members, self._block.headers
        slot = reports.slot[self._reports] + member * len(reports.indexes)
        filled = (headers["total"] | headers["overflow"]) != 0
        lowest = np.full(slots, EMPTY_MIN_NS, np.uint64)
        highest = np.zeros(slots, np.uint64)
        np.minimum.at(lowest, slot[filled], headers["min_ns"][filled])
        np.maximum.at(highest, slot[filled], headers["max_ns"][filled])
        return Times(
            buckets=self.buckets,
            counts=self._table(slot, slots),
            total=_added(slot, headers["total"], slots),
            overflow=_added(slot, headers["overflow"], slots),
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
        group = groups[self._reports]
        numbers = np.unique(group[chosen]).tolist()
        if np.count_nonzero(chosen) <= _FEW * len(numbers):
            self._add_each(group, histogram_of, chosen)
            return
        table = self._table(group, numbers[-1] + 1, chosen)
        for number in numbers:
            headers = self._block.headers[chosen & (group == number)]
            histogram_of(number).add_counts(
                self.buckets, table[number], sums_of(headers)
            )

    def _add_each(
        self, group: Places, histogram_of: Callable[[int], Histogram], chosen: Flags
    ) -> None:
        """A table of many groups would be nearly empty."""
        block, ends = self._block, np.cumsum(self._block.headers["n"], dtype=np.intp)
        for place in np.flatnonzero(chosen).tolist():
            _, n, *sums = block.headers[place].tolist()
            where = slice(int(ends[place]) - n, int(ends[place]))
            histogram_of(int(group[place])).add_counts(
                block.indexes[where], block.counts[where], Sums(*sums)
            )

    def _table(self, rows: Places, count: int, chosen: Flags | None = None) -> Floats:
        """Values by row and bucket, of the chosen histograms; `rows` has the row of
        each histogram."""
        width, lengths = self.buckets.size, self._block.headers["n"]
        cells = np.repeat(rows * width, lengths)
        cells += self._column
        weights = self._weights
        if chosen is not None and not chosen.all():
            of_bucket = np.repeat(chosen, lengths)
            cells, weights = cells[of_bucket], weights[of_bucket]
        table = np.bincount(cells, weights=weights, minlength=count * width)
        floats: Floats = table.astype(np.float64, copy=False).reshape(count, width)
        return floats


def _added(where: Places, amounts: Unsigned, size: int) -> Integers:
    added = np.zeros(size, np.int64)
    np.add.at(added, where, amounts.astype(np.int64))
    return added
