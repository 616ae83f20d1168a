# SPDX-License-Identifier: Apache-2.0
"""`job examples`: each is listed, printed, and written so that it loads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from ldapslam.base.errors import ConfigError
from ldapslam.cli.main import cli
from ldapslam.jobs.load import load_job
from ldapslam.studies.points import load_points
from ldapslam.studies.study_file import load_study

CONFIGS = Path(__file__).resolve().parents[3] / "configs"
JOBS = sorted(path.stem for path in (CONFIGS / "jobs").glob("*.yaml"))
STUDIES = sorted(path.stem for path in (CONFIGS / "studies").glob("*.yaml"))


def answer(*arguments: str) -> str:
    result = CliRunner().invoke(cli, ["job", "examples", *arguments])
    assert result.exit_code == 0, result.exception
    return result.stdout


def test_each_example_is_listed_in_a_line_of_its_own() -> None:
    listed = json.loads(answer("--json"))
    assert {kind: sorted(found) for kind, found in listed.items()} == {
        "jobs": JOBS,
        "studies": STUDIES,
    }
    lines = [*listed["jobs"].values(), *listed["studies"].values()]
    assert "lookups per second by the size of the entry cache" in lines
    assert not [line for line in lines if "${" in line or "\n" in line]


def test_an_example_is_printed_as_it_is() -> None:
    assert answer("search.yaml") == (CONFIGS / "jobs" / "search.yaml").read_text()


@pytest.mark.parametrize("name", JOBS)
def test_a_job_is_written_with_what_it_names(name: str, tmp_path: Path) -> None:
    first = answer(name, "--out", str(tmp_path)).splitlines()[0]
    assert load_job(Path(first)).name == name


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_is_written_with_its_jobs(name: str, tmp_path: Path) -> None:
    answer(name, "--out", str(tmp_path))
    path = tmp_path / f"{name}.yaml"
    for point in load_points(load_study(path), path):
        load_job(tmp_path / point.job, point.overrides)


def test_a_file_of_the_user_is_left_alone(tmp_path: Path) -> None:
    mine = tmp_path / "search.yaml"
    mine.write_text("name: mine\n")
    result = CliRunner().invoke(
        cli, ["job", "examples", "search", "--out", str(tmp_path)]
    )
    assert isinstance(result.exception, ConfigError)
    assert mine.read_text() == "name: mine\n"


def test_a_name_that_is_mistyped_is_answered_with_the_one_meant() -> None:
    result = CliRunner().invoke(cli, ["job", "examples", "open-lop"])
    assert isinstance(result.exception, ConfigError)
    assert result.exception.hint == "did you mean 'open-loop'?"
