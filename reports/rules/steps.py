# SPDX-License-Identifier: Apache-2.0
"""Steps: where the level of values that follow each other changed. Pure.

Looked for is the stretch of values, inside or at an end, whose ranks differ most from
all others', so that a level that comes back is found too (circular binary segmentation,
Olshen et al. 2004, Biostatistics 5, 557-572). Of a stretch of k of n values,

    Z = |sum of its ranks - k (n + 1) / 2| / sigma,  sigma^2 = k (n - k) (n + 1) / 12

and as any permutation is as likely as another, t = Z sqrt((n - 2) / (n - 1 - Z^2)) has
about Student's distribution of n - 2 degrees of freedom. With b, the normal quantile of
the same p, the largest of all Z is chance with (Siegmund 1988, Biometrika 75; d is the
shortest stretch as a share)

    p = b^3 phi(b) / 2 * integral from d to 1 - d of nu(b / sqrt(n u (1 - u)))^2
        / (u^2 (1 - u)) du

A drift must not be taken for steps: the levels have to fit better than a line, too.
Then each part is looked at in turn. Blocks that follow each other are seldom
independent: as in steady.py, Z is smaller by sqrt((1 + r) / (1 - r)), and n by its
square.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri, stdtr

from ldapslam.reports.rules.lines import theil_sen
from ldapslam.reports.rules.steady import (
    LEAST_SHIFT,
    Floats,
    autocorrelation,
    widened_by,
)

#: Of each side of a step.
_LEAST_SIDE = 5
#: The formula for p falls from sqrt(3) on; at 37 it is below any limit.
_LEAST_B, _LARGEST_B = math.sqrt(3), 37.0
#: How much better levels have to fit than a line: twice the logarithm of how much
#: likelier they are, were what is left of Laplace's distribution. By simulation, a
#: drift is then taken for a step in about the share of the limit.
_BETTER = 3.0
_ZERO = 1e-12

Places = npt.NDArray[np.intp]


def step_places(at_s: Floats, values: Floats, limit: float) -> list[int]:
    """Numbers of the values before which there is a step, by p below the limit."""
    n = values.size
    if n < 2 * _LEAST_SIDE:
        return []
    z, places = largest_stretch(values)
    parts = np.split(values, places)
    levels = [float(np.median(part)) for part in parts]
    around = np.concatenate(
        [part - level for part, level in zip(parts, levels, strict=True)]
    )
    fitted = len(parts)
    # as in steady.py, but levels where they differ most make r lower than a line does
    r = (n * autocorrelation(around) + 2 * fitted) / (n - 2 * fitted)
    widening = widened_by(r)
    independent = n / widening**2
    places = [
        place
        for place, (before, after) in zip(places, pairwise(levels), strict=True)
        if abs(after - before) >= LEAST_SHIFT * abs(before)
    ]
    if (
        not places
        or independent < _LEAST_SIDE
        or chance(z / widening, n, independent) > limit
        or 2 * independent * _likelier(at_s, values, around)
        < _BETTER * (fitted - 1 - math.log(limit))
    ):
        return []
    found = []
    for start, end in pairwise([0, *places, n]):
        inside = step_places(at_s[start:end], values[start:end], limit)
        found += [*(start + one for one in inside), end]
    return found[:-1]


def largest_stretch(values: Floats) -> tuple[float, list[int]]:
    """The largest Z, and the ends of its stretch that are not those of the values."""
    n = values.size
    # rank - (n + 1) / 2, the mean rank of values that are the same
    ranks = np.sign(values[:, None] - values[None, :]).sum(1) / 2
    sums = np.concatenate(([0.0], np.cumsum(ranks)))
    starts, ends, shares = _stretches(n)
    variance = float(ranks @ ranks) / (n - 1)  # n (n + 1) / 12 without ties
    z = np.abs(sums[ends] - sums[starts]) / np.sqrt(
        np.maximum(variance, _ZERO) * shares
    )
    most = int(np.argmax(z))
    places = (int(starts[most]), int(ends[most]))
    return float(z[most]), [one for one in places if 0 < one < n]


@lru_cache(maxsize=64)
def _stretches(n: int) -> tuple[Places, Places, Floats]:
    """Starts and ends of all stretches of n values that leave enough of each part, and
    k (n - k) / n."""
    starts, ends = np.triu_indices(n + 1, _LEAST_SIDE)
    inside = (starts == 0) | (starts >= _LEAST_SIDE)
    inside &= (ends == n) | (ends <= n - _LEAST_SIDE)
    inside &= ends - starts <= n - _LEAST_SIDE
    starts, ends = starts[inside], ends[inside]
    lengths = ends - starts
    return starts, ends, lengths * (n - lengths) / n


def chance(z: float, n: int, independent: float) -> float:
    """p of the largest Z of n values that tell as much as so many independent ones."""
    left = independent - 1 - z**2
    if left <= 0:
        return 0.0
    freedom = independent - 2
    b = -float(ndtri(stdtr(freedom, -z * math.sqrt(freedom / left))))
    b = min(max(b, _LEAST_B), _LARGEST_B)
    u = np.linspace(_LEAST_SIDE / n, 1 - _LEAST_SIDE / n, 101)
    x = b / np.sqrt(n * u * (1 - u)) / 2
    nu = (ndtr(x) - 0.5) / (x * (x * ndtr(x) + _density(x)))
    return b**3 * float(_density(b) * np.trapezoid(nu**2 / (u**2 * (1 - u)), u)) / 2


def _density(x: Floats | float) -> Floats:
    """Of the normal distribution."""
    found: Floats = np.exp(-np.square(x) / 2) / math.sqrt(2 * math.pi)
    return found


def _likelier(at_s: Floats, values: Floats, around: Floats) -> float:
    """Logarithm of how much less the levels leave than the line, a value."""
    line = theil_sen(at_s, values)
    of_line = np.abs(values - line.level - line.slope * at_s).sum()
    # both sums are zero where nothing changes
    return float(np.log((of_line + _ZERO) / (np.abs(around).sum() + _ZERO)))
