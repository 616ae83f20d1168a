# SPDX-License-Identifier: Apache-2.0
"""Reports as a peer may send them: of no run, of no agent of it, or of its past."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence

import grpc
import pytest

from ldapslam.base.errors import ConfigError
from ldapslam.coordinator.server import run_coordinator
from ldapslam.proto.agent_pb2 import (
    AgentFinished,
    HeartbeatRequest,
    IntervalReplies,
    IntervalReport,
    IntervalReports,
    ProgressReport,
    ReportReply,
)
from ldapslam.proto.agent_pb2_grpc import AgentServiceStub
from ldapslam.results.packing import pack
from ldapslam.results.records import Part
from ldapslam.transport.codec import CHANNEL_OPTIONS
from support.fleet import FINAL, FleetOfProcesses, job_text
from support.rows import snapshot_of

COMMITTED = ReportReply.STATUS_COMMITTED
DUPLICATE = ReportReply.STATUS_DUPLICATE
REFUSED = ReportReply.STATUS_REFUSED


@pytest.fixture(scope="module")
def finished_run(lasting_fleet: FleetOfProcesses) -> str:
    """A run of agents a and b that is over, but for what a peer now sends."""
    run_id = lasting_fleet.submit(job_text(duration="200ms"))
    lasting_fleet.wait_for(run_id, *FINAL)
    return run_id


def replies(peer: AgentServiceStub, *reports: IntervalReport) -> Sequence[ReportReply]:
    answer: IntervalReplies = next(
        peer.Reports(iter([IntervalReports(reports=reports)]))
    )
    return answer.replies


@pytest.fixture
def peer(lasting_fleet: FleetOfProcesses) -> Iterator[AgentServiceStub]:
    """The agents' service, called by hand."""
    with grpc.insecure_channel(
        lasting_fleet.address, options=list(CHANNEL_OPTIONS)
    ) as channel:
        yield AgentServiceStub(channel)  # type: ignore[no-untyped-call]


def interval(run_id: str, agent: str = "a") -> IntervalReport:
    packed = pack(snapshot_of(phase="measure", end_ns=1))
    return IntervalReport(run_id=run_id, agent=agent, epoch=1, packed=packed)


def part_of(fleet: FleetOfProcesses, run_id: str) -> Part:
    with fleet.opened_store() as store:
        return store.part(run_id, "a")


def test_who_is_not_known_is_told_so(peer: AgentServiceStub, finished_run: str) -> None:
    answers = replies(
        peer,
        interval("nosuch"),
        interval(finished_run, "stranger"),
        # a beginning of an id is for people
        interval(finished_run[:-1]),
    )
    assert [one.status for one in answers] == [REFUSED] * 3
    assert not peer.Heartbeat(HeartbeatRequest(session_id="nosuch")).known


def test_progress_of_no_kind_is_refused(
    peer: AgentServiceStub, lasting_fleet: FleetOfProcesses, finished_run: str
) -> None:
    part = part_of(lasting_fleet, finished_run)
    empty = ProgressReport(
        run_id=finished_run, agent="a", epoch=part.epoch, attempt=part.attempt
    )
    assert peer.ReportProgress(empty).status == REFUSED


def test_progress_of_a_run_that_is_over_changes_nothing(
    peer: AgentServiceStub, lasting_fleet: FleetOfProcesses, finished_run: str
) -> None:
    part = part_of(lasting_fleet, finished_run)
    report = ProgressReport(
        run_id=finished_run, agent="a", finished=AgentFinished(early_reason="x")
    )
    assert peer.ReportProgress(report).status == DUPLICATE
    report.epoch, report.attempt = part.epoch, part.attempt
    assert peer.ReportProgress(report).status == COMMITTED
    assert lasting_fleet.run(finished_run).state == "finished"


def test_a_second_coordinator_on_the_same_address_or_store_is_refused(
    fleet: FleetOfProcesses,
) -> None:
    socket, other_store = fleet.address, str(fleet.folder / "other.sqlite")
    fleet.start_coordinator(listen="127.0.0.1:0", also_listen=[socket])
    port, fleet.address = fleet.address, socket
    with pytest.raises(ConfigError, match=r"address .* is in use"):
        run_coordinator([socket], other_store)
    with pytest.raises(ConfigError, match="cannot listen"):
        run_coordinator([port], other_store, on_ready=lambda _: pytest.fail(port))
    with pytest.raises(ConfigError, match=r"store .* is in use"):
        run_coordinator([f"unix:{fleet.folder}/other"], str(fleet.store))
    with pytest.raises(ConfigError, match="neither encrypted nor authenticated"):
        run_coordinator(["0.0.0.0:0"], other_store)
    assert fleet.agents() == {}
    # a socket whose coordinator was killed is nobody's
    fleet.end("coordinator", signal.SIGKILL)
    fleet.start_coordinator()
    assert fleet.agents() == {}
