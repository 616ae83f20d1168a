# SPDX-License-Identifier: Apache-2.0
"""Private files: whole, and never another's."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from ldapslam.base.files import write_private


@pytest.mark.parametrize("is_link", [False, True])
def test_what_stands_in_the_place_of_the_new_file_is_not_written_to(
    tmp_path: Path, is_link: bool
) -> None:
    others, aside = tmp_path / "others", tmp_path / ".key.pem.new"
    others.touch(mode=0o666)
    if is_link:
        aside.symlink_to(others)
    else:
        os.link(others, aside)
    write_private(tmp_path / "key.pem", b"secret")
    assert others.read_bytes() == b""
    assert not aside.exists()
    assert (tmp_path / "key.pem").read_bytes() == b"secret"
    assert stat.S_IMODE((tmp_path / "key.pem").lstat().st_mode) == 0o600
