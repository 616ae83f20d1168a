# SPDX-License-Identifier: Apache-2.0
"""The coordinator on its addresses, and as a program.

Opens the addresses (a private Unix socket, TLS with certificates, plain text only where
nobody else can reach it), puts the guard before every method and serves the coordinator
and its extensions. The coordinator's only module that imports grpc.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from ldapslam.base.address import check_plaintext, grpc_target, is_unix
from ldapslam.base.errors import ConfigError, StoreTaken
from ldapslam.coordinator.bounds import Bound
from ldapslam.coordinator.control import Coordinator
from ldapslam.coordinator.extension import Extension
from ldapslam.coordinator.runs.judge import Judge, Sign
from ldapslam.coordinator.security.audit_log import AuditLog
from ldapslam.coordinator.security.enrolment import (
    Enrolment,
    EnrolmentService,
    RenewalService,
)
from ldapslam.coordinator.security.guard import MOST_CALLS, Guard
from ldapslam.coordinator.security.ownership import owned_socket, owned_store
from ldapslam.coordinator.store_writer import StoreWriter
from ldapslam.proto.agent_pb2_grpc import add_AgentServiceServicer_to_server
from ldapslam.proto.enrolment_pb2_grpc import (
    add_CertificateServiceServicer_to_server,
    add_EnrolmentServiceServicer_to_server,
)
from ldapslam.proto.operator_pb2_grpc import add_OperatorServiceServicer_to_server
from ldapslam.transport.codec import CHANNEL_OPTIONS
from ldapslam.transport.credentials import TlsFiles, check_server, server_credentials
from ldapslam.transport.pki.revocation import Revocations
from ldapslam.transport.pki.signature import sign

_log = logging.getLogger(__name__)

#: Time for open calls when the server stops.
_STOP_GRACE_S = 1.0
#: Time for live runs to drain at the end.
_DRAIN_TIMEOUT_S = 60.0
#: Strangers call enrolment: small requests, as many at once as a fleet has agents.
_MAX_ENROLMENT_BYTES = 64 * 1024
_MAX_ENROLMENTS = 1_000


@dataclass(frozen=True, slots=True)
class ServedCoordinator:
    """A coordinator that is being served."""

    #: A port 0 has become the real one.
    addresses: Sequence[str]
    enrolment_address: str | None
    coordinator: Coordinator

    @property
    def address(self) -> str:
        return self.addresses[0]


class _Interceptor(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    def __init__(self, wrap: Callable[[str, Any], Any]) -> None:
        self._wrap = wrap

    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[Any]], handler_call_details: Any
    ) -> Any:
        handler = await continuation(handler_call_details)
        return self._wrap(handler_call_details.method, handler)


def _unread(method: str, handler: Any) -> Any:
    """Leave parsing to the service: gRPC logs every request that it cannot read."""
    return handler and handler._replace(request_deserializer=None)


@contextlib.asynccontextmanager
async def serve(
    listen: Sequence[str],
    store_url: str,
    *,
    insecure: bool = False,
    tls: TlsFiles | None = None,
    enrol: Enrolment | None = None,
    judge: Judge | None = None,
    extensions: Sequence[Extension] = (),
    drain_timeout_s: float = 0.0,
    leave_runs: bool = False,
    now_ns: Callable[[], int] = time.monotonic_ns,
) -> AsyncIterator[ServedCoordinator]:
    """A coordinator on these addresses (HOST:PORT, unix:/PATH), until the block ends.

    With `tls` every address but a Unix socket has mutual TLS. Live runs are cancelled
    at the end and drain for `drain_timeout_s`, or are left to the next coordinator.
    ConfigError for an unusable address or certificate; StoreError.
    """
    _check(listen, insecure, tls, enrol)
    for extension in extensions:
        await extension.check()
    async with contextlib.AsyncExitStack() as stack:
        writer = await asyncio.to_thread(StoreWriter, store_url)
        stack.push_async_callback(writer.close)
        await asyncio.to_thread(stack.enter_context, owned_store(writer.store))
        coordinator = Coordinator(
            writer,
            now_ns,
            judge=judge,
            observers=extensions,
            sign=_signer(tls),
        )
        audit = coordinator.audit
        revocations = None
        if tls is not None:
            revocations = await asyncio.to_thread(Revocations, tls.revoked, tls.issuers)
        guard = Guard(audit, revocations)
        coordinator.bounds[Bound.CALLS] = lambda: guard.calls, MOST_CALLS
        server = grpc.aio.server(
            options=list(CHANNEL_OPTIONS), interceptors=[_Interceptor(guard.guarded)]
        )
        add_AgentServiceServicer_to_server(  # type: ignore[no-untyped-call]
            coordinator.agents, server
        )
        add_OperatorServiceServicer_to_server(  # type: ignore[no-untyped-call]
            coordinator.operators, server
        )
        if enrol is not None:
            add_CertificateServiceServicer_to_server(  # type: ignore[no-untyped-call]
                RenewalService(enrol, audit), server
            )
        addresses = [_bind(server, address, tls, stack) for address in listen]
        enrolment_server, enrolment_address = _enrolment_server(enrol, tls, audit)
        await coordinator.start()
        started: list[Extension] = []
        try:
            for extension in extensions:
                started.append(extension)
                await extension.start(coordinator, server)
            await server.start()
            if enrolment_server is not None:
                await enrolment_server.start()
                stack.push_async_callback(enrolment_server.stop, None)
                _log.info("enrolment on %s", enrolment_address)
            stack.callback(asyncio.create_task(guard.watch()).cancel)
            _log.info("listening on %s", ", ".join(addresses))
            yield ServedCoordinator(addresses, enrolment_address, coordinator)
        finally:
            await coordinator.stop(drain_timeout_s, leave_runs=leave_runs)
            for extension in reversed(started):
                await extension.stop()
            await server.stop(_STOP_GRACE_S)
            await guard.finish()


def _signer(tls: TlsFiles | None) -> Sign | None:
    if tls is None:
        return None
    return partial(sign, certificate_file=tls.certificate, key_file=tls.key)


def _check(
    listen: Sequence[str],
    insecure: bool,
    tls: TlsFiles | None,
    enrol: Enrolment | None,
) -> None:
    if tls is not None:
        check_server(tls)
        if insecure:
            raise ConfigError(
                "there are certificates, and --insecure asks for plain text",
                hint="leave out one of them; a Unix socket needs neither",
            )
    elif enrol is not None:
        raise ConfigError(
            "enrolment needs certificates",
            hint="give --pki, the folder that `ldapslam fleet pki init` made",
        )
    for address in listen:
        grpc_target(address)
        if tls is None:
            check_plaintext(address, insecure=insecure)


def _enrolment_server(
    enrol: Enrolment | None, tls: TlsFiles | None, audit: AuditLog
) -> tuple[grpc.aio.Server | None, str | None]:
    """The server for strangers, and its address."""
    if enrol is None or tls is None:
        return None, None
    options = dict(CHANNEL_OPTIONS)
    options["grpc.max_receive_message_length"] = _MAX_ENROLMENT_BYTES
    options["grpc.max_metadata_size"] = options["grpc.absolute_max_metadata_size"] = (
        8192
    )
    server = grpc.aio.server(
        options=list(options.items()),
        interceptors=[_Interceptor(_unread)],
        maximum_concurrent_rpcs=_MAX_ENROLMENTS,
    )
    add_EnrolmentServiceServicer_to_server(  # type: ignore[no-untyped-call]
        EnrolmentService(enrol, audit), server
    )
    credentials = server_credentials(tls, asks_for_certificates=False)
    return server, _listen(server, enrol.listen, credentials)


def _bind(
    server: grpc.aio.Server,
    address: str,
    tls: TlsFiles | None,
    owned: contextlib.AsyncExitStack,
) -> str:
    if not is_unix(address):
        credentials = None if tls is None else server_credentials(tls)
        return _listen(server, address, credentials)
    # gRPC would take the socket of a live coordinator
    owned.enter_context(owned_socket(Path(address.removeprefix("unix:"))))
    # the socket is private: whoever connects can start load
    before = os.umask(0o177)
    try:
        return _listen(server, address, None)
    finally:
        os.umask(before)


def _listen(
    server: grpc.aio.Server, address: str, credentials: grpc.ServerCredentials | None
) -> str:
    """The address as clients dial it: a port 0 has become the real one."""
    target = grpc_target(address)
    try:
        if credentials is None:
            port = server.add_insecure_port(target)
        else:
            port = server.add_secure_port(target, credentials)
    except RuntimeError as error:
        raise ConfigError(
            f"cannot listen on {address!r}: it is in use, or no address of this host",
            hint="is another coordinator running there? --listen names another port",
        ) from error
    return address if is_unix(address) else f"{target.rpartition(':')[0]}:{port}"


def run_coordinator(
    listen: Sequence[str],
    store_url: str,
    *,
    on_ready: Callable[[Sequence[str]], None] | None = None,
    **options: Any,
) -> None:
    """`serve` as the program; SIGTERM or SIGINT drain, a second one ends it."""

    async def serve_until_signal() -> None:
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        task = asyncio.current_task()

        def on_signal() -> None:
            if ended.is_set() and task is not None:
                task.cancel()
            ended.set()

        # the loop's end removes them
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, on_signal)
        try:
            async with serve(
                listen, store_url, drain_timeout_s=_DRAIN_TIMEOUT_S, **options
            ) as served:
                # the modules stay: no use in going through them for garbage
                gc.freeze()
                if on_ready is not None:
                    on_ready(served.addresses)
                is_over = asyncio.create_task(served.coordinator.is_over.wait())
                signalled = asyncio.create_task(ended.wait())
                both = (is_over, signalled)
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                for one in both:
                    one.cancel()
            if isinstance(failure := served.coordinator.writer.failure, StoreTaken):
                raise failure
        except asyncio.CancelledError:
            if not ended.is_set():
                raise
            _log.warning("ended at once by a second signal")

    asyncio.run(serve_until_signal())
