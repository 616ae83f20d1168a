# SPDX-License-Identifier: Apache-2.0
"""A run's intervals column by column.

A report adds rows up: they come as columns, so that sums and histograms are taken over
many intervals at once. One window is in memory, whatever the run's length.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from ldapslam.results import schema
from ldapslam.results.packing import unpack
from ldapslam.results.rows import by_bytes
from ldapslam.results.store import Store
from ldapslam.results.tables import tables_of
from ldapslam.results.window import Window, window_of

#: Packed reports in a window, about: each costs some work for each agent.
_WINDOW_BYTES = 8 << 20
_MOST_INTERVALS = 512
#: Reports whose size is looked at to know that of all.
_SAMPLE = 256


@dataclass(frozen=True, slots=True)
class Extent:
    """What there is of a run, before any of it is read."""

    #: Numbers of the intervals that any agent reported, ascending.
    indexes: tuple[int, ...]
    #: Of the packed reports of one of them, about.
    bytes_per_interval: int
    #: Agent -> number of the interval that it said was its last.
    finals: Mapping[str, int]
    #: The last end of any interval, in ns since T0.
    end_ns: int

    @property
    def last(self) -> tuple[int, int]:
        """Number of the last interval, and the last end; -1 and 0 without any."""
        return (self.indexes[-1], self.end_ns) if self.indexes else (-1, 0)

    @property
    def size_bytes(self) -> int:
        return self.bytes_per_interval * len(self.indexes)


def extent(store: Store, run_id: str) -> Extent:
    """How much there is to read."""
    table = schema.interval_report.c
    indexes = _reports_of(run_id, table.interval_index, sa.func.count())
    indexes = indexes.group_by(table.interval_index).order_by(table.interval_index)
    finals = _reports_of(run_id, table.agent, table.interval_index).where(table.final)
    with store.transaction() as connection:
        found = connection.execute(indexes).all()
        if not found:
            return Extent((), 1, {}, 0)
        numbers = tuple(index for index, _ in found)
        last = {agent: index for agent, index in connection.execute(finals)}
        sizes = _reports_of(run_id, sa.func.length(table.packed).label("size"))
        sizes = sizes.where(table.interval_index >= numbers[len(numbers) // 2])
        sizes = sizes.order_by(table.interval_index, table.agent, table.final)
        mean = sa.select(sa.func.avg(sizes.limit(_SAMPLE).subquery().c.size))
        # a drain may end after an interval with a higher number
        ends = _reports_of(run_id, sa.func.max(table.end_ns)).where(
            table.final | (table.interval_index == numbers[-1])
        )
        size = float(connection.scalar(mean) or 0) * sum(count for _, count in found)
        end_ns = connection.scalar(ends) or 0
    return Extent(numbers, max(1, round(size / len(numbers))), last, end_ns)


def report_count(store: Store, run_id: str) -> int:
    """Reports of a run that are in no part that was collected."""
    table, part = schema.interval_report.c, schema.collected_part.c
    query = sa.select(sa.func.count()).where(table.run_id == run_id)
    collected = sa.select(sa.func.sum(part.reports)).where(part.run_id == run_id)
    with store.transaction() as connection:
        return (connection.scalar(query) or 0) - (connection.scalar(collected) or 0)


def _reports_of(run_id: str, *columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """The reports of the attempts that the agents' parts are of."""
    report, part = schema.interval_report, schema.run_agent
    is_of_part = sa.and_(
        part.c.run_id == report.c.run_id,
        part.c.agent == report.c.agent,
        part.c.attempt == report.c.attempt,
    )
    query = sa.select(*columns).select_from(report.join(part, is_of_part))
    return query.where(report.c.run_id == run_id)


def streams_of(store: Store, run_id: str, agent: str) -> set[str]:
    """The streams that an agent drove: the engine tells all of them each time."""
    table = schema.interval_report.c
    query = _reports_of(run_id, table.packed).where(table.agent == agent)
    with store.transaction() as connection:
        packed = connection.scalar(query.order_by(table.sequence).limit(1))
    if packed is None:
        return set()
    tables = tables_of([unpack(packed)])
    return {tables.texts[place] for place in tables.streams["stream"].tolist()}


def windows(
    store: Store,
    run_id: str,
    indexes: Sequence[int] | None = None,
    bytes_per_interval: int | None = None,
) -> Iterator[Window]:
    """These intervals, or all, in their order; see `Extent`."""
    if indexes is None or bytes_per_interval is None:
        found = extent(store, run_id)
        indexes, bytes_per_interval = found.indexes, found.bytes_per_interval
    length = min(max(1, _WINDOW_BYTES // bytes_per_interval), _MOST_INTERVALS)
    for start in range(0, len(indexes), length):
        yield _window(store, run_id, tuple(indexes[start : start + length]))


def _window(store: Store, run_id: str, indexes: tuple[int, ...]) -> Window:
    table = schema.interval_report.c
    query = _reports_of(run_id, table.agent, table.packed)
    query = query.where(table.interval_index.between(indexes[0], indexes[-1]))
    with store.transaction() as connection:
        agent = by_bytes(connection, table.agent)
        query = query.order_by(table.interval_index, agent, table.final)
        rows = connection.execute(query).all()
    agents, reports = zip(*rows, strict=True) if rows else ((), ())
    return window_of(indexes, [unpack(packed) for packed in reports], agents)
