# SPDX-License-Identifier: Apache-2.0
"""Tests of a growing sample: published levels, and the rates of error by simulation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import scipy

from ldapslam.reports.comparing.change import LEVEL, POWER
from ldapslam.reports.comparing.sequential import (
    FIRST_LOOK,
    Means,
    Plan,
    error_of_days,
    look,
    looks,
    nominal_levels,
    smallest_found,
)
from support.draws import Draws

SAMPLES = 4_000
BOUND = 0.05
#: The levels are exact of the normal distribution; of t with few degrees of freedom
#: 0.029 are spent where 0.025 are meant (40,000 samples of 24), and the samples vary.
T_EXCESS = 1.35


def test_levels_are_the_published_ones() -> None:
    """Five equal looks at 0.025, Pocock-type: Proschan, Lan and Wittes (2006), and R's
    ldbounds."""
    levels = nominal_levels([0.2, 0.4, 0.6, 0.8, 1.0], 0.025)
    assert scipy.stats.norm.isf(levels) == pytest.approx(
        [2.4380, 2.4268, 2.4101, 2.3966, 2.3859], abs=2e-4
    )


def rejected_share(
    sizes: Sequence[int], levels: Sequence[float], samples: int
) -> float:
    """Return the share of normal samples that looks at these sizes reject."""
    rng, rejected = np.random.default_rng(1), 0
    bounds = scipy.stats.norm.isf(levels)
    for _ in range(samples // 5_000):
        sums = rng.standard_normal((5_000, sizes[-1])).cumsum(axis=1)
        z = sums[:, np.array(sizes) - 1] / np.sqrt(sizes)
        rejected += int((z > bounds).any(axis=1).sum())
    return rejected / samples


def test_one_look_has_the_whole_level() -> None:
    assert nominal_levels([1.0], 0.025) == pytest.approx([0.025])


@pytest.mark.parametrize("level", [0.025, 0.025 / 20])
def test_all_looks_together_spend_the_level(level: float) -> None:
    sizes = looks(40)
    levels = nominal_levels([size / 40 for size in sizes], level)
    share = rejected_share(sizes, levels, 200_000)
    assert share == pytest.approx(level, abs=4 * np.sqrt(level / 200_000))


def test_looks_grow_and_end_at_the_last_value() -> None:
    assert looks(FIRST_LOOK) == [FIRST_LOOK]
    assert looks(7) == [6, 7]
    assert looks(31) == [6, 8, 10, 12, 14, 16, 20, 24, 28, 31]


def end_of(losses: np.ndarray, plan: Plan) -> str:
    """`worse`, `within` or nothing of a growing sample of losses, shape (n, m)."""
    bounds = np.full(losses.shape[1], BOUND)
    is_within = np.zeros(losses.shape[1], bool)
    for place, size in enumerate(plan.sizes):
        looked = look(Means.of_pairs(losses[:size]), bounds, plan, place)
        is_within |= looked.is_within
        if looked.is_worse.any():
            return "worse"
        if is_within.all():
            return "within"
    return ""


def share_of(
    end: str, draws: Draws, effect: float, spread: float, figures: int
) -> float:
    """Share of the samples of 24 that end so."""
    size, samples = 24, draws.of(SAMPLES)
    rng = np.random.default_rng(2)
    plan = Plan.of(looks(size), figures)
    ends = [
        end_of(rng.normal(effect, spread, (size, figures)), plan)
        for _ in range(samples)
    ]
    return ends.count(end) / samples


@pytest.mark.parametrize("figures", [1, 8])
@pytest.mark.parametrize("spread", [0.05, 0.2])
def test_what_does_not_differ_is_seldom_worse(
    figures: int, spread: float, draws: Draws
) -> None:
    most = T_EXCESS * LEVEL / 2
    worse = share_of("worse", draws, 0.0, spread, figures)
    assert worse <= most + draws.slack(most, SAMPLES)


def test_a_loss_at_the_bound_is_seldom_within(draws: Draws) -> None:
    most = T_EXCESS * LEVEL / 2
    within = share_of("within", draws, BOUND, 0.05, 1)
    assert within <= most + draws.slack(most, SAMPLES)


def test_a_loss_of_twice_the_bound_is_found(draws: Draws) -> None:
    assert share_of("worse", draws, 2 * BOUND, 0.06, 8) > 0.95


def test_the_smallest_loss_that_is_found_is_found_as_often_as_stated(
    draws: Draws,
) -> None:
    plan = Plan.of(looks(24), 4)
    effect = smallest_found(0.06 / np.sqrt(24), 23, BOUND, plan, len(plan.sizes) - 1)
    rng = np.random.default_rng(3)
    samples, slack = draws.of(SAMPLES), draws.slack(POWER, SAMPLES)
    losses = rng.normal(0.0, 0.06, (samples, 24, 4))
    losses[:, :, 0] += effect
    found = sum(end_of(one, plan) == "worse" for one in losses) / samples
    # earlier looks find some more
    assert POWER - 0.02 - slack < found < POWER + 0.1 + slack


def test_figures_without_a_spread_are_told_at_once() -> None:
    plan = Plan.of(looks(6), 2)
    looked = look(
        Means.of_pairs(np.tile([0.0, 0.5], (6, 1))), np.full(2, BOUND), plan, 0
    )
    assert looked.is_within.tolist() == [True, False]
    assert looked.is_worse.tolist() == [False, True]
    assert looked.reach.tolist() == [0.0, 0.0]


def test_a_loss_that_is_sure_and_small_is_within() -> None:
    losses = 0.01 + np.linspace(-0.001, 0.001, 8).reshape(8, 1)
    looked = look(Means.of_pairs(losses), np.array([BOUND]), Plan.of([8], 1), 0)
    assert (looked.is_worse[0], looked.is_within[0]) == (False, True)


def test_a_missing_figure_is_neither_and_hides_no_other() -> None:
    plan = Plan.of(looks(6), 2)
    losses = np.column_stack([np.full(6, 0.2), np.full(6, 0.1)])
    losses[:, 1] += np.linspace(-0.01, 0.01, 6)
    losses[3, 0] = np.nan
    looked = look(Means.of_pairs(losses), np.full(2, BOUND), plan, 0)
    assert looked.is_worse.tolist() == [False, True]
    assert not looked.is_within.any()


def test_a_sample_that_ends_early_spends_what_is_left() -> None:
    plan = Plan.of(looks(40), 2).ended_at(13)
    assert plan.sizes == (6, 8, 10, 12, 13)
    as_planned = Plan.of(looks(40), 2).levels[0]
    assert plan.levels[0][:4] == pytest.approx(as_planned[:4])
    assert plan.levels[0][-1] > as_planned[4]
    assert len(plan.levels) == 2


@pytest.mark.parametrize("end", [8, 11, 13])
def test_a_sample_that_ends_early_spends_the_level(end: int) -> None:
    """Also where its last look, of 8, is taken a second time."""
    plan = Plan.of(looks(40), 1)
    early = [size for size in plan.sizes if size <= end]
    bounds = [*plan.levels[0][: len(early)], plan.ended_at(end).levels[0][-1]]
    level = LEVEL / 2
    share = rejected_share([*early, end], bounds, 100_000)
    assert share == pytest.approx(level, abs=4 * np.sqrt(level / 100_000))


@pytest.mark.parametrize(("spread", "is_welch"), [(2.0, False), (0.3, True)])
def test_two_sides_are_compared_by_the_wider_of_welch_and_student(
    spread: float, is_welch: bool
) -> None:
    rng = np.random.default_rng(5)
    old, new = rng.normal(0.0, 1.0, (5, 1)), rng.normal(0.3, spread, (12, 1))
    means = Means.of_sides(old, new)
    wider = scipy.stats.ttest_ind(new, old, equal_var=not is_welch)
    other = scipy.stats.ttest_ind(new, old, equal_var=is_welch)
    ends = [np.ptp(one.confidence_interval(0.95)) for one in (wider, other)]
    assert ends[0] > ends[1]
    found = 2 * scipy.stats.t.sf(means.mean / means.error, means.freedom)
    assert found == pytest.approx(wider.pvalue)
    assert means.freedom == pytest.approx(wider.df)


def test_two_sides_without_a_spread_have_no_error() -> None:
    still = Means.of_sides(np.zeros((5, 1)), np.ones((6, 1)))
    assert (still.mean[0], still.error[0], still.freedom[0]) == (1.0, 0.0, 9.0)


def test_few_runs_of_a_baseline_raise_no_false_alarms() -> None:
    """At the level of one look at one of several figures; Welch's alone rejects 0.3 %
    of 40 runs against 5 that are alike."""
    rng = np.random.default_rng(6)
    old, new = rng.normal(size=(5, 100_000)), rng.normal(size=(40, 100_000))
    means = Means.of_sides(old, new)
    p = scipy.stats.t.sf(means.mean / means.error, means.freedom)
    assert np.mean(p <= 0.001) < 0.001


def false_alarms(sizes: Sequence[int], spread: float, *, is_known: bool) -> float:
    """Of a baseline of days with so many runs, and 12 new ones of one more day; days
    spread so many times as far as the runs of one."""
    rng, figures = np.random.default_rng(8), 10_000
    names = [str(day) for day, size in enumerate(sizes) for _ in range(size)]
    of_days = rng.normal(0.0, spread, (len(sizes) + 1, figures))
    old = np.repeat(of_days[:-1], sizes, axis=0)
    old += rng.normal(size=(len(names), figures))
    new = of_days[-1] + rng.normal(size=(12, figures))
    means = Means.of_sides(old, new, names if is_known else ())
    p = scipy.stats.t.sf(means.mean / means.error, means.freedom)
    return float(np.mean(p <= LEVEL / 2))


@pytest.mark.parametrize(
    ("sizes", "most"),
    [
        ([1] * 5, 0.05),
        ([5] * 4, 0.04),
        ([1] * 20, 0.03),
        ([5, 5, 5], 0.05),
        ([2, 2, 2], 0.06),
        ([10, 5, 5], 0.05),
        # of three days one of which has most of the runs little is known
        ([3, 1, 1], 0.07),
        ([20, 1, 1], 0.09),
    ],
    ids=str,
)
def test_days_that_differ_raise_few_false_alarms(sizes: list[int], most: float) -> None:
    """Near 2.5 % but of three or four days, which tell little; where days are taken for
    nothing, 15 to 43 %."""
    for spread in (0.0, 0.5, 1.0, 2.0, 5.0):
        assert false_alarms(sizes, spread, is_known=True) < most
    assert false_alarms(sizes, 2.0, is_known=False) > 0.12


def test_the_error_of_days_is_that_of_the_analysis_of_variance() -> None:
    """Days of two values with means 0, 3 and 6: variance 9, mean square 18; within 2 /
    4 = 0.5 of the old and new ones, so between (18 - 0.5) / 2 = 8.75. In all 8.75 * 4 /
    3 + 0.5 (1 / 6 + 1 / 2) = 2 / 3 * 18 + 0 * 0.5: as many degrees of freedom as 18."""
    old = np.array([[-0.5], [0.5], [2.5], [3.5], [5.5], [6.5]])
    new = np.array([[2.5], [3.5]])
    error, freedom = error_of_days(old, new, list("aabbcc")) or pytest.fail("none")
    between, within = 8.75 * 4 / 3, 0.5 * 2 / 3
    assert error[0] ** 2 == pytest.approx(between + within)
    assert error[0] ** 2 == pytest.approx(12.0)
    assert freedom[0] == pytest.approx(2.0)
    assert error_of_days(old, new, list("aaabbb")) is None


def test_the_error_of_days_of_different_size_is_that_of_their_mean() -> None:
    """Of 4, 1 and 1 values with means 0, 3 and 6, in all 1.5: mean square (9 + 2.25 +
    20.25) / 2 = 15.75, which has between (6 - 18 / 6) / 2 = 1.5 times; within (1 + 0.5)
    / 4; the mean of all has 18 / 36 of the variance between."""
    old = np.array([[-0.5], [-0.5], [0.5], [0.5], [3.0], [6.0]])
    error, _ = error_of_days(old, np.array([[2.0], [3.0]]), list("aaaabc")) or (
        pytest.fail("none")
    )
    within = 1.5 / 4
    between = (15.75 - within) / 1.5
    wanted = between * (1 + 18 / 36) + within * (1 / 6 + 1 / 2)
    assert error[0] ** 2 == pytest.approx(wanted)
