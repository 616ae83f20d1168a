# SPDX-License-Identifier: Apache-2.0
"""Intervals that cover: by simulation of queues whose percentiles are known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ldapslam.reports.uncertainty import (
    effective_sample,
    percentile_interval,
    ratio_interval,
    share_interval,
    t_quantile,
)
from ldapslam.results.histogram import Histogram
from support.queues import Times, batches, mm1, mm1_percentile, with_checkpoints

#: Of 2,000 experiments, three standard deviations below and above the issue's 93 to
#: 98 %.
FULL = 2_000


def _coverage(
    draw: Callable[[], Times], true_ms: float, p: float, experiments: int
) -> tuple[float, float]:
    """Share of the intervals that cover, and of experiments without one."""
    covered, without = 0, 0
    for _ in range(experiments):
        parts = batches(draw())
        interval, _ = percentile_interval(Histogram.union(parts), parts, p)
        if interval is None:
            without += 1
            continue
        high_ms = np.inf if interval.high_ns is None else interval.high_ns / 1e6
        covered += interval.low_ns / 1e6 <= true_ms <= high_ms
    return covered / max(1, experiments - without), without / experiments


def test_intervals_of_a_queue_cover() -> None:
    rng = np.random.default_rng(1)
    true_ms = mm1_percentile(0.7, 99)
    covered, without = _coverage(lambda: mm1(rng, 0.7, 60_000), true_ms, 99, 60)
    assert covered >= 0.88  # 95 % less 2.5 standard deviations
    assert without < 0.2


def test_a_busy_queue_has_no_interval_of_its_tail() -> None:
    """60,000 requests at 90 % load tell as much of the p99 as some 280 would."""
    rng = np.random.default_rng(2)
    _, without = _coverage(lambda: mm1(rng, 0.9, 60_000), 0, 99, 10)
    assert without >= 0.9


@pytest.mark.accuracy
@pytest.mark.parametrize("p", [50.0, 99.0])
@pytest.mark.parametrize("load", [0.0, 0.3, 0.7, 0.9])
def test_intervals_cover_93_to_98_of_100(load: float, p: float) -> None:
    rng = np.random.default_rng(3)
    true_ms = mm1_percentile(load, p)

    def draw() -> Times:
        return mm1(rng, load, 60_000) if load else rng.exponential(1, 60_000)

    covered, without = _coverage(draw, true_ms, p, FULL)
    print(f"load {load} p{p}: {covered:.1%}, without {without:.1%}")
    # what has no interval is not wrong
    stated = without + (1 - without) * covered
    assert stated >= 0.93
    if without < 0.5:
        assert 0.93 <= covered <= 0.98


@pytest.mark.accuracy
@pytest.mark.parametrize("count", [60_000, 600_000])
def test_intervals_cover_with_checkpoints(count: int) -> None:
    """Of 60 s, two checkpoints of 0.6 s say little of a p99; of 600 s, twenty do."""
    rng = np.random.default_rng(4)
    many = [with_checkpoints(rng, 3_000_000, 1000.0) for _ in range(4)]
    true_ms = float(np.quantile(np.concatenate(many), 0.99))
    covered, without = _coverage(
        lambda: with_checkpoints(rng, count, 1000.0), true_ms, 99, 500
    )
    print(f"{count}: {covered:.1%}, without {without:.1%}")
    assert without == 1 if count == 60_000 else 0.93 <= covered <= 0.99


def test_independent_requests_count_in_full() -> None:
    rng = np.random.default_rng(5)
    sizes = np.full(20, 5_000)
    found = [effective_sample(rng.binomial(sizes, 0.01), sizes) for _ in range(200)]
    assert max(found) == 100_000
    assert np.median(found) > 70_000


def test_one_episode_counts_as_one_request() -> None:
    above = [0] * 19 + [1_000]
    sample = effective_sample(above, [5_000] * 20)
    assert 60 < sample < 110  # 1 / share would be 100


def test_fewer_than_five_batches_tell_nothing_of_their_spread() -> None:
    assert effective_sample([0, 100, 0, 100], [100] * 4) == 400
    assert effective_sample([0, 100, 0, 100, 0], [100] * 5) < 50


def test_batches_that_are_alike_count_less() -> None:
    rising = [10 * n for n in range(20)]
    shuffled = np.random.default_rng(6).permutation(rising)
    sizes = [5_000] * 20
    assert effective_sample(rising, sizes) < effective_sample(shuffled, sizes) / 3


@pytest.mark.parametrize("amounts", [[0] * 20, [5_000] * 20, [100] * 4])
def test_without_a_spread_every_request_counts(amounts: list[int]) -> None:
    sizes = [5_000] * len(amounts)
    assert effective_sample(amounts, sizes) == sum(sizes)


def test_shares_have_wilsons_interval() -> None:
    # Wilson's interval of 1 of 10, as in Agresti and Coull (1998)
    found = share_interval(0.1, 10)
    assert (found.low, found.high) == pytest.approx((0.0179, 0.4042), abs=1e-4)
    assert share_interval(0.0, 1_000).low == pytest.approx(0)
    assert share_interval(0.5, 0)[1:] == (0, 1)


def test_the_interval_of_a_rate_covers() -> None:
    rng = np.random.default_rng(7)
    hits = 0
    for _ in range(400):
        found = ratio_interval(rng.poisson(24, 20), [1.2] * 20)
        assert found is not None
        hits += found.low <= 20 <= found.high
    assert 0.92 <= hits / 400 <= 1
    assert ratio_interval([1, 2, 3], [1, 1, 1]) is None


@pytest.mark.parametrize(
    ("freedom", "exact"), [(4, 2.7764), (5, 2.5706), (9, 2.2622), (19, 2.0930)]
)
def test_t_quantile(freedom: int, exact: float) -> None:
    assert t_quantile(freedom) == pytest.approx(exact, rel=2e-3)
