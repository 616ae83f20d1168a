# SPDX-License-Identifier: Apache-2.0
"""The service for operators: they submit, look at, cancel and fetch runs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from datetime import UTC, datetime

from ldapslam.coordinator.active_fleet import ActiveFleet
from ldapslam.coordinator.bounds import Bound, note_exceeded
from ldapslam.coordinator.run_queue import RunQueue
from ldapslam.coordinator.runs.status import stored_status
from ldapslam.coordinator.runs.submission import load_submission
from ldapslam.coordinator.security.access import caller_name
from ldapslam.coordinator.security.audit_log import AuditLog, note_of_caller
from ldapslam.coordinator.security.guard import Context
from ldapslam.proto import operator_pb2 as pb
from ldapslam.proto.operator_pb2_grpc import OperatorServiceServicer
from ldapslam.transport.messages import facts_json

#: Of runs, or entries of the audit log, in one answer.
MOST_RECORDS = 10_000
#: Copies of a run that are made at a time; others wait.
_EXPORTS = 2


class OperatorService(OperatorServiceServicer):
    def __init__(
        self,
        fleet: ActiveFleet,
        queue: RunQueue,
        audit: AuditLog,
    ) -> None:
        self._fleet = fleet
        self._writer = fleet.writer
        self._queue = queue
        self._audit = audit
        self._exports = asyncio.Semaphore(_EXPORTS)

    async def SubmitJob(
        self, request: pb.SubmitJobRequest, context: Context
    ) -> pb.SubmitJobReply:
        """Queue a job; refused when it has faults or the fleet too few agents."""
        request.submitted_by = caller_name(request.submitted_by)
        submission = await asyncio.to_thread(
            load_submission, request, datetime.now(UTC)
        )
        if request.after_run:
            submission.request.after_run = await self._full_id(request.after_run)
        run_id, by = submission.run_id, request.submitted_by
        note = note_of_caller("submit", run_id, request.job_file, by=by)
        await self._queue.accept(submission, note)
        return pb.SubmitJobReply(run_id=run_id)

    async def ListRuns(
        self, request: pb.ListRunsRequest, context: Context
    ) -> pb.ListRunsReply:
        """The newest runs, as many as one answer has; a limit of 0 is no other."""
        store = self._writer.store
        limit = min(request.limit or MOST_RECORDS, MOST_RECORDS)
        records = await self._writer.call(store.runs, limit)
        if len(records) == MOST_RECORDS:
            note_exceeded(Bound.RECORDS)
        live = self._fleet.runs
        runs = [
            live[one.run_id].status() if one.run_id in live else stored_status(one)
            for one in records
        ]
        for run in runs:
            run.ClearField("failure")  # all of them may be more than an answer holds
        return pb.ListRunsReply(runs=runs)

    async def GetRun(self, request: pb.GetRunRequest, context: Context) -> pb.RunStatus:
        """One run, by its id or the beginning of it."""
        return await self._status(await self._full_id(request.run_id))

    async def _status(self, run_id: str) -> pb.RunStatus:
        run = self._fleet.runs.get(run_id)
        if run is not None:
            return run.status()
        store = self._writer.store
        record = await self._writer.call(store.run, run_id)
        events = await self._writer.call(store.events, run_id)
        return stored_status(record, events)

    async def WatchRun(
        self, request: pb.WatchRunRequest, context: Context
    ) -> AsyncGenerator[pb.RunUpdate, None]:
        """The run's state now, and what happens until its end."""
        run_id = await self._full_id(request.run_id)
        run = self._fleet.runs.get(run_id)
        if run is None:
            yield pb.RunUpdate(status=await self._status(run_id))
            return
        updates = run.subscribe()
        try:
            while (update := await updates.get()) is not None:
                yield update
        finally:
            run.unsubscribe(updates)

    async def CancelRun(
        self, request: pb.CancelRunRequest, context: Context
    ) -> pb.RunStatus:
        """Have a run end early; one that has ended stays as it is."""
        by = caller_name(request.cancelled_by)
        run_id = await self._full_id(request.run_id)
        state = (await self._status(run_id)).state
        # written in this order, also by a store that is away now: load must end
        self._audit.post("cancel", run_id, f"it was {state}", by=by)
        await self._queue.cancel_run(run_id, by)
        await self._writer.flush()
        return await self._status(run_id)

    async def ListAgents(
        self, request: pb.ListAgentsRequest, context: Context
    ) -> pb.ListAgentsReply:
        return self.agents()

    def agents(self) -> pb.ListAgentsReply:
        now_ns = self._fleet.now_ns()
        reply = pb.ListAgentsReply()
        for record in self._fleet.machine.agents():
            status = reply.agents.add(
                name=record.name,
                state=str(record.state),
                labels=record.labels,
                run_ids=list(record.runs),
                max_runs=record.max_runs,
                restricted=record.is_restricted,
                silent_ns=now_ns - record.heard_ns,
            )
            link = self._fleet.links.get(record.name)
            if link is None:
                continue
            status.build = link.identity.build
            status.host_facts_json = facts_json(link.identity.host_facts)
            status.limits_json = facts_json(link.identity.limits)
            if link.load is not None:
                status.load.CopyFrom(link.load)
            offset = link.clock_offset(now_ns)
            if offset is not None:
                status.clock_offset_ns = offset.offset_ns
                status.clock_offset_bound_ns = offset.bound_ns
        return reply

    async def FetchRun(
        self, request: pb.FetchRunRequest, context: Context
    ) -> AsyncGenerator[pb.FetchRunChunk, None]:
        """The archive of a run, in chunks."""
        run_id = await self._full_id(request.run_id)
        await self._fleet.verdicts.wait_for(run_id)
        async with contextlib.aclosing(self._writer.export(run_id)) as chunks:
            # then the copy is made; a reader may take its time
            async with self._exports:
                first = await anext(chunks, b"")
            yield pb.FetchRunChunk(content=first)
            async for chunk in chunks:
                yield pb.FetchRunChunk(content=chunk)

    async def _full_id(self, name: str) -> str:
        record = await self._writer.call(self._writer.store.run, name)
        return record.run_id
