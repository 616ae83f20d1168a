# SPDX-License-Identifier: Apache-2.0
"""Quantities: exact values, faults, and parse∘format = id."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldapslam.base.fault import Fault
from ldapslam.base.units import (
    NS_PER_S,
    Rate,
    format_duration,
    format_rate,
    format_ratio,
    format_size,
    parse_cpus,
    parse_duration,
    parse_rate,
    parse_ratio,
)

#: Reader -> what it takes, and what that is, to the last digit.
EXACT: dict[Callable[[Any], Any], dict[Any, Any]] = {
    parse_duration: {
        "0s": 0,
        "1ns": 1,
        "250us": 250_000,
        "250µs": 250_000,  # U+00B5
        "250μs": 250_000,  # U+03BC
        "1.5ms": 1_500_000,
        "10s": 10 * NS_PER_S,
        "1h30m": 5_400 * NS_PER_S,
        "2d": 172_800 * NS_PER_S,
        " 5s ": 5 * NS_PER_S,
        # 0.1 s has no exact binary fraction; the arithmetic is decimal.
        "0.1s": 100_000_000,
    },
    parse_rate: {
        "500/s": Rate(1, 2_000_000),
        "10k/s": Rate(1, 100_000),
        "2.5M/s": Rate(1, 400),
        "90/m": Rate(3, 2 * NS_PER_S),  # 1.5 per second
        "20/m": Rate(1, 3 * NS_PER_S),
        "0.5/s": Rate(1, 2 * NS_PER_S),
        "1/h": Rate(1, 3600 * NS_PER_S),
        "100M/s": Rate(1, 10),
    },
    parse_ratio: {"98%": 0.98, "0.1%": 0.001, "0%": 0.0, "100%": 1.0},
    parse_cpus: {"2": {2}, "0-3,8": {0, 1, 2, 3, 8}, 0: {0}, "1, 1": {1}},
}


@pytest.mark.parametrize("parse", EXACT)
def test_a_quantity_is_read_exactly(parse: Callable[[Any], Any]) -> None:
    assert {text: parse(text) for text in EXACT[parse]} == EXACT[parse]


#: Reader -> what it refuses.
REFUSED: dict[Callable[[Any], Any], tuple[Any, ...]] = {
    parse_duration: (
        "",
        "s",
        "5",
        "5 s",
        "5sec",
        "-5s",
        "1.5ns",
        "5s5",
        "٥s",
        "367d",
        5,
        0.5,
        True,
        None,
        "9" * 19 + "ns",
        "1e3s",
        [],
        {},
        float("nan"),
    ),
    parse_rate: (
        *(
            "",
            "500",
            "500/",
            "/s",
            "500/sec",
            "500 /s",
            "-5/s",
            "0/s",
            "5K/s",
            "101M/s",
        ),
        *(500, 0.5, True, None, []),
    ),
    parse_ratio: ("98", "%", "-1%", "101%", "1 %", 0.98, 98, None),
    parse_cpus: ("", "1-", "3-1", "1;2", "-1", -1, True, 1.0, None),
}


@pytest.mark.parametrize(
    ("parse", "value"),
    [(parse, value) for parse, values in REFUSED.items() for value in values],
)
def test_what_is_no_quantity_is_a_fault(
    parse: Callable[[Any], Any], value: Any
) -> None:
    with pytest.raises(Fault):
        parse(value)


@given(st.integers(0, 366 * 86_400 * NS_PER_S))
def test_formatted_duration_parses_as_itself(duration_ns: int) -> None:
    assert parse_duration(format_duration(duration_ns)) == duration_ns


@given(
    digits=st.integers(1, 10**9),
    decimals=st.integers(0, 6),
    multiple=st.sampled_from(["", "k"]),
    period=st.sampled_from("smh"),
)
def test_formatted_rate_parses_as_itself(
    digits: int, decimals: int, multiple: str, period: str
) -> None:
    whole, fraction = divmod(digits, 10**decimals)
    text = f"{whole}.{fraction:0{decimals}d}" if decimals else str(whole)
    try:
        rate = parse_rate(f"{text}{multiple}/{period}")
    except Fault as fault:
        assert "at most 100M/s" in fault.reason  # noqa: PT017
        return
    assert parse_rate(format_rate(rate)) == rate
    # The engine holds both in 64 bits.
    assert max(rate.events, rate.per_ns) < 1 << 63


@given(
    events=st.integers(1, 10**6),
    per_ns=st.integers(1, 10**12),
    duration_ns=st.integers(0, 10**12),
)
def test_arrivals_of_a_duration_are_rounded_up(
    events: int, per_ns: int, duration_ns: int
) -> None:
    exact = Fraction(events, per_ns) * duration_ns
    arrivals = Rate(events, per_ns).arrivals(duration_ns)
    assert exact <= arrivals < exact + 1


def test_bare_fraction_is_asked_for_as_a_percentage() -> None:
    with pytest.raises(Fault) as caught:
        parse_ratio(0.95)
    assert caught.value.hint == "write 95%, or 0.95% if you mean that"


@given(st.integers(0, 10**8))
def test_formatted_share_parses_as_itself(millionths_of_a_percent: int) -> None:
    share = parse_ratio(f"{millionths_of_a_percent / 10**6:.6f}%")
    assert parse_ratio(format_ratio(share)) == share


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (1010 << 10, "1010 KiB"),
        (5 << 30, "5 GiB"),
        (3 << 50, "3072 TiB"),
    ],
)
def test_sizes_are_shown_in_their_unit(size_bytes: int, text: str) -> None:
    assert format_size(size_bytes) == text
