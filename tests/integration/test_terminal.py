# SPDX-License-Identifier: Apache-2.0
"""`ldapslam run` on a terminal: the live view, and what is left of it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
from pathlib import Path

import pytest

from support.command_line import COMMAND, environment
from support.fake_ldap import FakeLdap, Peer, Request, answer, result

BLOCKS = set("▁▂▃▄▅▆▇█")
#: Select Graphic Rendition with a colour.
COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-7]m")

COMPARE_REQUEST, BUSY = 0x6E, 51


def busy_to_compare(peer: Peer, request: Request) -> bool:
    if request.tag == COMPARE_REQUEST:
        return peer.send(result(request, BUSY))
    return answer(peer, request)


def screen_of(folder: Path, **variables: str) -> str:
    """What a run of a second writes to a terminal of 100 columns."""
    with FakeLdap(busy_to_compare) as server:
        job = {
            "name": "seen",
            "targets": {"directory": server.uri},
            "run": {"duration": "1s", "interval": "250ms"},
            "streams": [
                {
                    "name": "readers",
                    "target": "directory",
                    "load": {"clients": 1, "think_time": "5ms"},
                    "operations": [{"search": {"base": "", "scope": "base"}}],
                },
                {
                    "name": "failing",
                    "target": "directory",
                    "load": {"clients": 1, "think_time": "50ms"},
                    "operations": [
                        {"compare": {"dn": "cn=a", "attribute": "cn", "value": "a"}}
                    ],
                },
            ],
        }
        (folder / "job.yaml").write_text(json.dumps(job))
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        process = subprocess.Popen(
            [*COMMAND, "run", "job.yaml", "--out", "o"],
            cwd=folder,
            env=environment({"TERM": "xterm-256color", **variables}),
            stdin=theirs,
            stdout=subprocess.DEVNULL,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        written = bytearray()
        with contextlib.suppress(OSError):  # EIO: the other end is closed
            while piece := os.read(ours, 65536):
                written += piece
        os.close(ours)
        process.wait()
    return written.decode()


def test_a_run_is_a_live_table_with_curves(tmp_path: Path) -> None:
    screen = screen_of(tmp_path)
    rows = re.findall(r"readers search.*", screen)
    assert rows, screen
    drawn = [set(row) & BLOCKS for row in rows]
    assert any(drawn), rows
    assert COLOUR.search(screen) is not None  # of errors
    # the table goes, the news and the files stay
    assert screen.count("\x1b[?25l") == screen.count("\x1b[?25h") == 1
    left = screen.rpartition("\x1b[?25h")[2]
    assert "o/report.html" in left
    assert not BLOCKS & set(left)


@pytest.mark.long
@pytest.mark.parametrize(
    ("variables", "is_live"),
    [({"PYTHONIOENCODING": "ascii", "NO_COLOR": "1"}, True), ({"TERM": "dumb"}, False)],
    ids=["ascii", "dumb"],
)
def test_a_poorer_terminal_gets_what_it_can_show(
    tmp_path: Path, variables: dict[str, str], is_live: bool
) -> None:
    screen = screen_of(tmp_path, **variables)
    assert not BLOCKS & set(screen)
    assert COLOUR.search(screen) is None
    assert ("readers search" in screen) is is_live
    assert (
        bool(re.search(r" measure +readers [\d,]+ requests/s p50", screen))
        is not is_live
    )
    assert ("\x1b[?25l" in screen) is is_live
