# SPDX-License-Identifier: Apache-2.0
"""The guard's watch goes on, whatever a list of revoked certificates holds, and changes
are finished, whatever their callers do."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ldapslam.base.errors import ExitCode
from ldapslam.coordinator.security import guard
from ldapslam.coordinator.security.access import Caller, enter
from ldapslam.coordinator.security.audit_log import AuditLog
from ldapslam.coordinator.security.enrolment import Enrolment, RenewalService
from ldapslam.coordinator.security.guard import Guard, errors_to
from ldapslam.coordinator.store_writer import StoreWriter
from ldapslam.proto import enrolment_pb2 as pb
from ldapslam.proto.agent_pb2 import IntervalReport, IntervalReports
from ldapslam.proto.common_pb2 import Failure
from ldapslam.proto.operator_pb2 import CancelRunRequest
from ldapslam.transport.codec import FAILURE_KEY
from ldapslam.transport.messages import error_of
from ldapslam.transport.pki.authority import Authority
from ldapslam.transport.pki.certificate import Role, build_request, new_key
from ldapslam.transport.pki.revocation import Revocations
from support.bounds import exceeds
from support.call_context import CallContext, Refused


class Unreadable(Revocations):
    def __init__(self, enough: asyncio.Event) -> None:
        super().__init__(None, list)
        self._enough = enough
        self._loop = asyncio.get_running_loop()
        self._looks = 0

    def refresh(self) -> None:
        self._looks += 1
        if self._looks == 3:
            self._loop.call_soon_threadsafe(self._enough.set)
        raise RuntimeError("for the test")


async def test_the_watch_outlives_a_list_that_cannot_be_parsed(
    writer: StoreWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "_LOOK_EVERY_S", 0)
    enough = asyncio.Event()
    watching = asyncio.create_task(Guard(AuditLog(writer), Unreadable(enough)).watch())
    await asyncio.wait_for(enough.wait(), 5)
    watching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching


class _Handler(NamedTuple):
    unary_unary: Any
    unary_stream: Any = None
    stream_stream: Any = None
    request_deserializer: Any = CancelRunRequest.FromString


def served(ours: Guard, handler: _Handler, method: str = "CancelRun") -> Any:
    path = method if "/" in method else f"OperatorService/{method}"
    guarded = ours.guarded(f"/ldapslam.v1.{path}", handler)
    assert guarded is not None
    return guarded


class _Context(CallContext):
    """Of a call over a Unix socket, or over the network with this certificate."""

    def __init__(self, peer: str = "unix:", pem: bytes | None = None) -> None:
        super().__init__()
        self._peer, self._pem = peer, pem
        self.written: list[object] = []

    def auth_context(self) -> dict[str, list[bytes]]:
        return {} if self._pem is None else {"x509_pem_cert": [self._pem]}

    def peer(self) -> str:
        return self._peer

    async def write(self, item: object) -> None:
        self.written.append(item)


@pytest.mark.parametrize("steps", range(4))
async def test_a_change_is_finished_when_its_caller_hangs_up(steps: int) -> None:
    done: list[str] = []

    async def change(request: CancelRunRequest, context: object) -> None:
        for step in ("changed", "noted"):
            await asyncio.to_thread(done.append, step)

    ours = Guard(AuditLog(None), None)  # type: ignore[arg-type]
    handler = served(ours, _Handler(change))
    calling = asyncio.create_task(handler.unary_unary(b"", _Context()))
    for _ in range(steps):
        await asyncio.to_thread(int)
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)
    await ours.finish()
    assert done in ([], ["changed", "noted"])
    assert done or steps == 0, "not admitted yet"


async def test_so_many_calls_may_be_open_and_no_more(
    monkeypatch: pytest.MonkeyPatch, authority: Authority
) -> None:
    """Of one caller, which is in nobody's way."""
    monkeypatch.setattr(guard, "MOST_CALLS", 3)
    roles = {"victor": Role.VIEWER, "a1": Role.AGENT, "a2": Role.AGENT}
    pems = {name: certificate(authority, name, role) for name, role in roles.items()}
    ours, end = guard_of(authority), asyncio.Event()

    async def endless(request: object, context: object) -> AsyncIterator[None]:
        await end.wait()
        yield

    async def refusal(service: str, name: str) -> str:
        """Why the call is not open; empty when it is, or was to its end."""
        handler = served(ours, _Handler(None, endless), service)
        context = _Context(FAR, pems[name])
        call = asyncio.create_task(handler.unary_stream(b"", context))
        open_calls.append(call)
        await asyncio.wait([call], timeout=0.2)
        return context.refusal

    open_calls: list[asyncio.Task[None]] = []
    for name, service in (
        ("victor", "OperatorService/WatchRun"),
        ("a1", "AgentService/Commands"),
    ):
        for _ in range(3):
            assert await refusal(service, name) == ""
        with exceeds(CALLS=1):
            found = await refusal(service, name)
        assert found == f"3 calls of {name} are open already"
    assert ours.calls == 3
    # of another caller nothing is refused
    assert await refusal("AgentService/Commands", "a2") == ""
    end.set()
    await asyncio.gather(*open_calls, return_exceptions=True)
    assert ours.calls == 0
    assert await refusal("OperatorService/WatchRun", "victor") == ""


@pytest.mark.parametrize(
    ("method", "extra", "refused"),
    [
        ("CancelRun", 0, False),
        ("CancelRun", 1, True),
        ("SubmitJob", 1, False),
        ("ReportProgress", 1, False),
        ("Register", 1, True),
    ],
)
async def test_only_jobs_and_reports_are_long(
    method: str, extra: int, refused: bool
) -> None:
    async def answer(request: CancelRunRequest, context: object) -> CancelRunRequest:
        return request

    ours = Guard(AuditLog(None), None)  # type: ignore[arg-type]
    handler = served(ours, _Handler(answer), method)
    # an unknown field, which is left out
    head = b"\xfa\x7f" + bytes([0xFB + extra]) + b"\xff\x03"
    sent = head + bytes(guard.MOST_REQUEST_BYTES - len(head) + extra)
    context = _Context()
    if refused:
        with exceeds(REQUEST_BYTES=1), pytest.raises(Refused, match="65,537"):
            await handler.unary_unary(sent, context)
    else:
        with exceeds():
            assert await handler.unary_unary(sent, context) == CancelRunRequest()


# Who is admitted.

FAR = "ipv4:192.0.2.7:4711"


class _Audit(AuditLog):
    def __init__(self) -> None:
        self.refusals: list[str] = []

    def refused(self, who: Caller, method: str, why: str) -> None:
        self.refusals.append(why)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.create(tmp_path / "pki", "fleet")


def certificate(
    authority: Authority, name: str = "olga", role: Role = Role.OPERATOR
) -> bytes:
    return (authority.issue(name, role) / "cert.pem").read_bytes()


def guard_of(authority: Authority, later: timedelta = timedelta()) -> Guard:
    revoked = Revocations(authority.revoked_file, lambda: [authority.certificate])
    return Guard(_Audit(), revoked, now_utc=lambda: datetime.now(UTC) + later)


def called(ours: Guard, context: _Context) -> str:
    """Why a CancelRun was refused; empty when it was not."""

    async def cancel(request: CancelRunRequest, context: object) -> None:
        pass

    async def call() -> None:
        with contextlib.suppress(Refused):
            await served(ours, _Handler(cancel)).unary_unary(b"", context)

    asyncio.run(call())
    return context.refusal


def test_only_who_sits_at_the_host_needs_no_certificate(authority: Authority) -> None:
    ours = guard_of(authority)
    assert "without a certificate" in called(ours, _Context(FAR))
    assert called(ours, _Context("unix:")) == ""
    assert called(ours, _Context(FAR, certificate(authority))) == ""
    # a coordinator without certificates serves loopback alone
    assert called(Guard(_Audit(), None), _Context(FAR)) == ""


@pytest.mark.parametrize(
    ("after_days", "reason"),
    [(4_000, "expired"), (-1, "not valid before"), (0, "was revoked")],
)
def test_a_certificate_is_good_for_its_time_unless_it_is_revoked(
    authority: Authority, after_days: int, reason: str
) -> None:
    pem, other = certificate(authority), certificate(authority, "omar")
    if not after_days:
        authority.revoke("olga")
        assert called(guard_of(authority), _Context(FAR, other)) == ""
    ours = guard_of(authority, timedelta(days=after_days))
    assert reason in called(ours, _Context(FAR, pem))


@pytest.mark.parametrize("kind", ["unary_stream", "stream_stream"])
def test_a_stream_ends_when_its_certificate_is_revoked(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(guard, "_LOOK_EVERY_S", 0)
    context = _Context(FAR, certificate(authority))

    async def watch_for_ever(request: object, context: object) -> AsyncIterator[str]:
        yield "first"
        authority.revoke("olga")
        await asyncio.Event().wait()

    async def no_requests() -> AsyncIterator[bytes]:
        return
        yield

    async def call() -> None:
        ours = guard_of(authority)
        handler = served(ours, _Handler(None, **{kind: watch_for_ever}), "WatchRun")
        watching = asyncio.create_task(ours.watch())
        content = b"" if kind == "unary_stream" else no_requests()
        stream = asyncio.create_task(getattr(handler, kind)(content, context))
        done, _ = await asyncio.wait([stream], timeout=10)
        assert done, "it goes on"
        watching.cancel()
        await asyncio.gather(stream, watching, return_exceptions=True)

    asyncio.run(call())
    assert "was revoked" in context.refusal
    assert context.written == ["first"]


@pytest.mark.parametrize(
    ("role", "names", "read", "reason"),
    [
        (Role.AGENT, ["a1", "a1"], 2, ""),
        (Role.AGENT, ["a1", "a2", "a1"], 1, "the call is made as 'a2'"),
        (Role.VIEWER, ["a1"], 0, "may not call Reports"),
    ],
)
async def test_each_request_of_a_stream_is_checked(
    authority: Authority, role: Role, names: list[str], read: int, reason: str
) -> None:
    context = _Context(FAR, certificate(authority, "a1", role))

    async def echo(
        requests: AsyncIterator[IntervalReports], context: object
    ) -> AsyncIterator[IntervalReports]:
        async for request in requests:
            yield request

    async def contents() -> AsyncIterator[bytes]:
        for name in names:
            report = IntervalReport(agent=name)
            yield IntervalReports(reports=[report]).SerializeToString()

    handler = _Handler(
        None, stream_stream=echo, request_deserializer=IntervalReports.FromString
    )
    ours = guard_of(authority)
    with contextlib.suppress(Refused):
        call = served(ours, handler, "AgentService/Reports").stream_stream
        await call(contents(), context)
    assert reason in context.refusal
    assert bool(context.refusal) == bool(reason)
    assert len(context.written) == read
    assert len(ours._audit.refusals) == bool(reason)  # type: ignore[attr-defined]


def test_a_method_of_another_kind_is_not_served(authority: Authority) -> None:
    assert guard_of(authority).guarded("/x/Y", _Handler(None)) is None


# What a call that fails answers.


def test_a_defect_of_ours_is_an_internal_error_to_the_client(
    caplog: pytest.LogCaptureFixture,
) -> None:
    context = CallContext()

    async def call() -> None:
        async with errors_to(context):
            raise KeyError("agent")

    with caplog.at_level(logging.CRITICAL), pytest.raises(Refused):
        asyncio.run(call())
    assert context.refusal == "the coordinator failed: KeyError: 'agent'"
    error = error_of(Failure.FromString(context.metadata[FAILURE_KEY]))
    assert error.exit_code is ExitCode.INTERNAL


# Renewal: an agent has what it needs, and cannot fill the authority's register.


def test_an_agent_may_renew_a_few_times_and_then_once_an_hour(tmp_path: Path) -> None:
    now_s = 0.0
    authority = Authority.create(tmp_path / "pki", "test")
    for name in ("a", "b"):
        token = authority.token(name, Role.AGENT, timedelta(hours=1))
        authority.enrol(token.proof, build_request(new_key(), name))
    request = pb.RenewRequest(request_pem=build_request(new_key(), "a"))

    async def work() -> list[str]:
        nonlocal now_s
        writer = StoreWriter(str(tmp_path / "results.sqlite"))
        try:
            service = RenewalService(
                Enrolment("127.0.0.1:0", authority), AuditLog(writer), lambda: now_s
            )

            async def renews(name: str) -> bool:
                enter(Caller(name, Role.AGENT, "ipv4:192.0.2.7:1"))
                try:
                    await service.Renew(request, CallContext())
                except Refused:
                    return False
                return True

            with exceeds():
                assert [await renews("a") for _ in range(5)] == [True] * 5
            with exceeds(RENEWALS=2):
                assert [await renews("a") for _ in range(2)] == [False] * 2
            assert await renews("b")
            now_s = 3600.0
            assert [await renews("a") for _ in range(2)] == [True, False]
            return [one.identity.name for one in authority.issued()]
        finally:
            await writer.close()

    names = asyncio.run(work())
    assert (names.count("a"), names.count("b")) == (1 + 6, 1 + 1)
