# SPDX-License-Identifier: Apache-2.0
"""What a killed `check --write` has left is told by the next one."""

from __future__ import annotations

from pathlib import Path

import pytest

from ldapslam.agent.ledgers.folder import locked, run_folder
from ldapslam.cli.measure.check_samples import left_before

RUN = "20260301-120000-aaaaaa"


def test_a_killed_check_is_told_and_one_under_way_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert not list(left_before())
    folder = run_folder(tmp_path / "ldapslam" / "spool" / "check", RUN)
    folder.mkdir(parents=True)
    (folder / "clean-up.json").touch()
    with locked(folder):
        assert not list(left_before())
    (warning,) = left_before()
    assert f"`ldapslam run --cleanup {RUN}`" in warning
