# SPDX-License-Identifier: Apache-2.0
"""The line of Theil and Sen: the median of the slopes between all pairs of values.

With its 95 % interval (Sen 1968, Journal of the American Statistical Association 63)
and Kendall's test of "no slope". Successive values are seldom independent: sigma is
widened by sqrt((1 + r) / (1 - r)), with r their lag-1 autocorrelation without their
trend; as r is estimated from few values, p is that of Student's distribution with
n (1 - r) / (1 + r) - 2 degrees of freedom.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ldapslam.base.arrays import Floats, median

#: At 1, values that follow each other would say nothing.
MOST_ALIKE = 0.99


class Line(NamedTuple):
    """Value against time, with the interval of its slope."""

    slope: float
    low: float
    high: float
    level: float
    #: Probability of a slope at least this steep under no change.
    p: float

    def at(self, at_s: float) -> float:
        return self.level + self.slope * at_s


def theil_sen(at_s: Floats, values: Floats, most: float = MOST_ALIKE) -> Line:
    """Return the line through at least ten values at different times; `most`: see
    `widened_by`."""
    from scipy.special import stdtr, stdtrit  # slow to load

    n = values.size
    first, later = np.triu_indices(n, 1)
    slopes = np.sort((values[later] - values[first]) / (at_s[later] - at_s[first]))
    widening = widened_by(correlation(values), most)
    sigma = math.sqrt(n * (n - 1) * (2 * n + 5) / 18) * widening
    freedom = max(n / widening**2 - 2, 1.0)
    below = (slopes.size - float(stdtrit(freedom, 0.975)) * sigma) / 2
    place = max(0, math.floor(below) - 1)
    score = max(0.0, abs(float(np.sign(slopes).sum())) - 1)
    slope = median(slopes)
    return Line(
        slope,
        float(slopes[place]),
        float(slopes[-place - 1]),
        median(values) - slope * median(at_s),
        2 * float(stdtr(freedom, -score / sigma)),
    )


def block_medians(values: Floats, blocks: int) -> Floats:
    """Return the medians of at most this many successive blocks of equal size."""
    parts = np.array_split(values, min(blocks, max(1, values.size)))
    return np.array([median(part) for part in parts if part.size])


def autocorrelation(values: Floats) -> float:
    """Return the lag-1 autocorrelation; 0 if all values are equal."""
    around = values - values.mean()
    squares = float(around @ around)
    return float(around[1:] @ around[:-1]) / squares if squares else 0.0


def widened_by(correlation: float, most: float = MOST_ALIKE) -> float:
    """Return the factor of sigma for values with this lag-1 autocorrelation; one above
    `most` is taken for that."""
    bounded = min(max(correlation, 0.0), most)
    return math.sqrt((1 + bounded) / (1 - bounded))


def correlation(values: Floats) -> float:
    """Return the lag-1 autocorrelation of values without their trend: the least-squares
    line of each half, for a transient is not a straight line. It makes r too low by
    about (2 + 4 r) / n."""
    halves = np.array_split(values, 2)
    residuals = np.concatenate([_without_line(half) for half in halves])
    if np.ptp(residuals) <= 1e-9 * np.ptp(values):
        return 0.0  # only rounding errors remain
    n = halves[1].size
    return (n * autocorrelation(residuals) + 2) / (n - 4)


def _without_line(values: Floats) -> Floats:
    at = np.arange(values.size) - (values.size - 1) / 2
    around = values - values.mean()
    residuals: Floats = around - at * (float(at @ around) / float(at @ at))
    return residuals
