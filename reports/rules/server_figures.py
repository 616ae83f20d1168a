# SPDX-License-Identifier: Apache-2.0
"""Figures of servers: what monitors read, what servers counted, replication. Pure.

The mean of a gauge has the 95 % confidence interval of its batches; of few readings it
lies between the lowest and the highest. A counter's mean is exact: what it rose by. CPU
time per operation is

    busy CPU time / operations that agents completed at the monitor's servers

of the measure phase. Its range is that of the operations: their confidence interval,
and what missing intervals leave open.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ldapslam.base.uri import host_of
from ldapslam.jobs.fields.thresholds import READING_STATISTICS, SUBJECTS
from ldapslam.reports.collect.telemetry import (
    MetricSummary,
    MonitorSummary,
    cpu_seconds,
    subjects_of,
)
from ldapslam.reports.collect.timeline import NS_PER_S
from ldapslam.reports.figures import Figure
from ldapslam.reports.rules.evidence import Evidence
from ldapslam.reports.rules.operation_range import batches_of, rate_interval
from ldapslam.reports.rules.reconciliation import Line, Reconciliation
from ldapslam.reports.uncertainty import BATCHES, Estimate, ratio_interval
from ldapslam.results.facts import ReplicationFacts


def server_figures(evidence: Evidence) -> Iterator[Figure]:
    """Yield the figures of directories, hosts, processes, entries and logs by what
    monitors read, of servers by what they counted, and of replication."""
    for (kind, subject), monitors in _by_subject(evidence.monitors).items():
        roles = dict.fromkeys(
            role
            for one in monitors
            for role, uris in one.facts.serves.items()
            if subject in (*uris, one.name)
        )
        for figure in _of_monitors(subject, monitors, evidence):
            yield replace(figure, kind=kind, roles=tuple(roles))
    yield from _requests(evidence)
    checked = evidence.replication
    if checked is not None:
        yield _convergence(checked)


def _by_subject(
    monitors: Sequence[MonitorSummary],
) -> dict[tuple[str, str], list[MonitorSummary]]:
    """Return the monitors of each server by kind and URI, each name once; those of
    entries and logs by kind and name."""
    found: defaultdict[tuple[str, str], dict[str, MonitorSummary]] = defaultdict(dict)
    for one in monitors:
        for subject in subjects_of(one.name, one.facts):
            found[one.facts.kind, subject].setdefault(one.name, one)
    return {place: list(by_name.values()) for place, by_name in found.items()}


def _of_monitors(
    subject: str, monitors: Sequence[MonitorSummary], evidence: Evidence
) -> Iterator[Figure]:
    """Yield the figures of the monitors of one server: several where several processes
    serve it, of which each figure is the sum."""

    def figure(
        metric: str,
        values: Sequence[Estimate | None],
        needs: str,
        statistic: str | None = None,
        unit: str = "",
    ) -> Figure:
        known = [one for one in values if one is not None]
        place = subject, "*", metric, statistic
        sums = [sum(column) for column in zip(*known, strict=True)]
        if len(known) < len(monitors) or not math.isfinite(sums[0]):
            return Figure(*place, None, needs=needs, read_unit=unit)
        interval = Estimate(*sums) if sums[1] < sums[2] else None
        return Figure(*place, sums[0], interval, read_unit=unit)

    yield figure("readings", [_exactly(one.readings) for one in monitors], "")
    yield figure("failed_readings", [_exactly(one.failed) for one in monitors], "")
    if monitors[0].facts.kind in ("host", "process"):
        yield figure("cpu", [_cpu(one) for one in monitors], "CPU times")
        yield figure(
            "cpu_per_operation",
            [_cpu_per_operation_us(one, evidence) for one in monitors],
            "CPU times, and operations that its servers completed",
        )
    metrics: defaultdict[str, list[MetricSummary]] = defaultdict(list)
    for monitor in monitors:
        for metric in monitor.metrics:
            metrics[metric.metric.name].append(metric)
    for name, read in metrics.items():
        for statistic in READING_STATISTICS:
            if statistic != "increase" or read[0].metric.kind == "counter":
                yield figure(
                    name,
                    [_range(one, statistic, evidence) for one in read],
                    f"readings of {name} in the measure phase",
                    statistic,
                    _unit_of(read[0], statistic),
                )


def _exactly(value: float | None) -> Estimate | None:
    return None if value is None else Estimate(value, value, value)


def _cpu(monitor: MonitorSummary) -> Estimate | None:
    busy_s, every_s = cpu_seconds(monitor.means)
    if not every_s:
        return None
    # a process has no idle time
    return _exactly(busy_s if monitor.facts.kind == "process" else busy_s / every_s)


def _cpu_per_operation_us(
    monitor: MonitorSummary, evidence: Evidence
) -> Estimate | None:
    busy_s, every_s = cpu_seconds(monitor.means)
    per_s = _operations_per_s(_servers_of(monitor, evidence), evidence)
    if not every_s or not per_s.value:
        return None
    busy_us = busy_s * 1e6
    high_us = busy_us / per_s.low if per_s.low > 0 else math.inf
    return Estimate(busy_us / per_s.value, busy_us / per_s.high, high_us)


def _operations_per_s(servers: set[str], evidence: Evidence) -> Estimate:
    """Return the rate of completions at these servers over the whole measure phase: a
    stream that worked in a part of it had no operations in the rest."""
    collected = evidence.collected
    start_ns, end_ns = collected.measure_start_ns, collected.measure_end_ns
    total = Estimate(0.0, 0.0, 0.0)
    if start_ns is None or end_ns is None or end_ns <= start_ns:
        return total
    for key, totals in collected.operations.items():
        planned = evidence.run.plan.stream(key[0])
        watched = planned.watched.get(key[1])
        uris = {watched} if watched else set(planned.uris)
        completed = totals.completed_in_measure
        if not uris <= servers:
            completed = sum(
                totals.servers[uri].completed_in_measure
                for uri in uris & servers
                if uri in totals.servers
            )
        if not completed or not uris:
            continue
        rate = rate_interval(
            "throughput",
            completed / (end_ns - start_ns) * NS_PER_S,
            key,
            batches_of(totals, evidence),
            evidence,
            completed / totals.completed_in_measure,
        )
        high = rate.high / (1 - evidence.missing_share)
        total = Estimate(
            total.value + rate.value, total.low + rate.low, total.high + high
        )
    return total


def _range(one: MetricSummary, statistic: str, evidence: Evidence) -> Estimate | None:
    if statistic == "increase":
        return _exactly(one.increase)
    lowest, mean, highest = one.lowest, one.mean, one.highest
    if lowest is None or mean is None or highest is None:
        return None
    if statistic != "mean" or one.metric.kind == "counter":
        return _exactly({"min": lowest, "mean": mean, "max": highest}[statistic])
    interval = _mean_interval(one, evidence)
    if interval is None:
        return Estimate(mean, lowest, highest)
    reach = interval.value - interval.low
    # an age or a size is not below zero
    return Estimate(mean, max(mean - reach, min(0.0, lowest)), mean + reach)


def _mean_interval(one: MetricSummary, evidence: Evidence) -> Estimate | None:
    """Return the interval of a gauge's mean, by batches of what the charts show."""
    collected = evidence.collected
    start_ns, end_ns = collected.measure_start_ns, collected.measure_end_ns
    if start_ns is None or end_ns is None:
        return None
    values = [
        value
        for at_s, value in zip(one.points.at_s, one.points.values, strict=True)
        if value is not None and start_ns <= at_s * NS_PER_S <= end_ns
    ]
    batches = np.array_split(np.array(values), min(BATCHES, max(len(values), 1)))
    with np.errstate(over="ignore", invalid="ignore"):
        return ratio_interval(
            [float(each.sum()) for each in batches], [each.size for each in batches]
        )


def _servers_of(monitor: MonitorSummary, evidence: Evidence) -> set[str]:
    """Return the servers that a monitor's CPU time is spent for; those of a host are
    all servers of the run on it."""
    servers = {uri for uris in monitor.facts.serves.values() for uri in uris}
    if monitor.facts.kind == "host":
        hosts = {host_of(uri) for uri in servers}
        planned = (uri for one in evidence.run.plan.streams for uri in one.uris)
        servers |= {uri for uri in planned if host_of(uri) in hosts}
    return servers


def _unit_of(one: MetricSummary, statistic: str) -> str:
    """Return one of UNITS; that of a counter is its rate's."""
    unit = one.metric.unit if one.metric.unit in ("s", "bytes") else "1"
    if one.metric.kind == "gauge" or statistic == "increase":
        return unit
    return {"s": "1", "bytes": "bytes_per_s"}.get(unit, "per_s")


def _requests(evidence: Evidence) -> Iterator[Figure]:
    """Yield what agents sent and what servers counted, by server and kind; of a role of
    several servers, the sums."""
    counted = evidence.reconciliations or {
        uri: Reconciliation(
            {kind: Line(sent, 0, None, 0) for kind, sent in by_kind.items()}
        )
        for uri, by_kind in evidence.sent_requests.items()
    }
    metrics = SUBJECTS["server"].metrics if evidence.reconciliations else ("sent",)
    roles = {one.target: one.uris for one in evidence.streams.values()}
    several = {role: uris for role, uris in roles.items() if len(uris) > 1}
    for subject, uris in {**{uri: (uri,) for uri in counted}, **several}.items():
        servers = [counted[uri] for uri in uris]
        own = tuple(role for role, of_role in roles.items() if of_role == uris)
        for kind in sorted({kind for one in servers for kind in one.lines}):
            line = sum((one.line(kind) for one in servers), Line(0, 0, 0, 0))
            for metric in metrics:
                value = getattr(line, metric)
                needs = "" if value is not None else "the servers' counts"
                figure = Figure(subject, kind, metric, None, value, needs=needs)
                yield replace(figure, kind="server", roles=own)


def _convergence(checked: ReplicationFacts) -> Figure:
    figure = Figure("*", "*", "after", None, None, kind="replication")
    if checked.failure:
        return replace(figure, needs="a check of replication")
    times_s = [one.after_s for one in checked.trees if one.after_s is not None]
    if times_s and len(times_s) == len(checked.trees):
        return replace(figure, value=max(times_s) * 1e6)
    # it took at least as long as was waited
    within_us = checked.within_s * 1e6
    interval = Estimate(within_us, within_us, math.inf)
    return replace(figure, value=within_us, interval=interval)
