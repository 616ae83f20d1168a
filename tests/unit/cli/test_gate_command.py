# SPDX-License-Identifier: Apache-2.0
"""What `ldapslam gate` refuses before anything is started, and what a side may be."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Self

import pytest

from ldapslam.base.errors import ConfigError, ExitCode, TargetError
from ldapslam.cli import main
from ldapslam.cli.study import gate_making, gate_runs
from ldapslam.cli.study.gate_runs import Runs, Side, side_of
from ldapslam.cli.submission import JobFile
from ldapslam.reports.comparing.readings import METRICS, Reading
from ldapslam.studies.gate import Made
from ldapslam.studies.study_file import StudyLab

JOB = """\
job: gate
vars: {users: 10}
targets: {server: "ldap://one"}
run: {duration: 500ms, interval: 100ms}
streams:
  - name: readers
    target: server
    load: {closed: {clients: 2}}
    operations: [{search: {base: "ou=people,dc=example,dc=com",
                           filter: "(uid=user.[0-${users}])"}}]
"""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "gate.yaml"
    path.write_text(JOB)
    return path


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("--old ldap://h --new ldap://h", "are the same"),
        ("--old ldap://h --new /no/such/slapd", "there is no file or folder"),
        ("--new lab.settings.threads=2", "there is no lab"),
        ("--lab slapd --new .", "no slapd below '.'"),
        ("--aa --new ldap://h", "--aa has one side alone"),
        ("--new ldap://h --tolerance 5", "--tolerance: expected a percentage"),
        ("--new ldap://h --metric p98", "--metric: unknown metric 'p98'"),
        ("--new http://h", "--new: "),
        ("--new ldap://h --time 5s", "6 runs of a side are the least"),
        ("--new user=3", "user"),
    ],
)
def test_a_mistake_is_told_with_the_remedy(
    job: Path, capsys: pytest.CaptureFixture[str], arguments: str, says: str
) -> None:
    assert main.run(["gate", str(job), *arguments.split()]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert "hint: " in said
    assert not (job.parent / "ldapslam-runs").exists()


class _DyingRuns:
    """Five good pairs; then the new server is gone."""

    def __init__(self, _: object, folder: Path, *__: object, **___: object) -> None:
        self.made: list[Made] = []
        folder.mkdir()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing was started."""

    def restart(self) -> None:
        """There is no server."""

    def run(self, side: str) -> SimpleNamespace:
        if len(self.made) == 10:
            raise TargetError("server 'ldap://new' does not answer")
        self.made.append(Made(side, f"run-{len(self.made)}", "PASS", (), True))
        return SimpleNamespace(verdict="PASS", reasons=(), rules=())


def test_a_server_that_dies_never_leaves_a_pass_behind(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate_runs, "Runs", _DyingRuns)
    same = {("search", METRICS["throughput"]): Reading(1000.0, None, 0, "")}
    monkeypatch.setattr(gate_making, "readings_of", lambda _: same)
    arguments = ("--new", "ldap://new", "--metric", "throughput", "--out", "out")
    assert main.run(["gate", str(job), *arguments]) == ExitCode.TARGET
    found = json.loads(Path("out/gate.json").read_text())
    assert (found["answer"], found["verdict"]) == ("cannot tell", "INVALID")
    assert found["reasons"][0] == "server 'ldap://new' does not answer"
    assert 'errors="1"' in Path("out/junit.xml").read_text()
    assert "cannot tell" in Path("out/badge.svg").read_text()


class _NoLabs:
    def __init__(self, *_: object) -> None:
        raise AssertionError("a lab was brought up")


def test_the_folder_is_looked_at_before_a_lab_is_brought_up(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate_runs, "Labs", _NoLabs)
    (job.parent / "out").mkdir()
    (job.parent / "out" / "results.sqlite").touch()
    lab = StudyLab(server="slapd", entries=10)
    side = side_of("new", (), JobFile(job), (), lab)
    runs = Runs({"new": side}, job.parent / "out", None, restarts=False)
    with pytest.raises(ConfigError, match="results of another gate"), runs:
        pass


def test_the_fleet_is_large_enough_for_both_sides(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    @contextmanager
    def fleet(names: Sequence[str], *_: object) -> Iterator[SimpleNamespace]:
        asked.extend(names)
        yield SimpleNamespace(address="unix:/nowhere")

    monkeypatch.setattr(gate_runs, "local_fleet", fleet)
    sides = {
        name: side_of(name, [f"agents.count={count}"], JobFile(job), (), None)
        for name, count in (("old", 1), ("new", 2))
    }
    with Runs(sides, job.parent / "out", None, restarts=False):
        assert asked == ["local-1", "local-2"]


def side(job: Path, *changes: str, lab: StudyLab | None = None) -> Side:
    return side_of("new", changes, JobFile(job), (), lab)


def test_a_side_is_the_job_with_changes(job: Path) -> None:
    made = side(job, "ldap://two", "users=20", "run.duration=1s")
    assert made.job.targets == {"server": ["ldap://two"]}
    assert made.job.run.duration_ns == 1_000_000_000
    assert made.identity != side(job).identity
    assert side(job).identity == side(job, "users=10").identity


@pytest.mark.parametrize(
    ("kind", "place"),
    [("slapd", "usr/local/libexec/slapd"), ("389ds", "sbin/ns-slapd")],
)
def test_a_folder_is_one_that_a_server_is_installed_in(
    job: Path, kind: str, place: str
) -> None:
    program = job.parent / "installed" / place
    program.parent.mkdir(parents=True)
    program.touch()
    lab = StudyLab.model_validate({"server": kind})
    # as many people as the job's users
    expected = {"binary": str(program), "entries": 10}
    assert side(job, "installed", lab=lab).point.lab == expected
    named = side(job, str(program), "lab.settings.threads=2", lab=lab)
    assert named.point.lab == {**expected, "settings.threads": "2"}


def people(job: Path, *changes: str, entries: int | None = None) -> tuple[int, object]:
    """Of the lab, and the last of them that the job asks for."""
    given = {} if entries is None else {"entries": entries}
    lab = StudyLab.model_validate({"server": "slapd", **given})
    made = side(job, *changes, lab=lab)
    assert made.lab is not None
    text = made.job.streams[0].operations[0].model_dump_json()
    asked = re.search(r"user\.\[0-(\d+)\]", text)
    assert asked is not None
    return int(made.point.lab.get("entries", made.lab.entries)), int(asked[1])


def test_a_lab_has_as_many_people_as_the_job_has_users(job: Path) -> None:
    assert people(job) == (10, 10)
    assert people(job, "users=20") == (20, 20)
    assert people(job, entries=30) == (30, 30)
    assert people(job, "lab.entries=40", entries=30) == (40, 40)
    # who gives both has his reasons
    assert people(job, "users=5", entries=30) == (30, 5)
    # nothing is changed where it is so already
    same = side(job, lab=StudyLab(server="slapd", entries=10))
    assert same.point.overrides == ()
    job.write_text(JOB.replace("vars: {users: 10}", "").replace("${users}", "10"))
    assert people(job) == (1000, 10)


def test_of_several_targets_one_is_to_be_named(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job.write_text(JOB.replace("targets: {", 'targets: {other: "ldap://two", '))
    assert main.run(["gate", str(job), "--new", "ldap://three"]) == 2
    said = capsys.readouterr().err
    assert "targets.other=…, targets.server=…" in said
