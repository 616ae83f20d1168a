# SPDX-License-Identifier: Apache-2.0
"""Agents that register: what they hold of runs is compared before anything begins."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ldapslam import __version__
from ldapslam.base.errors import RunAborted, StoreBusy
from ldapslam.coordinator.control import Coordinator
from ldapslam.coordinator.store_writer import StoreWriter
from ldapslam.proto import agent_pb2, monitor_pb2
from ldapslam.proto.operator_pb2 import SubmitJobRequest
from ldapslam.results.store import Store
from ldapslam.transport.messages import (
    PROTOCOL_VERSION,
    failure_message,
)
from support.fleet import job_text

MONITORED = job_text(monitors=[{"directory": "replica"}], agents={"count": 2})


class Site:
    """A coordinator that may be started again, and agents in name only."""

    def __init__(self, folder: Path) -> None:
        self._url = str(folder / "results.sqlite")
        self._starts: dict[str, int] = {}
        #: Agent -> the attempt of its order to monitor.
        self._attempts: dict[str, int] = {}
        self.sessions: dict[str, str] = {}

    async def start(self) -> None:
        self._writer = StoreWriter(self._url)
        self.coordinator = Coordinator(self._writer)
        await self.coordinator.start()

    async def stop(self) -> None:
        await self.coordinator.stop(leave_runs=True)
        await self._writer.close()

    async def register(
        self, name: str, *, is_new: bool = True, monitored: tuple[str, ...] = ()
    ) -> bool:
        """Whether its session goes on; `is_new`: it is another process."""
        start = self._starts[name] = self._starts.get(name, 0) + is_new
        request = agent_pb2.RegisterRequest(
            protocol_version=PROTOCOL_VERSION,
            build=__version__,
            name=name,
            instance_id=f"{name}-{start}",
            epoch=start,
            monitored_runs=monitored,
        )
        reply = await self.coordinator.agents.Register(request, None)
        self.sessions[name] = reply.session_id
        return reply.resumed

    async def submit(self, text: str = MONITORED) -> str:
        """A run that waits for its agents."""
        request = SubmitJobRequest(
            protocol_version=PROTOCOL_VERSION,
            build=__version__,
            job_file="job.yaml",
            job_text=text.encode(),
            wait_for_agents_ns=10**12,
        )
        reply = await self.coordinator.operators.SubmitJob(request, None)
        return reply.run_id

    async def told(self, name: str) -> list[str]:
        """The kinds of all commands of the agent's session, in their order."""
        request = agent_pb2.CommandsRequest(session_id=self.sessions[name])
        stream = self.coordinator.agents.Commands(request, None)
        kinds: list[str] = []
        try:
            async with asyncio.timeout(0.05):
                async for command in stream:
                    kinds.append(str(command.WhichOneof("kind")))
                    if command.HasField("monitor"):
                        self._attempts[name] = command.monitor.run.attempt
        except TimeoutError:
            await stream.aclose()
        return kinds

    async def say_of_monitor(self, run_id: str, agent: str, **kind: Any) -> None:
        await self.told(agent)
        report = monitor_pb2.MonitorReport(
            run_id=run_id,
            agent=agent,
            epoch=self._starts[agent],
            attempt=self._attempts[agent],
            event=monitor_pb2.MonitorEvent(**kind),
        )
        await self.coordinator.agents.ReportMonitor(report, None)

    async def prepare_monitors(self, run_id: str) -> None:
        for agent in "ab":
            await self.say_of_monitor(
                run_id, agent, ready=monitor_pb2.MonitorReady(facts_json="{}")
            )

    def has_open_watch(self, run_id: str, agent: str) -> bool:
        return self.coordinator.fleet.runs[run_id].has_open_watch(agent)

    def kinds(self, run_id: str) -> list[str]:
        status = self.coordinator.fleet.runs[run_id].status()
        return [event.kind for event in status.events]


@pytest.fixture
def site(runner: asyncio.Runner, tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    runner.run(site.start())
    yield site
    runner.run(site.stop())


async def assert_all_are_monitored(site: Site, run_id: str) -> None:
    """The run has begun with its monitors, and waits for them."""
    assert [await site.told(name) for name in "ab"] == [["monitor"], ["monitor"]]
    assert site.has_open_watch(run_id, "a")
    assert site.has_open_watch(run_id, "b")
    assert "observer_failed" not in site.kinds(run_id)
    await site.prepare_monitors(run_id)
    assert await site.told("a") == ["monitor", "prepare"]


@pytest.mark.parametrize("last", ["a", "b"])
async def test_a_run_that_waited_while_its_coordinator_was_away_begins_with_monitors(
    site: Site, last: str
) -> None:
    run_id = await site.submit()
    await site.stop()
    await site.start()
    for name in ("b", "a") if last == "a" else ("a", "b"):
        await site.register(name)
    await assert_all_are_monitored(site, run_id)


@pytest.mark.parametrize("last", ["a", "b"])
async def test_a_run_that_waited_for_an_agents_restart_begins_with_monitors(
    site: Site, last: str
) -> None:
    for name in "ab":
        await site.register(name)
    leave = agent_pb2.LeaveRequest(session_id=site.sessions[last], reason="killed")
    await site.coordinator.agents.Leave(leave, None)
    run_id = await site.submit()
    await site.register(last)
    await assert_all_are_monitored(site, run_id)


@pytest.mark.parametrize("is_new", [False, True])
async def test_an_agent_that_monitors_a_run_that_is_over_is_told_to_end_it(
    site: Site, is_new: bool
) -> None:
    await site.register("a")
    resumed = await site.register("a", is_new=is_new, monitored=("over",))
    assert resumed is not is_new
    assert await site.told("a") == ["end_monitoring"]


async def test_an_agent_that_reconnects_keeps_the_order_to_monitor_that_is_under_way(
    site: Site,
) -> None:
    for name in "ba":
        await site.register(name)
    run_id = await site.submit()
    # it does not know of the run yet
    assert await site.register("a", is_new=False)
    await assert_all_are_monitored(site, run_id)


async def test_the_monitor_of_an_attempt_before_ends_before_the_next_one_begins(
    site: Site,
) -> None:
    for name in "ab":
        await site.register(name)
    run_id = await site.submit()
    await site.stop()  # the run is being prepared: it is queued again
    await site.start()
    await site.register("b", is_new=False)
    await site.register("a", is_new=False, monitored=(run_id,))
    assert await site.told("a") == ["end_monitoring", "monitor"]
    assert site.has_open_watch(run_id, "a")


async def test_a_run_that_ends_ends_monitors_that_it_believes_to_be_gone(
    site: Site,
) -> None:
    for name in "ab":
        await site.register(name)
    run_id = await site.submit()
    failed = failure_message(RunAborted("so it says"))
    await site.say_of_monitor(run_id, "a", failed=failed)
    assert not site.has_open_watch(run_id, "a")
    await site.coordinator.queue.cancel_run(run_id, "me")
    assert [await site.told(name) for name in "ab"] == [
        ["monitor", "end_monitoring"],
        ["monitor", "end_monitoring"],
    ]


async def test_a_run_whose_end_is_not_stored_yet_has_no_monitors(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "ab":
        await site.register(name)
    run_id = await site.submit()

    def busy(*_: object) -> None:
        raise StoreBusy("results.sqlite", 10)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "forget_submission", busy)
        await site.coordinator.queue.cancel_run(run_id, "me")
        assert run_id in site.coordinator.fleet.runs
        # the order went with the process that had the session
        await site.register("a", monitored=(run_id,))
        assert await site.told("a") == ["end_monitoring"]
