# SPDX-License-Identifier: Apache-2.0
"""How figures changed over a long measure phase: drifts and steps. Pure.

Looked at are the medians of at most BLOCKS blocks that follow each other, of operations
under constant load and of what monitors read. A drift is the slope of Theil and Sen,
the median of the slopes between all pairs of blocks, with its 95 % interval (Sen 1968);
as a share, it is the change over the whole phase of the value that the line has at its
start. A step is where Pettitt's test (1979) finds one,

    U(t) = sum over i <= t < j of sign(y_i - y_j),  K = max |U(t)|
    p = 2 exp(-6 K^2 / (n^3 + n^2))

and two levels fit better than the line; then both sides are looked at in turn. Blocks
that follow each other are seldom independent: as in steady.py, the interval is wider
and K smaller by sqrt((1 + r) / (1 - r)).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from ldapslam.reports.collect.telemetry import MonitorSummary
from ldapslam.reports.collect.timeline import Phase, Timeline, Values
from ldapslam.reports.rules.steady import (
    LEAST_SHIFT,
    Floats,
    autocorrelation,
    correlation,
    is_constant,
    widened_by,
)

#: Shorter measure phases have no trend to speak of.
LEAST_S = 300.0
BLOCKS = 60
_LEAST_BLOCKS = 20
#: Between two blocks, as a share of the phase.
_LARGEST_HOLE = 0.1
#: Of each side of a step.
_LEAST_SIDE = 5
_Z = 1.959964
#: Of figures without any step, how often one of a run is said to have one.
_FALSE_ALARMS = 0.05
#: Two levels have to fit better than a line: twice the logarithm of how much likelier
#: they are, were what is left of Laplace's distribution.
_BETTER = 10.0
_ZERO = 1e-12

_SERIES = (
    ("throughput", "throughput_per_s", "/s", 1.0),
    ("response_time.p50", "p50_us", "ms", 1e-3),
    ("response_time.p99", "p99_us", "ms", 1e-3),
)
_GAUGES = ("memory_resident", "memory_used")
_HITS, _TRIES = "_cache_hits", "_cache_tries"


class Step(NamedTuple):
    """Between two blocks; the medians of what lies before it and after it, each up to
    the next step."""

    at_s: float
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Trend:
    #: Operation, as stream.operation, or the monitor's name.
    subject: str
    metric: str
    unit: str
    #: Where the line of the drift begins, in `unit`.
    start: float
    #: Over the whole measure phase, as shares of `start`, with the 95 % interval; None
    #: where the start is zero.
    change: float | None
    low: float | None
    high: float | None
    per_hour: float
    steps: tuple[Step, ...]

    @property
    def is_drift(self) -> bool:
        """Is it more than chance, and enough to matter?"""
        if self.change is None or self.low is None or self.high is None:
            return False
        return abs(self.change) >= LEAST_SHIFT and (self.low > 0 or self.high < 0)


class _Figure(NamedTuple):
    subject: str
    metric: str
    unit: str
    at_s: Floats
    values: Floats


def trends_of(
    timeline: Timeline,
    streams: Mapping[str, Mapping[str, Any]],
    monitors: Iterable[MonitorSummary],
) -> tuple[Trend, ...]:
    """Of a run with a long measure phase, else nothing; `streams` are the planned ones
    by name."""
    span = next((one for one in timeline.phases if one.name == "measure"), None)
    if span is None or span.end_s - span.start_s < LEAST_S:
        return ()
    figures = [
        found
        for one in (*_operations(timeline, streams), *_monitored(monitors))
        if (found := _blocks(one, span)).values.size >= _LEAST_BLOCKS
        and _covers(found.at_s, span)
    ]
    limit = _FALSE_ALARMS / max(1, len(figures))
    return tuple(_trend(one, span, limit) for one in figures)


def _operations(
    timeline: Timeline, streams: Mapping[str, Mapping[str, Any]]
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
    """Medians of the figure's values in the measure phase."""
    inside = (one.at_s > span.start_s) & (one.at_s < span.end_s)
    at_s, values = one.at_s[inside], one.values[inside]
    parts = min(BLOCKS, max(1, values.size))
    return one._replace(
        at_s=np.array(
            [part.mean() for part in np.array_split(at_s, parts) if part.size]
        ),
        values=np.array(
            [np.median(part) for part in np.array_split(values, parts) if part.size]
        ),
    )


def _covers(at_s: Floats, span: Phase) -> bool:
    """Whether the blocks leave no hole of a tenth of the phase: what nobody saw is not
    to be extrapolated."""
    edges = np.concatenate(([span.start_s], at_s, [span.end_s]))
    return bool(np.diff(edges).max() <= _LARGEST_HOLE * (span.end_s - span.start_s))


def _trend(one: _Figure, span: Phase, limit: float) -> Trend:
    line = theil_sen(one.at_s, one.values)
    start = line.at(span.start_s)
    length_s = span.end_s - span.start_s
    places = step_places(one.at_s, one.values, limit)
    levels = [float(np.median(part)) for part in np.split(one.values, places)]

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
        line.slope * 3600,
        tuple(
            Step(float(one.at_s[place - 1 : place + 1].mean()), before, after)
            for place, (before, after) in zip(places, pairwise(levels), strict=True)
        ),
    )


class Line(NamedTuple):
    """Value against time, with the interval of its slope."""

    slope: float
    low: float
    high: float
    level: float

    def at(self, at_s: float) -> float:
        return self.level + self.slope * at_s


def theil_sen(at_s: Floats, values: Floats) -> Line:
    """Of at least ten values at times that differ."""
    n = values.size
    first, later = np.triu_indices(n, 1)
    slopes = np.sort((values[later] - values[first]) / (at_s[later] - at_s[first]))
    sigma = math.sqrt(n * (n - 1) * (2 * n + 5) / 18) * widened_by(correlation(values))
    below = (slopes.size - _Z * sigma) / 2
    place = max(0, math.floor(below) - 1)
    slope = float(np.median(slopes))
    level = float(np.median(values) - slope * np.median(at_s))
    return Line(slope, float(slopes[place]), float(slopes[-place - 1]), level)


def step_places(at_s: Floats, values: Floats, limit: float) -> list[int]:
    """Numbers of the values before which there is a step, by p below the limit."""
    n = values.size
    if n < 2 * _LEAST_SIDE:
        return []
    signs = np.sign(values[:, None] - values[None, :])
    # U(t) = U(t - 1) + sum over j of sign(y_t - y_j)
    sums = np.abs(np.cumsum(signs.sum(1)))[_LEAST_SIDE - 1 : n - _LEAST_SIDE]
    place = int(np.argmax(sums)) + _LEAST_SIDE
    before, after = np.split(values, [place])
    low, high = np.median(before), np.median(after)
    around = np.concatenate((before - low, after - high))
    widening = widened_by((n * autocorrelation(around) + 2) / (n - 4))
    k = float(sums.max()) / widening
    line = theil_sen(at_s, values)
    of_line = np.abs(values - line.level - line.slope * at_s).sum()
    # both sums are zero where nothing changes
    better = np.log((of_line + _ZERO) / (np.abs(around).sum() + _ZERO))
    if (
        2 * math.exp(-6 * k**2 / (n**3 + n**2)) > limit
        or abs(high - low) < LEAST_SHIFT * abs(low)
        or 2 * n / widening**2 * better < _BETTER
    ):
        return []
    return [
        *step_places(at_s[:place], before, limit),
        place,
        *(place + one for one in step_places(at_s[place:], after, limit)),
    ]
