# SPDX-License-Identifier: Apache-2.0
"""Agents' reports of intervals in the store: as they came, one row each.

A report is unpacked when it is read: the store checks only that it has a place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy import Connection

from ldapslam.results import rows, schema
from ldapslam.results.packing import digest_of
from ldapslam.results.parts import PartKey, parts, use_room
from ldapslam.results.records import NO_PART, IntervalRecord, Taken

_table = schema.interval_report
_Row = Mapping[str, object]


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
    values = [_row(run_id, record) for run_id, record in reports]
    pairs = list(zip(values, refusals, strict=True))
    new = rows.add_new(
        connection, _table, [row for row, refusal in pairs if not refusal]
    )
    taken = [_taken(connection, row, refusal, new) for row, refusal in pairs]
    sizes_bytes: Counter[PartKey] = Counter()
    for (run_id, record), one in zip(reports, taken, strict=True):
        if one.is_new:
            sizes_bytes[run_id, record.agent] += len(record.packed)
    use_room(connection, sizes_bytes)
    run_ids = {run_id for run_id, _ in sizes_bytes}
    rows.note_addition(connection, run_ids)
    for run_id in run_ids:
        indexes = [record.index for of_run, record in reports if of_run == run_id]
        forget_collected(connection, run_id, min(indexes), max(indexes))
    return taken


def forget_collected(
    connection: Connection, run_id: str, first: int = 0, last: int | None = None
) -> None:
    """What was collected of these intervals of a run, or of all, is no more all there
    is of them."""
    table = schema.collected_part
    query = table.delete().where(table.c.run_id == run_id, table.c.last_index >= first)
    if last is not None:
        query = query.where(table.c.first_index <= last)
    connection.execute(query)


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


def _taken(
    connection: Connection, row: _Row, refusal: str, new: set[tuple[object, ...]]
) -> Taken:
    """Tell whether a report was stored; `new`: the keys of new rows. Any other report
    is known when the store has it as it is, and refused otherwise."""
    key = {one.name: row[one.name] for one in _table.primary_key.columns}
    if not refusal and tuple(key.values()) in new:
        new.remove(tuple(key.values()))  # once
        return Taken(True)
    query = sa.select(_table.c.digest).filter_by(**key)
    if connection.scalar(query) == row["digest"]:
        return Taken(False)
    index = row["interval_index"]
    return Taken(False, refusal or f"interval {index} has another report of the agent")
