# SPDX-License-Identifier: Apache-2.0
"""Reports on disk, from before they are sent until they are acknowledged.

A folder belongs to one agent process at a time (a lock). A file is one report, named by
its number and written whole: aside, synced, renamed. The next agent on the folder
delivers what a killed one left; the epoch tells these processes apart. Calls block on
the disk.

A quota bounds intervals; the few reports of progress are always written. What the disk
or the quota refuses stays in memory until it is delivered or there is room; the run
then ends.
"""

from __future__ import annotations

import fcntl
import logging
import re
import threading
from collections import OrderedDict
from pathlib import Path

from google.protobuf.message import DecodeError

from ldapslam.base.errors import ConfigError
from ldapslam.base.files import private, write_whole
from ldapslam.base.units import format_size
from ldapslam.proto.agent_pb2 import SpoolEntry

_log = logging.getLogger(__name__)
_NAME = re.compile(r"(\d{12})\.report")
_REJECTED = "rejected"
_MOST_REJECTED = 100


class Spool:
    """The reports that wait in `folder`, oldest first."""

    def __init__(self, folder: Path, quota_bytes: int | None = None) -> None:
        self.folder = folder
        self._quota_bytes = quota_bytes
        self.trouble = ""
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock_file = open(folder / "lock", "a+b", opener=private)
        except OSError as error:
            raise ConfigError(
                f"spool {str(folder)!r} cannot be used: {error.strerror}",
                hint="choose another folder with --spool",
            ) from error
        try:
            self._claim()
            #: Counts the agent processes on this folder, from 1.
            self.epoch = self._next_epoch()
            self._pending = self._left_behind()
            self._sizes = {
                number: self._path(number).stat().st_size for number in self._pending
            }
        except OSError as error:
            self._lock_file.close()
            raise ConfigError(
                f"spool {str(folder)!r} cannot be written: {error.strerror}",
                hint="make room there, or choose another folder with --spool",
            ) from error
        except BaseException:
            self._lock_file.close()
            raise
        # several threads use it
        self._guard = threading.Lock()
        self._next_number = max(self._pending, default=0) + 1

    def _claim(self) -> None:
        try:
            fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(
                f"spool {str(self.folder)!r} is in use by another agent",
                hint="give each agent its own --spool",
            ) from None

    def _next_epoch(self) -> int:
        path = self.folder / "epoch"
        try:
            epoch = int(path.read_text(encoding="ascii")) + 1
        except FileNotFoundError:
            epoch = 1
        except ValueError:
            raise ConfigError(
                f"{str(path)!r} is damaged: expected a number",
                hint="write a number above all that this agent ever used, or give a "
                "new --spool",
            ) from None
        write_whole(path, str(epoch).encode())
        return epoch

    def _left_behind(self) -> OrderedDict[int, SpoolEntry | None]:
        numbers = sorted(
            int(match[1])
            for path in self.folder.iterdir()
            if (match := _NAME.fullmatch(path.name))
        )
        # read later
        return OrderedDict.fromkeys(numbers)

    @property
    def size_bytes(self) -> int:
        with self._guard:
            return sum(self._sizes.values())

    def append(self, entry: SpoolEntry) -> bool:
        """Add a report. False: it is kept in memory only (`trouble` says why)."""
        content = entry.SerializeToString()
        with self._guard:
            number = self._next_number
            self._next_number += 1
        trouble = self._over_quota(entry, len(content))
        if not trouble:
            try:
                write_whole(self._path(number), content)
            except OSError as error:
                trouble = f"its disk took no report: {error.strerror or error}"
        with self._guard:
            if trouble:
                self._pending[number] = entry
            else:
                self._pending[number] = None
                self._sizes[number] = len(content)
        if trouble:
            self.trouble = f"the spool {str(self.folder)!r} is full: {trouble}"
            _log.error("report %d was not spooled: %s", number, self.trouble)
        return not trouble

    def _over_quota(self, entry: SpoolEntry, size_bytes: int) -> str:
        if self._quota_bytes is None or entry.WhichOneof("kind") != "interval":
            return ""
        used_bytes = self.size_bytes
        if used_bytes + size_bytes <= self._quota_bytes:
            return ""
        return (
            f"its reports take {format_size(used_bytes)} of a quota of "
            f"{format_size(self._quota_bytes)}"
        )

    def first(self) -> tuple[int, SpoolEntry] | None:
        """The oldest report and its number; one that cannot be read is set aside."""
        while True:
            with self._guard:
                if not self._pending:
                    return None
                number, entry = next(iter(self._pending.items()))
            if entry is not None:
                return number, entry
            entry = SpoolEntry()
            try:
                entry.ParseFromString(self._path(number).read_bytes())
            except (OSError, DecodeError) as error:
                _log.error("report %d cannot be read: %s", number, error)
                self.reject(number)
                continue
            return number, entry

    def remove(self, number: int) -> None:
        self._path(number).unlink(missing_ok=True)
        self._forget(number)
        self._write_kept()

    def reject(self, number: int) -> None:
        """Keep a refused report aside, for a person."""
        aside = self.folder / _REJECTED
        aside.mkdir(exist_ok=True)
        path = self._path(number)
        if path.exists():
            path.replace(aside / path.name)
        self._forget(number)
        for old in sorted(aside.iterdir())[:-_MOST_REJECTED]:
            old.unlink(missing_ok=True)

    def _write_kept(self) -> None:
        """Write what is in memory, as far as there is room now."""
        with self._guard:
            kept = [(n, entry) for n, entry in self._pending.items() if entry]
        for number, entry in kept:
            content = entry.SerializeToString()
            try:
                if self._over_quota(entry, len(content)):
                    return
                write_whole(self._path(number), content)
            except OSError:
                return
            with self._guard:
                if number in self._pending:
                    self._pending[number] = None
                    self._sizes[number] = len(content)

    def _forget(self, number: int) -> None:
        with self._guard:
            self._pending.pop(number, None)
            self._sizes.pop(number, None)

    def __len__(self) -> int:
        with self._guard:
            return len(self._pending)

    def close(self) -> None:
        self._lock_file.close()

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:012d}.report"
