# SPDX-License-Identifier: Apache-2.0
"""SHA-256 of what a store has of a run, part by part.

A *part* is a table: its rows of the run, by their keys. A row is its values, in the
order of the table's columns and without the run's id, as canonical JSON and a line
feed; bytes among them are their own SHA-256 in hexadecimal digits. The table `run` is
three parts: the job, its manifest, and the rest without verdict and digest. The reports
of intervals that were collected (collected.py) are in the digest by that of their rows.
docs/reference/signature.md has it for other programs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import Connection, Table

from ldapslam.results import schema
from ldapslam.results.records import Digest, DigestDocument
from ldapslam.results.rows import by_bytes
from ldapslam.results.store import Store

_JOB = ("job_name", "job_text", "job_hash", "seed", "plan")
_MANIFEST = ("manifest",)
#: What a digest is stored with, and of.
_OWN = ("run_id", "verdict", "digest", "unjudged")
#: Columns of other tables that are left out: the key, and what each addition changes.
_NO_EVIDENCE = ("run_id", "room_bytes")
_ROWS = 500
#: Grows after the verdict, by notes of who was told of it: its first rows are covered.
_GROWING = schema.run_event


class Part(NamedTuple):
    rows: int
    sha256: str
    #: Of the values in its rows; a later version may have more.
    columns: tuple[str, ...] = ()


def canonical(value: object) -> bytes:
    """JSON in UTF-8: keys sorted, no spaces, no escapes but those that JSON needs."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")


def sha256_of(value: object) -> str:
    return hashlib.sha256(canonical(value)).hexdigest()


def stored_digest(
    document: DigestDocument, signature: Mapping[str, str] | None
) -> Digest:
    """As a run is stored with it."""
    return {
        "document": document,
        "sha256": sha256_of(document),
        "signature": signature and dict(signature),
    }


def parts_of(
    store: Store, run_id: str, known: Mapping[str, Part] | None = None
) -> dict[str, Part]:
    """Name -> the part as it is now; `known`: as it was, of which those that grow are
    taken as far as they went, and columns that were not there are left out."""
    known = known or {}
    with store.transaction() as connection:
        parts = _parts_of_run(connection, run_id, known)
        for table in schema.TABLES:
            if table is schema.run:
                continue
            then = known.get(table.name)
            names = _names(table, then.columns if then else ())
            most = then.rows if then and table is _GROWING else None
            chosen = [table.c.run_id == run_id]
            if table is schema.interval_report:
                chosen += _not_collected(connection, run_id)
            part = _part(_rows(connection, table, names, chosen, most), names)
            if then or part.rows or not known:
                parts[table.name] = part
    return parts


def altered(now: Mapping[str, Part], then: Mapping[str, Part]) -> list[str]:
    """The parts that are not as they were, each with what is known of it."""
    found = []
    for name in sorted(now.keys() | then.keys()):
        ours, theirs = now.get(name), then.get(name)
        if ours == theirs:
            continue
        if ours is None or theirs is None:
            found.append(f"{name} is {'new' if theirs is None else 'missing'}")
        elif ours.rows != theirs.rows:
            found.append(f"{name} has {ours.rows:,} rows, it had {theirs.rows:,}")
        else:
            found.append(f"{name} has other content")
    return found


def reports_part(store: Store, run_id: str, first: int, last: int) -> Part:
    """The reports of some intervals of a run, of all attempts."""
    table = schema.interval_report
    chosen = table.c.run_id == run_id, table.c.interval_index.between(first, last)
    names = _names(table, ())
    with store.transaction() as connection:
        return _part(_rows(connection, table, names, chosen, None), names)


def later_events(store: Store, run_id: str, known: Part) -> set[str]:
    """Kinds of the events after those that a digest covers."""
    table = schema.run_event
    query = sa.select(table.c.kind).where(
        table.c.run_id == run_id, table.c.number >= known.rows
    )
    with store.transaction() as connection:
        return set(connection.scalars(query))


def _parts_of_run(
    connection: Connection, run_id: str, known: Mapping[str, Part]
) -> dict[str, Part]:
    table = schema.run
    query = sa.select(*(_raw(connection, column) for column in table.columns))
    row = connection.execute(query.where(table.c.run_id == run_id)).one()
    rest = [
        column.name
        for column in table.columns
        if column.name not in (*_OWN, *_JOB, *_MANIFEST)
    ]
    parts = {}
    for group, ours in {"job": _JOB, "manifest": _MANIFEST, "run": rest}.items():
        names = known[group].columns if group in known else tuple(ours)
        values = [row._mapping.get(name) for name in names]
        parts[group] = _part([values], names)
    return parts


def _not_collected(
    connection: Connection, run_id: str
) -> Iterable[sa.ColumnElement[bool]]:
    """Leave out the reports of intervals that were collected."""
    table, index = schema.collected_part.c, schema.interval_report.c.interval_index
    query = sa.select(table.first_index, table.last_index)
    query = query.where(table.run_id == run_id).order_by(table.first_index)
    spans: list[list[int]] = []
    for first, last in connection.execute(query):
        if spans and spans[-1][1] + 1 == first:
            spans[-1][1] = last
        else:
            spans.append([first, last])
    return [~index.between(first, last) for first, last in spans]


def _names(table: Table, known: tuple[str, ...]) -> tuple[str, ...]:
    names = tuple(
        column.name for column in table.columns if column.name not in _NO_EVIDENCE
    )
    return tuple(name for name in known if name in names) or names


def _rows(
    connection: Connection,
    table: Table,
    names: tuple[str, ...],
    chosen: Iterable[sa.ColumnElement[bool]],
    most: int | None,
) -> Iterable[list[Any]]:
    columns = [_raw(connection, table.c[name]) for name in names]
    query = sa.select(*columns).where(*chosen).limit(most)
    keys = (key for key in table.primary_key if key.name != "run_id")
    query = query.order_by(*(by_bytes(connection, key) for key in keys))
    found = connection.execution_options(yield_per=_ROWS).execute(query)
    return (list(row) for row in found)


def _raw(connection: Connection, column: sa.Column[Any]) -> sa.ColumnElement[Any]:
    """The value as it is stored, but a truth value as queries see it: SQLite has other
    numbers than 0 and 1."""
    if isinstance(column.type, sa.TypeDecorator):
        return sa.type_coerce(column, column.type.impl_instance)
    if isinstance(column.type, sa.Boolean):
        return sa.case((column.is_(True), 1), (column.is_(False), 0), else_=-1)
    return column


def _part(rows: Iterable[list[Any]], names: tuple[str, ...]) -> Part:
    content, count = hashlib.sha256(), 0
    for row in rows:
        values = [
            hashlib.sha256(one).hexdigest() if isinstance(one, bytes) else one
            for one in row
        ]
        content.update(canonical(values) + b"\n")
        count += 1
    return Part(count, content.hexdigest(), names)
