# SPDX-License-Identifier: Apache-2.0
"""What a terminal shows of a run as it goes: the last interval, and curves of the last
minute. Pure."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ldapslam.cli.console import us_text
from ldapslam.jobs.fields.result_codes import code_name
from ldapslam.jobs.plan import DRAIN
from ldapslam.proto import operator_pb2 as pb

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

_NS_PER_S = 1_000_000_000
#: What a curve shows of the past.
_PAST_S = 60.0
_BLOCKS = "▁▂▃▄▅▆▇█"
#: For a terminal whose encoding has no others.
_ASCII_BLOCKS = "_.-=+*%#"
_ASCII = str.maketrans({"µ": "u", "–": "-", "…": "~"})
_CURVE_TITLE = "last minute"
_NARROWEST_CURVE = len(_CURVE_TITLE)
_WIDEST_CURVE = 30
#: Columns that a narrow terminal has no room for, in this order: the throughput's
#: curve says more.
_LEFT_OUT_FIRST = ("max", "in flight", "entries", "p50")
_LEFT_OUT_WHEN_ZERO = frozenset({"entries", "dropped", "backlog"})

#: Stream, and operation; empty: the stream.
_Key = tuple[str, str]


class _Point(NamedTuple):
    end_s: float
    length_s: float
    throughput_per_s: float
    p99_us: float | None


class _Row(NamedTuple):
    key: _Key
    #: By the column's title.
    cells: dict[str, str]


class LastMinute:
    """Throughput and p99 of each stream and operation, over the last intervals."""

    def __init__(self) -> None:
        self._points: dict[_Key, deque[_Point]] = {}
        self._now_s = 0.0

    def add(self, figures: pb.IntervalFigures) -> None:
        if figures.phase == DRAIN:  # of any length: its rates mean nothing
            return
        self._now_s = figures.end_ns / _NS_PER_S
        length_s = (figures.end_ns - figures.start_ns) / _NS_PER_S
        for _, key, of, _ in _shown(figures):
            point = _Point(
                self._now_s, length_s, of.throughput_per_s, time_us(of, "p99")
            )
            points = self._points.setdefault(key, deque())
            points.append(point)
            while points[0].end_s <= self._now_s - _PAST_S:
                points.popleft()

    def throughput(self, key: _Key, width: int) -> list[float | None]:
        """Mean of each column, the last one up to now."""
        return [
            sum(point.throughput_per_s for point in points) / len(points)
            if points
            else None
            for points in self._columns(key, width)
        ]

    def p99(self, key: _Key, width: int) -> list[float | None]:
        """The highest of each column."""
        return [
            max((one.p99_us for one in points if one.p99_us is not None), default=None)
            for points in self._columns(key, width)
        ]

    def _columns(self, key: _Key, width: int) -> list[list[_Point]]:
        points = self._points.get(key, ())
        # no column is shorter than an interval
        column_s = max([_PAST_S / width, *(point.length_s for point in points)])
        columns: list[list[_Point]] = [[] for _ in range(width)]
        for point in points:
            ago = int((self._now_s - point.end_s) / column_s)
            if ago < width:
                columns[-1 - ago].append(point)
        return columns


def curve(values: Sequence[float | None], blocks: str = _BLOCKS) -> str:
    """A character for each value, from 0 to the highest one; a space for none."""
    highest = max((one for one in values if one and one < math.inf), default=1.0)
    top = len(blocks) - 1
    return "".join(
        " " if value is None else blocks[round(top * min(value / highest, 1))]
        for value in values
    )


def live_view(
    status: pb.RunStatus,
    figures: pb.IntervalFigures | None,
    past: LastMinute,
    console: Console,
) -> RenderableType:
    """Where the run is, and the figures of the last interval, within the width."""
    from rich.console import Group

    is_ascii = console.options.ascii_only
    if figures is None:
        return _text(f"{status.job_name} {status.run_id}: {status.state}", is_ascii)
    planned = f" of {clock(status.planned_ns)}" if status.planned_ns else ""
    title = (
        f"{status.job_name} {status.run_id}: {figures.phase}, "
        f"{clock(figures.end_ns)}{planned}, "
        f"{figures.agents_reported} of {figures.agents_planned} agents, "
        f"busiest worker {figures.busy_share:.0%}"
    )
    rows = list(_rows_of_cells(figures))
    columns = _columns_of(rows)
    for left_out in ("", *_LEFT_OUT_FIRST):
        columns = [one for one in columns if one != left_out]
        needed = _needed_width(_table(rows, columns, is_ascii), console)
        if console.width - needed > _NARROWEST_CURVE:
            break
    curves = {}
    for column, width in _curve_widths(console.width - needed).items():
        values = past.throughput if column == "throughput" else past.p99
        blocks = _ASCII_BLOCKS if is_ascii else _BLOCKS
        curves[column] = [curve(values(row.key, width), blocks) for row in rows]
    return Group(_text(title, is_ascii), _table(rows, columns, is_ascii, curves))


def _columns_of(rows: Sequence[_Row]) -> list[str]:
    columns = dict.fromkeys(column for row in rows for column in row.cells)
    return [
        column
        for column in columns
        if column not in _LEFT_OUT_WHEN_ZERO
        or any(row.cells.get(column, "") not in ("", "0") for row in rows)
    ]


def _needed_width(table: Table, console: Console) -> int:
    from rich.measure import Measurement

    unlimited = console.options.update(max_width=10_000)
    return Measurement.get(console, unlimited, table).maximum


def _curve_widths(free: int) -> dict[str, int]:
    """Behind which columns a curve has room, and how much."""
    for count in (2, 1):
        width = min(free // count - 1, _WIDEST_CURVE)
        if width >= _NARROWEST_CURVE:
            return dict.fromkeys(("throughput", "p99")[:count], width)
    return {}


def _table(
    rows: Sequence[_Row],
    columns: Sequence[str],
    is_ascii: bool,
    curves: Mapping[str, Sequence[str]] | None = None,
) -> Table:
    """`curves`: behind a column, one for each row."""
    from rich.table import Table

    curves = curves or {}
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        is_name = column == "stream"
        table.add_column(
            column,
            justify="left" if is_name else "right",
            no_wrap=True,
            overflow="crop",
        )
        if column in curves:
            table.add_column(_CURVE_TITLE, no_wrap=True, overflow="crop")
    for number, row in enumerate(rows):
        cells: list[Text | str] = []
        for column in columns:
            is_fault = column == "errors" and row.cells[column] != "0"
            style = "bold red" if is_fault else ""
            cells.append(_text(row.cells.get(column, ""), is_ascii, style))
            if column in curves:
                cells.append(curves[column][number])
        table.add_row(*cells)
    return table


def _rows_of_cells(figures: pb.IntervalFigures) -> Iterator[_Row]:
    for name, key, of, stream in _shown(figures):
        cells = {
            "stream": name,
            # a drain is of any length: its rates mean nothing
            "throughput": "–"
            if figures.phase == DRAIN
            else f"{of.throughput_per_s:,.0f}/s",
            **{
                figure: us_text(time_us(of, figure)) for figure in ("p50", "p99", "max")
            },
            "errors": errors_text(of),
            "entries": entries_per_search(of),
            "dropped": f"{of.dropped:,}",
        }
        if stream is not None:  # an operation beside others has no such figures
            cells |= {
                "in flight": f"{stream.in_flight:,}",
                "backlog": f"{stream.backlog:,}",
            }
        yield _Row(key, cells)


def _shown(
    figures: pb.IntervalFigures,
) -> Iterator[tuple[str, _Key, pb.OperationFigures, pb.StreamFigures | None]]:
    """Rows: a stream with its only operation, or above its operations."""
    for stream in figures.streams:
        name, operations = stream.stream, stream.operations
        only = operations[0].operation if len(operations) == 1 else ""
        yield f"{name} {only}".rstrip(), (name, ""), stream.total, stream
        for one in () if only else operations:
            yield f"  {one.operation}", (name, one.operation), one, None


#: Of the searches: more without entries are worth a word.
_EMPTY_SHARE = 0.5


def entries_per_search(of: pb.OperationFigures) -> str:
    """And how many searches found nothing if most did; empty without a search."""
    if not of.searches:
        return ""
    hits = f"{of.entries / of.searches:,.2f}"
    is_empty = of.empty_share > _EMPTY_SHARE
    return f"{hits} ({of.empty_share:.0%} found none)" if is_empty else hits


def errors_text(of: pb.OperationFigures) -> str:
    """Their number, and the result code of most."""
    name = f" ({code_name(of.error_code)})" if of.HasField("error_code") else ""
    return f"{of.errors:,}{name}"


def time_us(of: pb.OperationFigures, figure: str) -> float | None:
    """A response time: p50, p99 or max; None: there is none."""
    field = f"response_time_{figure}_us"
    return getattr(of, field) if of.HasField(field) else None


def clock(time_ns: int) -> str:
    minutes, seconds = divmod(time_ns // _NS_PER_S, 60)
    hours = f"{minutes // 60}:" if minutes >= 60 else ""
    return f"{hours}{minutes % 60:02}:{seconds:02}"


def _text(text: str, is_ascii: bool, style: str = "") -> Text:
    from rich.text import Text

    return Text(text.translate(_ASCII) if is_ascii else text, style)
