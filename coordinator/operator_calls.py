# SPDX-License-Identifier: Apache-2.0
"""Operators' calls, and what a scheduler asks for (hooks.Queue). No gRPC here."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime

from ldapslam.base.errors import FleetError, LdapSlamError, NotEnoughAgents, StoreFull
from ldapslam.coordinator.core import Core
from ldapslam.coordinator.fleet import fleet as fleet_machine
from ldapslam.coordinator.hooks import WaitingRun
from ldapslam.coordinator.runs import run as run_machine
from ldapslam.coordinator.runs.controller import ActiveRun
from ldapslam.coordinator.runs.run import RunState
from ldapslam.coordinator.runs.status import status_message
from ldapslam.coordinator.runs.submission import Submission, load_submission
from ldapslam.coordinator.store_room import check_store_room, need_of
from ldapslam.proto import operator_pb2 as pb
from ldapslam.results.listing import brief_runs
from ldapslam.results.records import RunRecord, SubmissionRecord
from ldapslam.results.upkeep import room_bytes
from ldapslam.transport.messages import facts_json

#: A run that begins by itself waits so long for agents that are just coming back.
_LEAST_WAIT_NS = 60_000_000_000


class OperatorCalls(Core):
    """The operators' side of a coordinator."""

    async def submit(self, request: pb.SubmitJobRequest) -> pb.SubmitJobReply:
        """Queue a job; refused when it has faults or the fleet too few agents."""
        submission = await asyncio.to_thread(
            load_submission, request, datetime.now(UTC)
        )
        if request.after_run:
            submission.request.after_run = await self._full_id(request.after_run)
        # to its end even if the caller goes away: no record without a run
        await asyncio.shield(self._accept(submission))
        return pb.SubmitJobReply(run_id=submission.run_id)

    async def submit_scheduled(
        self, request: pb.SubmitJobRequest, schedule_id: str, run_id: str
    ) -> None:
        """Queue a run of a schedule, under this id."""
        submission = await asyncio.to_thread(
            load_submission,
            request,
            datetime.now(UTC),
            run_id=run_id,
            schedule_id=schedule_id,
        )
        await asyncio.shield(self._accept(submission, at_once=False))

    async def _accept(self, submission: Submission, *, at_once: bool = True) -> None:
        request = submission.request
        is_waiting = bool(request.not_before_utc or request.after_run)
        must_fit = at_once and not is_waiting and not submission.wait_for_agents_ns
        if must_fit:
            self._check_agents(submission)
        if not is_waiting:
            await self._check_room(submission)
        # first of all: load whose results could not be stored must not begin
        await self._journal.call(
            self._journal.store.create_run,
            submission.record,
            submission_record(request),
        )
        try:
            if must_fit:  # agents may have left since
                self._check_agents(submission)
        except NotEnoughAgents as error:
            await self._close_record(submission.record, "not_enough_agents", error)
            raise
        run = self._new_run(submission)
        if is_waiting:
            run.is_released = False
            run.tell_of_wait(_what_for(request))
        else:
            self._queue(run, may_wait=not must_fit)
        with contextlib.suppress(StoreFull):  # the run is there, and accepted
            await self._journal.flush()

    def _check_agents(self, submission: Submission) -> None:
        refusal = self._fleet.refusal(submission.run_id, submission.selection)
        if refusal is not None:
            raise NotEnoughAgents(refusal.wanted, refusal.available, refusal.misfits)

    async def _check_room(self, submission: Submission) -> None:
        store = self._journal.store
        check_store_room(
            need_of(
                submission.record.plan, self._fleet.agents_for(submission.selection)
            ),
            free_bytes=await self._journal.call(room_bytes, store),
            store=store.url,
        )

    def _new_run(self, submission: Submission) -> ActiveRun:
        run = ActiveRun(
            submission, self, self._journal, self._now_ns, self._hooks.observers
        )
        self._runs[submission.run_id] = run
        run.announce()
        return run

    def _queue(self, run: ActiveRun, *, may_wait: bool) -> None:
        """Have the fleet give it agents when it can."""
        submission = run.submission
        reason = self._hindrance(_waiting_run(run))
        if reason:
            self.hold(self._held | {run.run_id})
            run.tell_of_wait(reason)
        wait_ns = submission.wait_for_agents_ns
        if may_wait and not wait_ns:
            wait_ns = _LEAST_WAIT_NS
        self._feed_fleet(
            fleet_machine.RunSubmitted(
                submission.run_id,
                submission.selection,
                submission.targets,
                submission.record.priority,
                submission.is_sharing,
                submission.lease_ns,
                may_wait,
                self._now_ns() + wait_ns if wait_ns else None,
            )
        )

    # What a scheduler asks for.

    def waiting(self) -> list[WaitingRun]:
        """The queue in order, then the runs that wait for a time or another run."""
        queued = [self._runs[run_id] for run_id in self._fleet.queue()]
        others = [run for run in self._runs.values() if not run.is_released]
        return [_waiting_run(run) for run in (*queued, *others)]

    async def release(self, run_id: str) -> None:
        """The run's time has come."""
        run = self._runs.get(run_id)
        if run is None or run.is_released:
            return
        try:
            await self._check_room(run.submission)
        except FleetError as error:
            self._give_up(run, str(error), error)
        if run.state is RunState.QUEUED and not run.is_released:
            run.is_released = True
            run.tell_of_wait("")
            self._queue(run, may_wait=True)

    async def drop(self, run_id: str, reason: str) -> None:
        """The run will never begin."""
        run = self._runs.get(run_id)
        if run is not None and run.state is RunState.QUEUED:
            self._give_up(run, reason)

    def _give_up(
        self, run: ActiveRun, reason: str, error: LdapSlamError | None = None
    ) -> None:
        run.feed(run_machine.GaveUp(reason, error))
        self._feed_fleet(fleet_machine.RunWithdrawn(run.run_id))

    async def cancel_run(self, run_id: str, by: str) -> None:
        """End a run, queued or live; nothing when it has ended."""
        run = self._runs.get(run_id)
        if run is None:
            return
        was_queued = run.state is RunState.QUEUED
        run.feed(run_machine.CancelRequested(by))
        if was_queued:
            self._feed_fleet(fleet_machine.RunWithdrawn(run_id))

    def hold(self, run_ids: frozenset[str]) -> None:
        """These may not be given agents now."""
        self._held = run_ids
        self._feed_fleet(fleet_machine.HoldRuns(run_ids))

    def explain(self, run_id: str, reason: str) -> None:
        """What a waiting run waits for."""
        run = self._runs.get(run_id)
        if run is not None and run.state is RunState.QUEUED:
            run.tell_of_wait(reason)

    def ask_before(self, hindrance: Callable[[WaitingRun], str]) -> None:
        """Ask of each run whether it may be given agents, before it is."""
        self._hindrance = hindrance

    # What operators look at.

    async def runs(self, limit: int) -> pb.ListRunsReply:
        """The newest runs; 0 is all."""
        records = await self._journal.call(brief_runs, self._journal.store, limit)
        return pb.ListRunsReply(runs=[self._brief(record) for record in records])

    def _brief(self, record: RunRecord) -> pb.RunStatus:
        run = self._runs.get(record.run_id)
        return run.status() if run is not None else _stored_status(record)

    async def run(self, name: str) -> pb.RunStatus:
        """One run, by its id or the beginning of it."""
        run_id = await self._full_id(name)
        run = self._runs.get(run_id)
        if run is not None:
            return run.status()
        store = self._journal.store
        record = await self._journal.call(store.run, run_id)
        status = _stored_status(record)
        for event in await self._journal.call(store.events, run_id):
            status.events.add(at_utc=event.at_utc, kind=event.kind, text=event.text)
        return status

    async def watch(self, name: str) -> AsyncGenerator[pb.RunUpdate, None]:
        """The run's state now, and what happens until its end."""
        run_id = await self._full_id(name)
        run = self._runs.get(run_id)
        if run is None:
            yield pb.RunUpdate(status=await self.run(run_id))
            return
        updates = run.subscribe()
        try:
            while (update := await updates.get()) is not None:
                yield update
        finally:
            run.unsubscribe(updates)

    async def cancel(self, request: pb.CancelRunRequest) -> pb.RunStatus:
        """Have a run end early; one that has ended stays as it is."""
        run_id = await self._full_id(request.run_id)
        run = self._runs.get(run_id)
        if run is None:
            return await self.run(run_id)
        await self.cancel_run(run_id, request.cancelled_by)
        return run.status()

    def agents(self) -> pb.ListAgentsReply:
        """Every agent that has registered with this coordinator, by name."""
        now_ns = self._now_ns()
        reply = pb.ListAgentsReply()
        for record in self._fleet.agents():
            status = reply.agents.add(
                name=record.name,
                state=str(record.state),
                labels=record.labels,
                run_ids=list(record.runs),
                max_runs=record.max_runs,
                restricted=record.is_restricted,
                silent_ns=now_ns - record.heard_ns,
            )
            link = self._links.get(record.name)
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

    async def fetch(self, name: str) -> AsyncGenerator[bytes, None]:
        """The archive of a run, in chunks."""
        run_id = await self._full_id(name)
        async with contextlib.aclosing(self._journal.export(run_id)) as chunks:
            async for chunk in chunks:
                yield chunk

    async def _full_id(self, name: str) -> str:
        record = await self._journal.call(self._journal.store.run, name)
        return record.run_id


def submission_record(request: pb.SubmitJobRequest) -> SubmissionRecord:
    """What the store keeps of it."""
    return SubmissionRecord(
        request.SerializeToString(),
        request.not_before_utc or None,
        request.after_run or None,
        _CONDITIONS[request.after_if],
    )


_CONDITIONS = {
    pb.RUN_CONDITION_ANY: "any",
    pb.RUN_CONDITION_PASS: "pass",
    pb.RUN_CONDITION_FAIL: "fail",
}


def _what_for(request: pb.SubmitJobRequest) -> str:
    """What a run waits for, for its detail."""
    parts = []
    if request.not_before_utc:
        parts.append(f"not before {request.not_before_utc}")
    if request.after_run:
        condition = _CONDITIONS[request.after_if]
        which = "" if condition == "any" else f", if that is a {condition}"
        parts.append(f"after run {request.after_run}{which}")
    return ", ".join(parts)


def _waiting_run(run: ActiveRun) -> WaitingRun:
    request = run.submission.request
    limits = run.submission.limits
    return WaitingRun(
        run.run_id,
        run.submission.targets,
        limits.planned_ns + limits.grace_ns,
        run.is_released,
        request.not_before_utc or None,
        request.after_run or None,
        _CONDITIONS[request.after_if],
    )


def _stored_status(record: RunRecord) -> pb.RunStatus:
    failure = record.manifest.get("failure")
    error = LdapSlamError.from_dict(failure) if failure else None
    return status_message(record, [], error, record.planned_ns)
