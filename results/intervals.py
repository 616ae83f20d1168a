# SPDX-License-Identifier: Apache-2.0
"""Agents' reports of intervals in the store: as they came, one row each.

A report is unpacked when it is read: the store checks only that it has a place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache

import sqlalchemy as sa
from sqlalchemy import Connection, Insert

from ldapslam.results import rows, schema
from ldapslam.results.packing import digest_of
from ldapslam.results.parts import PartKey, parts, use_room
from ldapslam.results.records import NO_PART, IntervalRecord, Taken

_table = schema.interval_report
_Row = Mapping[str, object]
_NEW = Taken(True)
_KNOWN = Taken(False)


def add_intervals(
    connection: Connection, reports: Sequence[tuple[str, IntervalRecord]]
) -> list[Taken]:
    """Inserts reports of runs, each if it belongs to the attempt that the agent's part
    is of, and comes before its end. RunNotFound: nothing is inserted."""
    known = parts(connection, [(run_id, record.agent) for run_id, record in reports])
    refusals = [
        known.get((run_id, record.agent), NO_PART).refusal(
            record.attempt, len(record.packed)
        )
        for run_id, record in reports
    ]
    stored = iter(
        _add_all(
            connection,
            [
                _row(run_id, record)
                for (run_id, record), refusal in zip(reports, refusals, strict=True)
                if not refusal
            ],
        )
    )
    taken = [
        _repeated(connection, _row(run_id, record), refusal)
        if refusal
        else next(stored)
        for (run_id, record), refusal in zip(reports, refusals, strict=True)
    ]
    sizes_bytes: Counter[PartKey] = Counter()
    for (run_id, record), one in zip(reports, taken, strict=True):
        if one.is_new:
            sizes_bytes[run_id, record.agent] += len(record.packed)
    use_room(connection, sizes_bytes)
    rows.note_addition(connection, {run_id for run_id, _ in sizes_bytes})
    return taken


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
    index = row["interval_index"]
    refusal = f"interval {index} has another report of the agent"
    return _repeated(connection, row, refusal)


def _repeated(connection: Connection, row: _Row, refusal: str) -> Taken:
    """Known when the row is stored as it is; else refused."""
    key = {one.name: row[one.name] for one in _table.primary_key.columns}
    query = sa.select(_table.c.digest).filter_by(**key)
    is_known = connection.scalar(query) == row["digest"]
    return _KNOWN if is_known else Taken(False, refusal)


@cache
def _insert_new(dialect: str) -> Insert:
    """Inserts a row of the table; none where its key or its place is taken."""
    # else PostgreSQL counts no inserted rows
    options = {"preserve_rowcount": True} if dialect == "postgresql" else {}
    return rows.insert_new(dialect, _table).execution_options(**options)
