# SPDX-License-Identifier: Apache-2.0
"""`ldapslam gate` between real servers: its answers, and what a pipeline reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from ldapslam.agent._engine import Responder
from support.command_line import check_ldapslam, ldapslam
from support.gates import GATE_JOB

#: The canned server's time for a response: half a millisecond, and twice that.
_OLD_NS, _NEW_NS = 500_000, 1_000_000

#: A busy machine's p99 varies by more than any tolerance, and a slow server has too few
#: requests for one.
FIRM = ("--metric", "throughput", "--metric", "p50", "--metric", "errors")


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "gate.yaml"
    path.write_text(GATE_JOB)
    return path


@pytest.fixture
def servers() -> Iterator[tuple[Responder, Responder]]:
    old, new = Responder(delays=[(1, _OLD_NS)]), Responder(delays=[(1, _NEW_NS)])
    old.start()
    new.start()
    yield old, new
    old.stop()
    new.stop()


def gate(
    job: Path, *arguments: str, out: Path | None = None
) -> tuple[int, dict[str, Any], Path]:
    """Exit code, gate.json and its folder."""
    out = out or job.parent / "out"
    ended = ldapslam(*("gate", job, "--out", out, "--json"), *arguments, cwd=job.parent)
    assert ended.stdout, ended.stderr
    return ended.returncode, json.loads(ended.stdout), out


@pytest.mark.accuracy
def test_a_slower_server_is_a_regression(
    job: Path, servers: tuple[Responder, Responder]
) -> None:
    old, new = servers
    code, found, out = gate(job, "--old", old.uri, "--new", new.uri, *FIRM)
    assert (code, found["answer"]) == (1, "regression"), found
    figures = {one["metric"]: one for one in found["figures"]}
    assert figures["throughput"]["ratio"] < 0.7
    answers = {name: one["answer"] for name, one in figures.items()}
    assert "regression" in (answers["throughput"], answers["p50"])
    assert figures["errors"]["answer"] == "no regression"
    first = found["runs"][:4]
    if all(run["counts"] for run in first):
        assert [run["side"] for run in first] in (
            ["old", "new", "new", "old"],
            ["new", "old", "old", "new"],
        )
    suite = ElementTree.parse(out / "junit.xml").getroot().find("testsuite")
    assert suite is not None
    assert suite.find("testcase/failure") is not None
    assert "REGRESSION" in (out / "gate.md").read_text().splitlines()[0]
    # the store has every run, which can be reported by itself
    store = out / "results.sqlite"
    run_id = found["runs"][0]["run_id"]
    check_ldapslam("report", run_id, "--store", store, "--out", out / "run")
    checked = check_ldapslam("results", "verify", out)
    assert checked.stdout.splitlines() == [
        f"{run['run_id']}: what was judged: {run['verdict']}, not signed"
        for run in found["runs"]
    ]

    # and is what a baseline can be made of
    kept = job.parent / "gate.baseline.json"
    check_ldapslam("results", "baseline", kept, out, cwd=job.parent)
    again = ldapslam("results", "baseline", kept, out, cwd=job.parent)
    assert (again.returncode, "another name" in again.stderr) == (2, True)
    code, found, _ = gate(
        job,
        *("--baseline", str(kept), "--new", old.uri, "--tolerance", "50%", *FIRM),
        out=job.parent / "later",
    )
    assert (code, found["answer"]) == (0, "no regression"), found
    assert {run["side"] for run in found["runs"]} == {"new"}
    code, found, _ = gate(
        *(job, "--baseline", str(kept), "--new", old.uri),
        *("--set", "streams.readers.load.clients=1"),
        out=job.parent / "other",
    )
    assert code == 2
    assert "clients" in found["error"]["message"]
    assert not (job.parent / "other").exists()


def test_a_missing_baseline_is_never_green(job: Path) -> None:
    ended = ldapslam("gate", job, "--baseline", "none.json", cwd=job.parent)
    assert (ended.returncode, "no baseline" in ended.stderr) == (4, True)


@pytest.mark.accuracy
def test_labs_of_two_settings_that_do_not_matter_are_no_regression(job: Path) -> None:
    code, found, out = gate(
        job,
        *("--lab", "slapd", "--entries", "20", "--tolerance", "90%"),
        *("--old", "lab.settings.idletimeout=600"),
        *("--new", "lab.settings.idletimeout=900"),
        *FIRM,
    )
    assert (code, found["answer"]) == (0, "no regression"), found
    assert "90 %" in (out / "gate.txt").read_text()


def test_an_index_that_is_gone_is_a_regression(job: Path) -> None:
    by_mail = GATE_JOB.replace("(uid=user.[0-9])", "(mail=user.[0-9]@example.com)")
    job.write_text(by_mail)
    code, found, _ = gate(
        job,
        *("--lab", "slapd", "--entries", "2000", "--old", "lab.settings.index=mail eq"),
        *("--set", "run.warm_up=200ms", *FIRM),
    )
    assert (code, found["answer"]) == (1, "regression"), found
    figures = {one["metric"]: one for one in found["figures"]}
    assert figures["p50"]["ratio"] > 1.5


@pytest.mark.accuracy
def test_a_gate_of_a_server_against_itself_tells_what_it_would_find(
    job: Path, servers: tuple[Responder, Responder]
) -> None:
    old, _ = servers
    code, found, out = gate(job, "--old", old.uri, "--aa", "--time", "40s")
    assert code in (0, 3), found
    rows = {one["change"]: one["answers"]["regression"] for one in found["rehearsed"]}
    assert rows[0.0] <= 0.05
    assert list(rows.values()) == sorted(rows.values())
    assert "What this gate finds" in (out / "gate.txt").read_text()
