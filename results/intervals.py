# SPDX-License-Identifier: Apache-2.0
"""Agents' reports of intervals in the store: as they came, one row each.

A report is unpacked when it is read: the store checks only that it has a place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Insert

from ldapslam.results import rows, schema
from ldapslam.results.packing import digest_of
from ldapslam.results.records import IntervalRecord, Taken

_table = schema.interval_report
_Row = Mapping[str, Any]
_NEW = Taken(True)
_KNOWN = Taken(False)


def add_intervals(
    connection: Connection, reports: Sequence[tuple[str, IntervalRecord]]
) -> list[Taken]:
    """Inserts reports of runs, each if it belongs to the attempt that the agent's part
    is of, and comes before its end. RunNotFound: nothing is inserted."""
    known = _parts(connection, reports)
    refusals = [
        _refusal(record, known[run_id].get(record.agent)) for run_id, record in reports
    ]
    fitting = [
        _row(run_id, record)
        for (run_id, record), refusal in zip(reports, refusals, strict=True)
        if not refusal
    ]
    taken = _add_all(connection, fitting)
    new = {row["run_id"] for row, one in zip(fitting, taken, strict=True) if one.is_new}
    if new:
        rows.note_addition(connection, new)
    became = iter(taken)
    return [Taken(False, one) if one else next(became) for one in refusals]


#: An agent's attempt, and the number of its intervals when its part has ended.
_Part = tuple[int, int | None]


def _parts(
    connection: Connection, reports: Iterable[tuple[str, IntervalRecord]]
) -> dict[str, dict[str, _Part]]:
    """Run -> agent -> its part."""
    agents: dict[str, set[str]] = defaultdict(set)
    for run_id, record in reports:
        agents[run_id].add(record.agent)
    part = schema.run_agent.c
    found: dict[str, dict[str, _Part]] = {}
    for run_id, names in agents.items():
        query = sa.select(part.agent, part.attempt, part.interval_count)
        query = query.where(part.run_id == run_id, part.agent.in_(names))
        parts = connection.execute(query)
        found[run_id] = {agent: (attempt, count) for agent, attempt, count in parts}
        if not found[run_id]:
            rows.require_run(connection, run_id)
    return found


def _refusal(record: IntervalRecord, part: _Part | None) -> str:
    if part is None or part[0] != record.attempt:
        return "it is of another attempt of the run"
    if part[1] is not None and record.sequence >= part[1]:
        return f"the agent's part has ended after {part[1]} intervals"
    return ""


def _row(run_id: str, record: IntervalRecord) -> _Row:
    return {
        "run_id": run_id,
        "agent": record.agent,
        "attempt": record.attempt,
        "sequence": record.sequence,
        "interval_index": record.index,
        "final": record.final,
        "end_ns": record.end_ns,
        "digest": digest_of(record.packed),
        "packed": record.packed,
    }


def _add_all(connection: Connection, values: Sequence[_Row]) -> list[Taken]:
    if not values:
        return []
    insert = _insert_new(connection.dialect.name)
    # a repeated report is rare, and then it matters which one it is
    with connection.begin_nested() as point:
        if connection.execute(insert, values).rowcount == len(values):
            return [_NEW] * len(values)
        point.rollback()
    return [_add(connection, row) for row in values]


def _add(connection: Connection, row: _Row) -> Taken:
    insert = _insert_new(connection.dialect.name)
    if connection.execute(insert, row).rowcount == 1:
        return _NEW
    key = {one.name: row[one.name] for one in _table.primary_key.columns}
    query = sa.select(_table.c.digest).filter_by(**key)
    if connection.scalar(query) == row["digest"]:
        return _KNOWN
    index = row["interval_index"]
    return Taken(False, f"interval {index} has another report of the agent")


@cache
def _insert_new(dialect: str) -> Insert:
    """Inserts a row of the table; none where its key or its place is taken."""
    # not both, as an import takes its time
    if dialect == "postgresql":
        from sqlalchemy.dialects import postgresql

        insert = postgresql.insert(_table).on_conflict_do_nothing()
        # else it counts no inserted rows
        return insert.execution_options(preserve_rowcount=True)
    from sqlalchemy.dialects import sqlite

    return sqlite.insert(_table).on_conflict_do_nothing()
