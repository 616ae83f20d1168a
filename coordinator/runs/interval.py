# SPDX-License-Identifier: Apache-2.0
"""What operations did in one interval, over all agents. Pure.

Live figures, and figures of thresholds that end a run, are computed from it; counters
mean what they mean to the verdict.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ldapslam.jobs.fields.thresholds import UNANSWERED, samples_needed, total
from ldapslam.jobs.run_plan import PlannedOperation, RunPlan
from ldapslam.proto.fields import OPERATION_COUNTERS
from ldapslam.results.histogram import Histogram
from ldapslam.results.window import OperationRows, Window

_NS_PER_S = 1e9


@dataclass(frozen=True)
class IntervalTotals:
    """One operation, or several together, in an interval."""

    length_ns: int
    parts: Sequence[tuple[PlannedOperation, OperationRows]]

    @cached_property
    def counts(self) -> Counter[str]:
        """By the names of OPERATION_COUNTERS."""
        return Counter(
            {
                name: sum(rows.count(name) for _, rows in self.parts)
                for name in OPERATION_COUNTERS
            }
        )

    @property
    def throughput_per_s(self) -> float:
        return self.counts["completed"] * _NS_PER_S / max(self.length_ns, 1)

    def times(self, metric: str, above: Sequence[str] = UNANSWERED) -> Histogram:
        """Return the durations that are shown; the requests of the counters `above`
        rank above all of them."""
        times = Histogram()
        for planned, rows in self.parts:
            rows.add_times(times, metric, planned.shown_outcome)
        times.unanswered = total(self.counts, above)
        return times


def percentile_us(times: Histogram, p: float) -> float | None:
    """Return the percentile: infinite above every duration, None of a sample that is
    too small for it."""
    if times.sample < (samples_needed(p) if p < 100 else 1):
        return None
    value_ns = times.percentile(p)
    return math.inf if value_ns is None else value_ns / 1000


#: By stream and operation.
Totals = Mapping[tuple[str, str], IntervalTotals]


def totals_of(plan: RunPlan, window: Window) -> Totals:
    """Return those of the plan, also without a report, then others."""
    parts: dict[tuple[str, str], list[tuple[PlannedOperation, OperationRows]]] = {
        (stream.name, operation.name): []
        for stream in plan.streams
        for operation in stream.operations
    }
    for (stream, operation, _), rows in window.operations.items():
        planned = plan.stream(stream).operation(operation)
        parts.setdefault((stream, operation), []).append((planned, rows))
    length_ns = window.length_ns()
    return {key: IntervalTotals(length_ns, found) for key, found in parts.items()}
