# SPDX-License-Identifier: Apache-2.0
"""The schedules of a coordinator, in memory and stored.

Only this module changes them, one call at a time. Operators' mistakes are ConfigErrors.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

from ldapslam import __version__
from ldapslam.base.errors import ConfigError, JobError, JobErrors, LdapSlamError
from ldapslam.base.names import MAX_NAME, NAME_RULE, is_name
from ldapslam.base.time_zone import parse_utc
from ldapslam.coordinator.runs.submission import load_submission
from ldapslam.coordinator.schedules.recurrence import next_time
from ldapslam.coordinator.schedules.schedule import Plan, State, plan_of
from ldapslam.coordinator.security.audit_log import note_of_caller
from ldapslam.coordinator.store_writer import StoreWriter
from ldapslam.proto import operator_pb2, schedule_pb2
from ldapslam.results import schedule_store
from ldapslam.results.audit import AuditRecord
from ldapslam.results.records import utc_text
from ldapslam.results.schedule_store import ScheduleRecord
from ldapslam.transport.messages import PROTOCOL_VERSION

_log = logging.getLogger(__name__)

_T = TypeVar("_T", "Entry", ScheduleRecord)


@dataclass(slots=True)
class Entry:
    """A schedule."""

    record: ScheduleRecord
    request: schedule_pb2.CreateScheduleRequest
    plan: Plan
    job_name: str
    #: Times up to this are settled.
    settled: datetime
    #: None: there is none, or it does not matter.
    next_due: datetime | None = None

    @property
    def schedule_id(self) -> str:
        return self.record.schedule_id

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def state(self) -> State:
        return State(self.record.state)

    def look_ahead(self) -> None:
        is_active = self.state is State.ACTIVE
        self.next_due = next_time(self.plan.rule, self.settled) if is_active else None


class ScheduleStore:
    def __init__(self, writer: StoreWriter) -> None:
        self._writer = writer
        self._store = writer.store
        self.entries: dict[str, Entry] = {}
        #: Written by another version -> why it cannot be read.
        self.unusable: dict[str, tuple[ScheduleRecord, LdapSlamError]] = {}

    async def load(self) -> None:
        for record in await self._writer.call(schedule_store.schedules, self._store):
            try:
                entry = await asyncio.to_thread(entry_of, record)
            except LdapSlamError as error:
                _log.error("schedule %s cannot be used: %s", record.name, error)
                self.unusable[record.schedule_id] = record, error
                continue
            entry.look_ahead()
            self.entries[record.schedule_id] = entry

    async def open_runs(self, schedule_id: str) -> dict[str, datetime]:
        """A schedule's runs that have not ended -> the time that each was made for."""
        read = schedule_store.open_runs
        found = await self._writer.call(read, self._store, schedule_id)
        return {run: parse_utc(due) for run, due in found.items()}

    def find(self, name: str) -> Entry:
        return _find(name, self.entries)

    async def create(
        self, request: schedule_pb2.CreateScheduleRequest, by: str, now: datetime
    ) -> Entry:
        """Keep a new schedule; JobErrors with the faults of its job and its rule."""
        state = State.PAUSED if request.paused else State.ACTIVE
        record = ScheduleRecord(
            schedule_id=f"s-{secrets.token_hex(4)}",
            name=request.name or "?",
            request=request.SerializeToString(),
            state=state,
            created_utc=utc_text(now),
            created_by=by,
            settled_utc=utc_text(now),
        )
        entry = await asyncio.to_thread(entry_of, record)
        if request.name:
            check_name(request.name)
        else:
            taken = {one.name for one in self.entries.values()}
            entry.record = replace(record, name=_free_name(entry.job_name, taken))
        note = note_of_caller("schedule", entry.schedule_id, entry.name, by=by)
        create = schedule_store.create_schedule
        is_kept = await self._writer.call_noted(note, create, self._store, entry.record)
        if not is_kept:
            raise ConfigError(
                f"there is a schedule named {entry.name!r} already",
                hint="give another --name, or remove that one: ldapslam fleet schedule "
                f"remove {entry.name}",
            )
        entry.look_ahead()
        self.entries[entry.schedule_id] = entry
        return entry

    async def set_state(
        self,
        entry: Entry,
        state: State,
        settled: datetime,
        note: AuditRecord | None = None,
    ) -> None:
        """Times up to `settled` do not matter in this state. `note` is of who wanted
        it."""
        settled = max(settled, entry.settled)
        change, until_utc = schedule_store.set_state, utc_text(settled)
        which = self._store, entry.schedule_id
        if note is None:
            await self._writer.call(change, *which, state, until_utc)
        else:
            await self._writer.call_noted(note, change, *which, state, until_utc)
        entry.settled = settled
        entry.record = replace(entry.record, state=state)
        entry.look_ahead()

    async def remove(self, name: str, by: str) -> ScheduleRecord:
        """Forget a schedule, usable or not; its runs stay."""
        records = {key: entry.record for key, entry in self.entries.items()}
        records.update({key: record for key, (record, _) in self.unusable.items()})
        record = _find(name, records)
        text = f"{record.name} is removed"
        note = note_of_caller("schedule", record.schedule_id, text, by=by)
        remove = schedule_store.remove_schedule
        await self._writer.call_noted(note, remove, self._store, record.schedule_id)
        self.entries.pop(record.schedule_id, None)
        self.unusable.pop(record.schedule_id, None)
        return record


def entry_of(record: ScheduleRecord) -> Entry:
    """A schedule as the store has it; JobErrors with all faults of job and rule."""
    request = schedule_pb2.CreateScheduleRequest.FromString(record.request)
    created = parse_utc(record.created_utc)
    faults: list[JobError] = []
    plan: Plan | None = None
    try:
        plan = plan_of(request.rule, created)
    except ConfigError as error:
        faults.append(JobError(str(error), file="schedule", hint=error.hint))
    try:
        submission = load_submission(run_request(request.job), created)
    except JobErrors as error:
        raise JobErrors((*error.faults, *faults)) from None
    if plan is None:
        raise JobErrors(faults)
    return Entry(
        record=record,
        request=request,
        plan=plan,
        job_name=submission.job.name,
        settled=parse_utc(record.settled_utc),
    )


def run_request(job: operator_pb2.SubmitJobRequest) -> operator_pb2.SubmitJobRequest:
    """A schedule's job as a submission of this build."""
    request = operator_pb2.SubmitJobRequest()
    request.CopyFrom(job)
    request.protocol_version = PROTOCOL_VERSION
    request.build = __version__
    request.ClearField("after_run")
    request.ClearField("not_before_utc")
    return request


def check_name(name: str) -> None:
    if not is_name(name):
        raise ConfigError(
            f"name {name[:MAX_NAME]!r} cannot be used",
            hint=f"a name has {NAME_RULE}",
        )


def _free_name(name: str, taken: set[str]) -> str:
    candidate, number = name[:MAX_NAME], 1
    while candidate in taken:
        number += 1
        candidate = f"{name[: MAX_NAME - 8]}-{number}"
    return candidate


def _find(name: str, by_id: Mapping[str, _T]) -> _T:
    """The schedule of a name, an id or the beginning of one id; ConfigError."""
    if name in by_id:
        return by_id[name]
    by_name = {one.name: one for one in by_id.values()}
    if name in by_name:
        return by_name[name]
    matching = [key for key in by_id if name and key.startswith(name)]
    if len(matching) == 1:
        return by_id[matching[0]]
    if matching:
        raise ConfigError(
            f"{len(matching)} ids begin with {name!r}", hint=", ".join(matching[:5])
        )
    raise ConfigError(
        f"there is no schedule {name!r}",
        hint="`ldapslam fleet schedule list` shows all",
    )
