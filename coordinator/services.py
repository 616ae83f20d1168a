# SPDX-License-Identifier: Apache-2.0
"""The coordinator's services for agents and operators, as their .proto have them.

Translates only: each method calls control.py and turns our errors into statuses. Needs
no grpc itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing

from ldapslam.base.errors import AccessRefused
from ldapslam.coordinator.control import Coordinator
from ldapslam.coordinator.security.access import caller, caller_name
from ldapslam.coordinator.security.audit_log import AuditLog
from ldapslam.coordinator.security.rpc import Context, errors_to
from ldapslam.proto import agent_pb2, observation_pb2
from ldapslam.proto import operator_pb2 as pb
from ldapslam.proto.agent_pb2_grpc import AgentServiceServicer
from ldapslam.proto.operator_pb2_grpc import OperatorServiceServicer


class AgentService(AgentServiceServicer):
    def __init__(self, coordinator: Coordinator, now_ns: Callable[[], int]) -> None:
        self._coordinator = coordinator
        self._now_ns = now_ns

    async def Register(
        self, request: agent_pb2.RegisterRequest, context: Context
    ) -> agent_pb2.RegisterReply:
        async with errors_to(context):
            return self._coordinator.register(request)

    async def Commands(
        self, request: agent_pb2.CommandsRequest, context: Context
    ) -> AsyncIterator[agent_pb2.Command]:
        async with errors_to(context):
            self._check_session(request.session_id)
            # closed with the call, not when it is collected as garbage
            async with aclosing(self._coordinator.commands(request)) as commands:
                async for command in commands:
                    yield command

    async def Heartbeat(
        self, request: agent_pb2.HeartbeatRequest, context: Context
    ) -> agent_pb2.HeartbeatReply:
        received_ns = self._now_ns()
        async with errors_to(context):
            self._check_session(request.session_id)
            return self._coordinator.heartbeat(request, received_ns)

    async def ReportInterval(
        self, request: agent_pb2.IntervalReport, context: Context
    ) -> agent_pb2.ReportReply:
        async with errors_to(context):
            return await self._coordinator.take_interval(request)

    async def ReportProgress(
        self, request: agent_pb2.ProgressReport, context: Context
    ) -> agent_pb2.ReportReply:
        async with errors_to(context):
            return await self._coordinator.take_progress(request)

    async def ReportObservation(
        self, request: observation_pb2.ObservationReport, context: Context
    ) -> agent_pb2.ReportReply:
        async with errors_to(context):
            return await self._coordinator.take_observation(request)

    async def Leave(
        self, request: agent_pb2.LeaveRequest, context: Context
    ) -> agent_pb2.LeaveReply:
        async with errors_to(context):
            self._check_session(request.session_id)
            return self._coordinator.leave(request)

    def _check_session(self, session_id: str) -> None:
        """AccessRefused when an agent uses the session of another one."""
        who, agent = caller(), self._coordinator.session_agent(session_id)
        if who.is_certified and agent not in (None, who.who):
            raise AccessRefused(f"the session is not that of agent {who.who!r}")


class OperatorService(OperatorServiceServicer):
    def __init__(self, coordinator: Coordinator, audit: AuditLog) -> None:
        self._coordinator = coordinator
        self._audit = audit

    async def SubmitJob(
        self, request: pb.SubmitJobRequest, context: Context
    ) -> pb.SubmitJobReply:
        async with errors_to(context):
            request.submitted_by = caller_name(request.submitted_by)
            reply = await self._coordinator.submit(request)
            await self._audit.note(
                "submit", reply.run_id, request.job_file, by=request.submitted_by
            )
            return reply

    async def ListRuns(
        self, request: pb.ListRunsRequest, context: Context
    ) -> pb.ListRunsReply:
        async with errors_to(context):
            return await self._coordinator.runs(request.limit)

    async def GetRun(self, request: pb.GetRunRequest, context: Context) -> pb.RunStatus:
        async with errors_to(context):
            return await self._coordinator.run(request.run_id)

    async def WatchRun(
        self, request: pb.WatchRunRequest, context: Context
    ) -> AsyncIterator[pb.RunUpdate]:
        async with errors_to(context):
            async with aclosing(self._coordinator.watch(request.run_id)) as updates:
                async for update in updates:
                    yield update

    async def CancelRun(
        self, request: pb.CancelRunRequest, context: Context
    ) -> pb.RunStatus:
        async with errors_to(context):
            request.cancelled_by = caller_name(request.cancelled_by)
            status = await self._coordinator.cancel(request)
            await self._audit.note(
                "cancel",
                status.run_id,
                f"it is {status.state}",
                by=request.cancelled_by,
            )
            return status

    async def ListAgents(
        self, request: pb.ListAgentsRequest, context: Context
    ) -> pb.ListAgentsReply:
        async with errors_to(context):
            return self._coordinator.agents()

    async def FetchRun(
        self, request: pb.FetchRunRequest, context: Context
    ) -> AsyncIterator[pb.FetchRunChunk]:
        async with errors_to(context):
            async with aclosing(self._coordinator.fetch(request.run_id)) as chunks:
                async for content in chunks:
                    yield pb.FetchRunChunk(content=content)
