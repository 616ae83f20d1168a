# SPDX-License-Identifier: Apache-2.0
"""`data load` over LDAP, into both servers: each entry is added, whatever happens."""

from __future__ import annotations

import base64
import gzip
import signal
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ldap
import pytest

from ldapslam.dataset.ldif import ldif_entries
from ldapslam.lab.people import SUFFIX
from support.command_line import Running
from support.directory import Directory
from support.fake_ldap import FakeLdap, Peer, Request
from support.population import (
    BRANCH,
    as_admin,
    change,
    data,
    data_json,
    person_dn,
    population,
    remove_branch,
    write_population,
)
from support.relay import Relay

PEOPLE = 1_000
#: With the teams and the branch.
ENTRIES = PEOPLE + PEOPLE // 50 + 1

_TIMEOUT_S = 60.0


@pytest.fixture
def target(directory: Directory) -> Iterator[Directory]:
    """A server without the branch, and without it afterwards."""
    remove_branch(directory)
    yield directory
    remove_branch(directory)


@pytest.fixture
def slapd_target(slapd_directory: Directory) -> Iterator[Directory]:
    remove_branch(slapd_directory)
    yield slapd_directory
    remove_branch(slapd_directory)


@pytest.fixture
def ldif(tmp_path: Path) -> Path:
    return write_population(tmp_path / "people.ldif", PEOPLE)


def load(directory: Directory, *arguments: str | Path, uri: str = "") -> dict[str, Any]:
    return data_json("load", *arguments, uri or directory.uri, *as_admin(directory))


def is_equal(directory: Directory, ldif: Path) -> bool:
    done = data("verify", ldif, directory.uri, *as_admin(directory))
    assert done.returncode in (0, 1), done.stderr
    return done.returncode == 0


def test_all_entries_are_there_afterwards(target: Directory, tmp_path: Path) -> None:
    ldif = write_population(tmp_path / "people.ldif", 300)
    assert not is_equal(target, ldif)
    result = load(target, ldif)
    assert result["exit_code"] == 0
    assert (result["added"], result["rejected"]) == (307, 0)
    assert result["added_per_s"] > 0
    assert result["fingerprint"]["entries"] == 307
    assert is_equal(target, ldif)
    assert list(ldif.parent.iterdir()) == [ldif]
    again = load(target, ldif)
    assert (again["exit_code"], again["is_complete"]) == (0, True)
    assert (again["added"], again["present"]) == (0, 307)
    done = data("load", ldif, target.uri, *as_admin(target))
    assert "307 were already there" in done.stdout
    assert "`ldapslam data verify`" in done.stdout
    assert "fingerprint" not in done.stdout


def test_refused_entries_are_kept_and_can_be_loaded_once_mended(
    target: Directory, tmp_path: Path
) -> None:
    unknown = "objectClass: inetOrgPerson\nobjectClass: noSuchClass\n"
    text = population(200).replace("objectClass: inetOrgPerson\n", unknown, 3)
    orphan = f"uid=x,ou=nowhere,{BRANCH}"
    text += f"\ndn: {orphan}\nobjectClass: account\nuid: x\n"
    ldif = tmp_path / "people.ldif"
    ldif.write_text(text)
    result = load(target, ldif, "--continue-on-error")
    assert result["exit_code"] == 1
    assert (result["added"], result["rejected"]) == (202, 4)
    assert result["is_complete"]
    rejects = Path(result["rejects"]).read_text()
    assert Path(result["rejects"]) == tmp_path / "people.ldif.rejects"
    for number in range(3):
        assert f"dn: {person_dn(number)}\n" in rejects
    assert rejects.count("# line ") == 4
    assert "noSuchObject (32)" in rejects
    mended = tmp_path / "mended.ldif"
    mended.write_text(
        rejects.replace("objectClass: noSuchClass\n", "").replace(
            f"dn: {orphan}", f"dn: uid=x,{BRANCH}"
        )
    )
    assert load(target, mended)["added"] == 4
    assert is_equal_without(target, tmp_path, 200, f"uid=x,{BRANCH}")


def is_equal_without(
    directory: Directory, folder: Path, people: int, extra: str
) -> bool:
    whole = write_population(folder / "whole.ldif", people)
    found = data_json("verify", whole, directory.uri, *as_admin(directory))
    return [one["dn"] for one in found["named"]] == [extra]


def test_without_more_words_the_first_refused_entry_ends_it(
    target: Directory, tmp_path: Path
) -> None:
    text = population(150)
    ldif = tmp_path / "people.ldif"
    ldif.write_text(text.replace("sn: ", "noSuchAttribute: ", 1))
    result = load(target, ldif)
    assert result["exit_code"] == 1
    assert not result["is_complete"]
    assert repr(person_dn(0)) in result["stopped_by"]
    assert "line " in result["stopped_by"]
    assert not list(tmp_path.glob("*.rejects"))
    # the two entries before it, and adds that were sent before the response
    added = result["added"]
    assert added > 2
    ldif.write_text(text)
    again = load(target, ldif)
    assert (again["exit_code"], again["present"]) == (0, added)
    assert again["added"] + again["present"] == 150 + 3 + 1
    assert is_equal(target, ldif)


def test_the_file_of_rejects_is_private_and_replaced(
    slapd_target: Directory, tmp_path: Path
) -> None:
    ldif = tmp_path / "people.ldif"
    ldif.write_text(population(3).replace("sn: ", "noSuchAttribute: ", 1))
    rejects, other = tmp_path / "rejects", tmp_path / "other"
    other.write_text("kept")
    rejects.symlink_to(other)
    arguments = (ldif, "--continue-on-error", "--rejects")
    assert load(slapd_target, *arguments, rejects)["rejected"] == 1
    assert stat.S_IMODE(rejects.lstat().st_mode) == 0o600
    assert [dn for dn, _ in ldif_entries(rejects)] == [person_dn(0)]
    assert other.read_text() == "kept"
    ldif.write_text(population(3))
    assert load(slapd_target, *arguments, rejects)["rejected"] == 0
    assert not rejects.exists()
    for unusable, reason in (
        (ldif / "x", "cannot be written"),
        (ldif, "has the entri"),
    ):
        refused = load(slapd_target, *arguments, unusable)
        assert refused["exit_code"] == 2
        assert reason in refused["stderr"]
    assert ldif.read_text() == population(3)


def _wait_for_first_person(directory: Directory, running: Running) -> None:
    deadline_s = time.monotonic() + _TIMEOUT_S
    while not _has_first_person(directory):
        assert running.process.poll() is None, running.stderr
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def _has_first_person(directory: Directory) -> bool:
    entries: list[Any] = []
    change(
        directory,
        lambda connection: entries.extend(
            connection.search_s(SUFFIX, ldap.SCOPE_SUBTREE, "(uid=p0)", ["1.1"])
        ),
    )
    return bool(entries)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=["kill", "int"])
def test_an_interrupted_load_goes_on(
    slapd_target: Directory, ldif: Path, how: signal.Signals
) -> None:
    upstream = slapd_target.uri.removeprefix("ldap://")
    with Relay(upstream) as relay:
        relay.delay_s = 0.005
        uri = f"ldap://{relay.address}"
        arguments = ["data", "load", str(ldif), uri, *as_admin(slapd_target)]
        with Running(
            *arguments, "--connections", "1", "--window", "4", cwd=ldif.parent
        ) as running:
            _wait_for_first_person(slapd_target, running)
            running.process.send_signal(how)
            assert running.wait() == (130 if how == signal.SIGINT else -how)
            has_advice = "call the same command again" in running.stderr
            assert has_advice == (how == signal.SIGINT)
        assert not is_equal(slapd_target, ldif)
        relay.delay_s = 0.0
        result = load(slapd_target, ldif, uri=uri)
    assert result["exit_code"] == 0
    assert result["present"] > 0
    assert result["added"] + result["present"] == ENTRIES
    assert is_equal(slapd_target, ldif)


def test_lost_connections_lose_nothing(slapd_target: Directory, ldif: Path) -> None:
    with Relay(slapd_target.uri.removeprefix("ldap://")) as relay:
        relay.delay_s = 0.02
        uri = f"ldap://{relay.address}"
        arguments = ["data", "load", str(ldif), uri, *as_admin(slapd_target)]
        with Running(*arguments, "--window", "4", cwd=ldif.parent) as running:
            _wait_for_first_person(slapd_target, running)
            relay.reset()
            relay.delay_s = 0.0
            assert running.wait() == 0, running.stderr
        assert f"{ENTRIES:,} entries added" in running.stdout
    assert is_equal(slapd_target, ldif)


def test_a_server_that_never_stays_is_told(ldif: Path) -> None:
    def hang_up(_: Peer, __: Request) -> bool:
        return False

    with FakeLdap(hang_up) as server:
        done = data("load", ldif, server.uri)
    assert done.returncode == 6
    assert "5 times while 'ou=loaded,dc=example,dc=com' was being added" in done.stderr


def test_files_of_every_kind_are_loaded_or_their_faults_are_told(
    slapd_target: Directory, tmp_path: Path
) -> None:
    ldif = tmp_path / "people.ldif"
    ldif.write_text(population(3) + "\ndn: uid=x\nnonsense\n")
    result = load(slapd_target, ldif)
    assert result["exit_code"] == 2
    assert f"{ldif}:{len(ldif.read_text().splitlines())}: expected" in result["stderr"]
    # with attributes that are the server's own, and packed
    text = population(3).rstrip() + "\nentryUUID: 1\ncreatorsName: cn=x\n"
    packed = tmp_path / "people.ldif.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    assert load(slapd_target, packed)["exit_code"] == 1
    stripped = ("--strip-operational", "--connections", "1")
    assert load(slapd_target, packed, *stripped)["exit_code"] == 0
    assert is_equal(slapd_target, packed)


def test_entries_that_cannot_be_sent_end_no_load(
    slapd_target: Directory, tmp_path: Path
) -> None:
    dn = base64.b64encode(f"cn=a\0b,{BRANCH}".encode()).decode()
    entry = f"dn:: {dn}\nobjectClass: device\ncn: a\n\n"
    ldif = tmp_path / "people.ldif"
    # more than are read ahead, before and after those that can be
    ldif.write_text(entry * 600 + population(20) + "\n" + entry * 600)
    result = load(slapd_target, ldif, "--continue-on-error")
    assert (result["exit_code"], result["is_complete"]) == (1, True)
    assert (result["added"], result["rejected"]) == (22, 1200)
    assert is_equal(slapd_target, write_population(tmp_path / "good.ldif", 20))


def test_a_bind_that_is_refused_is_told_in_the_words_of_options(
    slapd_target: Directory, ldif: Path
) -> None:
    wrong = ldif.with_name("wrong")
    wrong.write_text("not this one")
    wrong.chmod(0o600)
    who = ("-D", slapd_target.admin_dn, "-y", str(wrong))
    for arguments in (
        ["load", ldif, slapd_target.uri],
        ["verify", ldif, slapd_target.uri],
    ):
        done = data(*map(str, arguments), *who)
        assert done.returncode == 6
        assert "hint: check -D and the password of -y" in done.stderr
