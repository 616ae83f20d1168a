# SPDX-License-Identifier: Apache-2.0
"""Was an operation in a steady state all through the measure phase? Pure.

Looked at are the medians of its points on the time axis, of streams whose load is
constant: under a load that changes they have to change. Two things are asked.

MSER-5 (White 1997) finds where a transient ends. With Z_1 … Z_n the means of five
medians each, the number d that is cut off is the one that minimises

    MSER(d) = 1 / (n - d)^2 * sum over i > d of (Z_i - mean of those)^2

the squared standard error of what is left. Beyond half of the phase there is no steady
state to speak of.

The last third of the medians is held against the first, and what follows a late
transient against what precedes it, by the test of Mann and Whitney: U counts the pairs
in which the later one is higher, z = (U - mean) / sigma with the correction for ties,
and p is that of the normal distribution. Medians that follow each other are seldom
independent: sigma is widened by sqrt((1 + r) / (1 - r)), r their lag-1 autocorrelation
once their trend is taken off. Of many questions one would find something by chance, so
the limit of p is divided by their number, over all operations.

A change that is real and small is none that matters: less than LEAST_SHIFT is steady.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ldapslam.jobs.run_plan import PlannedStream
from ldapslam.reports.collect.timeline import Series, Timeline

LEAST_POINTS = 10
LEAST_SHIFT = 0.03
#: Of a run without any drift, how often one of its operations may be called unsteady.
FALSE_ALARMS = 0.05
MOST_TRANSIENT = 0.5

_BATCH = 5
#: What is left when fewer batches are has a small error by chance.
_LEAST_BATCHES = 5

Floats = npt.NDArray[np.float64]


class Shift(NamedTuple):
    """The later of two samples against the earlier one."""

    #: Their medians' difference as a share of the earlier one's.
    share: float
    #: Of a difference as large as this, or larger, by chance.
    p: float


@dataclass(frozen=True, slots=True)
class Steady:
    """What was found of one operation under constant load."""

    stream: str
    operation: str
    #: The medians looked at.
    points: int
    #: Lag-1 autocorrelation of the medians, their trend taken off; and of throughput.
    autocorrelation: float | None = None
    throughput_autocorrelation: float | None = None
    #: Of the last third over the first.
    drift: Shift | None = None
    #: The part of the phase that MSER-5 cuts off, and the rest over that part; None
    #: with too few points, and nothing to compare where nothing is cut off.
    transient_share: float | None = None
    after_transient: Shift | None = None
    #: None: too few points to tell a change from chance.
    is_steady: bool | None = None
    #: What is not steady, for people; empty where nothing is known to be.
    text: str = ""


def steady_findings(
    timeline: Timeline, streams: Mapping[str, PlannedStream]
) -> tuple[Steady, ...]:
    """Of each operation that a stream of constant load has; `streams` are the planned
    ones by name."""
    measured = timeline.measured
    chosen = {
        key: series
        for key, series in timeline.operations.items()
        if key[0] in streams and is_constant(streams[key[0]])
    }
    medians = {key: _known(series.p50_us, measured) for key, series in chosen.items()}
    questions = sum(
        (values.size >= LEAST_POINTS) + (transient(values) is not None)
        for values in medians.values()
    )
    limit = FALSE_ALARMS / max(1, questions)
    return tuple(
        _finding(key, medians[key], series, measured, limit)
        for key, series in chosen.items()
    )


def is_constant(stream: PlannedStream) -> bool:
    """Is its load the same all through the measure phase?"""
    if stream.is_replay or stream.count or stream.start_ns or stream.end_ns:
        return False
    if stream.model == "closed":
        return True
    mean, peak = stream.rate_per_s, stream.peak_rate_per_s
    return mean is not None and (peak is None or peak <= mean * (1 + 1e-6))


def _known(values: Iterable[float | None], places: Iterable[int]) -> Floats:
    listed = list(values)
    return np.array([one for place in places if (one := listed[place]) is not None])


def _finding(
    key: tuple[str, str],
    medians: Floats,
    series: Series,
    measured: list[int],
    limit: float,
) -> Steady:
    count, third = medians.size, medians.size // 3
    if count < LEAST_POINTS or _least_p(third) > limit:
        return Steady(*key, count)
    widening = widened_by(correlation(medians))
    drift = shift(medians[:third], medians[-third:], widening)
    cut = transient(medians)
    share = after = None
    if cut is not None:
        share = cut / count
        after = shift(medians[:cut], medians[cut:], widening) if cut else None
    wrong = []
    if _matters(drift, limit):
        of = "the last third of the measure phase"
        wrong.append(f"{_told(drift)} in {of} than in the first")
    if after and share and share > MOST_TRANSIENT and _matters(after, limit):
        wrong.append(f"{_told(after)} after {share:.0%} of the measure phase")
    throughput = _known(series.throughput_per_s, measured)
    return Steady(
        *key,
        points=count,
        autocorrelation=correlation(medians),
        throughput_autocorrelation=(
            autocorrelation(throughput) if throughput.size >= LEAST_POINTS else None
        ),
        drift=drift,
        transient_share=share,
        after_transient=after,
        is_steady=not wrong,
        text=f"{'.'.join(key)}: {'; '.join(wrong)}" if wrong else "",
    )


def _matters(change: Shift, limit: float) -> bool:
    return abs(change.share) >= LEAST_SHIFT and change.p <= limit


def _told(change: Shift) -> str:
    side = "higher" if change.share > 0 else "lower"
    p = "p < 0.001" if change.p < 0.001 else f"p = {change.p:.3f}"
    return f"the median response time is {abs(change.share):.1%} {side} ({p})"


def transient(values: Floats) -> int | None:
    """How many values MSER-5 cuts off; None with too few to say."""
    batches = values.size // _BATCH
    if batches < 2 * _LEAST_BATCHES:
        return None
    means = values[values.size - batches * _BATCH :].reshape(batches, _BATCH).mean(1)
    left, mean = np.arange(batches, 0, -1), means.mean()
    # of differences from the mean of all: the larger ones would cancel out
    around = means - mean
    sums, squares = (np.cumsum(one[::-1])[::-1] for one in (around, around**2))
    rounding = batches * (1e-9 * mean) ** 2
    errors = np.maximum(squares - sums**2 / left, rounding) / left**2
    found = int(np.argmin(errors[: batches - _LEAST_BATCHES + 1]))
    return values.size - (batches - found) * _BATCH if found else 0


def shift(earlier: Floats, later: Floats, widening: float = 1.0) -> Shift:
    """By the test of Mann and Whitney; `widening` of its sigma."""
    median = float(np.median(earlier))
    share = float(np.median(later)) / median - 1 if median else 0.0
    n, m = earlier.size, later.size
    ordered = np.sort(earlier)
    below = np.searchsorted(ordered, later, side="left")
    up_to = np.searchsorted(ordered, later, side="right")
    u = float((below + up_to).sum()) / 2
    _, ties = np.unique(np.concatenate((earlier, later)), return_counts=True)
    total = n + m
    tied = float((ties.astype(float) ** 3 - ties).sum()) / (total * (total - 1))
    sigma = widening * math.sqrt(n * m / 12 * (total + 1 - tied))
    distance = max(0.0, abs(u - n * m / 2) - 0.5)
    return Shift(share, math.erfc(distance / sigma / math.sqrt(2)) if sigma else 1.0)


def _least_p(size: int) -> float:
    """Of two samples of this size that do not overlap."""
    both = np.arange(1, 2 * size + 1, dtype=np.float64)
    return shift(both[:size], both[size:]).p


def autocorrelation(values: Floats) -> float:
    """Lag-1; 0 of values that are all the same."""
    around = values - values.mean()
    squares = float(around @ around)
    return float(around[1:] @ around[:-1]) / squares if squares else 0.0


def widened_by(correlation: float) -> float:
    """Factor of a sigma, where values have this lag-1 autocorrelation."""
    apart = min(max(correlation, 0.0), 0.99)
    return math.sqrt((1 + apart) / (1 - apart))


def correlation(medians: Floats) -> float:
    """Lag-1 autocorrelation without their trend: the least-squares line of each half,
    for a transient is no straight line. It makes r too low by about (2 + 4 r) / n."""
    halves = np.array_split(medians, 2)
    residuals = np.concatenate([_without_line(half) for half in halves])
    if np.ptp(residuals) <= 1e-9 * np.ptp(medians):
        return 0.0  # what is left is rounding
    n = halves[1].size
    return (n * autocorrelation(residuals) + 2) / (n - 4)


def _without_line(values: Floats) -> Floats:
    at = np.arange(values.size) - (values.size - 1) / 2
    around = values - values.mean()
    residuals: Floats = around - at * (float(at @ around) / float(at @ at))
    return residuals
