# SPDX-License-Identifier: Apache-2.0
"""A directory that notes every request when it arrives: the books' other side.

    python counting_ldap.py ADDRESS LOG

ADDRESS is HOST:PORT (0 is any port) or the path of a Unix socket. Every bind and search
succeeds at once. Each search is one record of the log, written before it is answered,
so that a server which is killed has counted all that it answered. It ends with its
standard input.

A load search has the filter (uid=RUN.NUMBER): RUN is a number that tells the searches
of one run from all others, NUMBER is sequential over the run's connections, so that it
tells the agent: connection c of agent c mod A sends the numbers equal to c mod C.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from support.fake_ldap import (
    SEARCH_REQUEST,
    UNBIND_REQUEST,
    Request,
    entry,
    parse_request,
    result,
)

#: Control searches (of the preflight) have run and number -1.
ARRIVAL = np.dtype([("at_mono_ns", "<i8"), ("run", "<i8"), ("number", "<i8")])

Arrivals = npt.NDArray[np.void]

_LOAD = re.compile(rb"(\d+)\.(\d+)$")


class _Connection(asyncio.Protocol):
    def __init__(self, log: int) -> None:
        self._log = log
        self._pending = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        now_ns = time.monotonic_ns()
        self._pending += data
        arrivals: list[tuple[int, int, int]] = []
        answers: list[bytes] = []
        is_over = False
        while (parsed := parse_request(self._pending)) is not None:
            request, self._pending = parsed
            if request.tag == SEARCH_REQUEST:
                arrivals.append((now_ns, *_origin(request)))
                answers.append(entry(request))
            if request.tag == UNBIND_REQUEST:
                is_over = True
            else:
                answers.append(result(request))
        if arrivals:
            os.write(self._log, np.array(arrivals, ARRIVAL).tobytes())
        self._transport.write(b"".join(answers))
        if is_over:
            self._transport.close()


def _origin(request: Request) -> tuple[int, int]:
    # filter and attributes end the content: equalityMatch is [3]
    start = request.content.rfind(b"\xa3")
    if start >= 0 and (found := _LOAD.search(_assertion(request.content[start:]))):
        return int(found[1]), int(found[2])
    return -1, -1


def _assertion(equality: bytes) -> bytes:
    """The value of an equalityMatch filter, whose parts are short."""
    attribute_size = equality[3]
    value = 4 + attribute_size
    return equality[value + 2 : value + 2 + equality[value + 1]]


async def _serve(address: str, log: int) -> None:
    loop = asyncio.get_running_loop()
    if address.startswith("/"):
        Path(address).unlink(missing_ok=True)
        server = await loop.create_unix_server(lambda: _Connection(log), address)
        where = address
    else:
        host, _, port = address.rpartition(":")
        server = await loop.create_server(
            lambda: _Connection(log), host, int(port), backlog=256
        )
        where = "{}:{}".format(*server.sockets[0].getsockname()[:2])
    sys.stdout.write(f"{where}\n")
    sys.stdout.flush()
    ended = asyncio.Event()
    loop.add_reader(0, ended.set)
    await ended.wait()


class CountingLdap:
    """The server as a process; `prefix` is a command that runs it elsewhere."""

    def __init__(
        self, folder: Path, address: str = "127.0.0.1:0", prefix: Sequence[str] = ()
    ) -> None:
        self._log = folder / "directory.arrivals"
        self._errors = folder / "directory.log"
        self._prefix = prefix
        self.address = address
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        if self.address.startswith("/"):
            return "ldapi://" + self.address.replace("/", "%2F")
        return f"ldap://{self.address}"

    def start(self) -> None:
        """Also after `kill`, with the same address and the same log."""
        command = [sys.executable, __file__, self.address, str(self._log)]
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                [*self._prefix, *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        assert self._process.stdout is not None
        address = self._process.stdout.readline().decode().strip()
        assert address, self._errors.read_text()
        self.address = address

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """As a crash would end it."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()
        self._process = None

    def arrivals(self, run: int) -> Arrivals:
        """The run's searches (see ARRIVAL), in the order in which they came."""
        every = np.frombuffer(self._log.read_bytes(), ARRIVAL)
        found: Arrivals = every[every["run"] == run]
        return found


if __name__ == "__main__":
    _file = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    asyncio.run(_serve(sys.argv[1], _file))
