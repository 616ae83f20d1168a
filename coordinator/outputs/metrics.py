# SPDX-License-Identifier: Apache-2.0
"""The coordinator's figures for Prometheus: fleet, runs, intervals, store.

Made when they are asked for, on the event loop, of what is there at that moment: a run
or an agent that is gone has no series. The figures are those of operators who watch; a
report's are computed from the store.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    SummaryMetricFamily,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from ldapslam.coordinator.control import Coordinator
from ldapslam.coordinator.extension import Extension
from ldapslam.coordinator.outputs.run_figures import Watchlist
from ldapslam.proto import operator_pb2 as pb
from ldapslam.results.records import RunRecord, utc_text
from ldapslam.results.store import Store
from ldapslam.results.upkeep import file_bytes
from ldapslam.transport.messages import build_version
from ldapslam.transport.metrics_server import exposed

#: The event loop has so long to answer.
_ANSWER_TIMEOUT_S = 5.0
_NS_PER_S = 1e9
_US_PER_S = 1e6
#: Agents of these states are there.
_PRESENT = frozenset({"idle", "assigned", "silent"})


class Metrics(Extension):
    """Exposes what a coordinator does, at an address of its own."""

    def __init__(self, place: tuple[str, int]) -> None:
        self._place = place
        self._watchlist = Watchlist(since_utc=utc_text(datetime.now(UTC)))
        self._exposed: AbstractContextManager[object] | None = None

    def run_changed(self, status: pb.RunStatus) -> None:
        self._watchlist.run_changed(status)

    def interval_measured(self, run_id: str, figures: pb.IntervalFigures) -> None:
        self._watchlist.interval_measured(run_id, figures)

    def run_judged(self, record: RunRecord, reasons: Sequence[str]) -> None:
        self._watchlist.run_judged(record)

    async def start(self, coordinator: Coordinator, server: Any) -> None:
        registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        registry.register(
            _OnLoop(asyncio.get_running_loop(), lambda: self._families(coordinator))
        )
        served = exposed(registry, self._place)
        served.__enter__()
        self._exposed = served

    async def stop(self) -> None:
        if self._exposed is not None:
            # it waits for what is being answered, which needs this loop
            await asyncio.to_thread(self._exposed.__exit__, None, None, None)

    def _families(self, coordinator: Coordinator) -> list[Metric]:
        return [
            *_build(),
            *fleet_families(coordinator.operators.agents()),
            *run_families(self._watchlist),
            *store_families(coordinator.journal.store),
        ]


class _OnLoop(Collector):
    """Asks the loop's thread, from whichever thread the scrape is in."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, families: Callable[[], list[Metric]]
    ) -> None:
        self._loop = loop
        self._families = families

    def describe(self) -> list[Metric]:
        # else the registry would collect once to know the names
        return []

    def collect(self) -> Iterator[Metric]:
        async def ask() -> list[Metric]:
            return self._families()

        asked = asyncio.run_coroutine_threadsafe(ask(), self._loop)
        yield from asked.result(_ANSWER_TIMEOUT_S)


def _build() -> Iterator[Metric]:
    family = GaugeMetricFamily(
        "ldapslam_build_info", "Version of ldapslam; always 1.", labels=["version"]
    )
    family.add_metric([build_version()], 1)
    yield family


def fleet_families(fleet: pb.ListAgentsReply) -> Iterator[Metric]:
    """Agents by state, and each that is there."""
    states = GaugeMetricFamily("ldapslam_agents", "Agents by state.", labels=["state"])
    counts = Counter(agent.state for agent in fleet.agents)
    for state in sorted({*counts, *_PRESENT}):
        states.add_metric([state], counts[state])
    yield states

    def gauge(name: str, text: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(f"ldapslam_agent_{name}", text, labels=["agent"])

    silent = gauge("silent_seconds", "Since the agent's last sign of life.")
    offset = gauge("clock_offset_seconds", "Agent's clock minus the coordinator's.")
    bound = gauge("clock_offset_bound_seconds", "How far the offset may be off.")
    runs = gauge("runs", "Runs the agent has a part in.")
    cpu = gauge("cpu_utilisation_ratio", "Busy share of the agent's host, 0 to 1.")
    memory = gauge("memory_available_bytes", "Available on the agent's host.")
    spool = gauge("spool_bytes", "Measured and not delivered yet.")
    reports = gauge("spool_reports", "Reports not delivered yet.")
    free = gauge("spool_free_bytes", "Free where the agent's spool is.")
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
        if load.HasField("cpu_utilisation"):
            cpu.add_metric(labels, load.cpu_utilisation)
        if load.HasField("memory_available_bytes"):
            memory.add_metric(labels, load.memory_available_bytes)
        if load.HasField("spool_free_bytes"):
            free.add_metric(labels, load.spool_free_bytes)
    yield from (silent, offset, bound, runs, cpu, memory, spool, reports, free)


def run_families(watchlist: Watchlist) -> Iterator[Metric]:
    """Runs by state, and the last interval of each that goes."""
    live = GaugeMetricFamily(
        "ldapslam_runs", "Runs that have not ended, by state.", labels=["state"]
    )
    for state, count in sorted(watchlist.states().items()):
        live.add_metric([state], count)
    ended = CounterMetricFamily(
        "ldapslam_runs_ended",
        "Runs that ended since the coordinator's start.",
        labels=["state", "verdict"],
    )
    for (state, verdict), count in sorted(watchlist.ended.items()):
        ended.add_metric([state, verdict], count)
    yield from (live, ended)

    def gauge(name: str, text: str, *more: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(f"ldapslam_{name}", text, labels=["run", "job", *more])

    def total(name: str, text: str) -> CounterMetricFamily:
        labels = ["run", "job", "stream"]
        return CounterMetricFamily(f"ldapslam_stream_{name}", text, labels=labels)

    interval = gauge("run_interval", "Number of the last complete interval.")
    reported = gauge("run_agents_reported", "Agents that reported it.")
    planned = gauge("run_agents_planned", "Agents of the run.")
    busy = gauge("run_busy_ratio", "Busiest worker of the fleet, 0 to 1.")
    rate = gauge("stream_throughput_per_second", "Completions, any result.", "stream")
    p50 = gauge("stream_response_time_p50_seconds", "Of the last interval.", "stream")
    p99 = gauge("stream_response_time_p99_seconds", "Of the last interval.", "stream")
    in_flight = gauge("stream_in_flight", "Requests sent and not done.", "stream")
    backlog = gauge("stream_backlog", "Arrivals that wait for a slot.", "stream")
    completed = total("completed", "Requests with a response.")
    errors = total("errors", "Failed, timed out and unresolved requests.")
    dropped = total("dropped", "Arrivals that were never sent.")
    for run in watchlist.shown():
        figures = run.interval
        if figures is None:
            continue
        labels = [run.run_id, run.job_name]
        interval.add_metric(labels, figures.index)
        reported.add_metric(labels, figures.agents_reported)
        planned.add_metric(labels, figures.agents_planned)
        busy.add_metric(labels, figures.busy_share)
        for name, stream in run.streams.items():
            last, of = stream.last, [*labels, name]
            rate.add_metric(of, last.throughput_per_s)
            in_flight.add_metric(of, last.in_flight)
            backlog.add_metric(of, last.backlog)
            completed.add_metric(of, stream.completed)
            errors.add_metric(of, stream.errors)
            dropped.add_metric(of, stream.dropped)
            # without samples there is no percentile, and no series
            if last.HasField("response_time_p50_us"):
                p50.add_metric(of, last.response_time_p50_us / _US_PER_S)
                p99.add_metric(of, last.response_time_p99_us / _US_PER_S)
    yield from (interval, reported, planned, busy, rate, p50, p99, in_flight, backlog)
    yield from (completed, errors, dropped)


def store_families(store: Store) -> Iterator[Metric]:
    """How large the store is, and how writing to it goes."""
    writes = store.writes
    if store.path is not None:
        yield GaugeMetricFamily(
            "ldapslam_store_bytes",
            "Size of the store's file and its log.",
            value=file_bytes(store.path),
        )
    yield SummaryMetricFamily(
        "ldapslam_store_commit_seconds",
        "Time that transactions take, waiting for other writers included.",
        count_value=writes.commits,
        sum_value=writes.total_s,
    )
    yield GaugeMetricFamily(
        "ldapslam_store_last_commit_seconds",
        "Time that the last transaction took.",
        value=writes.last_s,
    )
    yield CounterMetricFamily(
        "ldapslam_store_write_failures",
        "Transactions that failed.",
        value=writes.failures,
    )
    yield GaugeMetricFamily(
        "ldapslam_store_writable",
        "1 when the last write was committed.",
        value=0 if writes.failure else 1,
    )
