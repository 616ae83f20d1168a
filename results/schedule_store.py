# SPDX-License-Identifier: Apache-2.0
"""Schedules in the store: their times with the outcome of each.

A time is a row of (schedule, due): the first to insert it settles it, so that no time
is settled twice, whatever crashes in between. Each function is one transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa

from ldapslam.results import schema
from ldapslam.results.records import FINAL_STATES
from ldapslam.results.store import Store

#: Outcome of a time whose run is being submitted.
SUBMITTING = "submitting"
#: And once it is.
SUBMITTED = "submitted"
#: Number of latest times among which runs that have not ended are looked for.
_MOST_OPEN = 1000


@dataclass(frozen=True, slots=True)
class ScheduleRecord:
    schedule_id: str
    #: Unique.
    name: str
    #: A serialised CreateScheduleRequest.
    request: bytes
    #: active, paused or over.
    state: str
    created_utc: str
    created_by: str
    #: Every time up to here has its row, or was not due.
    settled_utc: str


@dataclass(frozen=True, slots=True)
class FireRecord:
    """The outcome of one time of a schedule."""

    schedule_id: str
    due_utc: str
    at_utc: str
    #: submitting, submitted, missed, overlapped or failed.
    outcome: str
    #: Of the run that was made, or is to be; at most one.
    run_ids: tuple[str, ...] = ()
    detail: str = ""


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How far a run is."""

    state: str
    verdict: str | None = None
    t0_utc: str | None = None
    #: It has its verdict, or gets none: the coordinator knows.
    is_judged: bool = False


def create_schedule(store: Store, record: ScheduleRecord) -> bool:
    """Keep a schedule; False when another one has its name."""
    table = schema.schedule
    taken = sa.select(table.c.schedule_id).where(table.c.name == record.name)
    with store.transaction(writes=True) as connection:
        if connection.execute(taken).first() is not None:
            return False
        connection.execute(table.insert(), asdict(record))
    return True


def schedules(store: Store) -> list[ScheduleRecord]:
    """All schedules, by name."""
    query = sa.select(schema.schedule).order_by(schema.schedule.c.name)
    with store.transaction() as connection:
        return [ScheduleRecord(**row._mapping) for row in connection.execute(query)]


def set_state(store: Store, schedule_id: str, state: str, settled_utc: str) -> None:
    """A schedule's state; times up to `settled_utc` are settled or were not due."""
    table = schema.schedule
    query = table.update().where(table.c.schedule_id == schedule_id)
    values = {"state": state, "settled_utc": settled_utc}
    with store.transaction(writes=True) as connection:
        connection.execute(query, values)


def remove_schedule(store: Store, schedule_id: str) -> None:
    """The schedule and the outcomes of its times; its runs stay."""
    fire, table = schema.schedule_fire, schema.schedule
    with store.transaction(writes=True) as connection:
        connection.execute(fire.delete().where(fire.c.schedule_id == schedule_id))
        connection.execute(table.delete().where(table.c.schedule_id == schedule_id))


def settle(
    store: Store, schedule_id: str, fires: Sequence[FireRecord], settled_utc: str
) -> list[FireRecord]:
    """Settle times, and with them all up to `settled_utc`; those that were not yet."""
    fire, table = schema.schedule_fire, schema.schedule
    with store.transaction(writes=True) as connection:
        dues = [one.due_utc for one in fires]
        query = sa.select(fire.c.due_utc).where(
            fire.c.schedule_id == schedule_id, fire.c.due_utc.in_(dues)
        )
        known = set(connection.scalars(query))
        new = [one for one in fires if one.due_utc not in known]
        if new:
            connection.execute(fire.insert(), [_fire_row(one) for one in new])
        connection.execute(
            table.update().where(table.c.schedule_id == schedule_id),
            {"settled_utc": settled_utc},
        )
    return new


def finish(store: Store, fire: FireRecord) -> None:
    """The outcome of a time that was `submitting`."""
    table = schema.schedule_fire
    query = table.update().where(
        table.c.schedule_id == fire.schedule_id, table.c.due_utc == fire.due_utc
    )
    row = _fire_row(fire)
    values = {name: row[name] for name in ("outcome", "run_ids", "detail")}
    with store.transaction(writes=True) as connection:
        connection.execute(query, values)


def fires(store: Store, schedule_id: str, limit: int) -> list[FireRecord]:
    """The outcomes of a schedule's latest times, newest first."""
    table = schema.schedule_fire
    query = sa.select(table).where(table.c.schedule_id == schedule_id)
    query = query.order_by(table.c.due_utc.desc()).limit(limit)
    return _fires(store, query)


def unfinished(store: Store) -> list[FireRecord]:
    """Times whose run was being submitted, oldest first."""
    table = schema.schedule_fire
    query = sa.select(table).where(table.c.outcome == SUBMITTING)
    return _fires(store, query.order_by(table.c.due_utc))


def open_runs(store: Store, schedule_id: str) -> dict[str, str]:
    """A schedule's runs that have not ended -> the time that each was made for."""
    run, table = schema.run, schema.schedule_fire
    still = sa.select(run.c.run_id, run.c.submitted_utc).where(
        run.c.schedule_id == schedule_id, run.c.state.not_in(FINAL_STATES)
    )
    latest = (
        sa.select(table.c.due_utc, table.c.run_ids)
        .where(
            table.c.schedule_id == schedule_id,
            table.c.outcome.in_((SUBMITTING, SUBMITTED)),
        )
        .order_by(table.c.due_utc.desc())
        .limit(_MOST_OPEN)
    )
    with store.transaction() as connection:
        found = {row.run_id: row.submitted_utc for row in connection.execute(still)}
        rows = connection.execute(latest).all() if found else ()
    due = {run_id: row.due_utc for row in rows for run_id in row.run_ids}
    return {run_id: due.get(run_id, at_utc) for run_id, at_utc in found.items()}


def run_ends(store: Store, run_ids: Iterable[str]) -> dict[str, RunEnd]:
    """How far these runs are; those that the store has."""
    run = schema.run.c
    columns = (run.run_id, run.state, run.verdict, run.t0_utc)
    query = sa.select(*columns).where(run.run_id.in_(list(run_ids)))
    with store.transaction() as connection:
        return {row[0]: RunEnd(*row[1:]) for row in connection.execute(query)}


def _fires(store: Store, query: sa.Select[Any]) -> list[FireRecord]:
    with store.transaction() as connection:
        return [
            FireRecord(**{**row._mapping, "run_ids": tuple(row.run_ids)})
            for row in connection.execute(query)
        ]


def _fire_row(fire: FireRecord) -> dict[str, object]:
    return {**asdict(fire), "run_ids": list(fire.run_ids)}
