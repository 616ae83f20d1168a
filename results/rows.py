# SPDX-License-Identifier: Apache-2.0
"""Records of runs to rows of the store's tables, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from ldapslam.base.errors import RunNotFound
from ldapslam.jobs.run_plan import plan_document, plan_of
from ldapslam.results import schema
from ldapslam.results.facts import Manifest
from ldapslam.results.records import FINAL_STATES, RunRecord

_RUN_PLAIN = tuple(
    field.name for field in fields(RunRecord) if field.name not in ("seed", "agents")
)
#: Without what is long: a list of runs must not be slow because the runs hold much.
_BRIEF_PLAIN = tuple(
    name
    for name in _RUN_PLAIN
    if name not in ("job_text", "plan", "manifest", "digest")
)


def require_run(connection: Connection, run_id: str) -> None:
    query = sa.select(schema.run.c.run_id).where(schema.run.c.run_id == run_id)
    if connection.execute(query).first() is None:
        raise RunNotFound(run_id)


def note_addition(connection: Connection, run_ids: Iterable[str]) -> None:
    """More of these runs is stored in this transaction: those that have ended, and are
    judged, are to be judged again."""
    table, ids = schema.run, list(run_ids)
    if not ids:
        return
    query = table.update().where(
        table.c.run_id.in_(ids),
        table.c.state.in_(FINAL_STATES),
        table.c.t0_utc.is_not(None),
    )
    connection.execute(query.values(unjudged=table.c.unjudged + 1))


def by_bytes(connection: Connection, column: sa.Column[Any]) -> sa.ColumnElement[Any]:
    """The same order in every database."""
    kind = column.type
    kind = kind.impl_instance if isinstance(kind, sa.TypeDecorator) else kind
    if connection.dialect.name == "postgresql" and isinstance(kind, sa.String):
        return column.collate("C")
    return column


def add_new(
    connection: Connection, table: sa.Table, values: Sequence[Mapping[str, object]]
) -> set[tuple[Any, ...]]:
    """Insert the rows that have a free key; return the keys of these rows."""
    if not values:
        return set()
    # not both, as an import takes its time
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert
    else:
        from sqlalchemy.dialects.sqlite import insert  # type: ignore[assignment]
    new = insert(table).on_conflict_do_nothing()
    added = new.returning(*table.primary_key.columns)
    return {tuple(key) for key in connection.execute(added, values)}


def run_row(record: RunRecord) -> dict[str, object]:
    row = _pick(record, _RUN_PLAIN)
    row["plan"] = plan_document(record.plan)
    row["manifest"] = record.manifest.document()
    return {**row, "seed": str(record.seed), "agents": list(record.agents)}


def run_record(row: Row[Any]) -> RunRecord:
    values = row._mapping
    plain = {name: values[name] for name in _RUN_PLAIN}
    plain["plan"] = plan_of(values["plan"])
    plain["manifest"] = Manifest.stored(values["manifest"])
    return RunRecord(seed=int(values["seed"]), agents=tuple(values["agents"]), **plain)


def brief_columns() -> list[sa.ColumnElement[Any]]:
    """What `brief_record` needs."""
    table = schema.run.c
    return [
        *(table[name] for name in (*_BRIEF_PLAIN, "seed", "agents")),
        table.plan["phases"].label("phases"),
        table.manifest["failure"].label("failure"),
    ]


def brief_record(row: Row[Any]) -> RunRecord:
    values = row._mapping
    return RunRecord(
        **{name: values[name] for name in _BRIEF_PLAIN},
        job_text="",
        seed=int(values["seed"]),
        agents=tuple(values["agents"]),
        plan=plan_of({"phases": values["phases"] or ()}),
        manifest=Manifest(failure=values["failure"]),
    )


def _pick(record: object, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names}
