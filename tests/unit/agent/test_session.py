# SPDX-License-Identifier: Apache-2.0
"""Runs of an agent: reports, refusals, and how the process of its engine ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from ldapslam.agent import children
from ldapslam.agent.children import EngineChild
from ldapslam.agent.session import AgentSession
from ldapslam.agent.settings import AgentSettings
from ldapslam.agent.spool import Spool
from ldapslam.proto import agent_pb2, engine_pb2
from ldapslam.proto.common_pb2 import RunAssignment
from support.ledger import write_clean_up_plan


class Child:
    """An engine's process that exits when it may, some time after its last word."""

    pid = 1

    def __init__(self) -> None:
        self.started, self.killed = asyncio.Event(), asyncio.Event()
        self.may_exit = asyncio.Event()
        self.how = "still there"
        self.lease = SimpleNamespace(extend=lambda until_mono_ns: None)

    async def send(self, request: engine_pb2.EngineRequest) -> None:
        self.started.set()

    async def events(self) -> AsyncIterator[engine_pb2.EngineEvent]:
        ready = engine_pb2.EngineReady(facts_json="{}", interval_count=1)
        yield engine_pb2.EngineEvent(ready=ready)
        await self._first_of(self.started, self.killed)
        if not self.killed.is_set():
            finished = engine_pb2.EngineFinished(facts_json="{}")
            yield engine_pb2.EngineEvent(finished=finished)

    async def _first_of(self, *events: asyncio.Event) -> None:
        waiting = [asyncio.create_task(event.wait()) for event in events]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()

    def kill(self) -> None:
        self.killed.set()

    async def wait(self) -> str:
        await self._first_of(self.may_exit, self.killed)
        self.how = "killed" if self.killed.is_set() else "exited"
        return self.how


async def end_agent(spool: Spool, child: Child, *, is_started: bool) -> None:
    """Give the agent a run and cancel it: within the run, or right after it."""
    session = AgentSession(AgentSettings("one", spool.folder), spool, now_ns=lambda: 0)
    serving = asyncio.create_task(session.serve())
    prepare = RunAssignment(run_id="r", coordinator_timeout_ns=10**12)
    session.take_command(agent_pb2.Command(prepare=prepare))
    await session.has_reports.wait()  # it is ready
    if is_started:
        start = agent_pb2.StartRun(run_id="r", t0_mono_ns=10**12)
        session.take_command(agent_pb2.Command(start=start))
        session.has_reports.clear()
        await session.has_reports.wait()  # it has finished
    serving.cancel()
    loop = asyncio.get_running_loop()
    loop.call_soon(loop.call_soon, child.may_exit.set)  # after the cancellation
    with contextlib.suppress(asyncio.CancelledError):
        await serving


@pytest.mark.parametrize(("is_started", "how"), [(True, "exited"), (False, "killed")])
async def test_only_an_engine_with_a_run_is_killed_when_the_agent_ends(
    monkeypatch: pytest.MonkeyPatch, spool: Spool, is_started: bool, how: str
) -> None:
    child = Child()

    async def launch(*_: object, **__: object) -> Child:
        return child

    monkeypatch.setattr(EngineChild, "launch", launch)
    await end_agent(spool, child, is_started=is_started)
    assert child.how == how


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    with Spool(tmp_path) as spool:
        yield spool


@pytest.fixture
def session(runner: asyncio.Runner, spool: Spool) -> Iterator[AgentSession]:
    """It serves until the test ends."""

    async def begin() -> tuple[AgentSession, asyncio.Task[None]]:
        session = AgentSession(AgentSettings("one", spool.folder), spool)
        return session, asyncio.create_task(session.serve())

    session, serving = runner.run(begin())
    yield session
    assert not serving.done()
    serving.cancel()
    runner.run(asyncio.wait({serving}))


@pytest.mark.parametrize("run_id", ["..", "", "x\0y"])
async def test_a_run_whose_id_is_no_name_fails_and_the_agent_lives(
    session: AgentSession, spool: Spool, run_id: str
) -> None:
    prepare = RunAssignment(run_id=run_id, coordinator_timeout_ns=10**12)
    session.take_command(agent_pb2.Command(prepare=prepare))
    await session.has_reports.wait()
    first = spool.first()
    assert first is not None
    assert first[1].progress.failed.error_class == "ConfigError"


async def test_a_run_that_was_refused_and_is_sent_again_at_once_fails_alone(
    monkeypatch: pytest.MonkeyPatch, session: AgentSession, spool: Spool
) -> None:
    """The agent becomes free between the two orders."""

    async def launch(*_: object, **__: object) -> Child:
        return Child()

    monkeypatch.setattr(EngineChild, "launch", launch)
    session.take_command(agent_pb2.Command(prepare=RunAssignment(run_id="a")))
    await session.has_reports.wait()
    stop = agent_pb2.StopRun(run_id="a", abandon=True)
    again = agent_pb2.Command(prepare=RunAssignment(run_id="b"))
    for command in (again, agent_pb2.Command(stop=stop), again):
        session.take_command(command)
    while len(spool) < 4:
        session.has_reports.clear()
        await session.has_reports.wait()
    found = []
    while (first := spool.first()) is not None:
        report = first[1].progress
        found.append((report.run_id, str(report.WhichOneof("kind"))))
        spool.remove(first[0])
    failed = [("b", "failed"), ("a", "failed"), ("b", "failed")]
    assert found == [("a", "ready"), *failed]


async def test_what_an_agent_reports_names_the_attempt_that_it_is_of(
    session: AgentSession, spool: Spool
) -> None:
    attempts = []
    for attempt in (7, 5):
        prepare = RunAssignment(run_id="..", attempt=attempt)
        session.has_reports.clear()
        session.take_command(agent_pb2.Command(prepare=prepare))
        await session.has_reports.wait()
        first = spool.first()
        assert first is not None
        spool.remove(first[0])
        attempts.append(first[1].progress.attempt)
    assert attempts == [7, 5]


async def test_an_agent_says_at_its_start_which_runs_left_entries(
    tmp_path: Path, spool: Spool, caplog: pytest.LogCaptureFixture
) -> None:
    write_clean_up_plan(tmp_path / "ledgers" / "run-7", ["ldap://ds1"])
    session = AgentSession(AgentSettings("one", tmp_path), spool)
    serving = asyncio.create_task(session.serve())
    with caplog.at_level(logging.ERROR):
        await asyncio.wait({serving}, timeout=0)
    serving.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await serving
    command = f"`ldapslam run --cleanup run-7 --spool {tmp_path}`"
    assert command in caplog.text


#: More than a pipe holds.
LARGE = "x" * (4 << 20)


async def cancelled(
    run: RunAssignment,
    folder: Path,
    reached: threading.Event,
    then: threading.Event | None = None,
) -> None:
    """Once it is that far; `then` is set when it knows."""
    launch = asyncio.create_task(
        EngineChild.launch(
            run,
            engine_pb2.PrepareEngine(),
            work=folder / "work",
            log_path=folder / "logs" / "engine-a-b.log",
            command=("sleep", "600"),
        )
    )
    await asyncio.to_thread(reached.wait)
    launch.cancel()
    if then is not None:
        asyncio.get_running_loop().call_soon(then.set)
    with pytest.raises(asyncio.CancelledError):
        await launch


def test_a_launch_that_is_cancelled_leaves_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end = threading.Event(), threading.Event()

    def store(run: RunAssignment, folder: Path) -> None:
        begun.set()
        may_end.wait()
        (folder / "file-0").write_text("uid=a\tsecret")

    monkeypatch.setattr(children, "store_files", store)

    asyncio.run(cancelled(RunAssignment(), tmp_path, begun, may_end))
    assert list((tmp_path / "work").iterdir()) == []


def test_a_process_that_does_not_take_its_run_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sending = threading.Event()
    send = EngineChild.send
    pids = []

    async def told(child: EngineChild, request: engine_pb2.EngineRequest) -> None:
        pids.append(child.pid)
        sending.set()
        await send(child, request)

    monkeypatch.setattr(EngineChild, "send", told)
    run = RunAssignment(job_text=LARGE.encode())
    asyncio.run(cancelled(run, tmp_path, sending))
    assert list((tmp_path / "work").iterdir()) == []
    assert [psutil.pid_exists(pid) for pid in pids] == [False]
