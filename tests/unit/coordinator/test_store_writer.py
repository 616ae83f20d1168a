# SPDX-License-Identifier: Apache-2.0
"""The store's thread, its owner, what goes past it, and the room that a run needs."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ldapslam.base.errors import (
    ConfigError,
    FleetError,
    RunNotFound,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreRefused,
)
from ldapslam.coordinator import store_writer
from ldapslam.coordinator.run_queue import (
    COUNTED_INTERVALS,
    OPERATION_BYTES,
    REPORT_BYTES,
    RESERVE_BYTES,
    STREAM_BYTES,
    check_store_room,
    need_of,
)
from ldapslam.coordinator.security.ownership import owned_socket, owned_store
from ldapslam.coordinator.store_writer import StoreWriter
from ldapslam.jobs.load import load_job, load_job_text
from ldapslam.jobs.plan import ReportRoom
from ldapslam.jobs.planning import run_plan
from ldapslam.results import store as results_store
from ldapslam.results.facts import AgentFacts
from ldapslam.results.records import IntervalRecord, Part, Taken
from ldapslam.results.store import Store
from ldapslam.results.upkeep import file_bytes, room_bytes
from support.fleet import job_text
from support.intervals import Interval, open_part, stored_intervals
from support.store import RUN_ID, Scenario, fill, run_record


async def create_run(writer: StoreWriter, part: Part | None = None) -> None:
    """A run in the store, and agent load1 in it when it has a part."""
    await writer.call(writer.store.create_run, run_record(Scenario()))
    if part is not None:
        await writer.call(writer.store.put_agent, RUN_ID, "load1", AgentFacts(), part)


def test_only_a_server_that_is_away_is_waited_for_at_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failures = [StoreError("away"), StoreError("away"), StoreRefused("another version")]

    def fail(url: str) -> Store:
        raise failures.pop(0)

    monkeypatch.setattr(store_writer, "_RETRY_S", 0.0)
    monkeypatch.setattr(Store, "open", fail)
    with pytest.raises(StoreRefused):
        StoreWriter("postgresql://host/store")
    failures = [StoreError("no such folder")]
    with pytest.raises(StoreError, match="no such folder"):
        StoreWriter("sqlite:///nowhere/store")


def test_a_claim_whose_connection_ends_at_the_start_is_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers: list[StoreError | None] = [StoreError("the connection ended"), None]

    def claim(owner: str) -> None:
        if failure := answers.pop(0):
            raise failure

    monkeypatch.setattr(store_writer, "_RETRY_S", 0.0)
    store: Any = SimpleNamespace(url="postgresql://host/db", path=None, claim=claim)
    with owned_store(store):
        assert not answers


async def test_a_database_that_ends_connections_at_the_start_is_asked_again(
    writer: StoreWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And once it has started, each failure is for its caller."""
    answers: list[Any] = [StoreError("the connection ended"), "runs"]

    def read() -> Any:
        if isinstance(answer := answers.pop(0), StoreError):
            raise answer
        return answer

    monkeypatch.setattr(store_writer, "_RETRY_S", 0.0)
    monkeypatch.setattr(writer, "_url", "postgresql://host/store")
    assert await writer.call(read) == "runs"
    writer.is_started = True
    answers.append(StoreError("the connection ended"))
    with pytest.raises(StoreError):
        await writer.call(read)


@contextmanager
def stuck(writer: StoreWriter) -> Iterator[None]:
    """The store is busy until what was asked for within has its turn."""
    is_free = threading.Event()
    writer.post(is_free.wait)
    try:
        yield
    finally:
        asyncio.get_running_loop().call_soon(is_free.set)


async def test_a_commit_does_not_wait_for_an_export(writer: StoreWriter) -> None:
    await create_run(writer)
    with stuck(writer):
        archive = b"".join([chunk async for chunk in writer.export(RUN_ID)])
    assert archive.startswith(b"SQLite format 3")


async def test_an_export_that_nobody_reads_to_its_end_leaves_nothing(
    tmp_path: Path,
) -> None:
    writer = StoreWriter(str(tmp_path / "results.sqlite"))
    await create_run(writer)
    chunks = writer.export(RUN_ID)
    await anext(chunks)
    await chunks.aclose()
    await writer.close()
    assert not [one for one in threading.enumerate() if one.name.startswith("export")]


class Notes:
    """Notes what it is given; without room it refuses."""

    def __init__(self) -> None:
        self.has_room = True
        self.taken: list[int] = []

    def take(self, number: int) -> None:
        if not self.has_room:
            raise StoreFull("sqlite:///x", "database or disk is full")
        self.taken.append(number)


async def test_what_a_full_store_refuses_is_written_in_its_order_when_there_is_room(
    writer: StoreWriter,
) -> None:
    store = Notes()
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
    assert store.taken == [1, 2, 3, 4, 5]


async def test_what_fails_is_kept_and_nothing_is_acknowledged_meanwhile(
    writer: StoreWriter, caplog: pytest.LogCaptureFixture
) -> None:
    store = Notes()
    is_away = True

    def write_away() -> None:
        if is_away:
            raise StoreError("the server closed the connection")
        store.take(1)

    writer.post(write_away)
    writer.post(store.take, 2)
    with pytest.raises(StoreError, match="2 writes wait for the store: the server"):
        await writer.flush()
    is_away = False
    writer.retry()
    assert await writer.call(lambda: store.taken) == [1, 2]
    assert writer.failure is None
    assert caplog.text.count("the server closed the connection") == 1


@pytest.fixture
def short_busy_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Must be requested before the store is opened."""
    monkeypatch.setattr(results_store, "_BUSY_TIMEOUT_S", 0.05)


@pytest.mark.usefixtures("short_busy_timeout")
async def test_a_locked_store_has_all_once_it_is_free(
    writer: StoreWriter, tmp_path: Path
) -> None:
    await create_run(writer)
    with closing(
        sqlite3.connect(tmp_path / "results.sqlite", isolation_level=None)
    ) as other:
        other.execute("BEGIN IMMEDIATE")
        for agent in ("load1", "load2"):
            writer.post(writer.store.put_agent, RUN_ID, agent, AgentFacts(libldap="x"))
        for _ in range(2):  # each time: what is not stored is not acknowledged
            with pytest.raises(StoreError, match="2 writes wait for the store"):
                await writer.flush()
        other.execute("ROLLBACK")
    await writer.flush()
    found = await writer.call(writer.store.agents, RUN_ID)
    assert found == {"load1": AgentFacts(libldap="x"), "load2": AgentFacts(libldap="x")}


@pytest.mark.parametrize(
    "bad",
    [
        (AgentFacts().model_copy(update={"part": object()}),),
        (AgentFacts(), open_part(1 << 64)),
    ],
)
async def test_a_write_that_is_refused_for_ever_is_told_to_its_run_alone(
    writer: StoreWriter, bad: tuple[Any, ...], caplog: pytest.LogCaptureFixture
) -> None:
    put = writer.store.put_agent
    await create_run(writer)
    with stuck(writer):
        writer.post(put, "removed", "load1", AgentFacts())
        writer.post(put, RUN_ID, "load1", *bad)
        writer.post(put, RUN_ID, "load2", AgentFacts(libldap="x"))
    await writer.flush("another run")
    with pytest.raises(StoreRefused):
        await writer.flush(RUN_ID)
    await writer.flush(RUN_ID)
    found = await writer.call(writer.store.agents, RUN_ID)
    assert found == {"load2": AgentFacts(libldap="x")}
    assert not writer.is_over
    assert "a write of a run that was removed: no run 'removed'" in caplog.text


async def test_a_store_that_is_taken_ends_all(
    writer: StoreWriter, tmp_path: Path
) -> None:
    await writer.call(writer.store.claim, "first")
    await create_run(writer)
    with Store.open(tmp_path / "results.sqlite") as store:
        store.claim("second")
    writer.post(writer.store.put_agent, RUN_ID, "load1", AgentFacts(libldap="x"))
    for _ in range(2):
        with pytest.raises(StoreError, match="another coordinator: second"):
            await writer.flush()
    assert writer.is_over


async def test_reports_that_a_locked_store_does_not_take_wait_once(
    writer: StoreWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0

    def busy(reports: object) -> None:
        nonlocal asked
        asked += 1
        raise StoreBusy("results.sqlite", 10)

    monkeypatch.setattr(writer.store, "add_intervals", busy)
    found = await report_together(writer, *((RUN_ID, number) for number in range(50)))
    assert all(isinstance(one, StoreBusy) for one in found)
    assert asked == 1


async def test_what_is_posted_together_is_one_commit(writer: StoreWriter) -> None:
    await create_run(writer)
    with stuck(writer):
        before = writer.store.writes.commits
        for number in range(100):
            writer.post(
                writer.store.put_agent, RUN_ID, f"a{number}", AgentFacts(workers=number)
            )
    await writer.flush()
    assert len(writer.store.agents(RUN_ID)) == 100
    assert writer.store.writes.commits - before <= 2


def _report(sequence: int) -> IntervalRecord:
    return Interval("load1", 1, sequence, sequence, "measure", 0, 1).record


def transactions(writer: StoreWriter, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of reports of each transaction from now on."""
    sizes: list[int] = []
    add = writer.store.add_intervals

    def counted(reports: Sequence[tuple[str, IntervalRecord]]) -> list[Taken]:
        sizes.append(len(reports))
        return add(reports)

    monkeypatch.setattr(writer.store, "add_intervals", counted)
    return sizes


async def report_together(writer: StoreWriter, *reports: tuple[str, int]) -> list[Any]:
    """Report by (run, sequence) while the store is busy."""
    with stuck(writer):
        together = [
            asyncio.create_task(writer.add_interval(run_id, _report(sequence)))
            for run_id, sequence in reports
        ]
    return await asyncio.gather(*together, return_exceptions=True)


async def test_reports_that_come_together_are_committed_together(
    writer: StoreWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create_run(writer, open_part(1))
    sizes = transactions(writer, monkeypatch)
    # sequence 0 is delivered twice
    given = (RUN_ID, 0), (RUN_ID, 1), (RUN_ID, 0), ("nosuch", 2), (RUN_ID, 3)
    found = await report_together(writer, *given)
    # the unknown run spoils the first transaction, and is alone to blame
    taken = [one.is_new for one in found if isinstance(one, Taken)]
    assert taken == [True, True, False, True]
    assert isinstance(found[3], RunNotFound)
    assert sizes == [5] + [1] * 5
    assert (await writer.add_interval(RUN_ID, _report(4))).is_new
    stored = [one.index for one in stored_intervals(writer.store, RUN_ID)]
    assert stored == [0, 1, 3, 4]
    sizes.clear()
    many = await report_together(writer, *((RUN_ID, 5 + n) for n in range(600)))
    assert all(one.is_new for one in many)
    assert sizes == [256, 256, 88]


@pytest.mark.parametrize(
    ("duration", "agents", "reports"),
    [
        # 5 intervals of 200 ms and the drain
        ("1s", 1, 6),
        ("1s", 3, 18),
        ("1h", 2, 36_002),
    ],
)
def test_each_agent_brings_a_report_of_each_interval_and_of_its_drain(
    duration: str, agents: int, reports: int
) -> None:
    job = load_job_text(job_text(duration=duration), file="job", base=None)
    need = need_of(run_plan(job), agents)
    assert need == ReportRoom(REPORT_BYTES + OPERATION_BYTES + STREAM_BYTES, reports)


def test_a_run_that_ends_with_its_counts_or_its_log_needs_no_room_for_a_day() -> None:
    log = {
        "name": "log",
        "target": "replica",
        "load": {"trace": {"logs": ["access.log"], "connections": 4, "speed": "max"}},
    }
    for job in (
        load_job(Path(__file__).parents[3] / "configs/jobs/import.yaml"),
        load_job_text(job_text(duration="10h", streams=[log]), file="job", base=None),
    ):
        assert need_of(run_plan(job), 2).reports == 2 * (COUNTED_INTERVALS + 1)


NEED = ReportRoom(report_bytes=1 << 20, reports=10)
ENOUGH = (10 << 20) + RESERVE_BYTES


def test_too_little_room_is_refused_with_figures_and_remedy() -> None:
    store = "results.sqlite"
    for free_bytes in (ENOUGH, None):
        check_store_room(NEED, free_bytes=free_bytes, store=store)
    with pytest.raises(FleetError) as caught:
        check_store_room(NEED, free_bytes=ENOUGH - 1, store=store)
    assert "10 MiB (10 reports of 1 MiB)" in str(caught.value)
    assert "the disk of 'results.sqlite' has 26 MiB left" in str(caught.value)
    assert "results prune" in str(caught.value.hint)


def test_the_estimate_is_above_what_a_run_brings_and_not_far_above(
    tmp_path: Path,
) -> None:
    sizes = []
    for seconds in (3, 23):
        path = tmp_path / f"{seconds}.sqlite"
        with Store.open(path) as store:
            assert (room_bytes(store) or 0) > 0
            fill(store, Scenario(agents=("a",), measure_s=seconds))
        # closed: the log beside the file is part of the reserve
        sizes.append(file_bytes(path))
    brought = (sizes[1] - sizes[0]) / 20
    asked = need_of(run_record(Scenario()).plan, 1).report_bytes
    assert brought < asked < 3 * brought
    with Store.open("sqlite://") as store:
        assert room_bytes(store) is None, "of one without a file nothing is known"


# A store has one coordinator, and a dead coordinator does not block the next.


def test_a_store_has_one_coordinator(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    link = tmp_path / "same.sqlite"
    link.symlink_to(path)
    with Store.open(path) as store, owned_store(store):
        lock = tmp_path / "results.sqlite.lock"
        assert stat.S_IMODE(lock.stat().st_mode) == 0o600
        with (
            Store.open(link) as second,
            pytest.raises(ConfigError, match="in use by a coordinator") as refusal,
            owned_store(second),
        ):
            pass
        assert f"process {os.getpid()} on " in (refusal.value.hint or "")
        # reports are made beside it
        with Store.open(path, read_only=True) as reader:
            assert reader.runs() == []
    assert not lock.exists()


def test_what_a_dead_coordinator_left_behind_is_taken_over(tmp_path: Path) -> None:
    (tmp_path / "socket.lock").write_text("process 1 on mars")
    with owned_socket(tmp_path / "socket"):
        pass
    with owned_socket(tmp_path / "socket"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_place_where_nothing_can_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(ConfigError, match=r"file/socket\.lock' cannot be locked"),
        owned_socket(tmp_path / "file" / "socket"),
    ):
        pass
