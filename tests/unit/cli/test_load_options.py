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

JOB = """\
name: lookups
targets: {directory: ldap://ds1.example.com}
vars: {clients: 4}
run: {duration: 10s}
streams:
  - name: s0
    target: directory
    load: LOAD
    operations: [{search: {base: "dc=x"}}]
"""
CLOSED, OPEN = "{clients: '${clients}', think_time: 1ms}", "{rate: 50/s, in_flight: 2}"


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
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(JOB.replace("LOAD", load))
    line = f"run {path} -d 3s {options} --print-job"
    assert main.run(shlex.split(line)) == ExitCode.PASS
    job = yaml.safe_load(capsys.readouterr().out)
    assert job["run"] == {"duration": "3s"}
    assert job["streams"][0]["load"].items() >= changed.items()
    assert ("think_time" in job["streams"][0]["load"]) == ("think_time" in changed)
