# SPDX-License-Identifier: Apache-2.0
"""The figures of a run: values with names, intervals and samples. Pure.

`ldapslam describe figures` has their names. They are computed once, before the verdict,
from the measurements of streams, operations and agents; those of servers are made by
reports/rules/server_figures.py. Values are not rounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

from ldapslam.base.fault import Fault
from ldapslam.jobs.fields.thresholds import (
    COUNTS,
    OUTAGE_STATISTICS,
    PERCENTILES,
    SET_UP_METRICS,
    SHARES,
    STATISTICS,
    TIME_METRICS,
    FigureName,
    parse_name,
    samples_needed,
    share_of,
)
from ldapslam.reports.distribution import Distribution
from ldapslam.reports.streams import AgentSummary, OperationSummary, StreamSummary
from ldapslam.reports.uncertainty import FEWEST_BATCHES, Estimate

_NEEDS_BATCHES, _NEEDS_TIMES = (
    f"{FEWEST_BATCHES} intervals of the measure phase with {of} in each"
    for of in ("requests", "successful requests")
)
LONGER = "a longer run narrows it"
_NEEDS_REQUESTS = "requests in the measure phase"
_NEEDS_RUNS = "repeated runs: a run has one such value"


def metric_of(text: str) -> FigureName:
    """Return the name of a figure of all operations; Fault."""
    about = parse_name(text)
    if about.kind != "stream" or about.title:
        raise Fault(
            f"expected a metric of all operations, got {text!r}",
            "such as p99, errors",
        )
    return about


#: What runs are compared by when nothing is chosen.
COMPARED = tuple(
    map(parse_name, "throughput goodput errors mean p50 p95 p99 elapsed".split())
)
#: By name.
METRICS = {one.name: one for one in COMPARED}
THROUGHPUT, GOODPUT, ERRORS = COMPARED[:3]


#: Place, value, and the ends of its interval; None where there is none.
Point: TypeAlias = tuple[float, float, float | None, float | None]


def point_of(
    name: FigureName, at: float, value: float, interval: Estimate | None = None
) -> Point:
    """Return a value with its interval for a chart, in the unit of the heading."""
    factor = name.shown_in.factor
    low, high = (end * factor for end in interval[1:]) if interval else (None, None)
    return at, value * factor, low, high


class Range(NamedTuple):
    """What a value may be, of the directory."""

    low: float
    high: float
    #: Without chance.
    least: float
    most: float
    #: What the value is made of, for people.
    made_of: str = ""
    #: And what mends that.
    remedy: str = ""
    #: What tells more, where chance alone leaves it open.
    narrowed_by: str = LONGER


@dataclass(frozen=True)
class Figure(FigureName):
    """A value of an operation, a stream, a server, an agent or the run."""

    value: float | None
    #: Its 95 % confidence interval, by batches of the run, or what else it may be; None
    #: where nothing is known of it.
    interval: Estimate | None = None
    #: Batches that the interval is of.
    batches: int = 0
    #: Requests that it is of, or would be; of `elapsed`, the stream's count.
    sample: int = 0
    #: How many of them had no answer.
    unanswered: int = 0
    #: What is needed for the value, or for its interval; empty where both are there.
    needs: str = ""
    #: By chance, and for what limits it; None: `interval`, or the value.
    range: Range | None = None
    #: What, other than chance, may make the value differ from the directory's.
    limited_by: tuple[str, ...] = ()
    #: Unit of what a monitor reads; that of others follows from the metric.
    read_unit: str = ""
    #: Roles of the server.
    roles: tuple[str, ...] = ()
    #: The server of several that an outage is of.
    server: str = ""

    @property
    def unit(self) -> str:
        """One of UNITS."""
        return self.read_unit or super().unit or "1"

    @property
    def place(self) -> tuple[str, str]:
        return self.subject, self.part

    @property
    def key(self) -> FigureName:
        """The name alone."""
        return FigureName(*self.place, self.metric, self.statistic, kind=self.kind)

    @property
    def is_too_small(self) -> bool:
        """Whether only its sample is too small for the percentile."""
        if self.statistic not in PERCENTILES or self.value is not None:
            return False
        needed = samples_needed(PERCENTILES[self.statistic])
        return not self.unanswered and 0 < self.sample < needed


def figures_of(
    streams: Iterable[StreamSummary],
    agents: Iterable[AgentSummary],
    servers: Iterable[Figure],
) -> tuple[Figure, ...]:
    """Return all figures of a run, in the order of its report."""
    of_streams = (figure for stream in streams for figure in _of_stream(stream))
    of_agents = (figure for agent in agents for figure in _of_agent(agent))
    return (*of_streams, *servers, *of_agents)


def figures_of_run(
    figures: Sequence[Figure], streams: Iterable[StreamSummary], measure_s: float | None
) -> Iterator[Figure]:
    """Yield the figures of all operations together, with the sums of their ranges;
    rates are over the whole measure phase."""
    whole_s = measure_s or 1.0
    at_work = {one.name: (one.window.measure_s or 0.0) / whole_s for one in streams}
    of_counts = [one for one in figures if one.metric == "elapsed" and one.sample]
    elapsed = [one.value for one in of_counts if one.value is not None]
    agents = sum(one.metric == "intervals" and bool(one.value) for one in figures)
    longest = max(elapsed, default=_us(measure_s))
    if needs := next((one.needs for one in of_counts if one.value is None), ""):
        longest = None
    yield Figure("*", "*", "elapsed", None, longest, needs=needs, kind="run")
    yield Figure("*", "*", "agents", None, agents, kind="run")
    for metric in ("throughput", "goodput", "errors", *COUNTS):
        every = matching(parse_name(metric), figures)
        parts = [(one, one.value) for one in every if one.value is not None]
        sample = sum(one.sample for one, _ in parts)
        rows = []
        for one, value in parts:
            weight = {
                "per_s": at_work[one.subject],
                "share": one.sample / max(sample, 1),
            }.get(one.unit, 1)
            ends = (one.range or Range(value, value, value, value))[:4]
            rows.append([weight * each for each in (value, *ends)])
        limits = dict.fromkeys(text for one, _ in parts for text in one.limited_by)
        found = Figure("*", "*", metric, None, None, needs=_NEEDS_REQUESTS, kind="run")
        if rows:
            value, low, high, least, most = map(sum, zip(*rows, strict=True))
            found = replace(found, value=value, needs="", sample=sample)
            found = replace(found, range=Range(low, high, least, most))
        yield replace(found, limited_by=tuple(limits))


Readings: TypeAlias = dict[FigureName, Figure]


def readings_of(figures: Iterable[Figure]) -> Readings:
    """Return the figures of operations, and the times until a count is reached."""
    return {
        one.key: one
        for one in figures
        if one.kind == "stream"
        and (one.part != "*" or (one.metric == "elapsed" and one.sample))
    }


def names_of(runs: Sequence[Readings]) -> list[FigureName]:
    """Return the names in all runs with a metric of COMPARED, by operation; goodput
    where it is not throughput in all."""

    def is_throughput(title: str) -> bool:
        goodput, throughput = GOODPUT.of(title), THROUGHPUT.of(title)
        found = [run for run in runs if goodput in run]
        return all(run[goodput].value == run[throughput].value for run in found)

    return [
        metric.of(title)
        for title in dict.fromkeys(key.title for run in runs for key in run)
        for metric in COMPARED
        if any(metric.of(title) in run for run in runs)
        and not (metric == GOODPUT and is_throughput(title))
    ]


def matching(about: FigureName, figures: Iterable[Figure]) -> list[Figure]:
    """Return the figures that a threshold, or a column of a study, is about."""
    wanted = about.kind, about.statistic
    return [
        one
        for one in figures
        if (one.kind, one.statistic) == wanted
        and about.is_about(one.metric)
        and any(about.matches(name, one.part) for name in (one.subject, *one.roles))
        # '*' stands for the operations that end a sequence
        and (one.metric != "sequence_time" or one.sample or about.part != "*")
    ]


def _of_operation(one: OperationSummary) -> Iterator[Figure]:
    def figure(
        metric: str, value: float | None, sample: int, statistic: str | None = None
    ) -> Figure:
        return Figure(
            one.stream, one.operation, metric, statistic, value, sample=sample
        )

    def by_batches(figure: Figure, needs: str = "") -> Figure:
        name = figure.statistic or figure.metric
        interval, value = one.by_batches.get(name), figure.value
        if value is None:
            return replace(figure, needs=needs or _NEEDS_REQUESTS)
        if interval is None or one.batches < FEWEST_BATCHES:
            lacks = _NEEDS_TIMES if name == "mean" else _NEEDS_BATCHES
            return replace(figure, needs=lacks)
        if figure.unit != "share" and value > 0:
            interval = _around(value, interval)
        else:
            interval = interval._replace(value=value)
        return replace(figure, interval=interval, batches=one.batches)

    sent = one.counts.get("sent", 0)
    yield by_batches(figure("throughput", one.throughput_per_s, sent))
    yield by_batches(figure("goodput", one.goodput_per_s, sent))
    for metric in COUNTS:
        yield figure(metric, one.counts.get(metric, 0), sent)
    for metric, (_, every) in SHARES.items():
        if metric == "empty" and one.kind != "search":
            continue
        sample = sum(one.counts.get(name, 0) for name in every)
        share = figure(metric, share_of(metric, one.counts), sample)
        needs = "successful requests" if metric == "empty" and sent else _NEEDS_REQUESTS
        if metric == "errors" or share.value is None:
            share = by_batches(share, needs)
        yield share
    if not one.has_responses:
        return
    for metric in TIME_METRICS:
        times = one.times[metric]
        for known in _of_times(one.stream, one.operation, metric, times):
            if metric == "response_time" and known.statistic == "mean":
                known = by_batches(known, known.needs)
            elif metric == "response_time" and known.statistic in PERCENTILES:
                known = _with_interval(known, times, one.batches)
            yield known


def _of_times(
    stream: str, operation: str, metric: str, times: Distribution
) -> Iterator[Figure]:
    values = {
        "mean": times.mean_us,
        "min": times.min_us,
        "max": times.max_us,
        **times.percentiles_us,
    }
    for statistic in STATISTICS:
        needs = "" if values[statistic] is not None else times.needs(statistic)
        one = Figure(stream, operation, metric, statistic, values[statistic])
        one = replace(one, sample=times.sample, unanswered=times.unanswered)
        yield replace(one, needs=needs)


def _of_stream(stream: StreamSummary) -> Iterator[Figure]:
    for operation in stream.operations:
        yield from _of_operation(operation)
    for metric in SET_UP_METRICS:
        yield from _of_times(stream.name, "*", metric, stream.set_up[metric])
    place, outage, elapsed_s = (
        (stream.name, "*"),
        stream.outage,
        stream.window.elapsed_s,
    )
    needs = "the stream's count to be reached" if elapsed_s is None else _NEEDS_RUNS
    elapsed = Figure(*place, "elapsed", None, _us(elapsed_s), needs=needs)
    yield replace(elapsed, sample=stream.planned.count or 0)
    values = outage.longest_s[0] * 1e6, outage.total_s[0] * 1e6, outage.share[0]
    for statistic, value, (server, _) in zip(
        OUTAGE_STATISTICS, values, outage.worst, strict=True
    ):
        yield Figure(*place, "outage", statistic, value, server=server)
    yield Figure(*place, "unsent", None, stream.unsent)
    yield Figure(*place, "loop_share", None, stream.loop_share)


def _of_agent(agent: AgentSummary) -> Iterator[Figure]:
    bounds = {"clock_offset": agent.facts.clock_offset_bound_us}
    if agent.clock is not None:
        bounds["clock_deviation"] = agent.clock.largest.bound_ns / 1000
    for metric, value in agent.values.items():
        interval, bound = None, bounds.get(metric)
        if value is not None and bound is not None:
            interval = Estimate(value, value - bound, value + bound)
        needs = "" if value is not None else "the agent to report it"
        figure = Figure(agent.name, "*", metric, None, value, interval, needs=needs)
        yield replace(figure, kind="agent")
    for one in _of_times(agent.name, "*", "response_time", agent.response_times):
        yield replace(one, kind="agent")


def _us(value_s: float | None) -> float | None:
    return None if value_s is None else value_s * 1e6


def _around(value: float, interval: Estimate) -> Estimate:
    """Return the interval of a rate or a mean around the value, on a logarithmic scale
    (delta method): its ends are above 0."""
    factor = math.exp(1 - interval.low / interval.value)
    return Estimate(value, value / factor, value * factor)


def _with_interval(figure: Figure, times: Distribution, batches: int) -> Figure:
    """A percentile of response times with its interval, or what that needs."""
    name, value = figure.statistic or "", figure.value
    if value is None:
        return figure
    ends = times.ci95_us[name]
    if ends is None:
        known, needed = times.effective[name], samples_needed(PERCENTILES[name])
        longer = f"an effective sample of {needed:,} (it has {known:,}): longer runs"
        return replace(figure, needs=longer if known else _NEEDS_TIMES)
    low, high = ends
    if high is None:
        return replace(figure, needs="fewer requests without an answer")
    return replace(figure, interval=Estimate(value, low, high), batches=batches)


def combined(figures: Sequence[Figure]) -> float | None:
    """Return the value of several figures of one metric together: rates and counts are
    added up, means and shares are those of all their requests, of times until a count
    is reached it is the longest. None for others, and where a value is missing."""
    values = [one.value for one in figures if one.value is not None]
    if not values or len(values) < len(figures):
        return None
    first = figures[0]
    if len(values) == 1:
        return values[0]
    if first.metric == "elapsed":
        return max(values)
    if first.unit in ("per_s", "count"):
        return math.fsum(values)
    if first.sample and (first.metric in SHARES or first.statistic == "mean"):
        weights = [one.sample for one in figures]
        parts = (value * n for value, n in zip(values, weights, strict=True))
        return math.fsum(parts) / sum(weights)
    return None


def key_figures(figures: Iterable[Figure]) -> dict[str, float | None]:
    """Return name -> value of the figures of operations that a message about the run
    has."""
    return {
        one.name: _rounded(one.value)
        for one in readings_of(figures).values()
        if one.short in ("throughput", "errors", "p50", "p99")
    }


def figures_json(figures: Iterable[Figure]) -> dict[str, dict[str, object]]:
    """The part `figures` of result.json, by name. A figure of a stream without a value
    and without a sample is left out."""
    return {one.name: _json_of(one) for one in figures if _is_listed(one)}


def _is_listed(one: Figure) -> bool:
    is_known = one.value is not None or bool(one.sample)
    return is_known or one.metric == "elapsed" or one.kind != "stream"


def _json_of(one: Figure) -> dict[str, object]:
    rest = {
        "sample": one.sample,
        "unanswered": one.unanswered,
        "ci95": one.interval and _ends(one.interval[1:]),
        "range": one.range and one.range.low < one.range.high and _ends(one.range[:2]),
        "limited_by": list(one.limited_by),
        "needs": one.needs,
        "unit": one.read_unit,
        "roles": list(one.roles),
    }
    known = {name: value for name, value in rest.items() if value}
    return {"value": _rounded(one.value), **known}


def _ends(of: Sequence[float]) -> list[float | None]:
    return [_rounded(end) if math.isfinite(end) else None for end in of]


def figures_in(result: Mapping[str, Any]) -> list[Figure]:
    """The figures of a result.json; KeyError, TypeError, ValueError if it is none."""
    return [_figure_in(name, one) for name, one in result.get("figures", {}).items()]


def _figure_in(name: str, one: Mapping[str, Any]) -> Figure:
    value, interval = one["value"], None
    if "ci95" in one:
        low, high = one["ci95"]
        low = -math.inf if low is None else low
        high = math.inf if high is None else high
        interval = Estimate(value, low, high)
    return Figure(
        **vars(parse_name(name, has_any_names=True)),
        value=value,
        interval=interval,
        sample=one.get("sample", 0),
        unanswered=one.get("unanswered", 0),
        needs=one.get("needs", ""),
        limited_by=tuple(one.get("limited_by", ())),
        read_unit=one.get("unit", ""),
        roles=tuple(one.get("roles", ())),
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 9)
