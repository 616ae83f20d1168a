# SPDX-License-Identifier: Apache-2.0
"""A coordinator removes the folder of its fleet, and no other that it is told of."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from ldapslam.cli.scratch import remove_scratch, scratch_folder


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
