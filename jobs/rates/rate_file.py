# SPDX-License-Identifier: Apache-2.0
"""Rates over time from a file: a table of time and rate, or searchrate's own format.

A table is CSV of two columns, time since the stages begin and rate, with a header or
without; a bare number is seconds, and arrivals per second:

    time,rate
    0,100
    10s,500/s

The variable-rate data of UnboundID's tools is a header, `END HEADER`, and a line for
each rate with the time that it holds:

    format = rate-and-duration
    default-duration = 10 seconds
    repeat = true
    END HEADER
    100
    0.75x, 1 minute

In both a rate such as 0.75x is a multiple of the load's `rate`. Pure: text in, steps
out; a Fault names the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ldapslam.base.fault import Fault, did_you_mean, expected, got
from ldapslam.base.units import (
    NS_PER_S,
    Rate,
    format_duration,
    format_rate,
    parse_duration,
    parse_rate,
)

MAX_STEPS = 100_000
_MAX_MULTIPLE = 1_000_000
_LEAST_STEP_NS = NS_PER_S // 10

_END_HEADER = "END HEADER"
_NUMBER = re.compile(r"\d{1,12}(?:\.\d{1,9})?", re.ASCII)
_MULTIPLE = re.compile(r"(\d{1,7}(?:\.\d{1,9})?)\s*[xX]", re.ASCII)
_ZERO = re.compile(r"0(?:\.0*)?/[smh]", re.ASCII)
_WORDED = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)\s*([A-Za-z]+)", re.ASCII)
_HEADERS = ("format", "default-duration", "repeat")
#: The words of UnboundID's durations, as units of ours.
_UNIT_OF = {
    word: unit
    for unit, words in {
        "ns": "nanoseconds nanosecond nanos nano ns",
        "us": "microseconds microsecond micros micro us",
        "ms": "milliseconds millisecond millis milli ms",
        "s": "seconds second secs sec s",
        "m": "minutes minute mins min m",
        "h": "hours hour hrs hr h",
        "d": "days day d",
    }.items()
    for word in words.split()
}


@dataclass(frozen=True)
class StageRate:
    """A rate of a stage: arrivals per ns, or a multiple of the load's `rate`; may be
    zero."""

    value: Fraction
    is_relative: bool = False

    def per_ns(self, base: Rate | None) -> float:
        """Arrivals per ns; a relative rate needs the base."""
        if not self.is_relative:
            return float(self.value)
        if base is None:
            raise ValueError("a relative rate without a base")
        return float(self.value * Fraction(base.events, base.per_ns))


def parse_stage_rate(value: Any) -> StageRate:
    """The rate of a text such as '500/s', '0/s' or '0.75x'."""
    if isinstance(value, str):
        text = value.strip()
        if match := _MULTIPLE.fullmatch(text):
            if Fraction(match[1]) > _MAX_MULTIPLE:
                raise expected(f"a multiple of at most {_MAX_MULTIPLE}x", value)
            return StageRate(Fraction(match[1]), is_relative=True)
        if _ZERO.fullmatch(text):
            return StageRate(Fraction(0))
    rate = parse_rate(value)
    return StageRate(Fraction(rate.events, rate.per_ns))


def format_stage_rate(rate: StageRate) -> str:
    """A text that parse_stage_rate turns into the same rate."""
    if rate.is_relative:
        scaled = rate.value * 10**9
        text = f"{int(scaled) // 10**9}.{int(scaled) % 10**9:09d}"
        return f"{text.rstrip('0').rstrip('.')}x"
    if not rate.value:
        return "0/s"
    return format_rate(Rate(rate.value.numerator, rate.value.denominator))


@dataclass(frozen=True)
class RateStep:
    """A rate and how long it holds; 0 for the last one of a table: from then on."""

    rate: StageRate
    duration_ns: int


@dataclass(frozen=True)
class RateTable:
    """What a file of rates says."""

    steps: tuple[RateStep, ...]
    #: Begin anew at the end, instead of holding the last rate.
    repeats: bool = False

    @property
    def is_relative(self) -> bool:
        return any(step.rate.is_relative for step in self.steps)


def parse_rate_file(text: str, name: str) -> RateTable:
    """The rates of a file's text, in either format; `name` is for the faults."""
    lines = text.splitlines()
    if any(line.strip() == _END_HEADER for line in lines):
        return _variable_rate_data(lines, name)
    return _table(text, name)


def _at(name: str, line: int, fault: Fault) -> Fault:
    return Fault(f"{name!r} line {line}: {fault.reason}", fault.hint)


def _table(text: str, name: str) -> RateTable:
    points: list[tuple[int, StageRate]] = []
    is_first = True
    for number, line in _contents(text.splitlines()):
        cells = [cell.strip().strip('"') for cell in line.split(",")]
        was_first, is_first = is_first, False
        if was_first and not cells[0][:1].isdigit():
            continue  # the header
        try:
            if len(cells) != 2:
                raise Fault(f"expected a time and a rate, got {got(line)}")
            points.append((_time(cells[0]), _table_rate(cells[1])))
            if len(points) > MAX_STEPS:
                raise Fault(f"expected at most {MAX_STEPS} rates, got more")
            if len(points) > 1 and points[-2][0] >= points[-1][0]:
                raise Fault(
                    f"expected times that rise, got {got(cells[0])} after a later one"
                )
        except Fault as fault:
            raise _at(name, number, fault) from None
    if not points:
        raise Fault(f"{name!r}: expected rows of time and rate, got none")
    if points[0][0]:
        raise Fault(
            f"{name!r}: expected the first time to be 0, "
            f"got {format_duration(points[0][0])}",
            "times count from the beginning of the stages",
        )
    ends = [time_ns for time_ns, _ in points[1:]]
    return RateTable(
        tuple(
            RateStep(rate, end_ns - start_ns)
            for (start_ns, rate), end_ns in zip(
                points, [*ends, points[-1][0]], strict=True
            )
        )
    )


def _time(cell: str) -> int:
    return parse_duration(f"{cell}s" if _NUMBER.fullmatch(cell) else cell)


def _table_rate(cell: str) -> StageRate:
    return parse_stage_rate(f"{cell}/s" if _NUMBER.fullmatch(cell) else cell)


def _variable_rate_data(lines: list[str], name: str) -> RateTable:
    header: dict[str, str] = {}
    steps: list[RateStep] = []
    is_in_header = True
    for number, line in _contents(lines):
        try:
            if not is_in_header:
                steps.append(_step(line, header))
                if len(steps) > MAX_STEPS:
                    raise Fault(f"expected at most {MAX_STEPS} rates, got more")
            elif line == _END_HEADER:
                is_in_header = False
                _check_header(header)
            else:
                key, value = _header(line)
                header[key] = value
        except Fault as fault:
            raise _at(name, number, fault) from None
    if not steps:
        raise Fault(f"{name!r}: expected rates after {_END_HEADER!r}, got none")
    repeats = header.get("repeat") == "true"
    if repeats and sum(step.duration_ns for step in steps) < _LEAST_STEP_NS * len(
        steps
    ):
        raise Fault(
            f"{name!r}: expected rates of at least 100ms on average, as they repeat",
            "a long run of shorter ones would not fit in memory",
        )
    return RateTable(tuple(steps), repeats)


def _contents(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Number and text of the lines that say something."""
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        if text:
            yield number, text


def _header(line: str) -> tuple[str, str]:
    key, equals, value = line.partition("=")
    key, value = key.strip().lower(), value.strip()
    if not equals:
        raise expected("name = value", line, f"{_END_HEADER!r} ends the header")
    if key not in _HEADERS:
        raise Fault(f"unknown header {key!r}", did_you_mean(key, _HEADERS, "headers"))
    if key == "repeat" and value.lower() not in ("true", "false"):
        raise expected("repeat = true or false", value)
    return key, value.lower()


def _check_header(header: dict[str, str]) -> None:
    if header.get("format") != "rate-and-duration":
        raise expected(
            "the header format = rate-and-duration", header.get("format"), "add it"
        )
    if "default-duration" in header:
        _worded_duration(header["default-duration"])


def _step(line: str, header: dict[str, str]) -> RateStep:
    rate, comma, duration = (part.strip() for part in line.partition(","))
    if not comma and "default-duration" not in header:
        raise expected(
            "a rate and its duration", line, "or add the header default-duration"
        )
    length_ns = _worded_duration(duration if comma else header["default-duration"])
    return RateStep(_table_rate(rate), length_ns)


def _worded_duration(text: str) -> int:
    match = _WORDED.fullmatch(text)
    unit = _UNIT_OF.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise expected(
            "a duration such as '10 seconds'", text, "units: ns us ms s m h d"
        )
    duration_ns = parse_duration(f"{match[1]}{unit}")
    if not duration_ns:
        raise expected("a duration above zero", text)
    return duration_ns
