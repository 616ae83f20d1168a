# SPDX-License-Identifier: Apache-2.0
"""Places that an operator's program prepares: given back however their user ends."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from ldapslam.base.errors import ConfigError
from ldapslam.dataset.offline import ImportStopped
from ldapslam.lab.bulk_load.place import prepared_place

_LIMIT_MS = 30_000

HOOK = """\
#!/bin/sh
echo "$@" >>FOLDER/log
case $1 in
prepare) PREPARE ;;
release) echo released >FOLDER/fifo; RELEASE ;;
esac
"""
USER = """\
import os, sys
from ldapslam.lab.bulk_load.place import prepared_place
with prepared_place([sys.argv[1], "xfs"], lambda: False) as place:
    os.kill(os.getpid(), 9)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    subprocess.run(["mkfifo", tmp_path / "fifo"], check=True)
    (tmp_path / "place").mkdir()
    return tmp_path


def hook(folder: Path, prepare: str = "echo FOLDER/place", release: str = ":") -> str:
    path = folder / "hook"
    text = HOOK.replace("PREPARE", prepare).replace("RELEASE", release)
    # of a pipe, so that a reader knows when it was released
    path.write_text(text.replace("FOLDER", str(folder)))
    path.chmod(0o755)
    return str(path)


def released(folder: Path) -> str:
    descriptor = os.open(folder / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        assert poll.poll(_LIMIT_MS), "the place was not released"
        return os.read(descriptor, 4096).decode()
    finally:
        os.close(descriptor)


def log(folder: Path) -> list[str]:
    return (folder / "log").read_text().splitlines()


def test_a_place_is_given_back_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    with prepared_place([hook(tmp_path), "xfs"], lambda: False) as place:
        assert place == tmp_path / "place"
        assert log(tmp_path) == ["prepare xfs"]
    assert log(tmp_path) == ["prepare xfs", f"release xfs {place}"]
    assert (tmp_path / "fifo").read_text() == "released\n"


def test_a_place_is_given_back_when_its_user_is_killed(folder: Path) -> None:
    done = subprocess.run([sys.executable, "-c", USER, hook(folder)])
    assert done.returncode == -9
    assert released(folder) == "released\n"


def test_a_place_is_given_back_that_came_too_late(folder: Path) -> None:
    subprocess.run(["mkfifo", folder / "go"], check=True)
    slow = hook(folder, prepare="read word <FOLDER/go; echo FOLDER/place")
    with pytest.raises(ImportStopped), prepared_place([slow], lambda: True):
        pytest.fail("there was a place")
    (folder / "go").write_text("go\n")
    assert released(folder) == "released\n"
    assert log(folder) == ["prepare", f"release {folder / 'place'}"]


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        ("echo broken >&2; exit 3", "ended with 3 when it was to prepare .*broken"),
        ("true", "its last line is no folder: ''"),
        ("echo FOLDER/place; echo done", "its last line is no folder: 'done'"),
    ],
)
def test_a_place_that_there_is_not(prepare: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=reason):
        with prepared_place([hook(tmp_path, prepare)], lambda: False):
            pytest.fail("there was a place")
    with pytest.raises(ConfigError, match="could not prepare a place"):
        with prepared_place([str(tmp_path / "none")], lambda: False):
            pytest.fail("there was a place")


def test_what_a_program_leaves_running_holds_nothing_up(folder: Path) -> None:
    mount = hook(folder, prepare="sleep 60 & echo $! >FOLDER/pid; echo FOLDER/place")
    with prepared_place([mount], lambda: False) as place:
        assert place == folder / "place"
        (folder / "fifo").unlink()
    assert log(folder)[-1] == f"release {place}"
    left = int((folder / "pid").read_text())
    status = Path(f"/proc/{left}/status").read_text()
    os.kill(left, signal.SIGTERM)
    # nothing that is ignored by whoever waits for the place
    ignored = int(re.findall(r"^SigIgn:\s+(\w+)$", status, re.M)[0], 16)
    assert ignored & 1 << (signal.SIGTERM - 1) == 0


def test_the_end_of_who_was_to_give_it_back_is_told(folder: Path) -> None:
    told = hook(folder, prepare="echo $PPID >FOLDER/pid; echo FOLDER/place")
    with ExitStack() as stack:
        stack.enter_context(prepared_place([told], lambda: False))
        os.kill(int((folder / "pid").read_text()), signal.SIGKILL)
        with pytest.raises(ConfigError, match="was killed: the place may be left"):
            stack.close()


def test_what_failed_first_is_told(folder: Path) -> None:
    failing = hook(folder, release="exit 4")
    with pytest.raises(RuntimeError, match="first"):
        with prepared_place([failing], lambda: False):
            raise RuntimeError("first")
    assert released(folder) == "released\n"
    (folder / "fifo").unlink()
    with pytest.raises(ConfigError, match="ended with 4 when it was to release"):
        with prepared_place([failing], lambda: False):
            pass
