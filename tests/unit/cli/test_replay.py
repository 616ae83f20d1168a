# SPDX-License-Identifier: Apache-2.0
"""`ldapslam replay`: from a log to a job, and what is said of what is left out."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from ldapslam.base.errors import ExitCode
from ldapslam.cli import main
from ldapslam.jobs.load import load_job, load_job_text

LOGS = Path(__file__).parents[1] / "jobs" / "replay_logs"
URI = "ldap://test1.example.com"


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for path in LOGS.iterdir():
        (tmp_path / path.name).symlink_to(path)


def ldapslam(line: str) -> int:
    return main.run(shlex.split(line))


def test_a_time_true_job_is_printed_with_what_it_needs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = (
        f"replay run slapd-2.5.log -H {URI} --credentials pw --modify-attribute title"
    )
    assert (
        ldapslam(f"{line} --deletes --add-attribute objectClass=person --print-job")
        == 0
    )
    captured = capsys.readouterr()
    job = load_job_text(captured.out, file="printed", base=Path.cwd())
    [stream] = job.streams
    assert stream.replay is not None
    assert stream.replay.logs == ["slapd-2.5.log"]
    assert stream.replay.modifies is not None
    assert stream.replay.modifies.attribute == "title"
    assert stream.replay.deletes
    assert stream.load.kind == "replay"
    assert stream.load.connections == 8
    assert job.run.duration_ns == 2_000_000_000
    assert "not replayed: 1 modify_dn: the log does not have the new name" in (
        captured.err
    )


def test_as_fast_as_possible_has_no_time_of_the_logs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert ldapslam(f"replay run 389-ds-2.3.log -H {URI} --speed max --print-job") == 0
    job = load_job_text(capsys.readouterr().out, file="printed", base=Path.cwd())
    assert job.streams[0].load.kind == "replay"
    assert job.streams[0].load.factor is None


def test_an_analysis_goes_to_a_file_or_to_stdout(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert ldapslam(f"replay analyse slapd-2.5.log -H {URI} -o made.yaml") == 0
    written = load_job(Path("made.yaml"))
    assert written.name == "made"
    assert capsys.readouterr().out == ""
    assert ldapslam("replay analyse slapd-2.5.log 389-ds-2.3.log") == 0
    captured = capsys.readouterr()
    assert load_job_text(captured.out, file="printed", base=Path.cwd())
    assert "name yours with -H URI" in captured.err


def test_what_an_analysis_writes_is_for_its_owner(tmp_path: Path) -> None:
    assert ldapslam(f"replay analyse slapd-2.5.log -H {URI} -o made.yaml") == 0
    written = [path for path in tmp_path.iterdir() if not path.is_symlink()]
    assert [path.stat().st_mode & 0o777 for path in written] == [0o600]


def test_check_says_what_of_a_log_is_replayed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert ldapslam(f"replay run slapd-2.5.log -H {URI} --print-job") == 0
    Path("job.yaml").write_text(capsys.readouterr().out)
    assert ldapslam("check job.yaml --offline") == ExitCode.PASS
    said = capsys.readouterr().out
    assert "takes 2s at most, as it ends when its streams have sent all" in said
    assert "stream log: search, " in said
    assert "a log at 1x, 8 connections" in said
    assert "stream log: 4 search, 1 compare, 1 extended in 13 sessions on 8" in said
    assert "stream log: not replayed: 13 bind: the log has no passwords" in said


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("replay run slapd-2.5.log", "name the directory: -H URI"),
        (f"replay run none.log -H {URI}", "the log 'none.log' cannot be read"),
        (f"replay run slapd-2.5.log -H {URI} --speed 10", "--speed: expected a speed"),
        (f"replay run slapd-2.5.log -H {URI} --skip 1h", "nothing of the log"),
        (
            f"replay run slapd-2.5.log -H {URI} --bind-as-configured",
            "--bind-as-configured needs -D",
        ),
        (
            f"replay run slapd-2.5.log -H {URI} --add-attribute x",
            "--add-attribute: expected NAME=VALUE",
        ),
        ("replay analyse job.txt", "expected a log of OpenLDAP"),
        ("replay analyse slapd-2.5.log -o /none/x.yaml", "cannot be written"),
    ],
)
def test_what_is_wrong_is_said(
    line: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("job.txt").write_text("no log\n")
    assert ldapslam(line) == ExitCode.USAGE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in " ".join(captured.err.split())
