# SPDX-License-Identifier: Apache-2.0
"""A coordinator that ends and starts again takes its runs up where they are."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from ldapslam.base.errors import AgentLost
from ldapslam.transport.messages import error_of
from support.command_line import Running, ldapslam
from support.fleet import FINAL, FleetOfProcesses, fake_engine, job_text


class Restarted(NamedTuple):
    """A fleet whose coordinator ended twice, and the ids of its runs."""

    fleet: FleetOfProcesses
    #: Of agents a and b, 8 s in intervals of 200 ms, and the next one on its target.
    running: str
    queued: str
    #: Cancelled before; its engine does not hear of it.
    cancelled: str
    #: Its agent was started again meanwhile.
    lost: str
    #: One of its agents was preparing, and was started again.
    preparing: str


@pytest.fixture(scope="module")
def restarted() -> Iterator[Restarted]:
    engines = {"a": "run", "b": "run", "c": "deaf", "d": "run", "e": "run", "f": "hang"}
    with closing(FleetOfProcesses()) as fleet:

        def submit(names: Sequence[str], duration: str) -> str:
            agents = {"names": names}
            text = job_text(f"ldap://{names[0]}", duration=duration, agents=agents)
            return fleet.submit(text)

        fleet.start_coordinator(leave_runs=True)
        for name, behaviour in engines.items():
            fleet.start_agent(name, fake_engine(behaviour))
        fleet.wait_for_agents(*engines)
        preparing = submit(["e", "f"], "200ms")
        cancelled, lost = submit(["c"], "4s"), submit(["d"], "30s")
        running = submit(["a", "b"], "8s")
        queued = submit(["a"], "200ms")
        fleet.wait_for(preparing, "preparing")
        for run_id in (cancelled, lost, running):
            fleet.wait_for_load(run_id)
        with fleet.client() as client:
            client.cancel(cancelled)
        assert fleet.end("coordinator", signal.SIGTERM) == 0
        fleet.start_coordinator()
        assert fleet.run(queued).state == "queued"
        for key in ("coordinator", "d", "f"):
            fleet.end(key, signal.SIGKILL)
        fleet.start_agent("d", fake_engine())
        fleet.start_coordinator()
        yield Restarted(fleet, running, queued, cancelled, lost, preparing)


def test_a_run_goes_on_when_its_coordinator_ends_and_starts_again(
    restarted: Restarted,
) -> None:
    fleet, run_id = restarted.fleet, restarted.running
    assert fleet.wait_for(run_id, *FINAL).state == "finished", fleet.logs()
    planned = list(range(41))
    assert fleet.reported(run_id) == {"a": planned, "b": planned}
    found = fleet.events(run_id)
    assert found.count("coordinator_restarted") == 2
    # of the second coordinator, which did not last, perhaps none was heard
    assert found.count("agent_heard") >= 2
    with fleet.opened_store() as store:
        assert len(store.run(run_id).manifest.adopted) == 2
    # and the fleet serves the next run
    assert fleet.wait_for(restarted.queued, *FINAL).state == "finished", fleet.logs()


def test_a_cancellation_survives_the_coordinator(restarted: Restarted) -> None:
    fleet = restarted.fleet
    assert fleet.wait_for(restarted.cancelled, *FINAL).state == "cancelled"


def test_an_agent_that_was_started_again_meanwhile_is_lost(
    restarted: Restarted,
) -> None:
    fleet = restarted.fleet
    status = fleet.wait_for(restarted.lost, *FINAL)
    assert status.state == "failed"
    assert isinstance(error_of(status.failure), AgentLost)
    # what it had measured by then is delivered
    fleet.wait_for_delivery("d")
    indexes = fleet.reported(restarted.lost)["d"]
    assert indexes == list(range(len(indexes)))


def test_a_run_whose_load_had_not_begun_begins_again(restarted: Restarted) -> None:
    fleet, run_id = restarted.fleet, restarted.preparing
    fleet.wait_for(run_id, "queued")
    fleet.start_agent("f", fake_engine())
    assert fleet.wait_for(run_id, *FINAL).state == "finished", fleet.logs()
    assert fleet.reported(run_id) == {"e": [0, 1], "f": [0, 1]}


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
    run_id = fleet.submit(job_text(duration="2s"))
    fleet.wait_for_load(run_id)
    with fleet.opened_store() as store:
        store.claim("somebody else")
    assert fleet.wait_for_end("coordinator") != 0
    assert "is now that of another coordinator: somebody else" in fleet.logs()
    fleet.start_coordinator()
    assert fleet.wait_for(run_id, *FINAL).state == "finished", fleet.logs()
    assert fleet.reported(run_id) == {"a": list(range(11))}


def test_an_agent_that_stands_still_ends_its_load_or_comes_back(
    fleet: FleetOfProcesses,
) -> None:
    fleet.start("a", "b", "c", engine=fake_engine())
    # the least lease that there is: 3 s
    ending = fleet.submit(
        job_text(
            "ldap://x",
            duration="30s",
            coordinator_timeout="1s",
            agents={"names": ["a"]},
        )
    )
    lasting = fleet.submit(
        job_text("ldap://y", duration="6s", agents={"names": ["b", "c"]})
    )
    for run_id in (ending, lasting):
        fleet.wait_for_load(run_id)
    (engine,) = fleet.engine_pids("a")
    for name in ("a", "c"):
        fleet.processes[name].send_signal(signal.SIGSTOP)
    fleet.wait_until(lambda: "agent_silent" in fleet.events(lasting), "silence")
    assert fleet.agents()["c"].state == "silent"
    fleet.processes["c"].send_signal(signal.SIGCONT)
    log = next((fleet.folder / "spool" / "a" / "logs").glob("engine-a-*.log"))
    fleet.wait_until(lambda: "did not extend the lease" in log.read_text(), "its end")
    assert Path(f"/proc/{engine}").exists()
    assert fleet.wait_for(ending, *FINAL).state == "failed"
    assert fleet.events(ending)[:2] == ["agent_silent", "agent_lost"]
    fleet.processes["a"].send_signal(signal.SIGCONT)
    fleet.wait_for_delivery("a")
    indexes = fleet.reported(ending)["a"]
    assert indexes == list(range(len(indexes)))

    assert fleet.wait_for(lasting, *FINAL).state == "finished", fleet.logs()
    assert fleet.events(lasting)[:2] == ["agent_silent", "agent_heard"]
    planned = list(range(31))
    assert fleet.reported(lasting) == {"b": planned, "c": planned}
