# SPDX-License-Identifier: Apache-2.0
"""Counts operations and result codes in a directory server's log.

The file is followed from its end, through rotation by renaming or truncating. A line
counts when it is complete. A log may get ten thousand lines a second on the measured
host, so one pattern counts them, in well below a microsecond a line; logs in JSON take
the replay's reader.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from ldapslam.agent.monitoring.reading import Monitor
from ldapslam.base.errors import TargetError
from ldapslam.jobs.fields.result_codes import NAMES
from ldapslam.jobs.fields.thresholds import COUNTED_KINDS
from ldapslam.jobs.replay import ds389
from ldapslam.jobs.replay.log import Clock
from ldapslam.results.records import Metric

_CHUNK_BYTES = 1 << 20
_TAIL_BYTES = 1 << 16
#: A longer object is not 389-DS's.
_LINES_OF_AN_OBJECT = 1_000
_OTHER_CODE = "another"

#: Both servers' lines. Its groups: a bind; a result, its code and entries; a
#: connection; another word. slapd's second BIND line, of who it was, has no `method`.
_LINE = re.compile(
    rb"conn=\d+ (?:op|fd)=\d+ (?:"
    rb"(BIND) [^\n]*? method="
    rb"|(?:SEARCH )?(RESULT) (?:[^\n ]* )?err=(-?\d+)(?:[^\n]*? nentries=(\d+))?"
    rb"|slot=\d+ (?:SSL )?(connection from)"
    rb"|([A-Z]+(?: [a-z]+)?)"
    rb")?[^\n]*"
)
_WORDS = {
    b"BIND": "bind",
    b"AUTOBIND dn": "bind",
    b"SRCH base": "search",
    b"CMP dn": "compare",
    b"ADD dn": "add",
    b"MOD dn": "modify",
    b"DEL dn": "delete",
    b"MODRDN dn": "modify_dn",
    b"EXT oid": "extended",
    b"ABANDON msg": "abandon",
    b"ABANDON targetop": "abandon",
    b"UNBIND": "unbind",
    b"ACCEPT from": "connects",
    b"connection from": "connects",
}


class LogMonitor(Monitor):
    """What was written since the monitor was opened."""

    def __init__(self, name: str, every_ns: int, path: Path, format_name: str) -> None:
        super().__init__(name, every_ns)
        self.metrics = (
            Metric("connects", "1", "counter"),
            *(Metric(kind, "operations", "counter") for kind in COUNTED_KINDS),
            Metric("results", "1", "counter"),
            *(Metric(_result(code), "1", "counter") for code in NAMES),
            Metric(_result(None), "1", "counter"),
            Metric("entries_sent", "1", "counter"),
            Metric("lines", "1", "counter"),
            Metric("lines_of_another_kind", "1", "counter"),
        )
        self._path = path
        self._format_name = format_name
        self._clock = Clock()
        self._counts: Counter[str] = Counter()
        self._follower = Follower(path)
        #: The beginning of a JSON object over several lines.
        self._open_object: list[str] = []

    def open(self) -> Mapping[str, Any]:
        self._follower.open_at_end()
        return {"path": str(self._path), "format": self._format_name}

    def sample(self) -> Sequence[float]:
        while text := self._follower.text():
            self._take(text)
        return [float(self._counts[metric.name]) for metric in self.metrics]

    def close(self) -> None:
        self._follower.close()

    def last_lines(self) -> tuple[int, int]:
        """For `check`: lines in the last 64 KiB, and how many of another kind.
        TargetError."""
        self._take(self._follower.last_text())
        return self._counts["lines"], self._counts["lines_of_another_kind"]

    def _take(self, text: bytes) -> None:
        self._counts["lines"] += text.count(b"\n")
        if text.startswith(b"{") or self._open_object:
            self._count_objects(text.decode("utf-8", "replace").splitlines())
        else:
            self._count(text)

    def _count(self, text: bytes) -> None:
        known = 0
        # look at equal ones once
        for found, number in Counter(_LINE.findall(text)).items():
            bind, result, code, entries, connection, word = found
            known += number
            if result:
                self._add_result(int(code), int(entries or 0), number)
            elif (what := _WORDS.get(bind or connection or word)) is not None:
                self._counts[what] += number
        self._counts["lines_of_another_kind"] += text.count(b"\n") - known

    def _count_objects(self, lines: Sequence[str]) -> None:
        unusable: Counter[str] = Counter()
        whole = self._closed([*self._open_object, *lines])
        for event in ds389.events(whole, self._clock, unusable):
            if event.what == "result":
                self._add_result(event.fields["result"], event.fields["entries"], 1)
            else:
                self._counts["connects" if event.what == "open" else event.what] += 1
        self._counts["lines_of_another_kind"] += unusable["lines of another kind"]

    def _closed(self, lines: list[str]) -> list[str]:
        """Without an incomplete object at their end."""
        self._open_object = []
        for place in range(len(lines) - 1, -1, -1):
            text = lines[place].rstrip()
            if text == "}":
                break
            if text == "{" and len(lines) - place < _LINES_OF_AN_OBJECT:
                self._open_object = lines[place:]
                return lines[:place]
        return lines

    def _add_result(self, code: int, entries: int, number: int) -> None:
        self._counts["results"] += number
        self._counts[_result(code if code in NAMES else None)] += number
        self._counts["entries_sent"] += entries * number


def _result(code: int | None) -> str:
    return f"results[{_OTHER_CODE if code is None else NAMES[code]}]"


class Follower:
    """The complete lines that a file has got since it was opened."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._rest = b""
        #: The next bytes end a line that began earlier or is too long.
        self._is_within_line = False

    def open_at_end(self) -> None:
        """TargetError when the file cannot be read."""
        self.close()
        self._file = self._opened()
        end = self._file.seek(0, os.SEEK_END)
        if end:
            self._file.seek(end - 1)
            self._is_within_line = self._file.read(1) != b"\n"

    def last_text(self) -> bytes:
        """Some lines at the end of the file, which is not followed for that."""
        with self._opened() as file:
            begin = max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES)
            file.seek(begin)
            text = file.read(_TAIL_BYTES)
        if begin:
            text = text.partition(b"\n")[2]
        return text[: text.rfind(b"\n") + 1]

    def text(self) -> bytes:
        """Further complete lines, or empty; TargetError without a file."""
        while chunk := self._chunk():
            complete, newline, self._rest = (self._rest + chunk).rpartition(b"\n")
            found = complete + newline
            if found and self._is_within_line:
                self._is_within_line = False
                found = found.partition(b"\n")[2]
            if len(self._rest) > _CHUNK_BYTES:  # no directory server's line
                self._rest, self._is_within_line = b"", True
            if found:
                return found
        return b""

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file, self._rest, self._is_within_line = None, b"", False

    def _chunk(self) -> bytes:
        if self._file is None:
            self._file = self._opened()
        chunk = self._file.read(_CHUNK_BYTES)
        if not chunk and self._is_replaced():
            # the last lines before the replacement
            chunk = self._file.read(_CHUNK_BYTES)
            if not chunk:
                self.close()
                self._file = self._opened()
                chunk = self._file.read(_CHUNK_BYTES)
        return chunk

    def _opened(self) -> BinaryIO:
        try:
            return self._path.open("rb", buffering=0)
        except OSError as error:
            raise TargetError(
                f"the log {str(self._path)!r} cannot be read: {error.strerror}",
                hint="it must be readable by the agent, on the server's host",
            ) from error

    def _is_replaced(self) -> bool:
        """Truncated, or replaced: a server may write to the old file for a while."""
        assert self._file is not None
        try:
            now = self._path.stat()
        except FileNotFoundError:
            return False
        ours = os.fstat(self._file.fileno())
        if (now.st_dev, now.st_ino) != (ours.st_dev, ours.st_ino):
            return now.st_size > 0
        return now.st_size < self._file.tell()
