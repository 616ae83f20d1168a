# SPDX-License-Identifier: Apache-2.0
"""An agent's metrics for Prometheus: connection, runs, spool, host.

Under the coordinator's names, but read here, also while the coordinator is away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from ldapslam import __version__
from ldapslam.agent.host import HostMeter
from ldapslam.agent.session import AgentSession


def agent_registry(
    session: AgentSession, is_connected: Callable[[], bool]
) -> CollectorRegistry:
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    registry.register(_AgentCollector(session, is_connected))
    return registry


class _AgentCollector(Collector):
    def __init__(self, session: AgentSession, is_connected: Callable[[], bool]) -> None:
        self._session = session
        self._is_connected = is_connected
        self._meter = HostMeter(session.spool)

    def describe(self) -> list[Metric]:
        # without this the registry would collect once to learn the names
        return []

    def collect(self) -> Iterator[Metric]:
        name, load = self._session.settings.name, self._meter.load()
        runs = self._session.runs

        def gauge(what: str, text: str, value: float) -> GaugeMetricFamily:
            family = GaugeMetricFamily(f"ldapslam_agent_{what}", text, labels=["agent"])
            family.add_metric([name], value)
            return family

        version = GaugeMetricFamily(
            "ldapslam_build_info", "Version of ldapslam; always 1.", labels=["version"]
        )
        version.add_metric([__version__], 1)
        yield version
        yield gauge(
            "connected", "1 while the coordinator answers.", self._is_connected()
        )
        yield gauge("runs", "Runs the agent has a part in.", len(runs))
        states = GaugeMetricFamily(
            "ldapslam_agent_run_state",
            "State of the agent's part of a run; always 1.",
            labels=["agent", "run", "state"],
        )
        for run_id, state in runs.items():
            states.add_metric([name, run_id, state], 1)
        yield states
        yield gauge("spool_bytes", "Measured and not delivered yet.", load.spool_bytes)
        yield gauge("spool_reports", "Reports not delivered yet.", load.spool_reports)
        quota_bytes = self._session.settings.limits.spool_quota_bytes
        if quota_bytes is not None:
            text = "As much as the agent's operator lets it keep."
            yield gauge("spool_quota_bytes", text, quota_bytes)
        if load.HasField("spool_free_bytes"):
            text = "Free where the agent's spool is."
            yield gauge("spool_free_bytes", text, load.spool_free_bytes)
        if load.HasField("cpu_utilisation"):
            text = "Busy share of the agent's host since the last look, 0 to 1."
            yield gauge("cpu_utilisation_ratio", text, load.cpu_utilisation)
        text = "Available on the agent's host."
        yield gauge("memory_available_bytes", text, load.memory_available_bytes)
