# SPDX-License-Identifier: Apache-2.0
"""The clean-up from ledgers made by hand, on a real slapd: what is in doubt, what has
children, what cannot be reached."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from ldapslam.agent.ledgers.cleanup import (
    LATE_ADDS_S,
    CleanUpReport,
    clean_up,
    clean_up_aside,
    clean_up_earlier,
)
from ldapslam.agent.ledgers.folder import LedgerFile, State, locked
from support.lab import Lab
from support.ledger import ledger_bytes, write_clean_up_plan
from support.replication import supplier_of
from support.tree import Tree, tree
from support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("tree_before")

#: createTimestamp has seconds, and a clean-up tolerates two of them.
BEFORE_S = 10.0


@pytest.fixture
def admin(lab: Lab) -> Any:
    with supplier_of(lab) as connection:
        yield connection


def add(connection: Any, dn: str) -> None:
    entry = {
        "objectClass": [b"organizationalUnit"],
        "ou": [dn[3:].split(",")[0].encode()],
    }
    connection.add_s(dn, list(entry.items()))


def prepare(
    lab: Lab,
    folder: Path,
    records: list[tuple[State, str]],
    *,
    uris: list[str] | None = None,
    begun_s: float | None = None,
    ended_s: float | None = None,
) -> None:
    """The folder of a run that added these."""
    write_clean_up_plan(
        folder,
        uris or [lab.supplier.uri],
        bind_dn=lab.admin_dn,
        password_file=lab.admin_password_file,
        begun_s=time.time() if begun_s is None else begun_s,
    )
    (folder / "0-0-0.ledger").write_bytes(ledger_bytes(records))
    with locked(folder):
        if ended_s is not None:
            os.utime(folder / "lock", (ended_s, ended_s))


def clean(
    lab: Lab, folder: Path, records: list[tuple[State, str]], **changes: Any
) -> CleanUpReport:
    prepare(lab, folder, records, **changes)
    with locked(folder):
        return clean_up(folder)


def test_entries_are_removed_in_a_pipeline_those_with_others_below_them_last(
    lab: Lab, admin: Any, tmp_path: Path
) -> None:
    base = f"ou=top,{lab.people_dn}"
    names = [base, f"ou=a,{base}", f"ou=b,ou=a,{base}", f"ou=c,ou=b,ou=a,{base}"]
    names += [f"ou=many.{n},{lab.people_dn}" for n in range(96)]
    for name in names:
        add(admin, name)
    report = clean(lab, tmp_path / "run", [(State.ADDED, name) for name in names])
    assert (report.deleted, report.left) == (100, 0)
    assert report.control_operations[lab.supplier.uri] == {
        "bind": 1,
        "delete": 100,
        "unbind": 1,
    }
    assert not (tmp_path / "run").exists()


def test_an_entry_in_doubt_goes_only_when_the_run_made_it(
    lab: Lab, admin: Any, tmp_path: Path
) -> None:
    kinds = State.SENT, State.TAKEN
    own = [f"ou=own.{n},{lab.people_dn}" for n in range(2)]
    for name in own:
        add(admin, name)
    # of the data that the lab was loaded with: not by us, and before the run
    loaded = [f"uid=user.{n},{lab.people_dn}" for n in (7, 8)]
    absent = [f"ou=absent.{n},{lab.people_dn}" for n in range(2)]
    records = [
        (state, name)
        for names in (own, loaded, absent)
        for state, name in zip(kinds, names, strict=True)
    ]
    report = clean(lab, tmp_path / "run", records)
    assert (report.entries, report.deleted, report.already_gone) == (6, 2, 2)
    assert report.left == 2
    assert [left["dn"] for left in report.named] == loaded
    assert all("in doubt" in left["reason"] for left in report.named)
    with LedgerFile(tmp_path / "run" / "0-0-0.ledger") as ledger:
        states = [record.state for record in ledger.records()]
    assert states == [State.GONE] * 2 + list(kinds) + [State.GONE] * 2


@pytest.mark.parametrize(
    ("state", "begins_in_s", "reason"),
    [
        (State.SENT, BEFORE_S, "before the run"),
        (State.SENT, -2 * LATE_ADDS_S, "after the run"),
        (State.TAKEN, -2 * LATE_ADDS_S, "after the run"),
        (State.ADDED, -2 * LATE_ADDS_S, "after the run"),
    ],
)
def test_an_entry_of_another_time_than_the_run_stays(
    lab: Lab,
    admin: Any,
    tmp_path: Path,
    state: State,
    begins_in_s: float,
    reason: str,
) -> None:
    begun_s = time.time() + begins_in_s
    own = f"ou=own,{lab.people_dn}"
    add(admin, own)
    report = clean(
        lab, tmp_path / "run", [(state, own)], begun_s=begun_s, ended_s=begun_s + 5
    )
    assert (report.deleted, report.left) == (0, 1)
    assert reason in report.named[0]["reason"]
    admin.delete_s(own)


def test_a_clean_up_that_comes_late_removes_what_is_the_runs(
    lab: Lab, admin: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ldapslam.agent.ledgers.cleanup.LATE_ADDS_S", -BEFORE_S)
    own = [f"ou=own.{n},{lab.people_dn}" for n in range(3)]
    for name in own:
        add(admin, name)
    records = list(zip((State.ADDED, State.ADDED, State.SENT), own, strict=True))
    ended_s = time.time() + BEFORE_S  # less so many seconds: just over
    report = clean(lab, tmp_path / "run", records, ended_s=ended_s)
    assert (report.deleted, report.left) == (3, 0)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ldapslam.agent.ledgers.cleanup._PAUSE_S", 0.01)


def test_an_entry_that_got_children_of_others_is_left_and_named(
    lab: Lab, admin: Any, tmp_path: Path, impatient: None
) -> None:
    own, others = f"ou=own,{lab.people_dn}", f"ou=theirs,ou=own,{lab.people_dn}"
    for name in (own, others):
        add(admin, name)
    report = clean(lab, tmp_path / "run", [(State.ADDED, own)])
    assert report.left == 1
    assert "(66)" in report.named[0]["reason"]
    admin.delete_s(others)
    with locked(tmp_path / "run"):
        assert clean_up(tmp_path / "run").deleted == 1
    assert not (tmp_path / "run").exists()


def test_an_entry_whose_children_another_agent_removes_goes_too(
    lab: Lab, admin: Any, tmp_path: Path
) -> None:
    own, others = f"ou=own,{lab.people_dn}", f"ou=theirs,ou=own,{lab.people_dn}"
    for name in (own, others):
        add(admin, name)
    other = threading.Timer(0.3, admin.delete_s, [others])
    other.start()
    report = clean(lab, tmp_path / "run", [(State.ADDED, own)])
    other.join()
    assert (report.deleted, report.left) == (1, 0)


def test_an_agent_that_lives_removes_what_its_killed_engine_left(
    lab: Lab, admin: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own, folder = f"ou=own,{lab.people_dn}", tmp_path / "run-5"
    add(admin, own)
    prepare(lab, folder, [(State.ADDED, own)])
    clean_up_aside(folder)
    wait_until(lambda: "1 entries removed, 0 left" in caplog.text, "the clean-up")
    assert not folder.exists()


def leave(lab: Lab, admin: Any, spool: Path, run_id: str, **changes: Any) -> str:
    """An entry that a killed agent's run left; its DN."""
    own = f"ou={run_id},{lab.people_dn}"
    add(admin, own)
    prepare(lab, spool / "ledgers" / run_id, [(State.ADDED, own)], **changes)
    return own


def test_what_earlier_runs_left_on_these_servers_is_removed_and_counted(
    lab: Lab, tree_before: Tree, admin: Any, tmp_path: Path
) -> None:
    uris = {lab.supplier.uri}
    damaged = tmp_path / "ledgers" / "run-0"
    damaged.mkdir(parents=True)
    (damaged / "clean-up.json").write_text("{")
    os.utime(damaged / "clean-up.json", (0, 0))
    for run_id in ("run-1", "run-2"):
        leave(lab, admin, tmp_path, run_id)
    elsewhere = leave(lab, admin, tmp_path, "run-3", uris=["ldap://127.0.0.1:1"])
    under_way = leave(lab, admin, tmp_path, "run-4")
    with locked(tmp_path / "ledgers" / "run-4"):
        took = clean_up_earlier(tmp_path, uris)
    assert took == {lab.supplier.uri: {"bind": 2, "delete": 2, "unbind": 2}}
    assert tree(lab).keys() - tree_before.keys() == {elsewhere, under_way}
    assert clean_up_earlier(tmp_path, uris)
    assert tree(lab).keys() - tree_before.keys() == {elsewhere}
    kept = sorted(path.name for path in (tmp_path / "ledgers").iterdir())
    assert kept == ["run-0", "run-3"]
    begun_s = time.monotonic()
    assert clean_up_earlier(tmp_path, uris) == {}
    # another server that does not answer delays nobody
    assert time.monotonic() - begun_s < 1
    with locked(tmp_path / "ledgers" / "run-3"):
        report = clean_up(tmp_path / "ledgers" / "run-3")
    assert report.left == 1
    assert report.error is not None
    assert "ldap://127.0.0.1:1" in report.error
    admin.delete_s(elsewhere)


def test_what_takes_too_long_is_left_to_the_run_after(
    lab: Lab, admin: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "ledgers" / "run-1"
    own = [f"ou=own.{n},{lab.people_dn}" for n in range(9)]
    for name in own:
        add(admin, name)
    prepare(lab, folder, [(State.ADDED, name) for name in own])
    rooms = "_EARLIER_S", "_PROGRESS_S", "_BATCH"
    for name, value in zip(rooms, (-1.0, 0.0, 3), strict=True):
        monkeypatch.setattr(f"ldapslam.agent.ledgers.cleanup.{name}", value)
    left = len(own)
    while left:
        took = clean_up_earlier(tmp_path, {lab.supplier.uri})
        assert took[lab.supplier.uri]["bind"] == 1
        found = len(tree(lab).keys() & set(own))
        assert found < left
        left = found
    monkeypatch.setattr("ldapslam.agent.ledgers.cleanup._EARLIER_S", 45.0)
    clean_up_earlier(tmp_path, {lab.supplier.uri})
    assert not folder.exists()


def test_389_ds_says_as_much_of_its_entries(ds389: Lab, tmp_path: Path) -> None:
    begun_s = time.time()
    top = f"ou=top,{ds389.people_dn}"
    names = [top, *(f"ou=a.{n},{top}" for n in range(20))]
    with supplier_of(ds389) as connection:
        for name in names:
            add(connection, name)
    loaded, absent = f"uid=user.7,{ds389.people_dn}", f"ou=absent,{ds389.people_dn}"
    records = [(State.ADDED, name) for name in names[:10]]
    records += [(State.SENT, name) for name in names[10:]]
    records += [(State.TAKEN, loaded), (State.TAKEN, absent)]
    report = clean(ds389, tmp_path / "run", records, begun_s=begun_s)
    assert (report.deleted, report.already_gone, report.left) == (21, 1, 1)
    assert "before the run" in report.named[0]["reason"]
