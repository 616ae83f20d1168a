# SPDX-License-Identifier: Apache-2.0
"""Servers of builds under test, and settings of a lab: found, or refused by name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ldapslam.base.errors import ConfigError
from ldapslam.lab import Choices, Lab, LabError
from ldapslam.lab.ds389 import programs as ds389_programs
from ldapslam.lab.options import DS389, SLAPD, Option, placed
from ldapslam.lab.site import last_words
from ldapslam.lab.slapd import slapd


def program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def built_slapd(path: Path, *static: str) -> Path:
    names = "\n".join(f"    {name}" for name in static)
    said = f"@(#) $OpenLDAP: slapd 2.6.9 $\n\nIncluded static backends:\n{names}\n"
    return program(path, f"cat >&2 <<'END'\n{said}END")


def touch(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def test_an_installed_build_has_schema_and_modules_below_its_prefix(
    tmp_path: Path,
) -> None:
    binary = built_slapd(tmp_path / "libexec/slapd", "config", "ldif", "monitor")
    touch(tmp_path / "etc/openldap/schema/core.schema")
    for name in ("back_mdb", "syncprov"):
        touch(tmp_path / f"libexec/openldap/{name}.so")
    found = slapd.find_programs(binary)
    assert found.schema_folder == tmp_path / "etc/openldap/schema"
    assert found.modules(["mdb", "syncprov"]) == [
        f"modulepath {tmp_path}/libexec/openldap",
        "moduleload back_mdb",
        "moduleload syncprov",
    ]
    with pytest.raises(ConfigError, match="no accesslog") as caught:
        found.modules(["mdb", "accesslog"])
    assert "--enable-accesslog" in str(caught.value.hint)


def test_a_build_tree_with_all_built_in_needs_no_modules(tmp_path: Path) -> None:
    binary = built_slapd(tmp_path / "servers/slapd/slapd", "mdb", "syncprov")
    touch(tmp_path / "servers/slapd/schema/core.schema")
    assert slapd.find_programs(binary).modules(["mdb", "syncprov"]) == []


def test_a_package_need_not_be_installed(tmp_path: Path) -> None:
    binary = built_slapd(tmp_path / "usr/sbin/slapd")
    touch(tmp_path / "etc/ldap/schema/core.schema")
    touch(tmp_path / "usr/lib/ldap/back_mdb.so")
    found = slapd.find_programs(binary)
    assert found.schema_folder == tmp_path / "etc/ldap/schema"
    assert found.modules(["mdb"]) == [
        f"modulepath {tmp_path}/usr/lib/ldap",
        "moduleload back_mdb",
    ]


def test_what_is_no_slapd_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no program"):
        slapd.find_programs(tmp_path / "slapd")
    with pytest.raises(ConfigError, match=r"is no slapd: .*'something else'"):
        slapd.find_programs(program(tmp_path / "slapd", "echo something else"))
    with pytest.raises(ConfigError, match=r"no core\.schema in"):
        slapd.find_programs(built_slapd(tmp_path / "bin/slapd", "mdb"))


def test_missing_programs_name_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(slapd, "_PROGRAM_FOLDERS", ())
    monkeypatch.setattr(ds389_programs, "_PATH", "/nonexistent")
    for module, package in ((slapd, "slapd"), (ds389_programs, "389-ds-base")):
        with pytest.raises(LabError) as caught:
            module.find_programs()
        assert f"apt-get install {package}" in str(caught.value.hint)


def test_what_is_no_ns_slapd_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is no program"):
        ds389_programs.find_programs(tmp_path / "ns-slapd")
    with pytest.raises(ConfigError, match="is no ns-slapd: "):
        ds389_programs.find_programs(program(tmp_path / "ns-slapd", "echo other"))


@pytest.mark.parametrize(
    ("server", "choices", "message"),
    [
        ("slapd", Choices(backend="bdb"), "slapd has mdb alone"),
        ("389ds", Choices(has_delta=True), "no delta-syncrepl"),
        ("389ds", Choices(backend="hdb"), "expected 'bdb' or 'mdb'"),
    ],
)
def test_what_a_server_cannot_do_is_refused(
    server: str, choices: Choices, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        Lab(server="slapd" if server == "slapd" else "389ds", choices=choices)


def test_a_back_end_that_the_build_lacks_is_refused_with_the_one_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    binary = program(tmp_path / "sbin/ns-slapd", "echo 389-Directory/3.1")
    for name in ("certutil", "pk12util"):
        program(tmp_path / "bin" / name, "")
    monkeypatch.setattr(ds389_programs, "_PATH", str(tmp_path / "bin"))
    touch(tmp_path / "share/dirsrv/data/template-dse.ldif")
    library = tmp_path / "lib/x86_64-linux-gnu/dirsrv/plugins/libback-ldbm.so"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"\0dbmdb_init\0")
    lab = Lab(server="389ds", choices=Choices(binary=binary, backend="bdb"))
    with pytest.raises(ConfigError, match="has no back end bdb") as caught:
        lab.up()
    assert caught.value.hint == "--backend mdb"


def test_a_389_ds_is_quoted_from_its_log_of_errors(tmp_path: Path) -> None:
    log = tmp_path / "ns-slapd.log"
    assert last_words(log) == "it said nothing"
    log.write_text("started\n")
    assert last_words(log) == "started"
    (tmp_path / "log").mkdir()
    lines = "[27/Nov] - INFO - main - up\n[27/Nov] - ERR - main - no disk\n"
    (tmp_path / "log" / "errors").write_text(lines)
    assert last_words(log) == "ERR - main - no disk"


# Settings of a lab by name: placed, or refused with the remedy.


def test_settings_are_placed_in_the_order_given() -> None:
    chosen = [("index", "cn eq"), ("Threads", "8"), ("index", "sn eq")]
    assert placed(chosen, SLAPD, "slapd") == {
        "database": [("index", "cn eq"), ("index", "sn eq")],
        "global": [("threads", "8")],
    }


def test_short_names_stand_for_the_servers_own() -> None:
    chosen = [("cachesize", "512MiB"), ("nsslapd-dncachememsize", "1000000")]
    assert placed(chosen, DS389, "389-DS") == {
        "backend": [
            ("nsslapd-cachememsize", "536870912"),
            ("nsslapd-dncachememsize", "1000000"),
        ]
    }


def test_a_flag_is_there_or_not() -> None:
    assert placed([("dbnosync", "on")], SLAPD, "slapd") == {
        "database": [("dbnosync", "")]
    }
    assert placed([("dbnosync", "off")], SLAPD, "slapd") == {}


@pytest.mark.parametrize(
    ("table", "server", "name", "value", "message", "hint"),
    [
        (SLAPD, "slapd", "thread", "8", "no setting", "did you mean 'threads'?"),
        (SLAPD, "slapd", "cachesize", "1GiB", "no setting", "mdb has no cache"),
        (DS389, "389-DS", "nsslapd-cachemesize", "1", "no setting", "cachememsize'?"),
        (DS389, "389-DS", "cachesize", "1 acre", "a size such as", "MiB"),
        (SLAPD, "slapd", "maxsize", "", "a value in one line", "maxsize=VALUE"),
        (SLAPD, "slapd", "index", "a\nb c", "a value in one line", "index=VALUE"),
        (SLAPD, "slapd", "dbnosync", "yes", "'on' or 'off'", ""),
    ],
)
def test_what_cannot_be_set_is_refused_with_the_remedy(
    table: dict[str, Option],
    server: str,
    name: str,
    value: str,
    message: str,
    hint: str,
) -> None:
    with pytest.raises(ConfigError) as caught:
        placed([(name, value)], table, server)
    assert message in str(caught.value)
    assert hint in (caught.value.hint or "")


def test_each_setting_is_documented() -> None:
    page = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "labs.md"
    documented = set(re.findall(r"`([\w-]+)`", page.read_text()))
    assert set(SLAPD) | set(DS389) <= documented
