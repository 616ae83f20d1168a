# SPDX-License-Identifier: Apache-2.0
"""A coordinator removes the folder of its fleet, and no other that it is told of."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from ldapslam.cli.main import run
from ldapslam.cli.scratch import remove_scratch, scratch_folder


@pytest.fixture(autouse=True)
def folder_of_temporary_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_the_folder_of_a_fleet_is_removed_with_what_is_in_it(tmp_path: Path) -> None:
    with scratch_folder() as folder:
        (folder / "coordinator").touch()
        remove_scratch(folder)
        assert not folder.exists()


def test_the_folder_of_a_fleet_goes_with_its_command(tmp_path: Path) -> None:
    with scratch_folder() as folder:
        assert folder.parent == tmp_path
    assert not list(tmp_path.iterdir())


def test_a_folder_with_the_name_alone_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "ldapslam-fleet-mine"
    folder.mkdir()
    remove_scratch(folder)
    assert folder.exists()


def test_a_folder_with_the_mark_alone_is_kept(tmp_path: Path) -> None:
    (tmp_path / ".ldapslam-fleet").touch()
    remove_scratch(tmp_path)
    assert tmp_path.exists()


def test_a_link_to_a_folder_of_a_fleet_is_not_followed(tmp_path: Path) -> None:
    with scratch_folder() as folder:
        link = tmp_path / "ldapslam-fleet-link"
        link.symlink_to(folder)
        remove_scratch(link)
        assert folder.exists()


def test_a_folder_of_another_user_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with scratch_folder() as folder:
        with monkeypatch.context() as other:
            other.setattr("os.geteuid", lambda: 4_242_424)
            remove_scratch(folder)
        assert folder.exists()


def test_a_coordinator_refuses_a_scratch_folder_that_is_not_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    assert run(["coordinator", "--scratch", str(precious)]) == 2
    assert "no folder of a local fleet" in capsys.readouterr().err
    assert precious.exists()
