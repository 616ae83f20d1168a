# SPDX-License-Identifier: Apache-2.0
"""How figures changed over a long measure phase: drifts and steps. Pure.

The values are the medians of at most BLOCKS successive blocks, of operations under
constant load and of monitors' readings. A drift is the slope of a line (lines.py), as a
share the change over the whole phase of the line's value at its start. A step is what
steps.py finds. Among many figures some would change by chance: p of drifts is adjusted
over all figures of a run (Holm), and that of steps as well (Bonferroni).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ldapslam.base.arrays import Floats, median
from ldapslam.jobs.run_plan import PlannedStream
from ldapslam.reports.collect.telemetry import MonitorSummary
from ldapslam.reports.collect.timeline import Phase, Timeline, Values
from ldapslam.reports.many_tests import holm
from ldapslam.reports.rules.lines import block_medians, theil_sen
from ldapslam.reports.rules.steady import BLOCKS, FALSE_ALARMS, is_constant
from ldapslam.reports.rules.steps import LEAST_SHIFT, step_places

#: The shortest measure phase with trends.
LEAST_S = 300.0
_LEAST_BLOCKS = 20
#: Between two blocks, as a share of the phase.
_LARGEST_HOLE = 0.1

_SERIES = (
    ("throughput", "throughput_per_s", "/s", 1.0),
    ("response_time.p50", "p50_us", "ms", 1e-3),
    ("response_time.p99", "p99_us", "ms", 1e-3),
)
_GAUGES = ("memory_resident", "memory_used")
_HITS, _TRIES = "_cache_hits", "_cache_tries"


class Step(NamedTuple):
    """A step between two blocks; the medians before it and after it, each up to the
    next step."""

    at_s: float
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Trend:
    #: Operation, as stream.operation, or the monitor's name.
    subject: str
    metric: str
    unit: str
    #: Value of the line at the start of the measure phase, in `unit`.
    start: float
    #: Over the whole measure phase, as shares of `start`, with the 95 % interval; None
    #: where the start is zero.
    change: float | None
    low: float | None
    high: float | None
    #: p of the drift, adjusted over the figures of the run.
    p: float
    per_hour: float
    steps: tuple[Step, ...]

    @property
    def is_drift(self) -> bool:
        """Return whether the drift is significant, and large enough to matter."""
        if self.change is None:
            return False
        return abs(self.change) >= LEAST_SHIFT and self.p <= FALSE_ALARMS


class _Figure(NamedTuple):
    subject: str
    metric: str
    unit: str
    at_s: Floats
    values: Floats


def trends_of(
    timeline: Timeline,
    streams: Mapping[str, PlannedStream],
    monitors: Iterable[MonitorSummary],
) -> tuple[Trend, ...]:
    """Return the trends of a run with a long measure phase, else nothing; `streams` are
    the planned streams by name."""
    span = next((one for one in timeline.phases if one.name == "measure"), None)
    if span is None or span.end_s - span.start_s < LEAST_S:
        return ()
    figures = [
        found
        for one in (*_operations(timeline, streams), *_monitored(monitors))
        if (found := _blocks(one, span)).values.size >= _LEAST_BLOCKS
        and _covers(found.at_s, span)
    ]
    limit = FALSE_ALARMS / max(1, len(figures))
    trends = [_trend(one, span, limit) for one in figures]
    adjusted = holm([one.p for one in trends])
    return tuple(
        replace(one, p=float(p)) for one, p in zip(trends, adjusted, strict=True)
    )


def _operations(
    timeline: Timeline, streams: Mapping[str, PlannedStream]
) -> Iterator[_Figure]:
    edges = zip(timeline.start_s, timeline.end_s, strict=True)
    middles = [(start_s + end_s) / 2 for start_s, end_s in edges]
    for (stream, operation), series in timeline.operations.items():
        if stream in streams and is_constant(streams[stream]):
            for metric, name, unit, scale in _SERIES:
                yield _figure(
                    *(f"{stream}.{operation}", metric, unit),
                    *(middles, getattr(series, name), scale),
                )


def _monitored(monitors: Iterable[MonitorSummary]) -> Iterator[_Figure]:
    for one in monitors:
        by_name = {each.metric.name: each for each in one.metrics}
        for name, each in by_name.items():
            if name.partition("[")[0] in _GAUGES:
                points = each.points
                yield _figure(
                    one.name, name, "MiB", points.at_s, points.values, 1 / 2**20
                )
            tries = by_name.get(name.replace(_HITS, _TRIES))
            if _HITS in name and tries is not None:
                hits = each.points
                share = [
                    hit / tried * 100 if hit is not None and tried else None
                    for hit, tried in zip(hits.values, tries.points.values, strict=True)
                ]
                title = name.replace("_hits", "_hit_ratio")
                yield _figure(one.name, title, "%", hits.at_s, share)


def _figure(
    subject: str,
    metric: str,
    unit: str,
    at_s: Sequence[float],
    values: Values | tuple[float | None, ...],
    scale: float = 1.0,
) -> _Figure:
    known = [
        (at, value * scale)
        for at, value in zip(at_s, values, strict=False)
        if value is not None
    ]
    found = np.array(known, np.float64).reshape(-1, 2)
    return _Figure(subject, metric, unit, found[:, 0], found[:, 1])


def _blocks(one: _Figure, span: Phase) -> _Figure:
    """Return the medians of the figure's values in the measure phase."""
    inside = (one.at_s > span.start_s) & (one.at_s < span.end_s)
    return one._replace(
        at_s=block_medians(one.at_s[inside], BLOCKS),
        values=block_medians(one.values[inside], BLOCKS),
    )


def _covers(at_s: Floats, span: Phase) -> bool:
    """Return whether the blocks leave no hole of a tenth of the phase: nothing is
    extrapolated."""
    edges = np.concatenate(([span.start_s], at_s, [span.end_s]))
    return bool(np.diff(edges).max() <= _LARGEST_HOLE * (span.end_s - span.start_s))


def _trend(one: _Figure, span: Phase, limit: float) -> Trend:
    line = theil_sen(one.at_s, one.values)
    start = line.at(span.start_s)
    length_s = span.end_s - span.start_s
    places = step_places(one.at_s, one.values, limit)
    levels = [median(part) for part in np.split(one.values, places)]

    def share(slope: float) -> float | None:
        return slope * length_s / start if start > 0 else None

    return Trend(
        one.subject,
        one.metric,
        one.unit,
        start,
        share(line.slope),
        share(line.low),
        share(line.high),
        line.p,
        line.slope * 3600,
        tuple(
            Step(float(one.at_s[place - 1 : place + 1].mean()), before, after)
            for place, (before, after) in zip(places, pairwise(levels), strict=True)
        ),
    )
