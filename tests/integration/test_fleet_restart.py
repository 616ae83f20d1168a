# SPDX-License-Identifier: Apache-2.0
"""A coordinator that ends and starts again takes its runs up where they are."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from ldapslam.base.errors import AgentLost
from ldapslam.transport.messages import error_of
from support.command_line import Running, ldapslam
from support.fleet import FINAL, FleetOfProcesses, fake_engine, job_text

#: 2 s in intervals of 200 ms, and the drain.
LONG = job_text(duration="2s")
PLANNED = list(range(11))


def kinds(fleet: FleetOfProcesses, run_id: str) -> list[str]:
    return [event.kind for event in fleet.run(run_id).events]


def test_a_run_goes_on_when_its_coordinator_is_killed_and_started_again(
    fleet: FleetOfProcesses,
) -> None:
    fleet.start("a", "b", engine=fake_engine())
    run_id = fleet.submit(LONG)
    fleet.wait_for_load(run_id)
    after = fleet.submit(job_text(duration="200ms"))
    assert fleet.run(after).state == "queued"
    fleet.end("coordinator", signal.SIGKILL)
    fleet.start_coordinator()
    assert fleet.run(after).state == "queued"
    status = fleet.wait_for(run_id, *FINAL)
    assert status.state == "finished", fleet.logs()
    assert fleet.reported(run_id) == {"a": PLANNED, "b": PLANNED}
    found = kinds(fleet, run_id)
    assert found.count("coordinator_restarted") == 1
    assert found.count("agent_heard") == 2
    with fleet.opened_store() as store:
        assert len(store.run(run_id).manifest["adopted"]) == 1
    # and the fleet serves the next run
    assert fleet.wait_for(after, *FINAL).state == "finished", fleet.logs()


def test_who_watches_a_run_sees_its_end_from_the_next_coordinator(
    fleet: FleetOfProcesses,
) -> None:
    fleet.start("a", engine=fake_engine())
    ldapslam("--help")  # the first command of all takes seconds on a busy machine
    run_id = fleet.submit(job_text(duration="4s"))
    fleet.wait_for_load(run_id)
    watch = ("fleet", "watch", run_id, "--json", "--coordinator", fleet.address)
    with Running(*watch, cwd=fleet.folder, name="watch") as watching:
        watching.wait_for_text("running")
        fleet.end("coordinator", signal.SIGKILL)
        watching.wait_for_text("the run may go on")
        fleet.start_coordinator()
        assert watching.wait() in (0, 3), watching.stderr
        result = json.loads(watching.stdout)
    assert result["run_id"] == run_id
    assert result["manifest"]["state"] == "finished"


def test_a_coordinator_may_leave_its_runs_to_the_next_one(
    fleet: FleetOfProcesses,
) -> None:
    fleet.start_coordinator(leave_runs=True)
    fleet.start_agent("a", fake_engine())
    fleet.wait_for_agents("a")
    run_id = fleet.submit(LONG)
    fleet.wait_for_load(run_id)
    assert fleet.end("coordinator", signal.SIGTERM) == 0
    fleet.start_coordinator()
    assert fleet.wait_for(run_id, *FINAL).state == "finished", fleet.logs()
    assert fleet.reported(run_id) == {"a": PLANNED}


def test_a_run_that_ended_meanwhile_is_delivered_to_the_next_coordinator(
    fleet: FleetOfProcesses,
) -> None:
    fleet.start("a", engine=fake_engine())
    run_id = fleet.submit(job_text(duration="1s"))
    fleet.wait_for_load(run_id)
    fleet.end("coordinator", signal.SIGKILL)
    fleet.wait_until(lambda: not fleet.engine_pids("a"), "the engine's end")
    fleet.start_coordinator()
    assert fleet.wait_for(run_id, *FINAL).state == "finished", fleet.logs()
    assert fleet.reported(run_id) == {"a": list(range(6))}


def test_a_run_whose_load_had_not_begun_begins_anew(fleet: FleetOfProcesses) -> None:
    fleet.start_coordinator()
    fleet.start_agent("a", fake_engine())
    fleet.start_agent("b", fake_engine("hang"))
    fleet.wait_for_agents("a", "b")
    run_id = fleet.submit(job_text(duration="200ms", agents={"count": 2}))
    fleet.wait_for(run_id, "preparing")
    fleet.end("coordinator", signal.SIGKILL)
    fleet.end("b", signal.SIGKILL)
    fleet.start_coordinator()
    fleet.wait_for(run_id, "queued")
    fleet.start_agent("b", fake_engine())
    assert fleet.wait_for(run_id, *FINAL).state == "finished", fleet.logs()
    assert fleet.reported(run_id) == {"a": [0, 1], "b": [0, 1]}


def test_a_cancellation_survives_the_coordinator(fleet: FleetOfProcesses) -> None:
    fleet.start("a", engine=fake_engine("deaf"))
    run_id = fleet.submit(LONG)
    fleet.wait_for_load(run_id)
    with fleet.client() as client:
        client.cancel(run_id)
    fleet.end("coordinator", signal.SIGKILL)
    fleet.start_coordinator()
    assert fleet.wait_for(run_id, *FINAL).state == "cancelled", fleet.logs()


def test_an_agent_that_was_started_again_meanwhile_is_lost(
    fleet: FleetOfProcesses,
) -> None:
    fleet.start("a", "b", engine=fake_engine())
    run_id = fleet.submit(LONG)
    fleet.wait_for_load(run_id)
    fleet.end("coordinator", signal.SIGKILL)
    fleet.end("b", signal.SIGKILL)
    fleet.start_agent("b", fake_engine())
    fleet.start_coordinator()
    status = fleet.wait_for(run_id, *FINAL)
    assert status.state == "failed"
    assert isinstance(error_of(status.failure), AgentLost)
    # what it had measured by then is delivered
    fleet.wait_for_delivery("a", "b")
    reported = fleet.reported(run_id)
    for indexes in reported.values():
        assert indexes == list(range(len(indexes)))
    assert reported.keys() == {"a", "b"}


def test_load_ends_though_its_agent_stands_still(fleet: FleetOfProcesses) -> None:
    fleet.start("a", engine=fake_engine())
    # the least that there is: 3 s
    run_id = fleet.submit(job_text(duration="30s", coordinator_timeout="1s"))
    fleet.wait_for_load(run_id)
    (engine,) = fleet.engine_pids("a")
    fleet.processes["a"].send_signal(signal.SIGSTOP)
    log = next((fleet.folder / "spool" / "a" / "logs").glob("engine-a-*.log"))
    fleet.wait_until(lambda: "did not extend the lease" in log.read_text(), "its end")
    assert Path(f"/proc/{engine}").exists()
    status = fleet.wait_for(run_id, *FINAL)
    assert status.state == "failed"
    assert kinds(fleet, run_id)[:2] == ["agent_silent", "agent_lost"]
    fleet.processes["a"].send_signal(signal.SIGCONT)
    fleet.wait_for_delivery("a")
    indexes = fleet.reported(run_id)["a"]
    assert indexes == list(range(len(indexes)))


def test_a_silent_agent_that_comes_back_has_lost_nothing(
    fleet: FleetOfProcesses,
) -> None:
    fleet.start("a", "b", engine=fake_engine())
    run_id = fleet.submit(job_text(duration="6s"))
    fleet.wait_for_load(run_id)
    fleet.processes["b"].send_signal(signal.SIGSTOP)
    fleet.wait_until(lambda: "agent_silent" in kinds(fleet, run_id), "silence")
    assert fleet.agents()["b"].state == "silent"
    fleet.processes["b"].send_signal(signal.SIGCONT)
    assert fleet.wait_for(run_id, *FINAL).state == "finished", fleet.logs()
    assert kinds(fleet, run_id)[:2] == ["agent_silent", "agent_heard"]
    planned = list(range(31))
    assert fleet.reported(run_id) == {"a": planned, "b": planned}


def test_reports_of_one_store_wait_while_the_agent_serves_another(
    fleet: FleetOfProcesses,
) -> None:
    fleet.start("a", engine=fake_engine())
    run_id = fleet.submit(job_text(duration="1s"))
    fleet.wait_for_load(run_id)
    fleet.end("coordinator", signal.SIGKILL)
    fleet.wait_until(lambda: not fleet.engine_pids("a"), "the engine's end")
    first = fleet.store
    fleet.store = fleet.folder / "other.sqlite"
    fleet.start_coordinator()
    fleet.wait_for_agents("a")
    # not before: that its engine ended is the last report
    kept = fleet.undelivered("a")
    assert kept > 0
    after = fleet.submit(job_text(duration="200ms"))
    assert fleet.wait_for(after, *FINAL).state == "finished", fleet.logs()
    fleet.wait_until(lambda: fleet.undelivered("a") == kept, "what is the first's only")
    assert "the spool has reports of another store" in fleet.logs()
    fleet.end("coordinator", signal.SIGKILL)
    fleet.store = first
    fleet.start_coordinator()
    assert fleet.wait_for(run_id, *FINAL).state == "finished", fleet.logs()
    assert fleet.reported(run_id) == {"a": list(range(6))}
    fleet.wait_for_delivery("a")


def test_a_coordinator_whose_store_was_taken_ends_and_loses_nothing(
    fleet: FleetOfProcesses,
) -> None:
    fleet.start("a", engine=fake_engine())
    run_id = fleet.submit(LONG)
    fleet.wait_for_load(run_id)
    with fleet.opened_store() as store:
        store.claim("somebody else")
    assert fleet.wait_for_end("coordinator") != 0
    assert "is now that of another coordinator: somebody else" in fleet.logs()
    fleet.start_coordinator()
    assert fleet.wait_for(run_id, *FINAL).state == "finished", fleet.logs()
    assert fleet.reported(run_id) == {"a": PLANNED}


@pytest.mark.long
def test_a_coordinator_killed_before_it_judges_late_reports_does_so_when_restarted(
    fleet: FleetOfProcesses,
) -> None:
    """Agent b is away when the run ends, and then delivers what it measured."""
    fleet.start_coordinator(judge=True)
    for name in ("a", "b"):
        fleet.start_agent(name, fake_engine())
    fleet.wait_for_agents("a", "b")
    text = job_text(duration="3s", on_agent_loss="continue", agents={"count": 2})
    run_id = fleet.submit(text)
    fleet.wait_for_load(run_id)
    coordinator = fleet.processes["coordinator"]
    coordinator.send_signal(signal.SIGSTOP)
    fleet.wait_until(lambda: fleet.undelivered("b") >= 2, "what b keeps")
    fleet.end("b", signal.SIGKILL)
    coordinator.send_signal(signal.SIGCONT)

    def verify() -> subprocess.CompletedProcess[str]:
        return ldapslam(
            "results", "verify", run_id, "--store", fleet.store, cwd=fleet.folder
        )

    fleet.wait_until(lambda: bool(fleet.run(run_id).verdict), "its verdict")
    had = len(fleet.reported(run_id)["b"])
    fleet.start_agent("b", fake_engine())
    # within the five seconds of quiet that the coordinator waits for
    fleet.wait_for_delivery("b")
    fleet.end("coordinator", signal.SIGKILL)
    assert len(fleet.reported(run_id)["b"]) > had
    ended = verify()
    assert ended.returncode == 3
    assert "more of it came since, and it is not judged again yet" in ended.stderr

    fleet.start_coordinator(judge=True)
    with fleet.opened_store() as store:
        fleet.wait_until(lambda: not store.run(run_id).unjudged, "the judgement")
    fleet.end("coordinator")
    ended = verify()
    assert ended.returncode == 0, ended.stderr
    # the first judgement and this one
    assert ended.stdout.count("SHA-256") == 2
    with fleet.opened_store() as store:
        assert [one.kind for one in store.events(run_id)].count("late_reports") == 1
