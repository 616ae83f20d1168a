# SPDX-License-Identifier: Apache-2.0
"""How long a load may go on: a word of memory that an agent shares with its processes.

The agent writes it; the engine and the Python clients read it before they send. So it
needs no message, and a process that stood still knows at once that its time is over.
"""

from __future__ import annotations

import mmap
import os
import time
from pathlib import Path

_BYTES = 8
_FOR_EVER_NS = (1 << 64) - 1


class Lease:
    """The word, in a file that all map. It begins as over."""

    def __init__(self, folder: Path) -> None:
        """Make or open the lease of a run in its folder; OSError."""
        self.folder = folder
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(folder / "lease", flags, 0o600)
        try:
            # written, as a store to a hole of a full disk would end the process
            if os.fstat(descriptor).st_size < _BYTES:
                os.pwrite(descriptor, bytes(_BYTES), 0)
            #: What the engine reads.
            self.memory = mmap.mmap(descriptor, _BYTES)
        finally:
            os.close(descriptor)
        self._until_ns = memoryview(self.memory).cast("Q")

    def extend(self, until_mono_ns: int) -> None:
        """The load may go on until then, or until as much time has passed while the
        host was suspended: CLOCK_MONOTONIC stands still then, the word is of
        CLOCK_BOOTTIME."""
        asleep_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()
        # of a peer: any number
        self._until_ns[0] = min(max(0, until_mono_ns + asleep_ns), _FOR_EVER_NS)

    @property
    def is_over(self) -> bool:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) >= self._until_ns[0]
