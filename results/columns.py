# SPDX-License-Identifier: Apache-2.0
"""A run's intervals column by column.

A report adds rows up: they come as columns, so that sums and histograms are taken over
many intervals at once. One window is in memory, whatever the run's length.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import sqlalchemy as sa
from google.protobuf.message import Message

from ldapslam.proto.common_pb2 import HostInterval, Snapshot
from ldapslam.proto.fields import (
    METRICS,
    OPERATION_COUNTERS,
    OUTCOMES,
    SET_UP_TIMES,
    STREAM_COUNTERS,
    WORKER_COUNTERS,
)
from ldapslam.results import schema
from ldapslam.results.packing import unpack
from ldapslam.results.rows import by_bytes
from ldapslam.results.store import Store

#: Packed reports in a window, about: some ten MB unpacked.
_WINDOW_BYTES = 3 << 20
_MOST_INTERVALS = 512
#: Reports whose size is looked at to know that of all.
_SAMPLE = 256

#: Column -> its values, one for each row. In those of operations, streams and workers
#: `report` is the place of the row's report in the window's reports.
Columns = Mapping[str, Sequence[Any]]

#: (metric, outcome) -> column of packed histograms.
HISTOGRAM_COLUMNS = {
    (metric, outcome): f"{metric}_{outcome}"
    for metric in METRICS
    for outcome in OUTCOMES
}
#: The same, as messages have metric and outcome.
_HISTOGRAM_NAMES = {
    (metric, outcome): HISTOGRAM_COLUMNS[METRICS[metric - 1], OUTCOMES[outcome - 1]]
    for metric in range(1, len(METRICS) + 1)
    for outcome in range(1, len(OUTCOMES) + 1)
}
_HOST = tuple(field.name for field in HostInterval.DESCRIPTOR.fields)


@dataclass(frozen=True, slots=True)
class Window:
    """The rows of some intervals that follow each other."""

    #: Numbers of the intervals that any agent reported, ascending.
    indexes: tuple[int, ...]
    #: By interval, then agent.
    reports: Columns
    #: (stream, operation, measured) -> rows, one for each server where there are
    #: several; histograms packed, None where there is none.
    operations: Mapping[tuple[str, str, bool], Columns]
    #: The same -> LDAP result code -> responses in all rows.
    result_codes: Mapping[tuple[str, str, bool], Mapping[int, int]]
    streams: Columns
    workers: Columns


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
    return set() if packed is None else {one.stream for one in unpack(packed).streams}


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
    agents = [agent for agent, _ in rows]
    snapshots = [unpack(packed) for _, packed in rows]
    operations: dict[tuple[str, str, bool], _Children] = defaultdict(_Children)
    streams, workers = _Children(), _Children()
    for report, snapshot in enumerate(snapshots):
        for one in snapshot.operations:
            found = operations[one.stream, one.operation, one.measured]
            found.reports.append(report)
            found.messages.append(one)
        streams.extend(report, snapshot.streams)
        workers.extend(report, snapshot.workers)
    return Window(
        indexes=indexes,
        reports=_reports(agents, snapshots),
        operations={
            key: _of_operations(found) for key, found in sorted(operations.items())
        },
        result_codes={
            key: _added(one.result_codes for one in found.messages)
            for key, found in operations.items()
        },
        streams={
            **_columns(streams, ("stream", *STREAM_COUNTERS)),
            **_optional(streams.messages, ("last_done_ns",)),
            **{
                name: [getattr(one, name) or None for one in streams.messages]
                for name in SET_UP_TIMES
            },
        },
        workers=_columns(workers, ("worker", "model", *WORKER_COUNTERS)),
    )


class _Children:
    """Messages within reports, and the place of each one's report."""

    # no object for each pair: the garbage collector would look at all of them

    def __init__(self) -> None:
        self.reports: list[int] = []
        self.messages: list[Any] = []

    def extend(self, report: int, messages: Sequence[Message]) -> None:
        self.reports += [report] * len(messages)
        self.messages += messages


def _added(of_rows: Iterable[Mapping[int, int]]) -> Counter[int]:
    sums: Counter[int] = Counter()
    for amounts in of_rows:
        for key in amounts:
            sums[key] += amounts[key]
    return sums


def _columns(children: _Children, names: Sequence[str]) -> dict[str, Sequence[Any]]:
    # all fields of a message at once, which is quicker
    values = zip(*map(attrgetter(*names), children.messages), strict=True)
    columns: dict[str, Sequence[Any]] = dict.fromkeys(names, ())
    columns.update(zip(names, values, strict=False))
    columns["report"] = children.reports
    return columns


def _optional(messages: Sequence[Message], names: Iterable[str]) -> Columns:
    """None where a field is absent."""
    return {
        name: [getattr(one, name) if one.HasField(name) else None for one in messages]
        for name in names
    }


def _reports(agents: Sequence[str], snapshots: Sequence[Snapshot]) -> Columns:
    names = ("phase", "start_ns", "end_ns", "final", "clock_step_ns")
    return {
        "agent": agents,
        "interval_index": [one.index for one in snapshots],
        **{name: [getattr(one, name) for one in snapshots] for name in names},
        "has_host": [one.HasField("host") for one in snapshots],
        **_optional([one.host for one in snapshots], _HOST),
    }


def _of_operations(children: _Children) -> Columns:
    columns = _columns(children, ("server", *OPERATION_COUNTERS))
    none: Sequence[Any] = [None] * len(children.messages)
    packed: dict[tuple[int, int], list[bytes | None]]
    packed = defaultdict(lambda: list(none))
    values_of = attrgetter("metric", "outcome", "packed")
    for row, one in enumerate(children.messages):
        for metric, outcome, histogram in map(values_of, one.histograms):
            packed[metric, outcome][row] = histogram
    return {
        **dict.fromkeys(HISTOGRAM_COLUMNS.values(), none),
        **columns,
        **{_HISTOGRAM_NAMES[one]: column for one, column in packed.items()},
    }
