# SPDX-License-Identifier: Apache-2.0
"""The spool: what is in it survives, what was acknowledged does not come back, and how
much room a run needs in it."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ldapslam.agent.admission.admit import (
    OPERATION_BYTES,
    REPORT_BYTES,
    RESERVE_BYTES,
    STREAM_BYTES,
    WORKER_BYTES,
    check_room,
    room_for,
)
from ldapslam.agent.spool import Spool
from ldapslam.base.errors import ConfigError, FleetError
from ldapslam.jobs.load import load_job_text
from ldapslam.jobs.plan import AgentPlan, ReportRoom, agent_plan
from ldapslam.proto.agent_pb2 import IntervalReport, ProgressReport, SpoolEntry
from ldapslam.transport.messages import MOST_REPORTS
from support.fleet import job_text


def entry(sequence: int) -> SpoolEntry:
    return SpoolEntry(interval=IntervalReport(run_id="r", sequence=sequence))


def sequences(spool: Spool) -> list[int]:
    """Take everything out, oldest first."""
    found = []
    while first := spool.first():
        number, item = first
        found.append(item.interval.sequence)
        spool.remove(number)
    return found


def test_reports_come_out_in_the_order_they_went_in(tmp_path: Path) -> None:
    with Spool(tmp_path) as spool:
        for sequence in range(12):
            assert spool.append(entry(sequence))
        assert len(spool) == 12
        assert spool.first() == spool.first()
        assert sequences(spool) == list(range(12))


def test_intervals_that_wait_are_delivered_together_as_far_as_they_fit(
    tmp_path: Path,
) -> None:
    def waiting(spool: Spool) -> list[int]:
        return [item.interval.sequence for _, item in spool.waiting()]

    with Spool(tmp_path) as spool:
        assert spool.waiting() == []
        for sequence in range(1, MOST_REPORTS + 3):
            spool.append(entry(sequence))
        assert waiting(spool) == list(range(1, MOST_REPORTS + 1))
        for _ in range(MOST_REPORTS):
            spool.remove(spool.waiting()[0][0])
        assert waiting(spool) == [MOST_REPORTS + 1, MOST_REPORTS + 2]

        long = entry(30)
        long.interval.packed = bytes(1 << 18)
        for item in (long, SpoolEntry(progress=ProgressReport(run_id="r")), entry(31)):
            spool.append(item)
        assert waiting(spool) == [MOST_REPORTS + 1, MOST_REPORTS + 2, 30]
        spool.remove(spool.waiting()[0][0])
        spool.append(entry(32))
        spool.remove(spool.waiting()[0][0])
        # nothing overtakes what is no interval
        assert waiting(spool) == [30]
        spool.remove(spool.waiting()[0][0])
        ((number, item),) = spool.waiting()
        assert item.HasField("progress")
        spool.remove(number)
        assert waiting(spool) == [31, 32]

        spool.remove(spool.waiting()[0][0])
        for _ in range(2):
            spool.append(long)
        # 32 has no content; the second long one is too much
        assert waiting(spool) == [32, 30]


def test_what_was_not_acknowledged_is_there_after_a_restart(tmp_path: Path) -> None:
    with Spool(tmp_path) as spool:
        for sequence in range(3):
            spool.append(entry(sequence))
        first = spool.first()
        assert first is not None
        spool.remove(first[0])
    with Spool(tmp_path) as spool:
        spool.append(entry(3))
        assert sequences(spool) == [1, 2, 3]


def test_the_epoch_counts_the_agents_on_the_folder(tmp_path: Path) -> None:
    for expected in (1, 2, 3):
        with Spool(tmp_path) as spool:
            assert spool.epoch == expected


def test_a_damaged_epoch_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "epoch").write_text("once")
    with pytest.raises(ConfigError, match="epoch"):
        Spool(tmp_path)


def test_a_second_agent_on_the_folder_is_refused(tmp_path: Path) -> None:
    with Spool(tmp_path), pytest.raises(ConfigError, match="in use"):
        Spool(tmp_path)


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be used"):
        Spool(tmp_path / "file" / "spool")


def test_a_half_written_report_is_not_a_report(tmp_path: Path) -> None:
    (tmp_path / ".000000000001.report.new").write_bytes(b"\x0a")
    with Spool(tmp_path) as spool:
        assert spool.first() is None


@pytest.mark.parametrize("content", [b"\xff\xff", b""], ids=["damaged", "empty"])
def test_a_report_that_is_none_is_set_aside(tmp_path: Path, content: bytes) -> None:
    with Spool(tmp_path) as spool:
        spool.append(entry(0))
        spool.append(entry(1))
    (tmp_path / "000000000001.report").write_bytes(content)
    with Spool(tmp_path) as spool:
        assert sequences(spool) == [1]
    assert (tmp_path / "rejected" / "000000000001.report").exists()


def test_a_report_is_synced_before_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    real = os.fsync

    def watch(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    with Spool(tmp_path) as spool:
        monkeypatch.setattr(os, "fsync", watch)
        spool.append(entry(0))
    # the content, then the folder that has its name
    assert synced == [f"{tmp_path}/.000000000001.report.new", f"{tmp_path}"]


def test_reports_are_for_their_owner_only(tmp_path: Path) -> None:
    with Spool(tmp_path) as spool:
        spool.append(entry(0))
        modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {0o600}


def filled(sequence: int, size: int) -> SpoolEntry:
    """A report of about `size` bytes."""
    report = IntervalReport(run_id="r", agent="a" * size, sequence=sequence)
    return SpoolEntry(interval=report)


def test_a_quota_bounds_what_intervals_take_and_is_named(tmp_path: Path) -> None:
    with Spool(tmp_path, quota_bytes=2500) as spool:
        assert spool.append(filled(0, 1000))
        assert spool.append(filled(1, 1000))
        assert 2000 < spool.size_bytes < 2500
        assert not spool.append(filled(2, 1000))
        assert "quota of 2.44 KiB" in spool.trouble
        assert str(tmp_path) in spool.trouble
        # how the run ended is told even so
        ended = SpoolEntry(progress=ProgressReport(run_id="r", agent="a" * 1000))
        assert spool.append(ended)
        assert len(spool) == 4


def test_what_is_in_memory_only_is_written_when_there_is_room(tmp_path: Path) -> None:
    with Spool(tmp_path, quota_bytes=1500) as spool:
        assert spool.append(filled(0, 1000))
        assert not spool.append(filled(1, 1000))
        number, _ = spool.first() or (0, None)
        spool.remove(number)
    # a new agent on the folder finds it
    with Spool(tmp_path) as spool:
        assert sequences(spool) == [1]


def test_half_a_report_does_not_take_the_room_of_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Spool(tmp_path) as spool:
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", refuse(errno.ENOSPC))
            assert not spool.append(entry(0))
        assert "No space left on device" in spool.trouble
        assert list(tmp_path.glob("*.new")) == []
        assert spool.append(entry(1))
        assert sequences(spool) == [0, 1]
        assert spool.size_bytes == 0


def test_no_rejected_report_is_ever_removed(tmp_path: Path) -> None:
    for process in range(2):
        with Spool(tmp_path) as spool:
            assert len(spool) == 0, "they do not come back"
            for sequence in range(3):
                spool.append(entry(3 * process + sequence))
            while first := spool.first():
                spool.reject(first[0])
            assert spool.size_bytes > 0, "they count for the quota"
    kept = [path.read_bytes() for path in (tmp_path / "rejected").iterdir()]
    found = {SpoolEntry.FromString(one).interval.sequence for one in kept}
    assert found == set(range(6))


def test_reports_of_another_store_wait_for_it(tmp_path: Path) -> None:
    with Spool(tmp_path) as spool:
        for sequence, store_id in enumerate(("a", "b", "", "a")):
            spool.append(SpoolEntry(interval={"sequence": sequence}, store_id=store_id))
        spool.serve("b")
        assert sequences(spool) == [1, 2]
        assert (len(spool), spool.has_more) == (2, False)
    with Spool(tmp_path) as spool:
        spool.serve("c")
        assert sequences(spool) == []
        spool.serve("a")
        assert spool.has_more
        assert sequences(spool) == [0, 3]


def test_a_report_that_cannot_be_read_now_is_read_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Spool(tmp_path) as spool:
        spool.append(entry(0))
        with monkeypatch.context() as patch:
            patch.setattr(Path, "read_bytes", refuse(errno.EMFILE))
            with pytest.raises(OSError, match="Too many open files"):
                spool.first()
        assert sequences(spool) == [0]
    assert not (tmp_path / "rejected").exists()


@pytest.mark.parametrize("number", [errno.EIO, errno.EROFS, errno.ENOSPC])
def test_a_disk_that_takes_no_change_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    with Spool(tmp_path) as spool:
        for sequence in range(3):
            spool.append(entry(sequence))
        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", refuse(number))
            patch.setattr(Path, "unlink", refuse(number))
            spool.reject(1)
            spool.remove(2)
            assert sequences(spool) == [2]
    with Spool(tmp_path) as spool:  # sent again, which changes nothing
        assert sequences(spool) == [0, 1, 2]


def refuse(number: int) -> Callable[..., Any]:
    def refused(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return refused


def test_a_full_disk_at_the_start_is_an_error_that_names_the_spool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", refuse(errno.ENOSPC))
    with pytest.raises(ConfigError, match="cannot be written: No space left"):
        Spool(tmp_path)


S = 1_000_000_000


def plan_of(duration: str) -> AgentPlan:
    """One stream, one operation, intervals of 200 ms."""
    job = load_job_text(job_text(duration=duration), file="job", base=None)
    return agent_plan(job, 0, 1, seed=1)


@pytest.mark.parametrize(
    ("duration", "grace_ns", "reports"),
    [
        # 5 intervals and the drain: the run is shorter than the grace
        ("1s", 60 * S, 6),
        # 300 intervals within the grace, one more, and the drain
        ("1h", 60 * S, 302),
        ("1h", 0, 2),
    ],
)
def test_reports_that_may_wait_are_those_of_the_lease(
    duration: str, grace_ns: int, reports: int
) -> None:
    room = room_for(plan_of(duration), 2, grace_ns)
    size = REPORT_BYTES + OPERATION_BYTES + STREAM_BYTES + 2 * WORKER_BYTES
    assert room == ReportRoom(size, reports)
    assert room.needed_bytes == size * reports


ROOM = ReportRoom(report_bytes=1 << 20, reports=10)
NEEDED = 10 << 20


@pytest.mark.parametrize(
    ("free_bytes", "quota_bytes", "words"),
    [
        (NEEDED + RESERVE_BYTES, None, None),
        (NEEDED + RESERVE_BYTES - 1, None, "the disk of '/spool' has 14 MiB left"),
        (1 << 40, NEEDED, None),
        (1 << 40, NEEDED - 1, "the quota is 10 MiB"),
        (0, NEEDED - 1, "the quota"),
    ],
)
def test_too_little_room_is_refused_with_figures_and_remedy(
    free_bytes: int, quota_bytes: int | None, words: str | None
) -> None:
    def check() -> None:
        check_room(
            ROOM,
            free_bytes=free_bytes,
            quota_bytes=quota_bytes,
            agent="a1",
            folder="/spool",
        )

    if words is None:
        check()
        return
    with pytest.raises(FleetError) as caught:
        check()
    assert words in str(caught.value)
    assert "10 MiB (10 reports of 1 MiB)" in str(caught.value)
    assert "coordinator_timeout" in str(caught.value.hint)
