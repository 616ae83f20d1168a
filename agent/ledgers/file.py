# SPDX-License-Identifier: Apache-2.0
"""Reads the engine's ledgers of added entries, and notes in them what was removed.

The format is that of agent/csrc/load/ledger.h. The process that wrote the file has
ended, in whatever way: a record counts when its state is there.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from types import TracebackType

from ldapslam.base.errors import StoreError

SEGMENT_BYTES = 1 << 20
MAX_DN_BYTES = 2044
_MAGIC = b"SLL1"
_HEADER_BYTES = 8
#: u8 state, three bytes of zero, u32 length of the DN, in the machine's byte order.
_RECORD = struct.Struct("=B3xI")
_ALIGNMENT = 8


class State(IntEnum):
    """Of a record; SENT and TAKEN leave open whether the entry exists."""

    SENT = 1
    ADDED = 2
    TAKEN = 3
    GONE = 4
    FAILED = 5


#: The entry may exist, or not.
IN_DOUBT = (State.SENT, State.TAKEN)
LEFT = (*IN_DOUBT, State.ADDED)


@dataclass(frozen=True, slots=True)
class LedgerRecord:
    """One DN, and where its state is in the file."""

    offset: int
    state: State
    dn: bytes


class LedgerFile:
    """A ledger on disk; a context manager."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with open(path, "r+b") as file:
            size = os.fstat(file.fileno()).st_size
            #: None: an empty file cannot be mapped, and holds nothing.
            self._map = mmap.mmap(file.fileno(), size) if size else None
        if self._map is not None and self._map[: len(_MAGIC)] != _MAGIC:
            self.close()
            raise StoreError(
                f"{str(path)!r} is no ledger of added entries",
                hint="move it away, and look for entries that a run left by hand",
            )

    def records(self) -> Iterator[LedgerRecord]:
        """All of them, in the order in which they were written."""
        if self._map is None:
            return
        for segment in range(0, len(self._map), SEGMENT_BYTES):
            end = min(segment + SEGMENT_BYTES, len(self._map))
            offset = segment or _HEADER_BYTES
            while offset + _RECORD.size <= end:
                state, length = _RECORD.unpack_from(self._map, offset)
                if state == 0:
                    break
                begin = offset + _RECORD.size
                if state not in tuple(State) or not (
                    0 < length <= MAX_DN_BYTES and begin + length <= end
                ):
                    raise StoreError(f"{str(self.path)!r} is damaged at byte {offset}")
                dn = self._map[begin : begin + length]
                yield LedgerRecord(offset, State(state), dn)
                offset = begin + length + -length % _ALIGNMENT

    def left(self) -> int:
        """How many entries may still be there."""
        return sum(record.state in LEFT for record in self.records())

    def mark_gone(self, record: LedgerRecord) -> None:
        """The entry is known not to exist any more."""
        if self._map is not None:
            self._map[record.offset] = State.GONE

    def close(self) -> None:
        if self._map is not None:
            self._map.close()

    def __enter__(self) -> LedgerFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
