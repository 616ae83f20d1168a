# SPDX-License-Identifier: Apache-2.0
"""Agents' calls that no agent of ours would make."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ldapslam.coordinator.control import Coordinator
from ldapslam.coordinator.journal import Journal
from ldapslam.proto.agent_pb2 import (
    AgentFinished,
    HeartbeatRequest,
    ProgressReport,
    RegisterRequest,
    ReportReply,
    RunPart,
)
from ldapslam.transport.messages import PROTOCOL_VERSION, build_version


def registration(epoch: int) -> RegisterRequest:
    """Of a process that does not say which one it is."""
    return RegisterRequest(
        protocol_version=PROTOCOL_VERSION,
        build=build_version(),
        name="a",
        instance_id="",
        epoch=epoch,
    )


def test_a_process_that_is_known_by_its_epoch_alone_gets_sessions_of_its_own(
    tmp_path: Path,
) -> None:
    async def work() -> None:
        journal = Journal(str(tmp_path / "results.sqlite"))
        try:
            coordinator = Coordinator(journal)
            sessions = [
                coordinator.register(registration(epoch)).session_id
                for epoch in (1, 1, 2)
            ]
            assert sessions[0] == sessions[1] != sessions[2]
            known = [
                coordinator.heartbeat(HeartbeatRequest(session_id=one), 0).known
                for one in sessions
            ]
            assert known == [False, False, True]
            assert coordinator.session_agent(sessions[2]) == "a"
        finally:
            await journal.close()

    asyncio.run(work())


def test_an_agent_is_free_again_when_it_ends_a_run_that_nobody_here_knows(
    tmp_path: Path,
) -> None:
    async def work() -> None:
        journal = Journal(str(tmp_path / "results.sqlite"))
        try:
            coordinator = Coordinator(journal)
            request = registration(2)
            # of a coordinator with another store
            request.runs.append(RunPart(run_id="elsewhere", state="running"))
            coordinator.register(request)
            states = []
            for epoch in (1, 2):
                report = ProgressReport(
                    run_id="elsewhere",
                    agent="a",
                    epoch=epoch,
                    finished=AgentFinished(early_reason="it was stopped"),
                )
                reply = await coordinator.take_progress(report)
                assert reply.status == ReportReply.STATUS_REFUSED
                states += [one.state for one in coordinator.agents().agents]
            # what the process before it did says nothing of this one
            assert states == ["assigned", "idle"]
        finally:
            await journal.close()

    asyncio.run(work())
