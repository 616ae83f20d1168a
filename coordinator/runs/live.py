# SPDX-License-Identifier: Apache-2.0
"""Live statistics of a run: each interval's snapshots merged over agents. Pure,
but for a count of what was too much.

For people who watch; reports use the store. An interval is given once, in order, when
every agent that is still in the run has reported it; or without those that are so far
behind that too much would have to be kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from ldapslam.coordinator.bounds import Bound, note_exceeded
from ldapslam.coordinator.runs.abort import AbortWatch
from ldapslam.coordinator.runs.interval import (
    IntervalTotals,
    Totals,
    percentile_us,
    totals_of,
)
from ldapslam.jobs.fields.thresholds import ERRORS, share_of, total
from ldapslam.jobs.run_plan import RunPlan
from ldapslam.proto.common_pb2 import Snapshot
from ldapslam.proto.operator_pb2 import (
    IntervalFigures,
    OperationFigures,
)
from ldapslam.results.histogram import Histogram
from ldapslam.results.window import Window, window_of

#: Serialised snapshots that are kept for agents that report nothing.
MOST_KEPT_BYTES = 64 << 20


class Measured(NamedTuple):
    """One interval: for people, and as the agents reported it."""

    figures: IntervalFigures
    window: Window


class LiveStatistics:
    """The intervals of one run that are not complete yet."""

    def __init__(self, agents: Iterable[str], plan: RunPlan | None = None) -> None:
        self._plan = plan or RunPlan()
        self._watch = AbortWatch(self._plan)
        #: Why the run is to end; empty: it goes on.
        self.abort_reason = ""
        self._expected = set(agents)
        self._planned = len(self._expected)
        self._open: dict[int, dict[str, Snapshot]] = {}
        self._open_bytes: Counter[int] = Counter()
        self._done_up_to = -1

    @property
    def kept_bytes(self) -> int:
        return self._open_bytes.total()

    def add(self, agent: str, snapshot: Snapshot) -> list[Measured]:
        """Take an agent's snapshot; the intervals that it completes."""
        if snapshot.index <= self._done_up_to:
            return []  # late: its interval was shown without it
        self._open.setdefault(snapshot.index, {})[agent] = snapshot
        self._open_bytes[snapshot.index] += snapshot.ByteSize()
        if snapshot.final:
            # its plan is over: the drain may be one agent's only
            self._expected.discard(agent)
        return self._complete()

    def drop(self, agent: str) -> list[Measured]:
        self._expected.discard(agent)
        return self._complete()

    def _complete(self) -> list[Measured]:
        measured: list[Measured] = []
        complete = {
            index
            for index, reported in self._open.items()
            if self._expected <= reported.keys()
        }
        # agents report in order: what an interval before lacks came to the coordinator
        # that was here before
        last = max(complete, default=-1)
        for index in sorted(self._open):
            if index > last and self.kept_bytes <= MOST_KEPT_BYTES:
                break
            if index > last:
                note_exceeded(Bound.LIVE_BYTES)
            reported = self._open[index]
            window = window_of((index,), list(reported.values()), list(reported))
            totals = totals_of(self._plan, window)
            measured.append(Measured(self._merge(index, window, totals), window))
            if index in complete and not self.abort_reason:
                self.abort_reason = self._watch.take(window, totals)
            self._done_up_to = index
            del self._open[index], self._open_bytes[index]
        return measured

    def _merge(self, index: int, window: Window, totals: Totals) -> IntervalFigures:
        reports, workers = window.reports, window.workers
        has_time = workers["wall_ns"] > 0
        busy = workers["busy_ns"][has_time] / workers["wall_ns"][has_time]
        in_flight, backlog, down_ns = map(
            window.by_stream, ("in_flight", "backlog", "down_ns")
        )
        figures = IntervalFigures(
            index=index,
            phase=reports["phase"][0],
            start_ns=int(reports["start_ns"].min()),
            end_ns=int(reports["end_ns"].max()),
            agents_reported=len(reports["agent"]),
            agents_planned=self._planned,
            busy_share=busy.max(initial=0.0),
        )
        streams: dict[str, dict[str, IntervalTotals]] = {}
        for (stream, operation), found in totals.items():
            if found.parts:
                streams.setdefault(stream, {})[operation] = found
        # streams without connections send nothing
        for stream in sorted(+down_ns):
            streams.setdefault(stream, {})
        length_ns = window.length_ns()
        for name, operations in streams.items():
            planned = self._plan.stream(name)
            parts = [part for one in operations.values() for part in one.parts]
            times = {key: one.times("response_time") for key, one in operations.items()}
            union = Histogram.union(times.values())
            figures.streams.add(
                stream=name,
                total=_figures("", IntervalTotals(length_ns, parts), union),
                operations=[
                    _figures(key, one, times[key]) for key, one in operations.items()
                ],
                in_flight=in_flight[name],
                backlog=backlog[name],
                connections_down=down_ns[name] / max(length_ns, 1),
                connections=planned.connections,
                clients=planned.clients,
            )
        return figures


def _figures(
    operation: str, totals: IntervalTotals, times: Histogram
) -> OperationFigures:
    counts, failures = totals.counts, Counter[int]()
    for planned, rows in totals.parts:
        for code, count in rows.result_codes.items():
            failures[code] += count * (code not in planned.accepted_codes)
    is_search = [one for one in totals.parts if one[0].kind == "search"]
    searches = IntervalTotals(totals.length_ns, is_search).counts
    return OperationFigures(
        operation=operation,
        throughput_per_s=totals.throughput_per_s,
        completed=counts["completed"],
        errors=total(counts, ERRORS),
        dropped=counts["dropped"],
        searches=searches["completed"],
        entries=searches["entries"],
        empty_share=share_of("empty", searches),
        error_code=next((code for code, _ in (+failures).most_common(1)), None),
        response_time_max_us=percentile_us(times, 100),
        **{f"response_time_p{p}_us": percentile_us(times, p) for p in (50, 95, 99)},
    )
