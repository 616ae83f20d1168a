# SPDX-License-Identifier: Apache-2.0
"""When the kernel received what a socket has for its reader, on CLOCK_MONOTONIC.

python-ldap hands messages over without the time of their arrival. The socket is looked
at before libldap reads it: MSG_PEEK takes nothing out, and brings the kernel's stamp of
the last segment that was looked at. Stamps are of the wall clock and are moved to the
monotonic one by reading both at once; a step of the wall clock in between would show as
a time to come, and is not believed. The kernel begins to stamp a moment after the
first socket of the host asks for it: what comes before that has the time of the look.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import time

#: Linux, 64 bit: SO_TIMESTAMPNS, and the type of its control message.
_SO_TIMESTAMPNS = 35
_TIMESPEC = struct.Struct("qq")
_PEEKED_BYTES = 65_536
_NS_PER_S = 1_000_000_000


class ReceiveStamp:
    """Of a socket that somebody else reads; for one thread."""

    def __init__(self, descriptor: int) -> None:
        """The descriptor stays its owner's."""
        self._socket = socket.socket(fileno=os.dup(descriptor))
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)

    def wait(self, timeout_s: float) -> int | None:
        """Wait for something to read; when it was received, None when nothing came.

        Without a stamp it is the time of this call's end.
        """
        if not self._poll.poll(timeout_s * 1000):
            return None
        ancillary: list[tuple[int, int, bytes]] = []
        try:
            _, ancillary, _, _ = self._socket.recvmsg(
                _PEEKED_BYTES,
                socket.CMSG_SPACE(_TIMESPEC.size),
                socket.MSG_PEEK | socket.MSG_DONTWAIT,
            )
        except OSError:
            pass  # the reader will find out
        mono_ns, wall_ns = time.monotonic_ns(), time.time_ns()
        for level, kind, content in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS):
                seconds, nanoseconds = _TIMESPEC.unpack(content[: _TIMESPEC.size])
                ago_ns: int = wall_ns - (seconds * _NS_PER_S + nanoseconds)
                if ago_ns >= 0:
                    return mono_ns - ago_ns
        return mono_ns

    def close(self) -> None:
        self._socket.close()
