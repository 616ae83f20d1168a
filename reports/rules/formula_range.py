# SPDX-License-Identifier: Apache-2.0
"""What a formula of a threshold may be, for each server of its roles. Pure.

Each term has a range: the 95 % confidence interval of a figure, and what missing
intervals and late sends leave open; the lowest and the highest of what a monitor read,
where a mean of few readings is not known better. A counter's mean is exact: what it
rose by. The range of the whole is that of the ends of its terms,

    [a, b] + [c, d] = [a + c, b + d]      [a, b] - [c, d] = [a - d, b - c]
    [a, b] * [c, d], [a, b] / [c, d]: the ends of all four products or quotients.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ldapslam.base.fault import Fault
from ldapslam.jobs.fields.formulas import (
    BYTES,
    NONE,
    READING_STATISTICS,
    SECONDS,
    Convergence,
    Figure,
    Formula,
    Number,
    Reading,
    Requests,
    Term,
    Unit,
    combined,
    name_of,
)
from ldapslam.jobs.fields.thresholds import (
    PERCENTILES,
    Subject,
    figure,
    matching,
    samples_needed,
)
from ldapslam.reports.collect.telemetry import (
    MetricSummary,
    MonitorSummary,
    Stretch,
    cpu_seconds,
)
from ldapslam.reports.collect.timeline import NS_PER_S
from ldapslam.reports.collect.totals import UNANSWERED_METRICS
from ldapslam.reports.rules.evidence import Evidence
from ldapslam.reports.rules.operation_range import batches_of, rate_interval
from ldapslam.reports.uncertainty import BATCHES, Estimate, ratio_interval

#: Combinations of servers that are looked at.
_MOST = 10_000
_SI = {"us": 1e-6, "per_s": 1.0, "share": 1.0}


class Evaluated(NamedTuple):
    """A formula with one server of each role."""

    #: The servers, for people; empty where it names no role.
    of: str
    #: In the formula's unit; None: there is none, as `problem` says.
    value: float | None
    low: float = 0.0
    high: float = 0.0
    problem: str = ""


class _Known(NamedTuple):
    range: Estimate
    unit: Unit


class _Missing(Exception):
    """There is no value; says why."""


def evaluations(
    formula: Formula,
    evidence: Evidence,
    statistics: Mapping[str, Any],
    *,
    is_sound: bool,
) -> list[Evaluated]:
    """One for each combination of the roles' servers; `is_sound`: no rule about the
    generator fails. Else figures of operations may be anything."""
    found = []
    for servers in itertools.islice(_combinations(formula, evidence), _MOST):
        of = ", ".join(dict.fromkeys(servers.values()))
        terms = _Terms(evidence, statistics, servers, is_sound=is_sound)
        try:
            known = [terms.known(one) for one in formula.terms]
            unit = combined([one.unit for one in known], formula.operators)
            if unit != formula.unit:
                raise _Missing(_other_unit(unit, formula))
            result = _computed([one.range for one in known], formula.operators)
            if any(map(math.isnan, result)):
                raise _Missing("times in it are above every time")
            found.append(Evaluated(of, *result))
        except (_Missing, Fault) as error:
            found.append(Evaluated(of, None, problem=str(error)))
    return found


def stretches(
    formula: Formula, evidence: Evidence
) -> Iterator[tuple[str, Stretch | str]]:
    """Of a formula with `for`: each server of its role, and for how long its readings
    miss it, or why that is not known."""
    (term,) = formula.terms
    assert isinstance(term, Reading), "no other has `for`"
    for servers in _combinations(formula, evidence):
        uri = servers[term.role]
        try:
            monitors = _monitors_of(term, uri, evidence)
            unit = _unit_read(term, monitors)
            if unit != formula.unit:
                raise _Missing(_other_unit(unit, formula))
            found = [one.stretches.get(formula.expression) for one in monitors]
            if len(found) > 1:
                raise _Missing(f"{len(found)} processes serve it, each by itself")
            yield uri, found[0] or f"{term.metric} was not read in the measure phase"
        except _Missing as missing:
            yield uri, str(missing)


def _combinations(formula: Formula, evidence: Evidence) -> Iterator[dict[str, str]]:
    """Role -> one of its servers."""
    servers: dict[str, dict[str, None]] = {}
    for term in formula.terms:
        if isinstance(term, Reading):
            uris = servers.setdefault(term.role, {})
            for monitor in evidence.monitors:
                serves = monitor.facts.get("serves") or {}
                uris.update(dict.fromkeys(serves.get(term.role, ())))
    for chosen in itertools.product(*(uris or {"": None} for uris in servers.values())):
        yield dict(zip(servers, chosen, strict=True))


def _computed(ranges: Sequence[Estimate], operators: Sequence[str]) -> Estimate:
    sums, signs = [ranges[0]], [1]
    for operator, one in zip(operators, ranges[1:], strict=True):
        if operator in "*/":
            sums[-1] = _product(sums[-1], one, is_quotient=operator == "/")
        else:
            sums.append(one)
            signs.append(1 if operator == "+" else -1)
    value = low = high = 0.0
    for sign, one in zip(signs, sums, strict=True):
        value += sign * one.value
        low += one.low if sign > 0 else -one.high
        high += one.high if sign > 0 else -one.low
    return Estimate(value, low, high)


def _product(one: Estimate, other: Estimate, *, is_quotient: bool) -> Estimate:
    if is_quotient:
        if other.low <= 0 <= other.high:
            if not other.value:
                raise _Missing("it divides by zero")
            return Estimate(one.value / other.value, -math.inf, math.inf)
        other = Estimate(1 / other.value, 1 / other.high, 1 / other.low)
    # 0 times infinity: what is nothing is nothing
    ends = [
        a * b if a and b else 0.0
        for a in (one.low, one.high)
        for b in (other.low, other.high)
    ]
    return Estimate(one.value * other.value, min(ends), max(ends))


class _Terms:
    """The terms of one run, with one server of each role."""

    def __init__(
        self,
        evidence: Evidence,
        statistics: Mapping[str, Any],
        servers: Mapping[str, str],
        *,
        is_sound: bool,
    ) -> None:
        self._evidence = evidence
        self._statistics = statistics
        self._servers = servers
        self._is_sound = is_sound

    def known(self, term: Term) -> _Known:
        match term:
            case Number(value):
                return _Known(Estimate(value, value, value), NONE)
            case Figure(about):
                return _Known(self._figure(about), term.unit)
            case Requests(side, kind):
                count = requests_of(self._statistics, side, kind)
                if count is None:
                    raise _Missing(f"the number of {kind} requests is not known")
                return _Known(Estimate(count, count, count), NONE)
            case Convergence():
                return _Known(self._convergence(), SECONDS)
            case Reading():
                return self._reading(term)

    def _convergence(self) -> Estimate:
        checked = self._evidence.replication
        if checked is None or checked.unchecked:
            raise _Missing("replication was not checked")
        after_s = checked.found["after_s"]
        if after_s is None:
            # it took at least as long as was waited
            within_s = float(checked.found["within_s"])
            return Estimate(within_s, within_s, math.inf)
        return Estimate(after_s, after_s, after_s)

    # Figures of operations and streams.

    def _figure(self, about: Subject) -> Estimate:
        places = list(matching(about, self._statistics))
        if not places:
            raise _Missing("nothing matches it")
        if about.unit != "per_s" and len(places) > 1:
            raise _Missing(
                f"{about.metric} is of {len(places)} operations here: name one"
            )
        ranges = [self._one(about, *place) for place in places]
        found = Estimate(*(math.fsum(ends) for ends in zip(*ranges, strict=True)))
        if not self._is_sound:
            return found._replace(low=0.0, high=math.inf)
        return found

    def _one(
        self, about: Subject, stream: str, operation: str, statistics: Mapping[str, Any]
    ) -> Estimate:
        value = figure(about, statistics)
        if value is None and _is_unanswered(about, statistics):
            return Estimate(math.inf, math.inf, math.inf)
        if value is None:
            raise _Missing(f"there is no {about.metric} of {stream}.{operation}")
        value *= _SI[about.unit]
        missing = self._evidence.missing_share
        if about.unit == "per_s":
            key = stream, operation
            totals = self._evidence.collected.operations[key]
            batches = batches_of(totals, self._evidence)
            found = rate_interval(about.metric, value, key, batches, self._evidence)
            lag = self._evidence.loop_share(stream)
            return found._replace(
                low=max(0.0, found.low), high=found.high / (1 - missing) / (1 - lag)
            )
        if about.unit == "share":
            low = value * (1 - missing)
            return Estimate(value, low, low + missing)
        low, high = self._time_range(about, statistics, value)
        return Estimate(value, low, math.inf if missing else high)

    def _time_range(
        self, about: Subject, statistics: Mapping[str, Any], value: float
    ) -> tuple[float, float]:
        times = statistics.get(f"{about.metric}_us") or {}
        known = (times.get("ci95") or {}).get(about.statistic)
        low, high = value, value
        if known is not None:
            low = known[0] * _SI["us"]
            high = math.inf if known[1] is None else known[1] * _SI["us"]
        if about.metric == "response_time":
            # at best, all that was late was the generator's
            service = statistics.get("service_time_us") or {}
            low = min(low, (service.get(about.statistic) or 0.0) * _SI["us"])
        return low, max(high, self._with_failures(about, statistics, times))

    def _with_failures(
        self, about: Subject, statistics: Mapping[str, Any], times: Mapping[str, Any]
    ) -> float:
        """A percentile in which failures and dropped arrivals are above every time: at
        most the next known one above it."""
        outside = sum(statistics.get(name, 0) for name in ("failed", "dropped"))
        p = PERCENTILES.get(about.statistic or "")
        if not outside or p is None or about.metric not in UNANSWERED_METRICS:
            return 0.0
        sample = sum(times.get(name, 0) for name in ("count", "unanswered", "overflow"))
        allowed = (1 - p / 100) * (sample + outside) - outside
        wanted = 100 * (1 - allowed / sample) if sample else 100.0
        for name, one in PERCENTILES.items():
            if one >= wanted and times.get(name) is not None:
                return float(times[name]) * _SI["us"]
        return math.inf

    # What monitors read.

    def _reading(self, term: Reading) -> _Known:
        monitors = _monitors_of(term, self._servers[term.role], self._evidence)
        unit = _unit_read(term, monitors)
        if _is_cpu(term):
            return _Known(self._cpu(term, monitors), unit)
        known = [self._range(_metric(one, term.metric), term) for one in monitors]
        # of several processes of a server, all of them
        total = Estimate(*(math.fsum(ends) for ends in zip(*known, strict=True)))
        return _Known(total, unit)

    def _cpu(self, term: Reading, monitors: Sequence[MonitorSummary]) -> Estimate:
        if term.statistic != "mean":
            raise _Missing("`cpu` has a mean only")
        used = total = 0.0
        for one in monitors:
            busy, every = cpu_seconds(one.means)
            if not every:
                raise _Missing(f"no CPU times were read of {one.name}")
            used += busy
            # a process has no idle time
            total = 1.0 if term.kind == "process" else total + every
        return Estimate(used / total, used / total, used / total)

    def _range(self, one: MetricSummary, term: Reading) -> Estimate:
        value: float | None = getattr(one, READING_STATISTICS[term.statistic])
        if value is None or one.lowest is None or one.highest is None:
            raise _Missing(f"{term.metric} was not read in the measure phase")
        if term.statistic != "mean" or one.metric.kind == "counter":
            return Estimate(value, value, value)
        found = self._mean_interval(one)
        if found is None:
            return Estimate(value, one.lowest, one.highest)
        reach = found.value - found.low
        return Estimate(value, value - reach, value + reach)

    def _mean_interval(self, one: MetricSummary) -> Estimate | None:
        """Of a gauge, by batches of what the charts show."""
        collected = self._evidence.collected
        start_ns, end_ns = collected.measure_start_ns, collected.measure_end_ns
        if start_ns is None or end_ns is None:
            return None
        values = [
            value
            for at_s, value in zip(one.points.at_s, one.points.values, strict=True)
            if value is not None and start_ns <= at_s * NS_PER_S <= end_ns
        ]
        batches = np.array_split(np.array(values), min(BATCHES, max(len(values), 1)))
        return ratio_interval(
            [float(each.sum()) for each in batches], [each.size for each in batches]
        )


def _is_unanswered(about: Subject, statistics: Mapping[str, Any]) -> bool:
    """Does a percentile lie among the requests without an answer?"""
    times = statistics.get(f"{about.metric}_us") or {}
    p = PERCENTILES.get(about.statistic or "")
    if p is None or not times.get("unanswered"):
        return False
    return bool(times["count"] + times["unanswered"] >= samples_needed(p))


def _other_unit(unit: Unit, formula: Formula) -> str:
    return f"it is {name_of(unit)}, and is compared with {name_of(formula.unit)}"


def _is_cpu(term: Reading) -> bool:
    """Is it computed from CPU times?"""
    return term.metric == "cpu" and term.kind != "directory"


def _monitors_of(term: Reading, uri: str, evidence: Evidence) -> list[MonitorSummary]:
    """Those that read this server for the term: several of several processes."""
    found = [
        one
        for one in evidence.monitors
        if one.facts.get("kind") == term.kind
        and uri in (one.facts.get("serves") or {}).get(term.role, ())
    ]
    if not found:
        raise _Missing(f"nothing was read of the {term.kind} of {term.role}")
    return found


def _unit_read(term: Reading, monitors: Sequence[MonitorSummary]) -> Unit:
    return NONE if _is_cpu(term) else _unit_of(_metric(monitors[0], term.metric))


def _metric(monitor: MonitorSummary, name: str) -> MetricSummary:
    for one in monitor.metrics:
        if one.metric.name == name:
            return one
    raise _Missing(f"{monitor.name} has no {name}")


def _unit_of(one: MetricSummary) -> Unit:
    unit = {"s": SECONDS, "bytes": BYTES}.get(one.metric.unit, NONE)
    return unit.times(SECONDS, -1) if one.metric.kind == "counter" else unit


def requests_of(result: Mapping[str, Any], side: str, kind: str) -> float | None:
    """Requests of a kind in the whole run, as 'agents' sent or as the 'server' counted
    them for the run, of all servers; None: not known."""
    # 'A + B' is of groups that have a server in common, which are there as well
    parts = {
        one for name in result["books"] if " + " in name for one in name.split(" + ")
    }
    books = [book for name, book in result["books"].items() if name not in parts]
    lines = [book[kind] for book in books if kind in book]
    if not lines:
        return None
    if side == "agents":
        return math.fsum(one["agents"] for one in lines)
    if any(one.get("server") is None for one in lines):
        return None
    others = ("control", "replicated")
    return math.fsum(one["server"] - sum(one[name] for name in others) for one in lines)
