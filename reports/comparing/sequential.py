# SPDX-License-Identifier: Apache-2.0
"""Tests of a growing sample, which may end it. Pure.

Each look is a test of its own: the levels of all looks together spend no more than the
level of one (group-sequential, error spent by the Pocock-type function of Lan and
DeMets 1983, Biometrika 70, 659-663; levels of t are those of the normal distribution,
Jennison and Turnbull 2000, chapter 11.2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from ldapslam.base.arrays import Floats
from ldapslam.reports.comparing.change import (
    LEVEL,
    POWER,
    Errors,
    error_of_difference,
    widest,
)

#: Values of a sample before which its spread is hardly known.
FIRST_LOOK = 6
#: Minimum number of days for an estimate of the between-day variance.
FEWEST_DAYS = 3
#: Factor from the number of values of a look to that of the next, which is even.
_GROWTH = 1.2
#: Standard deviations within which a sum is followed, and nodes of the quadrature.
_REACH = 8.0
_NODES = 128


def looks(most: int) -> list[int]:
    """Sizes at which a sample that grows to `most` is looked at."""
    found, size = [], FIRST_LOOK
    while size < most:
        found.append(size)
        size = max(size + 2, 2 * round(size * _GROWTH / 2))
    return [*found, most]


def spending(share: float) -> float:
    """The part of the level that is spent up to this share of the sample."""
    return math.log1p((math.e - 1) * share)


def nominal_levels(
    shares: Sequence[float], level: float, spent: Sequence[float] = ()
) -> list[float]:
    """One-sided levels of looks at these shares of the whole sample, ascending to 1,
    that together reject a true hypothesis with probability `level`. `spent`: the part
    of `level` that is spent up to each look; without it, that of the look's share.

    The sum of a sample at share t is normal with variance t; what has not been rejected
    before is followed from look to look (Armitage, McPherson and Rowe 1969, Journal of
    the Royal Statistical Society A 132, 235-244).
    """
    from scipy import optimize  # slow to load

    points, weights = np.polynomial.legendre.leggauss(_NODES)
    # the sum before the first look is 0
    sums, masses = np.zeros(1), np.ones(1)
    found, before, done = [], 0.0, 0.0
    for share, part in zip(shares, spent or map(spending, shares), strict=True):
        total = level * part
        step, reach = math.sqrt(share - before), _REACH * math.sqrt(share)

        def excess(bound: float) -> float:
            beyond = masses @ special.ndtr((sums - bound) / step)  # noqa: B023
            return float(beyond) - (total - done)  # noqa: B023

        bound = float(optimize.brentq(excess, -reach, reach))
        found.append(float(special.ndtr(-bound / math.sqrt(share))))
        half = (bound + reach) / 2
        nodes = half * (points + 1) - reach
        steps = (nodes[:, np.newaxis] - sums) / step
        density = np.exp(-(steps**2) / 2) @ masses / (step * math.sqrt(2 * math.pi))
        sums, masses = nodes, half * weights * density
        before, done = share, total
    return found


@dataclass(frozen=True, slots=True)
class Plan:
    """The looks at a sample, and their levels."""

    #: Values of the sample at each look.
    sizes: tuple[int, ...]
    #: Number of tests - 1 -> one-sided levels of the looks, for a test at LEVEL / 2
    #: divided by the number of tests.
    levels: tuple[tuple[float, ...], ...]
    #: The last size that was planned; the sample may have ended before.
    planned: int

    @classmethod
    def of(cls, sizes: Sequence[int], tests: int, planned: int = 0) -> Plan:
        """For a family of up to `tests` tests; `planned` is the last size when left
        out."""
        planned = planned or sizes[-1]
        shares = [one / sizes[-1] for one in sizes]
        # the last look spends the rest
        spent = [*(spending(one / planned) for one in sizes[:-1]), 1.0]
        return cls(
            tuple(sizes),
            tuple(
                tuple(nominal_levels(shares, LEVEL / 2 / count, spent))
                for count in range(1, tests + 1)
            ),
            planned,
        )

    def ended_at(self, size: int) -> Plan:
        """The plan of a sample that ends at this size, looked at as planned before."""
        sizes = [one for one in self.sizes if one < size]
        return Plan.of([*sizes, size], len(self.levels), self.planned)

    def level_of_events(self, place: int) -> float:
        """The one-sided level of a look, of a test of the family that spends half of
        its own at the first look, since events that are clear then need no more; then
        each look's part of the rest. By Bonferroni over the looks, as such a test has
        no sum that could be followed."""
        spent = [0.0, *(spending(one / self.planned) for one in self.sizes[:-1]), 1.0]
        share = (spent[place + 1] - spent[place] + (place == 0)) / 2
        return LEVEL / 2 / len(self.levels) * share

    def for_tests(self, tests: int) -> Plan:
        """Return the plan for a family of at least this many tests."""
        if tests <= len(self.levels):
            return self
        return Plan.of(self.sizes, tests, self.planned)


class Means(NamedTuple):
    """Mean losses of m figures: how much worse the new side is in each. A figure that
    is missing anywhere is NaN."""

    #: Each of shape (m,): the means, their standard errors and degrees of freedom.
    mean: Floats
    error: Floats
    freedom: Floats

    @classmethod
    def of_pairs(cls, losses: Floats) -> Means:
        """Return the means of the losses of pairs, shape (n, m), n >= 2."""
        size, count = losses.shape
        error = losses.std(axis=0, ddof=1) / math.sqrt(size)
        return cls(losses.mean(axis=0), error, np.full(count, size - 1.0))

    @classmethod
    def of_sides(cls, old: Floats, new: Floats, days: Sequence[str] = ()) -> Means:
        """Return the means of new less old values, shapes (n, m) and (k, m), k and n
        >= 2. `days`: the days on which the old values were measured."""
        squares = [one.var(axis=0) * len(one) for one in (old, new)]
        found = error_of_difference(squares, [len(old), len(new)])
        error, freedom = widest(found, error_of_days(old, new, days))
        return cls(new.mean(axis=0) - old.mean(axis=0), error, freedom)


def error_of_days(old: Floats, new: Floats, days: Sequence[str]) -> Errors | None:
    """Return the standard errors, and their degrees of freedom, of the difference
    between new values of one more day and old values of several days. Shapes (n, m) and
    (k, m). None with fewer than FEWEST_DAYS.

    What the values of a day have in common does not become less with their number:

        error^2 = between (1 + sum(k_i^2) / k^2) + within (1 / k + 1 / n)

    of days of k_i values, with their variance (by one-factor analysis of variance
    with days of different sizes; not below 0) and that within a day. As it adds up
    mean squares between and within days, its degrees of freedom are by Satterthwaite
    (1946, Biometrics Bulletin 2).
    """
    _, places, sizes = np.unique(days, return_inverse=True, return_counts=True)
    d, k, n = len(sizes), len(old), len(new)
    if d < FEWEST_DAYS:
        return None
    means = np.array([old[places == day].mean(axis=0) for day in range(d)])
    squares = ((old - means[places]) ** 2).sum(axis=0) + n * new.var(axis=0)
    freedom = k - d + n - 1
    within = squares / freedom
    of_days = sizes @ (means - old.mean(axis=0)) ** 2 / (d - 1)
    # a mean square of days contains this multiple of the variance between them
    times = (k - (sizes**2).sum() / k) / (d - 1)
    weight = (1 + (sizes**2).sum() / k**2) / times
    rest = 1 / k + 1 / n
    is_more = of_days > within
    whole = weight * np.maximum(of_days - within, 0.0) + rest * within
    parts = np.where(
        is_more,
        (weight * of_days) ** 2 / (d - 1) + ((rest - weight) * within) ** 2 / freedom,
        (rest * within) ** 2 / freedom,
    )
    all_freedom = np.full(whole.shape, float(freedom))
    return np.sqrt(whole), np.divide(whole**2, parts, out=all_freedom, where=parts > 0)


@dataclass(frozen=True, slots=True)
class Looked:
    """What a look has found; each array has shape (m,)."""

    means: Means
    #: Half of the width of each mean's interval, which all looks together leave with
    #: probability LEVEL.
    reach: Floats
    #: There is a loss, by Holm over the m figures; and it is larger than its bound.
    is_worse: npt.NDArray[np.bool_]
    #: The loss is smaller than its bound.
    is_within: npt.NDArray[np.bool_]
    #: The interval lies beyond the bound, whatever Holm says.
    is_beyond: npt.NDArray[np.bool_]


def look(means: Means, bounds: Floats, plan: Plan, place: int) -> Looked:
    """The look number `place` of the plan, by t; `bounds`, of shape (m,), are above 0.
    The plan's family has m tests or more. A figure that is missing is neither worse nor
    within."""
    levels = [one[place] for one in plan.levels]
    count = len(bounds)
    p = _p(means.mean, means)
    is_worse = np.zeros(count, bool)
    for left, at in zip(range(len(levels), 0, -1), np.argsort(p), strict=False):
        if not p[at] <= levels[left - 1]:
            break
        is_worse[at] = means.mean[at] > bounds[at]
    reach = -special.stdtrit(means.freedom, levels[0]) * means.error
    is_within = _p(bounds - means.mean, means) <= levels[0]
    return Looked(means, reach, is_worse, is_within, means.mean - reach > bounds)


def _p(distance: Floats, means: Means) -> Floats:
    """One-sided p of means that far above their bounds; without a spread 0 or 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = np.where(distance == 0, 0.0, -distance / means.error)
    found: Floats = special.stdtr(means.freedom, statistic)
    return np.where(np.isnan(distance), 1.0, found)


def smallest_found(
    error: float, freedom: float, bound: float, plan: Plan, place: int
) -> float:
    """The loss that this look calls worse in POWER of cases: it is told from none as
    the only one of its family, and seen above `bound`."""
    told = _distance(error, freedom, plan.levels[-1][place])
    return max(told, bound + _t(POWER, freedom) * error)


def _distance(error: float, freedom: float, level: float) -> float:
    return (_t(1 - level, freedom) + _t(POWER, freedom)) * error


def _t(share: float, freedom: float) -> float:
    return float(special.stdtrit(freedom, share))
