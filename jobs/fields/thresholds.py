# SPDX-License-Identifier: Apache-2.0
"""Thresholds: what must hold in the measure phase for the verdict PASS. Pure.

reports/rules applies them, and jobs/fields/validity.py beside them.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ldapslam.base import units
from ldapslam.base.fault import Fault, closest, did_you_mean, got

#: Operations that have no response (RFC 4511, 4.3 and 4.11), and so no times.
KINDS_WITHOUT_RESPONSE = ("unbind", "abandon")
#: Kind, in reports, of what a Python class records.
PYTHON_KIND = "python"
#: Requests that servers count by themselves.
COUNTED_KINDS = tuple(
    "search compare bind add modify delete modify_dn extended abandon unbind".split()
)
#: Name -> percentile, in the order of every table.
PERCENTILES = {
    "p50": 50.0,
    "p90": 90.0,
    "p95": 95.0,
    "p99": 99.0,
    "p99_9": 99.9,
    "p99_99": 99.99,
}
STATISTICS = ("mean", "min", *PERCENTILES, "max")
OUTAGE_STATISTICS = ("longest", "total", "share")
#: A metric of a monitor; `increase` is what a counter rose by in the whole run.
READING_STATISTICS = ("mean", "min", "max", "increase")
#: Counters of what ranks above every time: in figures, and in thresholds on a time.
UNANSWERED = ("timed_out", "unresolved")
ERRORS = ("failed", *UNANSWERED, "dropped")
#: Metric -> counters, as a share of others.
_SENT = ("completed", *UNANSWERED, "abandoned")
SHARES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "errors": (ERRORS, (*_SENT, "dropped")),
    "expected": (("expected",), _SENT),
    "timed_out": (("timed_out",), _SENT),
    "unresolved": (("unresolved",), _SENT),
    "empty": (("empty",), ("succeeded",)),
}


class MetricType(NamedTuple):
    """What the figures of a metric have in common."""

    #: One of UNITS.
    unit: str
    about: str
    #: Empty: it has one value.
    statistics: tuple[str, ...] = ()


class SubjectType(NamedTuple):
    """What figures may be of."""

    #: What stands before the metric.
    example: str
    metrics: Mapping[str, MetricType]


def _metrics(
    unit: str, statistics: tuple[str, ...] = (), **abouts: str
) -> dict[str, MetricType]:
    return {name: MetricType(unit, abouts[name], statistics) for name in abouts}


_TIMES = _metrics(
    "us",
    STATISTICS,
    response_time="from when a request was due to its response",
    service_time="from when a request was sent to its response",
    backlog_wait="how long a request that was due waited for a connection",
    send_lag="how late the generator sent a request",
    receive_lag="how late the generator processed a response",
    sequence_time="from when a session was due to the response of its last step",
)
_SET_UP = _metrics(
    "us",
    STATISTICS,
    connect_time="set-up of a connection, in the whole run",
    tcp_time="of that: TCP",
    tls_time="of that: TLS",
    bind_time="of that: the bind",
)
_OF_STREAMS = {
    **_SET_UP,
    **_metrics("us", elapsed="from the stream's start to its last response"),
    **_metrics(
        "us",
        OUTAGE_STATISTICS,
        outage="time in which a server was away: that of the worst one",
    ),
    **_metrics(
        "share",
        unsent="of arrivals: waited for a connection when the measure phase ended",
        loop_share="of the time of closed clients: lags of the generator",
    ),
}
_COUNTS = _metrics(
    "count",
    completed="requests with a response",
    failed="requests with an unexpected result",
)
_THROUGHPUT = _metrics("per_s", throughput="completions, whatever their result")
_OF_OPERATIONS = {
    **_TIMES,
    **_THROUGHPUT,
    **_metrics("per_s", goodput="successes"),
    **_metrics(
        "share",
        errors="of the requests due: failed, timed out, unresolved or dropped",
        expected="with a result code other than success that the job expects",
        timed_out="without a response in time",
        unresolved="lost with their connection or at the end of the run",
        empty="of the successful searches: that returned no entry",
    ),
    **_COUNTS,
}
TIME_METRICS, SET_UP_METRICS = tuple(_TIMES), tuple(_SET_UP)
#: Metrics of a stream, not of an operation.
STREAM_METRICS = tuple(_OF_STREAMS)
#: Requests of the measure phase, whatever their result, and with an unexpected one.
COUNTS = tuple(_COUNTS)
METRICS = _OF_OPERATIONS | _OF_STREAMS
_OF_MONITORS = _metrics("count", readings="", failed_readings="")
_OF_CPUS = _metrics(
    "us",
    cpu_per_operation="CPU time for each operation that its servers completed",
)
_OF_REQUESTS = {
    **_metrics(
        "count",
        sent="requests of agents in the whole run, set-ups and clean-up included",
        counted="requests by the counts of directory monitors, less the next two",
        control="requests of the monitor",
        replicated="changes that suppliers sent as such requests",
    ),
    **_metrics("1", per_sent="counted / sent"),
}
_OF_AGENTS = {
    **_THROUGHPUT,
    **_COUNTS,
    "response_time": _TIMES["response_time"],
    **_metrics("1", cpu="share of its host's CPUs that were busy"),
    **_metrics(
        "us", cpu_per_operation="CPU time of workers for each completed request"
    ),
    **_metrics(
        "share",
        busy_share="of the workers' time",
        highest_busy_share="of a worker's time, in the worst interval",
        highest_run_queue_share="of an interval: a worker had to wait for a CPU",
        highest_steal_share="of an interval: CPU time that the hypervisor took",
        stalled_share="of the time: hiccups of 1 ms and more",
    ),
    **_metrics(
        "us",
        throttled="time in which its control group had no CPU",
        longest_hiccup="how late a thread woke up",
        start_error="how late it began its load",
        clock_step="largest step of its wall clock",
        clock_offset="its clock minus the coordinator's, at the start",
        clock_deviation="largest change of that offset in the run",
    ),
    **_metrics(
        "count",
        clock_steps="steps of its clock against the coordinator's",
        clock_samples="readings of the coordinator's clock",
        intervals="intervals that it reported",
        missing_intervals="intervals that it did not report",
    ),
}
_OF_RUN = {
    **{name: _OF_OPERATIONS[name] for name in ("throughput", "goodput", "errors")},
    **_COUNTS,
}
#: What figures may be of. Monitors have other metrics, too: what they read.
SUBJECTS = {
    "stream": SubjectType("readers.search", METRICS),
    "run": SubjectType("run", _OF_RUN),
    "directory": SubjectType("directory(replica)", _OF_MONITORS),
    "host": SubjectType(
        "host(supplier)",
        _metrics("1", cpu="share of its CPUs that were busy") | _OF_CPUS | _OF_MONITORS,
    ),
    "process": SubjectType(
        "process(supplier)",
        _metrics("1", cpu="number of CPUs that it used") | _OF_CPUS | _OF_MONITORS,
    ),
    "entry": SubjectType("entry(supplier)", _OF_MONITORS),
    "log": SubjectType("log(*)", _OF_MONITORS),
    "server": SubjectType("server(supplier).search", _OF_REQUESTS),
    "agent": SubjectType("agent(load1)", _OF_AGENTS),
    "replication": SubjectType(
        "replication",
        _metrics(
            "us", after="from the end of the load until servers were equal (`verify`)"
        ),
    ),
}
MONITORS = ("directory", "host", "process", "entry", "log")
#: Unit of a figure -> name, for people.
UNITS = {
    "us": "a time",
    "s": "a time",
    "per_s": "a rate",
    "share": "a share",
    "1": "a number or a share",
    "count": "a number",
    "bytes": "a size",
    "bytes_per_s": "a size per second",
}
#: Hold for every operation or stream for which the job has none of the same metric and
#: statistic.
DEFAULT_THRESHOLDS = (
    "*.*.errors < 1%",
    "*.*.empty <= 50%",
    "*.*.outage.longest < 2s",
    "*.*.outage.share < 1%",
    "*.*.unsent < 1%",
)
COMPARISONS = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
#: What one operation may be divided into, and the metrics that its parts have.
PARTS = {
    "server": ("response_time", "service_time", "throughput", "errors"),
    "agent": ("response_time", "errors"),
}
#: Metrics that intervals have: of times, percentiles.
OF_INTERVALS = ("response_time", "service_time", "throughput", "errors")
EXAMPLE = "readers.search.response_time.p99 < 5ms"


def figure_rows() -> Iterator[tuple[str, str, str]]:
    """Yield the name of a figure of each metric, its unit, and what it is."""
    for subject in SUBJECTS.values():
        for name, metric in subject.metrics.items():
            place = "readers.*" if name in STREAM_METRICS else subject.example
            is_time = metric.statistics == STATISTICS
            statistic = ("p99",) if is_time else metric.statistics[:1]
            if name not in _OF_MONITORS:
                yield ".".join((place, name, *statistic)), metric.unit, metric.about


#: What is compared may have anything in brackets.
_FORM = re.compile(
    r"\s*((?:\[[^]]*\]|[^][<>=!])+?)\s*(<=|>=|==|!=|=<|=>|<|>|=)\s*(.*?)\s*", re.DOTALL
)
_LIMIT_UNIT = re.compile(r"[<>]=?\s*[\d.]+(ns|us|ms|s)\b", re.ASCII)
_HOLD = re.compile(r"(.*?)(?:\s+for\s+([^\s,]+))?(\s*,\s*abort)?", re.DOTALL)
_PER = re.compile(r"(.*?)\s+per\s+(\S+)", re.DOTALL)
_SUBJECT = re.compile(r"(\w+)(?:\((.*?)\))?\.(.+)", re.ASCII | re.DOTALL)
#: An attribute may be an OID.
_METRIC = re.compile(
    r"((?:\d+(?:\.\d+)+|[\w;-]+)(?:\[.*\])?)(?:\.(\w+))?", re.ASCII | re.DOTALL
)
_NAME = re.compile(r"\*|[A-Za-z0-9][A-Za-z0-9_-]*", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class FigureName:
    """The name of one figure, or of several."""

    #: One of SUBJECTS.
    kind: str = "stream"
    #: A stream, a role or a server's URI, a group of servers, an agent; or '*'.
    subject: str = "*"
    #: An operation, or a kind of requests; or '*'.
    part: str = "*"
    metric: str
    #: None for metrics with one value.
    statistic: str | None = None

    @property
    def is_of_stream(self) -> bool:
        """Whether it is of operations or streams."""
        return self.kind == "stream"

    @property
    def unit(self) -> str | None:
        """One of UNITS; None: only a run knows it."""
        known = SUBJECTS[self.kind].metrics.get(self.metric)
        if known is None:
            return None
        return "share" if self.statistic == "share" else known.unit

    def matches(self, subject: str, part: str) -> bool:
        return self.subject in ("*", subject) and self.part in ("*", part)

    def is_about(self, metric: str) -> bool:
        """Whether it is of a metric. What a monitor reads of several, such as suffixes,
        has theirs in brackets; without brackets, the name is of all of them."""
        is_part = self.kind in MONITORS and metric.startswith(f"{self.metric}[")
        return is_part or metric == self.metric


@dataclass(frozen=True, kw_only=True)
class Threshold(FigureName):
    """One parsed threshold."""

    expression: str
    comparison: str
    limit: float
    #: One of UNITS.
    limit_unit: str
    #: Missed only when interval after interval, or reading after reading, misses it for
    #: this time; 0: it is about the measure phase as a whole.
    hold_ns: int = 0
    #: 'server' or 'agent': each of them must meet it by itself; empty: all together.
    per: str = ""
    #: The run ends when it is missed.
    aborts: bool = False

    def holds(self, value: float) -> bool:
        """Does a figure, in its unit, meet the limit?"""
        return bool(COMPARISONS[self.comparison](value, self.limit))

    def format(self, value: float | None) -> str:
        """A value with its unit, for people."""
        if value is None:
            return "no data"
        match self.limit_unit:
            case "us" | "s":
                value_s = value / 1e6 if self.limit_unit == "us" else value
                return _format_time(value_s, self.expression)
            case "per_s":
                return f"{value:,.1f}/s"
            case "bytes" | "bytes_per_s":
                per = "/s" if self.limit_unit == "bytes_per_s" else ""
                return f"{units.format_size(round(value))}{per}"
            case "count":
                return f"{value:,.0f}"
        is_share = self.limit_unit == "share" or "%" in self.expression
        return f"{value * 100:.4g}%" if is_share else f"{value:,.4g}"


def _format_time(value_s: float, expression: str) -> str:
    """In the unit of the threshold's limit; longer ones than s in s."""
    match = _LIMIT_UNIT.search(expression)
    unit = match[1] if match else "s"
    value = value_s * units.NS_PER_S / units.DURATION_UNITS[unit]
    digits = 6 if unit == "s" and 0 < abs(value) < 1 else 3
    return f"{value:,.{digits}f}{unit}"


def parse_threshold(text: str) -> Threshold:
    """The threshold of a text; a Fault says which part is wrong."""
    about, comparison, value = _parts_of(text)
    try:
        if match := _PER.fullmatch(value):
            hint = f"write '{about.strip()} per {match[2]} {comparison} {match[1]}'"
            raise Fault(f"'per {match[2]}' stands before the comparison", hint)
        about, per = _divided(about)
        value, hold_ns, aborts = _held(value)
        name = parse_name(about)
        limit, unit = _limit(name, value)
        threshold = Threshold(
            **vars(name),
            expression=text.strip(),
            comparison=comparison,
            limit=limit,
            limit_unit=unit,
            per=per,
            hold_ns=hold_ns,
            aborts=aborts,
        )
        _check_per(threshold)
        _check_hold(threshold)
    except Fault as fault:
        raise _wrong(text, fault.reason, fault.hint) from fault
    return threshold


def _limit(name: FigureName, text: str) -> tuple[float, str]:
    """Return what a figure is compared with, and its unit."""
    match name.unit:
        case "us":
            return units.parse_duration(text) / 1000, "us"
        case "per_s":
            return units.parse_rate(text).per_s, "per_s"
        case "share":
            return units.parse_ratio(text), "share"
        case "count":
            if not re.fullmatch(r"\d+", text, re.ASCII):
                raise Fault(f"{got(text)} is not a number of requests", "such as 1000")
            return float(text), "count"
    limit, unit = _quantity(text)
    if name.unit not in (None, unit):
        known = UNITS[name.unit or ""]
        raise Fault(
            f"it is {known}, and {got(text)} is {UNITS[unit]}",
            f"compare it with {known}",
        )
    return limit, unit


def _quantity(text: str) -> tuple[float, str]:
    """Return a limit of what a monitor reads, and its unit."""
    if re.fullmatch(r"\d+(?:\.\d+)?", text, re.ASCII):
        return float(text), "1"
    if text.endswith("%"):
        return units.parse_ratio(text), "1"
    size, _, per = text.partition("/")
    if size.endswith("B"):
        if per not in ("", "s"):
            raise Fault(f"{got(text)} is not a size per second", "such as 10MB/s")
        return float(units.parse_size(size)), "bytes_per_s" if per else "bytes"
    if per:
        return units.parse_rate(text).per_s, "per_s"
    return units.parse_duration(text) / units.NS_PER_S, "s"


def _parts_of(text: str) -> tuple[str, str, str]:
    """What is compared, how, and with what; Fault."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise _wrong(text, "it has no comparison")
    about, comparison, value = match.groups()
    if re.search(" (and|&&) .*[<>]", value):
        raise _wrong(
            text, "it has two comparisons", "write each as an item of the list"
        )
    if comparison not in COMPARISONS:
        meant = comparison[::-1]
        hint = f"write {meant}" if meant in COMPARISONS else _known(COMPARISONS)
        if comparison in ("=", "=="):
            hint = f"write <= {value}, or >= {value}"
        raise _wrong(text, f"unknown comparison {comparison!r}", hint)
    return about, comparison, value


def _divided(about: str) -> tuple[str, str]:
    match = _PER.fullmatch(about)
    if match is None:
        return about, ""
    if match[2] not in PARTS:
        hint = did_you_mean(match[2], PARTS, "words")
        raise Fault(f"{match[2]!r} is not a part of an operation", hint)
    return match[1], match[2]


def _held(value: str) -> tuple[str, int, bool]:
    """What is compared with, the time after `for` in ns or 0, and whether it aborts."""
    match = _HOLD.fullmatch(value)
    assert match is not None, "each of its parts may be empty"
    hold_ns = units.parse_duration(match[2]) if match[2] else 0
    if match[3] and not hold_ns:
        raise Fault("'abort' needs a time", "such as 'for 10s, abort'")
    return match[1], hold_ns, bool(match[3])


def _check_per(one: Threshold) -> None:
    if one.per and (not one.is_of_stream or one.metric not in PARTS[one.per]):
        hint = f"of streams, per {one.per}: {', '.join(PARTS[one.per])}"
        raise Fault(f"{one.metric} is not known per {one.per}", hint)
    if one.per and one.metric in TIME_METRICS and not _is_upper_of_percentile(one):
        raise Fault(
            f"per {one.per}, times need a percentile and an upper limit",
            "such as 'search.p99 per server < 5ms'",
        )


def _check_hold(one: Threshold) -> None:
    if not one.hold_ns:
        return
    if one.per:
        raise Fault(f"'for' does not go with 'per {one.per}'", "write two thresholds")
    if not one.is_of_stream:
        if one.aborts:
            hint = f"write {one.expression.partition(',')[0].strip()!r}"
            raise Fault("`abort` is only for figures of operations", hint)
        is_read = one.metric == "cpu" or one.statistic == "mean"
        if one.kind not in MONITORS or not is_read:
            raise Fault(
                "`for` is for figures of operations, or a reading without a statistic",
                "leave `for` out: it is about the whole measure phase then",
            )
        return
    if one.metric not in OF_INTERVALS:
        hint = f"with 'for': {', '.join(OF_INTERVALS)}"
        raise Fault(f"intervals have no {one.metric}", hint)
    if one.metric in TIME_METRICS and not _is_upper_of_percentile(one):
        raise Fault(
            "'for' needs a percentile and an upper limit",
            "such as 'search.p99 < 5ms for 10s'",
        )


def _is_upper_of_percentile(one: Threshold) -> bool:
    return one.statistic in PERCENTILES and one.comparison.startswith("<")


def parse_name(text: str, *, has_any_names: bool = False) -> FigureName:
    """Return the name in a text; a Fault says which part is wrong. `has_any_names`: it
    is of a result, where a Python class may give an operation any name."""
    match = _SUBJECT.fullmatch(text)
    if match is None:
        return _stream_name(text, has_any_names)
    kind, subject, rest = match.groups()
    metrics = SUBJECTS[kind].metrics if kind in SUBJECTS else {}
    last = rest.rpartition(".")[2]
    may_be_stream = not metrics or last in METRICS or last in STATISTICS
    may_be_stream = may_be_stream and not (kind == "run" and rest in metrics)
    if (subject is None and may_be_stream) or (has_any_names and not metrics):
        # a stream, or an operation, may have the name of a kind
        return _stream_name(text, has_any_names)
    if not metrics or kind == "stream":
        hint = did_you_mean(kind, [one for one in SUBJECTS if one != "stream"])
        raise Fault(f"unknown subject {kind!r}", hint)
    part = "*"
    if kind == "server":
        part, _, rest = rest.rpartition(".")
        if part not in ("", "*", *COUNTED_KINDS):
            hint = did_you_mean(part, COUNTED_KINDS, "kinds")
            raise Fault(f"unknown kind of requests {part!r}", hint)
    found = _METRIC.fullmatch(rest)
    metric, statistic = found.groups() if found else (rest, None)
    if found is None or (metric not in metrics and kind not in MONITORS):
        hint = did_you_mean(metric, metrics, "metrics")
        raise Fault(f"unknown metric {metric!r}", hint)
    if metric in metrics:
        statistics = metrics[metric].statistics
    else:
        statistics, statistic = READING_STATISTICS, statistic or "mean"
    return FigureName(
        kind=kind,
        subject="*" if subject is None else subject,
        part=part or "*",
        metric=metric,
        statistic=_checked_statistic(metric, statistic, statistics),
    )


def _stream_name(text: str, has_any_names: bool) -> FigureName:
    """Return a name of which the first parts may be left out, and `response_time`."""
    names = text.split(".")
    if re.fullmatch(r"p\d+_\d+", "_".join(names[-2:])):  # p99.9, as reports have it
        names[-2:] = ["_".join(names[-2:])]
    last, before = names[-1], "".join(names[-2:-1])
    metric, statistic = "", None
    if last in STATISTICS or (before in METRICS and last not in METRICS):
        metric, statistic = "response_time", names.pop()
    if names and names[-1] in METRICS:
        metric = names.pop()
    if has_any_names:
        names[1:] = [".".join(names[1:])]
    if len(names) > 2:
        hint = did_you_mean(names[2], METRICS, "metrics")
        raise Fault(f"unknown metric {names[2]!r}", hint)
    if not metric and re.fullmatch(r"p\d+(_\d+)?", last):
        raise Fault(f"unknown statistic {last!r}", _known(STATISTICS))
    if not metric:
        problem = f"{text!r} does not name a stream, operation and metric"
        hint = did_you_mean(last, METRICS, "metrics")
        if meant := closest(text.partition(".")[0], SUBJECTS.keys() - {"stream"}):
            hint = f"{meant}: {', '.join(SUBJECTS[meant].metrics)}"
        elif last == "cpu":
            role = before or "ROLE"
            hint = f"write 'host({role}).cpu' or 'process({role}).cpu'"
        raise Fault(problem, hint)
    if metric in STREAM_METRICS and len(names) == 1:
        names.append("*")
    subject, part = ["*"] * (2 - len(names)) + names
    for name in (subject, part):
        if not has_any_names and not _NAME.fullmatch(name):
            raise Fault(f"{got(name)} is not a name")
    if metric in STREAM_METRICS and part != "*" and not has_any_names:
        raise Fault(
            f"{metric} is a metric of the stream, not of {part!r}",
            f"write {subject}.*.{'.'.join(filter(None, (metric, statistic)))}",
        )
    statistic = _checked_statistic(metric, statistic, METRICS[metric].statistics)
    return FigureName(subject=subject, part=part, metric=metric, statistic=statistic)


def _checked_statistic(
    metric: str, statistic: str | None, known: Sequence[str]
) -> str | None:
    """Return the statistic, if the metric has it; Fault."""
    if known and statistic is None:
        raise Fault(f"{metric} needs one statistic", _known(known))
    if known and statistic not in known:
        # another percentile is not near enough to be meant
        raise Fault(f"unknown statistic {statistic!r}", _known(known))
    if statistic is not None and not known:
        raise Fault(f"{metric} has no statistic {statistic!r}")
    return statistic


def total(counts: Mapping[str, Any], names: Iterable[str]) -> Any:
    """Return the sum of the counts with these names: numbers, or arrays."""
    return sum(counts.get(name, 0) for name in names)


def share_of(metric: str, counts: Mapping[str, Any]) -> float | None:
    """One of SHARES; None when there is nothing to have a share of."""
    some, every = (total(counts, names) for names in SHARES[metric])
    return some / every if every else None


def _known(words: Iterable[str]) -> str:
    return f"known: {', '.join(words)}"


def _wrong(text: str, problem: str, hint: str | None = None) -> Fault:
    """The Fault of a threshold."""
    return Fault(
        f"expected a threshold, got {got(text)}: {problem}",
        hint or f"such as {EXAMPLE!r}",
    )


def samples_needed(p: float) -> int:
    """Least sample that supports a percentile: ten values above it.

    20 for the median, 1,000 for p99, 10,000 for p99.9. With fewer the percentile hangs
    on single values, and its confidence interval may have no upper end.
    """
    return math.ceil(round(1000 / (100 - p), 6))
