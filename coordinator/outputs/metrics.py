# SPDX-License-Identifier: Apache-2.0
"""The coordinator's metrics for Prometheus, at an address of their own.

Made at each scrape of what the event loop has then: a run or an agent that is gone has
no series.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from ldapslam.coordinator.bounds import exceeded
from ldapslam.coordinator.control import Coordinator
from ldapslam.coordinator.extension import Extension
from ldapslam.coordinator.outputs.families import (
    bound_families,
    build_families,
    fleet_families,
    run_families,
    state_families,
    store_families,
)
from ldapslam.coordinator.outputs.shown_runs import (
    MAX_OPERATIONS,
    MAX_STREAMS,
    ShownRuns,
)
from ldapslam.coordinator.security.guard import Server
from ldapslam.transport.metrics_server import exposed

#: Time for the event loop to answer.
_ANSWER_TIMEOUT_S = 5.0


class Metrics(Extension):
    def __init__(self, place: tuple[str, int], runs: ShownRuns) -> None:
        self._place = place
        self._runs = runs
        self._exposed: AbstractContextManager[object] | None = None

    async def start(self, coordinator: Coordinator, server: Server) -> None:
        runs = self._runs
        coordinator.bounds |= {
            "shown_streams": (lambda: runs.stream_count, MAX_STREAMS),
            "shown_operations": (lambda: runs.operation_count, MAX_OPERATIONS),
        }
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

    def _families(self, coordinator: Coordinator) -> Iterator[Metric]:
        """On the loop, but for those of runs: many, and made where they are read."""
        fleet_and_store = [
            *build_families(),
            *fleet_families(coordinator.operators.agents()),
            *state_families(self._runs),
            *store_families(coordinator.writer.store),
        ]
        runs = [run.copy() for run in self._runs.shown()]
        bounds = list(bound_families(coordinator.bounds, exceeded()))
        return itertools.chain(fleet_and_store, run_families(runs), bounds)


class _OnLoop(Collector):
    """Asks the loop, from the thread of the scrape."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        families: Callable[[], Iterator[Metric]],
    ) -> None:
        self._loop = loop
        self._families = families

    def describe(self) -> list[Metric]:
        # without this the registry would collect once to learn the names
        return []

    def collect(self) -> Iterator[Metric]:
        async def ask() -> Iterator[Metric]:
            return self._families()

        asked = asyncio.run_coroutine_threadsafe(ask(), self._loop)
        yield from asked.result(_ANSWER_TIMEOUT_S)
