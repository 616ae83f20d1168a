# SPDX-License-Identifier: Apache-2.0
"""A run as it goes: a live table on a terminal, otherwise one line per interval.

Both go to stderr. The figures are those of single intervals, merged by the coordinator;
the report computes its own from the store.
"""

from __future__ import annotations

from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ldapslam.base.inert import inert
from ldapslam.cli.console import say, us_text
from ldapslam.proto import operator_pb2 as pb

_NS_PER_S = 1_000_000_000


class Progress:
    """Shows the updates of one run; a context manager that ends the live table."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._live: Live | None = None
        self._status = pb.RunStatus()
        self._figures: pb.IntervalFigures | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live = Live(
                console=self._console, refresh_per_second=4, transient=True
            )
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, update: pb.RunUpdate) -> None:
        """Show one update of WatchRun."""
        match update.WhichOneof("kind"):
            case "status":
                self._show_status(update.status)
            case "figures":
                self._figures = update.figures
                if self._live is None and update.figures.streams:
                    say(interval_line(update.figures))
                self._refresh()
            case "event":
                self._line(f"{update.event.kind}: {update.event.text}")

    def _show_status(self, status: pb.RunStatus) -> None:
        is_news = status.state != self._status.state
        self._status = status
        if is_news:
            detail = f": {status.state_detail}" if status.state_detail else ""
            self._line(f"run {status.run_id} is {status.state}{detail}")
        self._refresh()

    def _line(self, text: str) -> None:
        # Lines scroll by above the live table.
        self._console.print(Text(inert(text)), soft_wrap=True)

    def _refresh(self) -> None:
        if self._live is not None:
            self._live.update(live_view(self._status, self._figures))


def interval_line(figures: pb.IntervalFigures) -> str:
    """One interval in one line, for logs."""
    streams = " | ".join(_stream_text(stream) for stream in figures.streams)
    missing = figures.agents_planned - figures.agents_reported
    note = f" | {missing} of {figures.agents_planned} agents missing" if missing else ""
    return f"{_clock(figures.end_ns)} {figures.phase:<9} {streams}{note}".rstrip()


def _stream_text(stream: pb.StreamFigures) -> str:
    parts = [
        f"{stream.stream} {stream.throughput_per_s:,.0f}/s",
        *_times(stream),
        *([f"entries per search {_hits(stream)}"] if stream.searches else []),
        f"errors {stream.errors}",
    ]
    if down := stream.connections_down:
        parts.append(f"{down:.2g} connections down")
    parts += [f"dropped {stream.dropped}"] if stream.dropped else []
    parts += [f"backlog {stream.backlog}"] if stream.backlog else []
    return " ".join(parts)


#: Of the searches: more without entries are worth a word.
_EMPTY_SHARE = 0.5


def _hits(stream: pb.StreamFigures) -> str:
    """Entries per search, and how many searches found nothing if most did."""
    if not stream.searches:
        return "–"
    hits = f"{stream.entries / stream.searches:,.2f}"
    share = stream.empty / stream.searches
    return f"{hits} ({share:.0%} found none)" if share > _EMPTY_SHARE else hits


def _times(stream: pb.StreamFigures) -> list[str]:
    """The median, and what most requests took at most; of too few, the maximum."""
    highest_us, p99_us = _us(stream, "max"), _us(stream, "p99")
    if highest_us is None:
        return ["no success"]
    high = f"max {us_text(highest_us)}" if p99_us is None else f"p99 {us_text(p99_us)}"
    return [f"p50 {us_text(_us(stream, 'p50'))}", high]


def live_view(
    status: pb.RunStatus, figures: pb.IntervalFigures | None
) -> RenderableType:
    """What a terminal shows: where the run is, and the last interval's figures."""
    if figures is None:
        return Text(inert(f"{status.job_name} {status.run_id}: {status.state}"))
    planned = f" of {_clock(status.planned_ns)}" if status.planned_ns else ""
    title = (
        f"{status.job_name} {status.run_id}: {figures.phase}, "
        f"{_clock(figures.end_ns)}{planned}, "
        f"{figures.agents_reported} of {figures.agents_planned} agents, "
        f"busiest worker {figures.busy_share:.0%}"
    )
    table = Table(box=None, pad_edge=False)
    for stream in figures.streams:
        columns = {
            "stream": stream.stream,
            "throughput": f"{stream.throughput_per_s:,.0f}/s",
            **{name: us_text(_us(stream, name)) for name in ("p50", "p99", "max")},
            "entries per search": _hits(stream),
            "errors": f"{stream.errors:,}",
            "dropped": f"{stream.dropped:,}",
            "in flight": f"{stream.in_flight:,}",
            "backlog": f"{stream.backlog:,}",
        }
        for name in columns if not table.columns else ():
            table.add_column(name, justify="left" if name == "stream" else "right")
        table.add_row(*columns.values())
    return Group(Text(inert(title)), table)


def _us(stream: pb.StreamFigures, figure: str) -> float | None:
    """A response time: p50, p99 or max; None: there is none."""
    field = f"response_time_{figure}_us"
    return getattr(stream, field) if stream.HasField(field) else None


def _clock(time_ns: int) -> str:
    minutes, seconds = divmod(time_ns // _NS_PER_S, 60)
    hours = f"{minutes // 60}:" if minutes >= 60 else ""
    return f"{hours}{minutes % 60:02}:{seconds:02}"
