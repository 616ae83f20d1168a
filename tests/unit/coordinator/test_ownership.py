# SPDX-License-Identifier: Apache-2.0
"""A second coordinator is told of the first one, and a dead one is in nobody's way."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from ldapslam.base.errors import ConfigError
from ldapslam.coordinator.security.ownership import owned_socket, owned_store
from ldapslam.results.store import Store


def test_a_store_has_one_coordinator(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    link = tmp_path / "same.sqlite"
    link.symlink_to(path)
    with Store.open(path) as store, owned_store(store):
        lock = tmp_path / "results.sqlite.lock"
        assert stat.S_IMODE(lock.stat().st_mode) == 0o600
        with (
            Store.open(link) as second,
            pytest.raises(ConfigError, match="in use by a coordinator") as refusal,
            owned_store(second),
        ):
            pass
        assert f"process {os.getpid()} on " in (refusal.value.hint or "")
        # reports are made beside it
        with Store.open(path, read_only=True) as reader:
            assert reader.runs() == []
    assert not lock.exists()


def test_what_a_dead_coordinator_left_behind_is_taken_over(tmp_path: Path) -> None:
    (tmp_path / "socket.lock").write_text("process 1 on mars")
    with owned_socket(tmp_path / "socket"):
        pass
    with owned_socket(tmp_path / "socket"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_place_where_nothing_can_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(ConfigError, match=r"file/socket\.lock' cannot be locked"),
        owned_socket(tmp_path / "file" / "socket"),
    ):
        pass
