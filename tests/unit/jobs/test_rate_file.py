# SPDX-License-Identifier: Apache-2.0
"""Rates from CSV files."""

from __future__ import annotations

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
