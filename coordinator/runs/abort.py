# SPDX-License-Identifier: Apache-2.0
"""Ends a run early whose threshold is missed for as long as the job allows. Pure.

Looks at each interval of the measure phase as agents report it. What the figures say of
the directory, and what the generator is to blame for, is for the verdict.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ldapslam.jobs.fields.thresholds import (
    PERCENTILES,
    SHARES,
    Threshold,
    parse_threshold,
    samples_needed,
    share_of,
)
from ldapslam.jobs.run_plan import RunPlan
from ldapslam.results.histogram import Histogram
from ldapslam.results.window import OperationRows, Window


class AbortWatch:
    """The thresholds of one run that end it. Streams that end by a count, or with a
    log, are left to the verdict: what they do at their end is no loss."""

    def __init__(self, plan: RunPlan) -> None:
        self._plan = plan
        thresholds = map(parse_threshold, plan.thresholds)
        self._thresholds = [one for one in thresholds if one.aborts]
        self._ends_ns = [0, *plan.boundaries_ns]
        #: Of operations that have missed one up to the last interval: for how long.
        self._missed_ns: dict[tuple[Threshold, tuple[str, str]], int] = {}
        self._last = -1

    def take(self, window: Window) -> str:
        """Why the run is to end after an interval, of all agents; empty: it goes on.
        An interval that is never given breaks what was missed."""
        (index,), reports = window.indexes, window.reports
        if index != self._last + 1:
            self._missed_ns.clear()
        self._last = index
        whole = ~reports["final"]
        is_measured = reports["phase"][0] == "measure"
        if not self._thresholds or not whole.any() or not is_measured:
            return ""
        start_ns = int(reports["start_ns"][whole].min())
        end_ns = int(reports["end_ns"][whole].max())
        length_ns = window.length_ns()
        # as the verdict counts them
        if index + 1 < len(self._ends_ns):
            planned_ns = self._ends_ns[index + 1] - self._ends_ns[index]
        else:
            planned_ns = length_ns
        rows: dict[tuple[str, str], list[OperationRows]] = {}
        for (stream, operation, _), of_operation in window.operations.items():
            rows.setdefault((stream, operation), []).append(of_operation)
        for key in self._operations(rows, start_ns, end_ns):
            for threshold in self._thresholds:
                if not threshold.matches(*key):
                    continue
                found = threshold, key
                if not self._misses(threshold, key, rows.get(key, []), length_ns):
                    self._missed_ns.pop(found, None)
                    continue
                missed_ns = self._missed_ns.get(found, 0) + planned_ns
                self._missed_ns[found] = missed_ns
                if missed_ns >= threshold.hold_ns:
                    missed_s, of = missed_ns / 1e9, ".".join(key)
                    return (
                        f"missed for {missed_s:.3g} s by {of}: {threshold.expression}"
                    )
        return ""

    def _operations(
        self, reported: Iterable[tuple[str, str]], start_ns: int, end_ns: int
    ) -> Iterable[tuple[str, str]]:
        """Planned or reported, of streams that were to be at work."""
        planned = [
            (stream.name, operation.name)
            for stream in self._plan.streams
            for operation in stream.operations
        ]
        for key in dict.fromkeys([*planned, *reported]):
            stream = self._plan.stream(key[0])
            has_end = stream.count or stream.is_replay
            if stream.is_at_work(start_ns, end_ns) and not has_end:
                yield key

    def _misses(
        self,
        threshold: Threshold,
        key: tuple[str, str],
        rows: Sequence[OperationRows],
        length_ns: int,
    ) -> bool:
        value = self._figure(threshold, key, rows, length_ns)
        return value is not None and not threshold.holds(value)

    def _figure(
        self,
        threshold: Threshold,
        key: tuple[str, str],
        rows: Sequence[OperationRows],
        length_ns: int,
    ) -> float | None:
        """In the threshold's unit; None: too little was sent."""
        if threshold.metric == "throughput":
            completed = sum(one.count("completed") for one in rows)
            return completed * 1e9 / max(length_ns, 1)
        some, every = SHARES["errors"]
        counts = {
            name: sum(one.count(name) for one in rows) for name in {*some, *every}
        }
        if threshold.metric == "errors":
            return share_of("errors", counts)
        outcome = self._plan.stream(key[0]).operation(key[1]).shown_outcome
        times = Histogram.merge(
            packed
            for one in rows
            for _, packed in one.packed(threshold.metric, outcome)
        )
        # above every time, as the verdict has it
        times.unanswered = sum(counts[name] for name in some)
        p = PERCENTILES[threshold.statistic or ""]
        if times.sample < samples_needed(p):
            return None
        value_ns = times.percentile(p)
        return math.inf if value_ns is None else value_ns / 1000
