# SPDX-License-Identifier: Apache-2.0
"""Every figure of a run's report, computed once; all formats show this Summary.

Figures cover the measure phase: percentiles the requests whose intended time lies in
it, throughput the completions that happened in it. Response time, service time and
backlog wait are those of successes, with failures apart; send lag and receive lag, the
generator's own, are those of all responses. Requests without an answer rank above every
response time and service time. A figure without enough data is None, and so is one that
hangs on requests without an answer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ldapslam.jobs.thresholds import (
    Threshold,
    evaluate,
    parse_threshold,
    times_lacking,
)
from ldapslam.jobs.validity import Validity
from ldapslam.reports import verdict
from ldapslam.reports.collect import (
    UNANSWERED_METRICS,
    AgentTotals,
    Collected,
    OperationTotals,
    StreamTotals,
    collect,
    unanswered,
)
from ldapslam.reports.evidence import Evidence, Gap
from ldapslam.reports.result import figures_of, result_of
from ldapslam.reports.results.histogram import Histogram, samples_needed
from ldapslam.reports.results.records import METRICS, EventRecord, RunRecord
from ldapslam.reports.results.store import Store
from ldapslam.reports.rules import Rule
from ldapslam.reports.timeline import NS_PER_S, Plan, Timeline

#: Name -> percentile, in the order of every table.
PERCENTILES = {
    "p50": 50.0,
    "p90": 90.0,
    "p95": 95.0,
    "p99": 99.0,
    "p99_9": 99.9,
    "p99_99": 99.99,
}

_CURVE_POINTS = 240
_LAGS = ("send_lag", "receive_lag")


@dataclass(frozen=True, slots=True)
class Distribution:
    """The figures of one histogram, in us; None as the histogram has it."""

    count: int
    mean_us: float | None
    stddev_us: float | None
    min_us: float | None
    max_us: float | None
    #: Name of PERCENTILES -> value, None also when the sample is too small for it.
    percentiles_us: Mapping[str, float | None]
    #: Name -> 95 % confidence interval, None likewise; an upper end of None is above
    #: every value counted.
    ci95_us: Mapping[str, tuple[float, float | None] | None]
    #: Above every value: requests without an answer, and values above one hour.
    unanswered: int = 0
    overflow: int = 0

    @property
    def sample(self) -> int:
        """What the percentiles are taken over."""
        return self.count + self.unanswered + self.overflow

    def why_missing(self, statistic: str) -> str:
        """Why a statistic is None, for people."""
        return why_missing(statistic, self.count, self.unanswered, self.overflow)


def why_missing(statistic: str, count: int, unanswered: int, overflow: int) -> str:
    """Why a statistic of such a sample does not exist, for people."""
    sample = count + unanswered + overflow
    if statistic in PERCENTILES:
        needed = samples_needed(PERCENTILES[statistic])
        if sample < needed:
            return f"n/a, needs n ≥ {needed:,}"
    if unanswered:
        requests = "request" if unanswered == 1 else "requests"
        return f"n/a: {unanswered:,} {requests} had no answer"
    if overflow:
        values = "value was" if overflow == 1 else "values were"
        return f"n/a: {overflow:,} {values} above one hour"
    return "no data"


@dataclass(frozen=True, slots=True)
class Curve:
    """Durations by percentile: points (percentile as a fraction, value in us); a value
    is NaN where it lies among the requests without an answer."""

    fractions: tuple[float, ...]
    values_us: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class OperationSummary:
    stream: str
    operation: str
    kind: str
    #: Counters of the measure phase, by their names in the result.
    counts: Mapping[str, int]
    #: Counters of the whole run.
    totals: Mapping[str, int]
    throughput_per_s: float | None
    goodput_per_s: float | None
    #: Failed, timed out and unresolved requests as a share of those sent.
    error_share: float | None
    #: LDAP result code -> responses.
    result_codes: Mapping[int, int]
    #: Metric -> figures; see the module for which outcomes.
    times: Mapping[str, Distribution]
    #: Response time and service time of failures, when there are any.
    failure_times: Mapping[str, Distribution]
    #: Metric -> curve; of response time and service time.
    curves: Mapping[str, Curve]

    @property
    def title(self) -> str:
        return f"{self.stream}.{self.operation}"


@dataclass(frozen=True, slots=True)
class StreamSummary:
    name: str
    target: str
    #: 'open' or 'closed'.
    model: str
    #: Arrivals per s of an open stream; clients of a closed one.
    rate_per_s: float | None
    clients: int | None
    connections: Mapping[str, int]
    connect_time: Distribution
    operations: tuple[OperationSummary, ...]


@dataclass(frozen=True, slots=True)
class AgentSummary:
    name: str
    throughput_per_s: float | None
    completed: int
    failed: int
    response_times: Distribution
    cpu_us_per_op: float | None
    cpu_utilisation: float | None
    #: Of the workers' time in the measure phase; and the worst of their intervals.
    busy_share: float | None
    highest_busy_share: float | None
    highest_run_queue_share: float | None
    highest_steal_share: float | None
    throttled_ns: int
    clock_step_ns: int
    intervals: int
    missing_intervals: int
    #: What the agent said of itself and of its targets.
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ThresholdResult:
    expression: str
    value: float | None
    #: The value with its unit.
    shown: str
    passed: bool


@dataclass(frozen=True, slots=True)
class Summary:
    run: RunRecord
    verdict: str
    #: Why the verdict is not PASS; empty when it is.
    reasons: tuple[str, ...]
    rules: tuple[Rule, ...]
    thresholds: tuple[ThresholdResult, ...]
    #: Worth knowing, without an effect on the verdict.
    notes: tuple[str, ...]
    #: Length of the measure phase as it was run; None without any interval of it.
    measure_s: float | None
    interval_s: float
    #: Above it an interval of a worker counts as saturated.
    busy_share_limit: float
    streams: tuple[StreamSummary, ...]
    agents: tuple[AgentSummary, ...]
    timeline: Timeline
    gaps: tuple[Gap, ...]
    events: tuple[EventRecord, ...]

    @property
    def operations(self) -> tuple[OperationSummary, ...]:
        return tuple(one for stream in self.streams for one in stream.operations)

    @property
    def started_utc(self) -> str:
        """T0, or what comes nearest to it when the run did not get so far."""
        return self.run.t0_utc or self.run.started_utc or self.run.submitted_utc

    def result(self) -> dict[str, Any]:
        """The content of result.json, schema ldapslam.result/1."""
        return result_of(self)


def summarise(store: Store, run_id: str) -> Summary:
    """Reads a run once, start to end, and judges it."""
    run = store.run(run_id)
    facts = store.agents(run.run_id)
    plan = Plan(run.plan)
    validity = Validity.model_validate(dict(run.plan.get("validity") or {}))
    planned = [
        (stream["name"], operation["name"])
        for stream in run.plan.get("streams", ())
        for operation in stream["operations"]
    ]
    collected = collect(
        store.intervals(run.run_id),
        plan,
        run.agents,
        planned,
        busy_share_limit=validity.busy_share,
        run_queue_share_limit=validity.run_queue_share,
    )
    evidence = Evidence(run, plan, validity, collected, facts)
    rules = verdict.judge(evidence)
    measure_s = _measure_s(collected)
    missing = evidence.missing_intervals()
    summary = Summary(
        run=run,
        verdict="",
        reasons=(),
        rules=rules,
        thresholds=(),
        notes=verdict.notes(evidence),
        measure_s=measure_s,
        interval_s=plan.interval_s,
        busy_share_limit=validity.busy_share,
        streams=_streams(run, collected, measure_s),
        agents=tuple(
            _agent(
                name,
                collected.agents[name],
                facts.get(name, {}),
                missing[name],
                measure_s,
            )
            for name in sorted(collected.agents)
        ),
        timeline=collected.timeline,
        gaps=evidence.gaps,
        events=tuple(store.events(run.run_id)),
    )
    thresholds = _thresholds(run.plan.get("thresholds", ()), figures_of(summary))
    word, reasons = verdict.conclude(
        rules, [(one.expression, one.shown, one.passed) for one in thresholds]
    )
    return replace(summary, verdict=word, reasons=reasons, thresholds=thresholds)


def distribution(histogram: Histogram) -> Distribution:
    """The figures of a histogram that its sample supports."""
    percentiles: dict[str, float | None] = {}
    intervals: dict[str, tuple[float, float | None] | None] = {}
    for name, p in PERCENTILES.items():
        percentiles[name] = _us(histogram.reliable_percentile(p))
        intervals[name] = None
        if histogram.sample >= samples_needed(p) and (ci95 := histogram.ci95(p)):
            intervals[name] = ci95.low_ns / 1000, _us(ci95.high_ns)
    return Distribution(
        count=histogram.total,
        mean_us=_us(histogram.mean()),
        stddev_us=_us(histogram.stddev()),
        min_us=histogram.min_ns / 1000 if histogram.total else None,
        max_us=_us(histogram.percentile(100)),
        percentiles_us=percentiles,
        ci95_us=intervals,
        unanswered=histogram.unanswered,
        overflow=histogram.overflow,
    )


def _streams(
    run: RunRecord, collected: Collected, measure_s: float | None
) -> tuple[StreamSummary, ...]:
    planned = {stream["name"]: stream for stream in run.plan.get("streams", ())}
    return tuple(
        _stream(name, planned.get(name, {}), collected, measure_s)
        for name in dict.fromkeys([*planned, *collected.streams])
    )


def _stream(
    name: str,
    planned: Mapping[str, Any],
    collected: Collected,
    measure_s: float | None,
) -> StreamSummary:
    kinds = {one["name"]: one["kind"] for one in planned.get("operations", ())}
    totals = collected.streams.get(name, StreamTotals())
    return StreamSummary(
        name=name,
        target=planned.get("target", ""),
        model=planned.get("model", ""),
        rate_per_s=planned.get("rate_per_s"),
        clients=planned.get("clients"),
        connections=dict(totals.counters),
        connect_time=distribution(totals.connect_time),
        operations=tuple(
            _operation(key, kinds.get(key[1], ""), operation, measure_s)
            for key, operation in collected.operations.items()
            if key[0] == name
        ),
    )


def _operation(
    key: tuple[str, str],
    kind: str,
    totals: OperationTotals,
    measure_s: float | None,
) -> OperationSummary:
    succeeded, failed = (
        {metric: _histogram(totals, metric, outcome) for metric in METRICS}
        for outcome in ("succeeded", "failed")
    )
    measured = totals.measured
    shown = {
        **succeeded,
        **{lag: _union(succeeded[lag], failed[lag]) for lag in _LAGS},
        **{
            metric: _with_unanswered(measured, succeeded[metric])
            for metric in UNANSWERED_METRICS
        },
    }
    sent = measured["completed"] + measured["timed_out"] + measured["unresolved"]
    return OperationSummary(
        stream=key[0],
        operation=key[1],
        kind=kind,
        counts=measured,
        totals=totals.whole,
        throughput_per_s=_rate(totals.completed_in_measure, measure_s),
        goodput_per_s=_rate(totals.succeeded_in_measure, measure_s),
        error_share=(sent - measured["succeeded"]) / sent if sent else None,
        result_codes=dict(sorted(totals.result_codes.items())),
        times={metric: distribution(shown[metric]) for metric in METRICS},
        failure_times={
            metric: distribution(failed[metric])
            for metric in ("response_time", "service_time")
            if failed[metric].total
        },
        curves={metric: _curve(shown[metric]) for metric in UNANSWERED_METRICS},
    )


def _agent(
    name: str,
    totals: AgentTotals,
    facts: Mapping[str, Any],
    missing_intervals: int,
    measure_s: float | None,
) -> AgentSummary:
    workers = totals.workers.values()
    done = totals.completed_in_measure
    return AgentSummary(
        name=name,
        throughput_per_s=_rate(done, measure_s),
        completed=totals.measured["completed"],
        failed=totals.measured["failed"],
        response_times=distribution(
            _with_unanswered(totals.measured, *totals.response_times.values())
        ),
        cpu_us_per_op=totals.worker_cpu_ns / 1000 / done if done else None,
        cpu_utilisation=_ratio(
            totals.cpu_utilisation_ns, totals.cpu_utilisation_wall_ns
        ),
        busy_share=_ratio(totals.worker_busy_ns, totals.worker_wall_ns),
        highest_busy_share=max(
            (one.highest_busy_share for one in workers), default=None
        ),
        highest_run_queue_share=max(
            (one.highest_run_queue_share for one in workers), default=None
        ),
        highest_steal_share=totals.highest_steal_share,
        throttled_ns=totals.throttled_ns,
        clock_step_ns=totals.clock_step_ns,
        intervals=len(totals.seen),
        missing_intervals=missing_intervals,
        facts=facts,
    )


def _thresholds(
    expressions: Sequence[str], figures: Mapping[str, Any]
) -> tuple[ThresholdResult, ...]:
    results = []
    for expression in expressions:
        threshold: Threshold = parse_threshold(expression)
        value, passed = evaluate(threshold, figures)
        shown = threshold.format(value)
        if value is None and threshold.statistic is not None:
            shown = _worst_missing(threshold, figures)
        results.append(ThresholdResult(threshold.expression, value, shown, passed))
    return tuple(results)


def _worst_missing(threshold: Threshold, figures: Mapping[str, Any]) -> str:
    """Why a threshold has no value: of its operations without the figure, the one with
    the most requests without an answer."""
    lacking = times_lacking(threshold, figures)
    if not lacking:
        return threshold.format(None)
    worst = max(lacking, key=lambda times: times["unanswered"])
    return why_missing(
        threshold.statistic or "",
        worst["count"],
        worst["unanswered"],
        worst["overflow"],
    )


def _curve(histogram: Histogram) -> Curve:
    """Evenly spaced on the logarithmic axis 1 / (1 - p), up to the largest value."""
    if not histogram.total:
        return Curve((), ())
    last = math.log10(max(histogram.sample, 10))
    fractions = 1 - np.logspace(0, -last, _CURVE_POINTS)
    values_us = histogram.percentiles(fractions * 100) / 1000
    return Curve(tuple(fractions.tolist()), tuple(values_us.tolist()))


def _measure_s(collected: Collected) -> float | None:
    start_ns, end_ns = collected.measure_start_ns, collected.measure_end_ns
    if start_ns is None or end_ns is None or end_ns <= start_ns:
        return None
    return (end_ns - start_ns) / NS_PER_S


def _histogram(totals: OperationTotals, metric: str, outcome: str) -> Histogram:
    return totals.histograms.get((metric, outcome)) or Histogram()


def _union(*histograms: Histogram) -> Histogram:
    union = Histogram()
    for histogram in histograms:
        union.add(histogram)
    return union


def _with_unanswered(counts: Mapping[str, int], *histograms: Histogram) -> Histogram:
    """The union, and above it the requests that timed out or were lost."""
    union = _union(*histograms)
    union.unanswered = unanswered(counts)
    return union


def _rate(count: int, length_s: float | None) -> float | None:
    return count / length_s if length_s else None


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _us(value_ns: float | None) -> float | None:
    return None if value_ns is None else value_ns / 1000
