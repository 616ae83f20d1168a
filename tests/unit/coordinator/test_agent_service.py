# SPDX-License-Identifier: Apache-2.0
"""Agents' calls that no agent of ours would make."""

from __future__ import annotations

import pytest

from ldapslam import __version__
from ldapslam.base.errors import AccessRefused
from ldapslam.coordinator.control import Coordinator
from ldapslam.coordinator.security import access
from ldapslam.coordinator.security.access import Caller
from ldapslam.coordinator.store_writer import StoreWriter
from ldapslam.proto.agent_pb2 import (
    AgentFinished,
    HeartbeatRequest,
    LeaveRequest,
    ProgressReport,
    RegisterRequest,
    ReportReply,
    RunPart,
)
from ldapslam.transport.messages import PROTOCOL_VERSION


def registration(epoch: int) -> RegisterRequest:
    """Of a process that does not say which one it is."""
    return RegisterRequest(
        protocol_version=PROTOCOL_VERSION,
        build=__version__,
        name="a",
        instance_id="",
        epoch=epoch,
    )


async def test_a_process_that_is_known_by_its_epoch_alone_gets_sessions_of_its_own(
    writer: StoreWriter,
) -> None:
    agents = Coordinator(writer).agents
    sessions = [
        (await agents.Register(registration(epoch), None)).session_id
        for epoch in (1, 1, 2)
    ]
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
    writer: StoreWriter,
) -> None:
    coordinator = Coordinator(writer)
    request = registration(2)
    # of a coordinator with another store
    request.runs.append(RunPart(run_id="elsewhere", state="running"))
    await coordinator.agents.Register(request, None)
    states = []
    for epoch in (1, 2):
        report = ProgressReport(
            run_id="elsewhere",
            agent="a",
            epoch=epoch,
            finished=AgentFinished(early_reason="it was stopped"),
        )
        reply = await coordinator.agents.ReportProgress(report, None)
        assert reply.status == ReportReply.STATUS_REFUSED
        states += [one.state for one in coordinator.operators.agents().agents]
    # what the process before it did says nothing of this one
    assert states == ["assigned", "idle"]
