# SPDX-License-Identifier: Apache-2.0
"""Every broken job file of bad_jobs/ gives all of its faults, with position and hint.

bad_jobs/faults.txt holds what is expected, for review; --update-golden rewrites it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ldapslam.base.errors import ExitCode, JobErrors
from ldapslam.jobs.load import load_job, load_job_text

FOLDER = Path(__file__).with_name("bad_jobs")
FILES = sorted(FOLDER.glob("*.yaml"), key=lambda path: path.stem)
EXPECTED = FOLDER / "faults.txt"


def faults_of(path: Path) -> str:
    """The faults of a file as the CLI shows them, without the folder."""
    with pytest.raises(JobErrors) as caught:
        load_job(path)
    lines: list[str] = []
    for fault in caught.value.faults:
        lines.append(str(fault).replace(f"{FOLDER}/", ""))
        if fault.hint:
            lines.append(f"    hint: {fault.hint.replace(str(FOLDER), '…')}")
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def expected() -> dict[str, str]:
    sections = EXPECTED.read_text().split("\n\n")
    return {part.partition(":")[0]: part.rstrip("\n") + "\n" for part in sections}


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_broken_job_gives_all_of_its_faults(
    path: Path, expected: dict[str, str], update_golden: bool
) -> None:
    if update_golden:
        pytest.skip("rewriting")
    assert faults_of(path) == expected[path.name]


def test_expected_faults_are_of_files_that_exist(
    expected: dict[str, str], update_golden: bool
) -> None:
    if update_golden:
        EXPECTED.write_text("\n".join(faults_of(path) for path in FILES))
    assert sorted(expected) == sorted(path.name for path in FILES) or update_golden


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_every_fault_has_a_position_and_a_hint(path: Path) -> None:
    with pytest.raises(JobErrors) as caught:
        load_job(path)
    for fault in caught.value.faults:
        assert fault.line
        assert fault.column
        assert fault.hint


def test_there_are_many_broken_jobs() -> None:
    assert len(FILES) >= 40


def test_faults_lead_to_the_exit_code_of_usage() -> None:
    with pytest.raises(JobErrors) as caught:
        load_job(FOLDER / "many-faults.yaml")
    assert caught.value.exit_code == ExitCode.USAGE


def test_literal_password_is_not_repeated() -> None:
    assert "hunter2" not in faults_of(FOLDER / "literal-password.yaml")


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
