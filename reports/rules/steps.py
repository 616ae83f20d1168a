# SPDX-License-Identifier: Apache-2.0
"""Steps: where the level of values that follow each other changed. Pure.

The search is for the stretch of values, inside or at an end, with the ranks that differ
most from all others', so that a level that comes back is found too (circular binary
segmentation, Olshen et al. 2004, Biostatistics 5, 557-572). For a stretch of k of n
values,

    Z = |sum of its ranks - k (n + 1) / 2| / sigma,  sigma^2 = k (n - k) (n + 1) / 12

and R^2 = Z^2 / (n - 1) is the share of the ranks' variance that lies between it and the
others. As all permutations are equally likely, t = sqrt((n - 2) R^2 / (1 - R^2)) has
about Student's distribution of n - 2 degrees of freedom. With b, the normal
quantile of the same p, the largest of all Z is chance with (Siegmund 1988, Biometrika
75; d is the shortest stretch as a share)

    p = b^3 phi(b) / 2 * integral from d to 1 - d of nu(b / sqrt(n u (1 - u)))^2
        / (u^2 (1 - u)) du

Ranks cannot tell a wide gap from a narrow one. Where all values of the stretch lie on
one side of all others, R^2 is that of the values themselves, if it is larger: else few
values would never show even a step of a hundred standard deviations. So the search is
also for the stretch with the values that differ most.

A drift must not be taken for steps: the levels have to fit better than a line, too.
Then each part is searched in turn. Successive values are seldom independent: n of them
have the evidence of n (1 - r) / (1 + r) independent values (lines.py).
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from ldapslam.base.arrays import Floats, median
from ldapslam.reports.rules.lines import (
    MOST_ALIKE,
    autocorrelation,
    block_medians,
    theil_sen,
    widened_by,
)

#: Smaller changes do not matter, as a share of the level before them.
LEAST_SHIFT = 0.03
#: Values on each side of a step.
_LEAST_SIDE = 5
#: Lower bound for independent values: Student's distribution needs more than two.
_LEAST_INDEPENDENT = 5.0
#: The formula for p falls from sqrt(3) on; at 37 it is below any limit.
_LEAST_B, _LARGEST_B = math.sqrt(3), 37.0
#: How much better levels have to fit than a line: twice the logarithm of the ratio of
#: likelihoods, with residuals of Laplace's distribution. By simulation, a drift is then
#: taken for a step in about the share of the limit.
_BETTER = 3.1
#: With more values, a line is fitted to the medians of this many blocks: it takes the
#: slopes of all pairs.
_LINE_BLOCKS = 400
_ZERO = 1e-12


def step_places(at_s: Floats, values: Floats, limit: float) -> list[int]:
    """Return the indexes of the values before which there is a step, by p below the
    limit."""
    n = values.size
    places, fits_better = stretch_apart(at_s, values, limit)
    if not places or not fits_better:
        return []
    found = []
    for start, end in pairwise([0, *places, n]):
        inside = step_places(at_s[start:end], values[start:end], limit)
        found += [*(start + one for one in inside), end]
    return found[:-1]


def stretch_apart(
    at_s: Floats, values: Floats, limit: float, most_alike: float = MOST_ALIKE
) -> tuple[list[int], bool]:
    """Return the ends, inside the values, of the stretch that differs most from all
    others, if p is below the limit; and whether levels fit better than a line.
    `most_alike`: see `widened_by`."""
    n = values.size
    if n < 2 * _LEAST_SIDE:
        return [], False
    share, places = _most_apart(values)
    parts = np.split(values, places)
    around = np.concatenate([part - median(part) for part in parts])
    fitted = len(parts)
    # fitted levels make r too low, and levels where they differ most more than a line
    r = (n * autocorrelation(around) + 2 * fitted) / (n - 2 * fitted)
    independent = max(n / widened_by(r, most_alike) ** 2, _LEAST_INDEPENDENT)
    places = _that_matter(values, places)
    if not places or chance(share, n, independent) > limit:
        return [], False
    likelier = 2 * independent * _likelier(at_s, values, around)
    return places, likelier >= _BETTER * (fitted - 1 - math.log(limit))


def _that_matter(values: Floats, places: list[int]) -> list[int]:
    """Leave out the smallest step until all between the levels that are left matter."""
    while places:
        levels = [median(part) for part in np.split(values, places)]
        sizes = [
            abs(after - before) / max(abs(before), _ZERO)
            for before, after in pairwise(levels)
        ]
        smallest = min(sizes)
        if smallest >= LEAST_SHIFT:
            break
        places = [
            one for one, size in zip(places, sizes, strict=True) if size > smallest
        ]
    return places


def _most_apart(values: Floats) -> tuple[float, list[int]]:
    """Return R^2 of the stretch that differs most, by ranks or by a gap, and its
    places."""
    share, places = largest_stretch(_ranks(values))
    best = share, _moved(values, places)
    _, by_gap = largest_stretch(values)
    for found in (best[1], _moved(values, by_gap)):
        best = max(best, (_share_of_gap(values, found), found))
    return best


def _ranks(values: Floats) -> Floats:
    """Return twice the ranks; equal values have their mean rank."""
    ordered = np.sort(values)
    ranks: Floats = np.searchsorted(ordered, values).astype(np.float64)
    ranks += np.searchsorted(ordered, values, side="right")
    return ranks


def largest_stretch(values: Floats) -> tuple[float, list[int]]:
    """Return the largest R^2, and the ends of its stretch inside the values."""
    n = values.size
    around = values - values.mean()
    sums = np.concatenate(([0.0], np.cumsum(around)))
    most, places = 0.0, (_LEAST_SIDE, n)
    for length in range(_LEAST_SIDE, n - _LEAST_SIDE + 1):
        apart = np.abs(sums[length:] - sums[:-length])
        # too few values before the stretch, or after it
        apart[1:_LEAST_SIDE] = 0
        apart[n - length - _LEAST_SIDE + 1 : n - length] = 0
        start = int(np.argmax(apart))
        found = float(apart[start]) ** 2 / (length * (n - length))
        if found > most:
            most, places = found, (start, start + length)
    share = most * n / max(float(around @ around), _ZERO)
    return share, [one for one in places if 0 < one < n]


def _moved(values: Floats, places: list[int]) -> list[int]:
    """Move the places to the smallest residuals from the levels: ranks of the longer
    side may draw an end of the stretch into it."""
    levels = [median(part) for part in np.split(values, places)]
    edges = [0, *places, values.size]
    found: list[int] = []
    for place, (before, after) in enumerate(pairwise(levels), 1):
        first = (found[-1] if found else 0) + _LEAST_SIDE
        last = edges[place + 1] - _LEAST_SIDE
        nearer = np.abs(values - before) - np.abs(values - after)
        left = np.cumsum(nearer)[first - 1 : last]
        found.append(first + int(np.argmin(left)))
    return found


def _share_of_gap(values: Floats, places: list[int]) -> float:
    """Return R^2 of the stretch between the places; zero where it overlaps the
    others."""
    before, inside, *after = np.split(values, places)
    others = np.concatenate((before, *after))
    if inside.min() <= others.max() and others.min() <= inside.max():
        return 0.0
    within = inside.size * inside.var() + others.size * others.var()
    return 1 - float(within / (values.size * values.var()))


def chance(share: float, n: int, independent: float) -> float:
    """Return p of the largest R^2 of n values, with the evidence of `independent`
    values."""
    from scipy.special import ndtr, ndtri, stdtr  # slow to load

    if share >= 1:
        return 0.0
    freedom = independent - 2
    t = math.sqrt(freedom * share / (1 - share))
    b = -float(ndtri(stdtr(freedom, -t)))
    b = min(max(b, _LEAST_B), _LARGEST_B)
    u = np.linspace(_LEAST_SIDE / n, 1 - _LEAST_SIDE / n, 101)
    x = b / np.sqrt(n * u * (1 - u)) / 2
    nu = (ndtr(x) - 0.5) / (x * (x * ndtr(x) + _density(x)))
    return b**3 * float(_density(b) * np.trapezoid(nu**2 / (u**2 * (1 - u)), u)) / 2


def _density(x: Floats | float) -> Floats:
    """Return the density of the normal distribution."""
    density: Floats = np.exp(-np.square(x) / 2) / math.sqrt(2 * math.pi)
    return density


def _likelier(at_s: Floats, values: Floats, around: Floats) -> float:
    """Return the logarithm of the ratio of residuals, the line's to the levels'."""
    blocks = block_medians(at_s, _LINE_BLOCKS), block_medians(values, _LINE_BLOCKS)
    line = theil_sen(*blocks)
    of_line = np.abs(values - line.level - line.slope * at_s).sum()
    # both sums are zero where nothing changes
    return float(np.log((of_line + _ZERO) / (np.abs(around).sum() + _ZERO)))
