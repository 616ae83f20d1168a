# SPDX-License-Identifier: Apache-2.0
"""A run's intervals column by column.

A report adds rows up: they come as columns, so that sums and histograms are taken over
many intervals at once. One window is in memory, whatever the run's length.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from ldapslam.base.arrays import Integers, Places
from ldapslam.base.errors import StoreError
from ldapslam.proto.fields import (
    METRICS,
    OPERATION_COUNTERS,
    OUTCOMES,
    SET_UP_TIMES,
    STREAM_COUNTERS,
    WORKER_COUNTERS,
)
from ldapslam.results import schema
from ldapslam.results.histogram import Block, block_at
from ldapslam.results.packing import inflated, unpack
from ldapslam.results.rows import by_bytes
from ldapslam.results.store import Store
from ldapslam.results.tables import Table, tables_of

#: Packed reports in a window, about: its tables stay in memory that is used again.
_WINDOW_BYTES = 2 << 20
_MOST_INTERVALS = 512
#: Reports whose size is looked at to know that of all.
_SAMPLE = 256

#: Column -> its values, one for each row: arrays of numbers, lists of texts. In those
#: of operations, streams and workers `report` is the place of the row's report in the
#: window's reports.
Columns = Mapping[str, Any]

#: Stream, operation, and whether its requests are measured ones.
Key = tuple[str, str, bool]


@dataclass(frozen=True, slots=True)
class PackedHistograms:
    """Those that some rows have, not read yet."""

    #: The row of each, ascending.
    rows: Places
    #: Where each one begins in `_content`, and its length.
    _spans: Integers
    _content: bytes

    def read(self, chosen: npt.NDArray[Any] | slice = slice(None)) -> Block:
        """Some of them, or all; StoreError when one is damaged."""
        return block_at(self._content, self._spans[chosen])

    def each(self) -> Iterator[tuple[int, bytes]]:
        """Rows, and what they have as it is packed."""
        for row, (start, length) in zip(
            self.rows.tolist(), self._spans.tolist(), strict=True
        ):
            yield row, self._content[start : start + length]


@dataclass(frozen=True, slots=True)
class OperationRows:
    """One for each report, and server where there are several."""

    columns: Columns
    #: (metric, outcome) -> histograms of the rows; without those that none has.
    histograms: Mapping[tuple[str, str], PackedHistograms]
    #: LDAP result code -> responses in all rows.
    result_codes: Mapping[int, int]
    #: LDAP result code -> the messages that differ, the earliest first.
    diagnostic_messages: Mapping[int, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Window:
    """The rows of some intervals that follow each other."""

    #: Numbers of the intervals that any agent reported, ascending.
    indexes: tuple[int, ...]
    #: By interval, then agent.
    reports: Columns
    #: In the order of the keys.
    operations: Mapping[Key, OperationRows]
    streams: Columns
    #: Name in SET_UP_TIMES -> histograms of rows of streams.
    set_ups: Mapping[str, PackedHistograms]
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
    contents = [inflated(packed) for _, packed in rows]
    content = b"".join(contents)
    tables = tables_of(content, list(map(len, contents)))
    streams, workers = tables["streams"], tables["workers"]
    return Window(
        indexes=indexes,
        reports=_reports([agent for agent, _ in rows], tables),
        operations=_operations(tables, content),
        streams={
            "report": streams.parent,
            "stream": streams.texts_of("stream"),
            **{name: streams.integers(name) for name in STREAM_COUNTERS},
            "last_done_ns": streams.optional("last_done_ns"),
        },
        set_ups={name: _set_ups(streams, name, content) for name in SET_UP_TIMES},
        workers={
            "report": workers.parent,
            "model": workers.texts_of("model"),
            **{name: workers.integers(name) for name in ("worker", *WORKER_COUNTERS)},
        },
    )


def _set_ups(streams: Table, name: str, content: bytes) -> PackedHistograms:
    spans = streams.spans(name)
    rows = np.flatnonzero(spans[:, 1])
    return PackedHistograms(rows, spans[rows], content)


def _reports(agents: Sequence[str], tables: Mapping[str, Table]) -> Columns:
    """Of the host's figures those that are absent are NaN."""
    reports, host = tables["snapshots"], tables["host"]
    columns: dict[str, Any] = {
        "agent": agents,
        "phase": reports.texts_of("phase"),
        "interval_index": reports.integers("index"),
        "final": reports.integers("final") != 0,
        **{
            name: reports.integers(name)
            for name in ("start_ns", "end_ns", "clock_step_ns")
        },
    }
    for name in ("cpu_utilisation", "steal_share"):
        columns[name] = np.full(len(agents), np.nan)
        columns[name][host.parent] = host.floats(name)
    for name in ("throttled_ns", "hiccup_max_ns", "stalled_ns"):
        columns[name] = np.full(len(agents), np.nan)
        values = np.where(host.has(name), host.integers(name), np.nan)
        columns[name][host.parent] = values
    return columns


def _operations(
    tables: Mapping[str, Table], content: bytes
) -> dict[Key, OperationRows]:
    table = tables["operations"]
    texts = table.texts
    numbers = table.integers("stream") * len(texts) + table.integers("operation")
    numbers = numbers * 2 + table.integers("measured")
    found, group = np.unique(numbers, return_inverse=True)
    rows_of = _split(group, found.size)
    place = np.zeros(group.size, np.intp)  # of each row in its group
    for rows in rows_of:
        place[rows] = np.arange(rows.size)
    columns = {name: table.integers(name) for name in OPERATION_COUNTERS}
    columns["report"] = table.parent
    servers = np.array(table.texts_of("server"), object)
    histograms = _histograms(tables["histograms"], group, place, found.size, content)
    result_codes = _result_codes(tables["result_codes"], group, found.size)
    messages = _messages(tables["diagnostic_messages"], group, found.size)
    operations = {}
    for of, rows in enumerate(rows_of):
        pair, is_measured = divmod(int(found[of]), 2)
        stream, operation = divmod(pair, len(texts))
        operations[texts[stream], texts[operation], bool(is_measured)] = OperationRows(
            {
                **{name: values[rows] for name, values in columns.items()},
                "server": servers[rows].tolist(),
            },
            histograms[of],
            result_codes[of],
            messages[of],
        )
    return dict(sorted(operations.items(), key=lambda one: one[0]))


_KINDS = [(metric, outcome) for metric in METRICS for outcome in OUTCOMES]


def _histograms(
    table: Table, group: Places, place: Places, groups: int, content: bytes
) -> list[dict[tuple[str, str], PackedHistograms]]:
    """By group; `group` and `place` are of each row of the operations."""
    metric, outcome = (table.integers(one) - 1 for one in ("metric", "outcome"))
    for numbers, names in ((metric, METRICS), (outcome, OUTCOMES)):
        if ((numbers < 0) | (numbers >= len(names))).any():
            raise StoreError("an interval's report has histograms of unknown kind")
    kind = metric * len(OUTCOMES) + outcome
    spans, rows = table.spans("packed"), place[table.parent]
    found: list[dict[tuple[str, str], PackedHistograms]] = [{} for _ in range(groups)]
    parts = _split(group[table.parent] * len(_KINDS) + kind, groups * len(_KINDS))
    for number, chosen in enumerate(parts):
        if chosen.size:
            of, name = divmod(number, len(_KINDS))
            one = PackedHistograms(rows[chosen], spans[chosen], content)
            found[of][_KINDS[name]] = one
    return found


def _result_codes(table: Table, group: Places, groups: int) -> list[Counter[int]]:
    codes, counts = table.integers("key"), table.integers("value")
    found: list[Counter[int]] = []
    for chosen in _split(group[table.parent], groups):
        of_group, amounts = codes[chosen], counts[chosen]
        sums: Counter[int] = Counter()
        # np.unique alone would load numpy.ma
        for code in sorted(set(of_group.tolist())):
            sums[code] = sum(amounts[of_group == code].tolist())
        found.append(sums)
    return found


def _messages(table: Table, group: Places, groups: int) -> list[dict[int, list[str]]]:
    found: list[dict[int, list[str]]] = [{} for _ in range(groups)]
    rows = (group[table.parent], table.integers("key"), table.integers("value"))
    for of, code, text in dict.fromkeys(
        zip(*(one.tolist() for one in rows), strict=True)
    ):
        found[of].setdefault(code, []).append(table.texts[text])
    return found


def _split(groups: Places, count: int) -> list[Places]:
    """The places of each group, ascending."""
    order = np.argsort(groups, kind="stable")
    ends = np.cumsum(np.bincount(groups, minlength=count)).tolist()
    return [order[start:end] for start, end in pairwise([0, *ends])]
