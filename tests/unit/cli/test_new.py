# SPDX-License-Identifier: Apache-2.0
"""`ldapslam new`: copies of examples, and jobs of logs."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest

from ldapslam.base.errors import ExitCode
from ldapslam.cli import main
from ldapslam.cli.job_files.first_job import _pattern_of
from ldapslam.cli.submission import JobFile, checked_request
from ldapslam.jobs.load import load_job, load_job_text
from ldapslam.studies.points import load_points
from ldapslam.studies.study_file import load_study

LOGS = Path(__file__).parents[1] / "jobs" / "replay_logs"
CONFIGS = Path(__file__).resolve().parents[3] / "configs"
JOBS = sorted(path.stem for path in (CONFIGS / "jobs").glob("*.yaml"))
STUDIES = sorted(path.stem for path in (CONFIGS / "studies").glob("*.yaml"))
URI = "ldap://test1.example.com"


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in LOGS.iterdir():
        shutil.copy(path, tmp_path)


def new(line: str) -> int:
    return main.run(["new", *shlex.split(line)])


# -- examples


def test_an_example_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert new("search.yaml") == ExitCode.PASS
    text = (CONFIGS / "jobs" / "search.yaml").read_text()
    assert capsys.readouterr().out == text


@pytest.mark.parametrize("name", JOBS)
def test_a_job_is_written_with_what_it_names(name: str) -> None:
    assert new(f"{name} -o copy/mine.yaml") == ExitCode.PASS
    assert load_job(Path("copy/mine.yaml")).name == name


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_is_written_with_its_jobs(name: str) -> None:
    path = Path(f"copy/{name}.yaml")
    assert new(f"{name} -o {path}") == ExitCode.PASS
    for point in load_points(load_study(path), path):
        load_job(path.parent / point.job, point.overrides)


# -- logs


def test_a_log_becomes_a_job_of_the_same_kind_of_load(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert new(f"--log slapd-2.5.log {URI} -o made.yaml") == ExitCode.PASS
    # for its owner alone
    written = [Path("made.yaml"), *Path().glob("*.txt")]
    assert {path.stat().st_mode & 0o777 for path in written} == {0o600}
    job = load_job(Path("made.yaml"))
    assert (job.name, job.targets) == ("made", {"directory": [URI]})
    captured = capsys.readouterr()
    assert captured.out == "made.yaml\n"
    assert (
        "left out: bind: the log has no passwords (--credentials): 11" in captured.err
    )
    assert new("--log slapd-2.5.log 389-ds-2.3.log") == ExitCode.PASS
    captured = capsys.readouterr()
    assert load_job_text(captured.out, file="printed", base=Path.cwd())
    assert "give the URI of yours" in captured.err


def test_a_trace_has_the_connections_of_its_log(
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = f"--log --trace slapd-2.5.log {URI} --credentials pw -o copy/trace.yaml"
    Path("copy").mkdir()
    assert new(line) == ExitCode.PASS
    logs = "streams.log.load.trace.logs=[../slapd-2.5.log]"
    job = load_job(Path("copy/trace.yaml"), [logs])
    trace = job.streams[0].trace
    assert trace is not None
    assert trace.logs == ["../slapd-2.5.log"]
    assert trace.connections is None
    assert job.streams[0].load.total_connections == 8
    assert trace.binds is not None
    assert job.run.duration_ns == 2_000_000_000
    said = capsys.readouterr().err
    assert (
        "not replayed: 1 modify_dn request: the log does not have the new name" in said
    )


def test_a_job_is_sent_with_the_connections_that_its_log_needs() -> None:
    assert new(f"--log --trace slapd-2.5.log {URI} -o job.yaml") == ExitCode.PASS
    request = checked_request(
        JobFile(Path("job.yaml")), ["streams.log.load.trace.speed=100x"]
    )
    sent = load_job_text(
        request.job_text,
        file="job",
        base=None,
        overrides=request.overrides,
        files=request.files,
    )
    needed = load_job(Path("job.yaml"), request.overrides[:1])
    connections = sent.streams[0].load.total_connections
    assert 8 < connections == needed.streams[0].load.total_connections


def test_check_says_what_of_a_log_is_sent(capsys: pytest.CaptureFixture[str]) -> None:
    assert new(f"--log --trace slapd-2.5.log {URI} -o job.yaml") == ExitCode.PASS
    assert main.run(["check", "job.yaml", "--offline"]) == ExitCode.PASS
    said = capsys.readouterr().out
    assert "stream log: 4 search requests, 1 compare request, " in said
    assert "1 extended request in 13 sessions on 8 connections" in said
    assert "not replayed: 13 bind requests: the log has no passwords" in said


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("open-lop", "did you mean 'open-loop'?"),
        ("search -o mine.yaml", "the file 'mine.yaml' is there already"),
        (f"--log slapd-2.5.log {URI} -o mine.yaml", "'mine.yaml' is there already"),
        ("search -d 5s", "--duration is for a job for a directory"),
        (f"{URI} --credentials x", "--credentials is for a job of a log"),
        (f"--log slapd-2.5.log {URI} -r 5/s", "--rate is for a job for a directory"),
        (f"{URI} first.yaml", "-o FILE is the job file"),
        ("slapd-2.5.log", "--log takes the files of a log"),
        (f"--log {URI}", "--log needs the files of a log"),
        (f"--log none.log {URI}", "the log 'none.log' cannot be read"),
        ("--log mine.yaml", "expected a log of OpenLDAP"),
        ("--log slapd-2.5.log -o /none/x.yaml", "/none/"),
    ],
)
def test_what_cannot_be_made_is_said(
    line: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("mine.yaml").write_text("name: mine\n")
    assert new(line) == ExitCode.USAGE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in " ".join(captured.err.split())
    assert Path("mine.yaml").read_text() == "name: mine\n"


@pytest.mark.parametrize(
    ("values", "pattern"),
    [
        (["user.3", "user.12", "user.0"], "user.[0-12]"),
        (["emp00001", "emp00499"], "emp[1-499%00000]"),
        (["1@a.de", "20@a.de"], "[1-20]@a.de"),
        (["AT-07-1", "AT-07-2"], "AT-07-[1-2]"),
        # nothing that a single pattern draws
        (["emp1", "emp01"], ""),
        (["emp1", "anna"], ""),
        (["a1", "b2"], ""),
        (["a[1", "a[2"], ""),
        (["emp1"], ""),
        ([], ""),
    ],
)
def test_numbered_values_have_a_pattern(values: list[str], pattern: str) -> None:
    assert _pattern_of(values) == pattern
