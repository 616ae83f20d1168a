# SPDX-License-Identifier: Apache-2.0
"""`data verify`: each kind of difference is found and named, on both servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ldap
import pytest

from ldapslam.directory.comparison import NAMED
from ldapslam.lab.people import write_ldif
from support.directory import PEOPLE as LAB_PEOPLE
from support.directory import Directory
from support.population import (
    BRANCH,
    as_admin,
    change,
    data,
    data_json,
    person_dn,
    remove_branch,
    write_population,
)

PEOPLE = 550
#: With the teams and the branch; more than a page.
ENTRIES = PEOPLE + 11 + 1

MISSING, CHANGED, GONE = person_dn(7), person_dn(60), person_dn(520)
EXTRA = f"uid=stranger,{BRANCH}"


@pytest.fixture(scope="module")
def ldif(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_population(tmp_path_factory.mktemp("data") / "people.ldif", PEOPLE)


@pytest.fixture(params=["slapd", "ds389"])
def loaded(request: pytest.FixtureRequest, ldif: Path) -> Iterator[Directory]:
    """Each server in turn, with the population."""
    directory: Directory = request.getfixturevalue(f"{request.param}_directory")
    yield _load(directory, ldif)
    remove_branch(directory)


@pytest.fixture
def both(
    slapd_directory: Directory, ds389_directory: Directory, ldif: Path
) -> Iterator[tuple[Directory, Directory]]:
    """Both servers at once."""
    servers = (slapd_directory, ds389_directory)
    yield (_load(servers[0], ldif), _load(servers[1], ldif))
    for server in servers:
        remove_branch(server)


def _load(directory: Directory, ldif: Path) -> Directory:
    remove_branch(directory)
    done = data("load", ldif, directory.uri, *as_admin(directory))
    assert done.returncode == 0, done.stderr
    return directory


def _break(connection: Any) -> None:
    connection.delete_s(MISSING)
    connection.modify_s(CHANGED, [(ldap.MOD_REPLACE, "sn", [b"Else"])])
    connection.modify_s(GONE, [(ldap.MOD_DELETE, "manager", None)])
    connection.add_s(EXTRA, [("objectClass", [b"account"]), ("uid", [b"stranger"])])


def verify(*arguments: str | Path) -> dict[str, Any]:
    return data_json("verify", *arguments)


def test_a_file_is_compared(loaded: Directory, ldif: Path) -> None:
    access = as_admin(loaded)
    result = verify(ldif, loaded.uri, *access)
    assert (result["exit_code"], result["is_equal"]) == (0, True)
    assert result["expected"]["entries"] == result["found"]["entries"] == ENTRIES
    assert result["expected"]["fingerprint"] == result["found"]["fingerprint"]
    assert result["compared"] == ENTRIES
    team = verify(ldif, loaded.uri, *access, "-b", f"ou=team 3,{BRANCH}")
    assert (team["exit_code"], team["compared"]) == (0, 51)
    # a base that is nowhere leaves nothing to compare
    nobody = verify(ldif, loaded.uri, *access, "-b", f"ou=none,{BRANCH}")
    assert nobody["exit_code"] == 2

    change(loaded, _break)
    for options in ([], ["--sample", str(2 * ENTRIES)]):
        _is_told(verify(ldif, loaded.uri, *access, *options))
    ignored = verify(ldif, loaded.uri, *access, "--ignore", "SN", "--ignore", "manager")
    assert (ignored["missing"], ignored["different"]) == (1, 0)
    _is_read(data("verify", ldif, loaded.uri, *access).stdout)


def _is_told(result: dict[str, Any]) -> None:
    """All that _break did."""
    assert (result["exit_code"], result["is_equal"]) == (1, False)
    counts = [result[kind] for kind in ("missing", "extra", "different")]
    assert counts == [1, 1, 2]
    named = {(one["kind"], one["dn"]): one["attributes"] for one in result["named"]}
    assert named["missing", MISSING] == []
    assert named["extra", EXTRA] == []
    [changed] = named["different", CHANGED]
    assert changed["name"] == "sn"
    assert changed["only_expected"] == ["Surname of a length that is folded"]
    assert changed["only_found"] == ["Else"]
    [gone] = named["different", GONE]
    assert gone["name"] == "manager"
    assert gone["only_found"] == []


def _is_read(text: str) -> None:
    """By people."""
    assert f"\nmissing: {MISSING}\n" in text
    assert f"\nextra: {EXTRA}\n" in text
    assert (
        f"\ndifferent: {CHANGED}: sn: expected 'Surname of a length that is folded', "
        "found 'Else'\n"
    ) in text
    assert text.endswith(
        f"not equal: 1 missing, 1 extra, 2 different; {ENTRIES - 1} entries compared\n"
    )


def test_servers_of_two_kinds_are_compared(both: tuple[Directory, Directory]) -> None:
    slapd, ds389 = both
    uris = (slapd.uri, ds389.uri)
    access: list[str | Path] = [
        *as_admin(ds389),
        *("--expected-bind-dn", slapd.admin_dn),
        *("--expected-password-file", slapd.admin_password_file),
        *("-b", BRANCH),
    ]
    result = verify(*uris, *access)
    assert (result["exit_code"], result["is_equal"]) == (0, True)
    assert result["found"]["entries"] == ENTRIES
    # 389-DS hashes passwords, slapd does not
    passwords = verify(*uris, *access, "--passwords")
    assert passwords["different"] == PEOPLE
    assert [one["attributes"] for one in passwords["named"]] == [
        [{"name": "userpassword"}]
    ] * NAMED
    change(ds389, lambda connection: connection.delete_s(MISSING))
    broken = verify(*uris, *access)
    assert (broken["exit_code"], broken["missing"]) == (1, 1)
    assert broken["named"][0]["dn"] == MISSING


def test_a_servers_limits_are_no_smaller_tree(
    slapd_directory: Directory, tmp_path: Path
) -> None:
    """slapd hands 500 entries to others than its rootdn, in pages or not."""
    write_ldif(tmp_path / "people.ldif", LAB_PEOPLE)
    done = data("verify", tmp_path / "people.ldif", slapd_directory.uri)
    assert done.returncode == 6
    assert "Size limit exceeded (4)" in done.stderr
    assert "as an identity without limits" in done.stderr


def test_faults_are_told(slapd_directory: Directory, tmp_path: Path) -> None:
    (tmp_path / "empty.ldif").touch()
    for expected, words in (
        (tmp_path / "none.ldif", "No such file"),
        (tmp_path / "empty.ldif", "has no entries"),
    ):
        done = data("verify", expected, slapd_directory.uri)
        assert done.returncode == 2
        assert words in done.stderr

    # a name that is misspelt compares nothing, and is not equal to anything
    uri = slapd_directory.uri
    nowhere = ("-b", "ou=nosuch,dc=example,dc=com", *as_admin(slapd_directory))
    done = data("verify", uri, uri, *nowhere)
    assert done.returncode == 2, done.stdout
    assert "nothing at or below" in done.stderr
