# SPDX-License-Identifier: Apache-2.0
"""Processes of a command, found by their command lines."""

from __future__ import annotations

import contextlib

import psutil


def processes_below(pid: int, part: str) -> list[psutil.Process]:
    """Descendants of a process with this part in their command lines.

    Empty when the process is gone. One that ends meanwhile is left out.
    """
    found = []
    with contextlib.suppress(psutil.NoSuchProcess):
        for process in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):  # or a zombie
                if part in " ".join(process.cmdline()):
                    found.append(process)
    return found


def is_alive(pid: int) -> bool:
    """A zombie is not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
