# SPDX-License-Identifier: Apache-2.0
"""Values, times and facts as people read them.

Numbers are grouped by narrow spaces, units left to the headers; a time that is missing
says why; facts of manifests become names and texts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

from ldapslam.base import units
from ldapslam.base.inert import inert
from ldapslam.jobs.fields.thresholds import (
    FigureName,
    Threshold,
    parse_name,
)
from ldapslam.reports.distribution import Distribution
from ldapslam.reports.document import (
    BAD,
    CAUTION,
    GOOD,
    MUTED,
    NOT_AVAILABLE,
    NOTHING,
    Cell,
    Field,
    Row,
    format_figure,
    no_value,
    number,
)

#: Narrow no-break space: separates thousands without a line break.
THIN = "\u202f"
#: Changes above this ratio are shown as a factor, not in per cent.
_LARGEST_PERCENT = 3.0
_LEAST_FACTOR, _MOST_FACTOR = 0.001, 1e6
MINUS = "\N{MINUS SIGN}"

_COMMA_GROUP = re.compile(r"(?<=\d),(?=\d{3})")
_THIN_GROUP = re.compile(rf"(?<=\d){THIN}(?=\d{{3}})")


def count(value: int | None) -> str:
    return NOTHING if value is None else f"{value:,}".replace(",", THIN)


def decimal(value: float | None, digits: int = 1) -> str:
    return NOTHING if value is None else f"{value:,.{digits}f}".replace(",", THIN)


def figure_text(value: float | None, missing: str = NOTHING) -> str:
    """A measured value, with the digits that it has everywhere."""
    return missing if value is None else grouped(format_figure(value))


def value_text(name: FigureName, value: float | None, *, has_unit: bool = False) -> str:
    """Return a figure's value in the unit of its heading."""
    if value is None:
        return NOT_AVAILABLE
    unit = name.shown_in
    space = "" if unit.shown in ("/s", "%") else " "
    return figure_text(value * unit.factor) + f"{space}{unit.shown}" * has_unit


class HasValue(Protocol):
    """A figure, or the mean of several."""

    @property
    def value(self) -> float | None: ...


def figure_cell(
    name: FigureName, one: HasValue | None, *, has_unit: bool = False
) -> Cell:
    """Return the cell of a figure, or of what its value needs."""
    value, needs = (one.value if one else None), getattr(one, "needs", "")
    return value_cell(name, value, needs, has_unit=has_unit)


def value_cell(
    name: FigureName, value: float | None, needs: str, *, has_unit: bool = False
) -> Cell:
    if value is None:
        return no_value(grouped(needs))
    return Cell(value_text(name, value, has_unit=has_unit))


def figure_columns(
    names: Iterable[FigureName],
    read: Callable[[Row, FigureName], HasValue | None],
) -> list[Field[Row]]:
    """A column for each figure, with what is read of the row."""

    def column(name: FigureName) -> Field[Row]:
        return number(name.heading, lambda row: figure_cell(name, read(row, name)))

    return list(map(column, names))


def limit_text(threshold: Threshold, value: float | None) -> str:
    """Return a value in the unit in which the threshold's limit is written."""
    if value is None:
        return "no data"
    factor, unit = _of_limit(threshold)
    return format_figure(value * factor, threshold.limit * factor) + unit


def _of_limit(threshold: Threshold) -> tuple[float, str]:
    """Return the factor to the unit of the limit, and that unit."""
    written = threshold.written
    match threshold.limit_unit:
        case "us" | "s" as unit:
            shown = written if written in ("ns", "us", "ms") else "s"
            factor = units.DURATION_UNITS[unit] / units.DURATION_UNITS[shown]
            return factor, f" {shown}"
        case "bytes" | "bytes_per_s" as unit:
            per = unit.removeprefix("bytes").replace("_per_", "/")
            return 1 / units.SIZE_UNITS[written], f" {written}{per}"
        case "per_s":
            return 1, "/s"
    return (100, "%") if written == "%" else (1, "")


def milliseconds(value_us: float | None) -> str:
    """A duration in ms; histograms resolve 1 us."""
    if value_us is not None and 0 < value_us < 1:
        return f"<{THIN}0.001"
    return figure_text(value_us and value_us / 1000)


def signed(value: float, digits: int = 1) -> str:
    """With its sign, but for zero."""
    text = decimal(abs(value), digits)
    if not any(digit in text for digit in "123456789"):
        return text
    return f"{'+' if value > 0 else MINUS}{text}"


def percent(share: float | None, digits: int | None = None) -> str:
    """In %; `digits` of shares that no other output shows."""
    value = None if share is None else share * 100
    return figure_text(value) if digits is None else decimal(value, digits)


def changes(
    values: Sequence[float], digits: int, *, is_ratio: bool
) -> tuple[str, list[str]]:
    """Changes of one figure, such as a value and the ends of its interval, and the form
    of one that has its unit: `+4.2` and `{} %`, `800` and `× {}` where a ratio is above
    _LARGEST_PERCENT, `+0.100` and `{} points` of a share."""
    if is_ratio and max(values) > _LARGEST_PERCENT:
        return "× {}", [_factor(one) for one in values]
    shift, form = (1, "{} %") if is_ratio else (0, "{} points")
    return form, [f"{(one - shift) * 100:+.{digits}f}" for one in values]


def _factor(ratio: float) -> str:
    """To three digits, and all before the point; an end that is nowhere has a bound."""
    if ratio < _LEAST_FACTOR:
        return f"<{_LEAST_FACTOR}"
    if ratio > _MOST_FACTOR:
        return f">{decimal(_MOST_FACTOR, 0)}"
    return decimal(ratio, max(0, 2 - math.floor(math.log10(ratio))))


def number_of(number: int, noun: str) -> str:
    """`1 agent`, `2 agents`."""
    return f"{count(number)} {noun}{'s' * (number != 1)}"


#: INVALID says nothing bad about the directory.
_VERDICT_TONES = {"PASS": GOOD, "FAIL": BAD, "INVALID": CAUTION, "": MUTED}


def verdict_cell(verdict: str) -> Cell:
    return Cell(verdict or "not run", _VERDICT_TONES[verdict])


def counted(value: int) -> Cell:
    """A number that should be zero."""
    return Cell(count(value), BAD if value else "")


def grouped(text: str) -> str:
    """A text with the commas of its numbers made narrow spaces."""
    return _COMMA_GROUP.sub(THIN, text)


def plain(text: str) -> str:
    """For terminals and logs: commas between digits, else ordinary spaces."""
    return inert(_THIN_GROUP.sub(",", text).replace(THIN, " "))


def minute_utc(time_utc: str) -> str:
    """`2026-11-26 00:25`, of a time as results have it."""
    return time_utc[:16].replace("T", " ")


def time_of_day(start_utc: str, after_s: float) -> str:
    """So many seconds after a time of day, to the second."""
    moment = datetime.fromisoformat(start_utc) + timedelta(seconds=after_s)
    return moment.strftime("%Y-%m-%d %H:%M:%S")


def seconds(value: float | None) -> str:
    """A length of time in words: `1 min 30 s`, `60 s`, `12 h 0 min`."""
    if value is None:
        return NOTHING
    if value < 120:
        return f"{value:.3g} s" if value < 10 else f"{value:.0f} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 120:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


#: Percentiles in the tables of times.
SHOWN = ("p50", "p90", "p95", "p99", "p99_9")
#: In those of operations that have enough requests for it.
RARE = "p99_99"

#: A row of a table of times ends in the times.
TimesRow = tuple[Any, ...]


def times_columns(names: Iterable[str] = SHOWN) -> list[Field[TimesRow]]:
    """Return the columns of a table of times, without the columns of names."""

    def statistic(name: str) -> Field[TimesRow]:
        title = parse_name(name).words
        return number(title, lambda row: statistic_cell(row[-1], name))

    counts: Field[TimesRow] = number("n", lambda row: count(row[-1].count))
    return [counts, *map(statistic, ("mean", *names, "max"))]


def statistic_cell(times: Distribution, name: str, unit: str = "") -> Cell:
    """One of STATISTICS."""
    known = times.percentiles_us
    value_us = known[name] if name in known else getattr(times, f"{name}_us")
    if value_us is not None:
        return Cell(milliseconds(value_us) + unit)
    return no_value(grouped(times.needs(name)))


def flattened(
    facts: Mapping[str, object], prefix: str = ""
) -> Iterator[tuple[str, str]]:
    """Each one, with the names of those it is in."""
    for key, value in facts.items():
        name = f"{prefix}{key}".replace("_", " ")
        if isinstance(value, Mapping):
            yield from flattened(value, f"{name} · ")
        elif isinstance(value, list) and any(isinstance(one, Mapping) for one in value):
            numbered = {str(number): one for number, one in enumerate(value, 1)}
            yield from flattened(numbered, f"{name} · ")
        else:
            yield name, _fact(value)


def compared(facts: Mapping[str, Mapping[str, object]]) -> dict[str, dict[str, str]]:
    """Name -> owner -> text, of the names that any owner has."""
    flat = {whose: dict(flattened(of)) for whose, of in facts.items()}
    names = dict.fromkeys(name for of in flat.values() for name in of)
    found = {
        name: {whose: of.get(name, NOTHING) for whose, of in flat.items()}
        for name in names
    }
    return {name: of for name, of in found.items() if set(of.values()) != {NOTHING}}


def _fact(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(_fact(one) for one in value) or NOTHING
    return NOTHING if value is None or value == "" else str(value)
