# SPDX-License-Identifier: Apache-2.0
"""Ends a run early whose threshold is missed for as long as the job allows. Pure.

Looks at each interval of the measure phase as agents report it. What the figures say of
the directory, and what the generator is to blame for, is for the verdict.
"""

from __future__ import annotations

from ldapslam.coordinator.runs.interval import IntervalTotals, Totals, percentile_us
from ldapslam.jobs.fields.thresholds import (
    ERRORS,
    PERCENTILES,
    Threshold,
    parse_threshold,
    share_of,
)
from ldapslam.jobs.run_plan import RunPlan
from ldapslam.results.window import Window


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

    def take(self, window: Window, totals: Totals) -> str:
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
        # as the verdict counts them
        if index + 1 < len(self._ends_ns):
            planned_ns = self._ends_ns[index + 1] - self._ends_ns[index]
        else:
            planned_ns = window.length_ns()
        for key, of_operation in totals.items():
            stream = self._plan.stream(key[0])
            has_end = stream.count or stream.is_replay
            if has_end or not stream.is_at_work(start_ns, end_ns):
                continue
            for threshold in self._thresholds:
                if not threshold.matches(*key):
                    continue
                found, value = (threshold, key), _figure(threshold, of_operation)
                if value is None or threshold.holds(value):
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


def _figure(threshold: Threshold, totals: IntervalTotals) -> float | None:
    """In the threshold's unit; None: too little was sent."""
    if threshold.metric == "throughput":
        return totals.throughput_per_s
    if threshold.metric == "errors":
        return share_of("errors", totals.counts)
    p = PERCENTILES[threshold.statistic or ""]
    return percentile_us(totals.times(threshold.metric, ERRORS), p)
