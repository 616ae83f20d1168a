# SPDX-License-Identifier: Apache-2.0
"""The coordinator, its store and its agents: nothing is run that cannot be kept."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from ldapslam.base.errors import (
    AccessRefused,
    FleetError,
    NotEnoughAgents,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreTaken,
)
from ldapslam.coordinator import agent_service, operator_service, run_queue
from ldapslam.coordinator.fleet.fleet import TimePassed
from ldapslam.coordinator.runs import controller, judge
from ldapslam.coordinator.schedules import service as schedule_service
from ldapslam.coordinator.schedules.scheduler import Scheduler
from ldapslam.coordinator.security import access
from ldapslam.coordinator.security.access import Caller
from ldapslam.proto import agent_pb2
from ldapslam.proto.agent_pb2 import (
    AgentFinished,
    HeartbeatRequest,
    LeaveRequest,
    ProgressReport,
    RunPart,
)
from ldapslam.proto.operator_pb2 import (
    IntervalFigures,
    ListRunsRequest,
    RunUpdate,
)
from ldapslam.proto.schedule_pb2 import ListAuditRequest
from ldapslam.results import audit
from ldapslam.results.facts import Manifest
from ldapslam.results.records import IntervalRecord
from ldapslam.results.store import Store
from support.bounds import exceeds
from support.intervals import stored_intervals
from support.store import RUN_ID, Scenario, fill
from support.world import S, World, interval, world_in

BUSY = StoreBusy("results.sqlite", 10)
AWAY = StoreError("terminating connection due to administrator command")
FULL = StoreFull("results.sqlite", "3 writes wait for room")
TAKEN = StoreTaken("results.sqlite", "process 2 on host b")
REFUSED = agent_pb2.ReportReply.STATUS_REFUSED
COMMITTED = agent_pb2.ReportReply.STATUS_COMMITTED
DUPLICATE = agent_pb2.ReportReply.STATUS_DUPLICATE


def fail(
    monkeypatch: pytest.MonkeyPatch,
    function: str,
    times: int = 1_000_000,
    error: StoreError = BUSY,
) -> None:
    """Have a function of the store find it busy, or otherwise away, so often."""
    real = getattr(Store, function)
    left = [times]

    def busy(*args: Any, **kwargs: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise error
        return real(*args, **kwargs)

    monkeypatch.setattr(Store, function, busy)


async def test_a_run_that_cannot_be_stored_starts_no_load(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(monkeypatch, "create_run", times=1)
    with pytest.raises(StoreBusy):
        await world.submit()
    (agent,) = world.coordinator.operators.agents().agents
    assert agent.state == "idle"
    # the first command of all is that of the next run
    run_id = await world.submit()
    (command,) = await world.commands(1)
    assert command.prepare.run_id == run_id
    assert [run.run_id for run in world.store.runs()] == [run_id]


def lose_answers(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """The connection ends after each of so many commits, before its answer."""
    real = audit.noted
    left = [times]

    def noted(*args: Any) -> Any:
        answer = real(*args)
        if left[0]:
            left[0] -= 1
            raise AWAY
        return answer

    monkeypatch.setattr(audit, "noted", noted)


async def test_a_run_whose_commit_had_no_answer_is_one_run_or_none(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_answers(monkeypatch, times=2)
    with pytest.raises(StoreError, match="terminating connection"):
        await world.submit()
    lose_answers(monkeypatch, times=1)
    run_id = await world.submit()
    assert [run.run_id for run in world.store.runs()] == [run_id]
    notes = [note.subject for note in audit.newest(world.store)]
    assert notes.count(run_id) == 1
    (command,) = await world.commands(1)
    assert command.prepare.run_id == run_id


async def test_agents_are_told_to_start_only_once_that_is_stored(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.beat(0)
    run_id = await world.submit()
    commit, told = world.store.set_manifest, world.now_ns

    def slowly(run_id: str, facts: Manifest) -> None:
        if facts.t0 and world.now_ns == told:
            world.now_ns += S  # the disk took so long
        commit(run_id, facts)

    monkeypatch.setattr(world.store, "set_manifest", slowly)
    await world.report(run_id, ready=agent_pb2.AgentReady())
    _, start = await world.commands(2)
    assert start.start.t0_mono_ns == told + S + 2 * S
    t0 = world.store.run(run_id).manifest.t0
    assert t0 is not None
    assert t0.mono_ns == start.start.t0_mono_ns


async def test_what_was_said_of_the_attempt_or_by_the_process_before_does_not_count(
    world: World,
) -> None:
    run_id = await world.submit()
    (command,) = await world.commands(1)
    attempt = command.prepare.attempt
    assert attempt
    stopped = agent_pb2.AgentFinished(early_reason="no coordinator")
    stale: list[dict[str, Any]] = [
        {"attempt": attempt + 1, "ready": agent_pb2.AgentReady()},
        {"attempt": attempt + 1, "finished": stopped},
        {"epoch": 2, "finished": stopped},
    ]
    statuses = [(await world.report(run_id, **kind)).status for kind in stale]
    assert statuses[-1] == DUPLICATE
    assert (await world.run(run_id)).state == "preparing"
    (agent,) = world.coordinator.operators.agents().agents
    assert list(agent.run_ids) == [run_id]
    await world.beat(0)
    await world.report(run_id, attempt=attempt, ready=agent_pb2.AgentReady())
    assert (await world.run(run_id)).state == "ready"


async def test_operations_that_an_agent_reports_twice_are_counted_once(
    world: World,
) -> None:
    await world.beat(0)
    run_id = await world.submit()
    before = json.dumps({"control_operations": {"ldap://ds": {"bind": 2}}})
    for _ in range(2):
        ready = agent_pb2.AgentReady(facts_json=before)
        assert (await world.report(run_id, ready=ready)).status == COMMITTED
    await world.report(run_id, started=agent_pb2.AgentStarted())
    manifest = world.store.run(run_id).manifest
    assert manifest.control_operations == {"ldap://ds": {"bind": 2}}


async def test_a_run_that_cannot_take_the_time_does_not_keep_it_from_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_ids = [await world.submit() for _ in range(2)]
    told = []

    def feed(run: controller.ActiveRun, event: object) -> None:
        told.append(run.run_id)
        raise RuntimeError("for the test")

    with monkeypatch.context() as patch:
        patch.setattr(controller.ActiveRun, "feed", feed)
        world.coordinator._pass_time(is_stalled=False)
    assert told == run_ids


async def test_a_run_that_was_refused_is_not_stored(world: World) -> None:
    leave = agent_pb2.LeaveRequest(session_id=world.sessions["a"])
    await world.coordinator.agents.Leave(leave, None)
    with pytest.raises(NotEnoughAgents):
        await world.submit()
    assert world.store.runs() == []


@pytest.mark.parametrize(
    ("times", "error", "state"), [(2, BUSY, "finished"), (1_000_000, FULL, "failed")]
)
async def test_the_end_of_a_run_is_written_until_it_is_stored_or_cannot_be(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    times: int,
    error: StoreError,
    state: str,
) -> None:
    monkeypatch.setattr(controller, "_END_PAUSE_S", 0)
    run_id = await world.begin()
    updates = world.watch(run_id)
    await anext(updates)
    fail(monkeypatch, "set_run_state", times, error)
    await world.report(run_id, finished=agent_pb2.AgentFinished())
    status = [update async for update in updates][-1].status
    assert status.state == state
    assert ("3 writes wait for room" in status.state_detail) == (error is FULL)
    assert (world.store.run(run_id).state == "finished") == (error is BUSY)
    (agent,) = world.coordinator.operators.agents().agents
    assert agent.state == "idle"


async def test_a_run_is_judged_once_and_again_when_more_of_it_arrives(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge, "_QUIET_S", 0.0)
    run_id = await world.begin()
    await world.report_interval(interval(world, run_id, 1))
    world.lose_agent()
    await world.end_of(run_id)
    verdicts = world.coordinator.fleet.verdicts
    assert await world.judged.get() == run_id
    await verdicts.wait()
    assert world.store.run(run_id).verdict == "PASS"
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(world.judged.get(), 0.1)
    for number in (2, 3):
        reply = await world.report_interval(interval(world, run_id, number))
        assert reply.status == COMMITTED
        assert await world.judged.get() == run_id
    await verdicts.wait()
    assert world.store.run(run_id).verdict == "PASS"
    # each time it is told who delivered
    events = [one.kind for one in world.store.events(run_id)]
    assert events.count("late_reports") == 2
    newest = audit.newest(world.store, 2)
    assert [(one.action, one.who) for one in newest] == [("late_reports", "a")] * 2

    add_interval = world.writer.add_interval

    async def hung_up(run_id: str, record: IntervalRecord) -> None:
        await add_interval(run_id, record)
        raise asyncio.CancelledError

    monkeypatch.setattr(world.writer, "add_interval", hung_up)
    with pytest.raises(asyncio.CancelledError):
        await world.report_interval(interval(world, run_id, 4))
    assert await world.judged.get() == run_id


async def test_a_run_that_ended_without_a_verdict_is_judged_at_the_next_start(
    world: World,
) -> None:
    await world.writer.call(fill, world.store, Scenario(run={"verdict": None}))
    await world.restart()
    assert await asyncio.wait_for(world.judged.get(), 5) == RUN_ID
    await world.coordinator.fleet.verdicts.wait()
    assert world.store.run(RUN_ID).verdict == "PASS"


async def test_intervals_of_one_message_are_answered_one_by_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reports(*sequences: int) -> agent_pb2.IntervalReports:
        return agent_pb2.IntervalReports(
            reports=[interval(world, run_id, sequence) for sequence in sequences]
        )

    async def send(request: agent_pb2.IntervalReports) -> list[int]:
        answer = await world.coordinator.agents.take_intervals(request)
        return [one.status for one in answer.replies]

    run_id = await world.begin()
    request = reports(0, 1, 2)
    request.reports[1].packed = b"damaged"
    assert await send(request) == [COMMITTED, REFUSED, COMMITTED]
    with monkeypatch.context() as patch:
        fail(patch, "add_intervals", times=1, error=AWAY)
        with pytest.raises(type(AWAY)):
            await send(reports(3, 4))
    assert await send(reports(2, 3, 4)) == [DUPLICATE, COMMITTED, COMMITTED]
    stored = stored_intervals(world.store, run_id)
    assert [one.sequence for one in stored] == [0, 2, 3, 4]


async def test_a_report_is_a_sign_of_life_of_its_session(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await world.begin()
    fleet = world.coordinator.fleet

    async def after(silence_s: int, session_id: str, sequence: int) -> str:
        report = interval(world, run_id, sequence)
        world.now_ns += silence_s * S
        fleet.feed(TimePassed())
        await world.report_interval(report, session_id)
        (agent,) = world.coordinator.operators.agents().agents
        return agent.state

    assert await after(3, world.sessions["a"], 1) == "assigned"
    # 6 s after the heartbeat
    assert await after(3, "of another process", 2) == "assigned"
    assert await after(3, "of another process", 3) == "silent"
    assert await after(0, world.sessions["a"], 4) == "assigned"
    # one that is not committed, too
    with monkeypatch.context() as patch:
        fail(patch, "add_intervals", times=1, error=AWAY)
        with pytest.raises(type(AWAY)):
            await after(3, world.sessions["a"], 5)
    assert await after(3, "of another process", 6) == "assigned"


@pytest.mark.parametrize("error", [BUSY, AWAY, TAKEN])
async def test_a_report_that_finds_the_store_away_is_asked_for_again(
    world: World, monkeypatch: pytest.MonkeyPatch, error: StoreError
) -> None:
    run_id = await world.begin()
    report = interval(world, run_id, 1)
    with monkeypatch.context() as patch:
        for function in ("add_intervals", "add_interval"):
            fail(patch, function, times=1, error=error)
        with pytest.raises(type(error)):
            await world.report_interval(report)
    assert (await world.run(run_id)).state == "running"
    reply = await world.report_interval(report)
    assert reply.status == COMMITTED


async def test_a_run_that_the_store_has_no_room_for_is_refused_before_it_begins(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = "2026-03-01T12:00:00Z"
    await world.beat(0)
    waiting = await world.submit(not_before_utc=later)
    with monkeypatch.context() as patch:
        patch.setattr(run_queue, "room_bytes", lambda _: 1 << 20)
        with pytest.raises(FleetError, match="too little room in its store"):
            await world.submit()
        assert [run.run_id for run in world.store.runs()] == [waiting]
        await world.coordinator.queue.release(waiting)
    status = await world.end_of(waiting)
    assert status.state == "failed"
    assert "1 MiB left" in status.state_detail
    assert status.failure.error_class == "FleetError"
    # with room again agent and target are free
    await world.coordinator.queue.release(await world.submit(not_before_utc=later))
    (command,) = await world.commands(1)
    assert command.WhichOneof("kind") == "prepare"


@pytest.mark.parametrize(
    ("faults", "told"), [([FULL] * 99, "stop"), ([AWAY, AWAY], "start")]
)
async def test_no_agent_is_told_to_start_before_that_is_stored(
    world: World, monkeypatch: pytest.MonkeyPatch, faults: list[StoreError], told: str
) -> None:
    """A store that is away is waited for, one without room is not."""
    monkeypatch.setattr(controller, "_START_PAUSE_S", 0)
    left = [*faults]
    await world.beat(0)
    run_id = await world.submit()
    flush = world.writer.flush

    async def away(run_id: str = "") -> None:
        if left:
            raise left.pop()
        await flush(run_id)

    with monkeypatch.context() as patch:
        patch.setattr(world.writer, "flush", away)
        with pytest.raises(StoreError):  # not acknowledged: the agent says it again
            await world.report(run_id, ready=agent_pb2.AgentReady())
        commands = await world.commands(2)
    assert [one.WhichOneof("kind") for one in commands] == ["prepare", told]
    if told == "stop":
        await world.report(run_id, finished=agent_pb2.AgentFinished())
        status = await world.end_of(run_id)
        assert status.state == "failed"
        assert "wait for room" in status.state_detail


async def test_a_run_that_is_half_taken_up_holds_no_target(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await world.begin()

    def resume(*args: object) -> None:
        raise RuntimeError("for the test")

    monkeypatch.setattr(controller.ActiveRun, "resume", resume)
    async with world_in(tmp_path) as next_world:
        await next_world.coordinator.start()
        assert next_world.store.run(run_id).state == "failed"
        await next_world.report(run_id, finished=agent_pb2.AgentFinished())
        # agent and target are free for the next one
        next_id = await next_world.submit()
        (command,) = await next_world.commands(1)
        assert command.prepare.run_id == next_id


async def test_a_store_that_is_away_at_the_start_ends_no_run(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.beat(0)
    run_id = await world.submit()
    async with world_in(tmp_path) as next_world:
        with monkeypatch.context() as patch:
            fail(patch, "events", error=AWAY)
            with pytest.raises(StoreError, match="terminating connection"):
                await next_world.coordinator.start()
        assert next_world.store.run(run_id).state == "preparing"


async def test_facts_of_the_coordinator_are_its_own_the_drift_of_a_clock_among_them(
    world: World,
) -> None:
    await world.beat(5_000_000)
    run_id = await world.submit()
    ready = agent_pb2.AgentReady(facts_json=json.dumps({"realtime": True}))
    assert (await world.report(run_id, ready=ready)).status == COMMITTED
    await world.report(run_id, started=agent_pb2.AgentStarted())
    before = world.store.agents(run_id)["a"]
    assert (before.epoch, before.realtime) == (3, True)
    world.now_ns += 600 * S
    await world.beat(4_000_000)
    await world.report(run_id, finished=agent_pb2.AgentFinished())
    facts = world.store.agents(run_id)["a"]
    assert facts.clock_offset_us == before.clock_offset_us == 5_000
    assert facts.clock_drift_us == 1_000
    assert facts.clock_offset_bound_us == before.clock_offset_bound_us


async def test_an_agent_whose_report_is_refused_fails_the_run_at_once(
    world: World,
) -> None:
    run_id = await world.submit()
    ready = agent_pb2.AgentReady(facts_json='{"host": NaN}')
    assert (await world.report(run_id, ready=ready)).status == REFUSED
    status = await world.end_of(run_id)
    assert status.state == "failed"
    assert "facts are not JSON" in status.state_detail
    _, command = await world.commands(2)
    assert command.stop.abandon


async def test_when_a_run_was_told_to_drain_is_in_its_manifest(world: World) -> None:
    run_id = await world.begin()
    world.now_ns += 700_000_000
    told_ns = world.now_ns
    await world.coordinator.queue.cancel_run(run_id, "ana")
    world.now_ns += S
    await world.report(run_id, finished=agent_pb2.AgentFinished())
    assert (await world.end_of(run_id)).state == "cancelled"
    manifest = world.store.run(run_id).manifest
    assert manifest.t0 is not None
    assert manifest.ending is not None
    assert manifest.ending.drained_ns == told_ns - manifest.t0.mono_ns


async def test_of_what_agents_and_operators_ask_for_too_much_is_counted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_service, "_MOST_REFUSALS", 2)
    monkeypatch.setattr(operator_service, "MOST_RECORDS", 2)
    monkeypatch.setattr(schedule_service, "MOST_RECORDS", 2)
    monkeypatch.setattr(controller, "_MOST_UNREAD", 2)
    operators = world.coordinator.operators
    run_id = await world.submit()

    async def refused(run_id: str) -> agent_pb2.ReportReply:
        part = world.coordinator.fleet.runs.get(run_id)
        report = agent_pb2.IntervalReport(run_id=run_id, agent="a", packed=b"x")
        if part is not None:
            report.epoch, report.attempt = 3, part.stored_part("a").attempt
        return await world.report_interval(report)

    with exceeds():
        await operators.ListRuns(ListRunsRequest(), None)
        for _ in range(2):
            assert (await refused("nosuch")).status == REFUSED
            assert (await refused(run_id)).status == REFUSED
    with exceeds(REFUSALS=1):
        assert (await refused(run_id)).status == REFUSED
    events = [one.kind for one in (await world.run(run_id)).events]
    assert events.count("report_refused") == 2
    await world.submit()
    with exceeds(RECORDS=1):
        assert len((await operators.ListRuns(ListRunsRequest(), None)).runs) == 2
    scheduler = Scheduler(world.writer, world.coordinator.queue)
    schedules = schedule_service.ScheduleService(scheduler, world.coordinator)
    with exceeds(RECORDS=1):
        await schedules.ListAudit(ListAuditRequest(), None)

    run = world.coordinator.fleet.runs[run_id]
    updates = run.subscribe()
    unread = updates.qsize()
    with exceeds():
        for _ in range(2 - unread):
            run._notify(RunUpdate(figures=IntervalFigures()))
    with exceeds(UNREAD=1):
        run._notify(RunUpdate(figures=IntervalFigures()))
    assert updates.qsize() == 2


async def test_a_process_that_is_known_by_its_epoch_alone_gets_sessions_of_its_own(
    world: World,
) -> None:
    agents, sessions = world.coordinator.agents, []
    for is_new in (True, False, True):
        await world.register(is_new=is_new, instance_id="")
        sessions.append(world.sessions["a"])
    assert sessions[0] == sessions[1] != sessions[2]
    known = [
        (await agents.Heartbeat(HeartbeatRequest(session_id=one), None)).known
        for one in sessions
    ]
    assert known == [False, False, True]
    # what another agent may not use
    access.enter(Caller("b", "agent", ""))
    with pytest.raises(AccessRefused, match="not that of agent 'b'"):
        await agents.Leave(LeaveRequest(session_id=sessions[2]), None)


async def test_an_agent_is_free_again_when_it_ends_a_run_that_nobody_here_knows(
    world: World,
) -> None:
    # of a coordinator with another store
    await world.register(runs=[RunPart(run_id="elsewhere", state="running")])
    states = []
    for epoch in (2, 3):
        ended = AgentFinished(early_reason="it was stopped")
        report = ProgressReport(
            run_id="elsewhere", agent="a", epoch=epoch, finished=ended
        )
        reply = await world.coordinator.agents.ReportProgress(report, None)
        assert reply.status == REFUSED
        states += [one.state for one in world.coordinator.operators.agents().agents]
    # what the process before it did says nothing of this one
    assert states == ["assigned", "idle"]
