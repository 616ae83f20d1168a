# SPDX-License-Identifier: Apache-2.0
"""The line of Theil and Sen: the median of the slopes between all pairs of values.

With its 95 % interval (Sen 1968, Journal of the American Statistical Association 63)
and Kendall's test of "no slope". Values that follow each other are seldom independent:
as in steady.py, sigma is larger by sqrt((1 + r) / (1 - r)); r is an estimate from few
values, for which Student's distribution allows, of n (1 - r) / (1 + r) - 2 degrees of
freedom.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import stdtr, stdtrit

from ldapslam.reports.rules.steady import Floats, correlation, widened_by


class Line(NamedTuple):
    """Value against time, with the interval of its slope."""

    slope: float
    low: float
    high: float
    level: float
    #: Of such a slope, or a steeper one, by chance.
    p: float

    def at(self, at_s: float) -> float:
        return self.level + self.slope * at_s


def theil_sen(at_s: Floats, values: Floats) -> Line:
    """Of at least ten values at times that differ."""
    n = values.size
    first, later = np.triu_indices(n, 1)
    slopes = np.sort((values[later] - values[first]) / (at_s[later] - at_s[first]))
    widening = widened_by(correlation(values))
    sigma = math.sqrt(n * (n - 1) * (2 * n + 5) / 18) * widening
    freedom = max(n / widening**2 - 2, 1.0)
    below = (slopes.size - float(stdtrit(freedom, 0.975)) * sigma) / 2
    place = max(0, math.floor(below) - 1)
    score = max(0.0, abs(float(np.sign(slopes).sum())) - 1)
    slope = float(np.median(slopes))
    return Line(
        slope,
        float(slopes[place]),
        float(slopes[-place - 1]),
        float(np.median(values) - slope * np.median(at_s)),
        2 * float(stdtr(freedom, -score / sigma)),
    )
