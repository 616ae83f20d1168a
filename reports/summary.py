# SPDX-License-Identifier: Apache-2.0
"""Every figure of a run's report, computed once; all formats show this Summary.

Figures cover the measure phase: percentiles the requests whose intended time lies in
it, throughput the completions that happened in it. Response time, service time and
backlog wait are those of successes, with the other outcomes apart; send lag and receive
lag, the generator's own, are those of all requests. Requests without an answer rank
above every response time and service time. A figure without enough data is None, and so
is one that hangs on requests without an answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from ldapslam.jobs.thresholds import (
    KINDS_WITHOUT_RESPONSE,
    Threshold,
    error_share,
    evaluate,
    parse_threshold,
    times_lacking,
)
from ldapslam.jobs.validity import Validity
from ldapslam.proto.fields import (
    CONNECTION_COUNTERS,
    METRICS,
    OUTCOMES,
    SET_UP_TIMES,
)
from ldapslam.reports import verdict
from ldapslam.reports.balance import Account
from ldapslam.reports.books import Books, keep_books
from ldapslam.reports.clocks import Clock, clocks_of
from ldapslam.reports.completeness import Completeness, Gap
from ldapslam.reports.distribution import (
    Curve,
    Distribution,
    curve,
    distribution,
    why_missing,
)
from ldapslam.reports.evidence import Evidence
from ldapslam.reports.parts import collect_run
from ldapslam.reports.replication import Replication
from ldapslam.reports.result import figures_of, result_of
from ldapslam.reports.results.columns import extent
from ldapslam.reports.results.histogram import Histogram
from ldapslam.reports.results.monitor_rows import monitor_series
from ldapslam.reports.results.records import EventRecord, RunRecord
from ldapslam.reports.results.store import Store
from ldapslam.reports.rule import Rule
from ldapslam.reports.telemetry import MonitorSummary, telemetry, with_restarts
from ldapslam.reports.timeline import NS_PER_S, Plan, Timeline, wanted_outcome
from ldapslam.reports.totals import (
    GENERATOR_LAGS,
    UNANSWERED_METRICS,
    AgentTotals,
    OperationTotals,
    unanswered,
)
from ldapslam.reports.windows import Window, measured_s


@dataclass(frozen=True, slots=True)
class OperationSummary:
    stream: str
    operation: str
    kind: str
    #: 'succeeded', or 'expected' where the job expects no success: what `times` and
    #: `curves` are of.
    times_of: str
    #: The result codes that count as succeeded, and as expected.
    success_codes: frozenset[int]
    expected_codes: frozenset[int]
    #: Counters of the measure phase, by their names in the result.
    counts: Mapping[str, int]
    #: Counters of the whole run.
    totals: Mapping[str, int]
    throughput_per_s: float | None
    goodput_per_s: float | None
    #: Unexpectedly failed, timed out and unresolved requests as a share of those sent.
    error_share: float | None
    #: LDAP result code -> responses.
    result_codes: Mapping[int, int]
    #: Metric -> figures; see the module for which outcomes.
    times: Mapping[str, Distribution]
    #: Outcome other than success, when there are any -> response time and service
    #: time; of requests without an answer up to when they were given up.
    outcome_times: Mapping[str, Mapping[str, Distribution]]
    #: Metric -> curve; of response time and service time.
    curves: Mapping[str, Curve]

    @property
    def title(self) -> str:
        return f"{self.stream}.{self.operation}"

    @property
    def has_responses(self) -> bool:
        """False: no response is due, so there are no times."""
        return self.kind not in KINDS_WITHOUT_RESPONSE

    def outcome_of(self, code: int) -> str:
        """'succeeded', 'expected' or 'failed', of a response with this result code."""
        if code in self.success_codes:
            return "succeeded"
        return "expected" if code in self.expected_codes else "failed"


@dataclass(frozen=True, slots=True)
class StreamSummary:
    name: str
    target: str
    #: 'open' or 'closed'.
    model: str
    #: Arrivals per s of an open stream, on average and at most; clients of a closed
    #: one.
    rate_per_s: float | None
    peak_rate_per_s: float | None
    clients: int | None
    #: Sessions after which it ends; None: with the run.
    count: int | None
    #: 'native', or 'python': without kernel receive stamps.
    engine: str
    window: Window
    connections: Mapping[str, int]
    #: Part of the measured time that a connection was down, on average (evidence.py).
    down_share: float | None
    #: Name in SET_UP_TIMES -> figures of the whole run.
    set_up: Mapping[str, Distribution]
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
    #: Interval -> step of the wall clock in it, the first of them; and how many.
    clock_steps_ns: Mapping[int, int]
    stepped: int
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
    #: Ends of the planned intervals.
    boundaries_ns: Sequence[int]
    #: Above it an interval of a worker counts as saturated.
    busy_share_limit: float
    streams: tuple[StreamSummary, ...]
    agents: tuple[AgentSummary, ...]
    books: Books
    #: The same with the servers' counts; of runs that watched their servers.
    balances: Mapping[str, Account]
    #: What was found after the load; None when the job did not ask.
    replication: Replication | None
    timeline: Timeline
    completeness: Completeness
    #: Agent -> its clock over the run; of those that were sampled.
    clocks: Mapping[str, Clock]
    clock_deviation_limit_ns: float
    monitors: tuple[MonitorSummary, ...]
    events: tuple[EventRecord, ...]

    @property
    def operations(self) -> tuple[OperationSummary, ...]:
        return tuple(one for stream in self.streams for one in stream.operations)

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """Intervals that agents owed and the store does not have."""
        return self.completeness.gaps

    @property
    def timed(self) -> tuple[OperationSummary, ...]:
        """The operations that have response times."""
        return tuple(one for one in self.operations if one.has_responses)

    @property
    def started_utc(self) -> str:
        """T0, or what comes nearest to it when the run did not get so far."""
        return self.run.t0_utc or self.run.started_utc or self.run.submitted_utc

    def since_start_s(self, at_utc: str) -> float | None:
        """A time of day as s since T0; None when there was no T0."""
        if self.run.t0_utc is None:
            return None
        t0 = datetime.fromisoformat(self.run.t0_utc)
        return (datetime.fromisoformat(at_utc) - t0).total_seconds()

    def result(self) -> dict[str, Any]:
        """The content of result.json, schema ldapslam.result/1."""
        return result_of(self)


def summarise(store: Store, run_id: str) -> Summary:
    """Reads a run once, start to end, and judges it."""
    run = store.run(run_id)
    facts = store.agents(run.run_id)
    found = extent(store, run.run_id)
    plan = Plan(run.plan, found.last)
    validity = Validity.model_validate(dict(run.plan.get("validity") or {}))
    planned = [
        (stream["name"], operation["name"])
        for stream in run.plan.get("streams", ())
        if not stream.get("is_replay")  # those that its log has are found
        for operation in stream["operations"]
    ]
    collected = collect_run(
        store,
        run,
        plan,
        found,
        planned,
        busy_share_limit=validity.busy_share,
        run_queue_share_limit=validity.run_queue_share,
    )
    clocks = clocks_of(store.clock_samples(run.run_id), facts)
    monitors = telemetry(monitor_series(store, run.run_id), _measure_s(run))
    events = store.events(run.run_id)
    evidence = Evidence(run, plan, validity, collected, facts, clocks, monitors, events)
    rules = verdict.judge(evidence)
    measure_s = measured_s(evidence.streams, collected)
    missing = evidence.completeness.missing
    summary = Summary(
        run=run,
        verdict="",
        reasons=(),
        rules=rules,
        thresholds=(),
        notes=verdict.notes(evidence),
        measure_s=measure_s,
        interval_s=plan.interval_s,
        boundaries_ns=tuple(one.end_ns for one in plan.intervals),
        busy_share_limit=validity.busy_share,
        streams=_streams(evidence),
        books=keep_books(run, collected),
        balances=evidence.balances,
        replication=evidence.replication,
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
        completeness=evidence.completeness,
        clocks=clocks,
        clock_deviation_limit_ns=evidence.clock_deviation_limit_ns,
        monitors=monitors,
        events=with_restarts(events, monitors, run.t0_utc),
    )
    thresholds = _thresholds(run.plan.get("thresholds", ()), figures_of(summary))
    word, reasons = verdict.conclude(
        rules,
        [(one.expression, one.shown, one.passed) for one in thresholds],
        evidence.replication.failures if evidence.replication else (),
    )
    return replace(summary, verdict=word, reasons=reasons, thresholds=thresholds)


def _measure_s(run: RunRecord) -> tuple[float, float] | None:
    """Start and end of the measure phase as planned, since T0."""
    for phase in run.plan.get("phases", ()):
        if phase["name"] == "measure":
            return phase["start_ns"] / NS_PER_S, phase["end_ns"] / NS_PER_S
    return None


def _streams(evidence: Evidence) -> tuple[StreamSummary, ...]:
    names = dict.fromkeys([*evidence.streams, *evidence.collected.streams])
    return tuple(_stream(name, evidence) for name in names)


def _stream(name: str, evidence: Evidence) -> StreamSummary:
    planned, collected = evidence.streams.get(name, {}), evidence.collected
    operations = {one["name"]: one for one in planned.get("operations", ())}
    totals = evidence.totals_of(name)
    window = evidence.window_of(name)
    connections = {key: totals.counters[key] for key in CONNECTION_COUNTERS}
    if "connections" in planned:
        # each connection's first set-up is none
        again = totals.counters["connects"] - planned["connections"]
        connections["reconnects"] = max(0, again)
    return StreamSummary(
        name=name,
        target=planned.get("target", ""),
        model=planned.get("model", ""),
        rate_per_s=planned.get("rate_per_s"),
        peak_rate_per_s=planned.get("peak_rate_per_s"),
        clients=planned.get("clients"),
        count=planned.get("count"),
        engine=planned.get("engine", "native"),
        window=window,
        connections=connections,
        down_share=evidence.down_share(name),
        set_up={
            name: distribution(totals.set_up.get(name) or Histogram())
            for name in SET_UP_TIMES
        },
        operations=tuple(
            _operation(key, operations.get(key[1], {}), operation, window.measure_s)
            for key, operation in collected.operations.items()
            if key[0] == name
        ),
    )


def _operation(
    key: tuple[str, str],
    planned: Mapping[str, Any],
    totals: OperationTotals,
    measure_s: float | None,
) -> OperationSummary:
    times_of = wanted_outcome(planned)
    wanted = {metric: _histogram(totals, metric, times_of) for metric in METRICS}
    measured = totals.measured
    shown = {
        **wanted,
        **{
            lag: _union(*(_histogram(totals, lag, outcome) for outcome in OUTCOMES))
            for lag in GENERATOR_LAGS
        },
        **{
            metric: _with_unanswered(measured, wanted[metric])
            for metric in UNANSWERED_METRICS
        },
    }
    return OperationSummary(
        stream=key[0],
        operation=key[1],
        kind=planned.get("kind", ""),
        times_of=times_of,
        success_codes=frozenset(planned.get("success_codes", (0,))),
        expected_codes=frozenset(planned.get("expected_codes", ())),
        counts=measured,
        totals=totals.whole,
        throughput_per_s=_rate(totals.completed_in_measure, measure_s),
        goodput_per_s=_rate(totals.succeeded_in_measure, measure_s),
        error_share=error_share(measured),
        result_codes=dict(sorted(totals.result_codes.items())),
        times={metric: distribution(shown[metric]) for metric in METRICS},
        outcome_times=_outcome_times(totals),
        curves={metric: curve(shown[metric]) for metric in UNANSWERED_METRICS},
    )


def _outcome_times(
    totals: OperationTotals,
) -> dict[str, Mapping[str, Distribution]]:
    times: dict[str, Mapping[str, Distribution]] = {}
    for outcome in OUTCOMES[1:]:
        found = {
            metric: histogram
            for metric in UNANSWERED_METRICS
            if (histogram := _histogram(totals, metric, outcome)).sample
        }
        if found:
            times[outcome] = {
                metric: distribution(histogram) for metric, histogram in found.items()
            }
    return times


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
        clock_steps_ns=totals.clock_steps_ns,
        stepped=totals.stepped,
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
