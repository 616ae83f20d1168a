# SPDX-License-Identifier: Apache-2.0
"""Reports on disk, from before they are sent until they are acknowledged.

A folder belongs to one agent process at a time (a lock). A file is one report, named by
its number and written whole: aside, synced, renamed. The next agent on the folder
delivers what a killed one left; the epoch tells these processes apart. Calls block on
the disk.

A quota bounds intervals; the few reports of progress are always written. What the disk
or the quota refuses stays in memory until it is delivered or there is room; the run
then ends.

A report is for the store of its run. While the agent serves another store, it waits.
What a coordinator refuses is kept aside, and counts for the quota until a person has
removed it.
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
from ldapslam.transport.messages import MOST_REPORTS

_log = logging.getLogger(__name__)
_NAME = re.compile(r"(\d{12})\.report")
_REJECTED = "rejected"
#: Intervals of one message, unless the first is larger.
_MOST_TOGETHER_BYTES = 1 << 18


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
            rejected = list((folder / _REJECTED).glob("*.report"))
            self._aside_bytes = sum(path.stat().st_size for path in rejected)
        except OSError as error:
            self._lock_file.close()
            raise ConfigError(
                f"spool {str(folder)!r} cannot be written: {error.strerror}",
                hint="make room there, or choose another folder with --spool",
            ) from error
        except BaseException:
            self._lock_file.close()
            raise
        #: Identity of the store that is served; empty before the first.
        self._store_id = ""
        #: Of other stores, or refused and not to be moved: not for this one.
        self._passed_over: set[int] = set()
        # several threads use it
        self._guard = threading.Lock()
        # above those set aside too, which must not be overwritten
        used = [*self._pending, *(int(path.stem) for path in rejected)]
        self._next_number = max(used, default=0) + 1

    def _claim(self) -> None:
        try:
            fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(
                f"spool {str(self.folder)!r} is in use by another agent",
                hint="give each agent on this host its own --name, or its own --spool",
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
            return sum(self._sizes.values()) + self._aside_bytes

    @property
    def has_more(self) -> bool:
        """Whether there are reports for the store that is served."""
        with self._guard:
            return len(self._pending) > len(self._passed_over)

    def serve(self, store_id: str) -> None:
        """From now on reports go to this store; those of other ones wait."""
        with self._guard:
            if store_id != self._store_id:
                self._store_id = store_id
                self._passed_over.clear()

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

    def waiting(self) -> list[tuple[int, SpoolEntry]]:
        """What is delivered next, with the numbers: the oldest report (`first`), and
        after an interval the intervals that follow it, as far as they fit a message."""
        found: list[tuple[int, SpoolEntry]] = []
        size_bytes = after = 0
        while len(found) < MOST_REPORTS and (one := self.first(after)) is not None:
            after, entry = one
            size_bytes += len(entry.interval.packed)
            is_alone = not entry.HasField("interval")
            if found and (is_alone or size_bytes > _MOST_TOGETHER_BYTES):
                break
            found.append(one)
            if is_alone:
                break
        return found

    def first(self, after: int = 0) -> tuple[int, SpoolEntry] | None:
        """The oldest report for the store that is served, and its number; of those
        after number `after`. OSError: it cannot be read now. One that is none is set
        aside."""
        while (found := self._next(after)) is not None:
            number, entry = found
            if entry is None:
                entry = SpoolEntry()
                try:
                    entry.ParseFromString(self._path(number).read_bytes())
                except FileNotFoundError:
                    _log.error("report %d was removed from the spool", number)
                    self._forget(number)
                    continue
                except DecodeError as error:
                    _log.error("report %d is damaged: %s", number, error)
                    self.reject(number)
                    continue
                if entry.WhichOneof("kind") is None:
                    _log.error("report %d is empty", number)
                    self.reject(number)
                    continue
            if entry.store_id in ("", self._store_id):
                return number, entry
            with self._guard:
                if not self._passed_over:
                    _log.warning("the spool has reports of another store: they wait")
                self._passed_over.add(number)
        return None

    def _next(self, after: int) -> tuple[int, SpoolEntry | None] | None:
        with self._guard:
            for number, entry in self._pending.items():
                if number > after and number not in self._passed_over:
                    return number, entry
        return None

    def remove(self, number: int) -> None:
        """It is acknowledged."""
        try:
            self._path(number).unlink(missing_ok=True)
        except OSError as error:
            # the next agent sends it again, which changes nothing
            _log.error("report %d cannot be removed: %s", number, error)
        self._forget(number)
        self._write_kept()

    def reject(self, number: int) -> None:
        """Keep a refused report aside, for a person."""
        aside, path = self.folder / _REJECTED, self._path(number)
        try:
            aside.mkdir(exist_ok=True)
            with self._guard:
                entry = self._pending.get(number)
            if entry is not None:  # in memory only
                write_whole(path, entry.SerializeToString())
            size_bytes = path.stat().st_size
            path.replace(aside / path.name)
        except FileNotFoundError:
            self._forget(number)
        except OSError as error:
            _log.error("report %d cannot be set aside: %s", number, error)
            with self._guard:
                self._passed_over.add(number)
        else:
            self._forget(number)
            with self._guard:
                self._aside_bytes += size_bytes

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
            self._passed_over.discard(number)

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
