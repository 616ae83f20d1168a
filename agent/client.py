# SPDX-License-Identifier: Apache-2.0
"""The agent's connection to its coordinator, and the agent as a program.

Registers, takes commands, sends heartbeats with clock samples and empties the spool;
reconnects with back-off. The lease of the load is in run.py. No grpc.RpcError leaves
it.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import signal
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from typing import Any

from ldapslam import __version__
from ldapslam.agent.host import HostMeter, host_facts, host_id
from ldapslam.agent.run import CoordinatorHeard, LeaveFleet, TerminateRequested
from ldapslam.agent.session import AgentSession
from ldapslam.agent.settings import AgentSettings
from ldapslam.agent.spool import Spool
from ldapslam.base.address import check_plaintext
from ldapslam.base.clock_id import clock_id
from ldapslam.base.errors import (
    AgentVersionMismatch,
    CoordinatorUnreachable,
    FleetError,
    LdapSlamError,
    StoreError,
)
from ldapslam.proto import agent_pb2 as pb
from ldapslam.proto.agent_pb2_grpc import AgentServiceStub
from ldapslam.transport.codec import readable, rpc_errors
from ldapslam.transport.credentials import (
    TlsFiles,
    aio_channel,
    log_changes,
    stamps_of,
)
from ldapslam.transport.diagnosis import explained
from ldapslam.transport.enrolment import keep_renewed
from ldapslam.transport.messages import (
    PROTOCOL_VERSION,
    ProtocolError,
    facts_json,
)

_log = logging.getLogger(__name__)

_REFUSED = pb.ReportReply.STATUS_REFUSED
_CALL_TIMEOUT_S = 3.0
#: A commit may wait for the store's disk.
_REPORT_TIMEOUT_S = 15.0
_BACK_OFF_S = (0.1, 2.0)
#: Between attempts while the store takes nothing.
_STORE_PAUSE_S = 2.0
#: And while the spool's disk gives nothing.
_SPOOL_PAUSE_S = 5.0
#: Heartbeats in a row that reports may stand for.
_MOST_SKIPPED = 4
#: An answer that comes later is of a coordinator that may have gone silent since.
_SOON_S = 1.0
#: Exchanges after registration, for a good first clock estimate.
_FIRST_SAMPLES = 8
#: A refusal may be about our own previous connection; after this it is final.
_REFUSED_FOR_S = 10.0


async def serve_agent(
    coordinator: str,
    settings: AgentSettings,
    *,
    insecure: bool = False,
    tls: TlsFiles | None = None,
    has_joined: bool = False,
) -> None:
    """Be an agent of `coordinator` until a signal ends it.

    SIGTERM and SIGINT drain; a second one ends the engine at once and leaves the
    reports in the spool. A certificate that came with a join token is renewed.
    FleetError when the coordinator refuses this agent.
    """
    if tls is None:
        check_plaintext(coordinator, insecure=insecure)
    quota_bytes = settings.limits.spool_quota_bytes
    spool = await asyncio.to_thread(Spool, settings.spool, quota_bytes)
    with spool:
        session = AgentSession(settings, spool)
        link = _Link(coordinator, session, tls, has_joined=has_joined)
        serving = asyncio.create_task(session.serve())
        dialling = asyncio.create_task(link.keep())
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            request = TerminateRequested(f"the agent received {number.name}")
            loop.add_signal_handler(number, session.post, request)
        try:
            await asyncio.wait(
                (serving, dialling, session.leaving),
                return_when=asyncio.FIRST_COMPLETED,
            )
            for task in (serving, dialling):
                if task.done():
                    task.result()
            await _leave(session, link, session.leaving.result())
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)
            for task in (dialling, serving):
                task.cancel()
            await asyncio.gather(dialling, serving, return_exceptions=True)


def run_agent(coordinator: str, settings: AgentSettings, **options: Any) -> None:
    """`serve_agent` as the whole program, with these options of it."""
    asyncio.run(serve_agent(coordinator, settings, **options))


async def _leave(session: AgentSession, link: _Link, order: LeaveFleet) -> None:
    _log.info("leaving: %s", order.reason)
    if order.at_once:
        return
    await session.monitored.end_all()
    if not await session.wait_until_delivered(session.settings.leave_timeout_s):
        _log.warning(
            "%d reports stay in the spool %s for the next agent on it",
            len(session.spool),
            session.spool.folder,
        )
    await link.leave(order.reason)


class _Link:
    def __init__(
        self,
        address: str,
        session: AgentSession,
        tls: TlsFiles | None,
        *,
        has_joined: bool,
    ) -> None:
        self._address = address
        self._session = session
        self._tls = tls
        self._has_joined = has_joined and tls is not None
        self._stamps = {} if tls is None else stamps_of(tls)
        self._meter = HostMeter(session.spool)
        self._instance_id = uuid.uuid4().hex
        self._session_id: str | None = None
        self._last_command = 0
        self._samples: list[pb.ClockSample] = []
        #: When an interval was last sent or answered soon, and the coordinator heard:
        #: together they are as good as a heartbeat.
        self._signed_s = self._heard_s = -math.inf
        self._stub: AgentServiceStub | None = None
        self._is_away = False
        #: The agent has announced its end: the connection may end now.
        self._is_leaving = False
        #: Whether a report was taken over the last connection.
        self._has_delivered = False
        #: Class of the error that was logged last.
        self._reason: type[LdapSlamError] | None = None
        self._refused_at_s: float | None = None
        self._explaining: asyncio.Task[None] | None = None

    async def keep(self) -> None:
        """Stay connected until cancelled; FleetError when refused for good."""
        back_off_s = _BACK_OFF_S[0]
        while True:
            connected_at = time.monotonic()
            self._has_delivered = False
            try:
                await self._connect_once()
            except AgentVersionMismatch:
                raise
            except LdapSlamError as error:
                if self._is_leaving:
                    return
                if isinstance(error, CoordinatorUnreachable) and not self._is_away:
                    self._note_with_reason(error)
                else:
                    self._note(error)
            finally:
                self._session_id = self._stub = None
            lasted_s = time.monotonic() - connected_at
            if self._has_delivered or lasted_s > _BACK_OFF_S[1]:
                back_off_s = _BACK_OFF_S[0]
            # agents must not reconnect all at once
            await asyncio.sleep(back_off_s * random.uniform(0.5, 1.0))
            back_off_s = min(2 * back_off_s, _BACK_OFF_S[1])

    def _note_with_reason(self, error: CoordinatorUnreachable) -> None:
        """Log it once its reason is known; that may take seconds, so the next attempt
        does not wait."""
        self._is_away, self._reason, self._refused_at_s = True, type(error), None

        async def find_out() -> None:
            _log.warning("%s", await asyncio.to_thread(explained, error, self._tls))

        self._explaining = asyncio.create_task(find_out())

    def _note(self, error: LdapSlamError) -> None:
        """Log why the connection ended; raise when trying again is useless."""
        # once for each absence, not for each attempt
        is_news = not self._is_away or type(error) is not self._reason
        _log.log(logging.WARNING if is_news else logging.DEBUG, "%s", error)
        self._is_away, self._reason = True, type(error)
        if not isinstance(error, FleetError) or isinstance(
            error, CoordinatorUnreachable
        ):
            self._refused_at_s = None
            return
        now_s = time.monotonic()
        self._refused_at_s = self._refused_at_s or now_s
        if now_s - self._refused_at_s > _REFUSED_FOR_S:
            raise error

    async def leave(self, reason: str) -> None:
        if self._stub is None or self._session_id is None:
            return
        self._is_leaving = True
        request = pb.LeaveRequest(session_id=self._session_id, reason=reason)
        try:
            with rpc_errors(self._address):
                await self._stub.Leave(request, timeout=_CALL_TIMEOUT_S)
        except LdapSlamError as error:
            _log.info("%s", error)
        except asyncio.CancelledError:
            # a call is cancelled with its channel, which `keep` closes when it ends,
            # as the coordinator ends it for an agent that leaves
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise

    async def _connect_once(self) -> None:
        """Register, and work over one channel until something breaks."""
        stamps = {} if self._tls is None else stamps_of(self._tls)
        async with aio_channel(self._address, self._tls) as channel:
            stub = AgentServiceStub(channel)  # type: ignore[no-untyped-call]
            reply = await self._register(stub)
            log_changes(self._stamps, stamps)
            self._stamps = stamps
            self._stub, self._session_id = stub, reply.session_id
            self._note_heard()
            for _ in range(_FIRST_SAMPLES):
                await self._heartbeat(stub)
            jobs = [
                self._take_commands(stub),
                self._beat(stub, reply.heartbeat_interval_ns / 1e9),
                self._deliver(stub),
            ]
            if self._has_joined and self._tls is not None:
                jobs.append(keep_renewed(channel, self._address, self._tls))
            tasks = [asyncio.create_task(job) for job in jobs]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in tasks:
                    if task.done():
                        task.result()
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _register(self, stub: AgentServiceStub) -> pb.RegisterReply:
        session = self._session
        request = pb.RegisterRequest(
            protocol_version=PROTOCOL_VERSION,
            build=__version__,
            name=session.settings.name,
            instance_id=self._instance_id,
            epoch=session.spool.epoch,
            labels=session.settings.labels,
            host_facts_json=facts_json(host_facts()),
            runs=[
                pb.RunPart(run_id=run_id, state=state)
                for run_id, state in session.runs.items()
            ],
            monitored_runs=session.monitored.runs,
            max_runs=session.settings.max_runs,
            restricted=session.settings.restricted,
            host_id=host_id(),
            clock_id=clock_id() if self._address.startswith("unix:") else "",
            limits_json=session.settings.limits_json,
        )
        with rpc_errors(self._address):
            answer = await stub.Register(request, timeout=_CALL_TIMEOUT_S)
        reply: pb.RegisterReply = readable(answer, self._address)
        _log.info("registered with %s", self._address)
        session.spool.serve(reply.store_id)
        self._is_away, self._refused_at_s = False, None
        if not reply.resumed:
            self._last_command = 0
            # they may be of another coordinator's clock
            self._samples = []
        return reply

    async def _take_commands(self, stub: AgentServiceStub) -> None:
        request = pb.CommandsRequest(
            session_id=self._session_id or "", last_command=self._last_command
        )
        with rpc_errors(self._address):
            stream: AsyncIterator[pb.Command | None] = stub.Commands(request)
            async for received in stream:
                command = readable(received, self._address)
                if command.number <= self._last_command:
                    continue
                self._last_command = command.number
                self._session.take_command(command)
        raise CoordinatorUnreachable(self._address, "the command stream ended")

    async def _beat(self, stub: AgentServiceStub, interval_s: float) -> None:
        """Heartbeats; fewer while reports are signs of life, for the clock samples."""
        skipped = 0
        while True:
            await asyncio.sleep(interval_s)
            since_s = time.monotonic() - min(self._signed_s, self._heard_s)
            if since_s < 1.5 * interval_s and skipped < _MOST_SKIPPED:
                skipped += 1
            else:
                skipped = 0
                await self._heartbeat(stub)

    async def _heartbeat(self, stub: AgentServiceStub) -> None:
        request = pb.HeartbeatRequest(
            session_id=self._session_id or "",
            last_command=self._last_command,
            samples=self._samples,
            load=await asyncio.to_thread(self._meter.load),
        )
        self._samples = []
        sent_ns = time.monotonic_ns()
        with rpc_errors(self._address):
            answer = await stub.Heartbeat(request, timeout=_CALL_TIMEOUT_S)
        received_ns = time.monotonic_ns()
        reply: pb.HeartbeatReply = readable(answer, self._address)
        if not reply.known:
            raise CoordinatorUnreachable(self._address, "it does not know us any more")
        self._note_heard()
        self._samples.append(
            pb.ClockSample(
                agent_sent_mono_ns=sent_ns,
                coordinator_received_mono_ns=reply.received_mono_ns,
                coordinator_sent_mono_ns=reply.sent_mono_ns,
                agent_received_mono_ns=received_ns,
            )
        )

    def _note_heard(self) -> float:
        self._session.post(CoordinatorHeard())
        self._heard_s = time.monotonic()
        return self._heard_s

    async def _deliver(self, stub: AgentServiceStub) -> None:
        spool, reports = self._session.spool, stub.Reports()
        while True:
            self._session.has_reports.clear()
            try:
                waiting = await asyncio.to_thread(spool.waiting)
            except OSError as error:
                _log.error("the spool cannot be read: %s", error)
                await asyncio.sleep(_SPOOL_PAUSE_S)
                continue
            if not waiting:
                await self._session.has_reports.wait()
                await asyncio.sleep(self._session.report_delay_s)
                continue
            numbers, entries = zip(*waiting, strict=True)
            sent_s = time.monotonic()
            if reports.done():  # an error ended it
                reports = stub.Reports()
            try:
                with rpc_errors(self._address):
                    replies = await self._send(stub, reports, entries)
            except StoreError as error:
                # the coordinator is there: keep the connection
                _log.warning("report %d is not taken yet: %s", numbers[0], error)
                await asyncio.sleep(_STORE_PAUSE_S)
                continue
            self._has_delivered = True
            is_taken = any(one.status != _REFUSED for one in replies)
            is_soon = time.monotonic() < sent_s + _SOON_S
            if entries[0].HasField("interval") and is_taken and is_soon:
                self._signed_s = self._note_heard()
            await asyncio.to_thread(_settle, spool, numbers, replies)

    async def _send(
        self, stub: AgentServiceStub, reports: Any, entries: Sequence[pb.SpoolEntry]
    ) -> Sequence[pb.ReportReply]:
        """Intervals, or one report of another kind; the answer to each."""
        kind = entries[0].WhichOneof("kind")
        if kind != "interval":
            call = stub.ReportProgress if kind == "progress" else stub.ReportMonitor
            answer = await call(getattr(entries[0], kind), timeout=_REPORT_TIMEOUT_S)
            return [readable(answer, self._address)]
        request = pb.IntervalReports(
            session_id=self._session_id or "",
            reports=[entry.interval for entry in entries],
        )
        self._signed_s = time.monotonic()
        # without a time limit: heartbeats tell whether the coordinator is there
        await reports.write(request)
        answer = await anext(aiter(reports), pb.IntervalReplies())
        replies: Sequence[pb.ReportReply] = readable(answer, self._address).replies
        if len(replies) != len(entries):
            raise ProtocolError(f"{len(replies)} answers to {len(entries)} reports")
        return replies


def _settle(
    spool: Spool, numbers: Sequence[int], replies: Sequence[pb.ReportReply]
) -> None:
    for number, reply in zip(numbers, replies, strict=True):
        if reply.status == _REFUSED:
            _log.error("report %d was refused: %s", number, reply.detail)
            spool.reject(number)
        else:
            spool.remove(number)
