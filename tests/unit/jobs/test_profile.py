# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of arrival rates over time, and rates from CSV files."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldapslam.base.fault import Fault
from ldapslam.base.units import NS_PER_S, Rate
from ldapslam.jobs.rates.arrivals import (
    RateRow,
    StageRate,
    format_stage_rate,
    parse_rate_file,
    parse_stage_rate,
)
from ldapslam.jobs.rates.profile import (
    FOREVER_NS,
    Profile,
    Segment,
    arrivals_by,
    between,
    final_rate,
    hold,
    peak_rate,
    profile_of,
    ramp,
)
from support.profiles import rate_at

PER_S = 1 / NS_PER_S

rates = st.floats(0, 1e6).map(lambda per_s: per_s * PER_S)
durations = st.integers(1, 3600 * NS_PER_S)
linear = st.builds(ramp, rates, rates, durations)
profiles = st.lists(linear, min_size=1, max_size=6).map(tuple)


def length_ns(profile: Profile) -> int:
    return sum(segment.duration_ns for segment in profile)


def integral(segment: Segment, end_ns: float, steps: int = 2_000) -> float:
    """Of the rate, by the midpoint rule."""
    width = end_ns / steps
    return width * sum(segment.rate_at((i + 0.5) * width) for i in range(steps))


@given(segment=linear, share=st.floats(0, 1))
def test_arrivals_are_the_integral_of_the_rate(segment: Segment, share: float) -> None:
    end_ns = segment.duration_ns * share
    expected = integral(segment, end_ns)
    scale = max(segment.a, segment.b) * end_ns
    assert segment.arrivals_by(end_ns) == pytest.approx(
        expected, rel=1e-3, abs=1e-3 * scale + 1e-9
    )


@given(profile=profiles, times=st.lists(st.floats(0, 1.2), min_size=2, max_size=8))
def test_arrivals_never_fall_and_end_with_the_profile(
    profile: Profile, times: list[float]
) -> None:
    whole_ns = length_ns(profile)
    counts = [arrivals_by(profile, whole_ns * share) for share in sorted(times)]
    scale = peak_rate(profile) * whole_ns
    for before, after in itertools.pairwise(counts):
        assert after >= before - 1e-12 * scale
    assert arrivals_by(profile, 2 * whole_ns) == arrivals_by(profile, whole_ns)
    assert rate_at(profile, whole_ns) == 0


@given(profile=profiles)
def test_no_rate_is_above_the_peak(profile: Profile) -> None:
    whole_ns = length_ns(profile)
    peak = peak_rate(profile)
    for number in range(100):
        rate = rate_at(profile, whole_ns * number / 100)
        assert -1e-9 * peak <= rate <= peak * (1 + 1e-12)


@given(
    profile=st.lists(linear, min_size=1, max_size=6).map(tuple),
    start=st.floats(0, 1),
    end=st.floats(0, 1),
)
def test_a_part_of_a_profile_has_the_arrivals_of_that_part(
    profile: Profile, start: float, end: float
) -> None:
    whole_ns = length_ns(profile)
    start_ns, end_ns = sorted((int(start * whole_ns), int(end * whole_ns)))
    part = between(profile, start_ns, end_ns)
    scale = max(arrivals_by(profile, whole_ns), 1e-9)
    assert arrivals_by(part, start_ns) == 0
    assert arrivals_by(part, whole_ns) == pytest.approx(
        arrivals_by(profile, end_ns) - arrivals_by(profile, start_ns),
        rel=1e-6,
        abs=1e-9 * scale,
    )


def test_phases_stand_around_the_stages() -> None:
    stages = [hold(100 * PER_S, 10 * NS_PER_S), ramp(100 * PER_S, 0, 10 * NS_PER_S)]
    profile = profile_of(stages, ramp_up_ns=2 * NS_PER_S, measure_start_ns=5 * NS_PER_S)
    assert profile == (
        ramp(0, 100 * PER_S, 2 * NS_PER_S),
        # warm_up holds the first rate, which the first stage goes on with
        hold(100 * PER_S, 13 * NS_PER_S),
        ramp(100 * PER_S, 0, 10 * NS_PER_S),
        hold(0, FOREVER_NS),
    )


def test_last_rate_holds_after_the_stages() -> None:
    profile = profile_of(
        [ramp(0, 50 * PER_S, NS_PER_S)], ramp_up_ns=0, measure_start_ns=0
    )
    assert rate_at(profile, 3600 * NS_PER_S) == final_rate(profile) == 50 * PER_S


def test_stream_that_starts_late_begins_its_stages_then() -> None:
    profile = profile_of(
        [ramp(50 * PER_S, 20 * PER_S, 3 * NS_PER_S)],
        ramp_up_ns=NS_PER_S,
        measure_start_ns=2 * NS_PER_S,
        start_ns=5 * NS_PER_S,
        end_ns=7 * NS_PER_S,
    )
    before, stage = profile
    assert before == hold(0, 5 * NS_PER_S)
    assert stage == pytest.approx(ramp(50 * PER_S, 30 * PER_S, 2 * NS_PER_S))


def test_stream_that_starts_within_the_ramp_up_joins_it() -> None:
    profile = profile_of(
        [hold(100 * PER_S, 1)],
        ramp_up_ns=4 * NS_PER_S,
        measure_start_ns=4 * NS_PER_S,
        start_ns=NS_PER_S,
    )
    assert profile == (
        hold(0, NS_PER_S),
        ramp(25 * PER_S, 100 * PER_S, 3 * NS_PER_S),
        hold(100 * PER_S, FOREVER_NS),
    )


@given(
    stages=st.lists(linear, min_size=1, max_size=4),
    ramp_up_ns=st.integers(0, 10 * NS_PER_S),
    warm_up_ns=st.integers(0, 10 * NS_PER_S),
    start_ns=st.integers(0, 40 * NS_PER_S),
)
def test_every_profile_lasts_to_the_end_of_the_run(
    stages: list[Segment], ramp_up_ns: int, warm_up_ns: int, start_ns: int
) -> None:
    profile = profile_of(
        stages,
        ramp_up_ns=ramp_up_ns,
        measure_start_ns=ramp_up_ns + warm_up_ns,
        start_ns=start_ns,
    )
    assert all(segment.duration_ns > 0 for segment in profile)
    assert length_ns(profile) >= FOREVER_NS
    assert arrivals_by(profile, start_ns) == 0


# Rates from CSV files.


def per_s(rate: float) -> StageRate:
    return StageRate(Fraction(str(rate)) / NS_PER_S)


@pytest.mark.parametrize(
    "text",
    [
        "0,100\n10,200.5\n30,0\n",
        "time,rate\n0,100\n10,200.5\n30,0\n",
        "time_s, rate_per_s\r\n0, 100\r\n10, 200.5\r\n30, 0\r\n",
        "# a comment\n\n0s,100/s\n10s,12030/m\n30s,0/s\n",
    ],
)
def test_table_is_read_with_a_header_or_without(text: str) -> None:
    assert parse_rate_file(text, "rates.csv") == (
        RateRow(0, per_s(100)),
        RateRow(10 * NS_PER_S, per_s(200.5)),
        RateRow(30 * NS_PER_S, per_s(0)),
    )


def test_a_rate_of_a_file_may_be_a_multiple() -> None:
    assert parse_rate_file("0,0.75x\n", "rates") == (
        RateRow(0, StageRate(Fraction(3, 4), is_relative=True)),
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "'rates': expected rows of time and rate, got none"),
        ("time,rate\n", "'rates': expected rows of time and rate, got none"),
        ("5,100\n", "'rates': expected the first time to be 0, got 5s"),
        ("0,1\n1\n", "'rates' line 2: expected a time and a rate, got '1'"),
        ("0,1\n1,x\n", "'rates' line 2: expected a rate such as"),
        ("0,1\n1 parsec,2\n", "'rates' line 2: expected a duration"),
        ("0,-1\n", "'rates' line 1: expected a rate"),
    ],
)
def test_fault_of_a_file_names_its_line(text: str, reason: str) -> None:
    with pytest.raises(Fault) as caught:
        parse_rate_file(text, "rates")
    assert caught.value.reason.startswith(reason)


@given(st.text(max_size=80))
def test_any_text_gives_rates_or_a_fault(text: str) -> None:
    try:
        rows = parse_rate_file(text, "rates")
    except Fault:
        return
    assert rows


@given(
    st.builds(
        StageRate,
        st.integers(0, 10**13).map(lambda n: Fraction(n, 10**9)),
        st.just(True),
    )
    | st.builds(StageRate, st.integers(0, 10**10).map(lambda n: Fraction(n, 10**13)))
)
def test_formatted_rate_of_a_stage_parses_as_itself(rate: StageRate) -> None:
    if not rate.is_relative and rate.value * NS_PER_S > 100_000_000:
        return
    if rate.is_relative and rate.value >= 1_000_000:
        return
    try:
        text = format_stage_rate(rate)
    except Fault:
        return  # no exact decimal: no file can have written it
    assert parse_stage_rate(text) == rate


def test_multiple_is_of_the_base() -> None:
    base = Rate(1, 2_000_000)  # 500/s
    assert parse_stage_rate("0.75x").per_ns(base) == 375 / NS_PER_S
    assert parse_stage_rate("80/s").per_ns(base) == 80 / NS_PER_S
    with pytest.raises(ValueError, match="without a base"):
        parse_stage_rate("1x").per_ns(None)
