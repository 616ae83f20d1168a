# SPDX-License-Identifier: Apache-2.0
"""The guard's watch goes on, whatever a list of revoked certificates holds."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from ldapslam.coordinator.security import guard
from ldapslam.coordinator.security.audit_log import AuditLog
from ldapslam.coordinator.security.guard import Guard
from ldapslam.coordinator.store_writer import StoreWriter
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
