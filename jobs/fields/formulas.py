# SPDX-License-Identifier: Apache-2.0
"""Thresholds on figures of servers and hosts, and on arithmetic between figures. Pure.

    host(replica).cpu / host(supplier).cpu < 2
    process(supplier).cpu / throughput < 200us

A formula's terms are computed in the units s, byte and their powers; counts and shares
have none. What a monitor reads has its unit in the run, so a limit of another kind is
found there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeAlias

from ldapslam.base import units
from ldapslam.base.fault import Fault, did_you_mean, got
from ldapslam.jobs.fields.thresholds import (
    COMPARISONS,
    Subject,
    Threshold,
    format_time,
    held,
    parse_subject,
    parse_threshold,
    parts_of,
    wrong,
)

#: Requests that servers count by themselves.
COUNTED_KINDS = (
    "search",
    "compare",
    "bind",
    "add",
    "modify",
    "delete",
    "modify_dn",
    "extended",
    "unbind",
    "abandon",
)

NOTATION = f"""\
    term comparison value
    term operator term … comparison value

    host(supplier).cpu < 80%
    directory(replica).newest_change_age.max < 2s
    host(replica).cpu / host(supplier).cpu < 2
    process(supplier).cpu / throughput < 200us
    server.search / agents.search < 1.01
    replication.after < 30s

Operators are +, -, * and /, with spaces around them; * and / go first. A term
is a number, or one of:

    [stream.][operation.]metric[.statistic]
                              as above; of several operations, rates are added
    directory(ROLE).METRIC    what the job's monitors read in the measure phase
    host(ROLE).METRIC         of each server of the role: METRIC as in the
    process(ROLE).METRIC      report, with .mean (without a statistic), .min or
                              .max; a counter's is its rate. `cpu` is the share
                              of the host's CPUs that were busy; of a process,
                              the number of CPUs it used
    server.KIND, agents.KIND  requests that servers have counted, and that
                              agents have sent, in the whole run; KIND is one of
                              {", ".join(COUNTED_KINDS[:5])},
                              {", ".join(COUNTED_KINDS[5:])}
    replication.after         from the end of the load until all servers were
                              equal (`verify`)

    host(supplier).cpu < 95% for 30s

`for`, after one METRIC without a statistic: it is missed when reading after
reading of the measure phase misses it for so long.

A role of several servers meets it when each of them does. `throughput` is the
job's, on all of its servers: process(supplier).cpu / throughput is the CPU time
of an operation only where all load is on that one server. With several, divide
by what the server counts, the readings of monitors among them:
process(supplier).cpu / directory(supplier).operations_completed < 200us. The
value is a number, a percentage, a duration, a rate, a size, or a size per
second: 10MB/s.
What could not be read is never met.
"""


class Unit(NamedTuple):
    """s ** seconds * byte ** bytes."""

    seconds: int = 0
    bytes: int = 0

    def times(self, other: Unit, sign: int = 1) -> Unit:
        """Of a product; of a quotient with the sign -1."""
        return Unit(
            self.seconds + sign * other.seconds, self.bytes + sign * other.bytes
        )


NONE, SECONDS, RATE, BYTES = Unit(), Unit(1), Unit(-1), Unit(0, 1)
_UNITS = {"us": SECONDS, "per_s": RATE, "share": NONE}
_NAMES = {
    NONE: "a number or a share",
    SECONDS: "a time",
    RATE: "a rate",
    BYTES: "a size",
    Unit(-1, 1): "a size per second",
}
#: As in result.json.
_SHORT = {
    NONE: "1",
    SECONDS: "s",
    RATE: "per_s",
    BYTES: "bytes",
    Unit(-1, 1): "bytes_per_s",
}
#: Statistic -> name in MetricSummary.
READING_STATISTICS = {"mean": "mean", "min": "lowest", "max": "highest"}


@dataclass(frozen=True)
class Figure:
    """A figure of operations or streams."""

    about: Subject

    @property
    def unit(self) -> Unit:
        return _UNITS[self.about.unit]


@dataclass(frozen=True)
class Reading:
    """What monitors read of each server of a role."""

    kind: str
    role: str
    metric: str
    statistic: str
    #: Known in the run.
    unit: ClassVar[None] = None


@dataclass(frozen=True)
class Requests:
    """Requests of one kind as 'server' or 'agents' count them."""

    side: str
    kind: str
    unit: ClassVar[Unit] = NONE


@dataclass(frozen=True)
class Convergence:
    """From the end of the load until all servers were equal."""

    unit: ClassVar[Unit] = SECONDS


@dataclass(frozen=True)
class Number:
    value: float
    unit: ClassVar[Unit] = NONE


Term: TypeAlias = Figure | Reading | Requests | Convergence | Number


@dataclass(frozen=True, kw_only=True)
class Formula:
    """One parsed threshold that is no plain one."""

    expression: str
    #: Terms, and the operators between them.
    terms: tuple[Term, ...]
    operators: tuple[str, ...]
    comparison: str
    limit: float
    #: The limit's.
    unit: Unit
    #: Of one Reading: missed only when one after another misses it for so long; 0: it
    #: is about the measure phase as a whole.
    hold_ns: int = 0

    def holds(self, value: float) -> bool:
        """Does a value, in `unit`, meet the limit?"""
        return COMPARISONS[self.comparison](value, self.limit)

    @property
    def unit_name(self) -> str:
        """Of values and the limit, for programs."""
        return _SHORT.get(self.unit, "")

    def format(self, value: float | None) -> str:
        """A value with its unit, for people."""
        if value is None:
            return "no data"
        if self.unit == SECONDS:
            return format_time(value, self.expression)
        if self.unit == RATE:
            return f"{value:,.1f}/s"
        if self.unit.bytes:
            per = "/s" if self.unit.seconds else ""
            return f"{units.format_size(round(value))}{per}"
        return f"{value * 100:.4g}%" if "%" in self.expression else f"{value:,.4g}"


Criterion: TypeAlias = Threshold | Formula

_TERM = re.compile(r"(?:[^\s\[\]()]+|\[[^\]]*\]|\([^)]*\))+")
_READING = re.compile(r"(\w+)\(([^)]*)\)\.(\w+(?:\[[^\]]*\])?)(?:\.(\w+))?", re.ASCII)
_REQUESTS = re.compile(r"(server|agents)\.(\w+)", re.ASCII)
_NUMBER = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
_OPERATORS = ("+", "-", "*", "/")
_KINDS = ("directory", "host", "process")


def parse_criterion(text: str) -> Criterion:
    """The threshold or formula of a text; a Fault says which part is wrong."""
    about, comparison, value = parts_of(text)
    words = _TERM.findall(about)
    is_all = "".join("".join(words).split()) == "".join(about.split())
    if not is_all or any(word.startswith("(") for word in words):
        raise wrong(text, "parentheses are for roles alone: host(supplier).cpu")
    if len(words) == 1 and not _is_of_formulas(words[0]):
        return parse_threshold(text)
    if not set(words) & set(_OPERATORS) and not any(map(_is_of_formulas, words)):
        return parse_threshold(text)  # with `per`
    try:
        return _formula(text, words, comparison, value)
    except Fault as fault:
        hint = fault.hint or "such as 'host(replica).cpu / host(supplier).cpu < 2'"
        raise wrong(text, fault.reason, hint) from fault


def subjects_of(criterion: Criterion) -> Iterator[Subject]:
    """The figures of operations and streams that it is about."""
    if isinstance(criterion, Threshold):
        yield criterion
        return
    for term in criterion.terms:
        if isinstance(term, Figure):
            yield term.about


def roles_of(criterion: Criterion) -> Iterator[tuple[str, str]]:
    """Kind and role of the monitors that it needs."""
    if isinstance(criterion, Formula):
        for term in criterion.terms:
            if isinstance(term, Reading):
                yield term.kind, term.role


def needs_of(criterion: Criterion) -> set[str]:
    """'directory' where it needs what servers count, and 'replication' its check."""
    if isinstance(criterion, Threshold):
        return set()
    found = set()
    for term in criterion.terms:
        if isinstance(term, Requests) and term.side == "server":
            found.add("directory")
        if isinstance(term, Convergence):
            found.add("replication")
    return found


def name_of(unit: Unit) -> str:
    return _NAMES.get(unit, "a figure of a unit that has no name")


def combined(units_: Sequence[Unit], operators: Sequence[str]) -> Unit:
    """The unit of terms with these units; Fault."""
    sums = [units_[0]]
    for operator, unit in zip(operators, units_[1:], strict=True):
        if operator in "*/":
            sums[-1] = sums[-1].times(unit, 1 if operator == "*" else -1)
        else:
            sums.append(unit)
    if len(set(sums)) > 1:
        names = " and ".join(dict.fromkeys(map(name_of, sums)))
        raise Fault(f"{names} cannot be added up")
    return sums[0]


def _is_of_formulas(word: str) -> bool:
    is_counted = _REQUESTS.fullmatch(word) and word.partition(".")[2] in COUNTED_KINDS
    is_reading = word.partition("(")[0] in _KINDS or bool(_READING.fullmatch(word))
    return is_reading or word == "replication.after" or bool(is_counted)


def _formula(text: str, words: Sequence[str], comparison: str, value: str) -> Formula:
    if "per" in words:
        raise Fault("`per` is for figures of operations alone")
    if aborts := re.search(r"\s*,\s*abort\s*$", value):
        hint = f"write {text.replace(aborts[0], '').strip()!r}"
        raise Fault("`abort` is for figures of operations alone", hint)
    value, hold_ns, _ = held(value)
    operators = tuple(words[1::2])
    if not len(words) % 2 or any(one not in _OPERATORS for one in operators):
        raise Fault("expected terms with an operator between each two of them")
    terms = tuple(map(_term, words[::2]))
    if all(isinstance(one, Number) for one in terms):
        raise Fault("it names no figure")
    if hold_ns and not _is_plain_reading(terms):
        raise Fault(
            "`for` is for figures of operations, or one reading without a statistic",
            "leave `for` out: it is about the whole measure phase then",
        )
    limit, unit = _quantity(value)
    known = [one.unit for one in terms]
    if None not in known:
        found = combined([one for one in known if one is not None], operators)
        if found != unit:
            raise Fault(
                f"it is {name_of(found)}, and {got(value)} is {name_of(unit)}",
                f"compare it with {name_of(found)}",
            )
    return Formula(
        expression=text.strip(),
        terms=terms,
        operators=operators,
        comparison=comparison,
        limit=limit,
        unit=unit,
        hold_ns=hold_ns,
    )


def _is_plain_reading(terms: Sequence[Term]) -> bool:
    first = terms[0]
    return len(terms) == 1 and isinstance(first, Reading) and first.statistic == "mean"


def _term(word: str) -> Term:
    if _NUMBER.fullmatch(word):
        return Number(float(word))
    if word == "replication.after":
        return Convergence()
    if (found := _REQUESTS.fullmatch(word)) and found[2] in COUNTED_KINDS:
        return Requests(found[1], found[2])
    if not _is_of_formulas(word):
        return Figure(parse_subject(word))
    reading = _READING.fullmatch(word)
    if reading is None:
        raise Fault(
            f"{got(word)} does not name what is read of a role",
            "such as 'directory(supplier).threads_active.max'",
        )
    kind, role, metric, statistic = reading.groups(default="mean")
    if kind not in _KINDS:
        raise Fault(f"unknown monitor {kind!r}", did_you_mean(kind, _KINDS, "monitors"))
    if statistic not in READING_STATISTICS:
        hint = did_you_mean(statistic, READING_STATISTICS, "statistics")
        raise Fault(f"unknown statistic {statistic!r}", hint)
    return Reading(kind, role, metric, statistic)


def _quantity(text: str) -> tuple[float, Unit]:
    """A value in s, bytes or their powers; Fault."""
    if _NUMBER.fullmatch(text):
        return float(text), NONE
    if text.endswith("%"):
        return units.parse_ratio(text), NONE
    size, _, per = text.partition("/")
    if size.endswith("B"):
        if per not in ("", "s"):
            raise Fault(f"{got(text)} is not a size per second", "such as 10MB/s")
        return float(units.parse_size(size)), Unit(-1, 1) if per else BYTES
    if per:
        return units.parse_rate(text).per_s, RATE
    return units.parse_duration(text) / units.NS_PER_S, SECONDS
