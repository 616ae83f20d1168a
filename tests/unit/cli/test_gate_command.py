# SPDX-License-Identifier: Apache-2.0
"""What `ldapslam gate` refuses before anything is started, and what a side may be."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest

from ldapslam.base.errors import (
    ConfigError,
    ExitCode,
    FleetError,
    LdapSlamError,
    TargetError,
)
from ldapslam.base.units import NS_PER_S
from ldapslam.cli import main
from ldapslam.cli.study import gate_making, gate_runs
from ldapslam.cli.study.baseline import _taken
from ldapslam.cli.study.gate_length import fitted
from ldapslam.cli.study.gate_runs import Runs
from ldapslam.cli.study.gate_sides import Side, side_of
from ldapslam.cli.submission import JobFile
from ldapslam.reports.comparing.making import facts_before
from ldapslam.reports.figures import METRICS
from ldapslam.studies.baseline import Baseline, BaselineRun, GateFile, save_baseline
from ldapslam.studies.gate import Made
from ldapslam.studies.study_file import StudyLab
from support.figures import figure

JOB = """\
name: gate
vars: {users: 10}
targets: {server: "ldap://one"}
run: {duration: 500ms, interval: 100ms}
streams:
  - name: readers
    target: server
    load: {clients: 2}
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
        ("--lab slapd --new gate.yaml", "docs/how-to/gate-configurations.md"),
        ("--lab slapd --new .", "no slapd below '.'"),
        ("--aa --new ldap://h", "--aa has one side alone"),
        ("--new ldap://h --tolerance 5", "--tolerance: expected a percentage"),
        ("--new ldap://h --tolerance 150%", "less than 100%, got '150%'"),
        ("--new ldap://h --metric p98", "--metric: unknown statistic 'p98'"),
        ("--new http://h", "--new: "),
        (
            "--new ldap://h --time 5s --set run.warm_up=1s",
            "6 runs of each side, with a measure phase of 500ms, take 24s;",
        ),
        ("--new ldap://h --metric elapsed", "no operation of the job has"),
        ("--lab slapd --new lab.settings.bogus=1", "no setting of this name"),
        ("--lab slapd --new users=3 --set targets.replica=ldap://h", "'replica'"),
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


class _MadeUpRuns:
    """Runs that all PASS."""

    duration_ns = 500_000_000
    other_cpu_share = None

    def __init__(self, _: object, folder: Path, *__: object, **___: object) -> None:
        self.made: list[Made] = []
        self.about: dict[str, dict[str, str]] = {}
        folder.mkdir()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing was started."""

    def restart(self) -> None:
        """There is no server."""

    def run(self, side: str) -> SimpleNamespace:
        self.made.append(Made(side, f"run-{len(self.made)}", "PASS", (), True))
        return SimpleNamespace(verdict="PASS", reasons=(), rules=(), figures=())


class _DyingRuns(_MadeUpRuns):
    """Five good pairs; then the old server is gone."""

    def run(self, side: str) -> SimpleNamespace:
        if len(self.made) >= 10 and side == "old":
            raise TargetError("server 'ldap://old' is down", hint="start it")
        return super().run(side)


def test_a_server_that_dies_never_leaves_a_pass_behind(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate_runs, "Runs", _DyingRuns)
    same = {METRICS["throughput"].of("search"): figure(1000.0)}
    monkeypatch.setattr(gate_making, "readings_of", lambda _: same)
    arguments = ("--new", "ldap://new", "--metric", "throughput", "--out", "out")
    assert main.run(["gate", str(job), *arguments]) == ExitCode.TARGET
    found = json.loads(Path("out/gate.json").read_text())
    assert (found["answer"], found["verdict"]) == ("cannot tell", "INVALID")
    assert found["reasons"][0] == "server 'ldap://old' is down"
    assert found["advice"] == "start it"


@pytest.mark.parametrize(
    ("sides", "answer", "others"),
    [
        ({"old": "a", "new": "b"}, "no regression", []),
        ({"old": "a", "new": "b"}, "regression", ["answer of that gate: regression"]),
        ({"old": "a", "new": "a"}, "no regression", ["both sides of that gate"]),
        ({"new": ""}, "no regression", []),
    ],
)
def test_a_baseline_of_a_gate_says_which_of_its_runs_it_has(
    sides: dict[str, str], answer: str, others: list[str]
) -> None:
    first, *more = _taken("out", GateFile(runs=(), sides=sides, answer=answer))
    assert first == "of the new side of the gate out"
    assert len(more) == len(others)
    for line, part in zip(more, others, strict=True):
        assert part in line


@pytest.fixture
def no_start(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object, **__: object) -> None:
        raise FleetError("nothing refused it")

    monkeypatch.setattr(gate_runs, "Runs", start)


def baseline_in(folder: Path, job: Path, **given: object) -> str:
    """Of this job, with these facts and figures."""
    figures = {"throughput": 400.0, "p50": 900.0, "p99": 3000.0, "errors": 0.0}
    runs = tuple(
        BaselineRun(
            run_id=f"run-{number}",
            t0_utc="2026-11-25T20:00:00+00:00",
            figures={"readers.search": {**figures, **given}},
            requests={"readers.search": 1000},
        )
        for number in range(5)
    )
    facts = facts_before(job.read_text(), ["run.interval=200ms"], {})
    made = Baseline(job="gate", saved_utc="", saved_by="", facts=facts, runs=runs)
    path = folder / "gate.baseline.json"
    save_baseline(path, made)
    return str(path)


@pytest.mark.usefixtures("no_start")
def test_what_shows_that_a_baseline_is_another_is_looked_at_before_a_run(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = baseline_in(tmp_path, job)
    given = ["gate", str(job), "--baseline", path, "--new", "ldap://two"]
    same = [*given, "--set", "run.interval=200ms"]
    assert main.run(same) == ExitCode.FLEET
    job.write_text(JOB.replace("interval: 100ms", "interval: 200ms"))
    assert main.run(given) == ExitCode.FLEET
    job.write_text(JOB)
    capsys.readouterr()
    assert main.run(given) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert "another way: job file · run · interval: 200ms then, 100ms now" in said
    assert "hint: give --set run.interval=200ms, as then; or save a new" in said
    assert main.run([*same, "--var", "users=7"]) == ExitCode.USAGE
    assert "hint: give --var users=10, as then; or save a" in capsys.readouterr().err
    assert main.run([*given, "--lab", "slapd", "--entries", "20"]) == ExitCode.USAGE
    assert "lab · entries: not there then, 20 now" in capsys.readouterr().err
    job.write_text(JOB.replace("clients: 2", "clients: 3"))
    assert main.run(same) == ExitCode.USAGE
    assert "clients: 2 then, 3 now" in capsys.readouterr().err
    assert main.run([*same, "--allow-differences"]) == ExitCode.FLEET
    assert not (tmp_path / "ldapslam-runs").exists()


@pytest.mark.usefixtures("no_start")
def test_a_baseline_without_a_figure_is_told_before_a_run(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = baseline_in(tmp_path, job, p50=None)
    given = ["gate", str(job), "--baseline", path, "--set", "run.interval=200ms"]
    assert main.run(given) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert "not all runs of the baseline have the p50 of readers.search" in said
    assert "judge --metric throughput --metric p99 --metric errors" in said
    assert main.run([*given, "--metric", "p99"]) == ExitCode.FLEET


def test_a_p99_that_a_baseline_lacks_is_left_out_unless_it_is_asked_for(
    job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate_runs, "Runs", _MadeUpRuns)
    monkeypatch.setattr(Baseline, "differences", lambda *_: ())
    monkeypatch.setattr(Baseline, "unknown", lambda *_: {})
    figures = {"throughput": 400.0, "p50": 900.0, "p99": None, "errors": 0.0}
    found = {
        METRICS[name].of("readers.search"): figure(value, "", 1000)
        for name, value in figures.items()
    }
    monkeypatch.setattr(gate_making, "readings_of", lambda _: found)
    path = baseline_in(tmp_path, job, p99=None)
    given = ["gate", str(job), "--baseline", path, "--set", "run.interval=200ms"]
    assert main.run([*given, "--out", "out"]) == ExitCode.PASS
    answer = json.loads(Path("out/gate.json").read_text())
    judged = [one["metric"] for one in answer["figures"]]
    assert judged == ["throughput", "p50", "errors"]
    assert answer["cautions"][0].startswith("p99 of readers.search is not judged")
    assert main.run([*given, "--metric", "p99"]) == ExitCode.USAGE


def side(job: Path, *changes: str, lab: StudyLab | None = None) -> Side:
    return side_of("new", changes, JobFile(job), (), lab)


def sides_of(job: Path, *overrides: str) -> dict[str, Side]:
    return {
        name: side_of(name, [uri], JobFile(job), overrides, None)
        for name, uri in (("old", "ldap://one"), ("new", "ldap://two"))
    }


@contextmanager
def _no_fleet(names: Sequence[str], _: object, store: Path, out: Path) -> Iterator[Any]:
    store.touch()
    (out / "logs").mkdir()
    yield SimpleNamespace(address="unix:/nowhere")


@pytest.mark.parametrize(
    ("error", "runs", "is_there", "stays"),
    [
        (ConfigError("no"), 0, False, False),
        (ConfigError("no"), 0, True, True),
        (TargetError("gone"), 0, False, True),
        # such as of a log of the job that has grown too large to be sent
        (ConfigError("too large"), 2, False, True),
    ],
)
def test_a_gate_that_is_refused_leaves_no_folder(
    job: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: LdapSlamError,
    runs: int,
    is_there: bool,
    stays: bool,
) -> None:
    monkeypatch.setattr(gate_runs, "local_fleet", _no_fleet)
    out = job.parent / "out"
    if is_there:
        out.mkdir()
    refused = Runs({"new": side(job)}, out, None)
    refused.made = [Made("new", "run", "PASS", (), True)] * runs
    with pytest.raises(type(error)), refused:
        raise error
    assert out.exists() == stays


class _NoLabs:
    def __init__(self, *_: object) -> None:
        raise AssertionError("a lab was brought up")


@pytest.mark.parametrize(
    ("has_results", "error"), [(True, ConfigError), (False, AssertionError)]
)
def test_the_folder_is_looked_at_before_a_lab_is_brought_up_and_goes_with_it(
    job: Path,
    monkeypatch: pytest.MonkeyPatch,
    has_results: bool,
    error: type[Exception],
) -> None:
    monkeypatch.setattr(gate_runs, "Labs", _NoLabs)
    out = job.parent / "out"
    if has_results:
        out.mkdir()
        (out / "results.sqlite").touch()
    of_lab = side(job, lab=StudyLab(server="slapd", entries=10))
    with pytest.raises(error), Runs({"new": of_lab}, out, None):
        pass
    assert out.exists() == has_results


def test_longer_runs_are_of_both_sides_and_the_first_ones_do_not_count(
    job: Path,
) -> None:
    sides = sides_of(job, "run.duration=500ms")
    runs = Runs(sides, job.parent / "out", None)
    assert runs.duration_ns == 500_000_000
    runs.made = [Made("old", "run-1", "PASS", (), True)]
    longer_ns = runs.longer_ns(2.1)
    assert longer_ns == 1_500_000_000  # in steps of half a second
    runs.lengthen(longer_ns)
    assert runs.duration_ns == longer_ns
    assert {one.job.run.duration_ns for one in runs.sides.values()} == {longer_ns}
    # and not the length that was given before: a baseline of the runs would have both
    overrides = runs.sides["new"].point.overrides
    assert overrides == ("targets.server=ldap://two", "run.duration=1500ms")
    assert runs.sides["new"].job.targets == {"server": ["ldap://two"]}
    [pilot] = runs.made
    assert (pilot.is_pilot, pilot.is_sound) == (True, False)
    assert pilot.reasons == ("too short for a percentile",)


@pytest.mark.parametrize(
    "change",
    [
        "streams.0.count=100",
        "streams.0.stop_after=200ms",
        "streams.0.load={stages: [{rate: 10/s, for: 500ms}]}",
    ],
)
def test_runs_whose_length_is_said_elsewhere_are_not_made_longer(
    job: Path, change: str
) -> None:
    runs = Runs({"new": side(job, change)}, job.parent / "out", None)
    assert runs.longer_ns(2.0) is None


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
    with Runs(sides, job.parent / "out", None):
        assert asked == ["local-1", "local-2"]


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
    program.touch(0o755)
    lab = StudyLab.model_validate({"server": kind})
    # as many people as the job's users
    expected = {"binary": str(program), "entries": 10}
    assert side(job, "installed", lab=lab).point.lab == expected
    named = side(job, str(program), "lab.settings.threads=2", lab=lab)
    assert named.point.lab == {**expected, "settings.threads": "2"}


def test_a_lab_has_as_many_people_as_the_job_has_users(job: Path) -> None:
    made = side(job, "users=20", lab=StudyLab(server="slapd"))
    assert made.point.lab == {"entries": 20}
    # and the job asks for as many as there are where that is given
    made = side(job, "lab.entries=40", lab=StudyLab(server="slapd", entries=30))
    assert "user.[0-40]" in made.job.streams[0].operations[0].model_dump_json()


def test_of_several_targets_one_is_to_be_named(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job.write_text(JOB.replace("targets: {", 'targets: {other: "ldap://two", '))
    assert main.run(["gate", str(job), "--new", "ldap://three"]) == 2
    said = capsys.readouterr().err
    assert "targets.other=…, targets.server=…" in said


# How long the runs of a gate are, by its time and its job.

#: As `new` writes it.
FIRST_JOB = """\
name: first
targets: {directory: ["ldap://one"]}
run: {warm_up: 3s, duration: 30s}
streams:
  - name: lookups
    target: directory
    load: {rate: 50/s, connections: 8}
    operations: [{search: {base: "dc=example,dc=com", filter: "(uid=a)"}}]
"""


@pytest.fixture
def first_job(tmp_path: Path) -> Path:
    path = tmp_path / "first.yaml"
    path.write_text(FIRST_JOB)
    return path


@pytest.mark.parametrize(
    ("override", "limit_s", "length_s"),
    [
        # 20 runs of 33.5 s take 670 s
        ("", 670, 30),
        ("", 669, 29),
        ("", 300, 11),
        ("run.interval=2s", 300, 10),
        # no shorter than three seconds, of which 12 runs take 78 s
        ("", 78, 3),
        ("", 77, None),
        # a threshold that shorter runs could not miss
        ("thresholds=[p99 < 5ms for 11s]", 300, 11),
        ("thresholds=[p99 < 5ms for 20s]", 300, 20),
        ("thresholds=[p99 < 5ms for 40s]", 300, 11),
        # what else ends the stream; 12 runs of 33.5 s take 402 s
        ("streams.0.stop_after=20s", 402, 30),
        ("streams.0.stop_after=20s", 401, None),
        ("streams.0.count=5", 1, 30),
    ],
)
def test_runs_are_no_longer_than_the_time_allows_for_ten_pairs(
    first_job: Path, override: str, limit_s: int, length_s: int | None
) -> None:
    given = sides_of(first_job, *filter(None, [override]))
    if length_s is None:
        with pytest.raises(ConfigError, match="6 runs of each side"):
            fitted(given, limit_s * NS_PER_S)
        return
    sides, note = fitted(given, limit_s * NS_PER_S)
    assert {one.job.run.duration_ns for one in sides.values()} == {length_s * NS_PER_S}
    assert (sides == given) is (length_s == 30) is not bool(note)


def test_runs_against_a_baseline_are_not_made_shorter(
    first_job: Path,
) -> None:
    new = {"new": sides_of(first_job)["new"]}
    assert fitted(new, 201 * NS_PER_S) == (new, "")
    with pytest.raises(ConfigError, match="with a measure phase of 30s, take 201s"):
        fitted(new, 200 * NS_PER_S)
