# SPDX-License-Identifier: Apache-2.0
"""A run as it goes: a live table on a terminal, otherwise one line per interval.

Both go to stderr. The figures are those of single intervals, merged by the coordinator;
the report computes its own from the store.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Self

from ldapslam.cli.console import is_quiet, say, us_text
from ldapslam.cli.live_view import (
    LastMinute,
    clock,
    entries_per_search,
    errors_text,
    live_view,
    time_us,
)
from ldapslam.jobs.plan import DRAIN
from ldapslam.proto import operator_pb2 as pb

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live


class Progress:
    """Shows the updates of one run; a context manager that ends the live table."""

    def __init__(
        self, console: Console | None = None, *, is_local: bool = False
    ) -> None:
        #: A failure before the load is the error of the command itself.
        self._is_local = is_local
        self._console = console or _terminal()
        self._live: Live | None = None
        self._status = pb.RunStatus()
        #: What the last event said, which the state need not say again.
        self._told = ""
        self._figures: pb.IntervalFigures | None = None
        self._past = LastMinute()

    def __enter__(self) -> Self:
        if self._console is not None and not self._console.is_dumb_terminal:
            from rich.live import Live

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
                self._past.add(update.figures)
                if self._live is None and update.figures.streams:
                    say(interval_line(update.figures))
                self._refresh()
            case "event":
                self._told = update.event.text
                is_error = self._is_local and not self._status.t0_utc
                if not (is_error and update.event.kind == "agent_failed"):
                    self._line(f"{update.event.kind}: {update.event.text}")

    def _show_status(self, status: pb.RunStatus) -> None:
        is_news = status.state != self._status.state
        self._status = status
        if is_news:
            detail = f": {status.state_detail}" if status.state_detail else ""
            if self._told.endswith(detail):
                detail = ""
            self._line(f"run {status.run_id} is {status.state}{detail}")
        self._refresh()

    def _line(self, text: str) -> None:
        if self._live is None:
            say(text)
        else:
            # Lines scroll by above the live table.
            self._live.console.out(text, highlight=False)

    def _refresh(self) -> None:
        if self._live is not None:
            console = self._live.console
            self._live.update(
                live_view(self._status, self._figures, self._past, console)
            )


def _terminal() -> Console | None:
    """The terminal of stderr, which shows a table unless `--quiet` was given."""
    if is_quiet() or not sys.stderr.isatty():
        return None
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def interval_line(figures: pb.IntervalFigures) -> str:
    """One interval in one line, for logs."""
    # a drain is of any length: its rates mean nothing
    has_rate = figures.phase != DRAIN
    streams = " | ".join(_stream_text(one, has_rate) for one in figures.streams)
    missing = figures.agents_planned - figures.agents_reported
    note = f" | {missing} of {figures.agents_planned} agents missing" if missing else ""
    return f"{clock(figures.end_ns)} {figures.phase:<9} {streams}{note}".rstrip()


def _stream_text(stream: pb.StreamFigures, has_rate: bool) -> str:
    of = stream.total
    done = f"{of.completed:,} requests"
    if has_rate:
        done = f"{of.throughput_per_s:,.0f} requests/s"
    parts = [f"{stream.stream} {done}", *_times(of)]
    if found := entries_per_search(of):
        parts.append(f"entries per search {found}")
    parts.append(f"errors {errors_text(of)}")
    if down := stream.connections_down:
        parts.append(f"{down:.2g} connections down")
    parts += [f"dropped {of.dropped}"] if of.dropped else []
    parts += [f"backlog {stream.backlog}"] if stream.backlog else []
    return " ".join(parts)


def _times(of: pb.OperationFigures) -> list[str]:
    """The median, and what most requests took at most; of too few, the maximum."""
    highest_us, p99_us = time_us(of, "max"), time_us(of, "p99")
    if highest_us is None:
        return ["no success"]
    high = f"max {us_text(highest_us)}" if p99_us is None else f"p99 {us_text(p99_us)}"
    return [f"p50 {us_text(time_us(of, 'p50'))}", high]
