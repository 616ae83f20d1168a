# SPDX-License-Identifier: Apache-2.0
"""Counts of what a directory writes to its log: operations and result codes.

The file is followed from its end, through rotation by renaming or truncating. What a
server keeps in a buffer (389-DS does: nsslapd-accesslog-logbuffering) is counted when
it is written. A line counts when it is complete.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

from ldapslam.agent.monitors.base import Metric
from ldapslam.jobs.errors import TargetError
from ldapslam.jobs.replay import ds389, openldap
from ldapslam.jobs.replay.log import REQUESTS
from ldapslam.jobs.result_codes import NAMES

_FORMATS: Mapping[str, ModuleType] = {"openldap": openldap, "389ds": ds389}
_CHUNK_BYTES = 1 << 20
#: More are none of 389-DS's.
_LINES_OF_AN_OBJECT = 1_000
_OTHER_CODE = "another"


class LogMonitor:
    """What was written since the monitor was opened."""

    def __init__(self, name: str, every_ns: int, path: Path, format_name: str) -> None:
        self.name = name
        self.every_ns = every_ns
        self.metrics = (
            Metric("connects", "1", "counter"),
            *(Metric(kind, "operations", "counter") for kind in REQUESTS),
            Metric("results", "1", "counter"),
            *(Metric(_result(code), "1", "counter") for code in NAMES),
            Metric(_result(None), "1", "counter"),
            Metric("entries_sent", "1", "counter"),
            Metric("lines", "1", "counter"),
            Metric("lines_of_another_kind", "1", "counter"),
        )
        self._path = path
        self._format = _FORMATS[format_name]
        self._format_name = format_name
        self._clock = self._format.Clock()
        self._counts: Counter[str] = Counter()
        self._follower = Follower(path)

    def open(self) -> Mapping[str, Any]:
        self._follower.open_at_end()
        return {"path": str(self._path), "format": self._format_name}

    def sample(self) -> Sequence[float]:
        while lines := self._follower.lines():
            self._count(lines)
        return [float(self._counts[metric.name]) for metric in self.metrics]

    def close(self) -> None:
        self._follower.close()

    def _count(self, lines: Sequence[str]) -> None:
        unusable: Counter[str] = Counter()
        for event in self._format.events(lines, self._clock, unusable):
            if event.what == "result":
                self._counts["results"] += 1
                code = event.fields["result"]
                self._counts[_result(code if code in NAMES else None)] += 1
                self._counts["entries_sent"] += event.fields["entries"]
            elif event.what == "open":
                self._counts["connects"] += 1
            else:
                self._counts[event.what] += 1
        self._counts["lines"] += len(lines)
        self._counts["lines_of_another_kind"] += unusable["lines of another kind"]


def _result(code: int | None) -> str:
    """Name of the metric of a result code; None: any that has no name."""
    return f"results[{_OTHER_CODE if code is None else NAMES[code]}]"


class Follower:
    """The complete lines that a file has got since it was opened."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._rest = b""

    def open_at_end(self) -> None:
        """TargetError when the file cannot be read."""
        self.close()
        self._file = self._opened()
        end = self._file.seek(0, os.SEEK_END)
        if end:
            self._file.seek(end - 1)
            # within a line: what is left of it is none
            self._rest = b"" if self._file.read(1) == b"\n" else b"\0"

    def lines(self) -> list[str]:
        """Some more, none when there are none now; TargetError without a file."""
        if self._file is None:
            self._file = self._opened()
        text = self._file.read(_CHUNK_BYTES)
        if not text and self._is_replaced():
            # what was written to it before another took its place
            text = self._file.read(_CHUNK_BYTES)
            if not text:
                self.close()
                self._file = self._opened()
                text = self._file.read(_CHUNK_BYTES)
        complete, newline, rest = (self._rest + text).rpartition(b"\n")
        # longer ones are not a directory server's
        self._rest = rest if len(rest) < _CHUNK_BYTES else b"\0"
        if not newline:
            return []
        found = complete.decode("utf-8", "replace").split("\n")
        if found[0].startswith("\0"):
            del found[0]
        return self._without_open_object(found)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file, self._rest = None, b""

    def _opened(self) -> BinaryIO:
        try:
            return self._path.open("rb", buffering=0)
        except OSError as error:
            raise TargetError(
                f"the log {str(self._path)!r} cannot be read: {error.strerror}",
                hint="it must be readable by the agent, on the server's host",
            ) from error

    def _is_replaced(self) -> bool:
        """Truncated, or renamed and another one begun: a server may go on with the old
        one for a while."""
        assert self._file is not None
        try:
            now = self._path.stat()
        except FileNotFoundError:
            return False
        ours = os.fstat(self._file.fileno())
        if (now.st_dev, now.st_ino) != (ours.st_dev, ours.st_ino):
            return now.st_size > 0
        return now.st_size < self._file.tell()

    def _without_open_object(self, lines: list[str]) -> list[str]:
        """JSON may go over several lines: one that has no end yet has to wait."""
        for place in range(len(lines) - 1, -1, -1):
            text = lines[place].rstrip()
            if text == "}":
                break
            if text == "{" and len(lines) - place < _LINES_OF_AN_OBJECT:
                held = "\n".join([*lines[place:], ""]).encode()
                self._rest = held + self._rest
                return lines[:place]
        return lines
