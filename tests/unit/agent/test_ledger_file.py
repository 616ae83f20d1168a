# SPDX-License-Identifier: Apache-2.0
"""Ledgers of added entries, read and marked; folders of them, found."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ldapslam.agent.ledgers.cleanup import depth, same_dn
from ldapslam.agent.ledgers.folder import (
    LedgerFile,
    State,
    entries_left,
    folders_left,
    locked,
    note_alive,
    note_begin,
    read_plan,
    run_folder,
)
from ldapslam.base.errors import ConfigError, StoreError
from ldapslam.directory.access import parse_time
from support.ledger import ledger_bytes, write_clean_up_plan

RECORDS = [
    (State.ADDED, "cn=a,dc=example"),
    (State.GONE, "cn=b,dc=example"),
    (State.SENT, "cn=ü,dc=example"),
    (State.TAKEN, "cn=d,dc=example"),
    (State.FAILED, "cn=e,dc=example"),
]


def test_records_come_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "0-0-0.ledger"
    path.write_bytes(ledger_bytes(RECORDS))
    with LedgerFile(path) as ledger:
        assert [(one.state, one.dn.decode()) for one in ledger.records()] == RECORDS
        assert ledger.left() == 3


def test_records_go_on_in_the_next_segment(tmp_path: Path) -> None:
    path = tmp_path / "0-0-0.ledger"
    records = [(State.ADDED, f"cn={'x' * 2_000}{n},dc=example") for n in range(1_200)]
    path.write_bytes(ledger_bytes(records))
    with LedgerFile(path) as ledger:
        found = [one.dn.decode() for one in ledger.records()]
    assert path.stat().st_size == 3 << 20
    assert found == [dn for _, dn in records]


def test_what_is_gone_is_noted_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "0-0-0.ledger"
    path.write_bytes(ledger_bytes(RECORDS))
    with LedgerFile(path) as ledger:
        ledger.mark_gone(next(ledger.records()))
    with LedgerFile(path) as ledger:
        assert next(ledger.records()).state is State.GONE
        assert ledger.left() == 2


@pytest.mark.parametrize("content", [b"", ledger_bytes([])])
def test_a_ledger_without_records_is_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "0-0-0.ledger"
    path.write_bytes(content)
    with LedgerFile(path) as ledger:
        assert list(ledger.records()) == []


def test_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "0-0-0.ledger"
    path.write_bytes(b"what else may be here")
    with pytest.raises(StoreError, match="no ledger"):
        LedgerFile(path)


@pytest.mark.parametrize(("offset", "value"), [(8, 77), (12, 0), (14, 255)])
def test_a_damaged_record_is_an_error_not_a_wrong_name(
    tmp_path: Path, offset: int, value: int
) -> None:
    path = tmp_path / "0-0-0.ledger"
    content = bytearray(ledger_bytes(RECORDS))
    content[offset] = value
    path.write_bytes(content)
    with LedgerFile(path) as ledger, pytest.raises(StoreError, match="damaged"):
        list(ledger.records())


def test_a_folder_tells_how_many_entries_are_left(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, "run-1")
    write_clean_up_plan(folder, ["ldap://ds1"], ledgers=(True, False))
    (folder / "0-0-0.ledger").write_bytes(ledger_bytes(RECORDS))
    (folder / "0-0-1.ledger").write_bytes(ledger_bytes(RECORDS))
    # entries that the job wants to keep
    (folder / "0-1-0.ledger").write_bytes(ledger_bytes(RECORDS))
    assert folders_left(tmp_path) == [folder]
    assert entries_left(folder) == 6


def test_a_plan_that_cannot_be_read_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "clean-up.json").write_text("{}")
    with pytest.raises(StoreError, match=r"clean-up\.json") as caught:
        read_plan(tmp_path)
    assert caught.value.hint is not None


def test_a_folder_is_used_by_one_process_at_a_time(tmp_path: Path) -> None:
    with (
        locked(tmp_path),
        pytest.raises(ConfigError, match="in use"),
        locked(tmp_path),
    ):
        pass
    with locked(tmp_path):
        pass


@pytest.mark.parametrize(
    ("dn", "levels"),
    [("dc=example", 1), ("cn=a\\,b,dc=example,dc=com", 3), ("cn=a+sn=b,dc=x", 2)],
)
def test_depth_counts_rdns(dn: str, levels: int) -> None:
    assert depth(dn) == levels


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("19700101000010Z", 10.0),
        ("19700101000010.25Z", 10.25),
        ("19700101000010", None),
        ("yesterday", None),
        ("", None),
    ],
)
def test_times_of_servers_are_read(text: str, seconds: float | None) -> None:
    assert parse_time(text) == seconds


def test_identities_are_compared_as_names_are() -> None:
    assert same_dn("cn=Admin,dc=example,dc=com", "CN=admin, DC=example,dc=com")
    assert not same_dn("cn=admin,dc=example", "cn=other,dc=example")
    assert not same_dn("", "cn=admin,dc=example")


@pytest.mark.parametrize("run_id", ["", ".", "..", "/", "a/..", "../../etc"])
def test_an_id_that_is_no_name_has_no_folder(tmp_path: Path, run_id: str) -> None:
    with pytest.raises(ConfigError):
        run_folder(tmp_path, run_id)


def test_a_run_is_over_at_its_last_sign_of_life(tmp_path: Path) -> None:
    write_clean_up_plan(tmp_path, ["ldap://127.0.0.1"], begun_s=100.0)
    assert read_plan(tmp_path).ended_s == 100.0
    with locked(tmp_path):
        os.utime(tmp_path / "lock", (110.0, 110.0))
        note_begin(tmp_path, 105.0)
    with locked(tmp_path):
        assert (read_plan(tmp_path).begun_s, read_plan(tmp_path).ended_s) == (105, 110)
        note_alive(tmp_path)
    assert read_plan(tmp_path).ended_s > 1e9
