# SPDX-License-Identifier: Apache-2.0
"""Following a directory's log: whole lines, once, through every kind of rotation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ldapslam.agent.monitoring.log import Follower, LogMonitor
from ldapslam.base.errors import TargetError
from ldapslam.jobs.fields.thresholds import COUNTED_KINDS
from ldapslam.jobs.replay import ds389, openldap

LOGS = sorted(
    path
    for path in (Path(__file__).parents[1] / "jobs" / "replay_logs").iterdir()
    if path.suffix == ".log"
)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "access"
    path.write_text("before\n")
    return path


def append(path: Path, text: str) -> None:
    with path.open("a") as stream:
        stream.write(text)


@pytest.fixture
def follower(log: Path) -> Iterator[Follower]:
    follower = Follower(log)
    follower.open_at_end()
    yield follower
    follower.close()


def all_lines(follower: Follower) -> list[str]:
    found = b""
    while text := follower.text():
        found += text
    assert not found or found.endswith(b"\n")
    return found.decode().splitlines()


def test_only_what_comes_later_is_read(follower: Follower, log: Path) -> None:
    assert all_lines(follower) == []
    append(log, "one\ntwo\n")
    assert all_lines(follower) == ["one", "two"]
    assert all_lines(follower) == []


def test_line_counts_when_it_is_complete(follower: Follower, log: Path) -> None:
    append(log, "one\ntw")
    assert all_lines(follower) == ["one"]
    append(log, "o\n")
    assert all_lines(follower) == ["two"]


def test_rest_of_a_line_that_was_under_way_is_none(log: Path) -> None:
    append(log, "begun be")
    follower = Follower(log)
    follower.open_at_end()
    append(log, "fore\nafter\n")
    assert all_lines(follower) == ["after"]
    follower.close()


def test_renamed_file_is_read_to_its_end_and_then_the_new_one(
    follower: Follower, log: Path
) -> None:
    append(log, "old\n")
    log.rename(log.with_name("access.1"))
    assert all_lines(follower) == ["old"]
    # the server goes on with the old one until it is told
    append(log.with_name("access.1"), "late\n")
    assert all_lines(follower) == ["late"]
    log.write_text("")
    append(log.with_name("access.1"), "latest\n")
    assert all_lines(follower) == ["latest"]
    append(log, "new\n")
    assert all_lines(follower) == ["new"]


def test_truncated_file_is_read_from_its_beginning(
    follower: Follower, log: Path
) -> None:
    append(log, "a long line that is gone\n")
    assert all_lines(follower) == ["a long line that is gone"]
    log.write_text("new\n")
    assert all_lines(follower) == ["new"]


def test_log_that_cannot_be_read_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="no-log"):
        Follower(tmp_path / "no-log").open_at_end()


Monitored = Callable[[Path, str], LogMonitor]


@pytest.fixture
def monitored() -> Iterator[Monitored]:
    """Opens a monitor of a log in a format."""
    opened: list[LogMonitor] = []

    def of(path: Path, format_name: str) -> LogMonitor:
        opened.append(LogMonitor("log", 0, path, format_name))
        opened[-1].open()
        return opened[-1]

    yield of
    for monitor in opened:
        monitor.close()


def counts(monitor: LogMonitor) -> dict[str, float]:
    """What is not zero."""
    values = zip(monitor.metrics, monitor.sample(), strict=True)
    return {metric.name: value for metric, value in values if value}


_STAMP = "6b0193e0.25f31afd 0x7f00dbffe6c0"


def test_operations_and_results_of_slapd_are_counted(
    monitored: Monitored, log: Path
) -> None:
    monitor = monitored(log, "openldap")
    lines = (
        "fd=12 ACCEPT from IP=127.0.0.1:50000 (IP=0.0.0.0:389)",
        'op=0 BIND dn="cn=admin" method=128',
        'op=0 BIND dn="cn=admin" mech=SIMPLE bind_ssf=0 ssf=0',
        "op=0 RESULT tag=97 err=0 qtime=0.000007 etime=0.000090 text=",
        'op=1 SRCH base="dc=com" scope=2 deref=0 filter="(uid=a)"',
        "op=1 SRCH attr=cn mail",
        "op=1 SEARCH RESULT tag=101 err=0 qtime=0.000007 etime=0.0001 nentries=3",
        'op=2 MOD dn="uid=a"',
        "op=2 MOD attr=description",
        "op=2 RESULT tag=103 err=32 qtime=0.000007 etime=0.000090 text=",
        "op=3 UNBIND",
        "fd=12 closed",
    )
    append(log, "".join(f"{_STAMP} conn=1000 {line}\n" for line in lines))
    assert counts(monitor) == {
        "connects": 1,
        "bind": 1,
        "search": 1,
        "modify": 1,
        "unbind": 1,
        "results": 3,
        "results[success]": 2,
        "results[noSuchObject]": 1,
        "entries_sent": 3,
        "lines": 12,
    }
    append(log, f"{_STAMP} conn=1000 op=4 UNBIND\nslapd starting\n")
    later = counts(monitor)
    assert (later["unbind"], later["lines_of_another_kind"]) == (2, 1)


def test_operations_and_results_of_389_ds_are_counted(
    monitored: Monitored, log: Path
) -> None:
    monitor = monitored(log, "389ds")
    stamp = "[21/Nov/2026:12:54:06.014845650 +0000] conn=3"
    lines = (
        'op=0 BIND dn="cn=admin" method=128 version=3',
        "op=0 RESULT err=49 tag=97 nentries=0 wtime=0.1 optime=0.1 etime=0.2 - text",
        'op=1 SRCH base="dc=com" scope=2 filter="(uid=a)" attrs=ALL',
        "op=1 RESULT err=12345 tag=101 nentries=2 wtime=0.1 optime=0.1 etime=0.2",
        "op=2 UNBIND",
    )
    append(log, "".join(f"{stamp} {line}\n" for line in lines))
    found = counts(monitor)
    assert (found["bind"], found["search"], found["unbind"]) == (1, 1, 1)
    assert found["results[invalidCredentials]"] == 1
    assert found["results[another]"] == 1
    assert found["entries_sent"] == 2


def test_object_over_several_lines_waits_for_its_end(
    monitored: Monitored, log: Path
) -> None:
    monitor = monitored(log, "389ds")
    stamp = '"local_time": "2026-11-21T12:54:06.014845650 +0000",'
    unbind = f'{{\n  {stamp}\n  "operation": "UNBIND",\n  "conn_id": 3,\n'
    append(log, unbind)
    assert "unbind" not in counts(monitor)
    append(log, f'  "op_id": 1\n}}\n{unbind}')
    assert counts(monitor)["unbind"] == 1
    append(log, '  "op_id": 2\n}\n')
    assert counts(monitor)["unbind"] == 2


@pytest.mark.parametrize("path", LOGS, ids=[path.name for path in LOGS])
def test_counts_are_those_of_a_replay_of_the_same_log(
    path: Path, tmp_path: Path, monitored: Monitored
) -> None:
    text = path.read_text(errors="replace")
    form = openldap if any(map(openldap.is_line, text.splitlines())) else ds389
    events = Counter(
        event.what for event in form.events(text.splitlines(), form.Clock(), Counter())
    )
    followed = tmp_path / "log"
    followed.touch()
    monitor = monitored(followed, "openldap" if form is openldap else "389ds")
    append(followed, text if text.endswith("\n") else f"{text}\n")
    found = counts(monitor)
    for kind in COUNTED_KINDS:
        assert found.get(kind, 0) == events[kind], kind
    assert found.get("results", 0) == events["result"]
    assert found.get("connects", 0) == events["open"]
