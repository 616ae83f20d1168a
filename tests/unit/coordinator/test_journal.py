# SPDX-License-Identifier: Apache-2.0
"""The store's thread, and what goes past it."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

from ldapslam.coordinator.journal import Journal
from support.store import RUN_ID, Scenario, run_record


def test_a_commit_does_not_wait_for_an_export(tmp_path: Path) -> None:
    async def export_beside_a_stuck_store() -> bytes:
        journal = Journal(str(tmp_path / "results.sqlite"))
        await journal.call(journal.store.create_run, run_record(Scenario()))
        is_exported = threading.Event()
        journal.post(is_exported.wait)
        try:
            return b"".join([chunk async for chunk in journal.export(RUN_ID)])
        finally:
            is_exported.set()
            await journal.close()

    archive = asyncio.run(export_beside_a_stuck_store())
    assert archive.startswith(b"SQLite format 3")


def test_an_export_that_nobody_reads_to_its_end_leaves_nothing(tmp_path: Path) -> None:
    async def begin_to_export() -> None:
        journal = Journal(str(tmp_path / "results.sqlite"))
        await journal.call(journal.store.create_run, run_record(Scenario()))
        chunks = journal.export(RUN_ID)
        await anext(chunks)
        await chunks.aclose()
        await journal.close()

    asyncio.run(begin_to_export())
    assert not [one for one in threading.enumerate() if one.name.startswith("export")]
