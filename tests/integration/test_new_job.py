# SPDX-License-Identifier: Apache-2.0
"""`ldapslam new` makes a job for a directory that is there, and the job runs."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from ldapslam.base.errors import ExitCode
from ldapslam.jobs.doubts import unsupported_thresholds
from ldapslam.jobs.load import load_job
from support.command_line import check_ldapslam, ldapslam
from support.fake_ldap import (
    SEARCH_ENTRY,
    FakeLdap,
    Peer,
    Request,
    answer_with,
    message,
    result,
    tlv,
)
from support.lab import Lab
from support.replication import supplier_of


def new(folder: Path, *arguments: str | Path, code: int = ExitCode.PASS) -> str:
    """Make the job first.yaml; return what the command writes to standard error."""
    made = ldapslam("new", *arguments, "-o", "first.yaml", cwd=folder)
    assert made.returncode == code, made.stderr
    return made.stderr


def test_the_job_finds_what_is_there(lab: Lab, tmp_path: Path) -> None:
    made = check_ldapslam(
        *("new", lab.supplier.uri, "-o", "first.yaml", "-r", "200/s", "-d", "1s"),
        *("--sample", "40", "-D", lab.admin_dn, "-y", lab.admin_password_file),
        cwd=tmp_path,
    )
    assert made.stdout == "first.yaml\n"
    said = "a sample of the first 40: there are more (--sample N)"
    assert said in made.stderr
    assert said in (tmp_path / "first.yaml").read_text()
    values = tmp_path / "first.values.txt"
    assert stat.S_IMODE(values.stat().st_mode) == 0o600
    found = values.read_text().splitlines()
    assert len(found) == len(set(found)) == 40
    # p99 needs more than a second
    thresholds = "[lookups.search.p90 < 1s, lookups.search.empty < 1%]"
    ended = ldapslam(
        *("run", "first.yaml", "--set", "run.warm_up=0s"),
        *("--set", f"thresholds={thresholds}"),
        cwd=tmp_path,
    )
    assert ended.returncode in (ExitCode.PASS, ExitCode.INVALID), ended.stdout
    # the table may break the rest of the line
    assert "lookups.search.empty" in ended.stdout
    assert "searches found nothing" not in ended.stdout


@pytest.fixture
def places(lab: Lab) -> Iterator[str]:
    """The base of entries with an attribute of their own, and of one with a cn."""
    base = f"ou=places,{lab.suffix}"
    entries: list[tuple[str, dict[str, list[bytes]]]] = [
        (base, {"objectClass": [b"organizationalUnit"]}),
        (f"cn=keeper,{base}", {"objectClass": [b"device"]}),
        *((f"l=place {n},{base}", {"objectClass": [b"locality"]}) for n in range(5)),
    ]
    entries[3][1].update(st=[b"north"])
    with supplier_of(lab) as connection:
        for dn, attributes in entries:
            connection.add_s(dn, list(attributes.items()))
    yield base
    with supplier_of(lab) as connection:
        for dn, _ in reversed(entries):
            connection.delete_s(dn)


@pytest.mark.parametrize(
    ("options", "attribute", "values"),
    [
        ((), "l", [f"place {n}" for n in range(5)]),
        (("--attribute", "st"), "st", ["north"]),
    ],
)
def test_entries_without_a_usual_attribute_are_found(
    lab: Lab,
    tmp_path: Path,
    places: str,
    options: tuple[str, ...],
    attribute: str,
    values: list[str],
) -> None:
    said = new(tmp_path, lab.supplier.uri, "--base", places, *options)
    assert f"found {len(values)} entries below {places!r} by {attribute};" in said
    assert (tmp_path / "first.values.txt").read_text().splitlines() == values
    checked = check_ldapslam("check", "first.yaml", cwd=tmp_path)
    assert "found nothing" not in checked.stderr


def test_nothing_is_written_over(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "first.values.txt").write_text("mine\n")
    said = new(tmp_path, lab.supplier.uri, code=ExitCode.USAGE)
    assert "'first.values.txt' is there already" in said
    assert not (tmp_path / "first.yaml").exists()


@pytest.mark.parametrize(
    ("option", "value", "code", "says"),
    [
        ("--attribute", "pager", ExitCode.TARGET, "no entry with 'pager' can be read"),
        ("--attribute", "a b", ExitCode.USAGE, "--attribute: "),
        ("--base", "dc=nowhere", ExitCode.TARGET, "below 'dc=nowhere'"),
        ("--base", "x", ExitCode.USAGE, "-b: expected a DN, got 'x'"),
        # 0 is no limit in LDAP
        ("--sample", "0", ExitCode.USAGE, "--sample"),
    ],
)
def test_what_finds_no_entries_makes_no_job(
    lab: Lab, tmp_path: Path, option: str, value: str, code: int, says: str
) -> None:
    assert says in new(tmp_path, lab.supplier.uri, option, value, code=code)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_refuses_searches_is_told(tmp_path: Path) -> None:
    with FakeLdap(answer_with(50)) as server:
        assert "hint: " in new(tmp_path, server.uri, code=ExitCode.TARGET)


def _found(request: Request, name: bytes, *values: bytes) -> bytes:
    of_name = tlv(0x31, b"".join(tlv(0x04, one) for one in values))
    attributes = tlv(0x30, tlv(0x30, tlv(0x04, name) + of_name))
    return message(request.message_id, SEARCH_ENTRY, tlv(0x04, b"o=x") + attributes)


def _second_suffix_alone(peer: Peer, request: Request) -> bool:
    """Of two: the first may not be read."""
    if request.content.startswith(tlv(0x04, b"o=closed")):
        return peer.send(result(request, 50))
    if request.content.startswith(tlv(0x04, b"o=open")):
        return peer.send(_found(request, b"uid", b"anna") + result(request))
    suffixes = _found(request, b"namingContexts", b"o=closed", b"o=open")
    return peer.send(suffixes + result(request))


def test_a_suffix_that_may_not_be_read_is_passed_over(tmp_path: Path) -> None:
    with FakeLdap(_second_suffix_alone) as server:
        said = new(tmp_path, server.uri, "--base", "o=closed", code=ExitCode.TARGET)
        assert "insufficient" in said.lower()
        new(tmp_path, server.uri)
    assert "base: o=open" in (tmp_path / "first.yaml").read_text()


def _ended_at_one(peer: Peer, request: Request) -> bool:
    return peer.send(_found(request, b"uid", b"anna") + result(request, 4))


def test_a_sample_that_the_server_ended_is_what_the_load_reaches(
    tmp_path: Path,
) -> None:
    with FakeLdap(_ended_at_one) as server:
        said = new(tmp_path, server.uri, "--base", "o=x")
    assert (
        "found 1 entries below 'o=x' by uid, all that the server gave, as anonymous "
        "has a size limit there"
    ) in said


@pytest.fixture(scope="module")
def closed_lab(slapd_installed: None) -> Iterator[Lab]:
    """Its root DSE is hidden from anonymous clients, and searches end at 40 entries."""
    acl = 'access to dn.base="" by users read by anonymous auth'
    with Lab(entries=100, global_lines=[acl, "sizelimit 40"]) as lab:
        yield lab


def test_a_hidden_root_dse_is_told(closed_lab: Lab, tmp_path: Path) -> None:
    """slapd answers such a search with success and no entry."""
    said = new(tmp_path, closed_lab.supplier.uri, code=ExitCode.TARGET)
    assert "anonymous may not read the root DSE" in said
    assert "give -D DN -y FILE of one who may, or -b BASE" in said


@pytest.mark.parametrize(
    ("identity", "who"), [(None, "anonymous"), ("uid=user.0", "uid=user.0,{people}")]
)
def test_what_a_limit_of_the_server_left_out_is_told(
    closed_lab: Lab, tmp_path: Path, identity: str | None, who: str
) -> None:
    people = closed_lab.people_dn
    (tmp_path / "password").write_text("password")
    user = ("-D", f"{identity},{people}", "-y", "password") if identity else ()
    said = new(tmp_path, closed_lab.supplier.uri, "-b", people, *user)
    limit = f"all that the server gave, as {who.format(people=people)} has a size limit"
    assert limit in said
    assert limit in (tmp_path / "first.yaml").read_text()
    assert "so (uid=user.[0-39]) as the filter" in said


@pytest.mark.parametrize(
    ("load", "threshold"),
    [
        ((), "p99 < 100ms"),
        (("-d", "20s"), "p95 < 100ms"),
        (("-r", "500/s", "-d", "60s"), "p99 < 100ms"),
        (("-r", "1/s", "-d", "2s"), "empty < 1%"),
    ],
)
def test_the_length_of_the_job_can_decide_its_thresholds(
    lab: Lab, tmp_path: Path, load: tuple[str, ...], threshold: str
) -> None:
    new(tmp_path, lab.supplier.uri, *load)
    job = load_job(tmp_path / "first.yaml")
    assert job.thresholds[0] == f"lookups.search.{threshold}"
    assert list(unsupported_thresholds(job)) == []
