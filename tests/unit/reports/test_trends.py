# SPDX-License-Identifier: Apache-2.0
"""Drifts and steps of long runs: known samples, and how often chance makes one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from ldapslam.reports.collect.telemetry import MetricSummary, MonitorSummary, Points
from ldapslam.reports.collect.timeline import Phase, Series, Timeline
from ldapslam.reports.rules.trends import Trend, step_places, theil_sen, trends_of
from ldapslam.results.records import Metric

CLOSED = {"model": "closed", "clients": 8}
AT_S = np.arange(60.0)
Floats = npt.NDArray[np.float64]
#: Runs in each simulation: the standard error of a share of 5 % is 1 %.
RUNS = 500


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
    return trends_of(timeline, {"readers": stream}, ())


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
    return MonitorSummary("local-1", "supplier", {}, 9, 0, (), None, None, (), found)


def autoregressive(rng: np.random.Generator, count: int, r: float) -> Floats:
    """Of the variance 1."""
    noise = rng.normal(0, np.sqrt(1 - r * r), count)
    noise[0] = rng.normal()
    for place in range(1, count):
        noise[place] += r * noise[place - 1]
    return noise


def test_the_slope_is_the_median_of_the_slopes_of_pairs() -> None:
    line = theil_sen(AT_S, 100 + 0.5 * AT_S)
    assert (line.slope, line.at(0), line.at(60)) == (0.5, 100, 130)
    # an outlier moves a least-squares line, not this one
    values = 100 + 0.5 * AT_S
    values[-1] = 1000
    assert theil_sen(AT_S, values).slope == 0.5


@pytest.mark.parametrize(("r", "least"), [(0.0, 0.93), (0.5, 0.90)])
def test_the_interval_of_a_slope_covers_it(r: float, least: float) -> None:
    rng = np.random.default_rng(11)
    covered = 0
    for _ in range(RUNS):
        line = theil_sen(AT_S, 100 + 0.05 * AT_S + autoregressive(rng, 60, r))
        covered += line.low <= 0.05 <= line.high
    assert covered / RUNS >= least


@pytest.mark.parametrize("r", [0.0, 0.5])
@pytest.mark.parametrize("drift", [0.0, 0.2])
def test_chance_and_drifts_are_no_steps(r: float, drift: float) -> None:
    """Levels near 100, so that a standard deviation of 4 is more than LEAST_SHIFT."""
    rng = np.random.default_rng(12)
    found = 0
    for _ in range(RUNS):
        values = 100 + drift * AT_S + 4 * autoregressive(rng, 60, r)
        found += bool(step_places(AT_S, values, 0.05))
    assert found / RUNS <= 0.07


def test_a_step_is_found_where_it_is() -> None:
    rng = np.random.default_rng(13)
    near = 0
    for _ in range(RUNS):
        values = np.where(AT_S < 22, 100, 110) + rng.normal(0, 4, 60)
        near += any(abs(place - 22) <= 2 for place in step_places(AT_S, values, 0.05))
    assert near / RUNS >= 0.8


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
