# SPDX-License-Identifier: Apache-2.0
"""Every job of bad_jobs/cases.yaml gives all of its faults, with position and hint.

--update-golden rewrites the faults in cases.yaml, for review.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ldapslam.base.errors import JobErrors
from ldapslam.jobs.load import load_job, load_job_text
from support.bad_jobs import FOLDER, bad_jobs, faults_of, job_file, write

CASES = bad_jobs()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for job files, with the files that they name."""
    return Path(shutil.copytree(FOLDER, tmp_path_factory.mktemp("jobs") / "bad"))


@pytest.fixture(scope="module")
def cases(request: pytest.FixtureRequest) -> Iterator[dict[str, dict[str, Any]]]:
    """The cases; the file gets their new faults in the end if that was asked for."""
    yield CASES
    if request.config.getoption("--update-golden"):
        write(CASES)


@pytest.mark.parametrize("name", CASES)
def test_broken_job_gives_all_of_its_faults_with_position_and_hint(
    name: str, folder: Path, cases: dict[str, dict[str, Any]], update_golden: bool
) -> None:
    case = cases[name]
    faults = faults_of(job_file(case), folder)
    if update_golden:
        case["faults"] = faults  # `cases` writes them
    assert faults == case["faults"]
    assert re.fullmatch(r"(\d+:\d+: .+\n    hint: (?!None$).+\n)+", faults, re.M)


def test_operations_and_steps_of_a_stream_are_limited(folder: Path) -> None:
    operations = "".join(f"- {{name: s{n}, unbind: {{}}}}\n" for n in range(1025))
    steps = "".join(
        f'    - {{name: s{n}, search: {{base: "dc=com"}}, repeat: 1000}}\n'
        for n in range(66)
    )
    for text, fault in (
        (operations, "expected at most 1024 operations in a stream, got 1025"),
        (
            f"- sequence:\n{steps}",
            "expected at most 65535 steps in a stream, got 66000",
        ),
    ):
        faults = faults_of(job_file({"stream.operations": text}), folder)
        assert f"streams[0].operations: {fault}\n" in faults


def test_literal_password_is_not_repeated() -> None:
    case = CASES["literal-password"]
    assert b"hunter2" in job_file(case)
    assert "hunter2" not in case["faults"]


def test_file_of_50_mb_is_refused_without_reading_it(tmp_path: Path) -> None:
    path = tmp_path / "huge.yaml"
    with path.open("wb") as stream:
        stream.truncate(50_000_000)
    with pytest.raises(JobErrors) as caught:
        load_job(path)
    assert [fault.reason for fault in caught.value.faults] == [
        "expected a file of at most 1048576 bytes, got 50000000"
    ]


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? "])
def test_nesting_without_end_is_refused(opening: str) -> None:
    with pytest.raises(JobErrors):
        load_job_text(opening * 100_000, file="deep.yaml", base=None)


def test_file_that_is_not_there_names_one_that_is(tmp_path: Path) -> None:
    (tmp_path / "mixed.yaml").touch()
    with pytest.raises(JobErrors) as caught:
        load_job(tmp_path / "mixd.yaml")
    (fault,) = caught.value.faults
    assert fault.reason == "cannot be read: No such file or directory"
    assert fault.hint == "did you mean 'mixed.yaml'?"


def test_folder_instead_of_a_file_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(JobErrors, match="cannot be read: Is a directory"):
        load_job(tmp_path)
