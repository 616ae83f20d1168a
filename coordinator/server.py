# SPDX-License-Identifier: Apache-2.0
"""The coordinator's two services over gRPC, and the coordinator as a program.

Translates only: each method calls control.py and turns our errors into statuses. The
only module of the coordinator that imports grpc; no grpc.RpcError leaves it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing
from pathlib import Path

import grpc
import grpc.aio

from ldapslam.coordinator.control import Coordinator
from ldapslam.coordinator.journal import Journal
from ldapslam.coordinator.ownership import owned_socket, owned_store
from ldapslam.coordinator.rpc import Context, errors_to
from ldapslam.jobs.errors import ConfigError
from ldapslam.proto import agent_pb2
from ldapslam.proto import operator_pb2 as pb
from ldapslam.proto.address import check_plaintext, grpc_target, split_host_port
from ldapslam.proto.agent_pb2_grpc import (
    AgentServiceServicer,
    add_AgentServiceServicer_to_server,
)
from ldapslam.proto.codec import CHANNEL_OPTIONS
from ldapslam.proto.operator_pb2_grpc import (
    OperatorServiceServicer,
    add_OperatorServiceServicer_to_server,
)

_log = logging.getLogger(__name__)

#: Calls in progress get so long when the server stops.
_STOP_GRACE_S = 1.0
#: Live runs get so long to drain when the coordinator is told to end.
_DRAIN_TIMEOUT_S = 60.0


class _AgentService(AgentServiceServicer):
    def __init__(self, coordinator: Coordinator, now_ns: Callable[[], int]) -> None:
        self._coordinator = coordinator
        self._now_ns = now_ns

    async def Register(
        self, request: agent_pb2.RegisterRequest, context: Context
    ) -> agent_pb2.RegisterReply:
        async with errors_to(context):
            return self._coordinator.register(request)

    async def Commands(
        self, request: agent_pb2.CommandsRequest, context: Context
    ) -> AsyncIterator[agent_pb2.Command]:
        async with errors_to(context):
            # closed with the call, not when it is collected as garbage
            async with aclosing(self._coordinator.commands(request)) as commands:
                async for command in commands:
                    yield command

    async def Heartbeat(
        self, request: agent_pb2.HeartbeatRequest, context: Context
    ) -> agent_pb2.HeartbeatReply:
        received_ns = self._now_ns()
        async with errors_to(context):
            return self._coordinator.heartbeat(request, received_ns)

    async def ReportInterval(
        self, request: agent_pb2.IntervalReport, context: Context
    ) -> agent_pb2.ReportReply:
        async with errors_to(context):
            return await self._coordinator.take_interval(request)

    async def ReportProgress(
        self, request: agent_pb2.ProgressReport, context: Context
    ) -> agent_pb2.ReportReply:
        async with errors_to(context):
            return await self._coordinator.take_progress(request)

    async def Leave(
        self, request: agent_pb2.LeaveRequest, context: Context
    ) -> agent_pb2.LeaveReply:
        async with errors_to(context):
            return self._coordinator.leave(request)


class _OperatorService(OperatorServiceServicer):
    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator

    async def SubmitJob(
        self, request: pb.SubmitJobRequest, context: Context
    ) -> pb.SubmitJobReply:
        async with errors_to(context):
            return await self._coordinator.submit(request)

    async def ListRuns(
        self, request: pb.ListRunsRequest, context: Context
    ) -> pb.ListRunsReply:
        async with errors_to(context):
            return await self._coordinator.runs(request.limit)

    async def GetRun(self, request: pb.GetRunRequest, context: Context) -> pb.RunStatus:
        async with errors_to(context):
            return await self._coordinator.run(request.run_id)

    async def WatchRun(
        self, request: pb.WatchRunRequest, context: Context
    ) -> AsyncIterator[pb.RunUpdate]:
        async with errors_to(context):
            async with aclosing(self._coordinator.watch(request.run_id)) as updates:
                async for update in updates:
                    yield update

    async def CancelRun(
        self, request: pb.CancelRunRequest, context: Context
    ) -> pb.RunStatus:
        async with errors_to(context):
            return await self._coordinator.cancel(request)

    async def ListAgents(
        self, request: pb.ListAgentsRequest, context: Context
    ) -> pb.ListAgentsReply:
        async with errors_to(context):
            return self._coordinator.agents()

    async def FetchRun(
        self, request: pb.FetchRunRequest, context: Context
    ) -> AsyncIterator[pb.FetchRunChunk]:
        async with errors_to(context):
            async with aclosing(self._coordinator.fetch(request.run_id)) as chunks:
                async for content in chunks:
                    yield pb.FetchRunChunk(content=content)


class ServedCoordinator:
    """A coordinator that is being served."""

    def __init__(self, coordinator: Coordinator, addresses: Sequence[str]) -> None:
        self.coordinator = coordinator
        #: As clients dial them; a port 0 has become the real one.
        self.addresses = tuple(addresses)

    @property
    def address(self) -> str:
        return self.addresses[0]


@contextlib.asynccontextmanager
async def serve(
    listen: Sequence[str],
    store_url: str,
    *,
    insecure: bool = False,
    drain_timeout_s: float = 0.0,
    now_ns: Callable[[], int] = time.monotonic_ns,
) -> AsyncIterator[ServedCoordinator]:
    """A coordinator on these addresses (HOST:PORT, unix:/PATH), until the block ends.

    Live runs are cancelled then and get `drain_timeout_s` to come to their end.
    ConfigError when an address cannot be used; StoreError when the store cannot.
    """
    for address in listen:
        check_plaintext(address, insecure=insecure)
    with contextlib.ExitStack() as owned:
        journal = await asyncio.to_thread(Journal, store_url)
        try:
            owned.enter_context(owned_store(journal.store))
            coordinator = Coordinator(journal, now_ns)
            server = grpc.aio.server(options=list(CHANNEL_OPTIONS))
            add_AgentServiceServicer_to_server(  # type: ignore[no-untyped-call]
                _AgentService(coordinator, now_ns), server
            )
            add_OperatorServiceServicer_to_server(  # type: ignore[no-untyped-call]
                _OperatorService(coordinator), server
            )
            addresses = [_bind(server, address, owned) for address in listen]
            await coordinator.start()
            await server.start()
            _log.info("listening on %s", ", ".join(addresses))
            try:
                yield ServedCoordinator(coordinator, addresses)
            finally:
                await coordinator.stop(drain_timeout_s)
                await server.stop(_STOP_GRACE_S)
        finally:
            await journal.close()


def _bind(server: grpc.aio.Server, address: str, owned: contextlib.ExitStack) -> str:
    if address.startswith("unix:"):
        # gRPC would take the socket of a coordinator that lives
        owned.enter_context(owned_socket(Path(address.removeprefix("unix:"))))
    try:
        with _private_socket(address):
            port = server.add_insecure_port(grpc_target(address))
    except RuntimeError as error:
        raise ConfigError(
            f"cannot listen on {address!r}: {error}",
            hint="is another coordinator running there?",
        ) from error
    if address.startswith("unix:"):
        return address
    host, _ = split_host_port(address)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@contextlib.contextmanager
def _private_socket(address: str) -> Iterator[None]:
    """A Unix socket is for its owner: whoever can connect can start load."""
    if not address.startswith("unix:"):
        yield
        return
    before = os.umask(0o177)
    try:
        yield
    finally:
        os.umask(before)


async def serve_until_signal(
    listen: Sequence[str],
    store_url: str,
    *,
    insecure: bool = False,
    on_ready: Callable[[Sequence[str]], None] | None = None,
) -> None:
    """`serve` until SIGTERM or SIGINT, which cancels and drains; a second one ends."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    task = asyncio.current_task()

    def on_signal() -> None:
        if ended.is_set() and task is not None:
            task.cancel()
        ended.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    try:
        async with serve(
            listen, store_url, insecure=insecure, drain_timeout_s=_DRAIN_TIMEOUT_S
        ) as served:
            if on_ready is not None:
                on_ready(served.addresses)
            await ended.wait()
    except asyncio.CancelledError:
        if not ended.is_set():
            raise
        _log.warning("ended at once by a second signal")
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


def run_coordinator(
    listen: Sequence[str],
    store_url: str,
    *,
    insecure: bool = False,
    on_ready: Callable[[Sequence[str]], None] | None = None,
) -> None:
    """`serve_until_signal` as the whole program: with an event loop of its own."""
    asyncio.run(
        serve_until_signal(listen, store_url, insecure=insecure, on_ready=on_ready)
    )
