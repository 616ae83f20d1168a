# SPDX-License-Identifier: Apache-2.0
"""What is left of a run or a lab: entries, the folder of a fleet, a job file."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from ldapslam.base.errors import ConfigError, ExitCode
from ldapslam.cli.data.lab import lab_job_path
from ldapslam.cli.measure.cleanup import clean_up_run
from ldapslam.cli.scratch import remove_scratch, scratch_folder


@pytest.mark.parametrize("run", ["latest", "20261121-1424", "results/nowhere"])
def test_what_is_no_run_is_not_said_to_be_clean(run: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected the id of a run"):
        clean_up_run(run, tmp_path, tmp_path, pytest.fail)


def test_a_run_that_left_nothing_is_said_to_be_clean(tmp_path: Path) -> None:
    lines: list[str] = []
    code = clean_up_run("20261121-142447-c7a201", tmp_path, tmp_path, lines.append)
    assert code is ExitCode.PASS
    assert "no entries are left" in lines[0]


@pytest.fixture(autouse=True)
def folder_of_temporary_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_the_folder_of_a_fleet_goes_with_its_command_or_before(tmp_path: Path) -> None:
    for is_before in (True, False):
        with scratch_folder() as folder:
            assert folder.parent == tmp_path
            (folder / "coordinator").touch()
            if is_before:
                remove_scratch(folder)
                assert not folder.exists()
        assert not list(tmp_path.iterdir())


def test_folders_of_others_and_links_are_kept(tmp_path: Path) -> None:
    (tmp_path / ".ldapslam-fleet").touch()  # the mark alone, and the name alone
    named, link = (tmp_path / f"ldapslam-fleet-{name}" for name in ("mine", "link"))
    named.mkdir()
    with scratch_folder() as folder:
        link.symlink_to(folder)
        for one in (tmp_path, named, link):
            remove_scratch(one)
            assert one.exists()


def test_a_folder_of_another_user_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with scratch_folder() as folder:
        with monkeypatch.context() as other:
            other.setattr("os.geteuid", lambda: 4_242_424)
            remove_scratch(folder)
        assert folder.exists()


def test_it_takes_the_place_of_its_own_file_alone(tmp_path: Path) -> None:
    job = tmp_path / "search.yaml"
    made = lab_job_path(job, "search", "lab")
    assert made == tmp_path / "search-lab.yaml"
    made.write_text("extends: search.yaml\nname: search-lab\n")
    assert lab_job_path(job, "search", "lab") == made
    made.write_text("name: mine\n")
    with pytest.raises(ConfigError, match="of another kind"):
        lab_job_path(job, "search", "lab")


@pytest.mark.parametrize("lab", ["slapd-2.6", "x" * 70])
def test_a_name_that_no_job_may_have_is_refused(tmp_path: Path, lab: str) -> None:
    with pytest.raises(ConfigError, match="cannot be the name of a job"):
        lab_job_path(tmp_path / "search.yaml", "search", lab)
