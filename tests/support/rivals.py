# SPDX-License-Identifier: Apache-2.0
"""Processes that take the CPU from others, for as long as a test wants."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

import psutil

#: Ends by itself, should nobody be left to end it.
_RIVAL = "import os, signal; os.read(0, 1); signal.alarm(60)\nwhile True: pass"


class Rivals:
    """Processes that take all the CPU they get from `go` on; a context manager."""

    def __init__(self, count: int) -> None:
        self._processes = [
            subprocess.Popen([sys.executable, "-c", _RIVAL], stdin=subprocess.PIPE)
            for _ in range(count)
        ]

    def __enter__(self) -> Rivals:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def go(self) -> None:
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(b"!")
            process.stdin.flush()

    def end(self) -> None:
        while self._processes:
            process = self._processes.pop()
            process.kill()
            process.communicate()


@contextmanager
def on_cpu(cpus: set[int] | None) -> Iterator[None]:
    """What is started meanwhile by this thread stays on these CPUs."""
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, own if cpus is None else cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, own)


@contextmanager
def crowded(processes: Iterable[psutil.Process], count: int) -> Iterator[None]:
    """These processes share one CPU with so many rivals."""
    every = os.sched_getaffinity(0)
    one, crowd = {max(every)}, list(processes)
    with on_cpu(one):
        rivals = Rivals(count)
    with rivals:
        _put(crowd, one)
        rivals.go()
        try:
            yield
        finally:
            _put(crowd, every)


def _put(processes: Iterable[psutil.Process], cpus: set[int]) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            for thread in process.threads():
                os.sched_setaffinity(thread.id, cpus)
