# SPDX-License-Identifier: Apache-2.0
"""The change of a value between an old and a new sample: interval, p, power. Pure.

Two kinds of evidence, both for the ratio new / old and for the difference new - old:

- *Values of repeated runs*: t, of the logarithms where it is a ratio, as times and
  rates are skewed and vary by a factor. The wider interval of Welch's (1947, Biometrika
  34, 28-35) and of Student's with a common spread. That is Welch's for sides of one
  size; for others Welch's alone rejects 6.5 % of 10 runs against 3 that are alike, and
  Student's 25 % where the 3 spread three times as far.
- *Two values, each with an interval of its own*: MOVER (Zou and Donner 2008, Statistics
  in Medicine 27, 1693-1702). Of shares with Wilson's intervals this is method 10 of
  Newcombe 1998 (Statistics in Medicine 17, 873-890).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from ldapslam.base.arrays import Floats
from ldapslam.reports.uncertainty import Estimate

#: Standard errors, and their degrees of freedom.
Errors = tuple[Floats, Floats]

LEVEL = 0.05
POWER = 0.8


@dataclass(frozen=True, slots=True)
class Measured:
    """A metric of a run, or of several runs their mean."""

    value: float | None
    #: 95 % confidence interval; None where there is none.
    interval: Estimate | None
    #: Measured of each run, in their order.
    of_runs: tuple[float | None, ...]

    def document(self) -> dict[str, object]:
        return {
            "value": self.value,
            "ci95": self.interval and [finite(end) for end in self.interval[1:]],
            "runs": list(self.of_runs),
        }


def finite(value: float | None) -> float | None:
    """JSON has no infinity."""
    return value if value is not None and math.isfinite(value) else None


@dataclass(frozen=True, slots=True)
class Change:
    """new / old where `is_ratio`, else new - old; with its 95 % confidence interval."""

    value: float
    low: float
    high: float
    #: Two-sided, of no change.
    p: float
    #: Standard error, of the ratio's logarithm or of the difference, and its degrees of
    #: freedom.
    error: float
    freedom: float
    is_ratio: bool

    def detectable(self, level: float = LEVEL) -> float:
        """The smallest rise that a test at this level would find in POWER of cases, by
        the standard error seen: (t(1 - level / 2) + t(POWER)) * error. For a ratio it
        is a share of the old value: 0.08 is 8 %."""
        reach = (_t(1 - level / 2, self.freedom) + _t(POWER, self.freedom)) * self.error
        return _exp(reach) - 1 if self.is_ratio else reach


def ratio_of_means(old: Floats, new: Floats) -> Change | None:
    """The ratio of two geometric means, from the values of runs, by t on their
    logarithms. Shapes (m,) and (n,), any unit, all above 0.

    A single value has the spread of the other side. None where no spread
    can be known: one value on each side, or values that differ between the sides and
    not within them.
    """
    return _ratio(difference_of_means(np.log(old), np.log(new)))


def difference_of_means(old: Floats, new: Floats) -> Change | None:
    """The difference of two arithmetic means; as `ratio_of_means` otherwise."""
    sizes = len(old), len(new)
    if min(sizes) < 1 or max(sizes) < 2:
        return None
    change = float(np.mean(new) - np.mean(old))
    if np.ptp(old) == np.ptp(new) == 0:
        if old[0] != new[0]:
            return None
        return Change(0.0, 0.0, 0.0, 1.0, 0.0, math.inf, is_ratio=False)
    squares = [np.atleast_1d(np.var(one) * len(one)) for one in (old, new)]
    error, freedom = (float(one[0]) for one in error_of_difference(squares, sizes))
    reach = _t(1 - LEVEL / 2, freedom) * error
    p = 2 * float(special.stdtr(freedom, -abs(change) / error))
    return Change(
        change, change - reach, change + reach, p, error, freedom, is_ratio=False
    )


def error_of_difference(squares: Sequence[Floats], sizes: Sequence[int]) -> Errors:
    """Standard errors of differences of two means and their degrees of freedom, from
    both sides' sums of squares about their means: Welch's or Student's, of which the 95
    % interval is wider. A side of one value has the spread of the other."""
    both = sum(sizes) - 2.0
    error = np.sqrt(sum(squares) / both * sum(1 / size for size in sizes))
    freedom = np.full(error.shape, both)
    if min(sizes) < 2:
        return error, freedom
    parts = [of / (size - 1) / size for of, size in zip(squares, sizes, strict=True)]
    welch = np.sqrt(sum(parts))
    weights = sum(of**2 / (size - 1) for of, size in zip(parts, sizes, strict=True))
    of_welch = np.divide(welch**4, weights, out=freedom.copy(), where=weights > 0)
    return widest((error, freedom), (welch, of_welch))


def widest(one: Errors, other: Errors | None) -> Errors:
    """For each difference, the errors of which the 95 % interval is wider."""
    if other is None:
        return one
    is_wider = _reach(*other) > _reach(*one)
    error, freedom = (
        np.where(is_wider, *both) for both in zip(other, one, strict=True)
    )
    return error, freedom


def _reach(error: Floats, freedom: Floats) -> Floats:
    found: Floats = special.stdtrit(freedom, 1 - LEVEL / 2) * error
    return found


def ratio_of_estimates(old: Estimate, new: Estimate, freedom: float) -> Change | None:
    """The ratio of two values above 0, by MOVER on the logarithms of their 95 %
    intervals. None where an interval has an end that is not above 0, or is infinite."""
    if min(*old, *new) <= 0 or math.inf in (*old, *new):
        return None
    return _ratio(
        difference_of_estimates(
            Estimate(*map(math.log, old)), Estimate(*map(math.log, new)), freedom
        )
    )


def difference_of_estimates(old: Estimate, new: Estimate, freedom: float) -> Change:
    """The difference of two values by MOVER, from their 95 % intervals.

    Its ends are d - sqrt((new - low_new)^2 + (high_old - old)^2), and d plus the same
    of the other ends. p is 0.05 where the interval ends at no change, and else that of
    t with `freedom` degrees of freedom on the side of the interval that faces it.
    """
    change = new.value - old.value
    down = math.hypot(new.value - new.low, old.high - old.value)
    up = math.hypot(new.high - new.value, old.value - old.low)
    facing, quantile = down if change > 0 else up, _t(1 - LEVEL / 2, freedom)
    statistic = abs(change) / facing * quantile if facing else math.inf * abs(change)
    p = 1.0 if not change else 2 * float(special.stdtr(freedom, -statistic))
    return Change(
        change,
        change - down,
        change + up,
        p,
        (down + up) / 2 / quantile,
        freedom,
        is_ratio=False,
    )


def mean_of(values: Floats, *, is_ratio: bool) -> Estimate | None:
    """The mean of runs, shape (n,), with Student's t interval; the geometric one where
    changes are ratios. None without a spread."""
    if np.ptp(values) == 0:
        return None
    taken = np.log(values) if is_ratio else values
    mean = float(np.mean(taken))
    error = float(np.std(taken, ddof=1)) / math.sqrt(len(taken))
    reach = _t(1 - LEVEL / 2, len(taken) - 1) * error
    ends = mean, mean - reach, mean + reach
    return Estimate(*map(_exp, ends)) if is_ratio else Estimate(*ends)


def _ratio(change: Change | None) -> Change | None:
    if change is None:
        return None
    return replace(
        change,
        value=_exp(change.value),
        low=_exp(change.low),
        high=_exp(change.high),
        is_ratio=True,
    )


def _exp(logarithm: float) -> float:
    return math.exp(logarithm) if logarithm < 700 else math.inf


def _t(share: float, freedom: float) -> float:
    if math.isinf(freedom):
        return float(special.ndtri(share))
    return float(special.stdtrit(freedom, share))
