# SPDX-License-Identifier: Apache-2.0
"""The schedules and maintenance windows of a coordinator, in memory and stored.

Only this module changes them, one call at a time. Operators' mistakes are ConfigErrors.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TypeVar

from ldapslam.base.errors import ConfigError, JobError, JobErrors, LdapSlamError
from ldapslam.base.names import MAX_NAME, NAME_RULE, is_name
from ldapslam.base.time_zone import clock_text, parse_utc
from ldapslam.coordinator.runs.submission import load_submission
from ldapslam.coordinator.schedules.maintenance import Hold, Window, hold_of, window_of
from ldapslam.coordinator.schedules.recurrence import next_time
from ldapslam.coordinator.schedules.schedule import Plan, State, plan_of
from ldapslam.coordinator.security.audit_log import note_of_caller
from ldapslam.coordinator.store_writer import StoreWriter
from ldapslam.proto import operator_pb2, schedule_pb2
from ldapslam.results import schedule_store
from ldapslam.results.audit import AuditRecord
from ldapslam.results.records import utc_text
from ldapslam.results.schedule_store import ScheduleRecord
from ldapslam.transport.messages import PROTOCOL_VERSION, build_version

_log = logging.getLogger(__name__)

_T = TypeVar("_T", "Entry", ScheduleRecord, Window)


@dataclass(slots=True)
class Entry:
    """A schedule."""

    record: ScheduleRecord
    request: schedule_pb2.CreateScheduleRequest
    plan: Plan
    job_name: str
    #: Its servers (`server_of`), and the length of a run with its drain.
    targets: frozenset[str]
    planned: timedelta
    #: Times up to this are settled.
    settled: datetime
    #: None: there is none, or it does not matter.
    next_due: datetime | None = None
    #: Open run -> its time.
    open_runs: dict[str, datetime] = field(default_factory=dict)

    @property
    def schedule_id(self) -> str:
        return self.record.schedule_id

    @property
    def name(self) -> str:
        return self.record.name

    @property
    def state(self) -> State:
        return State(self.record.state)

    @property
    def is_at_once(self) -> bool:
        """Its one time is whenever it is active."""
        return self.request.rule.once and not self.request.rule.from_utc

    def look_ahead(self) -> None:
        is_ticking = self.state in (State.ACTIVE, State.PAUSED)
        self.next_due = next_time(self.plan.rule, self.settled) if is_ticking else None


class ScheduleStore:
    def __init__(self, writer: StoreWriter) -> None:
        self._writer = writer
        self._store = writer.store
        self.entries: dict[str, Entry] = {}
        #: Written by another version -> why it cannot be read.
        self.unusable: dict[str, tuple[ScheduleRecord, LdapSlamError]] = {}
        self.windows: dict[str, Window] = {}
        self.window_messages: dict[str, schedule_pb2.MaintenanceWindow] = {}
        self._adding = asyncio.Lock()

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
            await self.refresh_open_runs(entry)
        found = await self._writer.call(schedule_store.windows, self._store)
        for window_id, request in found.items():
            message = schedule_pb2.MaintenanceWindow.FromString(request)
            self._keep_window(window_id, message)

    async def refresh_open_runs(self, entry: Entry) -> None:
        """Read the schedule's open runs from the store."""
        found = await self._writer.call(
            schedule_store.open_runs, self._store, entry.schedule_id
        )
        entry.open_runs = {run: parse_utc(due) for run, due in found.items()}

    def find(self, name: str) -> Entry:
        return _found("schedule", "schedule list", name, self.entries)

    async def create(
        self, request: schedule_pb2.CreateScheduleRequest, by: str, now: datetime
    ) -> Entry:
        """Keep a new schedule; JobErrors with the faults of its job and its rule."""
        state = State.DISABLED if request.disabled else State.ACTIVE
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
                hint="give another --name, or remove that one: ldapslam schedule "
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
        settled = entry.settled if entry.is_at_once else max(settled, entry.settled)
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
        record = _found("schedule", "schedule list", name, records)
        text = f"{record.name} is removed"
        note = note_of_caller("schedule", record.schedule_id, text, by=by)
        remove = schedule_store.remove_schedule
        await self._writer.call_noted(note, remove, self._store, record.schedule_id)
        self.entries.pop(record.schedule_id, None)
        self.unusable.pop(record.schedule_id, None)
        return record

    def hold_of(
        self, targets: frozenset[str], planned: timedelta, now: datetime
    ) -> Hold | None:
        return hold_of(self.windows.values(), targets, planned, now)

    async def add_window(
        self, message: schedule_pb2.MaintenanceWindow, now: datetime
    ) -> Window:
        """Keep a maintenance window; ConfigError, also when it is over."""
        window_of(message)
        if message.until_utc and parse_utc(message.until_utc) <= now:
            ended = clock_text(parse_utc(message.until_utc))
            raise ConfigError(
                f"the maintenance window was over at {ended}",
                hint="name an end that is still to come",
            )
        message.window_id = window_id = f"m-{secrets.token_hex(4)}"
        async with self._adding:  # each looks at those before it
            taken = {window.name for window in self.windows.values()}
            if not message.name:
                message.name = _free_name("maintenance", taken)
            check_name(message.name)
            if message.name in taken:
                raise ConfigError(
                    f"there is a maintenance window named {message.name!r} already",
                    hint="give another --name",
                )
            content = message.SerializeToString()
            by = message.created_by
            note = note_of_caller("maintenance", window_id, message.name, by=by)
            create = schedule_store.create_window
            await self._writer.call_noted(note, create, self._store, window_id, content)
            self._keep_window(window_id, message)
        return self.windows[window_id]

    def _keep_window(
        self, window_id: str, message: schedule_pb2.MaintenanceWindow
    ) -> None:
        self.windows[window_id] = window_of(message)
        self.window_messages[window_id] = message

    async def remove_window(self, name: str, by: str) -> Window:
        window = _found("maintenance window", "maintenance list", name, self.windows)
        text = f"{window.name} is removed"
        note = note_of_caller("maintenance", window.window_id, text, by=by)
        remove = schedule_store.remove_window
        await self._writer.call_noted(note, remove, self._store, window.window_id)
        del self.windows[window.window_id], self.window_messages[window.window_id]
        return window


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
    limits = submission.limits
    return Entry(
        record=record,
        request=request,
        plan=plan,
        job_name=submission.job.name,
        targets=submission.targets,
        planned=timedelta(microseconds=(limits.planned_ns + limits.grace_ns) // 1000),
        settled=parse_utc(record.settled_utc),
    )


def run_request(job: operator_pb2.SubmitJobRequest) -> operator_pb2.SubmitJobRequest:
    """A schedule's job as a submission of this build."""
    request = operator_pb2.SubmitJobRequest()
    request.CopyFrom(job)
    request.protocol_version = PROTOCOL_VERSION
    request.build = build_version()
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


def _found(kind: str, command: str, name: str, by_id: Mapping[str, _T]) -> _T:
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
        f"there is no {kind} {name!r}", hint=f"`ldapslam {command}` shows all"
    )
