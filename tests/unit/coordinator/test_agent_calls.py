# SPDX-License-Identifier: Apache-2.0
"""Agents' calls that no agent of ours would make."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ldapslam.coordinator.control import Coordinator
from ldapslam.coordinator.journal import Journal
from ldapslam.proto.agent_pb2 import HeartbeatRequest, RegisterRequest
from ldapslam.proto.messages import PROTOCOL_VERSION, build_version


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
