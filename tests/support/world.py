# SPDX-License-Identifier: Apache-2.0
"""A coordinator in this process, with one agent that a test speaks for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ldapslam.coordinator.control import Coordinator
from ldapslam.coordinator.fleet.fleet import TimePassed
from ldapslam.coordinator.runs.judge import Judgement
from ldapslam.coordinator.store_writer import StoreWriter
from ldapslam.proto import agent_pb2, monitor_pb2
from ldapslam.proto.operator_pb2 import (
    GetRunRequest,
    RunStatus,
    RunUpdate,
    WatchRunRequest,
)
from ldapslam.results.packing import pack
from ldapslam.results.store import Store
from support.fleet import job_text, registration, submission
from support.rows import snapshot_of

S = 1_000_000_000


class World:
    """A coordinator with agent a, and what a test does in their places."""

    def __init__(self, path: Path) -> None:
        self.now_ns = 100 * S
        self._url = str(path / "results.sqlite")
        #: Runs that were judged, all PASS.
        self.judged = asyncio.Queue[str]()
        self.sessions: dict[str, str] = {}
        self._epochs: dict[str, int] = {}
        self._open()

    def _open(self) -> None:
        self.writer = StoreWriter(self._url)
        self.coordinator = Coordinator(
            self.writer, lambda: self.now_ns, judge=self._judge
        )

    async def restart(self) -> None:
        """End the coordinator; the next coordinator takes its runs up."""
        await self.coordinator.stop(leave_runs=True)
        await self.writer.close()
        self._open()
        await self.coordinator.start()

    async def _judge(
        self, run_id: str, reports: int = 0, *, looks_only: bool = False
    ) -> Judgement:
        if not looks_only:
            self.judged.put_nowait(run_id)
        document: Any = {"run_id": run_id}
        return Judgement("PASS", (), document)

    async def register(
        self, name: str = "a", *, is_new: bool = False, **fields: Any
    ) -> bool:
        """Whether the agent's session goes on; `is_new`: it is another process."""
        epoch = self._epochs[name] = self._epochs.get(name, 3) + is_new
        fields.setdefault("instance_id", f"{name}-{epoch}")
        request = registration(name, epoch=epoch, **fields)
        reply = await self.coordinator.agents.Register(request, None)
        self.sessions[name] = reply.session_id
        return reply.resumed

    @property
    def store(self) -> Store:
        return self.writer.store

    async def submit(self, text: str = "", **fields: Any) -> str:
        request = submission(text or job_text(), **fields)
        return (await self.coordinator.operators.SubmitJob(request, None)).run_id

    async def commands(self, count: int) -> list[agent_pb2.Command]:
        """The first commands of agent a."""
        request = agent_pb2.CommandsRequest(session_id=self.sessions["a"])
        stream = self.coordinator.agents.Commands(request, None)
        found = [await anext(stream) for _ in range(count)]
        await stream.aclose()
        return found

    async def beat(self, offset_ns: int) -> None:
        """A heartbeat with a sample: a's clock is so far ahead, exactly."""
        ours, theirs = self.now_ns, self.now_ns + offset_ns
        sample = agent_pb2.ClockSample(
            agent_sent_mono_ns=theirs,
            coordinator_received_mono_ns=ours,
            coordinator_sent_mono_ns=ours,
            agent_received_mono_ns=theirs,
        )
        request = agent_pb2.HeartbeatRequest(
            session_id=self.sessions["a"], samples=[sample]
        )
        reply = await self.coordinator.agents.Heartbeat(request, None)
        assert reply.known

    async def report(self, run_id: str, **kind: Any) -> agent_pb2.ReportReply:
        part = await self.writer.call(self.store.part, run_id, "a")
        known = {"epoch": 3, "attempt": max(0, part.attempt), **kind}
        report = agent_pb2.ProgressReport(run_id=run_id, agent="a", **known)
        return await self.coordinator.agents.ReportProgress(report, None)

    async def report_interval(
        self, report: agent_pb2.IntervalReport, session_id: str = ""
    ) -> agent_pb2.ReportReply:
        request = agent_pb2.IntervalReports(session_id=session_id, reports=[report])
        (reply,) = (await self.coordinator.agents.take_intervals(request)).replies
        return reply

    async def report_monitor(
        self, run_id: str, event: monitor_pb2.MonitorEvent, agent: str = "a", **key: int
    ) -> int:
        """The status of the answer; `key`: another epoch, another attempt."""
        await self.writer.flush()
        part = self.store.part(run_id, agent)
        known = {"epoch": part.epoch, "attempt": part.attempt, **key}
        report = monitor_pb2.MonitorReport(
            run_id=run_id, agent=agent, event=event, **known
        )
        return (await self.coordinator.agents.ReportMonitor(report, None)).status

    def lose_agent(self) -> None:
        """Nothing is heard of agent a for an hour."""
        self.now_ns += 3600 * S
        self.coordinator.fleet.feed(TimePassed())

    async def begin(self) -> str:
        """Submit a run whose load has begun."""
        await self.beat(0)
        run_id = await self.submit()
        await self.report(run_id, ready=agent_pb2.AgentReady())
        await self.report(run_id, started=agent_pb2.AgentStarted())
        return run_id

    async def end_of(self, run_id: str) -> RunStatus:
        return [update async for update in self.watch(run_id)][-1].status

    def watch(self, run_id: str) -> AsyncGenerator[RunUpdate, None]:
        return self.coordinator.operators.WatchRun(WatchRunRequest(run_id=run_id), None)

    async def run(self, run_id: str) -> RunStatus:
        request = GetRunRequest(run_id=run_id)
        return await self.coordinator.operators.GetRun(request, None)


@asynccontextmanager
async def world_in(path: Path) -> AsyncIterator[World]:
    world = World(path)
    await world.register()
    try:
        yield world
    finally:
        await world.coordinator.stop()
        await world.writer.close()


@pytest.fixture
def writer(runner: asyncio.Runner, tmp_path: Path) -> Iterator[StoreWriter]:
    writer = StoreWriter(str(tmp_path / "results.sqlite"))
    yield writer
    runner.run(writer.close())


@pytest.fixture
def world(runner: asyncio.Runner, tmp_path: Path) -> Iterator[World]:
    context = world_in(tmp_path)
    yield runner.run(context.__aenter__())
    runner.run(context.__aexit__(None, None, None))


def interval(world: World, run_id: str, sequence: int) -> agent_pb2.IntervalReport:
    return agent_pb2.IntervalReport(
        run_id=run_id,
        agent="a",
        epoch=3,
        attempt=world.store.agents(run_id)["a"].attempt,
        sequence=sequence,
        packed=pack(snapshot_of(index=sequence, end_ns=S, phase="measure")),
    )
