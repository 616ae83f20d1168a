# SPDX-License-Identifier: Apache-2.0
"""Looking after a store: lists, copies, pruning, shrinking, and the note of writes."""

from __future__ import annotations

import math
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from ldapslam.base.errors import ConfigError, StoreError
from ldapslam.jobs.run_plan import RunPlan
from ldapslam.results import rows, schedule_store, schema, upkeep
from ldapslam.results.facts import Manifest, Said
from ldapslam.results.records import RunRecord, SubmissionRecord
from ldapslam.results.schedule_store import FireRecord, ScheduleRecord
from ldapslam.results.store import Store
from support.intervals import Interval, add_interval, stored_intervals
from support.monitors import add_monitors
from support.store import RUN_ID, Scenario, fill, intervals, run_record

SMALL = Scenario(measure_s=2, searches_per_s=20)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "results.sqlite") as store:
        yield store


def a_run(number: int, **fields: object) -> RunRecord:
    """A run that was submitted in minute `number` and ended a minute later."""
    record = replace(
        run_record(SMALL),
        run_id=f"run-{number}",
        submitted_utc=f"2026-03-01T12:{number:02}:00.000000Z",
        finished_utc=f"2026-03-01T12:{number + 1:02}:00.000000Z",
    )
    return replace(record, **fields)  # type: ignore[arg-type]


def ids(store: Store) -> list[str]:
    return [run.run_id for run in store.runs()]


# Lists.


@pytest.mark.parametrize("plan", [None, RunPlan()])
@pytest.mark.parametrize("failure", [None, {"class": "RunAborted"}])
def test_a_list_has_all_of_a_run_but_what_is_long(
    store: Store, plan: RunPlan | None, failure: Said | None
) -> None:
    manifest = Manifest(failure=failure, job_file="x" * 9999)
    record = a_run(1, verdict="FAIL", manifest=manifest)
    if plan is not None:
        record = replace(record, plan=plan)
    store.create_run(record)
    brief = replace(record, job_text="", plan=RunPlan(phases=record.plan.phases))
    assert store.runs() == [replace(brief, manifest=Manifest(failure=failure))]


def test_a_list_is_newest_first_and_as_long_as_wanted(store: Store) -> None:
    store.create_run(a_run(2))
    store.create_run(a_run(0, state="running"))
    store.create_run(a_run(1))
    assert [run.run_id for run in store.runs(2)] == ["run-2", "run-1"]
    assert [run.run_id for run in store.runs()] == ["run-2", "run-1", "run-0"]
    live = store.runs(states=["running", "queued"])
    assert [run.run_id for run in live] == ["run-0"]


def test_a_short_list_of_many_runs_reads_only_those_by_an_index(store: Store) -> None:
    query = (
        "EXPLAIN QUERY PLAN SELECT run_id FROM run "
        "ORDER BY submitted_utc DESC, run_id DESC LIMIT 20"
    )
    with store.transaction() as connection:
        steps = [row[-1] for row in connection.exec_driver_sql(query)]
    assert len(steps) == 1
    assert "run_by_submission" in steps[0]


# The note of writes.


def test_writes_are_counted_and_timed_and_a_failure_is_noted_until_the_next(
    store: Store,
) -> None:
    before = store.writes.commits
    store.create_run(a_run(1))
    store.runs()
    assert store.writes.commits == before + 1
    assert store.writes.total_s >= store.writes.last_s > 0
    twice = schema.run.insert().values(rows.run_row(a_run(1)))
    with pytest.raises(StoreError), store.transaction(writes=True) as connection:
        connection.execute(twice)
    assert store.writes.failures == 1
    assert "UNIQUE" in str(store.writes.failure)
    upkeep.check_writable(store)
    assert store.writes.failure is None
    assert store.path is not None
    with Store.open(store.path, read_only=True) as reader:
        with pytest.raises(StoreError, match="readonly"):
            upkeep.check_writable(reader)
        assert reader.writes.failure is not None


# Copies.


def test_a_copy_holds_everything_in_one_private_file(
    store: Store, tmp_path: Path
) -> None:
    fill(store, SMALL)
    target = tmp_path / "copy.sqlite"
    size = upkeep.back_up(store, target)
    assert size == target.stat().st_size > 0
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir() if "copy" in path.name) == [
        "copy.sqlite"
    ]
    target.chmod(0o400)
    with Store.open(target, read_only=True) as copy:
        assert copy.runs() == store.runs()
        assert stored_intervals(copy, RUN_ID) == stored_intervals(store, RUN_ID)


@contextmanager
def writing(write: Callable[[int], None]) -> Iterator[list[int]]:
    """The numbers of the writes that a thread has done so far; it goes on."""
    ended = threading.Event()
    written: list[int] = []

    def go_on() -> None:
        while not ended.is_set():
            write(len(written))
            written.append(len(written))

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield written
    finally:
        ended.set()
        thread.join()


def test_a_copy_is_made_while_another_one_writes_and_is_of_one_moment(
    store: Store, tmp_path: Path
) -> None:
    store.create_run(run_record(SMALL))

    def write(number: int) -> None:
        record = Interval("load1", 1, number, number, "measure", number, number)
        add_interval(store, RUN_ID, record)

    with writing(write) as written:
        for number in range(5):
            before = len(written)
            upkeep.back_up(store, tmp_path / f"copy-{number}")
            with Store.open(tmp_path / f"copy-{number}", read_only=True) as copy:
                found = [one.index for one in stored_intervals(copy, RUN_ID)]
            assert found == list(range(len(found)))
            assert len(found) >= before
    assert len(written) > 5


def test_a_copy_overwrites_nothing_and_leaves_nothing_when_it_fails(
    store: Store, tmp_path: Path
) -> None:
    target = tmp_path / "copy.sqlite"
    target.write_text("mine")
    with pytest.raises(ConfigError, match="exists"):
        upkeep.back_up(store, target)
    assert target.read_text() == "mine"
    with pytest.raises(ConfigError, match="cannot be written"):
        upkeep.back_up(store, tmp_path / "nosuch" / "copy.sqlite")
    assert not list(tmp_path.glob(".copy*"))


def test_a_damaged_store_gives_no_copy(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    with Store.open(path) as store:
        fill(store, Scenario(measure_s=20))
        store._leave_wal()
    content = bytearray(path.read_bytes())
    for page in range(45, len(content) // 4096, 3):
        content[page * 4096 : page * 4096 + 512] = b"\xff" * 512
    path.write_bytes(content)
    store = Store.open(path, read_only=True)
    with store, pytest.raises(StoreError, match="no copy"):
        upkeep.back_up(store, tmp_path / "copy.sqlite")
    assert not (tmp_path / "copy.sqlite").exists()


# Pruning.


@pytest.mark.parametrize(
    ("before_utc", "keep_runs", "gone"),
    [
        ("2026-03-01T12:03:00.000000Z", None, ["run-0", "run-1"]),
        (None, 2, ["run-0", "run-1", "run-2"]),
        (None, 0, ["run-0", "run-1", "run-2", "run-3", "run-4"]),
        # what either rule keeps is kept
        ("2026-03-01T12:05:00.000000Z", 3, ["run-0", "run-1"]),
        ("2026-03-01T12:02:00.000000Z", 3, ["run-0"]),
        ("2026-03-01T11:00:00.000000Z", None, []),
        (None, 9, []),
    ],
)
def test_runs_go_that_no_rule_keeps(
    store: Store, before_utc: str | None, keep_runs: int | None, gone: list[str]
) -> None:
    for number in range(5):
        store.create_run(a_run(number))
    runs = upkeep.prunable(store, ended_before_utc=before_utc, keep_runs=keep_runs)
    assert [run.run_id for run in runs] == gone


def test_runs_that_have_not_ended_and_those_waited_for_stay(store: Store) -> None:
    states = ["queued", "running", "draining", "finished", "failed", "cancelled"]
    for number, state in enumerate(states):
        store.create_run(a_run(number, state=state))
    waiting = SubmissionRecord(b"", after_run="run-4")
    store.create_run(a_run(9, state="queued"), waiting)
    runs = upkeep.prunable(store, ended_before_utc=None, keep_runs=0)
    assert [run.run_id for run in runs] == ["run-3", "run-5"]
    with pytest.raises(StoreError, match="it has not ended"):
        upkeep.remove_run(store, "run-1")
    assert store.run("run-1").state == "running"


def rows_of(store: Store, run_id: str) -> int:
    with store.transaction() as connection:
        return sum(
            connection.scalar(
                sa.select(sa.func.count())
                .select_from(table)
                .where(table.c.run_id == run_id)
            )
            or 0
            for table in schema.TABLES
        )


def test_a_removed_run_leaves_no_row_and_takes_no_other(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "_FIRST_ROWS", 2)
    monkeypatch.setattr(upkeep, "_PAUSE_S", 0)
    fill(store, SMALL)
    add_monitors(store, RUN_ID, 9)
    store.create_run(a_run(1))
    for record in intervals(SMALL):
        add_interval(store, "run-1", record)
    other = rows_of(store, "run-1")
    assert rows_of(store, RUN_ID) > 35
    before = store.writes.commits
    upkeep.remove_run(store, RUN_ID)
    # readings, too, go in batches
    assert store.writes.commits >= before + 8
    assert rows_of(store, RUN_ID) == 0
    assert rows_of(store, "run-1") == other
    upkeep.remove_run(store, RUN_ID)


def test_others_write_while_a_long_run_is_removed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "_FIRST_ROWS", 1)
    monkeypatch.setattr(upkeep, "_BATCH_S", 0)
    fill(store, SMALL)
    store.create_run(a_run(1))
    assert store.path is not None
    with Store.open(store.path) as other:

        def write(number: int) -> None:
            other.add_event("run-1", "x", f"{number}", "2026-03-01T12:00:00Z")

        with writing(write) as written:
            upkeep.remove_run(store, RUN_ID)
    # at least once for every other batch
    assert len(written) >= 4
    assert len(store.events("run-1")) == len(written)


def test_a_run_of_many_agents_does_not_take_a_pause_for_each_few_rows(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "_FIRST_ROWS", 1)
    monkeypatch.setattr(upkeep, "_BATCH_S", 3600.0)
    pauses: list[float] = []
    monkeypatch.setattr("ldapslam.results.upkeep.time.sleep", pauses.append)
    fill(store, Scenario(measure_s=60))
    rows = upkeep.info(store).intervals
    assert rows > 100
    upkeep.remove_run(store, RUN_ID)
    assert upkeep.info(store).intervals == 0
    # batches of 1, 4, 16, 64, …
    assert 3 <= len(pauses) <= math.log(rows, 4) + 1


def test_a_removal_that_is_interrupted_leaves_no_run_that_looks_whole(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store, SMALL)
    store.set_verdict(RUN_ID, "PASS")

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(upkeep, "_remove", fail)
    with pytest.raises(KeyboardInterrupt):
        upkeep.remove_run(store, RUN_ID)
    left = store.run(RUN_ID)
    assert (left.state, left.verdict) == ("failed", "INVALID")
    assert "prune" in left.state_detail
    monkeypatch.undo()
    upkeep.remove_run(store, RUN_ID)
    assert ids(store) == []


def test_a_schedules_latest_times_stay_and_those_being_submitted(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "KEPT_TIMES", 3)
    monkeypatch.setattr(upkeep, "_FIRST_ROWS", 2)
    monkeypatch.setattr(upkeep, "_PAUSE_S", 0)
    outcomes = {0: "submitting", 1: "missed"}

    def due(minute: int) -> str:
        return f"2026-03-01T12:{minute:02}:00.000000Z"

    for schedule, count in (("s-1", 10), ("s-2", 2)):
        made = ScheduleRecord(schedule, schedule, b"", "active", due(0), "ann", due(0))
        schedule_store.create_schedule(store, made)
        fires = [
            FireRecord(schedule, due(n), due(n), outcomes.get(n, "submitted"))
            for n in range(count)
        ]
        schedule_store.settle(store, schedule, fires, due(count - 1))
    assert upkeep.old_times(store, due(3)) == 2
    assert upkeep.remove_times(store, due(3)) == 2
    assert upkeep.remove_times(store, None) == 4
    assert upkeep.old_times(store, None) == 0
    kept = [fire.due_utc for fire in schedule_store.fires(store, "s-1", 99)]
    assert kept == [due(9), due(8), due(7), due(0)]
    assert len(schedule_store.fires(store, "s-2", 99)) == 2


# Sizes.


def test_space_of_pruned_runs_is_free_and_a_shrunk_store_gives_it_back(
    store: Store,
) -> None:
    fill(store, Scenario(measure_s=60))
    before = upkeep.info(store)
    assert before.runs == {"finished": 1}
    assert before.intervals > 100
    assert before.free_bytes is not None
    upkeep.remove_run(store, RUN_ID)
    pruned = upkeep.info(store)
    assert pruned.intervals == 0
    assert pruned.free_bytes is not None
    assert pruned.free_bytes > before.free_bytes + 200_000
    upkeep.shrink(store)
    after = upkeep.info(store)
    assert after.free_bytes == 0
    assert after.size_bytes < pruned.size_bytes - pruned.free_bytes / 2
    fill(store, SMALL)
    assert ids(store) == [RUN_ID]


def test_shrinking_waits_for_nobody_who_reads_for_ever(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store, SMALL)
    assert store.path is not None
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    connect = sqlite3.connect

    def impatient(*arguments: object, **more: object) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **{**more, "timeout": 0.1})  # type: ignore[call-overload]
        return connection

    monkeypatch.setattr(sqlite3, "connect", impatient)
    with pytest.raises(StoreError, match="locked"):
        upkeep.shrink(store)
    other.close()


def test_what_is_sqlites_own_says_what_to_do_elsewhere(store: Store) -> None:
    store.path = None
    with pytest.raises(ConfigError) as refused:
        upkeep.back_up(store, Path("x"))
    assert "pg_dump" in str(refused.value.hint)
    with pytest.raises(ConfigError) as refused:
        upkeep.shrink(store)
    assert "VACUUM" in str(refused.value.hint)
