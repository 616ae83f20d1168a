# SPDX-License-Identifier: Apache-2.0
"""What an import may use of its agent's host: that of which the operator says so."""

from __future__ import annotations

import gzip
import shutil
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ldapslam.agent.admission.limits import AgentLimits
from ldapslam.base.errors import ConfigError, FleetError
from ldapslam.lab.bulk_load.job import BulkLoad, _file_system, _given

SECRET = """\
branch: dc=example,dc=com
subordinateTemplate: person:3

template: person
rdnAttr: uid
objectClass: inetOrgPerson
uid: u<sequential>
cn: <file:/etc/passwd>
sn: s
"""
OPTIONS: dict[str, Any] = {"server": "slapd", "method": "offline", "settings": {}}


def examine(limits: AgentLimits, **options: Any) -> None:
    """But for the host: its files, its servers."""
    job = BulkLoad({**OPTIONS, **options})
    job._choices(job._allowed(limits))


@pytest.mark.parametrize(
    "options",
    [
        {"place": "/mnt/xfs"},
        {"ldif": "/data/people.ldif"},
        {"binary": "/opt/slapd"},
        {"settings": {"include": "/etc/shadow"}},
        {"settings": {"Include": ["/data/a.conf", "/etc/shadow"]}},
        {"settings": {"Include": "/etc/shadow", "include": []}},
        {"settings": {" moduleload ": "/data/evil.so", "moduleload": []}},
        {"settings": {"moduleload": "/data/evil.so"}, "ldif": "/data/evil.so"},
    ],
    ids=str,
)
def test_what_the_operator_does_not_allow_is_refused(options: dict[str, Any]) -> None:
    allowed = AgentLimits(imports=("/data",))
    if list(options) == ["ldif"]:
        examine(allowed, **options)
        allowed = AgentLimits()
    with pytest.raises(FleetError, match="does not allow imports to use") as caught:
        examine(allowed, **options)
    assert "--allow-import" in (caught.value.hint or "")
    examine(AgentLimits(imports=("any",)), **options)


@pytest.mark.parametrize("path", ['/data/a"b', "/data/\\../etc/shadow", "/data/a b"])
def test_paths_that_slapd_would_read_in_another_way_are_refused(path: str) -> None:
    with pytest.raises(FleetError, match="does not allow"):
        examine(AgentLimits(imports=("any",)), settings={"include": path})


def test_what_a_path_leads_to_is_what_is_used(tmp_path: Path) -> None:
    (tmp_path / "slapd").touch()
    (tmp_path / "link").symlink_to(tmp_path / "slapd")
    given = {"binary": str(tmp_path / "link"), "settings": {"include": "/x/../y"}}
    job = BulkLoad({**OPTIONS, **given})
    choices = job._choices(job._allowed(AgentLimits(imports=("any",))))
    assert choices.binary == tmp_path / "slapd"
    assert choices.options == [("include", "/y")]
    # the operator may name a link, too
    named = AgentLimits(imports=(str(tmp_path / "link"), "/y"))
    examine(named, **given)


def test_the_folder_for_temporary_files_is_everybody_s() -> None:
    examine(AgentLimits(), place=tempfile.gettempdir())


def test_what_cannot_be_imported_here_is_said_before(
    slapd_installed: None, tmp_path: Path
) -> None:
    anything = AgentLimits(imports=("any",))
    strange = "branch: dc=a%b\n"
    cases: list[tuple[dict[str, Any], str]] = [
        ({"settings": {"include": "/none"}}, "'/none' is no file"),
        ({"template_text": strange}, "begins with 'dc=a%b'"),
        ({"place": str(tmp_path / ("long" * 20))}, "its Unix socket would have"),
    ]
    for options, reason in cases:
        if "place" in options:
            Path(options["place"]).mkdir()
        with pytest.raises(ConfigError, match=reason):
            BulkLoad({**OPTIONS, "template": "people", **options}).examine(anything)


def test_an_import_leaves_room_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SimpleNamespace(total=100 << 30, free=(5 << 30) + 50)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: disk)
    client: Any = SimpleNamespace(limits=AgentLimits(), is_stopping=False)
    job = BulkLoad({**OPTIONS, "template": "people", "entries": 7})
    with pytest.raises(
        FleetError, match=r"too little room .* 5 GiB are left, and the LDIF"
    ):
        job._data(tmp_path, {}, client)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"template": "/etc/passwd"}, "there is no example template '/etc/passwd'"),
        ({"template": "x", "template_text": SECRET}, "may not read '/etc/passwd'"),
    ],
)
def test_templates_of_jobs_read_no_files_of_the_host(
    options: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    client: Any = SimpleNamespace(limits=AgentLimits(), is_stopping=False)
    with pytest.raises(ConfigError, match=reason):
        BulkLoad({**OPTIONS, **options})._data(tmp_path, {}, client)
    assert not (tmp_path / "data.ldif").exists()


def test_data_of_a_ready_template_is_made_whatever_is_allowed(tmp_path: Path) -> None:
    client: Any = SimpleNamespace(limits=AgentLimits(), is_stopping=False)
    job = BulkLoad({**OPTIONS, "template": "people", "entries": 7})
    assert job._data(tmp_path, {}, client) == (tmp_path / "data.ldif", 9)


def test_a_file_with_a_version_is_copied_without_for_slapd(tmp_path: Path) -> None:
    ldif, copy = tmp_path / "a.ldif", tmp_path / "copy"
    ldif.write_text("version: 1\n\ndn: dc=x\ndc: x\n\nDN: ou=y,dc=x\nou: y\n")
    assert _given(ldif, copy, {"server": "389ds"}) == (ldif, 2)
    assert _given(ldif, copy, {"server": "slapd"}) == (copy, 2)
    assert copy.read_text().startswith("dn: dc=x\n")
    copy.write_bytes(gzip.compress(b"dn: dc=x\n"))
    with pytest.raises(ConfigError, match="is packed"):
        _given(copy, ldif, {"server": "slapd"})
    with pytest.raises(ConfigError, match="none"):
        _given(tmp_path / "none", ldif, {"server": "slapd"})


def test_long_settings_are_refused_before_an_import() -> None:
    job = BulkLoad({**OPTIONS, "settings": {"limits": ["users size=9"] * 200}})
    with pytest.raises(ConfigError, match="settings of over"):
        job.examine(AgentLimits())


def test_the_file_system_is_that_of_the_nearest_mount() -> None:
    assert _file_system(Path("/proc/self")) == "proc"
    assert _file_system(Path("/")) not in ("", "proc")
