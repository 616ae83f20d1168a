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
    PERCENTILES,
    FigureName,
    Threshold,
    parse_name,
    samples_needed,
)
from ldapslam.reports.distribution import Distribution
from ldapslam.reports.document import (
    BAD,
    CAUTION,
    GOOD,
    MUTED,
    Cell,
    Field,
    Row,
    number,
)

#: Narrow no-break space: separates thousands without a line break.
THIN = "\u202f"
NOT_AVAILABLE = "n/a"
NOTHING = "–"
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


def figure_text(value: float) -> str:
    """Three digits behind the point, of small values three that are not 0."""
    if float(value).is_integer() or not math.isfinite(value):
        return decimal(value, 0)
    if abs(value) >= 100:
        return decimal(value, 1)
    return decimal(value, max(3, 2 - math.floor(math.log10(abs(value)))))


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


def figure_cell(name: FigureName, one: HasValue | None) -> Cell:
    """n/a, with what it needs, where there is no value."""
    if one is None or one.value is None:
        return Cell(value_text(name, None), MUTED, getattr(one, "needs", ""))
    return Cell(value_text(name, one.value))


def figure_columns(
    names: Iterable[FigureName],
    read: Callable[[Row, FigureName], HasValue | None],
) -> list[Field[Row]]:
    """A column for each figure, with what is read of the row."""

    def column(name: FigureName) -> Field[Row]:
        return number(name.heading, lambda row: figure_cell(name, read(row, name)))

    return list(map(column, names))


_LIMIT_UNIT = re.compile(r"[<>]=?\s*[\d.]+(ns|us|ms|s)\b", re.ASCII)


def limit_text(threshold: Threshold, value: float | None) -> str:
    """Return a value with its unit, which of times is that of the threshold's limit."""
    if value is None:
        return "no data"
    match threshold.limit_unit:
        case "us" | "s" as unit:
            found = _LIMIT_UNIT.search(threshold.expression)
            shown = found[1] if found else "s"
            one = units.DURATION_UNITS[shown]
            shown_value = value * units.DURATION_UNITS[unit] / one
            digits = 6 if shown == "s" and 0 < abs(shown_value) < 1 else 3
            return f"{shown_value:,.{digits}f}{shown}"
        case "per_s":
            return f"{value:,.1f}/s"
        case "bytes" | "bytes_per_s" as unit:
            per = unit.removeprefix("bytes").replace("_per_", "/")
            return f"{units.format_size(round(value))}{per}"
        case "count":
            return f"{value:,.0f}"
    is_share = threshold.limit_unit == "share" or "%" in threshold.expression
    return f"{value * 100:.4g}%" if is_share else f"{value:,.4g}"


def milliseconds(value_us: float | None, missing: str = NOT_AVAILABLE) -> str:
    """A duration in ms to the us, which is what histograms resolve."""
    if value_us is None:
        return missing
    return f"<{THIN}0.001" if 0 < value_us < 1 else decimal(value_us / 1000, 3)


def signed(value: float, digits: int = 1) -> str:
    """With its sign, but for zero."""
    text = decimal(abs(value), digits)
    if not any(digit in text for digit in "123456789"):
        return text
    return f"{'+' if value > 0 else MINUS}{text}"


def percent(share: float | None, digits: int = 2) -> str:
    return NOTHING if share is None else decimal(share * 100, digits)


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

_NO_ANSWER = (
    f"{NOT_AVAILABLE} also where the statistic depends on requests that had no answer: "
    "they rank above every value."
)


#: A row of a table of times ends in the times.
TimesRow = tuple[Any, ...]


def times_columns(names: Iterable[str] = SHOWN) -> list[Field[TimesRow]]:
    """Return the columns of a table of times, without the columns of names."""

    def statistic(name: str) -> Field[TimesRow]:
        title = parse_name(name).words
        return number(title, lambda row: statistic_cell(row[-1], name))

    counts: Field[TimesRow] = number("n", lambda row: count(row[-1].count))
    return [counts, *map(statistic, ("mean", *names, "max"))]


def statistic_cell(times: Distribution, name: str) -> Cell:
    """One of STATISTICS."""
    value_us = statistic_us(times, name)
    if value_us is not None:
        return Cell(milliseconds(value_us))
    if not times.sample:
        return Cell(NOTHING, MUTED, "no values")
    if name in PERCENTILES or times.unanswered or times.overflow:
        return Cell(NOT_AVAILABLE, MUTED, grouped(f"needs {times.needs(name)}"))
    return Cell(NOTHING, MUTED)


def statistic_us(times: Distribution, name: str) -> float | None:
    """The same as a number."""
    if name in PERCENTILES:
        return times.percentiles_us[name]
    value_us: float | None = getattr(times, f"{name}_us")
    return value_us


def missing(
    shown: Sequence[Distribution], names: Sequence[str] = SHOWN
) -> tuple[str, ...]:
    """What the n/a of a table of these percentiles mean."""
    notes = []
    needed = {name: samples_needed(PERCENTILES[name]) for name in names}
    if any(0 < times.sample < max(needed.values()) for times in shown):
        each = (
            f"{name.replace('_', '.')} n ≥ {count(n)}" for name, n in needed.items()
        )
        notes.append(
            f"{NOT_AVAILABLE}: too few values. A percentile needs ten values above it: "
            f"{', '.join(each)}."
        )
    if any(times.unanswered for times in shown):
        notes.append(_NO_ANSWER)
    return tuple(notes)


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
