# SPDX-License-Identifier: Apache-2.0
"""The clock offset: arithmetic, choice of sample, and that its bound holds."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldapslam.coordinator.fleet.clock import (
    DRIFT_LIMIT,
    WINDOW,
    ClockOffset,
    ClockSample,
    OffsetEstimator,
)

S = 1_000_000_000


def exchange(
    offset_ns: int, there_ns: int, back_ns: int, *, at_ns: int = 0, work_ns: int = 0
) -> ClockSample:
    """What an agent whose clock is ahead by offset_ns measures; at_ns: sent, in the
    coordinator's clock."""
    return ClockSample(
        t1=at_ns + offset_ns,
        t2=at_ns + there_ns,
        t3=at_ns + there_ns + work_ns,
        t4=at_ns + there_ns + work_ns + back_ns + offset_ns,
    )


def test_equal_ways_give_the_exact_offset() -> None:
    # t1 = 1000, t2 = 50, t3 = 70, t4 = 1120: ((1000-50) + (1120-70)) / 2 = 1000
    sample = exchange(1000, 50, 50, work_ns=20)
    assert (sample.offset_ns(), sample.rtt_ns) == (1000, 100)


@given(
    offset_ns=st.integers(-(10**18), 10**18),
    there_ns=st.integers(0, 10**9),
    back_ns=st.integers(0, 10**9),
    work_ns=st.integers(0, 10**9),
    age_ns=st.integers(0, 10**9),
)
def test_the_true_offset_is_within_the_bound_whatever_the_ways(
    offset_ns: int, there_ns: int, back_ns: int, work_ns: int, age_ns: int
) -> None:
    estimator = OffsetEstimator()
    sample = exchange(offset_ns, there_ns, back_ns, work_ns=work_ns)
    assert estimator.add(sample)
    estimate = estimator.estimate(sample.t3 + age_ns)
    assert estimate is not None
    assert abs(estimate.offset_ns - offset_ns) <= estimate.bound_ns


def test_the_shortest_way_wins() -> None:
    estimator = OffsetEstimator()
    for there_ns in (900, 40, 300):
        estimator.add(exchange(5000, there_ns, 40))
    assert estimator.estimate(0) == ClockOffset(5000, 41)


def test_a_bound_widens_with_age_until_a_newer_sample_is_better() -> None:
    estimator = OffsetEstimator()
    estimator.add(exchange(0, 100, 100))
    estimate = estimator.estimate(10 * S)
    # half of 200 ns, and 10 s at 100 parts per million: 1 ms
    assert estimate is not None
    assert estimate.bound_ns == pytest.approx(100 + 10 * S * DRIFT_LIMIT, abs=2)
    estimator.add(exchange(700, 1000, 1000, at_ns=10 * S))
    assert estimator.estimate(10 * S) == ClockOffset(700, 1001)


@pytest.mark.parametrize(
    "sample",
    [
        ClockSample(t1=10, t2=0, t3=0, t4=9),
        ClockSample(t1=0, t2=10, t3=9, t4=10),
        ClockSample(t1=0, t2=0, t3=100, t4=50),
        ClockSample(t1=-(2**63), t2=0, t3=1, t4=2**63 - 1),
    ],
    ids=[
        "agent's clock went back",
        "coordinator's clock went back",
        "negative way",
        "no clock's times",
    ],
)
def test_an_impossible_sample_is_ignored(sample: ClockSample) -> None:
    estimator = OffsetEstimator()
    assert not estimator.add(sample)
    assert estimator.estimate(0) is None


def test_only_the_last_samples_are_kept() -> None:
    estimator = OffsetEstimator()
    estimator.add(exchange(1, 1, 1))
    for _ in range(WINDOW):
        estimator.add(exchange(2, 50, 50))
    estimate = estimator.estimate(0)
    assert estimate is not None
    assert estimate.offset_ns == 2


def test_on_one_host_the_offset_is_nearly_zero() -> None:
    estimator = OffsetEstimator()
    for _ in range(10):
        t1, t2 = time.monotonic_ns(), time.monotonic_ns()
        t3, t4 = time.monotonic_ns(), time.monotonic_ns()
        estimator.add(ClockSample(t1, t2, t3, t4))
    estimate = estimator.estimate(time.monotonic_ns())
    assert estimate is not None
    assert abs(estimate.offset_ns) <= estimate.bound_ns < S // 1000


def test_an_instant_in_the_agents_clock_is_the_coordinators_plus_the_offset() -> None:
    assert ClockOffset(-300, 10).to_agent_ns(1000) == 700
