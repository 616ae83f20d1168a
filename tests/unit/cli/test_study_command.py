# SPDX-License-Identifier: Apache-2.0
"""`study` and `capacity` fork their runs, which a process with threads must not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ldapslam.cli import main
from ldapslam.cli.study.capacity import _bounds, _load

JOB = """\
name: one
vars: {clients: 1}
targets: {server: "ldap://one"}
run: {duration: 500ms, interval: 100ms}
streams:
  - name: readers
    target: server
    load: {clients: "${clients}"}
    operations: [{search: {base: "dc=example,dc=com"}}]
"""
CLOSED = '{clients: "${clients}"}'
OPEN = "{rate: "
FIELD = "streams.readers.load.clients="
RATE = "streams.readers.load.rate="
PROGRAM = """
import sys
from ldapslam.base.process import has_threads
from ldapslam.cli import main
code = main.run(sys.argv[1:])
# what reads the results of a run
import scipy.special, ldapslam.reports.digest
print(code, has_threads())
"""


@pytest.mark.parametrize(
    ("changes", "code"), [((), 2), (("--var", "names=/etc/passwd"), 0)]
)
def test_a_study_names_no_file_for_its_jobs_to_send(
    tmp_path: Path, changes: tuple[str, ...], code: int
) -> None:
    filtered = JOB.replace("dc=com", 'dc=com", filter: "(uid=[file:${names}])')
    (tmp_path / "job.yaml").write_text(
        filtered.replace("{clients: 1}", "{clients: 1, names: job.yaml}")
    )
    (tmp_path / "study.yaml").write_text(
        "name: s\njob: job.yaml\nvars: {names: /etc/passwd}\naxes: {clients: [1, 2]}\n"
    )
    arguments = ("study", str(tmp_path / "study.yaml"), "--plan", *changes)
    assert main.run(arguments) == code


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("study study.yaml --plan", 0),
        ("capacity job.yaml --load clients --from 9 --to 1", 2),
    ],
)
def test_there_are_no_threads_when_a_run_begins(
    tmp_path: Path, arguments: str, code: int
) -> None:
    """BLAS starts some when numpy is imported with more than one processor."""
    (tmp_path / "job.yaml").write_text(JOB)
    (tmp_path / "study.yaml").write_text(
        "name: s\njob: job.yaml\naxes: {clients: [1, 2]}\n"
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


@pytest.mark.parametrize(
    ("value", "in_stream", "load", "given", "override"),
    [
        ("1", CLOSED, "clients", ("1", "9"), 'vars.clients="9"'),
        ("1", CLOSED.replace('"${clients}"', "3"), "clients", ("1", "9"), FIELD + "9"),
        (
            "5/s",
            OPEN + '"${clients}"}',
            "clients",
            ("1/s", "9/s"),
            'vars.clients="9/s"',
        ),
        ("1", OPEN + "5/s}", "rate", ("1/s", "9/s"), RATE + "9/s"),
        ("1", OPEN + "5/s}", RATE[:-1], ("60/m", "9/s"), RATE + "9/s"),
    ],
)
def test_the_load_is_a_variable_or_a_field_and_a_rate_has_its_unit(
    value: str,
    in_stream: str,
    load: str,
    given: tuple[str, str],
    override: str,
    tmp_path: Path,
) -> None:
    path = tmp_path / "job.yaml"
    variable = "clients" if "${clients}" in in_stream else "other"
    text = JOB.replace("{clients: 1}", f"{{{variable}: {value}}}")
    path.write_text(text.replace(CLOSED, in_stream))
    raised = _load(load, path, ())
    bounds = _bounds(raised, dict(zip(("--from", "--to"), given, strict=True)))
    assert raised.override(bounds[1]) == override
    assert ("/" in "".join(given)) == raised.is_rate
