# SPDX-License-Identifier: Apache-2.0
"""Steady state: known samples, and how often chance or a drift is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ldapslam.base.arrays import Floats
from ldapslam.jobs.run_plan import PlannedStream
from ldapslam.reports.collect.timeline import Phase, Series, Timeline
from ldapslam.reports.rules.steady import (
    Steady,
    steady_findings,
)
from support.draws import Draws, autoregressive

CLOSED = {"model": "closed", "clients": 8}
#: Runs in each simulation: the standard error of a share of 5 % is 1 %.
RUNS = 500
FEW_RUNS = 100


def findings(
    *medians: Any, stream: dict[str, Any] = CLOSED, warm_up: int = 0
) -> tuple[Steady, ...]:
    """Of operations with these medians, in points of 1 s; the first `warm_up` points
    come before the measure phase."""
    count = len(medians[0])
    phases = Phase("warm_up", 0, warm_up), Phase("measure", warm_up, count)
    timeline = Timeline(phases, 1)
    timeline.start_s = [float(second) for second in range(count)]
    timeline.end_s = [second + 1.0 for second in range(count)]
    for number, values in enumerate(medians):
        series = Series(p50_us=list(values), throughput_per_s=[100.0] * count)
        timeline.operations["readers", f"search{number}"] = series
    return steady_findings(
        timeline, {"readers": PlannedStream(name="readers", **stream)}
    )


def test_a_drift_is_told_with_its_size() -> None:
    rng = np.random.default_rng(2)
    medians = np.linspace(1, 1.3, 30) * rng.normal(200, 2, 30)
    [found] = findings(medians)
    assert found.is_steady is False
    assert found.text == (
        "readers.search0: the median response time is 18.1% higher (p < 0.001) in the "
        "last third of the measure phase than in the first"
    )


def test_a_level_that_comes_back_is_told() -> None:
    rng = np.random.default_rng(3)
    medians = rng.normal(200, 10, 300)
    medians[100:200] += 20
    [found] = findings(medians)
    assert found.text == (
        "readers.search0: the median response time is 11.5% higher after 33% of the "
        "measure phase; 9.7% lower after 67% of the measure phase"
    )


def test_a_shift_that_does_not_matter_is_steady() -> None:
    rng = np.random.default_rng(4)
    medians = rng.normal(200, 0.2, 60)
    [found] = findings(medians * np.linspace(1, 1.02, 60))
    assert (found.is_steady, found.text) == (True, "")
    [found] = findings(medians * np.linspace(1, 1.06, 60))
    assert found.is_steady is False


def test_a_small_step_beside_a_larger_one_is_steady() -> None:
    rng = np.random.default_rng(5)
    medians = rng.normal(100, 0.05, 60)
    medians[10:15] += 3.3
    medians[15:] += 1
    [found] = findings(medians)
    assert (found.is_steady, found.text) == (True, "")


@pytest.mark.parametrize("points", [3, 9])
def test_nothing_is_said_of_few_points(points: int) -> None:
    [found] = findings(np.linspace(1, 2, points))
    assert found == Steady("readers", "search0", points)


def test_nothing_is_said_where_no_change_could_be_told_from_chance() -> None:
    """The p of ten medians that all rise is 0.0044: below the limit of one operation,
    and above the limit of each of six."""
    medians = np.linspace(1, 2, 10)
    assert findings(medians)[0].is_steady is False
    assert {one.is_steady for one in findings(*[medians] * 6)} == {None}


@pytest.mark.parametrize(("points", "is_steady"), [(19, None), (20, True)])
def test_few_points_without_a_change_are_no_evidence_of_a_steady_state(
    points: int, is_steady: bool | None
) -> None:
    [found] = findings(np.tile([1.0, 1.01], points)[:points])
    assert found.is_steady is is_steady


def test_points_without_a_median_or_outside_the_phase_do_not_count() -> None:
    medians = [9.0] * 20 + [None, 1.0] * 20
    [found] = findings(medians, warm_up=20)
    assert found.points == 20
    assert found.is_steady


@pytest.mark.parametrize(
    "stream",
    [
        {**CLOSED, "count": 500},
        {**CLOSED, "start_ns": 1},
        {**CLOSED, "end_ns": 1},
        {**CLOSED, "is_replay": True},
        {"model": "open", "rate_per_s": None},
        {"model": "open", "rate_per_s": 50.0, "peak_rate_per_s": 60.0},
    ],
    ids=["count", "start_after", "stop_after", "replay", "log", "ramp"],
)
def test_only_constant_loads_are_looked_at(stream: dict[str, Any]) -> None:
    medians = np.linspace(1, 2, 30)
    assert findings(medians, stream=stream) == ()
    constant = {"model": "open", "rate_per_s": 50.0, "peak_rate_per_s": 50.0}
    assert findings(medians, stream=constant)[0].is_steady is False


def _alarms(
    draw: Callable[[], tuple[Floats, ...]], draws: Draws, number: int = RUNS
) -> float:
    runs = draws.of(number)
    found = (findings(*draw()) for _ in range(runs))
    return sum(any(one.is_steady is False for one in run) for run in found) / runs


@pytest.mark.parametrize(("points", "operations"), [(12, 4), (60, 1), (100, 2)])
def test_false_alarms_of_independent_medians(
    points: int, operations: int, draws: Draws
) -> None:
    """Exponential ones scatter more than any real ones do."""
    rng = np.random.default_rng(points + operations)

    def draw() -> tuple[Floats, ...]:
        return tuple(rng.exponential(1, points) for _ in range(operations))

    assert _alarms(draw, draws) <= 0.05 + draws.slack(0.05, RUNS)


@pytest.mark.parametrize("points", [30, 200])
def test_false_alarms_of_medians_that_hang_together(points: int, draws: Draws) -> None:
    rng = np.random.default_rng(points)
    alarms = _alarms(lambda: (1 + 0.09 * autoregressive(rng, points, 0.5),), draws)
    assert alarms <= 0.07 + draws.slack(0.05, RUNS)


def test_a_drift_of_a_tenth_is_found(draws: Draws) -> None:
    """Medians of 1,000 exponential times scatter by 1.44 / sqrt(1000) = 4.6 %."""
    rng = np.random.default_rng(8)

    def draw() -> tuple[Floats]:
        return (np.linspace(1, 1.1, 60) * rng.normal(1, 0.046, 60),)

    assert _alarms(draw, draws) >= 0.9 - draws.slack(0.9, RUNS)


#: What a response time does before it is steady, or instead of it: from 1 to `times`
#: that, at shares of the phase.
TRANSIENTS: dict[str, Callable[[Floats, float], Floats]] = {
    "caches fill": lambda at, times: 1 + (times - 1) * np.exp(-at / 0.2),
    "caches fill soon": lambda at, times: 1 + (times - 1) * np.exp(-at / 0.1),
    "caches fill slowly": lambda at, times: 1 + (times - 1) * np.exp(-at / 0.4),
    "a step": lambda at, times: np.where(at < 0.3, 1, times),
    "a step back": lambda at, times: np.where(at < 0.8, times, 1),
    "a while": lambda at, times: np.where((at > 0.4) & (at < 0.6), times, 1),
    "a line": lambda at, times: 1 + (times - 1) * at,
    "a leak": lambda at, times: times**at,
    "a late leak": lambda at, times: 1 + (times - 1) * at**3,
}


@pytest.mark.parametrize("r", [0.0, 0.5])
@pytest.mark.parametrize("points", [60, 120])
@pytest.mark.parametrize("shape", TRANSIENTS)
def test_a_transient_is_found_however_large_it_is(
    shape: str, points: int, r: float, draws: Draws
) -> None:
    """Medians that scatter by 2 %."""
    rng = np.random.default_rng([points, len(shape)])
    at = (np.arange(points) + 0.5) / points
    for times in (1.3, 2.0, 4.0, 15.0):
        level = TRANSIENTS[shape](at, times)

        def draw(level: Floats = level) -> tuple[Floats]:
            return (level * (1 + 0.02 * autoregressive(rng, points, r)),)

        # where it is over after a tenth, little is left of a third
        least = 0.9 if (shape, times) == ("caches fill soon", 1.3) else 0.95
        share = _alarms(draw, draws, FEW_RUNS)
        assert share >= least - draws.slack(least, FEW_RUNS), times


def test_a_warm_up_within_the_phase_is_found(draws: Draws) -> None:
    rng = np.random.default_rng(9)

    def draw() -> tuple[Floats]:
        return ((1 + np.exp(-np.arange(60) / 15)) * rng.normal(1, 0.046, 60),)

    assert _alarms(draw, draws) >= 0.95 - draws.slack(0.95, RUNS)
