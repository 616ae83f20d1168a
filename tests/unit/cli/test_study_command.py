# SPDX-License-Identifier: Apache-2.0
"""`study` and `capacity` fork their runs, which a process with threads must not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

JOB = """\
job: one
vars: {clients: 1}
targets: {server: "ldap://one"}
run: {duration: 500ms, interval: 100ms}
streams:
  - name: readers
    target: server
    load: {closed: {clients: "${clients}"}}
    operations: [{search: {base: "dc=example,dc=com"}}]
"""
PROGRAM = """
import sys
from ldapslam.base.process import has_threads
from ldapslam.cli import main
code = main.run(sys.argv[1:])
print(code, has_threads())
"""


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("study study.yaml --plan", 0),
        # refused, once all has been imported
        ("capacity job.yaml --load clients --from 9 --to 1", 2),
    ],
)
def test_there_are_no_threads_before_the_first_run(
    tmp_path: Path, arguments: str, code: int
) -> None:
    """BLAS starts some when numpy is imported with more than one processor."""
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "study.yaml").write_text(
        "study: s\njob: job.yaml\naxes: {clients: [1, 2]}\n"
    )
    environment = {**os.environ}
    environment.pop("OPENBLAS_NUM_THREADS", None)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments.split()],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.splitlines()[-1:] == [f"{code} False"], done.stderr
