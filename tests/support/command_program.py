# SPDX-License-Identifier: Apache-2.0
"""`ldapslam` as command_line.py starts it: a fork of what has imported its modules.

python command_program.py DESCRIPTOR      a fork server, see forks.py
"""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import pkgutil
import sys
import threading
from pathlib import Path
from typing import NoReturn

import ldapslam
from ldapslam.cli.main import run
from ldapslam.cli.measure import local_run
from ldapslam.cli.options import FORMATS

sys.path[0] = str(Path(__file__).parents[1])

from support.forks import serve  # noqa: E402

#: What modules import when they need it, and most commands do.
_LATE = ("matplotlib.backends.backend_svg", "matplotlib.figure", "scipy.stats")
#: Formats with charts take half of the CPU time of a short run; few tests read them.
_DRAWN = ("html", "pdf")


def _import_all() -> None:
    for module in pkgutil.walk_packages(ldapslam.__path__, "ldapslam."):
        importlib.import_module(module.name)
    for name in _LATE:
        importlib.import_module(name)


def _end(status: int) -> NoReturn:
    """As Python does, but without taking apart what was imported: that takes longer
    than most commands."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    _import_all()
    gc.freeze()
    request = serve(int(sys.argv[1]))
    if not request["draws"]:
        vars(local_run)["FORMATS"] = [name for name in FORMATS if name not in _DRAWN]
    if request["is_leader"]:
        os.setsid()
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.path[0] = request["folder"]
    sys.argv[1:] = request["arguments"]
    _end(run())
