# SPDX-License-Identifier: Apache-2.0
"""Confidence intervals of what was counted in consecutive batches of a run. Pure.

Response times that follow each other are alike: a long queue stays long for a while.
Statistics that take requests for independent are then far too sure: of an M/M/1 queue
at 90 % load, order statistics of 60,000 requests cover the true p99 in 12 of 100 runs.
So the measure phase is cut into up to BATCHES batches of consecutive intervals, and the
spread of a share between batches tells how many *independent* requests would know the
share as well: the effective sample. Every interval here is of the effective sample
(Korn and Graubard 1998, Survey Methodology 24, 193-201):

- The variance of the share is that between the batches (a ratio estimator), never below
  the binomial one. It is widened by (1 + r) / (1 - r), r > 0 the lag-1 autocorrelation
  of the batches, and by (t / z)^2 for the small number of batches.
- Percentiles have order statistics (`Histogram.ci95`) over the effective sample, and no
  interval where that does not support the percentile (`samples_needed`).
- Shares have Wilson's score interval over the effective sample.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ldapslam.base.arrays import Floats
from ldapslam.jobs.fields.thresholds import samples_needed
from ldapslam.results.histogram import Histogram, Interval95, percentile_rank

#: Batches of a run with as many intervals; and with fewer of them, nothing is known of
#: how requests hang together.
BATCHES = 20
FEWEST_BATCHES = 5

_Z = 1.959964


class Estimate(NamedTuple):
    """A value, and its 95 % confidence interval."""

    value: float
    low: float
    high: float


def t_quantile(freedom: int) -> float:
    """The 97.5 % quantile of Student's t (Abramowitz and Stegun 26.7.5), within 0.2 %
    from four degrees of freedom up."""
    z, n = _Z, float(freedom)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / n ** (k + 1) for k, term in enumerate(terms))


def _with_data(amounts: npt.ArrayLike, sizes: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Return the batches with data: a stream may be at work only in some."""
    of, total = np.asarray(amounts, np.float64), np.asarray(sizes, np.float64)
    return of[total > 0], total[total > 0]


def _spread(amounts: Floats, sizes: Floats) -> float:
    """Variance of sum(amounts) / sum(sizes), as far as batches show it, for use with
    the normal quantile."""
    batches, size = len(sizes), sizes.sum()
    residuals = amounts - amounts.sum() / size * sizes
    squares = float(residuals @ residuals)
    if not squares:
        return 0.0
    r = max(0.0, float(residuals[1:] @ residuals[:-1]) / squares)
    # a higher correlation cannot be estimated from this few batches
    r = min(r, 0.9)
    variance = squares * batches / (batches - 1) / size**2
    widened = variance * (1 + r) / (1 - r) * (t_quantile(batches - 1) / _Z) ** 2
    return float(widened)


def effective_sample(amounts: npt.ArrayLike, sizes: npt.ArrayLike) -> float:
    """How many independent requests would know the share sum(amounts) / sum(sizes) as
    well as those of the batches: `amounts` of `sizes` in each. At most sum(sizes)."""
    of, total = _with_data(amounts, sizes)
    size = float(total.sum())
    share = float(of.sum()) / size if size else 0.0
    if len(total) < FEWEST_BATCHES or not 0 < share < 1:
        return size
    binomial = share * (1 - share) / size
    return size / max(1.0, _spread(of, total) / binomial)


def share_interval(share: float, sample: float, z: float = _Z) -> Estimate:
    """Wilson's score interval of a share of `sample` independent requests; `z` is the
    normal quantile of its ends."""
    if sample <= 0:
        return Estimate(share, 0.0, 1.0)
    squared = z**2 / sample
    middle = (share + squared / 2) / (1 + squared)
    reach = (
        z
        / (1 + squared)
        * math.sqrt(share * (1 - share) / sample + squared / sample / 4)
    )
    low = max(0.0, middle - reach) if share > 0 else 0.0
    high = min(1.0, middle + reach) if share < 1 else 1.0
    return Estimate(share, low, high)


def ratio_interval(amounts: npt.ArrayLike, sizes: npt.ArrayLike) -> Estimate | None:
    """sum(amounts) / sum(sizes), such as a rate or a mean, by its batches; None with
    too few of them."""
    of, total = _with_data(amounts, sizes)
    if len(total) < FEWEST_BATCHES:
        return None
    value = float(of.sum() / total.sum())
    reach = _Z * math.sqrt(_spread(of, total))
    return Estimate(value, value - reach, value + reach)


class PercentileInterval(NamedTuple):
    """The 95 % confidence interval of a percentile, and the effective sample."""

    interval: Interval95 | None
    effective: int


def percentile_interval(
    whole: Histogram, batches: Sequence[Histogram], p: float
) -> PercentileInterval:
    """Of `whole`, the union of the batches; None where the effective sample does not
    support the percentile."""
    rank = percentile_rank(p, whole.sample) if whole.sample else 0
    batches = [one for one in batches if one.sample]
    if not rank or rank > whole.total or len(batches) < FEWEST_BATCHES:
        return PercentileInterval(None, 0)
    bucket = whole.bucket_of_rank(rank)
    # values in the percentile's bucket are shared out: the mean share is then 1 - p
    above = np.array([one.above(bucket) for one in batches], np.float64)
    inside = np.array([one.above(bucket - 1) for one in batches], np.float64) - above
    wanted = whole.sample - rank
    if inside.sum() > 0:
        above += inside * (wanted - above.sum()) / inside.sum()
    effective = int(effective_sample(above, [one.sample for one in batches]))
    if effective < samples_needed(p):
        return PercentileInterval(None, effective)
    return PercentileInterval(whole.ci95(p, effective), effective)
