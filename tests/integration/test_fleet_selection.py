# SPDX-License-Identifier: Apache-2.0
"""Which agents a run gets, when it has to wait for them, and what it does without."""

from __future__ import annotations

import pytest

from ldapslam.base.errors import NotEnoughAgents
from ldapslam.transport.messages import error_of
from support.fleet import FINAL, FleetOfProcesses, fake_engine, job_text

SHORT = "400ms"
INTERVALS = [0, 1, 2]


@pytest.fixture
def fleet(fleet: FleetOfProcesses) -> FleetOfProcesses:
    fleet.start_coordinator()
    return fleet


def test_an_agent_that_takes_two_runs_serves_them_together(
    fleet: FleetOfProcesses,
) -> None:
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
