# SPDX-License-Identifier: Apache-2.0
"""The service of schedules and the audit log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from itertools import islice

from ldapslam.base.errors import ConfigError, LdapSlamError
from ldapslam.base.time_zone import utc_now
from ldapslam.coordinator.bounds import Bound, note_exceeded
from ldapslam.coordinator.control import Coordinator
from ldapslam.coordinator.extension import Extension
from ldapslam.coordinator.operator_service import MOST_RECORDS
from ldapslam.coordinator.runs.submission import check_version
from ldapslam.coordinator.schedules.schedule import State
from ldapslam.coordinator.schedules.schedule_store import Entry
from ldapslam.coordinator.schedules.scheduler import Scheduler
from ldapslam.coordinator.security.access import caller_name
from ldapslam.coordinator.security.audit_log import note_of_caller
from ldapslam.coordinator.security.guard import Context, Server
from ldapslam.proto import schedule_pb2 as pb
from ldapslam.proto.schedule_pb2_grpc import (
    ScheduleServiceServicer,
    add_ScheduleServiceServicer_to_server,
)
from ldapslam.results import audit, schedule_store
from ldapslam.results.records import utc_text
from ldapslam.results.schedule_store import ScheduleRecord

_NEXT_TIMES = 5
_LATEST_FIRES = 10
_FIRE_FIELDS = ("due_utc", "at_utc", "outcome", "run_ids", "detail")

_CHANGES = {
    pb.ChangeScheduleRequest.CHANGE_PAUSE: State.PAUSED,
    pb.ChangeScheduleRequest.CHANGE_RESUME: State.ACTIVE,
}


class ScheduleService(ScheduleServiceServicer):
    def __init__(self, scheduler: Scheduler, coordinator: Coordinator) -> None:
        self._scheduler = scheduler
        self._schedules = scheduler.schedules
        self._writer = coordinator.writer

    async def CreateSchedule(
        self, request: pb.CreateScheduleRequest, context: Context
    ) -> pb.ScheduleStatus:
        job = request.job
        check_version("the command line", job.protocol_version, job.build)
        job.submitted_by = by = caller_name(job.submitted_by)
        async with self._scheduler.settled() as now:
            entry = await self._schedules.create(request, by, now)
        return await self._status(entry)

    async def ListSchedules(
        self, request: pb.ListSchedulesRequest, context: Context
    ) -> pb.ListSchedulesReply:
        entries = sorted(self._schedules.entries.values(), key=lambda one: one.name)
        found = [await self._status(entry) for entry in entries]
        found += [_unusable(*one) for one in self._schedules.unusable.values()]
        return pb.ListSchedulesReply(schedules=found)

    async def ChangeSchedule(
        self, request: pb.ChangeScheduleRequest, context: Context
    ) -> pb.ScheduleStatus:
        state = _CHANGES.get(request.change)
        if state is None:
            raise ConfigError("the change is not known")
        async with self._scheduler.settled() as now:
            entry = self._schedules.find(request.schedule)
            if entry.state is State.OVER:
                raise ConfigError(
                    f"schedule {entry.name!r} is over: its last time has passed"
                )
            if entry.state is not state:
                text, by = f"{entry.name} is {state}", request.changed_by
                note = note_of_caller("schedule", entry.schedule_id, text, by=by)
                await self._schedules.set_state(entry, state, now, note)
        return await self._status(entry)

    async def RemoveSchedule(
        self, request: pb.RemoveScheduleRequest, context: Context
    ) -> pb.RemoveScheduleReply:
        async with self._scheduler.settled():
            await self._schedules.remove(request.schedule, request.removed_by)
        return pb.RemoveScheduleReply()

    async def ListAudit(
        self, request: pb.ListAuditRequest, context: Context
    ) -> pb.ListAuditReply:
        limit = min(request.limit or MOST_RECORDS, MOST_RECORDS)
        records = await self._writer.call(audit.newest, self._writer.store, limit)
        if len(records) == MOST_RECORDS:
            note_exceeded(Bound.RECORDS)
        return pb.ListAuditReply(
            entries=[pb.AuditEntry(**asdict(record)) for record in records]
        )

    async def _status(self, entry: Entry) -> pb.ScheduleStatus:
        fires = await self._writer.call(
            schedule_store.fires, self._writer.store, entry.schedule_id, _LATEST_FIRES
        )
        is_paused = entry.state is State.PAUSED
        upcoming = () if is_paused else self._scheduler.upcoming(entry)
        return pb.ScheduleStatus(
            schedule_id=entry.schedule_id,
            name=entry.name,
            job_name=entry.job_name,
            rule=entry.request.rule,
            state=entry.state,
            created_utc=entry.record.created_utc,
            created_by=entry.record.created_by,
            next_utc=[utc_text(due) for due in islice(upcoming, _NEXT_TIMES)],
            fires=[
                pb.ScheduleFire(**{name: getattr(fire, name) for name in _FIRE_FIELDS})
                for fire in fires
            ],
        )


def _unusable(record: ScheduleRecord, error: LdapSlamError) -> pb.ScheduleStatus:
    return pb.ScheduleStatus(
        schedule_id=record.schedule_id,
        name=record.name,
        rule=pb.CreateScheduleRequest.FromString(record.request).rule,
        state=f"unusable: {error}",
        created_utc=record.created_utc,
        created_by=record.created_by,
    )


class Schedules(Extension):
    """The scheduler of a served coordinator, and its service."""

    def __init__(self, now_utc: Callable[[], datetime] = utc_now) -> None:
        self._now_utc = now_utc
        self._scheduler: Scheduler | None = None

    async def start(self, coordinator: Coordinator, server: Server) -> None:
        scheduler = Scheduler(
            coordinator.writer,
            coordinator.queue,
            self._now_utc,
            coordinator.audit,
        )
        await scheduler.start()
        self._scheduler = scheduler
        service = ScheduleService(scheduler, coordinator)
        add_ScheduleServiceServicer_to_server(service, server)  # type: ignore[no-untyped-call]

    async def stop(self) -> None:
        if self._scheduler is not None:
            await self._scheduler.stop()
