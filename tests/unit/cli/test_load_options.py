# SPDX-License-Identifier: Apache-2.0
"""`run -d -r -c`: what they change of a job file."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from ldapslam.base.errors import ExitCode
from ldapslam.cli import main

HEAD = """\
name: lookups
targets: {directory: ldap://ds1.example.com}
vars: {clients: 4}
run: {duration: 10s}
streams:
"""
STREAM = """\
  - name: NAME
    target: directory
    load: LOAD
    operations: [{search: {base: "dc=x"}}]
"""
CLOSED, OPEN = "{clients: '${clients}', think_time: 1ms}", "{rate: 50/s, in_flight: 2}"


def write_job(*loads: str) -> None:
    streams = [
        STREAM.replace("NAME", f"s{number}").replace("LOAD", load)
        for number, load in enumerate(loads)
    ]
    Path("job.yaml").write_text(HEAD + "".join(streams))


@pytest.mark.parametrize(
    ("load", "options", "changed"),
    [
        (CLOSED, "-c 9", {"clients": 9, "think_time": "1ms"}),
        (CLOSED, "-r 5/s", {"rate": "5/s", "connections": 4}),
        (CLOSED, "-r 5/s -c 9", {"rate": "5/s", "connections": 9}),
        (CLOSED, "--set streams.s0.load.clients=7 -r 5/s", {"connections": 7}),
        (OPEN, "-c 9", {"rate": "50/s", "in_flight": 2, "connections": 9}),
        (OPEN, "-r 5/s", {"rate": "5/s", "in_flight": 2}),
    ],
)
def test_the_load_of_the_only_stream_is_changed(
    load: str,
    options: str,
    changed: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write_job(load)
    line = f"run job.yaml -d 3s {options} --print-job"
    assert main.run(shlex.split(line)) == ExitCode.PASS
    job = yaml.safe_load(capsys.readouterr().out)
    assert job["run"] == {"duration": "3s"}
    assert job["streams"][0]["load"].items() >= changed.items()
    assert ("think_time" in job["streams"][0]["load"]) == ("think_time" in changed)


@pytest.mark.parametrize(
    ("loads", "options", "message"),
    [
        ((CLOSED, OPEN), "-c 9", "--set streams.s0.load.rate=500/s"),
        ((CLOSED, OPEN), "-r 5/s", "this has 2"),
        ((CLOSED,), "-r 500", "--rate: expected a rate such as"),
        ((CLOSED,), "-d 5", "--duration: expected a duration such as"),
        (("{trace: {logs: [log], connections: 1}}",), "-r 5/s", "the load is a trace"),
    ],
)
def test_a_load_that_cannot_be_changed_is_a_fault(
    loads: tuple[str, ...],
    options: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write_job(*loads)
    line = f"run job.yaml {options} --print-job"
    assert main.run(shlex.split(line)) == ExitCode.USAGE
    assert message in " ".join(capsys.readouterr().err.split())
