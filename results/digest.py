# SPDX-License-Identifier: Apache-2.0
"""SHA-256 of what a store has of a run, part by part.

A *part* is a table: its rows of the run, by their keys. A row is its values, in the
order of the table's columns and without the run's id, as canonical JSON and a line
feed; bytes among them are their own SHA-256 in hexadecimal digits. The table `run` is
three parts: the job, its manifest, and the rest without verdict and digest.
docs/signature.md has it for other programs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import Connection, Table

from ldapslam.results import schema
from ldapslam.results.store import Store

_JOB = ("job_name", "job_text", "job_hash", "seed", "plan")
_MANIFEST = ("manifest",)
#: What a digest is stored with, and of.
_OWN = ("run_id", "verdict", "digest")
_ROWS = 500
#: Grows after the verdict, by notes of who was told of it: its first rows are covered.
_GROWING = schema.run_event


class Part(NamedTuple):
    rows: int
    sha256: str


def canonical(value: object) -> bytes:
    """JSON in UTF-8: keys sorted, no spaces, no escapes but those that JSON needs."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")


def sha256_of(value: object) -> str:
    return hashlib.sha256(canonical(value)).hexdigest()


def digest_of(
    document: Mapping[str, Any], signature: Mapping[str, Any] | None
) -> dict[str, Any]:
    """As a run is stored with it."""
    content = {"document": dict(document), "sha256": sha256_of(document)}
    return {**content, "signature": signature and dict(signature)}


def parts_of(
    store: Store, run_id: str, known: Mapping[str, Part] | None = None
) -> dict[str, Part]:
    """Name -> the part as it is now; `known`: as it was, of which those that grow are
    taken as far as they went."""
    with store.transaction() as connection:
        parts = _parts_of_run(connection, run_id)
        for table in schema.TABLES:
            if table is schema.run:
                continue
            most = None
            if known and table is _GROWING and table.name in known:
                most = known[table.name].rows
            parts[table.name] = _part(_rows(connection, table, run_id, most))
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


def _parts_of_run(connection: Connection, run_id: str) -> dict[str, Part]:
    table = schema.run
    row = connection.execute(sa.select(table).where(table.c.run_id == run_id)).one()
    values = row._mapping
    rest = [
        column.name
        for column in table.columns
        if column.name not in (*_OWN, *_JOB, *_MANIFEST)
    ]
    groups = {"job": _JOB, "manifest": _MANIFEST, "run": rest}
    return {
        group: _part([[values[name] for name in names]])
        for group, names in groups.items()
    }


def _rows(
    connection: Connection, table: Table, run_id: str, most: int | None
) -> Iterable[list[Any]]:
    columns = [column for column in table.columns if column.name != "run_id"]
    query = sa.select(*columns).where(table.c.run_id == run_id).limit(most)
    query = query.order_by(
        *(
            _by_bytes(connection, key)
            for key in table.primary_key
            if key.name != "run_id"
        )
    )
    found = connection.execution_options(yield_per=_ROWS).execute(query)
    return (list(row) for row in found)


def _by_bytes(connection: Connection, column: sa.Column[Any]) -> sa.ColumnElement[Any]:
    """The same order in every database."""
    if connection.dialect.name == "postgresql" and isinstance(column.type, sa.String):
        return column.collate("C")
    return column


def _part(rows: Iterable[list[Any]]) -> Part:
    content, count = hashlib.sha256(), 0
    for row in rows:
        values = [
            hashlib.sha256(one).hexdigest() if isinstance(one, bytes) else one
            for one in row
        ]
        content.update(canonical(values) + b"\n")
        count += 1
    return Part(count, content.hexdigest())
