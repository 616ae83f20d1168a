# SPDX-License-Identifier: Apache-2.0
"""Commands that no coordinator should send: an agent refuses them and goes on.

The agent is real, with its connection, spool and state machines; its coordinator is a
gRPC server that sends bytes. Its child processes end at once, echo what they are told,
or are engines within this process, so that every state of a run is met.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError

from ldapslam.agent import children, client
from ldapslam.agent.children import EngineChild
from ldapslam.agent.client import serve_agent
from ldapslam.agent.lease import Lease
from ldapslam.agent.settings import AgentSettings
from ldapslam.proto import agent_pb2 as pb
from ldapslam.proto import engine_pb2
from ldapslam.proto.common_pb2 import RunAssignment
from support.fleet import job_text
from support.message_fuzz import MessageFuzzer
from support.rows import snapshot_of

_COMMAND: Descriptor = pb.DESCRIPTOR.message_types_by_name["Command"]
_KINDS = [field for field in _COMMAND.fields if field.message_type is not None]
_SERVICE = "ldapslam.v1.AgentService"
_TIMEOUT_S = 30.0
#: Commands over one connection.
_AT_A_TIME = 50
_RUNS = ("r1", "r2", "r3", "../r1", "..", "x\0y", "r" * 300)
_LAST_RUN = "the last one"


class Engine:
    """An engine's process that is none: ready, started, and over soon."""

    pid = 1

    def __init__(self, folder: Path) -> None:
        self._told: asyncio.Queue[str | None] = asyncio.Queue()
        self.lease = Lease(folder)

    async def send(self, request: engine_pb2.EngineRequest) -> None:
        self._told.put_nowait(request.WhichOneof("kind"))

    async def events(self) -> AsyncIterator[engine_pb2.EngineEvent]:
        ready = engine_pb2.EngineReady(facts_json="{}", interval_count=2)
        yield engine_pb2.EngineEvent(ready=ready)
        while (kind := await self._told.get()) not in ("start", None):
            pass
        if kind is None:
            return
        yield engine_pb2.EngineEvent(started=engine_pb2.EngineStarted())
        for index in range(3):
            snapshot = snapshot_of(index=index, final=index == 2)
            yield engine_pb2.EngineEvent(snapshot=snapshot)
            await asyncio.sleep(0)
        finished = engine_pb2.EngineFinished(facts_json="{}")
        yield engine_pb2.EngineEvent(finished=finished)

    def kill(self) -> None:
        self._told.put_nowait(None)

    async def wait(self) -> str:
        return "exit status 0"


class FuzzingCoordinator:
    """Sends a number of commands to whoever registers, then one run as it should be."""

    def __init__(self, count: int, seed: int) -> None:
        self._left = count
        likely: dict[str, list[object]] = {
            "run_id": [*_RUNS[:2] * 5, *_RUNS],
            "t0_mono_ns": [0, 2**61, 2**62, 2**62 + 1, 2**63 - 1],
            "coordinator_timeout_ns": [10**9, 2**63 - 1, 2**64 - 1],
            "number": [1],
        }
        self._fuzzer = MessageFuzzer(seed, likely, [job_text().encode()])
        self._random = random.Random(seed)
        self.sent: Counter[str] = Counter()
        self.reported: Counter[str] = Counter()
        self.is_ready = asyncio.Event()
        self._runs: list[str] = []

    def _content(self) -> bytes:
        """Of a command; of each kind as often, for the last one that is set counts."""
        if self._random.random() < 0.2:
            return self._fuzzer.request(_COMMAND)
        return self._fuzzer.part(self._random.choice(_KINDS))

    async def register(self, content: bytes, _: Any) -> bytes:
        self._runs = [one.run_id for one in pb.RegisterRequest.FromString(content).runs]
        reply = pb.RegisterReply(session_id="s", heartbeat_interval_ns=10**7)
        return reply.SerializeToString()

    async def heartbeat(self, _: bytes, __: Any) -> bytes:
        return pb.HeartbeatReply(known=True).SerializeToString()

    async def progress(self, content: bytes, _: Any) -> bytes:
        report = pb.ProgressReport.FromString(content)
        self.reported[str(report.WhichOneof("kind"))] += 1
        if report.run_id == _LAST_RUN and report.HasField("ready"):
            self.is_ready.set()
        return await self.report(content, _)

    async def report(self, _: bytes, __: Any) -> bytes:
        committed = pb.ReportReply.STATUS_COMMITTED
        return pb.ReportReply(status=committed).SerializeToString()

    async def reports(
        self, contents: AsyncIterator[bytes], _: Any
    ) -> AsyncIterator[bytes]:
        committed = pb.ReportReply(status=pb.ReportReply.STATUS_COMMITTED)
        async for content in contents:
            count = len(pb.IntervalReports.FromString(content).reports)
            yield pb.IntervalReplies(replies=[committed] * count).SerializeToString()

    async def commands(self, request: bytes, context: Any) -> AsyncIterator[bytes]:
        numbers = itertools.count(1)
        if not self._left or self._random.random() < 0.5:
            for run_id in self._runs:
                stop = pb.StopRun(run_id=run_id, abandon=True)
                yield pb.Command(number=next(numbers), stop=stop).SerializeToString()
        if not self._left:
            await asyncio.sleep(0.2)
            run = RunAssignment(run_id=_LAST_RUN, coordinator_timeout_ns=10**12)
            yield pb.Command(number=next(numbers), prepare=run).SerializeToString()
            await asyncio.sleep(_TIMEOUT_S)
        for _ in range(_AT_A_TIME):
            if not self._left:
                return
            content = self._content()
            try:
                command = pb.Command.FromString(content)
            except DecodeError:
                if self._random.random() < 0.9:  # each costs a connection
                    continue
                self._left -= 1
                self.sent["unreadable"] += 1
                yield content
                return
            self._left -= 1
            if command.HasField("prepare") and not command.prepare.run_id:
                # most would be refused for that alone
                command.prepare.run_id = self._random.choice(("", *_RUNS[:2] * 5))
            self.sent[str(command.WhichOneof("kind"))] += 1
            command.number = command.number or 1
            if self._random.random() < 0.98:  # after a high one others are repeated
                command.number = next(numbers)
            yield command.SerializeToString()
            await asyncio.sleep(self._random.choice((0, 0, 0.01)))

    @contextlib.asynccontextmanager
    async def served(self) -> AsyncIterator[str]:
        methods: dict[str, Callable[..., Any]] = {
            "Register": self.register,
            "Heartbeat": self.heartbeat,
            "ReportProgress": self.progress,
            "ReportMonitor": self.report,
            "Leave": self.report,
        }
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(method)
            for name, method in methods.items()
        }
        handlers["Commands"] = grpc.unary_stream_rpc_method_handler(self.commands)
        handlers["Reports"] = grpc.stream_stream_rpc_method_handler(self.reports)
        server = grpc.aio.server()
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(_SERVICE, handlers),)
        )
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            await server.stop(None)


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Children that cost little, and no pause between connections."""
    real, kinds = (
        EngineChild.launch,
        itertools.cycle(("engine", "true", "engine", "head")),
    )

    async def launch(*arguments: Any, **named: Any) -> Any:
        kind = next(kinds)
        if kind == "engine" or arguments[0].run_id == _LAST_RUN:
            return Engine(tmp_path)
        return await real(*arguments, **{**named, "command": (kind, "-c", "4000")})

    monkeypatch.setattr(EngineChild, "launch", launch)
    monkeypatch.setattr(children, "command_of", lambda _: ("head", "-c", "4000"))
    monkeypatch.setattr(client, "_BACK_OFF_S", (0.001, 0.01))
    monkeypatch.setattr(client, "_FIRST_SAMPLES", 1)


async def fuzz(folder: Path, count: int, seed: int) -> FuzzingCoordinator:
    coordinator = FuzzingCoordinator(count, seed)
    settings = AgentSettings("a", folder, max_runs=2)
    async with coordinator.served() as address:
        agent = asyncio.create_task(serve_agent(address, settings))
        ready = asyncio.create_task(coordinator.is_ready.wait())
        await asyncio.wait(
            (agent, ready),
            timeout=_TIMEOUT_S + count / 20,
            return_when=asyncio.FIRST_COMPLETED,
        )
        if agent.done():
            await agent
        assert ready.done(), (coordinator.sent, coordinator.reported)
        for task in (ready, agent):
            task.cancel()
        await asyncio.gather(ready, agent, return_exceptions=True)
    return coordinator


@pytest.mark.usefixtures("_quick")
@pytest.mark.parametrize(
    ("count", "seed"), [(150, 2), pytest.param(20_000, 2, marks=pytest.mark.long)]
)
def test_an_agent_survives_every_command(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, count: int, seed: int
) -> None:
    coordinator = asyncio.run(fuzz(tmp_path, count, seed))
    assert coordinator.sent.total() == count
    assert {kind.name for kind in _KINDS} <= set(coordinator.sent), coordinator.sent
    assert coordinator.reported["ready"] > count // 100, coordinator.reported
    # what is our own defect has its trace in the log
    ours = ("ldapslam", "asyncio")
    records = [one for one in caplog.records if one.name.startswith(ours)]
    defects = [one for one in records if one.exc_info]
    assert not defects, [(one.getMessage(), one.exc_info) for one in defects[:3]]
    assert not [one for one in records if one.levelno > logging.ERROR]
