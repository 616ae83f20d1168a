# SPDX-License-Identifier: Apache-2.0
"""Makes the Summary of a run: reads its store once, start to end, and judges it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ldapslam.base.causes import FAILURE_CAUSES, LOSS_CAUSES
from ldapslam.jobs.fields.thresholds import COUNTS, SHARES, parse_threshold, share_of
from ldapslam.jobs.run_plan import PlannedOperation
from ldapslam.proto.fields import CONNECTION_COUNTERS, METRICS, OUTCOMES, SET_UP_TIMES
from ldapslam.reports.collect.clocks import clocks_of
from ldapslam.reports.collect.collect import collect_run, parts_of_run
from ldapslam.reports.collect.replication import servers_apart
from ldapslam.reports.collect.telemetry import restarts_of, telemetry, with_found
from ldapslam.reports.collect.timeline import NS_PER_S
from ldapslam.reports.collect.totals import (
    GENERATOR_LAGS,
    UNANSWERED_METRICS,
    BatchTotals,
    OperationTotals,
    ServerTotals,
    unanswered,
)
from ldapslam.reports.digest import altered_of
from ldapslam.reports.distribution import Distribution, curve, distribution
from ldapslam.reports.figures import figures_of, figures_of_run
from ldapslam.reports.model import Summary
from ldapslam.reports.rules import verdict
from ldapslam.reports.rules.criteria import judge_thresholds
from ldapslam.reports.rules.evidence import Evidence, measured_s
from ldapslam.reports.rules.operation_range import with_ranges
from ldapslam.reports.rules.outages import outages_of, with_outages
from ldapslam.reports.rules.server_figures import server_figures
from ldapslam.reports.rules.trends import trends_of
from ldapslam.reports.streams import (
    AgentSummary,
    OperationSummary,
    ServerSummary,
    StreamSummary,
)
from ldapslam.reports.uncertainty import (
    BATCHES,
    Estimate,
    effective_sample,
    ratio_interval,
    share_interval,
)
from ldapslam.results.facts import AgentFacts
from ldapslam.results.histogram import Histogram
from ldapslam.results.monitor_rows import monitor_series
from ldapslam.results.records import RunRecord
from ldapslam.results.store import Store


def summarise(
    store: Store,
    run_id: str,
    *,
    ignores_verdict: bool = False,
    from_reports: bool = False,
) -> Summary:
    """Read a run once, start to end, and judge it; `ignores_verdict`: even if the
    stored run is not what was judged; `from_reports`: see `collect_run`."""
    run = store.run(run_id)
    if ignores_verdict:
        run = replace(run, verdict=None, digest=None)
    facts = store.agents(run.run_id)
    parts = parts_of_run(store, run, facts)
    collected = collect_run(store, parts, from_reports=from_reports)
    run, plan, validity = parts[0].run, parts[0].plan, run.plan.validity
    clocks = clocks_of(store.clock_samples(run.run_id), facts)
    monitors = telemetry(
        monitor_series(store, run.run_id),
        _measure_s(run, collected.measure_end_ns),
        [
            one
            for one in map(parse_threshold, run.plan.thresholds)
            if not one.is_of_stream and one.hold_ns
        ],
    )
    events = store.events(run.run_id)
    evidence = with_outages(
        Evidence(run, plan, validity, collected, facts, clocks, monitors, events)
    )
    rules = verdict.judge(evidence)
    measure_s = measured_s(evidence.streams, collected)
    streams = tuple(
        _stream(name, evidence)
        for name in dict.fromkeys([*evidence.streams, *collected.streams])
    )
    agents = tuple(
        _agent(name, evidence, measure_s) for name in sorted(collected.agents)
    )
    blamed = verdict.blamed(rules)
    measured = figures_of(streams, agents, server_figures(evidence))
    ranged = tuple(with_ranges(measured, evidence, blamed))
    figures = (*figures_of_run(ranged, streams, measure_s), *ranged)
    thresholds = judge_thresholds(run.plan.thresholds, evidence, figures, blamed=blamed)
    failures = servers_apart(evidence.replication)
    word, reasons = verdict.conclude(
        rules, thresholds, failures, is_aborted=run.state == "aborted"
    )
    if altered := altered_of(store, run):
        why = f"the stored run is not what was judged: {'; '.join(altered)}"
        word, reasons = "INVALID", (why, *reasons)
    return Summary(
        run=run,
        verdict=word,
        reasons=reasons,
        rules=rules,
        thresholds=thresholds,
        altered=altered,
        notes=verdict.notes(evidence),
        measure_s=measure_s,
        interval_s=plan.interval_s,
        boundaries_ns=tuple(one.end_ns for one in plan.intervals),
        busy_share_limit=validity.busy_share,
        figures=figures,
        streams=streams,
        sent_requests=evidence.sent_requests,
        reconciliations=evidence.reconciliations,
        replication=evidence.replication,
        agents=agents,
        timeline=collected.timeline,
        completeness=evidence.completeness,
        clock_deviation_limit_ns=evidence.clock_deviation_limit_ns,
        monitors=evidence.monitors,
        trends=trends_of(collected.timeline, evidence.streams, monitors),
        events=with_found(
            events, [*restarts_of(monitors), *outages_of(evidence)], run.t0_utc
        ),
    )


def _measure_s(run: RunRecord, ended_ns: int | None) -> tuple[float, float]:
    """Start and end of the measure phase, since T0, as planned or as the load ended."""
    if (phase := run.plan.phase("measure")) is None:
        return math.nan, math.nan
    end_ns = min(phase.end_ns, ended_ns or phase.end_ns)
    return phase.start_ns / NS_PER_S, end_ns / NS_PER_S


def _stream(name: str, evidence: Evidence) -> StreamSummary:
    planned, collected = evidence.run.plan.stream(name), evidence.collected
    totals = evidence.totals_of(name)
    window = evidence.window_of(name)
    counters = totals.counters
    connections = {key: counters[key] for key in CONNECTION_COUNTERS}
    if planned.connections:
        # each connection's first set-up is none
        again = counters["connects"] - planned.connections
        connections["reconnects"] = max(0, again)
    return StreamSummary(
        planned=planned,
        window=window,
        connections=connections,
        failure_causes=_known(counters, FAILURE_CAUSES),
        loss_causes=_known(counters, LOSS_CAUSES),
        outage=evidence.outage_of(name),
        unsent=evidence.unsent_of(name),
        loop_share=(evidence.loop_share(name) if planned.model == "closed" else None),
        set_up={
            name: distribution(totals.set_up.get(name) or Histogram())
            for name in SET_UP_TIMES
        },
        operations=tuple(
            _operation(
                key,
                planned.operation(key[1]),
                planned.uris,
                operation,
                window.measure_s,
                evidence.plan.batch_lengths_s(BATCHES),
            )
            for key, operation in collected.operations.items()
            if key[0] == name
        ),
    )


def _operation(
    key: tuple[str, str],
    planned: PlannedOperation,
    uris: Sequence[str],
    totals: OperationTotals,
    measure_s: float | None,
    lengths_s: Sequence[float],
) -> OperationSummary:
    times_of = planned.shown_outcome
    measured = totals.measured
    shown = {
        metric: totals.union(
            metric, OUTCOMES if metric in GENERATOR_LAGS else (times_of,)
        )
        for metric in METRICS
    }
    for metric in UNANSWERED_METRICS:
        shown[metric].unanswered = unanswered(measured)
    return OperationSummary(
        stream=key[0],
        operation=key[1],
        kind=planned.kind,
        times_of=times_of,
        success_codes=frozenset(planned.success_codes),
        expected_codes=_expected_codes(planned, totals),
        counts=measured,
        totals=totals.whole,
        throughput_per_s=_rate(totals.completed_in_measure, measure_s),
        goodput_per_s=_rate(totals.succeeded_in_measure, measure_s),
        error_share=share_of("errors", measured),
        result_codes=dict(sorted(totals.result_codes.items())),
        diagnostic_messages=dict(sorted(totals.diagnostic_messages.items())),
        times={
            metric: distribution(
                shown[metric],
                [one.times for _, one in sorted(totals.batches.items())]
                if metric == "response_time"
                else None,
            )
            for metric in METRICS
        },
        outcome_times=_outcome_times(totals),
        curves={metric: curve(shown[metric]) for metric in UNANSWERED_METRICS},
        servers=tuple(
            _server(uri, totals.servers[uri], measure_s)
            for uri in uris
            if uri in totals.servers
        ),
        by_batches=_by_batches(totals, measure_s, lengths_s),
        batches=sum(
            any(one.measured[name] for name in SHARES["errors"][1])
            for one in totals.batches.values()
        ),
    )


def _by_batches(
    totals: OperationTotals, measure_s: float | None, lengths_s: Sequence[float]
) -> dict[str, Estimate]:
    """`lengths_s` are those of the batches. A rate has an interval where the stream was
    at work all the time, a mean where every request had an answer."""
    batches = [
        totals.batches.get(number) or BatchTotals() for number in range(len(lengths_s))
    ]
    found: dict[str, Estimate | None] = {}
    if measure_s and measure_s > 0.99 * sum(lengths_s):
        for name, counter in (("throughput", "completed"), ("goodput", "succeeded")):
            found[name] = ratio_interval(
                [getattr(one, counter) for one in batches], lengths_s
            )
    if not unanswered(totals.measured):
        found["mean"] = ratio_interval(
            [one.times.sum_ns / 1000 for one in batches],
            [one.times.total for one in batches],
        )
    errors, sizes = (
        [sum(one.measured[name] for name in names) for one in batches]
        for names in SHARES["errors"]
    )
    if sum(sizes):
        share = sum(errors) / sum(sizes)
        found["errors"] = share_interval(share, effective_sample(errors, sizes))
    return {name: one for name, one in found.items() if one is not None}


def _server(uri: str, totals: ServerTotals, measure_s: float | None) -> ServerSummary:
    times = {metric: totals.times[metric] for metric in UNANSWERED_METRICS}
    for histogram in times.values():
        histogram.unanswered = unanswered(totals.measured)
    return ServerSummary(
        uri=uri,
        counts=totals.measured,
        throughput_per_s=_rate(totals.completed_in_measure, measure_s),
        error_share=share_of("errors", totals.measured),
        times={metric: distribution(one) for metric, one in times.items()},
    )


#: Result codes from here on share a counter with the code -1 (csrc/core/recorder.h).
_SHARED_CODES = 128


def _expected_codes(
    planned: PlannedOperation, totals: OperationTotals
) -> frozenset[int] | None:
    """Return the expected codes; None if some of their responses were not expected."""
    codes = frozenset(
        code if code < _SHARED_CODES else -1 for code in planned.expected_codes
    )
    responses = sum(totals.result_codes[code] for code in codes)
    return codes if responses == totals.measured["expected"] else None


def _outcome_times(
    totals: OperationTotals,
) -> dict[str, Mapping[str, Distribution]]:
    times: dict[str, Mapping[str, Distribution]] = {}
    for outcome in OUTCOMES[1:]:
        found = {
            metric: distribution(histogram)
            for metric in UNANSWERED_METRICS
            if (histogram := totals.union(metric, (outcome,))).sample
        }
        if found:
            times[outcome] = found
    return times


def _agent(name: str, evidence: Evidence, measure_s: float | None) -> AgentSummary:
    totals = evidence.collected.agents[name]
    facts = evidence.facts.get(name, AgentFacts())
    clock = evidence.clocks.get(name)
    workers = totals.workers.values()
    done = totals.completed_in_measure
    responses = Histogram.union(totals.response_times.values())
    responses.unanswered = unanswered(totals.measured)
    hiccup_ns = totals.longest_hiccup_ns
    values = {
        "throughput": _rate(done, measure_s),
        **{name: totals.measured[name] for name in COUNTS},
        "cpu": _rate(totals.cpu_utilisation_ns, totals.cpu_utilisation_wall_ns),
        "cpu_per_operation": _rate(totals.worker_cpu_ns / 1000, done),
        "busy_share": _rate(totals.worker_busy_ns, totals.worker_wall_ns),
        "highest_busy_share": max(
            (one.highest_busy_share for one in workers), default=None
        ),
        "highest_run_queue_share": max(
            (one.highest_run_queue_share for one in workers), default=None
        ),
        "highest_steal_share": totals.highest_steal_share,
        "throttled": totals.throttled_ns / 1000,
        "longest_hiccup": None if hiccup_ns is None else hiccup_ns / 1000,
        "stalled_share": totals.stalled_share,
        "start_error": facts.start_error_us,
        "clock_step": totals.clock_step_ns / 1000,
        "clock_offset": facts.clock_offset_us,
        "intervals": len(totals.seen),
        "missing_intervals": evidence.completeness.missing[name],
    }
    if clock is not None:
        values["clock_deviation"] = clock.largest.ns / 1000
        values["clock_steps"] = clock.step_count
        values["clock_samples"] = len(clock.deviations)
    times = distribution(responses)
    return AgentSummary(name, times, values, totals, facts, clock)


def _known(counters: Mapping[str, int], names: Iterable[str]) -> dict[str, int]:
    """Those of the counters that are not zero."""
    return {name: counters[name] for name in names if counters[name]}


def _rate(amount: float, of: float | None) -> float | None:
    return amount / of if of else None
