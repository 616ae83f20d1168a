# SPDX-License-Identifier: Apache-2.0
"""The health service of gRPC (grpc.health.v1): SERVING while the store takes writes.

The store is tested when nothing was committed for a while, and until it recovers.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator

from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from ldapslam.base.errors import StoreError
from ldapslam.coordinator.control import Coordinator
from ldapslam.coordinator.extension import Extension
from ldapslam.coordinator.security.guard import Context, Server
from ldapslam.coordinator.store_writer import StoreWriter
from ldapslam.results.upkeep import check_writable

_log = logging.getLogger(__name__)

#: The whole server, and its services one by one: all depend on the store.
SERVICES = (
    "",
    "ldapslam.v1.AgentService",
    "ldapslam.v1.OperatorService",
    "ldapslam.v1.ScheduleService",
)

CHECK_EVERY_S = 5.0
#: A busy store waits for 10 s.
_CHECK_TIMEOUT_S = 15.0

_Response = health_pb2.HealthCheckResponse


class HealthService(health_pb2_grpc.HealthServicer):  # type: ignore[misc]
    """Check, and Watch for any number of watchers."""

    def __init__(self) -> None:
        self._statuses = dict.fromkeys(SERVICES, _Response.NOT_SERVING)
        self._changed = asyncio.Condition()
        # only used to refuse unknown services
        self._refusing = health.aio.HealthServicer()

    async def Check(
        self, request: health_pb2.HealthCheckRequest, context: Context
    ) -> health_pb2.HealthCheckResponse:
        if request.service not in self._statuses:
            await self._refusing.Check(request, context)
        return _Response(status=self._statuses[request.service])

    async def Watch(
        self, request: health_pb2.HealthCheckRequest, context: Context
    ) -> AsyncGenerator[health_pb2.HealthCheckResponse, None]:
        while True:
            told = self._status(request.service)
            yield _Response(status=told)
            await self._changed_from(told, request.service)

    async def _changed_from(self, told: int, service: str) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._status(service) != told)

    def _status(self, service: str) -> int:
        return int(self._statuses.get(service, _Response.SERVICE_UNKNOWN))

    async def set_serving(self, is_serving: bool) -> None:
        status = _Response.SERVING if is_serving else _Response.NOT_SERVING
        async with self._changed:
            self._statuses = dict.fromkeys(SERVICES, status)
            self._changed.notify_all()


class Health(Extension):
    """The service, and the looking after the store that it tells of."""

    def __init__(self, check_every_s: float = CHECK_EVERY_S) -> None:
        self.service = HealthService()
        self._check_every_s = check_every_s
        self._is_serving: bool | None = None
        self._watching: asyncio.Task[None] | None = None

    async def start(self, coordinator: Coordinator, server: Server) -> None:
        health_pb2_grpc.add_HealthServicer_to_server(self.service, server)
        await self._look(coordinator.writer)
        self._watching = asyncio.create_task(self._watch(coordinator.writer))

    async def stop(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        await self.service.set_serving(False)

    async def _watch(self, writer: StoreWriter) -> None:
        while True:
            await asyncio.sleep(self._check_every_s)
            try:
                await self._look(writer)
            except Exception:
                _log.exception("the store cannot be looked at")
                await self._set(False, "it cannot be looked at")

    async def _look(self, writer: StoreWriter) -> None:
        writes = writer.store.writes
        idle_s = time.monotonic() - (writes.committed_s or 0.0)
        if writes.failure is not None or idle_s > self._check_every_s:
            try:
                async with asyncio.timeout(_CHECK_TIMEOUT_S):
                    await writer.call(check_writable, writer.store)
            except (StoreError, TimeoutError) as error:
                why = str(error) or f"no answer within {_CHECK_TIMEOUT_S:g} s"
                await self._set(False, why)
                return
        await self._set(writer.failure is None, str(writer.failure or ""))

    async def _set(self, is_serving: bool, why: str) -> None:
        if is_serving != self._is_serving:
            self._is_serving = is_serving
            if is_serving:
                _log.info("the store takes writes: serving")
            else:
                _log.error("the store takes no writes: not serving: %s", why)
        await self.service.set_serving(is_serving)
