# SPDX-License-Identifier: Apache-2.0
"""The coordinator's metrics for Prometheus: fleet, runs, intervals, store.

Made on the event loop at each scrape: a run or an agent that is gone has no series.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    SummaryMetricFamily,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from ldapslam.coordinator.bounds import Bound, exceeded
from ldapslam.coordinator.control import Coordinator
from ldapslam.coordinator.extension import Extension
from ldapslam.jobs.plan import DRAIN
from ldapslam.proto import operator_pb2 as pb
from ldapslam.results.records import FINAL_STATES, RunRecord
from ldapslam.results.store import Store
from ldapslam.results.upkeep import file_bytes
from ldapslam.transport.messages import build_version
from ldapslam.transport.metrics_server import exposed

#: Time for the event loop to answer.
_ANSWER_TIMEOUT_S = 5.0
_NS_PER_S = 1e9
_US_PER_S = 1e6
#: States of agents that are present.
_PRESENT = frozenset({"idle", "assigned", "silent"})


#: How long an ended run is shown.
KEPT_S = 60.0
MAX_RUNS = 100
MAX_STREAMS = 500


@dataclass(slots=True)
class StreamFigures:
    """One stream of a run: of the last planned interval, and since the run's start."""

    last: pb.StreamFigures
    completed: int = 0
    errors: int = 0
    dropped: int = 0


@dataclass(slots=True)
class RunFigures:
    run_id: str
    job_name: str
    state: str
    agents: int = 0
    #: None before the first interval.
    interval: pb.IntervalFigures | None = None
    streams: dict[str, StreamFigures] = field(default_factory=dict)
    #: When it ended, on the clock; None of a live run.
    ended_s: float | None = None


class Metrics(Extension):
    """Exposes the metrics at an address of its own.

    Ended runs stay for a while, so that a scrape sees their last values; of very many
    streams only the newest runs' are kept.
    """

    def __init__(
        self,
        place: tuple[str, int],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._place = place
        self._now_s = now_s
        self._runs: dict[str, RunFigures] = {}
        #: (state, verdict or "none") -> runs that ended since the start.
        self.ended: Counter[tuple[str, str]] = Counter()
        self._exposed: AbstractContextManager[object] | None = None

    async def start(self, coordinator: Coordinator, server: Any) -> None:
        coordinator.bounds["shown_streams"] = self._streams, MAX_STREAMS
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
            # it waits for answers that need this loop
            await asyncio.to_thread(self._exposed.__exit__, None, None, None)

    def _families(self, coordinator: Coordinator) -> list[Metric]:
        return [
            *_build(),
            *fleet_families(coordinator.operators.agents()),
            *run_families(self),
            *store_families(coordinator.writer.store),
            *bound_families(coordinator.bounds, exceeded()),
        ]

    def _streams(self) -> int:
        return sum(len(run.streams) for run in self._runs.values())

    def run_changed(self, status: pb.RunStatus) -> None:
        run = self._runs.get(status.run_id)
        is_over = status.state in FINAL_STATES
        if run is None:
            if is_over:
                return
            run = RunFigures(status.run_id, status.job_name, status.state)
            self._runs[status.run_id] = run
        run.state, run.agents = status.state, len(status.agents)
        if is_over and run.ended_s is None:
            run.ended_s = self._now_s()

    def interval_measured(self, run_id: str, figures: pb.IntervalFigures) -> None:
        run = self._runs.get(run_id)
        if run is None:
            return
        # a drain's length is arbitrary, so its rates mean nothing
        is_drain = figures.phase == DRAIN and run.interval is not None
        if not is_drain:
            run.interval = figures
        for row in figures.streams:
            stream = run.streams.setdefault(row.stream, StreamFigures(row))
            if not is_drain:
                stream.last = row
            stream.completed += row.completed
            stream.errors += row.errors
            stream.dropped += row.dropped

    def run_judged(
        self, record: RunRecord, reasons: Sequence[str], ended_s: float | None
    ) -> None:
        if ended_s is not None:
            self.ended[record.state, record.verdict or "none"] += 1
        run = self._runs.get(record.run_id)
        if run is not None:
            run.state = record.state
            run.ended_s = run.ended_s or self._now_s()

    def states(self) -> Counter[str]:
        return Counter(run.state for run in self._runs.values() if run.ended_s is None)

    def shown(self) -> Iterator[RunFigures]:
        """The runs with statistics, the newest first, up to the limits."""
        self._forget()
        streams, shown = 0, 0
        for run in reversed(self._runs.values()):
            if run.interval is None:
                continue
            streams, shown = streams + len(run.streams), shown + 1
            if streams > MAX_STREAMS or shown > MAX_RUNS:
                return
            yield run

    def _forget(self) -> None:
        before_s = self._now_s() - KEPT_S
        gone = [
            run_id
            for run_id, run in self._runs.items()
            if run.ended_s is not None and run.ended_s < before_s
        ]
        for run_id in gone:
            del self._runs[run_id]


class _OnLoop(Collector):
    """Collects on the loop, from the thread of the scrape."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, families: Callable[[], list[Metric]]
    ) -> None:
        self._loop = loop
        self._families = families

    def describe(self) -> list[Metric]:
        # without this the registry would collect once to learn the names
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


def run_families(runs: Metrics) -> Iterator[Metric]:
    """Runs by state, and the last interval of each live run."""
    live = GaugeMetricFamily(
        "ldapslam_runs", "Runs that have not ended, by state.", labels=["state"]
    )
    for state, count in sorted(runs.states().items()):
        live.add_metric([state], count)
    ended = CounterMetricFamily(
        "ldapslam_runs_ended",
        "Runs that ended since the coordinator's start.",
        labels=["state", "verdict"],
    )
    for (state, verdict), count in sorted(runs.ended.items()):
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
    for run in runs.shown():
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


def bound_families(
    bounds: Mapping[str, tuple[Callable[[], float], float]],
    exceeded: Mapping[Bound, int],
) -> Iterator[Metric]:
    """How much there is of what is bounded, and how often it was too much."""
    used = GaugeMetricFamily(
        "ldapslam_bound_used", "Of what is bounded, now.", labels=["bound"]
    )
    most = GaugeMetricFamily(
        "ldapslam_bound_most", "As much of it there may be.", labels=["bound"]
    )
    for name, (now, limit) in sorted(bounds.items()):
        used.add_metric([name], now())
        most.add_metric([name], limit)
    times = CounterMetricFamily(
        "ldapslam_bound_exceeded",
        "How often something was refused, dropped or cut off.",
        labels=["bound"],
    )
    for bound, count in exceeded.items():
        times.add_metric([bound], count)
    yield from (used, most, times)


def store_families(store: Store) -> Iterator[Metric]:
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
