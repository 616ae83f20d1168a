# SPDX-License-Identifier: Apache-2.0
"""The tables of some snapshots as arrays.

A snapshot (proto/common.proto) has its rows as the engine packed them; the coordinator
checks them when they arrive (coordinator/runs/ingest.py). Here the rows of several
snapshots are one array.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from google.protobuf.message import DecodeError

from ldapslam.base.arrays import Integers, Places
from ldapslam.base.errors import StoreError
from ldapslam.base.inert import one_line
from ldapslam.proto.common_pb2 import Names, Snapshot
from ldapslam.proto.fields import HISTOGRAMS, LAYOUT, SET_UP_TIMES, TABLES

_PLACES = {
    table: {name: place for place, name in enumerate(columns)}
    for table, columns in TABLES.items()
}
#: Bytes of a row.
ROW_BYTES = {table: 8 * len(columns) for table, columns in TABLES.items()}


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of one table."""

    name: str
    #: By column.
    cells: Integers
    #: The place of each row's snapshot.
    snapshot: Places

    def __getitem__(self, column: str) -> Integers:
        values: Integers = self.cells[_PLACES[self.name][column]]
        return values

    def counters(self, columns: Sequence[str]) -> Integers:
        """Columns that follow each other."""
        first = _PLACES[self.name][columns[0]]
        values: Integers = self.cells[first : first + len(columns)]
        return values


@dataclass(frozen=True, slots=True)
class Pieces:
    """Bytes that rows have in addition to their columns: histograms, messages."""

    #: The row of each piece, ascending.
    rows: Places
    #: The place of each piece among its row's.
    kinds: Places
    #: Start in `content`, and length, of each piece; no piece is empty.
    spans: Integers
    content: bytes


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of some snapshots. `stream`, `operation` and `server` of a row are
    places in `texts`; the first text is empty."""

    texts: Sequence[str]
    operations: Table
    responses: Table
    #: The row in `operations` of each response.
    response_rows: Places
    streams: Table
    workers: Table
    #: Diagnostic messages of responses.
    messages: Pieces
    #: Of operations; kinds are places in HISTOGRAMS.
    histograms: Pieces
    #: Of streams; kinds are places in SET_UP_TIMES.
    set_ups: Pieces


def tables_of(snapshots: Sequence[Snapshot]) -> Tables:
    """Read snapshots that were checked; StoreError: one was damaged since, or is of
    another version."""
    if any(snapshot.layout != LAYOUT for snapshot in snapshots):
        raise StoreError(
            "the intervals have the columns of another version",
            hint="read them with the ldapslam that made them",
        )
    try:
        operations, responses, streams, workers = (
            _table(name, snapshots) for name in TABLES
        )
        return Tables(
            texts=_name_rows(snapshots, operations, streams),
            operations=operations,
            responses=responses,
            response_rows=_repeated(operations["responses"], responses.snapshot.size),
            streams=streams,
            workers=workers,
            messages=_pieces(responses, 1, [one.messages for one in snapshots]),
            histograms=_pieces(
                operations, len(HISTOGRAMS), [one.histograms for one in snapshots]
            ),
            set_ups=_pieces(
                streams, len(SET_UP_TIMES), [one.set_ups for one in snapshots]
            ),
        )
    except (DecodeError, IndexError, ValueError) as error:
        raise StoreError(f"an interval's report is damaged: {error}") from error


def rows_of(content: bytes, name: str) -> Integers:
    """The rows of a table, by row and column; ValueError: a part of a row is there."""
    return np.frombuffer(content, "<i8").reshape(-1, len(TABLES[name]))


def _table(name: str, snapshots: Sequence[Snapshot]) -> Table:
    parts: list[bytes] = [getattr(snapshot, name) for snapshot in snapshots]
    rows = rows_of(b"".join(parts), name)
    counts = np.array([len(part) for part in parts], np.int64) // ROW_BYTES[name]
    # a copy: names take the place of numbers
    return Table(name, np.array(rows.T, order="C"), _repeated(counts, len(rows)))


def _repeated(counts: Integers, total: int) -> Places:
    """Each place as often as its count says; ValueError: that is not the total."""
    if counts.sum() != total:
        raise ValueError("amounts of rows do not add up")
    return np.repeat(np.arange(counts.size), counts)


def _pieces(table: Table, kinds: int, contents: Sequence[bytes]) -> Pieces:
    """The last columns of a table, one for each kind, are lengths."""
    content = b"".join(contents)
    lengths = table.cells[-kinds:]
    rows, numbers = np.nonzero(lengths.T)
    chosen = lengths[numbers, rows]
    ends = np.cumsum(chosen)
    if chosen.sum() != len(content):
        raise ValueError("lengths do not add up")
    return Pieces(rows, numbers, np.stack([ends - chosen, chosen], axis=1), content)


def _name_rows(
    snapshots: Sequence[Snapshot], operations: Table, streams: Table
) -> list[str]:
    """Replace the rows' numbers of names by places in the texts that are returned."""
    texts = {"": 0}
    #: Text of each stream, and where its operations and its servers begin in `places`.
    named: list[tuple[int, int, int]] = []
    places: list[int] = []
    #: Names -> the place of their first stream; most snapshots have the same.
    firsts: dict[bytes, int] = {}
    for snapshot in snapshots:
        if snapshot.names not in firsts:
            firsts[snapshot.names] = len(named)
            for one in Names.FromString(snapshot.names).streams:
                stream, *others = (
                    texts.setdefault(text, len(texts))
                    for text in (one.stream, *one.operations, "", *one.servers)
                )
                named.append((stream, len(places), len(places) + len(one.operations)))
                places += others
    of_snapshot = np.array([firsts[one.names] for one in snapshots], np.int64)
    text_of = np.array(places, np.int64)
    of_stream = np.array(named, np.int64).reshape(-1, 3).T
    for table in (streams, operations):
        place = of_snapshot[table.snapshot] + table["stream"]
        table["stream"][:], operation, server = of_stream[:, place]
        table["server"][:] = text_of[server + table["server"]]
    operations["operation"][:] = text_of[operation + operations["operation"]]
    return [one_line(text) for text in texts]
