# SPDX-License-Identifier: Apache-2.0
"""Changes, intervals and p values: against scipy, and by simulation."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import scipy

from ldapslam.base.arrays import Floats
from ldapslam.reports.comparing.change import (
    Change,
    difference_of_estimates,
    difference_of_means,
    mean_of,
    ratio_of_estimates,
    ratio_of_means,
)
from ldapslam.reports.many_tests import holm
from ldapslam.reports.uncertainty import (
    Estimate,
    effective_sample,
    percentile_interval,
    ratio_interval,
    share_interval,
)
from ldapslam.results.histogram import Histogram
from support.draws import Draws
from support.queues import Times, batches, mm1

OLD = np.array([101.0, 98.0, 105.0])
NEW = np.array([111.0, 120.0, 109.0])
EXPERIMENTS = 2_000


def most(experiments: int) -> float:
    """Return 5 % rejections in so many experiments, and three standard deviations."""
    return 0.05 + 3 * math.sqrt(0.05 * 0.95 / experiments)


def test_a_ratio_of_runs_is_welchs_t_on_logarithms() -> None:
    found = ratio_of_means(OLD, NEW)
    assert found is not None
    known = scipy.stats.ttest_ind(np.log(NEW), np.log(OLD), equal_var=False)
    ends = known.confidence_interval()
    assert found.p == pytest.approx(known.pvalue)
    assert found.freedom == pytest.approx(known.df)
    assert (found.low, found.high) == pytest.approx(tuple(np.exp(ends)))
    assert found.value == pytest.approx(scipy.stats.gmean(NEW) / scipy.stats.gmean(OLD))


@pytest.mark.parametrize(
    ("new", "is_common"), [(NEW, False), (np.array([109.0, 110.0, 111.0]), True)]
)
def test_sides_of_other_sizes_have_the_wider_interval(
    new: Floats, is_common: bool
) -> None:
    old = np.append(OLD, [100.0, 103.0, 97.0, 102.0])
    found = difference_of_means(old, new)
    assert found is not None
    wider, other = (
        scipy.stats.ttest_ind(new, old, equal_var=is_equal)
        for is_equal in (is_common, not is_common)
    )
    assert np.ptp(wider.confidence_interval()) > np.ptp(other.confidence_interval())
    assert (found.p, found.freedom) == pytest.approx((wider.pvalue, wider.df))


def test_one_run_has_the_spread_of_the_other_side() -> None:
    found = difference_of_means(OLD, np.array([120.0]))
    assert found is not None
    assert found.freedom == 2
    # a prediction interval: a further value of the side lies in it in 95 of 100 cases
    reach = scipy.stats.t.ppf(0.975, 2) * OLD.std(ddof=1) * math.sqrt(1 + 1 / 3)
    assert found.high - found.value == pytest.approx(reach)
    back = difference_of_means(np.array([120.0]), OLD)
    assert back is not None
    assert (back.value, back.p) == pytest.approx((-found.value, found.p))


def test_without_a_spread_nothing_is_known() -> None:
    same, other = np.full(3, 5.0), np.full(3, 6.0)
    assert ratio_of_means(same, other) is None
    assert ratio_of_means(np.array([5.0]), np.array([6.0])) is None
    assert mean_of(same, is_ratio=True) is None
    equal = ratio_of_means(same, same)
    assert equal is not None
    assert (equal.value, equal.low, equal.high, equal.p) == (1, 1, 1, 1)
    assert equal.detectable() == 0


def test_shares_have_newcombes_interval() -> None:
    # Newcombe 1998, Table II: 56/70 - 48/80, method 10
    old, new = (share_interval(x / n, n) for x, n in ((48, 80), (56, 70)))
    found = difference_of_estimates(old, new, 1e9)
    ends = (found.value, found.low, found.high)
    assert ends == pytest.approx((0.2, 0.0524, 0.3339), abs=2e-4)
    assert found.p < 0.05


def test_p_is_5_percent_where_the_interval_ends_at_no_change() -> None:
    old, new = Estimate(10, 9, 11), Estimate(10 + math.sqrt(5), 0, 99)
    new = Estimate(new.value, new.value - 2, new.value + 3)
    found = difference_of_estimates(old, new, 38)
    assert (found.low, found.p) == pytest.approx((0, 0.05))
    assert ratio_of_estimates(Estimate(10, 0, 11), new, 38) is None
    assert ratio_of_estimates(Estimate(10, 9, math.inf), new, 38) is None


def test_holm() -> None:
    # p.adjust(c(0.01, 0.04, 0.03, 0.005, 0.9), "holm") of R
    found = holm([0.01, 0.04, 0.03, 0.005, 0.9])
    assert found == pytest.approx([0.04, 0.09, 0.09, 0.025, 0.9])
    assert holm([0.6, 0.7]) == pytest.approx([1, 1])
    assert len(holm([])) == 0


# By simulation. The true ratio is known; an interval covers it or not.


def _coverage(
    draw: Callable[[], Change | None], true: float, experiments: int
) -> tuple[float, float]:
    """Of the stated ones: share of intervals that cover, and of all: those without."""
    found = [one for one in (draw() for _ in range(experiments)) if one is not None]
    covered = sum(one.low <= true <= one.high for one in found)
    return covered / max(1, len(found)), 1 - len(found) / experiments


@pytest.mark.parametrize(
    ("runs", "true"), [((3, 3), 1.0), ((5, 5), 1.3), ((10, 3), 1.0), ((5, 1), 1.3)]
)
def test_repeats_cover_and_reject_at_the_level(
    runs: tuple[int, int], true: float, draws: Draws
) -> None:
    """Requests vary within runs, and runs by 5 % from each other."""
    rng = np.random.default_rng(2)

    def side(number: int, factor: float) -> Floats:
        of_runs = factor * np.exp(rng.normal(0, 0.05, number))
        means = of_runs[:, np.newaxis] * rng.exponential(1, (number, 500))
        return np.asarray(means.mean(axis=1))

    covered, without = _coverage(
        lambda: ratio_of_means(side(runs[0], 2.0), side(runs[1], 2.0 * true)),
        true,
        draws.of(EXPERIMENTS),
    )
    assert without == 0
    print(f"{runs}: {covered:.1%}")
    assert covered >= 1 - most(draws.of(EXPERIMENTS))
    assert covered <= 0.98 + draws.slack(0.05, EXPERIMENTS)


def test_of_a_family_that_is_alike_5_in_100_have_a_finding(draws: Draws) -> None:
    """Ten metrics of five runs a side, which rise and fall together to one half."""
    rng = np.random.default_rng(8)
    wrong, experiments = 0, draws.of(EXPERIMENTS)
    for _ in range(experiments):
        common = rng.normal(0, 1, 10)
        runs = common + rng.normal(0, 1, (10, 10))
        found = [difference_of_means(one[:5], one[5:]) for one in runs]
        wrong += bool((holm([one.p for one in found if one]) < 0.05).any())
    print(f"family: {wrong / experiments:.1%}")
    assert wrong / experiments <= most(experiments)


def _by_batches(values: Floats, sizes: Floats) -> Estimate | None:
    found = ratio_interval(values, sizes)
    if found is None:
        return None
    factor = math.exp((found.value - found.low) / found.value)
    return Estimate(found.value, found.value / factor, found.value * factor)


@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.6])
def test_a_single_run_covers_by_its_batches(correlation: float, draws: Draws) -> None:
    """AR(1) over 400 intervals, which make 20 batches."""
    rng = np.random.default_rng(3)
    experiments = draws.of(EXPERIMENTS)
    steps = rng.normal(0, 20, (experiments * 2, 600))
    series = np.zeros_like(steps)
    for place in range(1, steps.shape[1]):
        series[:, place] = correlation * series[:, place - 1] + steps[:, place]
    values = (100 + series[:, 200:]).reshape(-1, 20, 20).sum(axis=2)
    sizes = np.full(20, 20.0)
    pairs = iter(values.reshape(experiments, 2, 20))

    def draw() -> Change | None:
        old, new = (_by_batches(one, sizes) for one in next(pairs))
        assert old is not None
        assert new is not None
        return ratio_of_estimates(old, new, 38)

    covered, _ = _coverage(draw, 1.0, experiments)
    print(f"AR(1) {correlation}: {covered:.1%}")
    assert 1 - covered <= most(experiments)
    # two intervals that are widened for few batches
    assert covered <= 0.99 + draws.slack(0.01, EXPERIMENTS)


def _errors(rng: np.random.Generator, share: float) -> Estimate:
    errors = rng.binomial(2_000, share, 20)
    sizes = np.full(20, 2_000)
    return share_interval(errors.sum() / 40_000, effective_sample(errors, sizes))


def test_errors_cover_by_their_batches(draws: Draws) -> None:
    rng = np.random.default_rng(4)
    covered, _ = _coverage(
        lambda: difference_of_estimates(_errors(rng, 0.01), _errors(rng, 0.012), 38),
        0.002,
        draws.of(EXPERIMENTS),
    )
    print(f"errors: {covered:.1%}")
    assert 1 - covered <= most(draws.of(EXPERIMENTS))


def _queues(
    rng: np.random.Generator, load: float, p: float, count: int = 60_000
) -> Change | None:
    """The percentile of two single runs, the new one 1.2 times as slow."""

    def side(factor: float) -> Estimate | None:
        times: Times = factor * (
            mm1(rng, load, count) if load else rng.exponential(1, count)
        )
        parts = batches(times)
        whole = Histogram.union(parts)
        found, value = percentile_interval(whole, parts, p)[0], whole.percentile(p)
        if found is None or found.high_ns is None or value is None:
            return None
        return Estimate(value, found.low_ns, found.high_ns)

    old, new = side(1.0), side(1.2)
    return ratio_of_estimates(old, new, 38) if old and new else None


@pytest.mark.accuracy
@pytest.mark.parametrize("p", [50.0, 99.0])
@pytest.mark.parametrize("load", [0.0, 0.3, 0.7, 0.9])
def test_percentiles_of_single_runs_cover_93_to_98_of_100(
    load: float, p: float
) -> None:
    """At 90 % load a p99 has no interval: 60,000 requests are worth 280."""
    rng = np.random.default_rng(6)
    covered, without = _coverage(lambda: _queues(rng, load, p), 1.2, EXPERIMENTS)
    print(f"load {load} p{p}: {covered:.1%}, without {without:.1%}")
    if without < 0.5:
        assert 0.93 <= covered <= 0.98
    else:
        assert without + (1 - without) * covered >= 0.95


def test_what_is_detectable_is_found_in_80_of_100(draws: Draws) -> None:
    rng = np.random.default_rng(7)
    first = difference_of_means(*rng.normal(0, 1, (2, 10_000)))
    assert first is not None
    # ten runs a side, by the error that so many show
    error = math.sqrt(2 / 10)
    seen = Change(0, 0, 0, 1, error, 18, is_ratio=False).detectable()
    found = [
        difference_of_means(rng.normal(0, 1, 10), rng.normal(seen, 1, 10))
        for _ in range(draws.of(EXPERIMENTS))
    ]
    power = sum(one is not None and one.p < 0.05 for one in found) / len(found)
    assert power == pytest.approx(0.8, abs=0.04 + draws.slack(0.8, EXPERIMENTS))
