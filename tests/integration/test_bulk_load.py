# SPDX-License-Identifier: Apache-2.0
"""Imports that a run times: all ways of both servers."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.busy_host import VALIDITY
from support.command_line import check_ldapslam, ldapslam
from support.figures import value_of

#: The example template: the suffix and ou=People are entries too.
PEOPLE, ENTRIES = 300, 302

JOB = (
    VALIDITY
    + f"""\
name: imports
targets: {{here: "ldap://localhost"}}
run: {{interval: 1s}}
streams:
  - name: slapadd
    target: here
    type: bulk_load
    count: 2
    options:
      server: slapd
      entries: {PEOPLE}
      place: FOLDER
      settings: {{index: ["cn,sn eq,sub", uid eq], dbnosync: "on"}}
  - name: adds
    target: here
    type: bulk_load
    options:
      {{server: slapd, method: online, entries: {PEOPLE}, settings: {{dbnosync: "on"}}}}
  - name: ldif2db
    target: here
    type: bulk_load
    options: {{server: 389ds, entries: {PEOPLE}, place: FOLDER}}
  - name: import-task
    target: here
    type: bulk_load
    options: {{server: 389ds, method: online, ldif: FOLDER/own.ldif}}
thresholds: ["*.import.errors < 1%"]
"""
)

OWN = """\
dn: dc=example,dc=com
objectClass: domain
dc: example

dn: ou=people,dc=example,dc=com
objectClass: organizationalUnit
ou: people
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Of a short name: it has the servers' sockets in it."""
    with tempfile.TemporaryDirectory(prefix="imports-") as name:
        yield Path(name)


def run(folder: Path, job: str) -> dict[str, Any]:
    (folder / "job.yaml").write_text(job.replace("FOLDER", str(folder)))
    words = ("run", folder / "job.yaml", "--json", "--out", folder / "out")
    ended = ldapslam(*words, draws=True)
    assert ended.stdout, ended.stderr
    result: dict[str, Any] = json.loads(ended.stdout)
    return result


def test_every_import_is_timed_and_leaves_nothing(folder: Path) -> None:
    (folder / "own.ldif").write_text(OWN)
    result = run(folder, JOB)
    assert result["verdict"] == "PASS", result["reasons"]
    assert {
        name: figures["succeeded"] for name, figures in result["totals"].items()
    } == {
        "slapadd.import": 2,
        "adds.import": 1,
        "ldif2db.import": 1,
        "import-task.import": 1,
    }
    imports = result["imports"]
    assert sorted(
        (one["stream"], one["method"], one["entries"], one["quick"]) for one in imports
    ) == [
        ("adds", "adds", ENTRIES, None),
        ("import-task", "import-task", 2, None),
        ("ldif2db", "ldif2db", ENTRIES, None),
        ("slapadd", "slapadd", ENTRIES, True),
        ("slapadd", "slapadd", ENTRIES, True),
    ]
    for one in imports:
        longest_us = value_of(result, f"{one['stream']}.import.service_time.max")
        assert 0 < one["seconds"] <= longest_us / 1e6
        assert one["cpu_user_s"] + one["cpu_system_s"] > 0
        assert one["peak_memory_bytes"] > 1 << 20
        assert one["database_bytes"] > 1 << 14
        assert any(digit in one["server"] for digit in "23456789")
    assert sorted(one.name for one in folder.iterdir()) == [
        "job.yaml",
        "out",
        "own.ldif",
    ]
    page = (folder / "out" / "report.html").read_text()
    assert "import-task" in page
    assert "index cn,sn eq,sub; index uid eq" in page


def test_an_import_that_fails_ends_the_run_and_says_why(folder: Path) -> None:
    (folder / "own.ldif").write_text(OWN + "\ndn: ou=x,dc=example,dc=com\nno: x\n")
    job = JOB.partition("  - name: slapadd")[0] + (
        "  - name: load\n    target: here\n    type: bulk_load\n"
        "    options: {server: slapd, ldif: FOLDER/own.ldif, place: FOLDER}\n"
    )
    result = run(folder, job)
    assert result["verdict"] == "INVALID"
    assert any("slapadd failed" in reason for reason in result["reasons"])
    assert result["imports"] == []
    assert sorted(one.name for one in folder.iterdir()) == [
        "job.yaml",
        "out",
        "own.ldif",
    ]


def test_check_says_what_would_fail_here(folder: Path) -> None:
    job = folder / "job.yaml"
    job.write_text(JOB.replace("FOLDER", str(folder)))
    (folder / "own.ldif").write_text(OWN)
    found = check_ldapslam("check", job)
    assert "adds: this host can import into OpenLDAP" in found.stdout
    assert "import-task: this host can import into 389-Directory" in found.stdout
    wrong = ["--set", "streams.1.options.template=peple", "--set"]
    wrong += ["streams.2.options.settings={index: cn eq}", "--set"]
    wrong += ["streams.3.options.place=/no/folder"]
    found = ldapslam("check", job, *wrong)
    assert "no example template 'peple'" in found.stderr
    assert "did you mean 'people'?" in found.stderr
    assert "settings: index: 389-DS has no setting of this name" in found.stderr
    assert "no import can be made in '/no/folder'" in found.stderr
