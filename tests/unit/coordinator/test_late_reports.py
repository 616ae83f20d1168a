# SPDX-License-Identifier: Apache-2.0
"""What an agent may still add to a run: nothing once its part has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ldapslam.coordinator.runs import controller, judge
from ldapslam.proto import agent_pb2
from ldapslam.proto import monitor_pb2 as pb
from ldapslam.proto.common_pb2 import CleaningUp, Failure
from ldapslam.results import audit
from ldapslam.results.digest import parts_of
from ldapslam.results.packing import pack
from support.fleet import job_text
from support.rows import snapshot_of
from support.world import S, World, interval

COMMITTED = agent_pb2.ReportReply.STATUS_COMMITTED
MONITORED = job_text(monitors=[{"host": "replica"}])


def ready(name: str = "host h", **facts: Any) -> pb.MonitorEvent:
    metric = pb.MonitorMetric(name="cpu_user", unit="s", is_counter=True)
    description = pb.MonitorDescription(name=name, metrics=[metric])
    return pb.MonitorEvent(ready=pb.MonitorReady(monitors=[description], **facts))


def samples(*at_ns: int, monitor: str = "host h") -> pb.MonitorEvent:
    readings = [
        pb.MonitorSample(monitor=monitor, at_ns=one, values=[1.0]) for one in at_ns
    ]
    return pb.MonitorEvent(samples=pb.MonitorSamples(samples=readings))


FINISHED = pb.MonitorEvent(finished=pb.MonitorFinished())


async def progress(world: World, run_id: str, **kind: Any) -> int:
    return (await world.report(run_id, **kind)).status


async def measured(world: World, run_id: str, sequence: int, **fields: Any) -> int:
    report = interval(world, run_id, sequence)
    for name, value in fields.items():
        setattr(report, name, value)
    return (await world.report_interval(report)).status


async def begin(world: World, text: str = MONITORED) -> str:
    """A run whose load goes on."""
    await world.beat(0)
    run_id = await world.submit(text)
    if text == MONITORED:
        assert await world.report_monitor(run_id, ready()) == COMMITTED
    await world.report(run_id, ready=agent_pb2.AgentReady())
    await world.report(run_id, started=agent_pb2.AgentStarted())
    world.now_ns += 2 * S
    assert await measured(world, run_id, 0) == COMMITTED
    if text == MONITORED:
        assert await world.report_monitor(run_id, samples(-5, 0)) == COMMITTED
    return run_id


async def end(world: World, run_id: str) -> None:
    await world.report(run_id, finished=agent_pb2.AgentFinished(interval_count=1))
    assert await world.report_monitor(run_id, FINISHED) == COMMITTED
    await until_judged(world, run_id)


async def until_judged(world: World, run_id: str) -> None:
    await world.end_of(run_id)
    assert await world.judged.get() == run_id
    await world.coordinator.fleet.verdicts.wait()


OTHER = pack(snapshot_of(index=0, end_ns=2 * S, phase="measure"))
ATTACKS: dict[str, Callable[[World, str], Awaitable[int]]] = {
    "monitors of another process": lambda w, r: w.report_monitor(
        r, ready(), epoch=77, attempt=999
    ),
    "monitors described again": lambda w, r: w.report_monitor(r, ready()),
    "other monitors": lambda w, r: w.report_monitor(r, ready("host i")),
    "samples": lambda w, r: w.report_monitor(r, samples(7)),
    "samples of nothing described": lambda w, r: w.report_monitor(
        r, samples(8, monitor="x")
    ),
    "samples of another attempt": lambda w, r: w.report_monitor(
        r, samples(9), attempt=1
    ),
    "a monitor's facts": lambda w, r: w.report_monitor(
        r,
        pb.MonitorEvent(
            finished=pb.MonitorFinished(facts_json='{"observations": {"x": {}}}')
        ),
    ),
    "an interval": lambda w, r: measured(w, r, 1),
    "another interval in a stored place": lambda w, r: measured(w, r, 0, packed=OTHER),
    "an interval of another process": lambda w, r: measured(w, r, 1, epoch=4),
    "an interval of another attempt": lambda w, r: measured(w, r, 1, attempt=5),
    "facts of its start": lambda w, r: progress(
        w, r, ready=agent_pb2.AgentReady(facts_json='{"host": {"cores": 99}}')
    ),
    "facts of its end": lambda w, r: progress(
        w, r, finished=agent_pb2.AgentFinished(facts_json='{"realtime": true}')
    ),
    "a failure": lambda w, r: progress(w, r, failed=Failure(message="no")),
    "a clean-up": lambda w, r: progress(w, r, cleaning_up=CleaningUp()),
}


@pytest.mark.parametrize("attack", ATTACKS)
async def test_nothing_is_added_to_a_run_whose_agent_has_ended_its_part(
    world: World, attack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge, "_QUIET_S", 0.0)
    run_id = await begin(world)
    await end(world, run_id)
    before = parts_of(world.store, run_id), world.store.run(run_id)
    await ATTACKS[attack](world, run_id)
    await world.coordinator.fleet.verdicts.wait()
    await world.writer.flush()
    assert (parts_of(world.store, run_id), world.store.run(run_id)) == before
    assert world.judged.empty()


LIVE = {
    "monitors that nobody asked for": (job_text(), ready()),
    "samples that nobody asked for": (job_text(), samples(1)),
    "more monitors during the load": (MONITORED, ready("host i")),
    "samples of nothing described": (MONITORED, samples(1, monitor="host i")),
    "samples of the future": (MONITORED, samples(600 * S)),
    "facts of monitors again": (
        MONITORED,
        pb.MonitorEvent(
            ready=pb.MonitorReady(facts_json='{"observations": {"x": {}}}')
        ),
    ),
    "samples of long before": (MONITORED, samples(-7200 * S)),
    "samples without number": (MONITORED, samples(*range(10_001))),
}


@pytest.mark.parametrize("attack", LIVE)
async def test_a_run_takes_only_what_its_plan_foresees(
    world: World, attack: str
) -> None:
    text, event = LIVE[attack]
    run_id = await begin(world, text)
    names = "monitor_description", "monitor_sample", "manifest"
    before = parts_of(world.store, run_id)
    await world.report_monitor(run_id, event)
    after = parts_of(world.store, run_id)
    assert [after[name] for name in names] == [before[name] for name in names]


async def test_the_reports_of_a_part_have_bounded_room(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller, "room_bytes", lambda _: 1_000)
    run_id = await begin(world)
    taken = 0
    while await world.report_monitor(run_id, samples(taken + 1)) == COMMITTED:
        taken += 1
    assert 1 < taken < 1_000 / 20
    assert world.store.part(run_id, "a").room_bytes >= 0
    # the run goes on without monitors
    await world.report(run_id, finished=agent_pb2.AgentFinished(interval_count=1))
    await until_judged(world, run_id)


async def test_what_a_lost_agent_has_measured_is_added_and_the_run_judged_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge, "_QUIET_S", 0.0)
    run_id = await begin(world)
    world.lose_agent()
    await until_judged(world, run_id)
    assert await measured(world, run_id, 1) == COMMITTED
    assert await asyncio.wait_for(world.judged.get(), 5) == run_id
    assert await world.report_monitor(run_id, samples(6)) == COMMITTED
    assert await world.report_monitor(run_id, samples(7, monitor="x")) != COMMITTED
    await world.coordinator.fleet.verdicts.wait()
    kinds = [one.kind for one in world.store.events(run_id)]
    assert kinds.count("late_reports") == 2
    assert audit.newest(world.store, 1)[0].action == "late_reports"
    # its last word closes the part
    await world.report(run_id, failed=Failure(message="it was killed"))
    await world.coordinator.fleet.verdicts.wait()
    assert await measured(world, run_id, 2) != COMMITTED
