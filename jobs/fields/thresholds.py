# SPDX-License-Identifier: Apache-2.0
"""Thresholds: what must hold in the measure phase for the verdict PASS. Pure.

reports/rules applies them, and jobs/fields/validity.py beside them.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
    **_metrics("us", elapsed="of the longest stream with a count, or measure phase"),
    **_metrics("count", agents="that reported intervals"),
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


class Unit(NamedTuple):
    """A unit of figures, and how people are shown it."""

    about: str
    #: Of values in tables and charts; empty: none is said.
    shown: str = ""
    factor: float = 1.0


UNITS = {
    "us": Unit("a time", "ms", 1e-3),
    "s": Unit("a time"),
    "per_s": Unit("a rate", "/s"),
    "share": Unit("a share", "%", 100.0),
    "1": Unit("a number or a share"),
    "count": Unit("a number"),
    "bytes": Unit("a size"),
    "bytes_per_s": Unit("a size per second"),
}
#: Metrics of times that are as long as a run.
_LONG = {"elapsed": Unit("a time", "s", 1e-6), "after": Unit("a time", "s", 1e-6)}
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
            is_of_stream = metric is _OF_STREAMS.get(name)
            place = "readers.*" if is_of_stream else subject.example
            is_time = metric.statistics == STATISTICS
            statistic = ("p99",) if is_time else metric.statistics[:1]
            if name not in _OF_MONITORS:
                yield ".".join((place, name, *statistic)), metric.unit, metric.about


#: What is compared may have anything in brackets.
_FORM = re.compile(
    r"\s*((?:\[[^]]*\]|[^][<>=!])+?)(?:\s+per\s+(\S+?))?\s*(<=|>=|==|!=|=<|=>|<|>|=)\s*"
    r"(.*?)(?:\s+for\s+([^\s,]+))?(\s*,\s*abort)?\s*",
    re.DOTALL,
)
_PER = re.compile(r"(.*?)\s+per\s+(\S+)", re.DOTALL)
_SUBJECT = re.compile(r"(\w+)(?:\((.*?)\))?\.(.+)", re.ASCII | re.DOTALL)
#: An attribute may be an OID.
_METRIC = re.compile(
    r"((?:\d+(?:\.\d+)+|[\w;-]+)(?:\[.*\])?)(?:\.(\w+))?", re.ASCII | re.DOTALL
)
_NAME = re.compile(r"\*|[A-Za-z0-9][A-Za-z0-9_-]*", re.ASCII)


@dataclass(frozen=True)
class FigureName:
    """The name of one figure, or of several: '*' stands for all."""

    #: A stream, a role or a server's URI, an agent.
    subject: str
    #: An operation, or a kind of requests; '*' also where there are none.
    part: str
    metric: str
    #: None for metrics with one value.
    statistic: str | None
    #: One of SUBJECTS.
    kind: str = field(default="stream", kw_only=True)

    @property
    def name(self) -> str:
        """Return the text of which `parse_name` makes this name."""
        if self.is_of_stream:
            if not self.title:
                return self.short
            place = f"{self.subject}.{self.part}"
        else:
            subject = f"({self.subject})" * (self.subject != "*")
            place = self.kind + subject + f".{self.part}" * (self.part != "*")
        return ".".join(filter(None, (place, self.metric, self.statistic)))

    @property
    def title(self) -> str:
        """The operation with its stream, or the subject; empty: all."""
        place = self.subject if self.part == "*" else f"{self.subject}.{self.part}"
        return "" if place == "*" else place

    @property
    def short(self) -> str:
        """The name without operation or subject: `p99`, `service_time.p99`."""
        if self.statistic is None or self.metric == "response_time":
            return self.statistic or self.metric
        return f"{self.metric}.{self.statistic}"

    @property
    def words(self) -> str:
        """The same for people: `p99`, `service time p99`."""
        words = self.short.replace(".", " ")
        return re.sub(r"(?<=\d)_", ".", words).replace("_", " ")

    @property
    def heading(self) -> str:
        """The same, with the unit: `p99 (ms)`."""
        return self.with_unit(self.words)

    def with_unit(self, heading: str) -> str:
        unit = self.shown_in.shown
        return f"{heading} ({unit})" if unit else heading

    def of(self, title: str) -> FigureName:
        """Return the name of the same figure of another operation, or stream."""
        subject, _, part = title.partition(".")
        return FigureName(subject, part or "*", self.metric, self.statistic)

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

    @property
    def shown_in(self) -> Unit:
        """The unit in which people are shown its values."""
        return _LONG.get(self.metric) or UNITS[self.unit or "1"]

    @property
    def is_ratio(self) -> bool:
        """Compared by new / old, else by new - old: a share may be 0, which has no
        ratio."""
        return self.unit != "share"

    @property
    def is_rate(self) -> bool:
        """Whether more of it is better."""
        return self.unit == "per_s"

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
    #: The unit as the limit has it: `ms`, `MB`, `%`; empty without.
    written: str = ""
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


def parse_threshold(text: str) -> Threshold:
    """The threshold of a text; a Fault says which part is wrong."""
    try:
        match = _FORM.fullmatch(text)
        if match is None:
            raise Fault("it has no comparison")
        about, per, comparison, value, hold, abort = match.groups(default="")
        _check_words(about, per, comparison, value)
        name = parse_name(about)
        limit, unit = _limit(name, value)
        threshold = Threshold(
            **vars(name),
            expression=text.strip(),
            comparison=comparison,
            limit=limit,
            limit_unit=unit,
            written=value.lstrip("0123456789., ").partition("/")[0],
            per=per,
            hold_ns=units.parse_duration(hold) if hold else 0,
            aborts=bool(abort),
        )
        _check_per(threshold)
        _check_hold(threshold)
    except Fault as fault:
        reason = f"expected a threshold, got {got(text)}: {fault.reason}"
        raise Fault(reason, fault.hint or f"such as {EXAMPLE!r}") from fault
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
        known = UNITS[name.unit or ""].about
        raise Fault(
            f"it is {known}, and {got(text)} is {UNITS[unit].about}",
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


def _check_words(about: str, per: str, comparison: str, value: str) -> None:
    if re.search(" (and|&&) .*[<>]", value):
        raise Fault("it has two comparisons", "write each as an item of the list")
    if comparison not in COMPARISONS:
        meant = comparison[::-1]
        hint = f"write {meant}" if meant in COMPARISONS else _known(COMPARISONS)
        if comparison in ("=", "=="):
            hint = f"write <= {value}, or >= {value}"
        raise Fault(f"unknown comparison {comparison!r}", hint)
    if match := _PER.fullmatch(value):
        hint = f"write '{about} per {match[2]} {comparison} {match[1]}'"
        raise Fault(f"'per {match[2]}' stands before the comparison", hint)
    if per not in ("", *PARTS):
        hint = did_you_mean(per, PARTS, "words")
        raise Fault(f"{per!r} is not a part of an operation", hint)


def _check_per(one: Threshold) -> None:
    if one.per and (not one.is_of_stream or one.metric not in PARTS[one.per]):
        hint = f"of streams, per {one.per}: {', '.join(PARTS[one.per])}"
        raise Fault(f"{one.metric} is not known per {one.per}", hint)
    is_upper = one.statistic in PERCENTILES and one.comparison.startswith("<")
    is_of_part = one.per or (one.hold_ns and one.is_of_stream)
    if is_of_part and one.metric in TIME_METRICS and not is_upper:
        raise Fault(
            f"with '{'per' if one.per else 'for'}', times need a percentile and an "
            "upper limit",
            "such as 'search.p99 < 5ms'",
        )


def _check_hold(one: Threshold) -> None:
    if one.aborts and not one.hold_ns:
        raise Fault("'abort' needs a time", "such as 'for 10s, abort'")
    if one.per and one.hold_ns:
        raise Fault(f"'for' does not go with 'per {one.per}'", "write two thresholds")
    if one.hold_ns and one.is_of_stream and one.metric not in OF_INTERVALS:
        hint = f"with 'for': {', '.join(OF_INTERVALS)}"
        raise Fault(f"intervals have no {one.metric}", hint)
    if not one.hold_ns or one.is_of_stream:
        return
    if one.aborts:
        hint = f"write {one.expression.partition(',')[0].strip()!r}"
        raise Fault("`abort` is only for figures of operations", hint)
    is_read = one.metric == "cpu" or one.statistic == "mean"
    if one.kind not in MONITORS or not is_read:
        raise Fault(
            "`for` is for figures of operations, or a reading without a statistic",
            "leave `for` out: it is about the whole measure phase then",
        )


def parse_name(text: str, *, has_any_names: bool = False) -> FigureName:
    """Return the name in a text; a Fault says which part is wrong. `has_any_names`: it
    is of a result, where a Python class may give an operation any name."""
    match = _SUBJECT.fullmatch(text)
    if match is None:
        return _stream_name(text, has_any_names)
    kind, subject, rest = match.groups()
    metrics = SUBJECTS[kind].metrics if kind in SUBJECTS else {}
    # a stream, or an operation, may have the name of a kind; but the run has figures
    first, last = rest.partition(".")[0], rest.rpartition(".")[2]
    known = (*METRICS, *STATISTICS)
    is_of_run = kind == "run" and first in known
    may_be_stream = not metrics or (last in known and not is_of_run)
    if may_be_stream and (subject is None or (has_any_names and not metrics)):
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
        raise Fault(f"unknown metric {metric!r} of {kind}", hint)
    if metric in metrics:
        statistics = metrics[metric].statistics
    else:
        statistics, statistic = READING_STATISTICS, statistic or "mean"
    statistic = _checked_statistic(metric, statistic, statistics)
    subject = "*" if subject is None else subject
    return FigureName(subject, part or "*", metric, statistic, kind=kind)


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
    if not metric and re.fullmatch(r"p\d+(_\d+)?", last):
        raise Fault(f"unknown statistic {last!r}", _known(STATISTICS))
    if len(names) > 2:
        hint = did_you_mean(names[2], METRICS, "metrics")
        raise Fault(f"unknown metric {names[2]!r}", hint)
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
        hint = f"write {FigureName(subject, '*', metric, statistic).name}"
        raise Fault(f"{metric} is a metric of the stream, not of {part!r}", hint)
    statistic = _checked_statistic(metric, statistic, METRICS[metric].statistics)
    return FigureName(subject, part, metric, statistic)


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


def samples_needed(p: float) -> int:
    """Least sample that supports a percentile: ten values above it.

    20 for the median, 1,000 for p99, 10,000 for p99.9. With fewer the percentile hangs
    on single values, and its confidence interval may have no upper end.
    """
    return math.ceil(round(1000 / (100 - p), 6))
