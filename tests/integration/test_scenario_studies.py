# SPDX-License-Identifier: Apache-2.0
"""The published experiments of configs/studies, each one command, at lab size."""

from __future__ import annotations

import contextlib
import json
import re
import tempfile
import time
from pathlib import Path
from typing import Any

import ldap
import psutil
import pytest

from support.busy_host import SETTING
from support.command_line import Running, check_ldapslam
from support.lab import Lab
from support.processes import processes_below
from support.waiting import wait_until

STUDIES = Path(__file__).parents[2] / "configs" / "studies"
CACHE = "cn=userRoot,cn=ldbm database,cn=plugins,cn=config"


def study(
    folder: Path, name: str, *options: str, timeout_s: float = 300
) -> dict[str, Any]:
    """What study.json says."""
    file = STUDIES / f"{name}.yaml"
    options = ("--set", f"fields.{SETTING}", *options)
    check_ldapslam("study", file, *options, cwd=folder, timeout_s=timeout_s)
    out = folder / "ldapslam-runs" / f"study-{name}"
    for report in ("study.html", "study.pdf", "study.txt"):
        assert (out / report).stat().st_size > 999
    content: dict[str, Any] = json.loads((out / "study.json").read_text())
    return content


def changes(*texts: str) -> list[str]:
    return [word for text in texts for word in ("--set", text)]


def rows(content: dict[str, Any]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """What was measured, and what was published, of the table's columns by the values
    of the axes."""
    table, axes = content["table"], content["points"][0]["values"]
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in table["published"]:
        key = tuple(row[axis] for axis in axes)
        found[key] = {"measured": {}, "published": row}
    for point in content["points"]:
        key = tuple(point["values"].values())
        found.setdefault(key, {})["measured"] = {
            name: point["figures"].get(text) for name, text in table["columns"].items()
        }
    return found


@pytest.mark.long
def test_many_client_machines_or_few(slapd_installed: None, tmp_path: Path) -> None:
    content = study(
        tmp_path,
        "client-machines",
        "--lab",
        *("--var", "duration=2s"),
        *changes("axes.agents=[1, 3]"),
    )
    found = rows(content)
    for agents in (1, 3):
        measured = found[(agents,)]["measured"]
        searches = measured["searches"]["value"]
        assert searches == measured["searches of the agents"]["value"] > 50
        assert measured["binds"]["value"] == pytest.approx(searches, abs=8)
        assert measured["unbinds"]["value"] == pytest.approx(searches, abs=8)
        counted = sum(
            measured[one]["value"] for one in ("binds", "searches", "unbinds")
        )
        assert measured["operations"]["value"] == counted
        assert 0 < measured["mean response time"]["value"] < 140_000
    assert found[(3,)]["published"]["searches"] == 2829
    assert not found[(18,)]["measured"]
    assert found[(18,)]["published"]["mean response time"] == 430


def cache_size(lab: Lab) -> list[bytes]:
    found = lab.search(lab.supplier, CACHE, ldap.SCOPE_BASE, ["nsslapd-cachesize"])
    return list(found[CACHE]["nsslapd-cachesize"])


@pytest.mark.long
def test_the_size_of_a_cache_is_changed_and_put_back(
    ds389_trio: Lab, tmp_path: Path
) -> None:
    before = cache_size(ds389_trio)
    password = ds389_trio.admin_password_file
    content = study(
        tmp_path,
        "entry-cache",
        *("--var", f"uri={ds389_trio.supplier.uri}", "--var", "users=1000"),
        *("--var", "clients=2", "--var", "warm_up=0s", "--var", "duration=2s"),
        *changes(
            f"bind={{dn: '{ds389_trio.admin_dn}', password: {{file: {password}}}}}",
            "axes.cachesize.values=[200, 1000]",
            "settle=0s",
            "repeats=1",
        ),
    )
    found = rows(content)
    for size in (200, 1000):
        assert found[(size,)]["measured"]["searches"]["value"] > 100
    assert found[(250000,)]["published"]["searches"] == 18547.43
    assert cache_size(ds389_trio) == before


@pytest.mark.long
def test_file_systems_under_the_database(slapd_installed: None, tmp_path: Path) -> None:
    with (
        tempfile.TemporaryDirectory(dir="/dev/shm") as memory,
        tempfile.TemporaryDirectory() as disk,  # sockets have short paths
    ):
        folders = {"tmpfs": memory, "disk": disk}
        variants = {
            name: {"place": folder, "lab.folder": folder}
            for name, folder in folders.items()
        }
        content = study(
            tmp_path,
            "file-systems",
            "--lab",
            *("--var", "users=500", "--var", "searches=1000"),
            *changes(f"axes.filesystem.variants={json.dumps(variants)}"),
        )
    found = rows(content)
    for name in folders:
        assert found["import", name]["measured"]["import"]["value"] > 0
        assert found["search", name]["measured"]["search"]["value"] > 0
        assert found["import", name]["measured"]["search"] is None
    assert found["search", "xfs"]["published"]["search"] == 30


@pytest.mark.long
def test_two_servers_side_by_side(slapd_installed: None, tmp_path: Path) -> None:
    content = study(
        tmp_path,
        "side-by-side",
        "--lab",
        *("--var", "duration=2s"),
        *changes("axes.clients=[2]", "repeats=2"),
    )
    found = rows(content)
    assert len(found[2, "old"]["measured"]["operations"]["runs"]) == 2
    assert found[50, "new"]["published"]["operations"] == [32092, 32169, 32008]
    page = tmp_path / "ldapslam-runs" / "study-side-by-side" / "study.txt"
    assert "32,090 (32,092, 32,169, 32,008)" in page.read_text()
    # each run began with new servers
    folder = tmp_path / "ldapslam-runs" / "study-side-by-side" / "runs"
    results = [json.loads(one.read_text()) for one in folder.glob("*/result.json")]
    uris = {json.dumps(one["manifest"]["overrides"]) for one in results}
    assert len(uris) == len(results) == 4
    # and at each number of clients something is said of the servers
    said = {one["values"]["clients"]: one["findings"] for one in content["comparisons"]}
    assert sorted(said) == [2]
    # that each run had servers of its own is no difference
    for one in content["comparisons"]:
        assert "127.0.0.1" not in json.dumps(one)
    for findings in said.values():
        assert {"throughput", "p50"} <= {one["metric"] for one in findings}


@pytest.mark.long
def test_a_supplier_and_its_replicas(slapd_installed: None, tmp_path: Path) -> None:
    jobs = [f"C{n}" for n in range(1, 11)]
    file = STUDIES / "supplier-and-replicas.yaml"
    content = study(tmp_path, file.stem, "--lab", timeout_s=600)
    found = rows(content)
    assert found["C1",]["published"]["adds"] == 11786
    measured = {name: found[name,]["measured"] for name in jobs}
    assert measured["C10"]["search time"]["value"] > 0
    assert measured["C10"]["searches"]["value"] > 0
    # 20 writes a second for 5 s, twice as many modifies as adds and deletes
    writes = [measured["C2"][one]["value"] for one in ("adds", "modifies", "deletes")]
    assert sum(writes) == pytest.approx(100, abs=25)
    runs = tmp_path / "ldapslam-runs" / f"study-{file.stem}" / "runs"
    results = [json.loads(path.read_text()) for path in runs.glob("*/result.json")]
    checks = [one["replication"] for one in results if one["replication"]]
    assert checks
    for check in checks:
        assert check["converged"]
        assert check["content"]["difference_count"] == 0


def test_a_command_that_is_killed_while_its_lab_comes_up_leaves_none(
    slapd_installed: None, tmp_path: Path
) -> None:
    command = ("study", STUDIES / "client-machines.yaml", "--lab")
    with Running(*command, cwd=tmp_path) as running:
        process = psutil.Process(running.process.pid)
        server, folder = _server_of_lab(process)
        process.kill()
        running.process.wait(60)
        psutil.wait_procs([server], timeout=30)
    assert not server.is_running()
    wait_until(lambda: not folder.exists(), "the end of the lab's folder")


def _server_of_lab(process: psutil.Process) -> tuple[psutil.Process, Path]:
    """The first server of a lab that is coming up, and the folder of the lab."""
    deadline_s = time.monotonic() + 60
    while time.monotonic() < deadline_s:
        # a slapd that only says its version has no folder
        for child in processes_below(process.pid, "/ldapslam-lab-"):
            with contextlib.suppress(psutil.NoSuchProcess):
                at = re.search(
                    r"(/[^ ]*)?/ldapslam-lab-[^/ ]+", " ".join(child.cmdline())
                )
                if child.name() == "slapd" and at:
                    return child, Path(at[0])
        time.sleep(0.05)
    raise AssertionError("no server in a minute")
