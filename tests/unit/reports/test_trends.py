# SPDX-License-Identifier: Apache-2.0
"""Drifts and steps of long runs: known samples, and how often chance makes one."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from ldapslam.jobs.run_plan import PlannedStream
from ldapslam.reports.collect.telemetry import MetricSummary, MonitorSummary, Points
from ldapslam.reports.collect.timeline import Phase, Series, Timeline
from ldapslam.reports.rules.lines import theil_sen
from ldapslam.reports.rules.steps import chance, largest_stretch, step_places
from ldapslam.reports.rules.trends import Trend, trends_of
from ldapslam.results.facts import MonitorFacts
from ldapslam.results.records import Metric
from support.draws import Draws, autoregressive

CLOSED: dict[str, Any] = {"model": "closed", "clients": 8}
AT_S = np.arange(60.0)
#: Runs in each simulation: the standard error of a share of 5 % is 1 %.
RUNS = 500
FEW_RUNS = 250


def run_of(values: Any, stream: dict[str, Any] = CLOSED) -> tuple[Trend, ...]:
    """Trends of an operation with this throughput and these medians, in ms."""
    timeline = Timeline((Phase("measure", 0, len(values)),), 1)
    timeline.start_s = [float(second) for second in range(len(values))]
    timeline.end_s = [second + 1.0 for second in range(len(values))]
    series = Series(
        throughput_per_s=list(values),
        p50_us=[value * 1000 for value in values],
        p99_us=[None] * len(values),
    )
    timeline.operations["readers", "search"] = series
    return trends_of(timeline, {"readers": PlannedStream(name="readers", **stream)}, ())


def monitor(**metrics: tuple[str, Sequence[float | None]]) -> MonitorSummary:
    """One whose readings are a second apart; name -> unit and values."""
    found = tuple(
        MetricSummary(
            Metric(name, unit, "gauge" if unit == "bytes" else "counter"),
            *(None, None, None, None),
            missing_share=0.0,
            points=Points(
                tuple(second + 0.5 for second in range(len(values))), tuple(values)
            ),
        )
        for name, (unit, values) in metrics.items()
    )
    return MonitorSummary(
        "local-1", "supplier", MonitorFacts(), 9, 0, (), None, None, (), found, {}
    )


def test_the_slope_is_the_median_of_the_slopes_of_pairs() -> None:
    line = theil_sen(AT_S, 100 + 0.5 * AT_S)
    assert (line.slope, line.at(0), line.at(60)) == (0.5, 100, 130)
    # an outlier moves a least-squares line, not this one
    values = 100 + 0.5 * AT_S
    values[-1] = 1000
    assert theil_sen(AT_S, values).slope == 0.5


@pytest.mark.parametrize(("r", "least"), [(0.0, 0.93), (0.5, 0.90)])
def test_the_interval_of_a_slope_covers_it(
    r: float, least: float, draws: Draws
) -> None:
    rng = np.random.default_rng(11)
    covered = 0
    runs = draws.of(RUNS)
    for _ in range(runs):
        line = theil_sen(AT_S, 100 + 0.05 * AT_S + autoregressive(rng, 60, r))
        covered += line.low <= 0.05 <= line.high
    assert covered / runs >= least - draws.slack(least, RUNS)


@pytest.mark.parametrize(
    ("count", "figures", "drift", "r"),
    [
        *((60, figures, drift, 0.5) for figures in (1, 4) for drift in (0.0, 9.0)),
        # histories have five figures of an operation
        *((count, 5, drift, 0.5) for count in (16, 30) for drift in (0.0, 14.0)),
        (22, 5, 0.0, 0.0),
    ],
)
def test_chance_and_drifts_are_no_steps(
    count: int, figures: int, drift: float, r: float, draws: Draws
) -> None:
    """Of runs with so many figures, some have one with a step. Levels near 100, so that
    a standard deviation of 4 is more than LEAST_SHIFT."""
    _assert_few_false_steps(count, figures, drift, r, FEW_RUNS, draws)


@pytest.mark.accuracy
@pytest.mark.parametrize("r", [0.0, 0.5])
@pytest.mark.parametrize("drift", [0.0, 9.0])
def test_chance_and_drifts_are_no_steps_of_twelve_figures(
    drift: float, r: float
) -> None:
    _assert_few_false_steps(60, 12, drift, r, RUNS, Draws(is_all=True))


def _assert_few_false_steps(
    count: int, figures: int, drift: float, r: float, number: int, draws: Draws
) -> None:
    runs = draws.of(number)
    rng = np.random.default_rng(17)
    at = np.arange(float(count))
    line = 100 + drift * at / count
    found = sum(
        any(
            step_places(at, line + 4 * autoregressive(rng, count, r), 0.05 / figures)
            for _ in range(figures)
        )
        for _ in range(runs)
    )
    assert found / runs <= 0.07 + draws.slack(0.05, number)


@pytest.mark.parametrize(
    ("before", "after", "deviations", "figures", "r"),
    [
        # few values, and a gap that ranks cannot tell from a narrow one
        (8, 8, 100, 5, 0),
        (8, 8, 100, 5, 0.5),
        (8, 8, 100, 20, 0),
        (6, 6, 100, 1, 0),
        # the last ones before it may rank like those after it
        (60, 8, 10, 5, 0),
        (60, 6, 10, 5, 0),
    ],
)
def test_a_wide_step_is_found_where_it_is(
    before: int, after: int, deviations: float, figures: int, r: float, draws: Draws
) -> None:
    rng = np.random.default_rng(18)
    count = before + after
    at = np.arange(float(count))
    levels = np.where(at < before, 100, 200)
    exactly = sum(
        step_places(
            at,
            levels + 100 / deviations * autoregressive(rng, count, r),
            0.05 / figures,
        )
        == [before]
        for _ in range(draws.of(FEW_RUNS))
    )
    least = 0.95 - draws.slack(0.95, FEW_RUNS)
    assert exactly / draws.of(FEW_RUNS) >= least


def test_long_histories_take_little_memory() -> None:
    rng = np.random.default_rng(19)
    at = np.arange(2000.0)
    values = np.where(at < 1200, 100, 120) + rng.normal(0, 1, at.size)
    tracemalloc.start()
    try:
        for count in (1900, 2000):
            assert step_places(at[:count], values[:count], 0.01) == [1200]
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 10e6


@pytest.mark.parametrize(
    ("begins", "ends", "limit", "least"),
    [
        (22, 60, 0.05, 0.8),
        # late, and a level that comes back
        (51, 60, 0.05, 0.7),
        (24, 36, 0.05, 0.7),
        (24, 36, 0.05 / 12, 0.6),
    ],
)
def test_a_step_is_found_where_it_is(
    begins: int, ends: int, limit: float, least: float, draws: Draws
) -> None:
    """Of 10 %, where blocks differ by 4 %."""
    rng = np.random.default_rng(13)
    wanted = [place for place in (begins, ends) if 0 < place < 60]
    near, runs = 0, draws.of(FEW_RUNS)
    for _ in range(runs):
        is_higher = (AT_S >= begins) & (AT_S < ends)
        values = np.where(is_higher, 110, 100) + rng.normal(0, 4, 60)
        found = step_places(AT_S, values, limit)
        near += len(found) >= len(wanted) and all(
            any(abs(one - place) <= 2 for one in found) for place in wanted
        )
    assert near / runs >= least - draws.slack(least, FEW_RUNS)


@pytest.mark.parametrize("size", [24, 60])
def test_p_of_a_step_is_how_often_chance_makes_one(size: int, draws: Draws) -> None:
    """By the closed form, of as many permutations."""
    rng = np.random.default_rng(15)
    p = []
    for _ in range(draws.of(4 * RUNS)):
        share, _ = largest_stretch(rng.permutation(np.arange(float(size))))
        p.append(chance(share, size, size))
    for limit in (0.05, 0.01):
        reach = 0.5 * limit + draws.slack(limit, 4 * RUNS)
        assert np.mean(np.array(p) <= limit) == pytest.approx(limit, abs=reach)


@pytest.mark.parametrize("r", [0.0, 0.5])
def test_of_many_figures_none_drifts_by_chance(r: float, draws: Draws) -> None:
    """Each has three metrics, of which two are there."""
    rng = np.random.default_rng(16)
    drifted, runs = 0, draws.of(FEW_RUNS)
    for _ in range(runs):
        timeline = Timeline((Phase("measure", 0, 300),), 5)
        timeline.start_s = [5.0 * block for block in range(60)]
        timeline.end_s = [5.0 * block + 5 for block in range(60)]
        for number in range(4):
            one, other = (100 + 8 * autoregressive(rng, 60, r) for _ in range(2))
            timeline.operations["readers", f"search{number}"] = Series(
                throughput_per_s=list(one), p50_us=list(other), p99_us=[None] * 60
            )
        found = trends_of(
            timeline, {"readers": PlannedStream(name="readers", **CLOSED)}, ()
        )
        assert len(found) == 8
        drifted += any(trend.is_drift for trend in found)
    assert drifted / runs <= 0.07 + draws.slack(0.05, FEW_RUNS)


def test_a_run_that_became_slower_says_when_and_by_how_much() -> None:
    rng = np.random.default_rng(14)
    values = np.where(np.arange(600) < 400, 50.0, 40.0) * rng.normal(1, 0.01, 600)
    throughput, median = run_of(values)
    assert (throughput.metric, throughput.unit) == ("throughput", "/s")
    assert (median.metric, median.unit) == ("response_time.p50", "ms")
    [step] = throughput.steps
    assert step.at_s == pytest.approx(400, abs=10)
    assert (step.before, step.after) == pytest.approx((50, 40), rel=0.01)


def test_memory_that_grows_is_a_drift() -> None:
    mib = [100.0 + second / 6 for second in range(600)]
    [found] = _monitored(
        memory_resident=("bytes", [one * 2**20 for one in mib]),
        threads=("1", [4.0] * 600),
    )
    assert (found.subject, found.metric, found.unit) == (
        *("supplier", "memory_resident"),
        "MiB",
    )
    assert found.start == pytest.approx(100, rel=0.01)
    assert found.change == pytest.approx(1, rel=0.01)
    assert found.per_hour == pytest.approx(600, rel=0.01)
    assert found.is_drift


def test_a_cache_is_shown_by_its_hit_ratio() -> None:
    tries: list[float | None] = [200.0] * 600
    tries[7] = None
    tries[8] = 0.0
    [found] = _monitored(
        entry_cache_hits=("1", [150.0] * 600), entry_cache_tries=("1", tries)
    )
    assert (found.metric, found.unit, found.start) == ("entry_cache_hit_ratio", "%", 75)
    assert found.change == 0
    assert not found.is_drift


def _monitored(**metrics: tuple[str, Sequence[float | None]]) -> tuple[Trend, ...]:
    timeline = Timeline((Phase("measure", 0, 600),), 1)
    return trends_of(timeline, {}, (monitor(**metrics),))


def test_short_runs_and_changing_loads_have_no_trends() -> None:
    assert run_of([50.0] * 299) == ()
    assert len(run_of([50.0] * 300)) == 2
    ramp = {"model": "open", "rate_per_s": 50.0, "peak_rate_per_s": 90.0}
    assert run_of([50.0] * 600, ramp) == ()


def test_a_figure_that_begins_at_zero_has_no_share() -> None:
    [found] = _monitored(memory_resident=("bytes", [0.0] * 600))
    assert (found.change, found.per_hour, found.steps) == (None, 0, ())
    assert not found.is_drift
