# SPDX-License-Identifier: Apache-2.0
"""Some intervals column by column, so that sums and histograms are taken over all of
them at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ldapslam.base.arrays import Flags, Integers, Places
from ldapslam.base.inert import one_line
from ldapslam.proto.common_pb2 import Snapshot
from ldapslam.proto.fields import (
    HISTOGRAMS,
    OPERATION_COUNTERS,
    SET_UP_TIMES,
    STREAM_COUNTERS,
    STREAM_TIMES,
    WORKER_COUNTERS,
)
from ldapslam.results.histogram import Block, Histogram, block_at
from ldapslam.results.tables import Pieces, Tables, tables_of

#: Column -> its values, one for each row: arrays of numbers, lists of texts. In those
#: of operations, streams and workers `report` is the place of the row's report in the
#: window's reports.
Columns = Mapping[str, Any]

#: Stream, operation, and whether its requests are measured.
Key = tuple[str, str, bool]


@dataclass(frozen=True, slots=True)
class PackedHistograms:
    """Those that some rows have, not read yet."""

    #: The row of each, ascending.
    rows: Places
    #: Start in `_content`, and length, of each.
    _spans: Integers
    _content: bytes

    @classmethod
    def of(cls, pieces: Pieces, chosen: Places, rows: Places) -> PackedHistograms:
        """Those chosen of the pieces, each with its row."""
        return cls(rows, pieces.spans[chosen], pieces.content)

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
    #: (metric, outcome) -> histograms of the rows, where any row has one.
    histograms: Mapping[tuple[str, str], PackedHistograms]
    #: LDAP result code -> responses in all rows.
    result_codes: Mapping[int, int]
    #: LDAP result code -> the messages that differ, the earliest first.
    diagnostic_messages: Mapping[int, Sequence[str]]

    def count(self, counter: str) -> int:
        """The sum over the rows."""
        return sum(self.columns[counter].tolist())

    def add_times(self, times: Histogram, metric: str, outcome: str) -> None:
        """Add the durations of all rows."""
        if packed := self.histograms.get((metric, outcome)):
            times.add_block(packed.read())


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

    def by_stream(self, counter: str) -> Counter[str]:
        """Stream -> the sum over its rows."""
        sums: Counter[str] = Counter()
        values = self.streams[counter].tolist()
        for stream, value in zip(self.streams["stream"], values, strict=True):
            sums[stream] += value
        return sums

    def length_ns(self) -> int:
        """Return the length of a window's only interval: the mean of the agents that go
        on after it. Agents close their intervals apart, so the time from the first
        start to the last end would count some time twice."""
        columns = self.reports
        is_final: Flags = columns["final"]
        chosen = is_final if is_final.all() else ~is_final
        lengths: list[int] = (columns["end_ns"] - columns["start_ns"])[chosen].tolist()
        return sum(lengths) // len(lengths)


def window_of(
    indexes: tuple[int, ...],
    snapshots: Sequence[Snapshot],
    agents: Sequence[str] = (),
) -> Window:
    """Return the window of these intervals; StoreError: a snapshot is damaged. The
    snapshots are by interval; `agents` has the agent of each, where that matters."""
    tables = tables_of(snapshots)
    streams, workers = tables.streams, tables.workers
    return Window(
        indexes=indexes,
        reports=_reports(agents, snapshots),
        operations=_operations(tables),
        streams={
            "report": streams.snapshot,
            "stream": [tables.texts[place] for place in streams["stream"].tolist()],
            "server": np.array(tables.texts, object)[streams["server"]],
            **{name: streams[name] for name in (*STREAM_TIMES, *STREAM_COUNTERS)},
        },
        set_ups=_set_ups(tables.set_ups),
        workers={
            "report": workers.snapshot,
            "model": ["open" if one else "closed" for one in workers["is_open"]],
            **{name: workers[name] for name in ("worker", *WORKER_COUNTERS)},
        },
    )


def _set_ups(pieces: Pieces) -> dict[str, PackedHistograms]:
    chosen = [np.flatnonzero(pieces.kinds == kind) for kind in range(len(SET_UP_TIMES))]
    return {
        name: PackedHistograms.of(pieces, places, pieces.rows[places])
        for name, places in zip(SET_UP_TIMES, chosen, strict=True)
    }


_HOST_FIGURES = [field.name for field in Snapshot().host.DESCRIPTOR.fields]


def _reports(agents: Sequence[str], snapshots: Sequence[Snapshot]) -> Columns:
    """The snapshots' own columns; a figure that the host does not give is NaN."""
    hosts = [snapshot.host for snapshot in snapshots]
    return {
        "agent": agents,
        "phase": [one_line(snapshot.phase) for snapshot in snapshots],
        "final": np.array([snapshot.final for snapshot in snapshots], np.bool_),
        **{
            column: np.array([getattr(one, field) for one in snapshots], np.int64)
            for column, field in (
                ("interval_index", "index"),
                *((name, name) for name in ("start_ns", "end_ns", "clock_step_ns")),
            )
        },
        **{
            name: np.array(
                [
                    getattr(host, name) if host.HasField(name) else np.nan
                    for host in hosts
                ],
                np.float64,
            )
            for name in _HOST_FIGURES
        },
    }


def _operations(tables: Tables) -> dict[Key, OperationRows]:
    table, texts = tables.operations, tables.texts
    numbers = table["stream"] * len(texts) + table["operation"]
    numbers = numbers * 2 + (table["measured"] != 0)
    found, group = np.unique(numbers, return_inverse=True)
    rows_of = _split(group, found.size)
    place = np.zeros(group.size, np.intp)  # of each row in its group
    for rows in rows_of:
        place[rows] = np.arange(rows.size)
    servers = np.array(texts, object)[table["server"]]
    histograms = _histograms(tables.histograms, group, place, found.size)
    result_codes = _result_codes(tables, group, found.size)
    messages = _messages(tables, group, found.size)
    counted = table.counters(OPERATION_COUNTERS)
    operations = {}
    for of, rows in enumerate(rows_of):
        pair, is_measured = divmod(int(found[of]), 2)
        stream, operation = divmod(pair, len(texts))
        operations[texts[stream], texts[operation], bool(is_measured)] = OperationRows(
            {
                **dict(zip(OPERATION_COUNTERS, counted[:, rows], strict=True)),
                "report": table.snapshot[rows],
                "server": servers[rows].tolist(),
            },
            histograms[of],
            result_codes[of],
            messages[of],
        )
    return dict(sorted(operations.items(), key=lambda one: one[0]))


def _histograms(
    pieces: Pieces, group: Places, place: Places, groups: int
) -> list[dict[tuple[str, str], PackedHistograms]]:
    """By group; `group` and `place` are of each row of the operations."""
    rows = place[pieces.rows]
    found: list[dict[tuple[str, str], PackedHistograms]] = [{} for _ in range(groups)]
    numbers, kinds = np.unique(
        group[pieces.rows] * len(HISTOGRAMS) + pieces.kinds, return_inverse=True
    )
    for number, chosen in zip(
        numbers.tolist(), _split(kinds, numbers.size), strict=True
    ):
        of, kind = divmod(number, len(HISTOGRAMS))
        packed = PackedHistograms.of(pieces, chosen, rows[chosen])
        found[of][HISTOGRAMS[kind]] = packed
    return found


def _result_codes(tables: Tables, group: Places, groups: int) -> list[Counter[int]]:
    found: list[Counter[int]] = [Counter() for _ in range(groups)]
    for of, code, count in zip(
        group[tables.response_rows].tolist(),
        tables.responses["result_code"].tolist(),
        tables.responses["count"].tolist(),
        strict=True,
    ):
        found[of][code] += count
    return found


def _messages(tables: Tables, group: Places, groups: int) -> list[dict[int, list[str]]]:
    found: list[dict[int, list[str]]] = [{} for _ in range(groups)]
    pieces = tables.messages
    rows = (
        group[tables.response_rows[pieces.rows]].tolist(),
        tables.responses["result_code"][pieces.rows].tolist(),
        (
            pieces.content[start : start + length]
            for start, length in pieces.spans.tolist()
        ),
    )
    for of, code, text in dict.fromkeys(zip(*rows, strict=True)):
        shown = one_line(text.decode(errors="replace"))
        found[of].setdefault(code, []).append(shown)
    return found


def _split(groups: Places, count: int) -> list[Places]:
    """The places of each group, ascending."""
    order = np.argsort(groups, kind="stable")
    ends = np.cumsum(np.bincount(groups, minlength=count)).tolist()
    return [order[start:end] for start, end in pairwise([0, *ends])]
