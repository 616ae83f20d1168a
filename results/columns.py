# SPDX-License-Identifier: Apache-2.0
"""A run's intervals column by column.

A report adds rows up: they come as columns, some thousand rows at a time, and no
object is made of a single row. One window is in memory, whatever the run's length.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ldapslam.results import schema
from ldapslam.results.store import Store

#: Rows of operations in a window, about: some ten MB with their histograms.
_WINDOW_ROWS = 4096
_MOST_INTERVALS = 512

_KEY = ("agent", "epoch", "sequence")

#: Column -> its values, one for each row. In those of child tables `report` is the
#: place of the row's report in the window's reports.
Columns = Mapping[str, Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Window:
    """The rows of some intervals that follow each other."""

    #: Numbers of the intervals that any agent reported, ascending.
    indexes: tuple[int, ...]
    #: By interval, then agent.
    reports: Columns
    #: (stream, operation, measured) -> rows; `result_codes` as JSON texts, histograms
    #: under their columns' names (schema.HISTOGRAM_COLUMNS), None where there is none.
    operations: Mapping[tuple[str, str, bool], Columns]
    streams: Columns
    workers: Columns


@dataclass(frozen=True, slots=True)
class Extent:
    """What there is of a run, before any of it is read."""

    #: Numbers of the intervals that any agent reported, ascending.
    indexes: tuple[int, ...]
    #: Rows of operations in one of them, on average.
    rows_per_interval: int
    #: Agent -> number of the interval that it said was its last.
    finals: Mapping[str, int]
    #: The last end of any interval, in ns since T0.
    end_ns: int

    @property
    def last(self) -> tuple[int, int]:
        """Number of the last interval, and the last end; -1 and 0 without any."""
        return (self.indexes[-1], self.end_ns) if self.indexes else (-1, 0)


def extent(store: Store, run_id: str) -> Extent:
    """How much there is to read."""
    interval, operation = schema.interval.c, schema.operation_interval.c
    indexes = sa.select(interval.interval_index).distinct()
    finals = sa.select(interval.agent, interval.interval_index)
    rows = sa.select(sa.func.count()).where(operation.run_id == run_id)
    with store.transaction() as connection:
        query = indexes.where(interval.run_id == run_id)
        numbers = tuple(
            connection.scalars(query.order_by(interval.interval_index)).all()
        )
        query = finals.where(interval.run_id == run_id, interval.final)
        last = {agent: index for agent, index in connection.execute(query)}
        count = connection.scalar(rows) or 0
        ends = sa.select(sa.func.max(interval.end_ns))
        end_ns = connection.scalar(ends.where(interval.run_id == run_id)) or 0
    return Extent(numbers, max(1, count // max(1, len(numbers))), last, end_ns)


def streams_of(store: Store, run_id: str, agent: str) -> set[str]:
    """The streams that an agent drove."""
    column = schema.stream_interval.c
    query = sa.select(column.stream).distinct()
    query = query.where(column.run_id == run_id, column.agent == agent)
    with store.transaction() as connection:
        return set(connection.scalars(query))


def windows(
    store: Store,
    run_id: str,
    indexes: Sequence[int] | None = None,
    rows_per_interval: int | None = None,
) -> Iterator[Window]:
    """These intervals, or all, in their order; see `Extent`."""
    if indexes is None or rows_per_interval is None:
        found = extent(store, run_id)
        indexes, rows_per_interval = found.indexes, found.rows_per_interval
    length = min(max(1, _WINDOW_ROWS // rows_per_interval), _MOST_INTERVALS)
    for start in range(0, len(indexes), length):
        chosen = tuple(indexes[start : start + length])
        with store.transaction() as connection:
            window = _window(connection, run_id, chosen)
        yield window


def _window(connection: Connection, run_id: str, indexes: tuple[int, ...]) -> Window:
    rows_of = partial(_rows, connection, run_id, indexes)
    names, rows = rows_of(schema.interval)
    reports = sorted(rows, key=_by_interval)
    places = {row[:3]: place for place, row in enumerate(reports)}
    codes = sa.cast(schema.operation_interval.c.result_codes, sa.Text)
    grouped: dict[tuple[Any, ...], list[tuple[Any, ...]]] = defaultdict(list)
    of_operation, rows = rows_of(schema.operation_interval, result_codes=codes)
    for row in rows:
        grouped[row[3:6]].append(row)
    return Window(
        indexes=indexes,
        reports=_columns(names, reports),
        operations={
            (stream, operation, bool(measured)): _child_columns(
                of_operation, rows, places
            )
            for (stream, operation, measured), rows in sorted(grouped.items())
        },
        streams=_child_columns(*rows_of(schema.stream_interval), places),
        workers=_child_columns(*rows_of(schema.worker_interval), places),
    )


def _rows(
    connection: Connection,
    run_id: str,
    indexes: tuple[int, ...],
    table: sa.Table,
    **instead: sa.ColumnElement[Any],
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """All columns but the run, and rows as the database's driver gives them."""
    names = [column.name for column in table.columns if column.name != "run_id"]
    query = sa.select(*(instead.get(name, table.c[name]) for name in names)).where(
        table.c.run_id == run_id,
        table.c.interval_index.between(indexes[0], indexes[-1]),
    )
    cursor = connection.execute(query).cursor
    assert cursor is not None, "a query has a cursor"
    return names, list(cursor.fetchall())


def _child_columns(
    names: Sequence[str],
    rows: Sequence[tuple[Any, ...]],
    places: Mapping[tuple[Any, ...], int],
) -> Columns:
    columns = _columns(names, rows)
    found = list(map(places.get, zip(*(columns[name] for name in _KEY), strict=True)))
    if None in found:
        # of reports that came just after the reports were read
        known = [
            row for row, place in zip(rows, found, strict=True) if place is not None
        ]
        return _child_columns(names, known, places)
    return {**columns, "report": found}


def _columns(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> Columns:
    if not rows:
        return dict.fromkeys(names, ())
    return dict(zip(names, zip(*rows, strict=True), strict=True))


def _by_interval(row: tuple[Any, ...]) -> tuple[int, str, int]:
    return row[3], row[0], row[1]
