# SPDX-License-Identifier: Apache-2.0
"""What is sent along with a job, and how much of it."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from ldapslam.base.errors import ConfigError, ExitCode
from ldapslam.cli.fleet.submit import submit_command
from ldapslam.cli.measure.check import check_command
from ldapslam.cli.submission import check_size_of_files, say_doubts
from ldapslam.jobs.load import load_job

JOB = """\
name: feeds
targets: {server: "ldap://127.0.0.1:1"}
run: {duration: 10s}
streams:
  - name: readers
    target: server
    load: {clients: 1}
    operations: [{search: {base: "", filter: "(|(cn=[file:a])(cn=[file:b]))"}}]
"""
MOST_BYTES = 65_011_712


def job_file(folder: Path, *, beyond: int) -> Path:
    """A job with two files, which have so many bytes more than may be sent."""
    path = folder / "job.yaml"
    path.write_text(JOB)
    for name, size in (("a", MOST_BYTES - 7 + beyond), ("b", 7)):
        (folder / name).write_bytes(b"line\n")
        os.truncate(folder / name, size)
    return path


def test_files_up_to_what_agents_are_sent_are_no_fault(tmp_path: Path) -> None:
    job = load_job(job_file(tmp_path, beyond=0))
    assert sum(path.stat().st_size for path in job.files.values()) == MOST_BYTES
    check_size_of_files(job)


@pytest.mark.parametrize(
    ("command", "options"),
    [
        (check_command, ["--offline"]),
        (submit_command, ["--coordinator", "127.0.0.1:1"]),
    ],
    ids=["check", "submit"],
)
def test_more_is_told_by_check_as_it_is_when_the_job_is_sent(
    tmp_path: Path, command: click.Command, options: list[str]
) -> None:
    path = job_file(tmp_path, beyond=1)
    error = CliRunner().invoke(command, [str(path), *options]).exception
    assert isinstance(error, ConfigError)
    assert error.exit_code is ExitCode.USAGE
    assert str(error) == (
        "the job's files have 65,011,713 bytes, agents are sent at most 65,011,712: "
        "the largest is 'a'"
    )


def test_what_was_told_of_a_job_is_not_told_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(JOB.replace("[file:a]", "a").replace("[file:b]", "${b}"))
    told: set[str] = set()
    say_doubts(load_job(path), told)
    say_doubts(load_job(path, ["targets.server=ldap://host:389"]), told)
    said = capsys.readouterr().err
    assert said.count("warning: ") == len(told) == 1
    say_doubts(load_job(path, ["thresholds=[errors < 1% for 1h]"]), told)
    assert capsys.readouterr().err.count("cannot be missed") == len(told) - 1 == 1
