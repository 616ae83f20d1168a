# SPDX-License-Identifier: Apache-2.0
"""`data load --offline`: slapadd, ldif2db and an import task, on real databases."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ldapslam.lab.people import SUFFIX
from support.lab import FAST, Lab
from support.population import data_json, population

PEOPLE = 200
#: With the teams and the branch.
ENTRIES = PEOPLE + 4 + 1

SUFFIX_ENTRY = f"dn: {SUFFIX}\nobjectClass: domain\ndc: example\n\n"


@pytest.fixture(scope="module")
def slapd(slapd_installed: None) -> Iterator[Lab]:
    with Lab(entries=10, choices=FAST) as lab:
        yield lab


@pytest.fixture(scope="module")
def ds389(ds389_installed: None) -> Iterator[Lab]:
    with Lab(server="389ds", entries=10) as lab:
        yield lab


def load(*arguments: str | Path) -> dict[str, Any]:
    return data_json("load", *arguments)


def verify(lab: Lab, ldif: Path) -> dict[str, Any]:
    access = ("-D", lab.admin_dn, "-y", lab.admin_password_file)
    return data_json("verify", ldif, lab.supplier.uri, *access)


def offline(program: str, config: Path) -> tuple[str | Path, ...]:
    return "--offline", program, "--server-config", config


def import_task(lab: Lab) -> tuple[str | Path, ...]:
    access = ("-D", lab.admin_dn, "-y", lab.admin_password_file)
    return lab.supplier.uri, *access, "--offline", "import-task"


def spoilt(text: str) -> str:
    """With an entry that no server takes: its object class has no such attribute."""
    return f"{text}\ndn: ou=spoilt,{SUFFIX}\nobjectClass: country\nou: spoilt\n"


def test_slapadd(slapd: Lab, tmp_path: Path) -> None:
    ldif = tmp_path / "people.ldif.gz"
    ldif.write_bytes(gzip.compress(population(PEOPLE).encode()))
    slapadd = offline("slapadd", slapd.supplier.folder / "slapd.conf")
    refused = load(ldif, *slapadd)
    assert refused["exit_code"] == 6
    pid = slapd.supplier.pid
    assert f"the database of '{SUFFIX}' is open in process {pid}" in refused["stderr"]
    slapd.stop(slapd.supplier)
    result = load(ldif, *slapadd, "--quick")
    assert (result["exit_code"], result["is_success"]) == (0, True)
    assert result["entries_in_file"] == ENTRIES
    assert result["entries_per_s"] > 0
    # the same once more: the first entry is there
    again = load(ldif, *slapadd)
    assert (again["exit_code"], again["is_success"]) == (1, False)
    assert "slapadd: could not add entry" in again["stderr"]
    slapd.start(slapd.supplier)
    found = verify(slapd, ldif)
    assert found["is_equal"]
    assert found["found"]["fingerprint"] == result["fingerprint"]["sha256"]


def test_slapadd_goes_on(slapd: Lab, tmp_path: Path) -> None:
    ldif = tmp_path / "people.ldif"
    ldif.write_text(spoilt(population(PEOPLE).replace("loaded", "more")))
    slapd.stop(slapd.supplier)
    slapadd = offline("slapadd", slapd.supplier.folder / "slapd.conf")
    result = load(ldif, *slapadd, "--continue-on-error")
    assert result["exit_code"] == 1
    assert (result["entries_in_file"], result["skipped"]) == (ENTRIES + 1, 1)
    slapd.start(slapd.supplier)
    ldif.write_text(population(PEOPLE).replace("loaded", "more"))
    assert verify(slapd, ldif)["is_equal"]


@pytest.mark.long
def test_import_task_and_ldif2db(ds389: Lab, tmp_path: Path) -> None:
    ldif = tmp_path / "people.ldif"
    ldif.write_text(SUFFIX_ENTRY + population(PEOPLE))
    task = import_task(ds389)
    result = load(ldif, *task)
    assert (result["exit_code"], result["processed"]) == (0, ENTRIES + 1)
    headless = tmp_path / "headless.ldif"
    headless.write_text(population(PEOPLE))
    assert load(headless, *task)["exit_code"] == 2
    found = verify(ds389, ldif)
    # in place of all that was there
    assert (found["is_equal"], found["compared"]) == (True, ENTRIES + 1)
    assert found["found"]["fingerprint"] == result["fingerprint"]["sha256"]

    ldif2db = offline("ldif2db", ds389.supplier.folder / "config")
    refused = load(ldif, *ldif2db)
    assert refused["exit_code"] == 6
    assert f"runs as process {ds389.supplier.pid}" in refused["stderr"]
    ds389.stop(ds389.supplier)
    ldif.write_text(SUFFIX_ENTRY + spoilt(population(PEOPLE // 2)))
    part = load(ldif, *ldif2db)
    assert (part["exit_code"], part["skipped"]) == (1, 1)
    assert "violates schema" in part["stderr"]
    ldif.write_text(SUFFIX_ENTRY + population(PEOPLE // 2))
    whole = load(ldif, *ldif2db)
    assert (whole["exit_code"], whole["skipped"]) == (0, 0)
    ds389.start(ds389.supplier)
    assert verify(ds389, ldif)["is_equal"]


@pytest.mark.long
def test_what_the_server_cannot_read_is_told(ds389: Lab, tmp_path: Path) -> None:
    ldif = tmp_path / "people.ldif"
    ldif.write_text(f"dn: o=elsewhere,{SUFFIX.replace('example', 'else')}\no: x\n")
    result = load(ldif, *import_task(ds389))
    assert result["exit_code"] == 2
    assert f"their suffixes are {SUFFIX}" in result["stderr"]
