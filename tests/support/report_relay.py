# SPDX-License-Identifier: Apache-2.0
"""A relay between agents and coordinator at the level of calls: doubled, late, lost.

    python report_relay.py UPSTREAM SEED FAULT…

Listens on 127.0.0.1 and prints its address; ends with its standard input. Faults, each
for a random part of the calls:

    doubled     a report is sent on twice, one right after the other
    late        a copy of a report comes again up to half a second later, after others
    unanswered  a report is committed, but its sender is told that the call failed
    repeated    a command is handed to the agent twice
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import grpc
import grpc.aio

FAULTS = ("doubled", "late", "unanswered", "repeated")

_SHARE = 0.3
_LATEST_S = 0.5
_SERVICE = "ldapslam.v1.AgentService"
_UNARY = ("Register", "Heartbeat", "Leave")
#: A coordinator that was restarted is soon found again.
_OPTIONS = [
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 300),
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.max_send_message_length", 64 << 20),
]

#: grpc has no types.
Context: TypeAlias = Any
Unary = Callable[[bytes, Context], Awaitable[bytes]]


class _Handlers:
    """Passes every call on as it is, bytes for bytes, but for the faults."""

    def __init__(
        self, channel: grpc.aio.Channel, seed: int, faults: Sequence[str]
    ) -> None:
        self._channel = channel
        self._random = random.Random(seed)
        self._faults = faults
        self._copies: set[asyncio.Task[None]] = set()

    def by_method(self) -> dict[str, Any]:
        unary = grpc.unary_unary_rpc_method_handler
        return {
            **{name: unary(self._plain(name)) for name in _UNARY},
            "ReportProgress": unary(self._report_progress),
            "Reports": grpc.stream_stream_rpc_method_handler(self._reports),
            "Commands": grpc.unary_stream_rpc_method_handler(self._commands),
        }

    def _has(self, fault: str) -> bool:
        return fault in self._faults and self._random.random() < _SHARE

    def _plain(self, method: str) -> Unary:
        async def call(request: bytes, context: Context) -> bytes:
            try:
                return await self._send(method, request, context.time_remaining())
            except grpc.aio.AioRpcError as error:
                return await _hand_on(error, context)

        return call

    async def _report_progress(self, request: bytes, context: Context) -> bytes:
        send = partial(self._plain("ReportProgress"), request, context)
        late = partial(self._send, "ReportProgress", request, _LATEST_S)
        return await self._report(send, late, context)

    async def _reports(
        self, requests: AsyncIterator[bytes], context: Context
    ) -> AsyncIterator[bytes]:
        stream = self._open_stream()
        try:
            async for request in requests:
                send = partial(_exchange, stream, request)
                late = partial(self._send_on_another, request)
                yield await self._report(send, late, context)
        except grpc.aio.AioRpcError as error:
            await _hand_on(error, context)
        finally:
            stream.cancel()

    def _open_stream(self) -> grpc.aio.StreamStreamCall:
        return self._channel.stream_stream(f"/{_SERVICE}/Reports")()

    async def _send_on_another(self, request: bytes) -> None:
        await _exchange(self._open_stream(), request)

    async def _report(
        self,
        send: Callable[[], Awaitable[bytes]],
        send_again: Callable[[], Awaitable[object]],
        context: Context,
    ) -> bytes:
        reply = await send()
        if self._has("doubled"):
            reply = await send()
        if self._has("late"):
            copy = asyncio.create_task(self._send_late(send_again))
            self._copies.add(copy)
            copy.add_done_callback(self._copies.discard)
        if self._has("unanswered"):
            await context.abort(grpc.StatusCode.UNAVAILABLE, "lost, for the test")
        return reply

    async def _send(
        self, method: str, request: bytes, timeout_s: float | None
    ) -> bytes:
        call = self._channel.unary_unary(f"/{_SERVICE}/{method}")
        reply: bytes = await call(request, timeout=timeout_s)
        return reply

    async def _send_late(self, send: Callable[[], Awaitable[object]]) -> None:
        await asyncio.sleep(self._random.uniform(0, _LATEST_S))
        try:
            async with asyncio.timeout(_LATEST_S):
                await send()
        except (grpc.aio.AioRpcError, TimeoutError):
            pass  # the coordinator is away: a copy less

    async def _commands(self, request: bytes, context: Context) -> AsyncIterator[bytes]:
        stream = self._channel.unary_stream(f"/{_SERVICE}/Commands")(request)
        try:
            async for command in stream:
                yield command
                if self._has("repeated"):
                    yield command
        except grpc.aio.AioRpcError as error:
            await _hand_on(error, context)
        finally:
            stream.cancel()


async def _exchange(stream: grpc.aio.StreamStreamCall, request: bytes) -> bytes:
    await stream.write(request)
    reply: bytes = await stream.read()
    return reply


async def _hand_on(error: grpc.aio.AioRpcError, context: Context) -> bytes:
    await context.abort(
        error.code(), error.details() or "", tuple(error.trailing_metadata() or ())
    )
    raise AssertionError("abort raises")


async def _serve(upstream: str, seed: int, faults: Sequence[str]) -> None:
    async with grpc.aio.insecure_channel(upstream, options=_OPTIONS) as channel:
        server = grpc.aio.server(options=_OPTIONS)
        handlers = _Handlers(channel, seed, faults).by_method()
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(_SERVICE, handlers),)
        )
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        sys.stdout.write(f"127.0.0.1:{port}\n")
        sys.stdout.flush()
        ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(0, ended.set)
        await ended.wait()
        await server.stop(0)


class ReportRelay:
    """The relay as a process."""

    def __init__(
        self, upstream: str, seed: int, faults: Sequence[str], log: Path
    ) -> None:
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__, upstream, str(seed), *faults],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        assert self._process.stdout is not None
        #: HOST:PORT for agents.
        self.address = self._process.stdout.readline().decode().strip()
        assert self.address, log.read_text()

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], int(sys.argv[2]), sys.argv[3:]))
    sys.stdout.flush()
    os._exit(0)
