# SPDX-License-Identifier: Apache-2.0
"""Private files, whole and never another's; and JSON of others, or what is none."""

from __future__ import annotations

import os
import stat
from base64 import b64encode
from pathlib import Path

import pytest

from ldapslam.base.errors import ConfigError
from ldapslam.base.files import read_json, write_private
from ldapslam.base.inert import parse_json
from ldapslam.studies import server_settings
from ldapslam.studies.runner import journal_in
from ldapslam.studies.study_folder import JOURNAL
from ldapslam.transport.pki.token import parse_token


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


DEEP = "[" * 200_000
NO_OBJECTS = {
    "deep": DEEP.encode(),
    "torn": b'{"folder": "/a", "set',
    "empty": b"",
    "other": b"[]",
    "latin-1": b'{"folder": "\xe9"}',
}


@pytest.mark.parametrize("content", NO_OBJECTS.values(), ids=NO_OBJECTS)
def test_a_file_without_an_object_is_refused_by_its_name(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "note.json"
    path.write_bytes(content)
    for read in (read_json, server_settings._read):
        with pytest.raises(ConfigError, match=r"note\.json' cannot be read"):
            read(path)
    (tmp_path / JOURNAL).write_bytes(content + b"\n")
    with pytest.raises(ConfigError, match=JOURNAL):
        journal_in(tmp_path)


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for name in ("fifo", "."):
        with pytest.raises(ConfigError, match="it is no file"):
            read_json(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "absent")


def test_deep_nesting_is_a_fault_of_the_text() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_json(DEEP)
    assert parse_json("[1.5, NaN]", number=str) == ["1.5", "NaN"]
    text = b64encode(DEEP.encode()).decode()[:6_000]
    with pytest.raises(ConfigError, match="is no join token"):
        parse_token(f"ldapslam-join-1:{text}", "--join")
