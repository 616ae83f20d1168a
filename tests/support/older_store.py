# SPDX-License-Identifier: Apache-2.0
"""Stores as older versions left them."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

from google.protobuf.message import Message

from ldapslam.proto.fields import histograms_of
from ldapslam.results.packing import unpack

#: The tables of the oldest version that is brought up to date.
_FIRST = Path(__file__).with_name("store_0004.sql")


def take_back(path: Path, revision: str) -> None:
    """Makes the store one of that version, with what it could keep."""
    newer = path.with_name(f"{path.name}.newer")
    path.rename(newer)
    connection = sqlite3.connect(path)
    connection.row_factory = sqlite3.Row
    connection.executescript(_FIRST.read_text())
    connection.execute("ATTACH ? AS newer", (str(newer),))
    for name in _tables(connection, "newer") & _tables(connection, "main"):
        common = _columns(connection, "newer", name) & _columns(
            connection, "main", name
        )
        names = ", ".join(f'"{one}"' for one in common)
        connection.execute(
            f"INSERT INTO main.{name} ({names}) SELECT {names} FROM newer.{name}"
        )
    for row in connection.execute("SELECT * FROM newer.interval_report").fetchall():
        _add_report(connection, row)
    connection.execute("UPDATE alembic_version SET version_num = ?", (revision,))
    connection.commit()
    connection.close()
    newer.unlink()


def _tables(connection: sqlite3.Connection, schema: str) -> set[str]:
    query = f"SELECT name FROM {schema}.sqlite_schema WHERE type = 'table'"
    return {name for (name,) in connection.execute(query)}


def _columns(connection: sqlite3.Connection, schema: str, table: str) -> set[str]:
    rows = connection.execute(f"PRAGMA {schema}.table_info({table})")
    return {row["name"] for row in rows}


def _add_report(connection: sqlite3.Connection, row: sqlite3.Row) -> None:
    snapshot = unpack(row["packed"])
    key = {
        "run_id": row["run_id"],
        "agent": row["agent"],
        "epoch": 1,
        "sequence": row["sequence"],
        "interval_index": snapshot.index,
    }
    has_host = snapshot.HasField("host")
    host = {"has_host": has_host, **(_values(snapshot.host) if has_host else {})}
    _insert(connection, "interval", {**_values(snapshot), **key, **host})
    for one in snapshot.operations:
        codes = {str(code): n for code, n in one.result_codes.items()}
        found = {"_".join(name): packed for name, packed in histograms_of(one).items()}
        values = {**key, **_values(one), **found, "result_codes": json.dumps(codes)}
        _insert(connection, "operation_interval", values)
    for stream in snapshot.streams:
        _insert(connection, "stream_interval", {**key, **_values(stream)})
    for worker in snapshot.workers:
        _insert(connection, "worker_interval", {**key, **_values(worker)})


def _values(message: Message) -> dict[str, Any]:
    """Its numbers, texts and bytes; without those that are absent, or empty bytes."""
    plain = [
        field
        for field in message.DESCRIPTOR.fields
        if field.message_type is None
        and (not field.has_presence or message.HasField(field.name))
    ]
    values = {field.name: getattr(message, field.name) for field in plain}
    return {name: value for name, value in values.items() if value != b""}


def _insert(connection: sqlite3.Connection, table: str, values: dict[str, Any]) -> None:
    known = _columns(connection, "main", table)
    names = [name for name in values if name in known]
    columns = ", ".join(f'"{name}"' for name in names)
    places = ", ".join("?" * len(names))
    row = [values[name] for name in names]
    connection.execute(f"INSERT INTO {table} ({columns}) VALUES ({places})", row)
