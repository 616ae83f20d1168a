# SPDX-License-Identifier: Apache-2.0
"""What a figure of a server may be, against a limit. Pure.

The mean of a gauge has the 95 % confidence interval of its batches; of few readings it
lies between the lowest and the highest. A counter's mean is exact: what it rose by. CPU
time per operation is

    busy CPU time / operations that agents completed at the monitor's servers

of the measure phase. Its range is that of the operations: their confidence interval,
and what missing intervals leave open.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ldapslam.base.uri import host_of
from ldapslam.jobs.fields.thresholds import (
    READING_STATISTICS,
    UNIT_NAMES,
    Convergence,
    CountedRequests,
    MonitorReading,
    ServerThreshold,
)
from ldapslam.reports.collect.telemetry import (
    MetricSummary,
    MonitorSummary,
    Stretch,
    cpu_seconds,
)
from ldapslam.reports.collect.timeline import NS_PER_S
from ldapslam.reports.rules.evidence import Evidence
from ldapslam.reports.rules.operation_range import (
    LONGER,
    Judged,
    Outcome,
    batches_of,
    rate_interval,
    sooner,
)
from ldapslam.reports.uncertainty import BATCHES, Estimate, ratio_interval


class _Unknown(Exception):
    """There is no value; says why."""


def with_cpu_per_operation(evidence: Evidence) -> Evidence:
    """Return the evidence with the CPU time per operation of each host and process."""
    monitors = tuple(
        replace(one, cpu_per_operation_us=_cpu_per_operation_us(one, evidence))
        for one in evidence.monitors
    )
    return replace(evidence, monitors=monitors)


def _cpu_per_operation_us(
    monitor: MonitorSummary, evidence: Evidence
) -> Estimate | None:
    if monitor.facts.kind not in ("host", "process"):
        return None
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


def judge_servers(
    threshold: ServerThreshold, evidence: Evidence, blamed: frozenset[str]
) -> dict[str, Judged]:
    """Judge each server, or group of servers, by itself; `blamed`: rules about the
    generator that fail."""
    match threshold.figure:
        case MonitorReading(role=role):
            servers = servers_of_role(role, evidence)
        case CountedRequests(kind):
            groups = evidence.reconciliations.items()
            servers = [name for name, group in groups if kind in group.lines]
        case Convergence():
            servers = []
    return {
        server: _judge(threshold, server, evidence, blamed)
        for server in servers or [""]
    }


def servers_of_role(role: str, evidence: Evidence) -> list[str]:
    """Return the URIs of a role that monitors read."""
    serves = (one.facts.serves for one in evidence.monitors)
    return list(dict.fromkeys(uri for roles in serves for uri in roles.get(role, ())))


def _judge(
    threshold: ServerThreshold,
    server: str,
    evidence: Evidence,
    blamed: frozenset[str],
) -> Judged:
    try:
        value, low, high = _estimate(threshold, server, evidence)
    except _Unknown as unknown:
        return Judged(Outcome.UNCERTAIN, None, "n/a", "", str(unknown))
    is_in_doubt = blamed and _is_of_operations(threshold)
    if is_in_doubt:
        low, high = 0.0, math.inf
    shown, text = threshold.format(value), ""
    if low < high:
        upper = "any" if math.isinf(high) else threshold.format(high)
        text = f"{threshold.format(low)} to {upper}"
    met = {threshold.holds(end) for end in (low, high)}
    if len(met) == 1:
        outcome = Outcome.MET if met == {True} else Outcome.MISSED
        return Judged(outcome, value, shown, text)
    detail, remedy = "", LONGER
    if is_in_doubt:
        detail, remedy = "the generator was at fault", sooner(evidence)
    return Judged(Outcome.UNCERTAIN, value, shown, text, detail, remedy)


def _is_of_operations(threshold: ServerThreshold) -> bool:
    """Whether what agents completed is a part of its figure."""
    return getattr(threshold.figure, "metric", "") == "cpu_per_operation"


def _estimate(threshold: ServerThreshold, server: str, evidence: Evidence) -> Estimate:
    match threshold.figure:
        case MonitorReading() as reading:
            monitors = _monitors_of(reading, server, evidence)
            _check_unit(threshold, reading, monitors)
            estimates = [_value(reading, one, evidence) for one in monitors]
            # of several processes of a server, all of them
            return Estimate(*map(math.fsum, zip(*estimates, strict=True)))
        case CountedRequests(kind):
            group = evidence.reconciliations.get(server)
            per_sent = group.lines[kind].per_sent if group else None
            if per_sent is None:
                raise _Unknown(f"the number of {kind} requests is not known")
            return Estimate(per_sent, per_sent, per_sent)
        case Convergence():
            return _convergence(evidence)


def _convergence(evidence: Evidence) -> Estimate:
    checked = evidence.replication
    if checked is None or checked.failure:
        raise _Unknown("replication was not checked")
    after_s = checked.after_s
    if after_s is None:
        # it took at least as long as was waited
        within_s = checked.within_s
        return Estimate(within_s, within_s, math.inf)
    return Estimate(after_s, after_s, after_s)


def _check_unit(
    threshold: ServerThreshold,
    reading: MonitorReading,
    monitors: Sequence[MonitorSummary],
) -> None:
    unit = reading.unit or _unit_of(_metric(monitors[0], reading.metric))
    if unit != threshold.unit:
        raise _Unknown(
            f"it is {UNIT_NAMES[unit]}, and is compared with "
            f"{UNIT_NAMES[threshold.unit]}"
        )


def _value(
    reading: MonitorReading, monitor: MonitorSummary, evidence: Evidence
) -> Estimate:
    if reading.is_of_cpu:
        return _cpu(reading, monitor)
    return _range(_metric(monitor, reading.metric), reading, evidence)


def _cpu(reading: MonitorReading, monitor: MonitorSummary) -> Estimate:
    if reading.metric == "cpu_per_operation":
        if (known := monitor.cpu_per_operation_us) is None:
            raise _Unknown(f"no CPU time per operation is known of {monitor.name}")
        return Estimate(*(value / 1e6 for value in known))
    busy_s, every_s = cpu_seconds(monitor.means)
    if not every_s:
        raise _Unknown(f"no CPU times were read of {monitor.name}")
    # a process has no idle time
    used = busy_s if reading.monitor == "process" else busy_s / every_s
    return Estimate(used, used, used)


def _range(one: MetricSummary, reading: MonitorReading, evidence: Evidence) -> Estimate:
    value: float | None = getattr(one, READING_STATISTICS[reading.statistic])
    if value is None or one.lowest is None or one.highest is None:
        raise _Unknown(f"{reading.metric} was not read in the measure phase")
    if reading.statistic != "mean" or one.metric.kind == "counter":
        return Estimate(value, value, value)
    interval = _mean_interval(one, evidence)
    if interval is None:
        return Estimate(value, one.lowest, one.highest)
    reach = interval.value - interval.low
    return Estimate(value, value - reach, value + reach)


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


def stretches(
    threshold: ServerThreshold, evidence: Evidence
) -> Iterator[tuple[str, Stretch | str]]:
    """Yield each server of the role of a threshold with `for`, and for how long its
    readings miss it, or why that is not known."""
    reading = threshold.figure
    assert isinstance(reading, MonitorReading), "no other has `for`"
    for uri in servers_of_role(reading.role, evidence) or [""]:
        try:
            monitors = _monitors_of(reading, uri, evidence)
            _check_unit(threshold, reading, monitors)
            found = [one.stretches.get(threshold.expression) for one in monitors]
            if len(found) > 1:
                raise _Unknown(f"{len(found)} processes serve it, each by itself")
            unread = f"{reading.metric} was not read in the measure phase"
            yield uri, found[0] or unread
        except _Unknown as unknown:
            yield uri, str(unknown)


def _monitors_of(
    reading: MonitorReading, uri: str, evidence: Evidence
) -> list[MonitorSummary]:
    """Return the monitors that read this server: several where several processes
    serve it."""
    monitors = [
        one
        for one in evidence.monitors
        if one.facts.kind == reading.monitor
        and uri in one.facts.serves.get(reading.role, ())
    ]
    if not monitors:
        raise _Unknown(f"nothing was read of the {reading.monitor} of {reading.role}")
    return monitors


def _metric(monitor: MonitorSummary, name: str) -> MetricSummary:
    for one in monitor.metrics:
        if one.metric.name == name:
            return one
    raise _Unknown(f"{monitor.name} has no {name}")


def _unit_of(one: MetricSummary) -> str:
    """Return one of UNIT_NAMES; that of a counter is its rate's."""
    if one.metric.kind == "counter":
        return {"s": "1", "bytes": "bytes_per_s"}.get(one.metric.unit, "per_s")
    return one.metric.unit if one.metric.unit in ("s", "bytes") else "1"
