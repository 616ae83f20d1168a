# SPDX-License-Identifier: Apache-2.0
"""Which agents a run gets, when it has to wait for them, and what it does without."""

from __future__ import annotations

import grpc
import pytest

from ldapslam import __version__
from ldapslam.base.errors import NotEnoughAgents
from ldapslam.proto import operator_pb2 as pb
from ldapslam.proto.operator_pb2_grpc import OperatorServiceStub
from ldapslam.transport.messages import PROTOCOL_VERSION, error_of
from support.fleet import FINAL, FleetOfProcesses, fake_engine, job_text

SHORT = "400ms"
INTERVALS = [0, 1, 2]


@pytest.fixture
def fleet(fleet: FleetOfProcesses) -> FleetOfProcesses:
    fleet.start_coordinator()
    return fleet


def submit(fleet: FleetOfProcesses, text: str, priority: int) -> str:
    request = pb.SubmitJobRequest(
        protocol_version=PROTOCOL_VERSION,
        build=__version__,
        job_file="job.json",
        job_text=text.encode(),
        priority=priority,
    )
    with grpc.insecure_channel(fleet.address) as channel:
        stub = OperatorServiceStub(channel)  # type: ignore[no-untyped-call]
        return str(stub.SubmitJob(request, timeout=10).run_id)


def test_an_agent_that_takes_two_runs_serves_them_together(
    fleet: FleetOfProcesses,
) -> None:
    fleet.start_agent("a", fake_engine(), max_runs=2)
    fleet.wait_for_agents("a")
    first = fleet.submit(job_text("ldap://x", duration="2s"))
    second = fleet.submit(job_text("ldap://y", duration="2s"))
    third = fleet.submit(job_text("ldap://z", duration=SHORT))
    for run_id in (first, second):
        fleet.wait_for_load(run_id)
    assert fleet.run(third).state == "queued"
    assert sorted(fleet.agents()["a"].run_ids) == sorted([first, second])
    assert len(fleet.engine_pids("a")) == 2
    for run_id in (first, second, third):
        assert fleet.wait_for(run_id, *FINAL).state == "finished", fleet.logs()
    planned = list(range(11))
    assert fleet.reported(first) == fleet.reported(second) == {"a": planned}
    fleet.wait_for_agents("a")


def test_one_of_two_runs_is_stopped_and_the_other_goes_on(
    fleet: FleetOfProcesses,
) -> None:
    fleet.start_agent("a", fake_engine(), max_runs=2)
    fleet.wait_for_agents("a")
    first = fleet.submit(job_text("ldap://x", duration="30s"))
    second = fleet.submit(job_text("ldap://y", duration="2s"))
    fleet.wait_for_load(second)
    with fleet.client() as client:
        client.cancel(first)
    assert fleet.wait_for(first, *FINAL).state == "cancelled"
    assert fleet.wait_for(second, *FINAL).state == "finished", fleet.logs()
    assert fleet.reported(second) == {"a": list(range(11))}


def test_a_run_waits_for_agents_that_are_still_to_come(
    fleet: FleetOfProcesses,
) -> None:
    text = job_text(duration=SHORT, agents={"count": 1, "wait": "20s"})
    run_id = fleet.submit(text)
    assert fleet.run(run_id).state == "queued"
    fleet.start_agent("a", fake_engine())
    assert fleet.wait_for(run_id, *FINAL).state == "finished", fleet.logs()


def test_a_run_that_waited_in_vain_has_failed(fleet: FleetOfProcesses) -> None:
    fleet.start_agent("a", fake_engine())
    fleet.wait_for_agents("a")
    run_id = fleet.submit(job_text(agents={"count": 2, "wait": "1s"}))
    status = fleet.wait_for(run_id, *FINAL)
    assert status.state == "failed"
    assert isinstance(error_of(status.failure), NotEnoughAgents)


def test_a_quorum_begins_anew_without_the_agent_that_fails(
    fleet: FleetOfProcesses,
) -> None:
    fleet.start_agent("a", fake_engine())
    fleet.start_agent("b", fake_engine())
    fleet.start_agent("c", fake_engine("crash_early"))
    fleet.wait_for_agents("a", "b", "c")
    agents = {"count": 3, "quorum": 2}
    run_id = fleet.submit(job_text(duration=SHORT, agents=agents))
    status = fleet.wait_for(run_id, *FINAL)
    assert status.state == "finished", fleet.logs()
    assert list(status.agents) == ["a", "b"]
    kinds = [event.kind for event in status.events]
    assert kinds == ["agent_left_out", "quorum"]
    assert fleet.reported(run_id) == {"a": INTERVALS, "b": INTERVALS}


def test_a_quorum_begins_anew_without_the_agent_that_is_overdue(
    fleet: FleetOfProcesses,
) -> None:
    fleet.start_agent("a", fake_engine())
    fleet.start_agent("b", fake_engine("hang"))
    fleet.wait_for_agents("a", "b")
    agents = {"count": 2, "quorum": 1, "ready_within": "3s"}
    run_id = fleet.submit(job_text(duration=SHORT, agents=agents))
    assert fleet.wait_for(run_id, *FINAL).state == "finished", fleet.logs()
    assert fleet.reported(run_id) == {"a": INTERVALS}
    # the other one is of use again
    fleet.wait_for_agents("a", "b")


def test_the_urgent_run_comes_first(fleet: FleetOfProcesses) -> None:
    fleet.start_agent("a", fake_engine())
    fleet.wait_for_agents("a")
    before = fleet.submit(job_text(duration="2s"))
    fleet.wait_for(before, "running")
    usual = submit(fleet, job_text(duration=SHORT), priority=0)
    urgent = submit(fleet, job_text(duration=SHORT), priority=5)
    for run_id in (usual, urgent):
        assert fleet.wait_for(run_id, *FINAL).state == "finished", fleet.logs()
    assert fleet.run(urgent).t0_utc < fleet.run(usual).t0_utc
