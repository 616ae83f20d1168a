# SPDX-License-Identifier: Apache-2.0
"""Thresholds: what must hold in the measure phase for the verdict PASS. Pure.

reports/rules applies them, and jobs/fields/validity.py beside them.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ldapslam.base import units
from ldapslam.base.fault import Fault, did_you_mean, got

TIME_METRICS = (
    "response_time",
    "service_time",
    "backlog_wait",
    "send_lag",
    "receive_lag",
    "sequence_time",
)
#: Operations that have no response (RFC 4511, 4.3 and 4.11), and so no times.
KINDS_WITHOUT_RESPONSE = ("unbind", "abandon")
#: Kind, in reports, of what a Python class records.
PYTHON_KIND = "python"
#: Name -> percentile, in the order of every table.
PERCENTILES = {
    "p50": 50.0,
    "p90": 90.0,
    "p95": 95.0,
    "p99": 99.0,
    "p99_9": 99.9,
    "p99_99": 99.99,
}
STATISTICS = ("mean", "min", "p50", "p90", "p95", "p99", "p99_9", "p99_99", "max")
#: Of the set-up of a stream's connections, in the whole run.
SET_UP_METRICS = ("connect_time", "tcp_time", "tls_time", "bind_time")
#: Metric -> counters, as a share of others.
_SENT = ("completed", "timed_out", "unresolved", "abandoned")
SHARES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "errors": (
        ("failed", "timed_out", "unresolved", "dropped"),
        (*_SENT, "dropped"),
    ),
    "expected": (("expected",), _SENT),
    "timed_out": (("timed_out",), _SENT),
    "unresolved": (("unresolved",), _SENT),
    "empty": (("empty",), ("succeeded",)),
}
OUTAGE_STATISTICS = ("longest", "total", "share")
#: Metrics of a stream, not of an operation.
STREAM_METRICS = (*SET_UP_METRICS, "elapsed", "outage", "unsent")
#: Requests of the measure phase, whatever their result, and with an unexpected one.
COUNTS = ("completed", "failed")
METRICS = (
    *TIME_METRICS,
    *STREAM_METRICS,
    *("throughput", "goodput"),
    *SHARES,
    *COUNTS,
)
#: Hold for every operation or stream for which the job has none of the same metric and
#: statistic.
DEFAULT_THRESHOLDS = (
    "*.*.errors < 1%",
    "*.*.empty <= 50%",
    "*.*.outage.longest < 2s",
    "*.*.outage.share < 1%",
    "*.*.unsent < 1%",
)
COMPARISONS: dict[str, Callable[[float, float], bool]] = {
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
#: Statistic of a reading -> name in MetricSummary.
READING_STATISTICS = {"mean": "mean", "min": "lowest", "max": "highest"}
#: What reads servers and hosts.
_MONITORS = ("directory", "host", "process")
#: Metrics that are computed from the CPU times of a host or a process -> unit.
CPU_METRICS = {"cpu": "1", "cpu_per_operation": "s"}
#: Unit of a server's figure, as in result.json -> name, for people.
UNIT_NAMES = {
    "1": "a number or a share",
    "s": "a time",
    "per_s": "a rate",
    "bytes": "a size",
    "bytes_per_s": "a size per second",
}

#: For `ldapslam describe`.
_DEFAULTS = "".join(f"\n    {text}" for text in DEFAULT_THRESHOLDS)
NOTATION = f"""\
    stream.operation.metric[.statistic] comparison value

    readers.search.response_time.p99 < 5ms
    writers.modify.throughput >= 19/s
    *.*.errors < 0.1%
    readers.*.connect_time.p95 < 20ms
    imports.*.elapsed < 60s

What must hold in the measure phase for the verdict PASS. '*' stands for every
stream, or every operation; each that matches must meet the threshold, and the
value shown is the worst of them. Stream and operation may be left out, and
response_time before its statistic: search.p99 < 5ms, errors < 1%. Unbind and
abandon have no response and no times. In a threshold on a time, failures,
dropped arrivals and requests without a response count as above every time. A
threshold is met, or missed, when it is so over the whole range of what the
figure may be: its 95% confidence interval, and best and worst case of what the
generator is to blame for. Otherwise the run is INVALID. These hold unless the
job sets its own, for the same metric and statistic and without `for`,
`per server` or `per agent`, which leave them in force:
{_DEFAULTS}

    times, with a statistic   {", ".join(TIME_METRICS[:3])},
                              {", ".join(TIME_METRICS[3:])}
    set-up of connections,    {", ".join(SET_UP_METRICS)}:
    with a statistic          of a stream, in the whole run; operation '*'
    statistics                {", ".join(STATISTICS)};
                              p99.9 and p99.99 as well
    elapsed                   from the stream's start to its last response;
                              operation '*'
    outage, with a statistic  {", ".join(OUTAGE_STATISTICS)}: time without
                              connections, or without any response to requests
                              that wait; of a stream, operation '*'
    unsent                    share of an open stream's arrivals that waited
                              for a connection when the measure phase ended;
                              operation '*'
    throughput                completions per second, whatever their result
    goodput                   successes per second
    completed, failed         requests of the measure phase
    errors                    share of the requests due that ended otherwise
                              than expected: failed, timed out, unresolved or,
                              in an open loop, dropped
    empty                     share of the successful searches that returned no
                              entry
    expected                  share that ended with a result code other than
                              success that the job expects
    timed_out, unresolved     share that had no response
    comparisons               {", ".join(COMPARISONS)}

    search.p99 per server < 5ms
    search.p99 < 5ms for 10s
    errors < 20% for 30s, abort

`per server`, `per agent`: each must meet it by itself. `for`: it is missed when
interval after interval of the measure phase misses it for so long; `abort`: the
run ends early then. Of times, upper limits of percentiles.

    per server                {", ".join(PARTS["server"])}
    per agent                 {", ".join(PARTS["agent"])}
    for                       {", ".join(OF_INTERVALS)}

    host(supplier).cpu < 80%
    process(supplier).cpu_per_operation < 200us
    directory(replica).newest_change_age.max < 2s
    server.search.per_sent < 1.01
    replication.after < 30s

Of servers, each of which must meet it:

    directory(ROLE).METRIC    what the job's monitors read in the measure phase
    host(ROLE).METRIC         of each server of the role: METRIC as in the
    process(ROLE).METRIC      report, with .mean (without a statistic), .min or
                              .max; a counter's is its rate
    cpu                       METRIC of a host: the share of its CPUs that were
                              busy; of a process: the number of CPUs it used
    cpu_per_operation         METRIC of a host or a process: its CPU time for
                              each operation of the run that its servers
                              completed
    server.KIND.per_sent      requests that servers have counted in the whole
                              run, for each that agents have sent; KIND is one
                              of {", ".join(COUNTED_KINDS[:6])},
                              {", ".join(COUNTED_KINDS[6:])}
    replication.after         from the end of the load until all servers were
                              equal (`verify`)

The value is a number, a percentage, a duration, a rate, a size, or a size per
second: 10MB/s. What could not be read is never met.

    host(supplier).cpu < 95% for 30s

`for`, after a METRIC without a statistic: it is missed when reading after
reading of the measure phase misses it for so long.
"""

#: What is compared may have anything in brackets.
_FORM = re.compile(
    r"\s*((?:\[[^]]*\]|[^][<>=!])+?)\s*(<=|>=|==|!=|=<|=>|<|>|=)\s*(.*?)\s*", re.DOTALL
)
_LIMIT_UNIT = re.compile(r"[<>]=?\s*[\d.]+(ns|us|ms|s)\b", re.ASCII)
_HOLD = re.compile(r"(.*?)(?:\s+for\s+([^\s,]+))?(\s*,\s*abort)?", re.DOTALL)
_PER = re.compile(r"(.*?)\s+per\s+(\S+)", re.DOTALL)
_READING = re.compile(r"(\w+)\(([^)]*)\)\.(\w+(?:\[[^\]]*\])?)(?:\.(\w+))?", re.ASCII)
_PER_SENT = re.compile(rf"server\.({'|'.join(COUNTED_KINDS)})\.per_sent")
_NAME = re.compile(r"\*|[A-Za-z0-9][A-Za-z0-9_-]*", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What a threshold is about: a figure of some operations, or of some streams."""

    #: Name of a stream, or '*'.
    stream: str
    #: Name of an operation, or '*'.
    operation: str
    metric: str
    #: None for metrics with one value.
    statistic: str | None

    @property
    def unit(self) -> str:
        """Unit of evaluated values: 'us', 'per_s', 'share' or '1'."""
        return unit_of(self.metric, self.statistic)

    def matches(self, stream: str, operation: str) -> bool:
        return self.stream in ("*", stream) and self.operation in ("*", operation)


@dataclass(frozen=True, kw_only=True)
class Limit:
    """What a threshold compares its figure with."""

    expression: str
    comparison: str
    #: In the figure's unit.
    limit: float
    #: Missed only when interval after interval, or reading after reading, misses it for
    #: this time; 0: it is about the measure phase as a whole.
    hold_ns: int = 0

    def holds(self, value: float) -> bool:
        """Does a figure, in its unit, meet the limit?"""
        return COMPARISONS[self.comparison](value, self.limit)


@dataclass(frozen=True, kw_only=True)
class Threshold(Subject, Limit):
    """One parsed threshold on a figure of operations or streams."""

    #: 'server' or 'agent': each of them must meet it by itself; empty: all together.
    per: str = ""
    #: The run ends when it is missed.
    aborts: bool = False

    def format(self, value: float | None) -> str:
        """An evaluated value with its unit, for people."""
        if value is None:
            return "no data"
        if self.unit == "share":
            return f"{value * 100:.4g}%"
        if self.unit == "per_s":
            return f"{value:,.1f}/s"
        if self.unit == "1":
            return f"{value:,.0f}"
        return format_time(value / 1e6, self.expression)


@dataclass(frozen=True)
class MonitorReading:
    """What monitors read of each server of a role."""

    monitor: str
    role: str
    metric: str
    statistic: str

    @property
    def is_of_cpu(self) -> bool:
        """Whether it is computed from CPU times."""
        return self.monitor != "directory" and self.metric in CPU_METRICS

    @property
    def unit(self) -> str | None:
        """One of UNIT_NAMES; None: only the run knows it."""
        return CPU_METRICS[self.metric] if self.is_of_cpu else None


@dataclass(frozen=True)
class CountedRequests:
    """Requests of a kind that servers counted, for each that agents sent."""

    kind: str
    unit: str = "1"


@dataclass(frozen=True)
class Convergence:
    """The time from the end of the load until all servers were equal."""

    unit: str = "s"


ServerFigure: TypeAlias = MonitorReading | CountedRequests | Convergence


@dataclass(frozen=True, kw_only=True)
class ServerThreshold(Limit):
    """One parsed threshold on a figure of servers."""

    figure: ServerFigure
    #: One of UNIT_NAMES.
    unit: str

    def format(self, value: float) -> str:
        """A value with its unit, for people."""
        if self.unit == "s":
            return format_time(value, self.expression)
        if self.unit == "per_s":
            return f"{value:,.1f}/s"
        if self.unit.startswith("bytes"):
            per = "/s" if self.unit == "bytes_per_s" else ""
            return f"{units.format_size(round(value))}{per}"
        return f"{value * 100:.4g}%" if "%" in self.expression else f"{value:,.4g}"


Criterion: TypeAlias = Threshold | ServerThreshold


def format_time(value_s: float, expression: str) -> str:
    """In the unit of the threshold's limit; longer ones than s in s."""
    match = _LIMIT_UNIT.search(expression)
    unit = match[1] if match else "s"
    value = value_s * units.NS_PER_S / units.DURATION_UNITS[unit]
    digits = 6 if unit == "s" and 0 < abs(value) < 1 else 3
    return f"{value:,.{digits}f}{unit}"


def parse_criterion(text: str) -> Criterion:
    """The threshold of a text; a Fault says which part is wrong."""
    about, comparison, value = _parts_of(text)
    try:
        figure = _server_figure(about)
        if figure is None:
            return _threshold(text, about, comparison, value)
        return _server_threshold(text, figure, comparison, value)
    except Fault as fault:
        raise _wrong(text, fault.reason, fault.hint) from fault


def _threshold(text: str, about: str, comparison: str, value: str) -> Threshold:
    about, per = _divided(about)
    value, hold_ns, aborts = _held(value)
    subject = parse_subject(about)
    threshold = Threshold(
        **vars(subject),
        expression=text.strip(),
        comparison=comparison,
        limit=_limit(subject.unit, value),
        per=per,
        hold_ns=hold_ns,
        aborts=aborts,
    )
    _check_per(threshold)
    _check_hold(threshold)
    return threshold


def _server_threshold(
    text: str, figure: ServerFigure, comparison: str, value: str
) -> ServerThreshold:
    value, hold_ns, aborts = _held(value)
    if aborts:
        hint = f"write {text.partition(',')[0].strip()!r}"
        raise Fault("`abort` is only for figures of operations", hint)
    if hold_ns and not (
        isinstance(figure, MonitorReading) and figure.statistic == "mean"
    ):
        raise Fault(
            "`for` is for figures of operations, or a reading without a statistic",
            "leave `for` out: it is about the whole measure phase then",
        )
    limit, unit = _quantity(value)
    if figure.unit not in (None, unit):
        known = UNIT_NAMES[figure.unit or ""]
        raise Fault(
            f"it is {known}, and {got(value)} is {UNIT_NAMES[unit]}",
            f"compare it with {known}",
        )
    return ServerThreshold(
        expression=text.strip(),
        figure=figure,
        comparison=comparison,
        limit=limit,
        unit=unit,
        hold_ns=hold_ns,
    )


def _server_figure(text: str) -> ServerFigure | None:
    """The figure that a text names; None: it is one of operations or streams."""
    if text == "replication.after":
        return Convergence()
    if counted := _PER_SENT.fullmatch(text):
        return CountedRequests(counted[1])
    match = _READING.fullmatch(text)
    if match is None and text.partition("(")[0] not in _MONITORS:
        return None
    if match is None:
        raise Fault(
            f"{got(text)} does not name what is read of a role",
            "such as 'directory(supplier).threads_active.max'",
        )
    monitor, role, metric, statistic = match.groups(default="mean")
    if monitor not in _MONITORS:
        hint = did_you_mean(monitor, _MONITORS, "monitors")
        raise Fault(f"unknown monitor {monitor!r}", hint)
    if statistic not in READING_STATISTICS:
        hint = did_you_mean(statistic, READING_STATISTICS, "statistics")
        raise Fault(f"unknown statistic {statistic!r}", hint)
    reading = MonitorReading(monitor, role, metric, statistic)
    if reading.is_of_cpu and statistic != "mean":
        raise Fault(f"{metric} has a mean only", f"write '{monitor}({role}).{metric}'")
    return reading


def _quantity(text: str) -> tuple[float, str]:
    """Return a limit of a server's figure, and its unit."""
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
    if one.per and one.metric not in PARTS[one.per]:
        hint = f"per {one.per}: {', '.join(PARTS[one.per])}"
        raise Fault(f"{one.metric} is not known per {one.per}", hint)
    is_time = one.metric in TIME_METRICS
    if one.per and is_time and not _is_upper_of_percentile(one):
        raise Fault(
            f"per {one.per}, times need a percentile and an upper limit",
            "such as 'search.p99 per server < 5ms'",
        )


def _check_hold(one: Threshold) -> None:
    if not one.hold_ns:
        return
    if one.per:
        raise Fault(f"'for' does not go with 'per {one.per}'", "write two thresholds")
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


def parse_subject(text: str) -> Subject:
    """What stands before the comparison; a Fault says which part is wrong."""
    stream, operation, metric, *statistic = _whole(text)
    for name in (stream, operation):
        if not _NAME.fullmatch(name):
            raise Fault(f"{got(name)} is not a name")
    if metric not in METRICS:
        hint = did_you_mean(metric, METRICS, "metrics")
        if re.fullmatch(r"p\d+(_\d+)?", metric):
            hint = _known(STATISTICS)
        raise Fault(f"unknown metric {metric!r}", hint)
    if metric in STREAM_METRICS and operation != "*":
        raise Fault(
            f"{metric} is a metric of the stream, not of {operation!r}",
            f"write {stream}.*.{'.'.join((metric, *statistic))}",
        )
    statistics = OUTAGE_STATISTICS if metric == "outage" else STATISTICS
    if metric not in (*TIME_METRICS, *SET_UP_METRICS, "outage"):
        if statistic:
            raise Fault(f"{metric} has no statistic {'.'.join(statistic)!r}")
    elif len(statistic) != 1:
        raise Fault(f"{metric} needs one statistic", _known(statistics))
    elif statistic[0] not in statistics:
        # another percentile is not near enough to be meant
        raise Fault(f"unknown statistic {statistic[0]!r}", _known(statistics))
    return Subject(
        stream=stream,
        operation=operation,
        metric=metric,
        statistic=statistic[0] if statistic else None,
    )


def _whole(text: str) -> list[str]:
    """Stream, operation, metric and statistics of a subject, of which the first may be
    left out, and `response_time` before its statistic."""
    parts = text.split(".")
    if re.fullmatch(r"p\d+_\d+", "_".join(parts[-2:])):  # p99.9, as reports have it
        parts[-2:] = ["_".join(parts[-2:])]
    if len(parts) > 2 and parts[2] in METRICS:
        return parts
    names, tail = list(parts), []
    of_outage = names[-2:-1] == ["outage"] and names[-1] in OUTAGE_STATISTICS
    if names[-1] in STATISTICS or of_outage:
        tail = [names.pop()]
    if names and names[-1] in METRICS:
        tail.insert(0, names.pop())
    elif tail:
        tail.insert(0, "response_time")
    elif len(parts) > 2:
        return parts
    elif len(parts) == 1 and re.fullmatch(r"p\d+(_\d+)?", parts[0]):
        raise Fault(f"unknown statistic {parts[-1]!r}", _known(STATISTICS))
    else:
        problem = f"{text!r} does not name a stream, operation and metric"
        hint = did_you_mean(parts[-1], METRICS, "metrics")
        if parts[1:] == ["cpu"]:
            hint = f"write 'host({parts[0]}).cpu' or 'process({parts[0]}).cpu'"
        raise Fault(problem, hint)
    if tail[0] in STREAM_METRICS and len(names) == 1:
        names.append("*")
    if len(names) > 2:
        return parts
    return ["*"] * (2 - len(names)) + names + tail


def share_of(metric: str, counts: Mapping[str, Any]) -> float | None:
    """One of SHARES; None when there is nothing to have a share of."""
    some, every = (
        sum(counts.get(name, 0) for name in names) for names in SHARES[metric]
    )
    return some / every if every else None


def _limit(unit: str, value: str) -> float:
    if unit == "us":
        return units.parse_duration(value) / 1000
    if unit == "per_s":
        return units.parse_rate(value).per_s
    if unit == "1":
        if not re.fullmatch(r"\d+", value, re.ASCII):
            raise Fault(f"{got(value)} is not a number of requests", "such as 1000")
        return float(value)
    return units.parse_ratio(value)


def unit_of(metric: str, statistic: str | None) -> str:
    """Return the unit of a figure's value: 'us', 'per_s', 'share' or '1'."""
    if metric in COUNTS:
        return "1"
    if metric in (*SHARES, "unsent") or statistic == "share":
        return "share"
    return "per_s" if metric in ("throughput", "goodput") else "us"


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
