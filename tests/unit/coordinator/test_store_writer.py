# SPDX-License-Identifier: Apache-2.0
"""The store's thread, and what goes past it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from ldapslam.base.errors import RunNotFound, StoreError, StoreFull
from ldapslam.coordinator.store_writer import StoreWriter
from ldapslam.results.records import IntervalRecord
from support.store import RUN_ID, Scenario, run_record
from support.stored import stored_intervals


def test_a_commit_does_not_wait_for_an_export(tmp_path: Path) -> None:
    async def export_beside_a_stuck_store() -> bytes:
        writer = StoreWriter(str(tmp_path / "results.sqlite"))
        await writer.call(writer.store.create_run, run_record(Scenario()))
        is_exported = threading.Event()
        writer.post(is_exported.wait)
        try:
            return b"".join([chunk async for chunk in writer.export(RUN_ID)])
        finally:
            is_exported.set()
            await writer.close()

    archive = asyncio.run(export_beside_a_stuck_store())
    assert archive.startswith(b"SQLite format 3")


def test_an_export_that_nobody_reads_to_its_end_leaves_nothing(tmp_path: Path) -> None:
    async def begin_to_export() -> None:
        writer = StoreWriter(str(tmp_path / "results.sqlite"))
        await writer.call(writer.store.create_run, run_record(Scenario()))
        chunks = writer.export(RUN_ID)
        await anext(chunks)
        await chunks.aclose()
        await writer.close()

    asyncio.run(begin_to_export())
    assert not [one for one in threading.enumerate() if one.name.startswith("export")]


class Store:
    """Notes what it is given; without room it refuses."""

    def __init__(self) -> None:
        self.has_room = True
        self.taken: list[int] = []

    def take(self, number: int) -> None:
        if not self.has_room:
            raise StoreFull("sqlite:///x", "database or disk is full")
        self.taken.append(number)


def test_what_a_full_store_refuses_is_written_in_its_order_when_there_is_room(
    tmp_path: Path,
) -> None:
    store = Store()

    async def write() -> None:
        writer = StoreWriter(str(tmp_path / "results.sqlite"))
        try:
            writer.post(store.take, 1)
            await writer.flush()
            store.has_room = False
            for number in (2, 3):
                writer.post(store.take, number)
            # who waits for it is told; it is not done behind his back later
            with pytest.raises(StoreFull):
                await writer.call(store.take, 100)
            writer.post(store.take, 4)
            with pytest.raises(StoreFull, match="3 writes wait for room"):
                await writer.flush()
            assert store.taken == [1]
            store.has_room = True
            # what is awaited comes after what was posted before it
            await writer.call(store.take, 5)
            await writer.flush()
        finally:
            await writer.close()

    asyncio.run(write())
    assert store.taken == [1, 2, 3, 4, 5]


def test_a_write_that_fails_otherwise_is_logged_and_holds_nothing_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = Store()

    def fail() -> None:
        raise StoreError("the disk is broken")

    async def write() -> None:
        writer = StoreWriter(str(tmp_path / "results.sqlite"))
        writer.post(fail)
        writer.post(store.take, 1)
        await writer.close()

    asyncio.run(write())
    assert store.taken == [1]
    assert "the disk is broken" in caplog.text


def _report(sequence: int) -> IntervalRecord:
    return IntervalRecord("load1", 1, sequence, sequence, "measure", 0, 1)


def test_reports_that_come_together_are_committed_together(tmp_path: Path) -> None:
    async def report() -> tuple[list[object], int, list[int]]:
        writer = StoreWriter(str(tmp_path / "results.sqlite"))
        await writer.call(writer.store.create_run, run_record(Scenario()))
        commits = 0
        add = writer.store.add_intervals

        def counted(reports: Sequence[tuple[str, IntervalRecord]]) -> list[bool]:
            nonlocal commits
            commits += 1
            return add(reports)

        writer.store.add_intervals = counted  # type: ignore[method-assign]
        is_stuck = threading.Event()
        writer.post(is_stuck.wait)
        together = [
            asyncio.create_task(writer.add_interval(run_id, _report(sequence)))
            for run_id, sequence in (
                (RUN_ID, 0),
                (RUN_ID, 1),
                (RUN_ID, 0),  # delivered twice
                ("nosuch", 2),
                (RUN_ID, 3),
            )
        ]
        # after all of them have asked
        asyncio.get_running_loop().call_soon(is_stuck.set)
        found = await asyncio.gather(*together, return_exceptions=True)
        first = commits
        assert await writer.add_interval(RUN_ID, _report(4)) is True
        stored = [one.index for one in stored_intervals(writer.store, RUN_ID)]
        await writer.close()
        return list(found), first, stored

    found, commits, stored = asyncio.run(report())
    # the unknown run spoils the first transaction, and is alone to blame
    assert [one for one in found if isinstance(one, bool)] == [True, True, False, True]
    assert isinstance(found[3], RunNotFound)
    assert stored == [0, 1, 3, 4]
    assert commits == 1 + 5  # together, then one by one


def test_a_batch_is_one_transaction(tmp_path: Path) -> None:
    async def report() -> list[int]:
        writer = StoreWriter(str(tmp_path / "results.sqlite"))
        await writer.call(writer.store.create_run, run_record(Scenario()))
        sizes = []
        add = writer.store.add_intervals

        def noted(reports: Sequence[tuple[str, IntervalRecord]]) -> list[bool]:
            sizes.append(len(reports))
            return add(reports)

        writer.store.add_intervals = noted  # type: ignore[method-assign]
        is_stuck = threading.Event()
        writer.post(is_stuck.wait)
        tasks = [
            asyncio.create_task(writer.add_interval(RUN_ID, _report(sequence)))
            for sequence in range(100)
        ]
        asyncio.get_running_loop().call_soon(is_stuck.set)
        assert all(await asyncio.gather(*tasks))
        await writer.close()
        return sizes

    assert asyncio.run(report()) == [64, 36]
