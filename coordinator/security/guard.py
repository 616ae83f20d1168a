# SPDX-License-Identifier: Apache-2.0
"""Guards every call: checks certificate, role and name, and how many are open.

A connection outlives its trust, so each call checks the certificate again (time,
revocation), and open calls end within seconds of its expiry or revocation. Needs no
grpc: it wraps the handlers of server.py's interceptor.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from datetime import datetime
from functools import lru_cache
from typing import Any, NoReturn, TypeVar

from cryptography import x509
from google.protobuf.message import Message

from ldapslam.base.errors import AccessRefused, FleetError, LdapSlamError
from ldapslam.base.time_zone import utc_now
from ldapslam.coordinator.bounds import (
    Bound,
    fields_counted,
    note_exceeded,
    within_bounds,
)
from ldapslam.coordinator.security import access
from ldapslam.coordinator.security.access import LOCAL, STRANGER, Caller
from ldapslam.coordinator.security.audit_log import AuditLog
from ldapslam.proto import agent_pb2, monitor_pb2
from ldapslam.transport.codec import CallEnded, status_of
from ldapslam.transport.messages import ProtocolError, parse
from ldapslam.transport.pki.certificate import Identity, identity_of
from ldapslam.transport.pki.chain import issuers_in
from ldapslam.transport.pki.revocation import Revocations

_log = logging.getLogger(__name__)

#: Interval between checks of open calls and of the list of revoked certificates.
_LOOK_EVERY_S = 1.0

#: Agents send them until they are answered: many may wait for a store.
_REPEATED = ("/ReportProgress", "/ReportMonitor", "/Heartbeat")
#: Their requests hold jobs or measurements, of up to MAX_MESSAGE_BYTES.
_LONG = (
    *("/Reports", "/ReportProgress", "/ReportMonitor"),
    *("/SubmitJob", "/CreateSchedule"),
)
#: All others.
MOST_REQUEST_BYTES = 64 * 1024
#: The service checks them: their run hears of it.
_REPORTS = (agent_pb2.ProgressReport, monitor_pb2.MonitorReport)
#: Open calls of one caller: the others are to get through.
MOST_CALLS = 500
_OF_AGENTS = "/ldapslam.v1.AgentService/"
#: For open calls to end when the server stops.
_FINISH_S = 15.0

#: A grpc.RpcMethodHandler, a named tuple; grpc brings no types.
Handler = Any
#: grpc.aio.ServicerContext, and grpc.aio.Server.
Context = Any
Server = Any
_Message = TypeVar("_Message", bound=Message)


class Guard:
    """Admits calls to one coordinator."""

    def __init__(
        self,
        audit: AuditLog,
        revocations: Revocations | None,
        now_utc: Callable[[], datetime] = utc_now,
    ) -> None:
        """`revocations` None: there are no certificates, every caller is local."""
        self._audit = audit
        self._revocations = revocations
        self._now_utc = now_utc
        #: Open calls with a certificate; why some of them were ended.
        self._open: dict[asyncio.Task[Any], Identity] = {}
        self._ended: dict[asyncio.Task[Any], AccessRefused] = {}
        self._working: set[asyncio.Task[Any]] = set()
        #: Open calls of each; without certificates those of operators under "".
        self._calls: Counter[str] = Counter()

    @property
    def calls(self) -> int:
        """Open calls of the caller that has most."""
        return max(self._calls.values(), default=0)

    def guarded(self, method: str, handler: Handler | None) -> Handler | None:
        """The handler behind the checks; None without such a method."""
        if handler is None:
            return None
        kind = type(handler.request_deserializer(b""))
        # nothing is parsed for callers who are refused
        raw = handler._replace(request_deserializer=None)
        if handler.unary_unary is not None:
            return raw._replace(unary_unary=self._unary(method, kind, handler))
        if handler.unary_stream is not None:
            return raw._replace(unary_stream=self._stream(method, kind, handler))
        if handler.stream_stream is not None:
            return raw._replace(stream_stream=self._stream(method, kind, handler))
        _log.error("%s has one reply to a stream: not served", method)
        return None

    async def watch(self) -> None:
        """End open calls when their certificate is no longer good; until cancelled."""
        while self._revocations is not None:
            await asyncio.sleep(_LOOK_EVERY_S)
            try:
                await asyncio.to_thread(self._revocations.refresh)
            except Exception:
                # a defect; open calls must still end with their certificate
                _log.exception("the list of revoked certificates")
            for task, identity in list(self._open.items()):
                try:
                    self._check_certificate(identity)
                except AccessRefused as error:
                    if task not in self._ended:
                        self._ended[task] = error
                        task.cancel()

    def _unary(
        self, method: str, kind: type[Message], handler: Handler
    ) -> Callable[..., Any]:
        async def call(content: bytes, context: Context) -> Any:
            async with self._admitted(method, context):
                request = _read(method, kind, content)

                async def answer() -> Any:
                    with self._counted(method):
                        return await handler.unary_unary(request, context)

                if method.endswith(_REPEATED):
                    return await answer()
                # what it changes, and the note of that, also when the caller hangs up
                work = asyncio.create_task(answer())
                self._working.add(work)
                work.add_done_callback(self._working.discard)
                return await asyncio.shield(work)

        return call

    async def finish(self) -> None:
        """Return when what was admitted is done; no call comes any more."""
        if self._working:
            await asyncio.wait(self._working, timeout=_FINISH_S)

    def _stream(
        self, method: str, kind: type[Message], handler: Handler
    ) -> Callable[..., Any]:
        """`content` of the call is a request, or the stream of them."""

        async def call(content: Any, context: Context) -> None:
            async with self._admitted(method, context) as identity:
                if handler.unary_stream is not None:
                    request = _read(method, kind, content)
                    answer = handler.unary_stream(request, context)
                else:
                    requests = (_read(method, kind, each) async for each in content)
                    answer = handler.stream_stream(requests, context)
                # not when it is collected as garbage
                with self._counted(method):
                    async with self._held(identity), aclosing(answer):
                        async for item in answer:
                            await context.write(item)

        return call

    @contextlib.asynccontextmanager
    async def _admitted(
        self, method: str, context: Context
    ) -> AsyncIterator[Identity | None]:
        """Check the caller, and make it that of the call. Within, an error refuses the
        call, and the audit has who was refused."""
        peer = str(context.peer())[:100]
        access.enter(Caller("", STRANGER, peer))
        async with errors_to(context):
            try:
                identity = self._identity(context)
                if identity is None:
                    access.enter(Caller("", LOCAL, peer))
                else:
                    access.enter(Caller(identity.name, identity.role, peer))
                    self._check_certificate(identity)
                access.check_role(method, access.caller())
                yield identity
            except AccessRefused as error:
                if peer:
                    self._audit.refused(access.caller(), method, str(error))
                raise

    @contextlib.contextmanager
    def _counted(self, method: str) -> Iterator[None]:
        """Within, the call counts as open; FleetError when there are too many."""
        whose = access.caller().who
        if not whose and method.startswith(_OF_AGENTS):
            yield  # without certificates all agents are one
            return
        if self._calls[whose] >= MOST_CALLS:
            note_exceeded(Bound.CALLS)
            raise FleetError(
                f"{MOST_CALLS} calls of {whose or 'operators'} are open already",
                hint="each `ldapslam fleet watch` holds one: end some, and try again",
            )
        self._calls[whose] += 1
        try:
            yield
        finally:
            self._calls[whose] -= 1
            if not self._calls[whose]:
                del self._calls[whose]

    def _identity(self, context: Context) -> Identity | None:
        """The certificate's identity; None for a local caller."""
        found = context.auth_context()
        pem = next(iter(found.get("x509_pem_cert") or ()), None)
        if pem is not None:
            chain = next(iter(found.get("x509_pem_cert_chain") or ()), b"")
            return _identity_of(pem, chain)
        if self._revocations is not None and not context.peer().startswith("unix:"):
            # the caller has hung up, so gRPC has forgotten its certificate
            raise AccessRefused("the call came without a certificate")
        return None

    def _check_certificate(self, identity: Identity) -> None:
        identity.check_time(self._now_utc())
        if self._revocations is not None and self._revocations.has(identity):
            raise AccessRefused(
                f"the certificate of {identity.role} {identity.name!r} was revoked",
                hint="ask the operator of the fleet for a new certificate",
            )

    @contextlib.asynccontextmanager
    async def _held(self, identity: Identity | None) -> AsyncIterator[None]:
        """Within, a call is ended when its certificate is no longer good."""
        task = asyncio.current_task()
        if identity is None or task is None:
            yield
            return
        self._open[task] = identity
        try:
            yield
        except asyncio.CancelledError:
            error = self._ended.get(task)
            if error is None:
                raise
            task.uncancel()
            raise error from None
        finally:
            self._open.pop(task, None)
            self._ended.pop(task, None)


def _read(method: str, kind: type[Message], content: bytes) -> Any:
    """One request of the current call."""
    _check_size(method, content)
    request = read_request(kind, content)
    access.check_own_name(method, access.caller(), request)
    return request


def _check_size(method: str, content: bytes) -> None:
    """Before it is parsed, which takes several times as much memory."""
    if len(content) > MOST_REQUEST_BYTES and not method.endswith(_LONG):
        note_exceeded(Bound.REQUEST_BYTES)
        raise ProtocolError(
            f"a request of {len(content):,} bytes, where at most "
            f"{MOST_REQUEST_BYTES:,} are taken"
        )


def read_request(kind: type[_Message], content: bytes) -> _Message:
    with fields_counted():
        request = parse(kind, content)
    return request if isinstance(request, _REPORTS) else within_bounds(request)


@lru_cache(maxsize=1024)
def _identity_of(pem: bytes, chain: bytes) -> Identity:
    try:
        certificate = x509.load_pem_x509_certificate(pem)
        others = x509.load_pem_x509_certificates(chain) if chain else []
    except ValueError as error:
        raise AccessRefused("the certificate cannot be read") from error
    return identity_of(certificate, issuers_in(certificate, others))


async def _refuse(context: Context, error: LdapSlamError) -> NoReturn:
    code, text, metadata = status_of(error)
    await context.abort(code, text, metadata)
    raise AssertionError("abort does not return")


@contextlib.asynccontextmanager
async def errors_to(context: Context) -> AsyncIterator[None]:
    """Within, an error refuses the call; an unexpected one as our failure."""
    try:
        yield
    except CallEnded:
        raise
    except LdapSlamError as error:
        await _refuse(context, error)
    except Exception as error:
        _log.exception("a call failed")
        failure = LdapSlamError(
            f"the coordinator failed: {type(error).__name__}: {error}",
            hint="its log has the traceback; please report it",
        )
        await _refuse(context, failure)
