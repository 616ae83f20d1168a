# SPDX-License-Identifier: Apache-2.0
"""The results store: idempotent, ordered, portable, and careful with what it opens."""

from __future__ import annotations

import math
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ldapslam.base.errors import (
    AmbiguousRun,
    ExitCode,
    NoStore,
    OtherSchema,
    RunNotFound,
    StoreError,
    StoreRefused,
    StoreTaken,
)
from ldapslam.results import columns
from ldapslam.results.facts import AgentFacts, Manifest
from ldapslam.results.monitor_rows import (
    add_monitor_samples,
    describe_monitors,
    monitor_series,
)
from ldapslam.results.packing import pack, unpack
from ldapslam.results.records import MonitorSample, MonitorSeries, Taken
from ldapslam.results.store import FOLDER_STORE, Store
from support.intervals import Interval, add_interval, open_part, stored_intervals
from support.monitors import PROCESS, SERVER, add_monitors, descriptions, samples
from support.rows import OperationRow, snapshot_of
from support.store import RUN_ID, Scenario, fill, intervals, run_record

SMALL = Scenario(measure_s=2, searches_per_s=20)


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open("sqlite://") as store:
        yield store


def test_a_store_is_for_its_owner_and_outlives_a_loss_of_power(tmp_path: Path) -> None:
    with Store.open(tmp_path / "results.sqlite") as store:
        store.create_run(run_record(SMALL))
        modes = {stat.S_IMODE(one.stat().st_mode) for one in tmp_path.iterdir()}
        with store.transaction() as connection:
            mode = connection.exec_driver_sql("PRAGMA synchronous").scalar()
    assert modes == {0o600}
    assert mode == 2, "FULL: the log is on the disk before a commit returns"


def test_a_run_is_created_once_and_its_id_is_no_other_runs(store: Store) -> None:
    record = replace(run_record(SMALL), seed=2**64 - 1)
    assert store.create_run(record)
    assert store.run(RUN_ID) == record
    store.set_run_state(RUN_ID, "failed")
    assert not store.create_run(record)
    assert store.run(RUN_ID).state == "failed"
    with pytest.raises(StoreRefused, match="another run"):
        store.create_run(replace(record, job_hash="other"))


def test_intervals_are_read_as_they_were_written_by_index_then_agent(
    store: Store,
) -> None:
    written = list(intervals(SMALL))
    store.create_run(run_record(SMALL))
    for record in reversed(written):
        add_interval(store, RUN_ID, record)
    assert stored_intervals(store, RUN_ID) == written


@pytest.mark.parametrize(
    "indexes", [range(0, 300, 3), (0, 2**31 - 1)], ids=["windows", "far apart"]
)
def test_intervals_are_read_in_windows_without_a_seam(
    store: Store, indexes: Sequence[int]
) -> None:
    store.create_run(run_record(SMALL))
    for index in indexes:
        record = Interval("load1", 1, index, index, "measure", index, index + 1)
        add_interval(store, RUN_ID, record)
    stored = stored_intervals(store, RUN_ID)
    assert [one.index for one in stored] == list(indexes)


def test_a_report_counts_only_where_its_agent_has_a_place_for_it(store: Store) -> None:
    store.create_run(run_record(SMALL))
    first = Interval("load1", 7, 0, 0, "measure", 0, 1)

    def refusal(of: Interval) -> str:
        return store.add_interval(RUN_ID, of.record).refusal

    assert "another attempt" in refusal(first), "the agent has no part yet"
    store.put_agent(RUN_ID, "load1", AgentFacts(), open_part(7))
    assert store.add_interval(RUN_ID, first.record).is_new
    assert "another attempt" in refusal(replace(first, attempt=6))
    altered = replace(first, end_ns=2)
    assert "interval 0 has another report" in refusal(altered)
    assert "interval 0 has another report" in refusal(replace(first, sequence=1))
    drain = replace(first, sequence=1, final=True)
    assert store.add_interval(RUN_ID, drain.record).is_new
    assert stored_intervals(store, RUN_ID) == [first, drain]


def numbered(count: int) -> list[Interval]:
    return [
        Interval("load1", 7, number, number, "measure", number, number + 1)
        for number in range(count)
    ]


def test_reports_that_come_together_are_told_apart(store: Store) -> None:
    store.create_run(run_record(SMALL))
    store.put_agent(RUN_ID, "load1", AgentFacts(), open_part(7))
    known, new, later = numbered(3)
    store.add_interval(RUN_ID, known.record)
    came = (known, new, replace(new, end_ns=9), replace(later, attempt=6), new, later)
    taken = store.add_intervals([(RUN_ID, one.record) for one in came])
    assert [one.is_new for one in taken] == [False, True, False, False, False, True]
    assert "interval 1 has another report" in taken[2].refusal
    assert "another attempt" in taken[3].refusal
    assert not any(taken[place].refusal for place in (0, 1, 4, 5))
    assert stored_intervals(store, RUN_ID) == [known, new, later]


def test_nothing_follows_the_end_of_an_agents_part(store: Store) -> None:
    store.create_run(replace(run_record(SMALL), state="running"))
    for agent in ("load1", "load2"):
        store.put_agent(RUN_ID, agent, AgentFacts(), open_part(7))
    first, second, third = numbered(3)
    store.add_interval(RUN_ID, first.record)
    assert not store.seal_part(RUN_ID, "load1", 6)  # of an earlier attempt
    assert store.add_interval(RUN_ID, second.record).is_new
    assert store.seal_part(RUN_ID, "load1", 7)
    assert not store.seal_part(RUN_ID, "load1", 7)  # once is enough
    [run] = store.open_runs()
    assert run.parts["load1"].is_sealed
    assert run.parts["load2"] == open_part(7)
    assert store.add_interval(RUN_ID, second.record) == Taken(False), "repeated"
    taken = store.add_interval(RUN_ID, third.record)
    assert taken.refusal == "the agent's part has ended"
    assert stored_intervals(store, RUN_ID) == [first, second]
    store.put_agent(RUN_ID, "load1", AgentFacts(), open_part(8))
    assert store.add_interval(RUN_ID, replace(third, attempt=8).record).is_new


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("state_detail", b"\xff\x00"),
        ("submitted_by", b"who"),
        ("agents", "5"),
        ("agents", '{"a": 1}'),
        ("agents", "[[1]]"),
        ("manifest", "[" * 900 + "]" * 900),
    ],
)
def test_a_value_of_a_wrong_type_is_refused(
    tmp_path: Path, column: str, value: object
) -> None:
    path = tmp_path / "results.sqlite"
    with Store.open(path) as store:
        fill(store, SMALL)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE run SET {column} = ?", (value,))
    with Store.open(path) as store, pytest.raises(StoreRefused, match="was changed"):
        store.run(RUN_ID)


def test_facts_states_and_events_are_added_to_what_is_known(store: Store) -> None:
    store.create_run(run_record(SMALL))
    store.put_agent(RUN_ID, "load1", AgentFacts(libldap="x", workers=1))
    store.put_agent(RUN_ID, "load1", AgentFacts(workers=2))
    assert store.agents(RUN_ID) == {"load1": AgentFacts(libldap="x", workers=2)}
    store.set_manifest(RUN_ID, Manifest(job_file="job.yaml"))
    store.set_run_state(RUN_ID, "cancelled", "by ana", finished_utc="2026-03-01T12:30Z")
    run = store.run(RUN_ID)
    assert (run.manifest.job_file, run.manifest.ldapslam) == ("job.yaml", "0.1.0")
    assert (run.state, run.state_detail) == ("cancelled", "by ana")
    assert run.finished_utc == "2026-03-01T12:30Z"
    assert run.t0_utc == run_record(SMALL).t0_utc
    # a text that is none is stored as far as it goes
    texts = ["event 0", "event 1", "a\0b\ud800c"]
    for text in texts:
        store.add_event(RUN_ID, "noted", text, "2026-03-01T12:00Z")
    shown = [event.text for event in store.events(RUN_ID)]
    assert shown == ["event 0", "event 1", "a\\u0000b?c"]


def test_a_run_is_found_by_the_beginning_of_its_id(store: Store) -> None:
    store.create_run(run_record(SMALL))
    assert store.run(RUN_ID[:6]).run_id == RUN_ID
    for unknown in ("", "nosuch", "%", "_"):
        with pytest.raises(RunNotFound):
            store.run(unknown)
    store.create_run(replace(run_record(SMALL), run_id=f"{RUN_ID}-again"))
    assert store.run(RUN_ID).run_id == RUN_ID, "an exact id is never ambiguous"
    with pytest.raises(AmbiguousRun, match="ambiguous: 2 runs begin with it") as error:
        store.run(RUN_ID[:6])
    assert error.value.hint == f"name one of them: {RUN_ID}, {RUN_ID}-again"


def test_nothing_is_stored_for_an_unknown_run(store: Store) -> None:
    record = intervals(SMALL)[0]
    for use in (
        lambda: add_interval(store, "nosuch", record),
        lambda: store.put_agent("nosuch", "load1", AgentFacts()),
        lambda: store.set_run_state("nosuch", "running"),
        lambda: store.set_manifest("nosuch", Manifest()),
        lambda: list(store.export_run("nosuch")),
    ):
        with pytest.raises(RunNotFound):
            use()


def test_an_exported_run_is_imported_whole(store: Store) -> None:
    fill(store, SMALL)
    add_monitors(store, RUN_ID, 5)
    store.create_run(replace(run_record(SMALL), run_id="another"))
    chunks = list(store.export_run(RUN_ID))
    with Store.open("sqlite://") as other:
        assert other.import_run(chunks) == RUN_ID
        assert len(other.runs()) == 1
        assert other.run(RUN_ID) == store.run(RUN_ID)
        assert other.agents(RUN_ID) == store.agents(RUN_ID)
        assert other.events(RUN_ID) == store.events(RUN_ID)
        monitors = [monitor_series(one, RUN_ID) for one in (store, other)]
        for mine, theirs in zip(*monitors, strict=True):
            assert mine.description == theirs.description
            np.testing.assert_array_equal(mine.values, theirs.values)
        assert stored_intervals(other, RUN_ID) == stored_intervals(store, RUN_ID)
        with pytest.raises(StoreError, match="already in store"):
            other.import_run(chunks)


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param([b"garbage"], id="garbage"),
        pytest.param([b"SQLite format 3\0", b"\xff" * 5000], id="broken"),
        pytest.param([], id="nothing"),
    ],
)
def test_an_archive_that_is_none_is_refused(store: Store, chunks: list[bytes]) -> None:
    with pytest.raises(StoreError):
        store.import_run(chunks)
    assert store.runs() == []


def test_an_export_can_be_opened_where_nothing_can_be_written(
    store: Store, tmp_path: Path
) -> None:
    fill(store, SMALL)
    file = tmp_path / FOLDER_STORE
    file.write_bytes(b"".join(store.export_run(RUN_ID)))
    file.chmod(stat.S_IRUSR)
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        with Store.open(tmp_path, read_only=True) as folder:
            assert stored_intervals(folder, RUN_ID) == stored_intervals(store, RUN_ID)
            with pytest.raises(StoreError):
                folder.set_run_state(RUN_ID, "failed")
        assert [path.name for path in tmp_path.iterdir()] == [FOLDER_STORE]
    finally:
        tmp_path.chmod(stat.S_IRWXU)


def test_a_store_survives_being_closed_and_opened(tmp_path: Path) -> None:
    with Store.open(tmp_path / "new" / "results.sqlite") as store:
        fill(store, SMALL)
    with Store.open(f"sqlite:///{tmp_path}/new/results.sqlite") as store:
        assert len(stored_intervals(store, RUN_ID)) == len(list(intervals(SMALL)))
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["results.sqlite"]


def test_what_is_no_store_is_left_alone(tmp_path: Path) -> None:
    with pytest.raises(NoStore, match="does not exist"):
        Store.open(tmp_path / "none.sqlite", read_only=True)
    assert list(tmp_path.iterdir()) == []
    path = tmp_path / "letter.txt"
    path.write_text("Dear store,\n" * 10)
    for read_only in (False, True):
        with pytest.raises(NoStore, match="not a results store"):
            Store.open(path, read_only=read_only)
    assert path.read_text() == "Dear store,\n" * 10
    other = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(other)) as connection, connection:
        connection.execute("CREATE TABLE letter (text)")
    with pytest.raises(NoStore, match="not a results store"):
        Store.open(other, read_only=True)


@pytest.mark.parametrize("number", [1, 999])
def test_a_store_of_another_schema_is_refused_with_a_hint(
    tmp_path: Path, number: int
) -> None:
    path = tmp_path / "results.sqlite"
    Store.open(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE revision SET number = ?", (number,))
    connection.close()
    with pytest.raises(OtherSchema) as refused:
        Store.open(path)
    assert refused.value.found == number
    assert refused.value.hint


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nosuch://host/db", "nosuch"),
        ("postgresql+nosuch://ana:secret@host/db", "nosuch"),
        # a kind that SQLAlchemy knows, without its driver
        ("mysql://ana:secret@host/db", "unknown kind 'mysql'"),
    ],
)
def test_an_unusable_url_is_explained_without_its_password(
    url: str, message: str
) -> None:
    with pytest.raises(NoStore, match=message) as refused:
        Store.open(url)
    assert "secret" not in str(refused.value)


def test_a_place_that_cannot_be_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NoStore, match=r"file/results.sqlite': File exists") as refused:
        Store.open(tmp_path / "file" / "results.sqlite")
    assert refused.value.hint
    assert refused.value.exit_code is ExitCode.USAGE


def test_writers_on_several_threads_do_not_disturb_each_other(tmp_path: Path) -> None:
    with Store.open(tmp_path / "results.sqlite") as store:
        store.create_run(run_record(SMALL))

        def write(agent: str) -> None:
            for index in range(20):
                record = Interval(agent, 1, index, index, "measure", 0, 1)
                assert add_interval(store, RUN_ID, record)

        with ThreadPoolExecutor(4) as executor:
            list(executor.map(write, [f"load{number}" for number in range(4)]))
        assert len(stored_intervals(store, RUN_ID)) == 80


def test_an_owner_whose_store_was_taken_writes_nothing_more(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    with Store.open(path) as first, Store.open(path) as second:
        assert first.claim("first") is None
        first.create_run(replace(run_record(SMALL), state="queued"))
        assert second.claim("second") is None
        with pytest.raises(StoreTaken, match="another coordinator: second"):
            first.set_run_state(RUN_ID, "running")
        with pytest.raises(StoreTaken), first.together():
            first.put_agent(RUN_ID, "load1", AgentFacts())
        second.set_run_state(RUN_ID, "running")
        assert first.run(RUN_ID).state == "running"
        assert first.agents(RUN_ID) == {}


def test_only_the_attempt_that_an_agents_part_is_of_is_read(store: Store) -> None:
    store.create_run(run_record(SMALL))
    before, now = (
        Interval("load1", attempt, 0, 0, "measure", 0, attempt) for attempt in (7, 8)
    )
    for one in (before, now):
        store.put_agent(RUN_ID, "load1", AgentFacts(), open_part(one.attempt))
        assert store.add_interval(RUN_ID, one.record).is_new
    assert stored_intervals(store, RUN_ID) == [before, now]
    assert columns.extent(store, RUN_ID).end_ns == 8
    (window,) = columns.windows(store, RUN_ID)
    assert window.reports["end_ns"] == [8]


def test_a_final_state_stays(store: Store) -> None:
    fill(store, SMALL)
    store.set_run_state(RUN_ID, "failed", "the disk was full")
    store.set_run_state(RUN_ID, "draining", "written late")
    assert store.run(RUN_ID).state == "failed"
    store.set_run_state(RUN_ID, "finished")
    assert store.run(RUN_ID).state == "finished"


def test_clock_samples_are_kept_once_and_come_in_order(store: Store) -> None:
    store.create_run(run_record(SMALL))
    assert store.clock_samples(RUN_ID) == {}
    rows = [("load2", 20, -7, 3), ("load1", 30, 2**62, 4), ("load1", 10, 5, 6)]
    store.add_clock_samples(RUN_ID, rows)
    store.add_clock_samples(RUN_ID, [("load1", 10, 99, 99)])
    assert store.clock_samples(RUN_ID) == {
        "load1": [("load1", 10, 5, 6), ("load1", 30, 2**62, 4)],
        "load2": [("load2", 20, -7, 3)],
    }


_OPEN_AND_CLOSE = """
import sys
from ldapslam.results.store import Store
Store.open(sys.argv[1]).close()
"""


def test_who_reads_a_store_twice_keeps_its_locks_on_it(tmp_path: Path) -> None:
    """Or another process takes itself for the last one, and removes the log."""
    path = tmp_path / "results.sqlite"
    log = path.with_name(f"{path.name}-wal")
    with Store.open(path) as store:
        fill(store, Scenario())
        with Store.open(path, read_only=True) as second:
            assert [run.run_id for run in second.runs()] == [RUN_ID]
        before = log.stat().st_ino
        other = [sys.executable, "-c", _OPEN_AND_CLOSE, str(path)]
        subprocess.run(other, check=True, timeout=60)
        assert log.stat().st_ino == before
        store.add_event(RUN_ID, "late", "written afterwards", "2026-03-01T12:00:09Z")
        with Store.open(path, read_only=True) as second:
            assert "late" in [event.kind for event in second.events(RUN_ID)]


def test_a_reader_leaves_nothing_and_is_told_of_a_writer_that_came_later(
    tmp_path: Path,
) -> None:
    with Store.open(tmp_path) as writer:
        fill(writer, SMALL)
        with Store.open(tmp_path, read_only=True) as reader:
            writer.set_run_state(RUN_ID, "failed")
            assert reader.run(RUN_ID).state == "failed"
    with Store.open(tmp_path, read_only=True) as reader:
        assert stored_intervals(reader, RUN_ID)
        with pytest.raises(StoreRefused, match="readonly database"):
            reader.create_run(run_record(SMALL))
        assert [path.name for path in tmp_path.iterdir()] == [FOLDER_STORE]
        with Store.open(tmp_path) as writer:
            writer.set_run_state(RUN_ID, "finished")
        with pytest.raises(StoreError, match="has written to it meanwhile"):
            reader.run(RUN_ID)
    assert [path.name for path in tmp_path.iterdir()] == [FOLDER_STORE]


@pytest.mark.parametrize("count", [0, 1, 100, 5_000])
def test_a_report_of_many_like_operations_is_unpacked(count: int) -> None:
    histograms = {("response_time", "succeeded"): bytes(range(256)) * 4}
    operations = [
        OperationRow(stream="s", operation=f"operation-{number}", histograms=histograms)
        for number in range(count)
    ]
    snapshot = snapshot_of(operations, index=3)
    assert unpack(pack(snapshot)) == snapshot


def test_stores_made_at_once_have_all_their_tables(tmp_path: Path) -> None:
    query = "SELECT name FROM sqlite_master WHERE type = 'table'"

    def make(path: Path) -> set[str]:
        Store.open(path).close()
        with closing(sqlite3.connect(path)) as connection:
            return {name for (name,) in connection.execute(query)}

    with ThreadPoolExecutor(4) as executor:
        paths = [tmp_path / f"{number}.sqlite" for number in range(8)]
        made = list(executor.map(make, paths))
    assert len(made[0]) > 10
    assert made == [made[0]] * len(made)


# The readings of monitors: once and whole.


@pytest.fixture
def filled(store: Store) -> Store:
    fill(store, SMALL)
    return store


def by_name(store: Store) -> dict[str, MonitorSeries]:
    return {one.description.name: one for one in monitor_series(store, RUN_ID)}


def test_readings_come_back_as_they_were_put_in(filled: Store) -> None:
    add_monitors(filled, RUN_ID, 5, failing_s=frozenset({3}))
    found = by_name(filled)
    assert list(found) == [PROCESS, SERVER]
    assert [one.description for one in found.values()] == descriptions()[::-1]
    server = found[SERVER]
    put = [one for one in samples(5, failing_s=frozenset({3})) if one.monitor == SERVER]
    assert server.at_ns.tolist() == [one.at_ns for one in put]
    assert server.took_ns.tolist() == [one.took_ns for one in put]
    assert list(server.failures) == [3]
    assert np.isnan(server.values[3]).all()
    np.testing.assert_array_equal(server.values[2], put[2].values)


def test_a_reading_that_comes_again_changes_nothing(filled: Store) -> None:
    add_monitors(filled, RUN_ID, 3)
    add_monitors(filled, RUN_ID, 5)
    changed = MonitorSample(SERVER, 0, 1, (math.nan,) * 7)
    add_monitor_samples(filled, RUN_ID, "load1", [changed, changed])
    server = by_name(filled)[SERVER]
    assert len(server.at_ns) == 6
    assert server.took_ns[0] != 1


def test_readings_are_each_agents_own(filled: Store) -> None:
    add_monitors(filled, RUN_ID, 3)
    add_monitors(filled, RUN_ID, 4, agent="load2")
    found = [(one.agent, len(one.at_ns)) for one in monitor_series(filled, RUN_ID)]
    assert found == [("load1", 4), ("load2", 5)] * 2


def test_a_reading_before_the_load_that_does_not_fit_its_monitor_is_missing(
    filled: Store,
) -> None:
    describe_monitors(filled, RUN_ID, "load1", descriptions())
    wrong = MonitorSample(PROCESS, -5, 7, (1.0,))
    add_monitor_samples(filled, RUN_ID, "load1", [wrong])
    assert by_name(filled)[PROCESS].at_ns.tolist() == [-5]
    assert np.isnan(by_name(filled)[PROCESS].values).all()


def test_readings_of_an_unknown_run_are_refused(filled: Store) -> None:
    with pytest.raises(StoreError):
        add_monitor_samples(filled, "no-run", "load1", list(samples(1)))
