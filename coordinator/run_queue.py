# SPDX-License-Identifier: Apache-2.0
"""The queue: runs that wait for a time, another run, agents, targets or room.

Operators and the scheduler put runs in; the fleet machine decides which one is next. A
run begins only when the store has room for its reports:

    bytes of a report x (intervals and the drain) x agents
"""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime
from functools import partial

from ldapslam.base.errors import (
    FleetError,
    LdapSlamError,
    NotEnoughAgents,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreRefused,
)
from ldapslam.base.units import format_size
from ldapslam.coordinator.active_fleet import ActiveFleet
from ldapslam.coordinator.fleet import fleet as fleet_machine
from ldapslam.coordinator.runs import run as run_machine
from ldapslam.coordinator.runs.controller import ActiveRun
from ldapslam.coordinator.runs.submission import Submission, load_submission
from ldapslam.jobs.plan import ReportRoom
from ldapslam.jobs.run_plan import RunPlan
from ldapslam.proto import operator_pb2 as pb
from ldapslam.proto.fields import words_of
from ldapslam.results.audit import AuditRecord
from ldapslam.results.records import RunRecord, SubmissionRecord
from ldapslam.results.upkeep import room_bytes

#: A scheduled run waits this long for agents that return.
_LEAST_WAIT_NS = 60_000_000_000
#: How the run of `after_run` has to end: any, pass or fail.
CONDITIONS = {n: word for word, n in words_of(pb.RunCondition.DESCRIPTOR).items()}


class RunQueue:
    def __init__(self, fleet: ActiveFleet) -> None:
        self._fleet = fleet
        self._writer = fleet.writer

    async def accept(
        self, submission: Submission, note: AuditRecord, *, at_once: bool = True
    ) -> None:
        """Store a run with its note, and queue it; NotEnoughAgents, FleetError or
        StoreError."""
        request = submission.request
        is_waiting = bool(request.not_before_utc or request.after_run)
        must_fit = at_once and not is_waiting and not submission.wait_for_agents_ns
        if must_fit:
            self._check_agents(submission)
        if not is_waiting:
            await self._check_room(submission)
        # first: load whose results cannot be stored must not begin
        kept = SubmissionRecord(request.SerializeToString(), request.after_run or None)
        record = submission.record
        await self._keep(record, kept, note)
        try:
            if must_fit:  # agents may have left since
                self._check_agents(submission)
        except NotEnoughAgents as error:
            await self._fleet.close_record(record, "not_enough_agents", error)
            raise
        run = self._fleet.new_run(submission)
        if is_waiting:
            run.is_released = False
            run.set_queue_reason(_what_for(request))
        else:
            self.queue(run, may_wait=not must_fit)
        with contextlib.suppress(StoreError):  # the run is there, and accepted
            await self._writer.flush()

    async def _keep(
        self, record: RunRecord, made_of: SubmissionRecord, note: AuditRecord
    ) -> None:
        """Store the run; with an error it is not stored, nor will be. Where the
        connection ended during the commit nobody knows: the same is written again."""
        store = self._writer.store
        write = partial(
            self._writer.call_noted, note, store.create_run, record, made_of
        )
        try:
            await write()
        except (StoreBusy, StoreFull, StoreRefused):
            raise
        except StoreError:
            try:
                await write()
            except StoreError:
                # before anything that is written later
                self._writer.post(store.withdraw_run, record.run_id)
                raise

    def _check_agents(self, submission: Submission) -> None:
        refusal = self._fleet.machine.refusal(submission.run_id, submission.selection)
        if refusal is not None:
            raise NotEnoughAgents(refusal.wanted, refusal.available, refusal.ineligible)

    async def _check_room(self, submission: Submission) -> None:
        store = self._writer.store
        check_store_room(
            need_of(
                submission.record.plan,
                self._fleet.machine.agents_for(submission.selection),
            ),
            free_bytes=await self._writer.call(room_bytes, store),
            store=store.url,
        )

    def queue(self, run: ActiveRun, *, may_wait: bool) -> None:
        """Have the fleet give it agents when it can."""
        submission = run.submission
        wait_ns = submission.wait_for_agents_ns
        if may_wait and not wait_ns:
            wait_ns = _LEAST_WAIT_NS
        self._fleet.feed(
            fleet_machine.RunSubmitted(
                submission.run_id,
                submission.selection,
                submission.targets,
                submission.record.priority,
                submission.is_sharing,
                submission.lease_ns,
                may_wait,
                self._fleet.now_ns() + wait_ns if wait_ns else None,
            )
        )

    async def submit_scheduled(
        self,
        request: pb.SubmitJobRequest,
        schedule_id: str,
        run_id: str,
        note: AuditRecord,
    ) -> None:
        """Queue a run of a schedule under a stored id, so that a crash neither loses
        nor doubles it. It may wait for agents."""
        submission = await asyncio.to_thread(
            load_submission,
            request,
            datetime.now(UTC),
            run_id=run_id,
            schedule_id=schedule_id,
        )
        await asyncio.shield(self.accept(submission, note, at_once=False))

    def waiting(self) -> list[Submission]:
        """Runs that wait for a time or for another run."""
        runs = self._fleet.runs.values()
        return [run.submission for run in runs if not run.is_released]

    def awaits_verdict(self, run_id: str) -> bool:
        """It has not ended, or is being judged."""
        return run_id in self._fleet.runs or self._fleet.verdicts.is_judging(run_id)

    async def release(self, run_id: str) -> None:
        run = self._fleet.runs.get(run_id)
        if run is None or run.is_released:
            return
        try:
            await self._check_room(run.submission)
        except FleetError as error:
            self._give_up(run, str(error), error)
        if run.is_queued and not run.is_released:
            run.is_released = True
            run.set_queue_reason("")
            self.queue(run, may_wait=True)

    async def drop(self, run_id: str, reason: str) -> None:
        run = self._fleet.runs.get(run_id)
        if run is not None and run.is_queued:
            self._give_up(run, reason)

    def _give_up(
        self, run: ActiveRun, reason: str, error: LdapSlamError | None = None
    ) -> None:
        run.feed(run_machine.GaveUp(reason, error))
        self._fleet.feed(fleet_machine.RunWithdrawn(run.run_id))

    async def cancel_run(self, run_id: str, by: str) -> None:
        """End a run, queued or live; nothing when it has ended."""
        run = self._fleet.runs.get(run_id)
        if run is None:
            return
        was_queued = run.is_queued
        run.feed(run_machine.CancelRequested(by))
        if was_queued:
            self._fleet.feed(fleet_machine.RunWithdrawn(run_id))

    def explain(self, run_id: str, reason: str) -> None:
        """Set the reason why a run waits."""
        run = self._fleet.runs.get(run_id)
        if run and run.is_queued and run.record.state_detail != reason:
            run.set_queue_reason(reason)


def _what_for(request: pb.SubmitJobRequest) -> str:
    parts = []
    if request.not_before_utc:
        parts.append(f"not before {request.not_before_utc}")
    if request.after_run:
        condition = CONDITIONS[request.after_if]
        which = "" if condition == "any" else f", if that is a {condition}"
        parts.append(f"after run {request.after_run}{which}")
    return ", ".join(parts)


#: An operation's counters and histograms.
OPERATION_BYTES = 5_000
STREAM_BYTES = 500
#: The report without its rows.
REPORT_BYTES = 1_000
#: Assumed for a run without a known length.
COUNTED_INTERVALS = 3_600
#: Kept free for the database's log and for the ends of runs.
RESERVE_BYTES = 16 << 20


def need_of(plan: RunPlan, agents: int) -> ReportRoom:
    streams = plan.streams
    operations = sum(len(stream.operations) * len(stream.uris) for stream in streams)
    report_bytes = (
        REPORT_BYTES + OPERATION_BYTES * operations + STREAM_BYTES * len(streams)
    )
    intervals = len(plan.boundaries_ns)
    if all(stream.count or stream.is_replay for stream in streams):
        intervals = min(intervals, COUNTED_INTERVALS)
    return ReportRoom(report_bytes, (intervals + 1) * agents)


def check_store_room(need: ReportRoom, *, free_bytes: int | None, store: str) -> None:
    """FleetError when the reports would not fit; None: unknown room."""
    if free_bytes is None or need.needed_bytes + RESERVE_BYTES <= free_bytes:
        return
    raise FleetError(
        f"the coordinator has too little room in its store: the run's reports may "
        f"need {need} beside a reserve of {format_size(RESERVE_BYTES)}, the disk of "
        f"{store!r} has {format_size(free_bytes)} left",
        hint="make room there, remove old runs with `ldapslam results prune`, or give "
        "the job a longer `run.interval`",
    )
