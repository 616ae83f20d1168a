# SPDX-License-Identifier: Apache-2.0
"""A child's wish to end with its parent, however that ends: PR_SET_PDEATHSIG.

The child asks for it itself, which needs no code between fork and exec in the parent.
The signal follows the parent's *thread*, so the parent must start such children in a
thread that lives as long as they should: its main thread.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

import click

_PR_SET_PDEATHSIG = 1


def lifeline_arguments() -> list[str]:
    """What to add to the command line of a child."""
    return ["--lifeline", str(os.getpid())]


def end_with_parent() -> None:
    """Ask to be killed when the thread that started us ends; nothing else is lost."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _hold(_: click.Context, __: click.Parameter, parent: int | None) -> None:
    if parent is None:
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it had ended before we asked
        sys.exit(0)


#: For the commands that local_fleet.py starts.
lifeline_option = click.option(
    "--lifeline",
    metavar="PID",
    type=int,
    hidden=True,
    expose_value=False,
    callback=_hold,
)
