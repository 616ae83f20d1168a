# SPDX-License-Identifier: Apache-2.0
"""Long work on entries as it goes: a bar on a terminal, otherwise a line now and then.

Both go to stderr.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from ldapslam.cli.console import say

_LINE_S = 5.0


@contextmanager
def told_if_interrupted(what: str) -> Iterator[None]:
    """Print `what` when Ctrl-C interrupts the block."""
    try:
        yield
    except KeyboardInterrupt:
        say(what)
        raise


class EntryProgress:
    """Shows how far some work is; a context manager that ends the bar."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._bar: Progress | None = None
        self._said_s = time.monotonic()

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TaskProgressColumn(),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                console=self._console,
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task("", total=None)
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, text: str, share: float | None = None) -> None:
        """What is being done, and which part of it is done, where that is known."""
        if self._bar is not None:
            self._bar.update(
                self._task,
                description=text,
                total=None if share is None else 1.0,
                completed=share or 0.0,
            )
            return
        now_s = time.monotonic()
        if now_s - self._said_s >= _LINE_S:
            self._said_s = now_s
            say(text if share is None else f"{text} ({share:.0%})")
