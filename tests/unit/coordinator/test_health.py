# SPDX-License-Identifier: Apache-2.0
"""What the health service answers, whom it tells, and when it asks the store."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import grpc
import pytest
from grpc_health.v1 import health_pb2

from ldapslam.base.errors import StoreError
from ldapslam.coordinator.outputs import health as module
from ldapslam.coordinator.outputs.health import SERVICES, Health, HealthService
from ldapslam.coordinator.store_writer import StoreWriter
from ldapslam.results.store import Store
from support.call_context import CallContext, Refused

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN


def asking(service: str = "") -> health_pb2.HealthCheckRequest:
    return health_pb2.HealthCheckRequest(service=service)


async def status(service: HealthService, name: str = "") -> int:
    return int((await service.Check(asking(name), CallContext())).status)


async def test_all_services_have_one_status_and_another_is_refused() -> None:
    service = HealthService()
    assert {await status(service, name) for name in SERVICES} == {NOT_SERVING}
    await service.set_serving(True)
    assert {await status(service, name) for name in SERVICES} == {SERVING}
    context = CallContext()
    with pytest.raises(Refused):
        await service.Check(asking("nosuch"), context)
    assert context.code == grpc.StatusCode.NOT_FOUND


async def test_each_watcher_is_told_of_each_change_also_when_another_leaves() -> None:
    service = HealthService()
    async with (
        aclosing(service.Watch(asking(), CallContext())) as one,
        aclosing(service.Watch(asking(), CallContext())) as other,
        aclosing(service.Watch(asking("nosuch"), CallContext())) as stranger,
    ):
        assert (await anext(one)).status == NOT_SERVING
        assert (await anext(other)).status == NOT_SERVING
        assert (await anext(stranger)).status == UNKNOWN
        await one.aclose()
        waiting = asyncio.ensure_future(anext(other))
        await asyncio.wait({waiting}, timeout=0)
        await service.set_serving(True)
        assert (await waiting).status == SERVING
        # a change between two questions is not lost, no change is no news
        await service.set_serving(False)
        assert (await anext(other)).status == NOT_SERVING
        waiting = asyncio.ensure_future(anext(other))
        await service.set_serving(False)
        done, _ = await asyncio.wait({waiting}, timeout=0)
        assert done == set()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def test_a_store_that_just_took_a_write_is_not_asked(
    writer: StoreWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Store] = []
    monkeypatch.setattr(module, "check_writable", asked.append)
    busy, idle = Health(check_every_s=3600), Health(check_every_s=-1)
    await busy._look(writer)
    assert (asked, await status(busy.service)) == ([], SERVING)
    await idle._look(writer)
    assert (asked, await status(idle.service)) == ([writer.store], SERVING)
    writer.store.writes.note_failure("disk full")
    await busy._look(writer)
    assert len(asked) == 2


async def test_a_store_that_refuses_or_does_not_answer_is_not_serving_until_it_does(
    writer: StoreWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[Exception] = [StoreError("disk full"), TimeoutError()]

    def check(store: Store) -> None:
        if failures:
            raise failures.pop(0)

    monkeypatch.setattr(module, "check_writable", check)
    health = Health(check_every_s=-1)
    for expected in (NOT_SERVING, NOT_SERVING, SERVING):
        await health._look(writer)
        assert await status(health.service) == expected
