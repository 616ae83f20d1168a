# SPDX-License-Identifier: Apache-2.0
"""`report --open`: the HTML report of a run, in the browser."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path

from ldapslam.cli.console import put_result, say
from ldapslam.cli.options import RUNS_FOLDER
from ldapslam.cli.outcome import report
from ldapslam.cli.runs import Place, store_of

#: What `run`, `study`, `capacity`, `gate` and `history` write into their folders.
_PAGES = ("report.html", "study.html", "capacity.html", "gate.html", "history.html")
_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")


def open_report(run_id: str, place: Place) -> None:
    """Open the page of a run or of a folder with many; print its path.

    Print the path alone where there is no display, as over ssh.
    """
    page = _written(Path(run_id)) or _made(run_id, place)
    put_result({"file": str(page)}, [str(page)])
    if not _has_display():
        say("there is no display here: open this file where there is a browser")
    elif not webbrowser.open(page.resolve().as_uri()):
        say("no browser was found: open this file in one, or set BROWSER")


def _written(folder: Path) -> Path | None:
    return next((folder / name for name in _PAGES if (folder / name).is_file()), None)


def _made(run: str, place: Place) -> Path:
    with store_of(run, place) as (results, run_id, folder):
        if folder is not None and (page := _written(folder)):
            return page
        # of a coordinator's run a page may be there that was made while it ran
        where = folder or RUNS_FOLDER / run_id
        _, [made] = report(results, run_id, out=where, formats=("html",))
    return made


def _has_display() -> bool:
    """Whether a browser can show itself to the user."""
    if os.environ.get("BROWSER"):
        return True
    if os.environ.get("SSH_CONNECTION"):
        return False
    return sys.platform == "darwin" or any(map(os.environ.get, _DISPLAYS))
