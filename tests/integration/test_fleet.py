# SPDX-License-Identifier: Apache-2.0
"""A fleet of real processes: the way of a run, and what may go wrong on it.

The engines are fake ones where only the fleet is of interest, or where one has to do
what a real one does not on request.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import closing
from pathlib import Path

from ldapslam import __version__
from ldapslam.base.errors import (
    AgentLost,
    NotEnoughAgents,
    RunAborted,
    TlsHandshakeFailed,
)
from ldapslam.lab.certificates import Authority
from ldapslam.transport.messages import PROTOCOL_VERSION, error_of
from support.fake_engine import PER_INTERVAL
from support.fleet import FINAL, FleetOfProcesses, fake_engine, job_text
from support.intervals import stored_intervals
from support.lab import Lab
from support.processes import is_alive

#: 1 s in intervals of 200 ms, and the drain.
PLANNED = list(range(6))


def test_every_interval_of_every_agent_arrives_once_and_watchers_see_it(
    lasting_fleet: FleetOfProcesses,
) -> None:
    fleet = lasting_fleet
    run_id = fleet.submit(job_text())
    with fleet.client() as client:
        updates = list(client.watch(run_id))
    status = fleet.wait_for(run_id, *FINAL)
    assert status.state == "finished", fleet.logs()
    assert list(status.agents) == ["a", "b"]
    assert fleet.reported(run_id) == {"a": PLANNED, "b": PLANNED}

    states = [u.status.state for u in updates if u.HasField("status")]
    # the drain of so short a run may be over before the coordinator's clock ticks
    seen = [state for state in dict.fromkeys(states) if state != "draining"]
    assert seen == ["preparing", "ready", "running", "finished"]
    figures = [update.figures for update in updates if update.HasField("figures")]
    assert [one.index for one in figures] == PLANNED
    for one in figures:
        assert one.streams[0].total.completed == 2 * PER_INTERVAL
        assert (one.agents_reported, one.agents_planned) == (2, 2)

    with fleet.opened_store() as store:
        for facts in store.agents(run_id).values():
            # one clock: the estimate is wrong by what it admits, at most
            assert abs(facts.clock_offset_us or 0) <= (facts.clock_offset_bound_us or 0)
            assert (facts.clock_offset_bound_us or 0) < 5_000
            assert 0 <= (facts.start_error_us or 0) < 250_000


def test_killed_agents_are_lost_within_five_seconds(fleet: FleetOfProcesses) -> None:
    fleet.start("a", "b", "c", "d", engine=fake_engine())
    stopping = fleet.submit(
        job_text("ldap://x", duration="30s", agents={"names": ["a", "b"]})
    )
    continuing = fleet.submit(
        job_text(
            "ldap://y",
            duration="4s",
            agents={"names": ["c", "d"]},
            on_agent_loss="continue",
        )
    )
    fleet.wait_for_load(stopping)
    fleet.wait_for_load(continuing)
    (engine,) = fleet.engine_pids("a")
    killed_at_s = time.monotonic()
    fleet.end("a", signal.SIGKILL)
    fleet.end("c", signal.SIGKILL)
    fleet.wait_until(lambda: not is_alive(engine), "the engine's process ends", 1.0)
    fleet.wait_until(lambda: fleet.run(stopping).state != "running", "loss", 6.0)
    assert time.monotonic() - killed_at_s < 5.0

    status = fleet.wait_for(stopping, *FINAL)
    assert status.state == "failed"
    assert "agent 'a' was lost" in status.state_detail
    assert isinstance(error_of(status.failure), AgentLost)
    # what was measured is kept, and b's drain is in it
    reported = fleet.reported(stopping)
    assert reported["a"]
    assert len(reported["b"]) > len(reported["a"])
    assert fleet.agents()["a"].state == "lost"

    status = fleet.wait_for(continuing, *FINAL)
    assert status.state == "finished"
    assert [event.kind for event in status.events] == ["agent_lost"]
    assert fleet.reported(continuing)["d"] == list(range(21))
    fleet.wait_for_agents("b", "d")


def test_agents_outlive_their_coordinator(fleet: FleetOfProcesses) -> None:
    fleet.start("a", "b", engine=fake_engine())
    patient = fleet.submit(
        job_text("ldap://x", duration="30s", agents={"names": ["a"]})
    )
    impatient = fleet.submit(
        job_text(
            "ldap://y",
            duration="30s",
            agents={"names": ["b"]},
            coordinator_timeout="3s",
        )
    )
    fleet.wait_for_load(patient)
    fleet.wait_for_load(impatient)
    before = {
        run_id: len(fleet.reported(run_id)[agent])
        for run_id, agent in ((patient, "a"), (impatient, "b"))
    }
    (engine_a,), (engine_b,) = fleet.engine_pids("a"), fleet.engine_pids("b")
    fleet.end("coordinator", signal.SIGKILL)
    # the load goes on for as long as the job allows
    fleet.wait_until(lambda: not is_alive(engine_b), "b's engine ends", 8.0)
    assert is_alive(engine_a)

    fleet.start_coordinator()
    # the one goes on, the other has ended by itself
    status = fleet.wait_for(impatient, *FINAL)
    assert status.state == "failed"
    assert "ended early: no coordinator for 3 s" in status.state_detail
    assert fleet.run(patient).state == "running"
    with fleet.client() as client:
        client.cancel(patient)
    assert fleet.wait_for(patient, *FINAL).state == "cancelled"
    # the agents have delivered what they had, and are free again
    fleet.wait_for_agents("a", "b")
    fleet.wait_for_delivery("a", "b")
    with fleet.opened_store() as store:
        for run_id in (patient, impatient):
            records = stored_intervals(store, run_id)
            assert [record.index for record in records] == list(range(len(records)))
            assert records[-1].final
            # at least two seconds of the three without a coordinator: ten intervals
            assert len(records) > before[run_id] + 10
    assert fleet.wait_for(fleet.submit(job_text()), *FINAL).state == "finished"


def test_engines_that_crash_fail_runs_not_agents(fleet: FleetOfProcesses) -> None:
    fleet.start_coordinator()
    for name in ("run", "crash", "crash_early"):
        fleet.start_agent(name, fake_engine(name))
    fleet.wait_for_agents("run", "crash", "crash_early")
    for crashing in ("crash", "crash_early"):
        agents = {"names": ["run", crashing]}
        run_id = fleet.submit(job_text(duration="30s", agents=agents))
        status = fleet.wait_for(run_id, *FINAL)
        assert status.state == "failed"
        assert "killed by SIGSEGV" in status.state_detail
        assert isinstance(error_of(status.failure), RunAborted)
        # what was measured until then is kept
        assert bool(fleet.reported(run_id)) == (crashing == "crash")
        fleet.wait_for_agents("run", "crash", "crash_early")

    only_sound = {"names": ["run"]}
    run_id = fleet.submit(job_text(duration="30s", agents=only_sound))
    fleet.wait_for(run_id, "running")
    (engine,) = fleet.engine_pids("run")
    os.kill(engine, signal.SIGKILL)
    status = fleet.wait_for(run_id, *FINAL)
    assert status.state == "failed"
    assert "killed by SIGKILL" in status.state_detail
    run_id = fleet.submit(job_text(agents=only_sound))
    assert fleet.wait_for(run_id, *FINAL).state == "finished"


def test_sigterm_drains_an_agent(fleet: FleetOfProcesses) -> None:
    fleet.start("a", "b", engine=fake_engine())
    run_id = fleet.submit(job_text(duration="30s"))
    fleet.wait_for(run_id, "running")
    assert fleet.end("a") == 0
    status = fleet.wait_for(run_id, *FINAL)
    assert status.state == "failed"
    assert "agent 'a' ended early: the agent received SIGTERM" in status.state_detail
    with fleet.opened_store() as store:
        last = {record.agent: record for record in stored_intervals(store, run_id)}
    assert last["a"].final
    assert last["b"].final
    assert fleet.undelivered("a") == 0
    assert fleet.agents()["a"].state == "left"


def test_a_second_sigterm_ends_an_agent_at_once(fleet: FleetOfProcesses) -> None:
    fleet.start("a", engine=fake_engine("deaf"))
    run_id = fleet.submit(job_text(duration="30s"))
    fleet.wait_for(run_id, "running")
    (engine,) = fleet.engine_pids("a")
    fleet.processes["a"].send_signal(signal.SIGTERM)
    time.sleep(0.5)
    assert fleet.processes["a"].poll() is None  # it waits for its engine
    assert fleet.end("a") == 0
    assert not is_alive(engine)


def test_lost_acknowledgements_do_not_count_twice(fleet: FleetOfProcesses) -> None:
    fleet.address = "127.0.0.1:0"
    fleet.start_coordinator(lose_acknowledgements=True)
    fleet.start_agent("a", fake_engine())
    fleet.wait_for_agents("a")
    run_id = fleet.submit(job_text(duration="400ms"))
    status = fleet.wait_for(run_id, *FINAL)
    assert status.state == "finished", fleet.logs()
    assert fleet.reported(run_id) == {"a": [0, 1, 2]}


def test_runs_on_one_target_wait_for_each_other_the_urgent_one_first(
    lasting_fleet: FleetOfProcesses,
) -> None:
    fleet = lasting_fleet
    first = fleet.submit(job_text(duration="30s", agents={"names": ["a"]}))
    cancelled = fleet.submit(job_text())
    short = job_text(duration="200ms", agents={"names": ["b"]})
    usual = fleet.submit(short)
    urgent = fleet.submit(short, priority=5)
    for run_id in (cancelled, usual, urgent):
        assert fleet.run(run_id).state == "queued"
    with fleet.client() as client:
        assert client.cancel(cancelled).state == "cancelled"
        client.cancel(first)
    for run_id in (usual, urgent):
        assert fleet.wait_for(run_id, *FINAL).state == "finished", fleet.logs()
    assert fleet.reported(cancelled) == {}
    assert fleet.run(first).finished_utc <= fleet.run(urgent).t0_utc
    assert fleet.run(urgent).finished_utc <= fleet.run(usual).t0_utc


def test_an_agent_of_another_version_is_refused(
    lasting_fleet: FleetOfProcesses,
) -> None:
    fleet = lasting_fleet
    fleet.start_agent("old", build="0.0.1")
    assert fleet.wait_for_end("old") != 0
    log = (fleet.folder / "old.log").read_text()
    assert f"agent 'old' speaks protocol {PROTOCOL_VERSION} (ldapslam 0.0.1)" in log
    assert (
        f"the coordinator protocol {PROTOCOL_VERSION} (ldapslam {__version__})" in log
    )
    assert "old" not in fleet.agents()


def test_a_second_agent_of_the_same_name_is_refused(
    lasting_fleet: FleetOfProcesses,
) -> None:
    fleet = lasting_fleet
    with closing(FleetOfProcesses()) as other:
        other.address = fleet.address
        other.start_agent("a")
        fleet.wait_until(
            lambda: "an agent named 'a' is already registered" in other.logs(),
            "the refusal",
        )
        assert fleet.agents()["a"].state == "idle"


def test_the_jobs_authority_travels_to_the_agents_that_have_a_share_of_the_load(
    fleet: FleetOfProcesses, lab: Lab, tmp_path: Path
) -> None:
    fleet.start("a", "b")
    text = job_text(
        lab.supplier.ldaps_uri,
        duration="400ms",
        clients=1,
        tls={"ca_file": "certs/ca.pem"},
    )
    run_id = fleet.submit(text, files={"certs/ca.pem": lab.ca_file.read_bytes()})
    status = fleet.wait_for(run_id, *FINAL)
    assert status.state == "finished", fleet.logs()
    assert list(status.agents) == ["a"]
    assert [event.kind for event in status.events] == ["agents_left_out"]

    other = Authority(tmp_path).ca_file.read_bytes()
    run_id = fleet.submit(text, files={"certs/ca.pem": other})
    error = error_of(fleet.wait_for(run_id, "failed").failure)
    assert isinstance(error, TlsHandshakeFailed)
    assert "unknown authority" in str(error)
    work = fleet.folder / "spool" / "a" / "work"
    fleet.wait_until(
        lambda: not list(work.iterdir()), "nothing of the job stays on the agent"
    )


# Which agents a run gets, when it has to wait for them, and what it does without.

SHORT = "400ms"
INTERVALS = [0, 1, 2]


def test_an_agent_that_takes_two_runs_serves_them_together(
    fleet: FleetOfProcesses,
) -> None:
    fleet.start_coordinator()
    fleet.start_agent("a", fake_engine(), max_runs=2)
    fleet.wait_for_agents("a")
    cancelled = fleet.submit(job_text("ldap://x", duration="30s"))
    second = fleet.submit(job_text("ldap://y", duration="2s"))
    third = fleet.submit(job_text("ldap://z", duration=SHORT))
    for run_id in (cancelled, second):
        fleet.wait_for_load(run_id)
    assert fleet.run(third).state == "queued"
    assert sorted(fleet.agents()["a"].run_ids) == sorted([cancelled, second])
    assert len(fleet.engine_pids("a")) == 2
    with fleet.client() as client:
        client.cancel(cancelled)
    assert fleet.wait_for(cancelled, *FINAL).state == "cancelled"
    for run_id, planned in ((second, list(range(11))), (third, INTERVALS)):
        assert fleet.wait_for(run_id, *FINAL).state == "finished", fleet.logs()
        assert fleet.reported(run_id) == {"a": planned}
    fleet.wait_for_agents("a")


def test_a_run_waits_for_agents_that_are_still_to_come(
    fleet: FleetOfProcesses,
) -> None:
    fleet.start_coordinator()
    text = job_text(duration=SHORT, agents={"count": 1, "wait": "20s"})
    run_id = fleet.submit(text)
    assert fleet.run(run_id).state == "queued"
    fleet.start_agent("a", fake_engine())
    assert fleet.wait_for(run_id, *FINAL).state == "finished", fleet.logs()
    in_vain = fleet.submit(job_text(agents={"count": 2, "wait": "1s"}))
    status = fleet.wait_for(in_vain, *FINAL)
    assert status.state == "failed"
    assert isinstance(error_of(status.failure), NotEnoughAgents)


def test_a_quorum_begins_again_without_the_agent_that_fails_or_is_overdue(
    fleet: FleetOfProcesses,
) -> None:
    fleet.start_coordinator()
    engines = {"a": "run", "b": "crash_early", "c": "run", "d": "hang"}
    for name, behaviour in engines.items():
        fleet.start_agent(name, fake_engine(behaviour))
    fleet.wait_for_agents(*engines)
    failing, overdue = (
        fleet.submit(
            job_text(
                f"ldap://{names[0]}",
                duration=SHORT,
                agents={"names": names, "quorum": 1, "ready_within": ready_within},
            )
        )
        for names, ready_within in ((["a", "b"], "30s"), (["c", "d"], "3s"))
    )
    for run_id, left in ((failing, "a"), (overdue, "c")):
        status = fleet.wait_for(run_id, *FINAL)
        assert status.state == "finished", fleet.logs()
        assert list(status.agents) == [left]
        kinds = [event.kind for event in status.events]
        assert kinds == ["agent_left_out", "quorum"]
        assert fleet.reported(run_id) == {left: INTERVALS}
    # the others are of use again
    fleet.wait_for_agents(*engines)
