# SPDX-License-Identifier: Apache-2.0
"""An agent as its coordinator sees it: it speaks the real protocol and does nothing."""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from ldapslam.base.address import grpc_target
from ldapslam.proto import agent_pb2 as pb
from ldapslam.proto.agent_pb2_grpc import AgentServiceStub
from ldapslam.transport.codec import CHANNEL_OPTIONS
from support.fleet import registration

#: A connection of its own, as a process has.
_OPTIONS = [*CHANNEL_OPTIONS, ("grpc.use_local_subchannel_pool", 1)]


class WireAgent:
    """With the folder of a certificate or without TLS. Close its channel at the end."""

    def __init__(self, name: str, address: str, tls: Path | None = None) -> None:
        self.name = name
        target = grpc_target(address)
        if tls is None:
            self.channel = grpc.aio.insecure_channel(target, options=_OPTIONS)
        else:
            files = ("ca.pem", "key.pem", "cert.pem")
            credentials = grpc.ssl_channel_credentials(
                *((tls / name).read_bytes() for name in files)
            )
            self.channel = grpc.aio.secure_channel(target, credentials, _OPTIONS)
        #: Of the run: T0, and when the order to start came, in CLOCK_MONOTONIC.
        self.t0_ns = 0
        self.told_ns = 0
        self._stub: Any = AgentServiceStub(self.channel)  # type: ignore[no-untyped-call]
        self._session = ""
        self._heartbeat_s = 1.0
        self._last_command = 0
        self._has_begun = asyncio.Event()
        self._attempt = 0
        self._reported = 0
        self._reports: Any = None
        self._signed_s = self._heard_s = -math.inf
        self._samples: list[pb.ClockSample] = []

    async def register(self) -> None:
        reply = await self._stub.Register(registration(self.name, epoch=1))
        self._session = reply.session_id
        # now: gRPC drops calls that a busy coordinator does not begin within 30 s
        self._reports = self._stub.Reports()
        self._heartbeat_s = reply.heartbeat_interval_ns / 1e9
        for _ in range(3):  # of the first, nothing is known before the second
            await self._heartbeat()

    async def follow(self) -> None:
        """Does what it is told, in name."""
        request = pb.CommandsRequest(session_id=self._session)
        async for command in self._stub.Commands(request):
            self._last_command = command.number
            if command.HasField("prepare"):
                self._attempt = command.prepare.attempt
                ready = pb.AgentReady(facts_json="{}")
                await self._progress(command.prepare.run_id, ready=ready)
            elif command.HasField("start"):
                self.told_ns = time.monotonic_ns()
                self.t0_ns = command.start.t0_mono_ns
                started = pb.AgentStarted(start_error_ns=40_000)
                await self._progress(command.start.run_id, started=started)
                self._has_begun.set()

    async def beat(self) -> None:
        """As agents do: reports stand for four of five."""
        for number in itertools.count():
            await asyncio.sleep(self._heartbeat_s)
            since_s = time.monotonic() - min(self._signed_s, self._heard_s)
            if number % 5 == 0 or since_s > 1.5 * self._heartbeat_s:
                await self._heartbeat()

    async def _heartbeat(self) -> None:
        request = pb.HeartbeatRequest(
            session_id=self._session,
            last_command=self._last_command,
            samples=self._samples,
        )
        sent_ns = time.monotonic_ns()
        reply = await self._stub.Heartbeat(request)
        self._heard_s = time.monotonic()
        self._samples = [
            pb.ClockSample(
                agent_sent_mono_ns=sent_ns,
                coordinator_received_mono_ns=reply.received_mono_ns,
                coordinator_sent_mono_ns=reply.sent_mono_ns,
                agent_received_mono_ns=time.monotonic_ns(),
            )
        ]

    async def begin(self) -> None:
        """Returns when the run has started."""
        async with asyncio.timeout(60):
            await self._has_begun.wait()

    async def report(self, run_id: str, *packed: bytes) -> None:
        """The next intervals, in one message; returns when they are committed."""
        reports = [
            pb.IntervalReport(
                run_id=run_id,
                agent=self.name,
                epoch=1,
                attempt=self._attempt,
                sequence=sequence,
                packed=one,
            )
            for sequence, one in enumerate(packed, self._reported)
        ]
        self._signed_s = time.monotonic()
        request = pb.IntervalReports(session_id=self._session, reports=reports)
        await self._reports.write(request)
        for reply in (await self._reports.read()).replies:
            assert reply.status == pb.ReportReply.STATUS_COMMITTED, reply.detail
        self._reported += len(reports)
        now_s = time.monotonic()
        if now_s < self._signed_s + 1:
            self._signed_s = self._heard_s = now_s

    async def finish(self, run_id: str) -> None:
        finished = pb.AgentFinished(facts_json="{}", interval_count=self._reported)
        await self._progress(run_id, finished=finished)

    async def _progress(self, run_id: str, **kind: Any) -> None:
        report = pb.ProgressReport(
            run_id=run_id, agent=self.name, epoch=1, attempt=self._attempt, **kind
        )
        await self._stub.ReportProgress(report)
