# SPDX-License-Identifier: Apache-2.0
"""What an agent may still add to a run: nothing once its part has ended."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ldapslam.base.errors import FleetError, RunAborted
from ldapslam.coordinator.fleet.selection import first_of_each_host
from ldapslam.coordinator.runs import controller, judge
from ldapslam.coordinator.runs.ingest import monitor_news, with_report
from ldapslam.coordinator.runs.run import (
    MonitorEnded,
    MonitorPrepared,
    MonitorProgressed,
)
from ldapslam.proto import agent_pb2
from ldapslam.proto import monitor_pb2 as pb
from ldapslam.proto.common_pb2 import CleaningUp, Failure
from ldapslam.results import audit
from ldapslam.results.digest import parts_of
from ldapslam.results.facts import (
    Observation,
    Observed,
    ObserverCost,
    Reading,
    ReplicationFacts,
)
from ldapslam.results.packing import pack
from ldapslam.results.records import Metric, MonitorSample
from ldapslam.transport.messages import ProtocolError, failure_message
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


# What observers report: taken when it can be kept, refused when it cannot.


URI = "ldap://ds1"


def report(**kind: Any) -> pb.MonitorReport:
    return pb.MonitorReport(run_id="r", agent="a", event=pb.MonitorEvent(**kind))


def one_sample(**fields: Any) -> pb.MonitorSamples:
    return pb.MonitorSamples(samples=[pb.MonitorSample(**fields)])


def facts(**of: Any) -> str:
    return json.dumps(of)


def test_what_is_observed_is_what_was_reported() -> None:
    ready = pb.MonitorReady(
        monitors=[
            pb.MonitorDescription(
                name="host h",
                metrics=[
                    pb.MonitorMetric(name="cpu_user", unit="s", is_counter=True),
                    pb.MonitorMetric(name="memory_used", unit="bytes"),
                ],
                facts_json=facts(cores=2),
            )
        ],
        facts_json=facts(observations={URI: {"kind": "slapd"}}),
    )
    found = monitor_news(report(ready=ready), 10)
    assert found.event == MonitorPrepared("a")
    (monitor,) = found.monitors
    assert monitor.metrics == [
        Metric("cpu_user", "s", "counter"),
        Metric("memory_used", "bytes", "gauge"),
    ]
    assert monitor.facts.document() == {"cores": 2}
    assert found.facts == Observed(observations={URI: Observation(kind="slapd")})

    samples = [
        pb.MonitorSample(monitor="host h", at_ns=-5, took_ns=7, values=[1.0, 2.0]),
        pb.MonitorSample(monitor="host h", at_ns=9, failure="no answer"),
    ]
    taken = monitor_news(report(samples=pb.MonitorSamples(samples=samples)), 10)
    assert taken.event == MonitorProgressed("a")
    assert taken.samples == [
        MonitorSample("host h", -5, 7, (1.0, 2.0), None),
        MonitorSample("host h", 9, 0, (), "no answer"),
    ]
    for error in (RunAborted("it fell over"), FleetError("it may not")):
        failed = monitor_news(report(failed=failure_message(error)), 10).event
        assert isinstance(failed, MonitorEnded)
        assert str(error) in failed.reason
        assert isinstance(failed.refusal, FleetError) == isinstance(error, FleetError)
    ended = monitor_news(finished(replication={}), 10)
    assert ended.facts == Observed(replication=ReplicationFacts())


def finished(**of: Any) -> pb.MonitorReport:
    return report(finished=pb.MonitorFinished(facts_json=facts(**of)))


@pytest.mark.parametrize(
    "of",
    [
        {"observations": {URI: {"before": {"operations": {"add": 1.5}}}}},
        {"replication": {"trees": [{"suffix": "dc=example"}]}},
        {"t0": {"mono_ns": 0}},
        {"observations": {URI: {"facts": json.loads("[" * 30 + "]" * 30)}}},
    ],
)
def test_facts_that_a_report_could_stumble_over_are_refused(of: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError):
        monitor_news(finished(**of), 10)


@pytest.mark.parametrize(
    "kind",
    [
        {},
        {"samples": one_sample(monitor="")},
        {"samples": one_sample(monitor="x", took_ns=-1)},
    ],
)
def test_what_cannot_be_kept_is_refused(kind: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError):
        monitor_news(report(**kind), 10)


def test_samples_of_no_time_of_the_run_are_left_out() -> None:
    samples = [
        pb.MonitorSample(monitor="x", at_ns=at_ns)
        for at_ns in (-(2**63), -3_600_000_000_001, -5, 10, 11, 2**63 - 1)
    ]
    news = monitor_news(report(samples=pb.MonitorSamples(samples=samples)), 10)
    assert [one.at_ns for one in news.samples] == [-5, 10]


def test_what_is_found_later_joins_what_was_found_before() -> None:
    other = Observation(kind="389-ds")
    known = Observed(
        observations={URI: Observation(kind="slapd", before=Reading())},
        observer_cost=ObserverCost(cpu_s=1.5),
    )
    news = Observed(
        observations={URI: Observation(after=Reading()), "ldap://ds2": other},
        observer_cost=ObserverCost(cpu_s=0.5),
        replication=ReplicationFacts(converged=True),
    )
    assert with_report(known, news).document() == {
        "observations": {
            URI: {"kind": "slapd", "before": {}, "after": {}},
            "ldap://ds2": {"kind": "389-ds"},
        },
        "observer_cost": {"cpu_s": 2.0},
        "replication": {"converged": True},
    }


@pytest.mark.parametrize(
    ("agents", "hosts", "observers"),
    [
        # without a session nothing is known of an agent's host
        ("ab", {}, {"a", "b"}),
        ("ab", {"a": "", "b": ""}, {"a", "b"}),
        ("abc", {"a": "h1", "b": "h1", "c": "h2"}, {"a", "c"}),
        ("bac", {"a": "h1", "b": "h1", "c": "h2"}, {"b", "c"}),
    ],
)
def test_of_the_agents_of_one_host_the_first_one_observes(
    agents: str, hosts: dict[str, str], observers: set[str]
) -> None:
    assert first_of_each_host(tuple(agents), hosts) == observers
