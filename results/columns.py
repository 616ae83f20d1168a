# SPDX-License-Identifier: Apache-2.0
"""A run's intervals column by column, for reports of long runs.

`Store.intervals` makes an object of every row, which is what a writer of rows wants. A
report adds rows up: here they come as columns, some thousand at a time, and nothing is
made of a single one. In memory is one window of intervals, whatever the run's length.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from ldapslam.proto.fields import (
    OPERATION_COUNTERS,
    SET_UP_TIMES,
    STREAM_COUNTERS,
    WORKER_COUNTERS,
)
from ldapslam.results import schema
from ldapslam.results.store import Store

#: Rows of operations in a window, about: some ten MB with their histograms.
_WINDOW_ROWS = 4096
_MOST_INTERVALS = 512

_KEY = ("agent", "epoch", "sequence")
_REPORT = (
    *_KEY,
    "interval_index",
    "phase",
    "start_ns",
    "end_ns",
    "final",
    "clock_step_ns",
    "has_host",
    "cpu_utilisation",
    "steal_share",
    "throttled_ns",
)
_STREAM = ("stream", *STREAM_COUNTERS, "last_done_ns", *SET_UP_TIMES)
_WORKER = ("worker", "model", *WORKER_COUNTERS)
_OPERATION = (
    *_KEY,
    "stream",
    "operation",
    "measured",
    *OPERATION_COUNTERS,
    "result_codes",
    *schema.HISTOGRAM_COLUMNS.values(),
)

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
    read = _Reader(connection, run_id, indexes)
    reports = sorted(read.rows(schema.interval, _REPORT), key=_by_interval)
    places = {row[:3]: place for place, row in enumerate(reports)}
    codes = sa.cast(schema.operation_interval.c.result_codes, sa.Text)
    grouped: dict[tuple[Any, ...], list[tuple[Any, ...]]] = defaultdict(list)
    for row in read.rows(schema.operation_interval, _OPERATION, result_codes=codes):
        grouped[row[3:6]].append(row)
    return Window(
        indexes=indexes,
        reports=_columns(_REPORT, reports),
        operations={
            (stream, operation, bool(measured)): _child_columns(
                _OPERATION, rows, places
            )
            for (stream, operation, measured), rows in sorted(grouped.items())
        },
        streams=_children(read, schema.stream_interval, _STREAM, places),
        workers=_children(read, schema.worker_interval, _WORKER, places),
    )


class _Reader:
    def __init__(
        self, connection: Connection, run_id: str, indexes: tuple[int, ...]
    ) -> None:
        self._connection = connection
        self._run_id = run_id
        self._first, self._last = indexes[0], indexes[-1]

    def rows(
        self, table: sa.Table, names: Sequence[str], **instead: sa.ColumnElement[Any]
    ) -> list[tuple[Any, ...]]:
        """As the database's driver gives them: nothing is made of the values."""
        chosen = [instead.get(name, table.c[name]) for name in names]
        query = sa.select(*chosen).where(
            table.c.run_id == self._run_id,
            table.c.interval_index.between(self._first, self._last),
        )
        cursor = self._connection.execute(query).cursor
        assert cursor is not None, "a query has a cursor"
        return list(cursor.fetchall())


def _children(
    read: _Reader,
    table: sa.Table,
    names: Sequence[str],
    places: Mapping[tuple[Any, ...], int],
) -> Columns:
    wanted = (*_KEY, *names)
    return _child_columns(wanted, read.rows(table, wanted), places)


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
