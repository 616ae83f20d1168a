# SPDX-License-Identifier: Apache-2.0
"""A TCP relay between an agent and its coordinator, with faults on request.

In a thread of its own. A cut link is silent: nothing passes, no connection is closed or
refused, and what was under way arrives when the link is mended, as TCP would have it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_CHUNK_BYTES = 65536
_RESET = struct.pack("ii", 1, 0)


class Relay:
    """Listens on 127.0.0.1, passes on to `upstream` (HOST:PORT or unix:PATH)."""

    def __init__(self, upstream: str, *, records: bool = False) -> None:
        #: Of new connections.
        self.upstream = upstream
        #: Added to each direction.
        self.delay_s = 0.0
        #: With `records`, what passed, by connection and direction.
        self.heard: list[bytearray] = []
        self._records = records
        self._loop = asyncio.new_event_loop()
        self._up, self._down = asyncio.Event(), asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.port: int = self._run(self._listen())

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def cut(self, *, up: bool = True, down: bool = True) -> None:
        """Let nothing pass any more in these directions; up is to the coordinator."""

        def close_gates() -> None:
            for gate, is_closed in ((self._up, up), (self._down, down)):
                if is_closed:
                    gate.clear()

        self._call(close_gates)

    def mend(self) -> None:
        self._call(self._open)

    def reset(self) -> None:
        """Break every connection, towards both ends, as a firewall's RST does."""

        def break_all() -> None:
            for writer in list(self._writers):
                sock: socket.socket = writer.get_extra_info("socket")
                with contextlib.suppress(OSError):
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                writer.transport.abort()
            for task in list(self._tasks):
                task.cancel()

        self._call(break_all)

    def close(self) -> None:
        if self._thread.is_alive():
            self.reset()
            self._run(self._end())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    def _call(self, function: Callable[[], None]) -> None:
        async def call() -> None:
            function()

        self._run(call())

    def _open(self) -> None:
        self._up.set()
        self._down.set()

    async def _listen(self) -> int:
        self._open()
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _end(self) -> None:
        self._server.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)  # transports that were aborted close in the next turn

    async def _accept(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            await self._up.wait()
            await self._connect(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass  # refused by the upstream, or broken by `reset`
        finally:
            self._tasks.discard(task)
            self._drop(writer)

    async def _connect(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if self.upstream.startswith("unix:"):
            path = self.upstream.removeprefix("unix:")
            far_reader, far_writer = await asyncio.open_unix_connection(path)
        else:
            host, _, port = self.upstream.rpartition(":")
            far_reader, far_writer = await asyncio.open_connection(host, int(port))
        self._writers.add(far_writer)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pass(reader, far_writer, self._up, group))
                group.create_task(self._pass(far_reader, writer, self._down, group))
        except* OSError:
            pass  # one end is gone: so is the connection
        finally:
            self._drop(far_writer)

    def _drop(self, writer: asyncio.StreamWriter) -> None:
        self._writers.discard(writer)
        writer.transport.abort()

    async def _pass(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        gate: asyncio.Event,
        group: asyncio.TaskGroup,
    ) -> None:
        """One direction, until the end of what is read has been passed on."""
        heard = bytearray()
        self.heard.append(heard)
        waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def read() -> None:
            while True:
                chunk = await reader.read(_CHUNK_BYTES)
                waiting.put_nowait((self._loop.time() + self.delay_s, chunk))
                if not chunk:
                    return

        group.create_task(read())
        while True:
            due_s, chunk = await waiting.get()
            await asyncio.sleep(due_s - self._loop.time())
            await gate.wait()
            if not chunk:
                # gRPC closes both ways at once
                raise ConnectionAbortedError
            if self._records:
                heard += chunk
            writer.write(chunk)
            await writer.drain()
