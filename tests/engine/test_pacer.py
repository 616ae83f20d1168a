# SPDX-License-Identifier: Apache-2.0
"""When arrivals are due: the engine's pacer, in any profile, cut over any fleet.

N(t) is worked out here once more, straight from the rate, so that the engine's formulas
are not tested with themselves. The plan has the engine's formulas too.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldapslam.jobs.rates.profile import (
    FOREVER_NS,
    Segment,
    arrivals_by,
    hold,
    ramp,
)
from support.samples import CONSTANT, POISSON, UNIFORM_ARRIVALS, Sampler, fleet
from support.truth import anderson_darling

S = 10**9


def integral_of(segments: list[Segment], t_ns: int) -> float:
    """N(t): the integral of the rate by Gauss and Legendre in 200 pieces a segment."""
    nodes, weights = np.polynomial.legendre.leggauss(8)
    total, start = 0.0, 0
    for segment in segments:
        end = min(t_ns - start, segment.duration_ns)
        if end <= 0:
            break
        edges = np.linspace(0, end, 201)
        half = np.diff(edges)[:, None] / 2
        t = edges[:-1, None] + half * (nodes + 1)
        rate = segment.a + (segment.b - segment.a) * t / segment.duration_ns
        total += float((rate * weights * half).sum())
        start += segment.duration_ns
    return total


def rates(most: float = 2000.0) -> st.SearchStrategy[float]:
    """Events per ns; zero too."""
    return st.one_of(st.just(0.0), st.floats(0.1, most).map(lambda per_s: per_s / S))


durations = st.integers(1, 3 * S)
linear = st.builds(Segment, durations, rates(), rates())
profiles = st.lists(linear, min_size=1, max_size=4)
splits = st.tuples(
    st.integers(1, 40), st.lists(st.integers(1, 4), min_size=1, max_size=5)
)


@given(
    segments=profiles,
    split=splits,
    kind=st.sampled_from([CONSTANT, UNIFORM_ARRIVALS]),
    moments=st.lists(st.floats(0, 1), min_size=5, max_size=5),
)
def test_arrivals_by_any_time_are_within_one_of_the_profile(
    sampler: Sampler,
    segments: list[Segment],
    split: tuple[int, list[int]],
    kind: int,
    moments: list[float],
) -> None:
    sampler.profile(segments)
    times = []
    for number, share in enumerate(fleet(*split)):
        own = sampler.arrivals(kind, share=share, seed=number)
        assert own == sorted(own)
        times += own
    end = sum(segment.duration_ns for segment in segments)
    assert all(time <= end for time in times)
    for moment in [*moments, 1.0]:
        t = int(moment * end)
        # The rounding to ns may move an arrival over t: rates are below 10^-5 per ns.
        assert abs(sum(time <= t for time in times) - integral_of(segments, t)) < 1.001


@given(segments=profiles, t=st.integers(0, 10 * S))
def test_expected_arrivals_are_the_integral_of_the_rate(
    sampler: Sampler, segments: list[Segment], t: int
) -> None:
    sampler.profile(segments)
    assert sampler.expected(t) == pytest.approx(integral_of(segments, t), abs=1e-4)


long_rates = st.floats(0, 1e6).map(lambda per_s: per_s / S)
long_durations = st.integers(1, 3600 * S)
long_profiles = st.lists(
    st.builds(ramp, long_rates, long_rates, long_durations)
    | st.builds(hold, long_rates, long_durations),
    min_size=1,
    max_size=6,
).map(tuple)


@given(profile=long_profiles, share=st.floats(0, 1.1))
def test_plan_expects_the_arrivals_that_the_engine_expects(
    sampler: Sampler, profile: tuple[Segment, ...], share: float
) -> None:
    t_ns = int(sum(segment.duration_ns for segment in profile) * share)
    sampler.profile(profile)
    expected = sampler.expected(t_ns)
    assert arrivals_by(profile, t_ns) == pytest.approx(expected, rel=1e-9, abs=1e-6)


@given(
    split=splits,
    kind=st.sampled_from([CONSTANT, UNIFORM_ARRIVALS, POISSON]),
    limit=st.integers(1, 500),
)
def test_limit_of_the_run_is_kept_exactly_by_any_fleet(
    sampler: Sampler, split: tuple[int, list[int]], kind: int, limit: int
) -> None:
    sampler.profile([Segment(FOREVER_NS, 1e-6, 1e-6)])
    counts = [
        len(sampler.arrivals(kind, share=share, limit=limit, seed=number))
        for number, share in enumerate(fleet(*split))
    ]
    assert sum(counts) == limit


@pytest.mark.parametrize(
    ("rate_per_s", "duration_s", "arrivals"),
    # as products of doubles 231 - 3e-14, 990 - 1e-13 and 57 + 7e-15
    [(33, 7, 231), (33, 30, 990), (19, 3, 57)],
)
def test_the_last_arrival_is_neither_lost_nor_won_by_rounding(
    sampler: Sampler, rate_per_s: int, duration_s: int, arrivals: int
) -> None:
    rate = rate_per_s / S
    sampler.profile([Segment(duration_s * S, rate, rate)] * 2)
    assert len(sampler.arrivals(CONSTANT)) == 2 * arrivals
    # the second segment goes on where the first one ends, to the ulp
    assert sampler.expected(duration_s * S) == arrivals


@given(split=splits)
def test_constant_arrivals_are_the_same_however_they_are_cut(
    sampler: Sampler, split: tuple[int, list[int]]
) -> None:
    sampler.profile([Segment(2 * S, 0, 5e-7), Segment(S, 5e-7, 5e-7)])
    whole = sampler.arrivals(CONSTANT)
    cut = [
        t for share in fleet(*split) for t in sampler.arrivals(CONSTANT, share=share)
    ]
    assert sorted(cut) == whole
    assert len(whole) == 1000
    # of the hold, at 500/s, to the nanosecond
    assert [t - 2 * S for t in whole[501:]] == [n * 2_000_000 for n in range(1, 500)]


@pytest.mark.parametrize(
    ("connections", "workers"),
    [(1, [1]), (21, [3] * 7), (8, [1, 3]), (5, [3, 3])],
)
def test_poisson_inter_arrival_times_pass_anderson_and_darling(
    sampler: Sampler, connections: int, workers: list[int]
) -> None:
    """Of the whole fleet's arrivals, merged, and of each worker's."""
    rate = 200_000 / S
    sampler.profile([Segment(FOREVER_NS, rate, rate)])
    times: list[int] = []
    for number, share in enumerate(fleet(connections, workers)):
        own = sampler.arrivals(POISSON, share=share, until_ns=S, seed=number)
        mean = share.total / share.connections / rate
        gaps = np.diff([0, *own])
        assert anderson_darling(-np.expm1(-gaps / mean)) < 6
        times += own
    gaps = np.diff([0, *sorted(times)])
    assert len(times) == pytest.approx(200_000, abs=5 * math.sqrt(200_000))
    assert anderson_darling(-np.expm1(-gaps * rate)) < 6


@pytest.mark.parametrize(
    "segments",
    [
        [Segment(2 * S, 0, 1e-5)],
        [
            Segment(S, 1e-5, 0),
            Segment(S, 0, 0),
            Segment(S, 1e-5, 2e-5),
        ],
    ],
    ids=["ramp", "down-pause-up"],
)
def test_poisson_arrivals_of_a_profile_are_exponential_in_terms_of_it(
    sampler: Sampler, segments: list[Segment]
) -> None:
    """N(t) of the arrivals is a Poisson process of rate 1, whatever the profile."""
    sampler.profile(segments)
    times: list[int] = []
    for number, share in enumerate(fleet(9, [2, 2])):
        times += sampler.arrivals(POISSON, share=share, seed=number)
    positions = [sampler.expected(t) for t in sorted(times)]
    assert anderson_darling(-np.expm1(-np.diff([0.0, *positions]))) < 6


def test_uniform_arrivals_lie_anywhere_in_their_step(sampler: Sampler) -> None:
    sampler.profile([Segment(FOREVER_NS, 1e-6, 1e-6)])
    times = sampler.arrivals(UNIFORM_ARRIVALS, limit=20_000)
    assert anderson_darling([t / 1_000_000 - x for x, t in enumerate(times)]) < 6
