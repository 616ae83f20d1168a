# SPDX-License-Identifier: Apache-2.0
"""The guard's watch goes on, whatever a list of revoked certificates holds, and changes
are finished, whatever their callers do."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ldapslam.coordinator.security import guard
from ldapslam.coordinator.security.audit_log import AuditLog
from ldapslam.coordinator.security.guard import Guard
from ldapslam.coordinator.store_writer import StoreWriter
from ldapslam.proto.operator_pb2 import CancelRunRequest
from ldapslam.transport.pki.revocation import Revocations


class Unreadable(Revocations):
    def __init__(self, enough: asyncio.Event) -> None:
        super().__init__(None, ())
        self._enough = enough
        self._loop = asyncio.get_running_loop()
        self._looks = 0

    def refresh(self) -> None:
        self._looks += 1
        if self._looks == 3:
            self._loop.call_soon_threadsafe(self._enough.set)
        raise RuntimeError("for the test")


def test_the_watch_outlives_a_list_that_cannot_be_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "_LOOK_EVERY_S", 0)

    async def work() -> None:
        writer = StoreWriter(str(tmp_path / "results.sqlite"))
        try:
            enough = asyncio.Event()
            watching = asyncio.create_task(
                Guard(AuditLog(writer), Unreadable(enough)).watch()
            )
            await asyncio.wait_for(enough.wait(), 5)
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching
        finally:
            await writer.close()

    asyncio.run(work())


class _Handler(NamedTuple):
    unary_unary: Any
    unary_stream: Any = None
    request_deserializer: Any = CancelRunRequest.FromString


class _Context:
    """Of a call over a Unix socket."""

    def auth_context(self) -> dict[str, list[bytes]]:
        return {}

    def peer(self) -> str:
        return "unix:"


@pytest.mark.parametrize("steps", range(4))
def test_a_change_is_finished_when_its_caller_hangs_up(steps: int) -> None:
    done: list[str] = []

    async def change(request: CancelRunRequest, context: object) -> None:
        for step in ("changed", "noted"):
            await asyncio.to_thread(done.append, step)

    async def call() -> None:
        ours = Guard(AuditLog(None), None)  # type: ignore[arg-type]
        method = "/ldapslam.v1.OperatorService/CancelRun"
        handler = ours.guarded(method, _Handler(change))
        assert handler is not None
        calling = asyncio.create_task(handler.unary_unary(b"", _Context()))
        for _ in range(steps):
            await asyncio.to_thread(int)
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
        await ours.finish()

    asyncio.run(call())
    assert done in ([], ["changed", "noted"])
    assert done or steps == 0, "not admitted yet"
