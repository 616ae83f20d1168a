# SPDX-License-Identifier: Apache-2.0
"""Studies and the search for capacity against a real slapd, by their commands."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from ldapslam.agent._engine import Responder
from support.busy_host import VALIDITY
from support.command_line import check_ldapslam, ldapslam
from support.lab import Lab

JOB = (
    VALIDITY
    + """
vars: {uri: null, clients: 1, duration: 1s}
name: lookups
targets: {directory: "${uri}"}
run: {duration: "${duration}", interval: 250ms}
streams:
  - name: readers
    target: directory
    load: {clients: "${clients}", think_time: 5ms}
    operations:
      - search: {base: "ou=people,dc=example,dc=com", filter: "(uid=user.[0-99])"}
"""
)
STUDY = """
name: small
job: job.yaml
axes: {clients: [1, 8]}
repeats: 2
attempts: 3
compare: clients
"""


@pytest.fixture
def lab(slapd_trio: Lab, tmp_path: Path) -> Lab:
    (tmp_path / "job.yaml").write_text(JOB)
    return slapd_trio


def uri(lab: Lab) -> tuple[str, str]:
    return "--var", f"uri={lab.supplier.uri}"


def read(folder: Path, name: str) -> Any:
    return json.loads((folder / "ldapslam-runs" / name).read_text())


def test_a_study_is_one_command_and_says_what_differs(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(STUDY)
    check_ldapslam("study", "study.yaml", *uri(lab), cwd=tmp_path)
    study = read(tmp_path, "study-small/study.json")
    one, eight = (
        point["figures"]["readers.search.throughput"] for point in study["points"]
    )
    ratio = eight["value"] / one["value"]
    assert 4 < ratio < 10
    assert len(eight["runs"]) == 2
    (comparison,) = study["comparisons"]
    (found,) = [
        one
        for one in comparison["findings"]
        if (one["operation"], one["metric"]) == ("readers.search", "throughput")
    ]
    assert 4 < found["ratio"]["value"] < 10
    for name in ("study.html", "study.pdf", "study.txt"):
        assert (tmp_path / "ldapslam-runs" / "study-small" / name).stat().st_size > 999
    # all runs are there: nothing is run again
    again = ldapslam("study", "study.yaml", *uri(lab), cwd=tmp_path)
    assert "4 of 4 runs are there already" in again.stderr
    assert read(tmp_path, "study-small/study.json") == study


KNOWN = (
    VALIDITY
    + """
vars: {uri: null, rate: 100/s}
name: known
targets: {directory: "${uri}"}
run: {duration: 2s, interval: 250ms}
streams:
  - name: readers
    target: directory
    load: {rate: "${rate}", connections: 16, in_flight: 1}
    operations:
      - search: {base: "dc=example,dc=com", filter: "(uid=user.[0-99])"}
"""
)


@pytest.mark.accuracy
def test_the_capacity_of_a_server_with_a_known_limit_is_found(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A server that serves one request after the other."""
    (tmp_path / "job.yaml").write_text(KNOWN)
    for number in range(request.config.getoption("--repeats")):
        limit = random.Random(number).uniform(500, 4000)
        responder = Responder(delays=[(1, round(1e9 / limit))], in_turn=True)
        responder.start()
        try:
            done = ldapslam(
                *("capacity", "job.yaml", "--var", f"uri={responder.uri}"),
                *("--load", "rate", "--from", "100/s", "--to", "100000/s"),
                *("--out", str(number), "--json"),
                cwd=tmp_path,
                timeout_s=300,
            )
        finally:
            responder.stop()
        assert done.returncode == 0, done.stdout + done.stderr
        found = json.loads(done.stdout)
        print(f"limit {limit:.0f}/s: {found['capacity']}, {len(found['runs'])} runs")
        assert found["capacity"] == pytest.approx(limit, rel=0.03)
        assert len(found["runs"]) < 12


def test_capacity_is_the_highest_load_that_holds(lab: Lab, tmp_path: Path) -> None:
    """A client with a think time of 5 ms makes fewer than 200 searches a second."""
    objective, also = "readers.search.throughput < 300/s", "*.*.errors < 50%"
    search = ("--load", "clients", "--from", "1", "--to", "4", "--precision", "0.9")
    done = ldapslam(
        *("capacity", "job.yaml", *uri(lab), "--var", "duration=2s", *search),
        *("--objective", f"{objective} and {also}", "--json"),
        cwd=tmp_path,
    )
    assert done.returncode in (0, 3), done.stdout + done.stderr
    found = json.loads(done.stdout)
    # 3 where this host, not the throughput, was the limit
    assert done.returncode == (3 if found["above_verdict"] == "INVALID" else 0)
    assert found["objectives"] == [objective, also]
    # a busy host keeps two clients below the limit, too
    assert 1 <= found["capacity"] <= 2
    assert found["capacity"] < found["above"] <= 4
    assert found["above_verdict"] in ("FAIL", "INVALID")
    (confirmed,) = [one for one in found["runs"] if one["confirms"]]
    assert (confirmed["load"], confirmed["verdict"]) == (found["capacity"], "PASS")


MANY = (
    VALIDITY
    + """
vars: {users: 100000}
name: lookups
targets: {directory: "ldap://127.0.0.1"}
run: {duration: 1s, interval: 250ms}
streams:
  - name: readers
    target: directory
    load: {clients: 2, think_time: 5ms}
    operations:
      - search: {base: "dc=example,dc=com", filter: "(uid=user.[0..${users}))"}
"""
)


def test_a_study_in_a_lab_looks_for_the_people_that_there_are(
    slapd_installed: None, tmp_path: Path
) -> None:
    (tmp_path / "job.yaml").write_text(MANY)
    (tmp_path / "study.yaml").write_text(
        "name: lab\njob: job.yaml\naxes: {threads: {field: lab.settings.threads, "
        "values: [4]}}\nlab: {entries: 300}\n"
    )
    check_ldapslam("study", "study.yaml", "--lab", cwd=tmp_path)
    result = read(tmp_path, "study-lab/runs/001-1-1/result.json")
    assert result["verdict"] == "PASS"
    lab = result["manifest"]["lab"]
    assert lab.pop("version").startswith("OpenLDAP")
    assert lab == {
        "server": "slapd",
        "backend": "mdb",
        "entries": "300",
        "replicas": "0",
        "settings · threads": "4",
    }
    assert 'vars.users="300"' in result["manifest"]["overrides"]
