# SPDX-License-Identifier: Apache-2.0
"""What agents that register hold of runs, and what a coordinator left of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ldapslam.base.errors import AgentLost, RunAborted, StoreBusy
from ldapslam.coordinator.runs.crash_recovery import (
    Resume,
    ending_facts,
    recovery_of,
)
from ldapslam.coordinator.runs.run import Ending, Part, RunState
from ldapslam.proto import agent_pb2, monitor_pb2
from ldapslam.results.facts import AgentFacts, Manifest, Start
from ldapslam.results.records import OpenRun, RunRecord, SubmissionRecord
from ldapslam.results.store import Store
from ldapslam.transport.messages import failure_message
from support.fleet import job_text
from support.world import World

MONITORED = job_text(monitors=[{"directory": "replica"}], agents={"count": 2})


@pytest.fixture
def world(runner: asyncio.Runner, tmp_path: Path) -> Iterator[World]:
    """Its coordinator has been started; no agent is there."""
    world = World(tmp_path)
    runner.run(world.coordinator.start())
    yield world
    runner.run(world.coordinator.stop(leave_runs=True))
    runner.run(world.writer.close())


async def submit(world: World, registered: str = "") -> str:
    """A run that waits for its agents, after these agents have registered."""
    for name in registered:
        await world.register(name)
    return await world.submit(MONITORED, wait_for_agents_ns=10**12)


async def told(world: World, name: str) -> list[str]:
    """The kinds of all commands of the agent's session, in their order."""
    request = agent_pb2.CommandsRequest(session_id=world.sessions[name])
    stream = world.coordinator.agents.Commands(request, None)
    kinds: list[str] = []
    try:
        async with asyncio.timeout(0.05):
            async for command in stream:
                kinds.append(str(command.WhichOneof("kind")))
    except TimeoutError:
        await stream.aclose()
    return kinds


def has_open_watch(world: World, run_id: str, agent: str) -> bool:
    return world.coordinator.fleet.runs[run_id].has_open_watch(agent)


async def assert_all_are_monitored(world: World, run_id: str) -> None:
    """The run has begun with its monitors, and waits for them."""
    for name in "ab":
        assert await told(world, name) == ["monitor"]
        assert has_open_watch(world, run_id, name)
    events = world.coordinator.fleet.runs[run_id].status().events
    assert "observer_failed" not in [event.kind for event in events]
    ready = monitor_pb2.MonitorReady(facts_json="{}")
    for name in "ab":
        await world.report_monitor(run_id, monitor_pb2.MonitorEvent(ready=ready), name)
    assert await told(world, "a") == ["monitor", "prepare"]


@pytest.mark.parametrize("last", ["a", "b"])
async def test_a_run_that_waited_while_its_coordinator_was_away_begins_with_monitors(
    world: World, last: str
) -> None:
    run_id = await submit(world)
    await world.restart()
    for name in ("b", "a") if last == "a" else ("a", "b"):
        await world.register(name)
    await assert_all_are_monitored(world, run_id)


@pytest.mark.parametrize("last", ["a", "b"])
async def test_a_run_that_waited_for_an_agents_restart_begins_with_monitors(
    world: World, last: str
) -> None:
    for name in "ab":
        await world.register(name)
    leave = agent_pb2.LeaveRequest(session_id=world.sessions[last], reason="killed")
    await world.coordinator.agents.Leave(leave, None)
    run_id = await submit(world)
    await world.register(last, is_new=True)
    await assert_all_are_monitored(world, run_id)


@pytest.mark.parametrize("is_new", [False, True])
async def test_an_agent_that_monitors_a_run_that_is_over_is_told_to_end_it(
    world: World, is_new: bool
) -> None:
    await world.register("a")
    resumed = await world.register("a", is_new=is_new, monitored_runs=["over"])
    assert resumed is not is_new
    assert await told(world, "a") == ["end_monitoring"]


async def test_an_agent_that_reconnects_keeps_the_order_to_monitor_that_is_under_way(
    world: World,
) -> None:
    run_id = await submit(world, "ba")
    # it does not know of the run yet
    assert await world.register("a")
    await assert_all_are_monitored(world, run_id)


async def test_the_monitor_of_an_attempt_before_ends_before_the_next_one_begins(
    world: World,
) -> None:
    run_id = await submit(world, "ab")
    await world.restart()  # the run is being prepared: it is queued again
    await world.register("b")
    await world.register("a", monitored_runs=[run_id])
    assert await told(world, "a") == ["end_monitoring", "monitor"]
    assert has_open_watch(world, run_id, "a")


async def test_a_run_that_ends_ends_monitors_that_it_believes_to_be_gone(
    world: World,
) -> None:
    run_id = await submit(world, "ab")
    failed = failure_message(RunAborted("so it says"))
    await world.report_monitor(run_id, monitor_pb2.MonitorEvent(failed=failed))
    assert not has_open_watch(world, run_id, "a")
    await world.coordinator.queue.cancel_run(run_id, "me")
    assert [await told(world, name) for name in "ab"] == [
        ["monitor", "end_monitoring"],
        ["monitor", "end_monitoring"],
    ]


async def test_a_run_whose_end_is_not_stored_yet_has_no_monitors(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await submit(world, "ab")

    def busy(*_: object) -> None:
        raise StoreBusy("results.sqlite", 10)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "forget_submission", busy)
        await world.coordinator.queue.cancel_run(run_id, "me")
        assert run_id in world.coordinator.fleet.runs
        # the order went with the process that had the session
        await world.register("a", is_new=True, monitored_runs=[run_id])
        assert await told(world, "a") == ["end_monitoring"]


# What becomes of each kind of run that a coordinator left open.


T0 = Start(mono_ns=7, boot_id="boot")
FACTS = {"a": AgentFacts(epoch=3), "b": AgentFacts(epoch=1, part="ended")}


def left(
    state: str, facts: Mapping[str, AgentFacts] = FACTS, **manifest: Any
) -> OpenRun:
    record = RunRecord(
        *("run", "job", "", "", 1, "", ""),
        agents=("a", "b"),
        manifest=Manifest(**manifest),
        state=state,
    )
    return OpenRun(record, SubmissionRecord(b""), facts)


@pytest.mark.parametrize("state", ["queued", "preparing", "ready"])
def test_a_run_without_load_waits_again(state: str) -> None:
    assert recovery_of(left(state)) is None


@pytest.mark.parametrize(
    ("state", "part"),
    [
        ("ready", Part.PREPARED),
        ("running", Part.STARTED),
        ("draining", Part.STARTED),
    ],
)
def test_a_run_with_load_goes_on(state: str, part: Part) -> None:
    assert recovery_of(left(state, t0=T0)) == Resume(
        RunState(state), {"a": part, "b": Part.ENDED}, 7, "boot", awaited={"a": 3}
    )


def test_a_part_is_what_the_agents_facts_say() -> None:
    plan = recovery_of(
        left("ready", {"a": AgentFacts(part="started"), "b": AgentFacts()}, t0=T0)
    )
    assert isinstance(plan, Resume)
    assert plan.parts == {"a": Part.STARTED, "b": Part.PREPARED}


def test_what_a_run_was_to_end_in_is_kept() -> None:
    error = AgentLost("b", 5.0)
    ending = Ending(RunState.FAILED, str(error), error)
    plan = recovery_of(left("draining", t0=T0, ending=ending_facts(ending)))
    assert isinstance(plan, Resume)
    assert plan.ending.state is RunState.FAILED
    assert isinstance(plan.ending.error, AgentLost)
    assert plan.ending.error.to_dict() == error.to_dict()


def test_the_time_that_a_run_was_first_told_to_drain_is_kept() -> None:
    planned = ending_facts(Ending(), 60)
    failed = ending_facts(Ending(RunState.FAILED, "lost"), 70, planned)
    assert (planned.drained_ns, failed.drained_ns) == (60, 60)
    assert failed.state == "failed"
    # before T0 was told
    early = ending_facts(Ending(RunState.CANCELLED, "by ana"))
    assert early.drained_ns is None
