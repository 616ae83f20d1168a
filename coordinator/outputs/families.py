# SPDX-License-Identifier: Apache-2.0
"""Families of metrics under Prometheus' names: fleet, runs, bounds, store. Pure.

docs/how-to/metrics.md lists them.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    SummaryMetricFamily,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.utils import floatToGoString

from ldapslam import __version__
from ldapslam.coordinator.bounds import Bound
from ldapslam.coordinator.outputs.shown_runs import (
    MAX_OPERATIONS,
    REQUEST_OUTCOMES,
    RunFigures,
    ShownRuns,
)
from ldapslam.coordinator.outputs.time_buckets import BORDERS_S
from ldapslam.proto import operator_pb2 as pb
from ldapslam.results.store import Store
from ldapslam.results.upkeep import file_bytes

_NS_PER_S = 1e9
_US_PER_S = 1e6
#: States of agents that are present.
_PRESENT = frozenset({"idle", "assigned", "silent"})
_BORDERS = [*map(floatToGoString, BORDERS_S), "+Inf"]


def _gauge(
    name: str, text: str, *labels: str, value: float | None = None
) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"ldapslam_{name}", text, value, labels or None)


def _total(
    name: str, text: str, *labels: str, value: float | None = None
) -> CounterMetricFamily:
    return CounterMetricFamily(f"ldapslam_{name}", text, value, labels or None)


def build_families() -> Iterator[Metric]:
    family = _gauge("build_info", "Version of ldapslam; always 1.", "version")
    family.add_metric([__version__], 1)
    yield family


def fleet_families(fleet: pb.ListAgentsReply) -> Iterator[Metric]:
    states = _gauge("agents", "Agents by state.", "state")
    counts = Counter(agent.state for agent in fleet.agents)
    for state in sorted({*counts, *_PRESENT}):
        states.add_metric([state], counts[state])
    yield states

    def gauge(name: str, text: str) -> GaugeMetricFamily:
        return _gauge(f"agent_{name}", text, "agent")

    silent = gauge("silent_seconds", "Since the agent's last sign of life.")
    offset = gauge("clock_offset_seconds", "Agent's clock minus the coordinator's.")
    bound = gauge("clock_offset_bound_seconds", "How far the offset may be off.")
    runs = gauge("runs", "Runs the agent has a part in.")
    cpu = gauge("cpu_utilisation_ratio", "Busy share of the agent's host, 0 to 1.")
    memory = gauge("memory_available_bytes", "Available on the agent's host.")
    spool = gauge("spool_bytes", "Measured and not delivered yet.")
    reports = gauge("spool_reports", "Reports not delivered yet.")
    free = gauge("spool_free_bytes", "Free where the agent's spool is.")
    optional = {
        "cpu_utilisation": cpu,
        "memory_available_bytes": memory,
        "spool_free_bytes": free,
    }
    for agent in fleet.agents:
        if agent.state not in _PRESENT:
            continue
        labels = [agent.name]
        silent.add_metric(labels, agent.silent_ns / _NS_PER_S)
        runs.add_metric(labels, len(agent.run_ids))
        if agent.HasField("clock_offset_bound_ns"):
            offset.add_metric(labels, agent.clock_offset_ns / _NS_PER_S)
            bound.add_metric(labels, agent.clock_offset_bound_ns / _NS_PER_S)
        if not agent.HasField("load"):
            continue
        load = agent.load
        spool.add_metric(labels, load.spool_bytes)
        reports.add_metric(labels, load.spool_reports)
        for name, family in optional.items():
            if load.HasField(name):
                family.add_metric(labels, getattr(load, name))
    yield from (silent, offset, bound, runs, cpu, memory, spool, reports, free)


def state_families(runs: ShownRuns) -> Iterator[Metric]:
    """Runs by state, and by how they ended."""
    live = _gauge("runs", "Runs that have not ended, by state.", "state")
    for state, count in sorted(runs.states().items()):
        live.add_metric([state], count)
    text = "Runs that ended since the coordinator's start."
    ended = _total("runs_ended", text, "state", "verdict")
    for (state, verdict), count in sorted(runs.ended.items()):
        ended.add_metric([state, verdict], count)
    yield from (live, ended)


_RUN = ["run", "job"]
_STREAM = [*_RUN, "stream"]
_OPERATION = [*_STREAM, "operation"]


def run_families(shown: Sequence[RunFigures]) -> Iterator[Metric]:
    """The last interval of each run, and its totals since T0."""
    yield from _whole_runs(shown)
    yield from _streams(shown)
    yield from _operations(shown)


def _whole_runs(shown: Sequence[RunFigures]) -> Iterator[Metric]:
    def gauge(name: str, text: str, *more: str) -> GaugeMetricFamily:
        return _gauge(f"run_{name}", text, *_RUN, *more)

    interval = gauge("interval", "Number of the last complete interval.")
    phase = gauge("phase", "Phase of that interval; always 1.", "phase")
    reported = gauge("agents_reported", "Agents that reported it.")
    planned = gauge("agents_planned", "Agents of the run.")
    busy = gauge("busy_ratio", "Busiest worker of the fleet, 0 to 1.")
    lag = gauge("send_lag_p99_seconds", "Requests sent late by the generator.")
    hiccup = gauge("hiccup_max_seconds", "Longest that an agent's host woke up late.")
    verdict = gauge("verdict", "Of a run that has ended; always 1.", "verdict")
    for run in shown:
        labels = [run.run_id, run.job_name]
        if run.verdict is not None:
            verdict.add_metric([*labels, run.verdict], 1)
        if (figures := run.interval) is None:
            continue
        interval.add_metric(labels, figures.index)
        phase.add_metric([*labels, figures.phase], 1)
        reported.add_metric(labels, figures.agents_reported)
        planned.add_metric(labels, figures.agents_planned)
        busy.add_metric(labels, figures.busy_share)
        if run.send_lag_p99_ns is not None:
            lag.add_metric(labels, run.send_lag_p99_ns / _NS_PER_S)
        if run.hiccup_max_ns is not None:
            hiccup.add_metric(labels, run.hiccup_max_ns / _NS_PER_S)
    yield from (interval, phase, reported, planned, busy, lag, hiccup, verdict)


def _streams(shown: Sequence[RunFigures]) -> Iterator[Metric]:
    def gauge(name: str, text: str) -> GaugeMetricFamily:
        return _gauge(f"stream_{name}", text, *_STREAM)

    def total(name: str, text: str) -> CounterMetricFamily:
        return _total(f"stream_{name}", text, *_STREAM)

    rate = gauge("throughput_per_second", "Completions, any result.")
    percentiles = {
        p: gauge(f"response_time_{p}_seconds", "Of the last interval.")
        for p in ("p50", "p95", "p99")
    }
    in_flight = gauge("in_flight", "Requests sent and not done.")
    backlog = gauge("backlog", "Arrivals that wait for a slot.")
    clients = gauge("clients", "Virtual clients of a closed loop.")
    connections = gauge("connections", "Connections that the job asks for.")
    down = gauge("connections_down", "Not there in the last interval, on average.")
    totals = {
        "completed": total("completed", "Requests with a response."),
        "errors": total("errors", "Failed, timed out, unresolved and dropped."),
        "dropped": total("dropped", "Arrivals that were never sent."),
        "connects": total("connects", "Connections that were set up."),
        "connect_failures": total("connect_failures", "Set-ups that failed."),
        "disconnects": total("disconnects", "Connections that were lost."),
    }
    for run in shown:
        for name, stream in run.streams.items():
            last, of = stream.last, [run.run_id, run.job_name, name]
            rate.add_metric(of, last.total.throughput_per_s)
            in_flight.add_metric(of, last.in_flight)
            backlog.add_metric(of, last.backlog)
            connections.add_metric(of, last.connections)
            down.add_metric(of, last.connections_down)
            for what, family in totals.items():
                family.add_metric(of, stream.totals[what])
            if last.HasField("clients"):
                clients.add_metric(of, last.clients)
            # with too few samples there is no percentile, and no series
            for p, percentile in percentiles.items():
                if last.total.HasField(name := f"response_time_{p}_us"):
                    percentile.add_metric(of, getattr(last.total, name) / _US_PER_S)
    yield from (rate, *percentiles.values(), in_flight, backlog, clients)
    yield from (connections, down, *totals.values())


def _operations(shown: Sequence[RunFigures]) -> Iterator[Metric]:
    def total(name: str, text: str, *more: str) -> CounterMetricFamily:
        return _total(f"operation_{name}", text, *_OPERATION, *more)

    def times(name: str, text: str) -> HistogramMetricFamily:
        name, labels = f"ldapslam_operation_{name}_seconds", [*_OPERATION, "outcome"]
        return HistogramMetricFamily(name, text, labels=labels)

    scheduled = total("scheduled", "Requests that were due.")
    requests = total("requests", "Requests by what became of them.", "outcome")
    responses = total("responses", "Responses by result code.", "result_code")
    entries = total("entries", "Entries that searches returned.")
    histograms: dict[str, HistogramMetricFamily] = {
        "response_time": times("response_time", "From when a request was due."),
        "service_time": times("service_time", "From when a request was sent."),
    }
    operations = (
        ([run.run_id, run.job_name, *key], operation)
        for run in shown
        for key, operation in run.operations.items()
    )
    for of, operation in itertools.islice(operations, MAX_OPERATIONS):
        scheduled.add_metric(of, operation.counts["scheduled"])
        entries.add_metric(of, operation.counts["entries"])
        for outcome in REQUEST_OUTCOMES:
            requests.add_metric([*of, outcome], operation.counts[outcome])
        for code, count in operation.result_codes.items():
            responses.add_metric([*of, code], count)
        for (metric, outcome), buckets in operation.times.items():
            histograms[metric].add_metric(
                [*of, outcome],
                list(zip(_BORDERS, itertools.accumulate(buckets.counts), strict=True)),
                buckets.sum_s,
            )
    yield from (scheduled, requests, responses, entries, *histograms.values())


def bound_families(
    bounds: Mapping[str, tuple[Callable[[], float], float]],
    exceeded: Mapping[Bound, int],
) -> Iterator[Metric]:
    """How much there is of what is bounded, and how often it was too much."""
    used = _gauge("bound_used", "Of what is bounded, now.", "bound")
    most = _gauge("bound_most", "As much of it there may be.", "bound")
    for name, (now, limit) in sorted(bounds.items()):
        used.add_metric([name], now())
        most.add_metric([name], limit)
    text = "How often something was refused, dropped or cut off."
    times = _total("bound_exceeded", text, "bound")
    for bound, count in exceeded.items():
        times.add_metric([bound], count)
    yield from (used, most, times)


def store_families(store: Store) -> Iterator[Metric]:
    writes = store.writes
    if store.path is not None:
        size_bytes, text = (
            file_bytes(store.path),
            "Size of the store's file and its log.",
        )
        yield _gauge("store_bytes", text, value=size_bytes)
    yield SummaryMetricFamily(
        "ldapslam_store_commit_seconds",
        "Time that transactions take, waiting for other writers included.",
        count_value=writes.commits,
        sum_value=writes.total_s,
    )
    text = "Time that the last transaction took."
    yield _gauge("store_last_commit_seconds", text, value=writes.last_s)
    text = "Transactions that failed."
    yield _total("store_write_failures", text, value=writes.failures)
    text = "1 when the last write was committed."
    yield _gauge("store_writable", text, value=0 if writes.failure else 1)
