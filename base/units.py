# SPDX-License-Identifier: Apache-2.0
"""Quantities with units, as in job files: durations, rates, ratios, sizes.

Arithmetic is exact: durations are whole nanoseconds, a rate is a fraction of events per
nanosecond. A number without unit is a fault. `parse_x(format_x(v)) == v` for every
value that parse_x returns.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from ldapslam.base.fault import Fault, expected

NS_PER_S = 1_000_000_000

#: Units of a duration in ns, largest first.
DURATION_UNITS: dict[str, int] = {
    "d": 86_400 * NS_PER_S,
    "h": 3_600 * NS_PER_S,
    "m": 60 * NS_PER_S,
    "s": NS_PER_S,
    "ms": 1_000_000,
    "us": 1_000,
    "ns": 1,
}
#: Periods of a rate in ns.
RATE_PERIODS: dict[str, int] = {
    "s": NS_PER_S,
    "m": 60 * NS_PER_S,
    "h": 3_600 * NS_PER_S,
}
_RATE_MULTIPLES = {"": 1, "k": 1_000, "M": 1_000_000}
_MAX_DURATION_NS = 366 * DURATION_UNITS["d"]
_MAX_RATE_PER_S = 100_000_000

_NUMBER = r"\d{1,18}(?:\.\d{1,9})?"
# Six decimals: both terms of a rate's fraction fit in 63 bits, as the engine wants.
_RATE_NUMBER = r"\d{1,12}(?:\.\d{1,6})?"
DURATION_PATTERN = rf"^(?:{_NUMBER}(?:d|h|m|s|ms|us|ns))+$"
RATE_PATTERN = rf"^{_RATE_NUMBER}[kM]?/(?:s|m|h)$"
RATIO_PATTERN = rf"^{_NUMBER}%$"

#: Units as others write them -> ours.
_SPELT = {
    **dict.fromkeys(("sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), "m"),
    **dict.fromkeys(("hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("day", "days"), "d"),
    **dict.fromkeys(("msec", "msecs", "millis", "milliseconds"), "ms"),
}
_PER_SECOND = ("tps", "qps", "rps", "ops", "ops/s", "req/s", "/sec", "/second", "ps")
_DURATION_PART = re.compile(rf"({_NUMBER})(ms|us|ns|d|h|m|s)", re.ASCII)
_RATE = re.compile(rf"({_RATE_NUMBER})([kM]?)/([smh])", re.ASCII)
_BARE_NUMBER = re.compile(_NUMBER, re.ASCII)
_RATIO = re.compile(rf"({_NUMBER})%", re.ASCII)
#: Units of a size in bytes, largest first.
SIZE_UNITS: dict[str, int] = {
    "TiB": 1 << 40,
    "TB": 10**12,
    "GiB": 1 << 30,
    "GB": 10**9,
    "MiB": 1 << 20,
    "MB": 10**6,
    "KiB": 1 << 10,
    "kB": 10**3,
    "B": 1,
}
_SIZE = re.compile(rf"({_NUMBER}) ?({'|'.join(SIZE_UNITS)})", re.ASCII)


@dataclass(frozen=True)
class Rate:
    """`events` per `per_ns` nanoseconds, in lowest terms; events > 0."""

    events: int
    per_ns: int

    @property
    def per_s(self) -> float:
        return self.events * NS_PER_S / self.per_ns

    def arrivals(self, duration_ns: int) -> int:
        """Arrivals due in a duration, rounded up."""
        return -(-duration_ns * self.events // self.per_ns)


def parse_duration(value: Any) -> int:
    what = "a duration such as '250ms' or '10m'"
    if _is_number(value):
        raise expected(what, value, f"write the unit: {value}s, {value}ms or {value}us")
    if not isinstance(value, str):
        raise expected(what, value)
    text = re.sub("[µμ]s", "us", value.strip())  # U+00B5 and U+03BC
    total = Fraction(0)
    end = 0
    while part := _DURATION_PART.match(text, end):
        total += Fraction(part[1]) * DURATION_UNITS[part[2]]
        end = part.end()
    if end != len(text) or not text:
        hint = "units: d, h, m, s, ms, us, ns"
        if text.startswith("-"):
            hint = "a duration cannot be negative"
        elif re.fullmatch(r"[\d.]+", text):
            hint = f"write the unit: {text}s, {text}ms or {text}us"
        elif clock := re.fullmatch(r"(?:(\d+):)?(\d+):(\d\d)", text):
            hours = f"{clock[1]}h" if clock[1] else ""
            hint = f"write {hours}{clock[2]}m{clock[3]}s"
        elif spelt := re.fullmatch(rf"({_NUMBER}) ?([a-z]+)", text.lower()):
            unit = _SPELT.get(spelt[2], spelt[2])
            if unit in DURATION_UNITS:
                hint = f"write {spelt[1]}{unit}"
        raise expected(what, value, hint)
    if total.denominator != 1:
        raise expected("whole nanoseconds", value, "nothing is finer than 1ns")
    if total > _MAX_DURATION_NS:
        raise expected("a duration of at most 366d", value)
    return int(total)


def format_duration(duration_ns: int) -> str:
    """The shortest single-unit text of a duration; '0s' for zero."""
    for unit, unit_ns in DURATION_UNITS.items():
        if duration_ns and duration_ns % unit_ns == 0:
            return f"{duration_ns // unit_ns}{unit}"
    return "0s"


def parse_rate(value: Any) -> Rate:
    what = "a rate such as '500/s' or '10k/s'"
    if _is_number(value):
        raise expected(what, value, f"write the unit: {value}/s")
    if not isinstance(value, str):
        raise expected(what, value)
    text = value.strip()
    match = _RATE.fullmatch(text)
    if match is None:
        hint = "a number, with k or M if needed, then /s, /m (minute) or /h"
        if text.startswith("-"):
            hint = "a rate cannot be negative"
        elif re.fullmatch(r"[\d.]+[kM]?", text):
            hint = f"write the unit: {text}/s" if text.strip("0.") else "leave it out"
        elif spelt := re.fullmatch(rf"({_RATE_NUMBER}[kM]?) ?(\D+)", text):
            if spelt[2].lower() in _PER_SECOND:
                hint = f"write {spelt[1]}/s"
        raise expected(what, value, hint)
    number, multiple, period = match.groups()
    per_ns = Fraction(number) * _RATE_MULTIPLES[multiple] / RATE_PERIODS[period]
    if per_ns == 0:
        raise expected("a rate above zero", value, "leave it out")
    if per_ns * NS_PER_S > _MAX_RATE_PER_S:
        raise expected("a rate of at most 100M/s", value)
    return Rate(per_ns.numerator, per_ns.denominator)


def format_rate(rate: Rate) -> str:
    """A text that parse_rate turns into the same rate."""
    for period, period_ns in RATE_PERIODS.items():
        number = Fraction(rate.events * period_ns, rate.per_ns)
        scaled = number * 10**6
        if scaled.denominator == 1:
            return f"{_plain_decimal(Decimal(int(scaled)).scaleb(-6))}/{period}"
    raise Fault(f"a rate of {rate.per_s}/s has no exact text")


def parse_ratio(value: Any, *, is_share: bool = True) -> float:
    """A ratio of a text such as '0.1%'; of a share from 0 to 1."""
    what = "a percentage such as '98%'"
    is_text = isinstance(value, str)
    if _is_number(value) or (is_text and _BARE_NUMBER.fullmatch(value.strip())):
        hint = f"write the unit: {value}%"
        if 0 < float(value) < 1:
            hint = f"write {format_ratio(float(value))}, or {value}% if you mean that"
        raise expected(what, value, hint)
    match = _RATIO.fullmatch(value.strip()) if is_text else None
    if match is None:
        which = " from 0 to 100" if is_share else ""
        raise expected(what, value, f"a number{which} and a percent sign")
    ratio = Fraction(match[1]) / 100
    if is_share and ratio > 1:
        raise expected("at most '100%'", value)
    return float(ratio)


def format_ratio(ratio: float) -> str:
    return f"{_plain_decimal(Decimal(repr(ratio)) * 100)}%"


def parse_size(value: Any) -> int:
    what = "a size such as '500MB' or '2GiB'"
    if _is_number(value):
        raise expected(what, value, f"write the unit: {value}B, {value}MB")
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        hint = f"a number, then one of {', '.join(SIZE_UNITS)}"
        raise expected(what, value, hint)
    return int(Fraction(match[1]) * SIZE_UNITS[match[2]])


def format_size(size_bytes: int) -> str:
    """For people: three digits at least, in units of 1024; exact below 1 KiB."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if size_bytes >= SIZE_UNITS[unit]:
            size = size_bytes / SIZE_UNITS[unit]
            # up to 1023 of a unit, never 1.02e+03
            return f"{size:.{3 if size < 999.5 else 4}g} {unit}"
    return f"{size_bytes} B"


def parse_cpus(value: Any) -> frozenset[int]:
    """The numbers of a list such as '0-3,8', as of taskset(1)."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return frozenset([value])
    what = "CPUs such as '2' or '0-3,8'"
    if not isinstance(value, str):
        raise expected(what, value)
    found: set[int] = set()
    for part in value.split(","):
        match = re.fullmatch(r"\s*(\d{1,4})(?:-(\d{1,4}))?\s*", part, re.ASCII)
        if match is None:
            raise expected(what, value)
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise expected(what, value, f"{last} comes before {first}")
        found.update(range(first, last + 1))
    return frozenset(found)


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return math.isfinite(value)


def _plain_decimal(number: Decimal) -> str:
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
