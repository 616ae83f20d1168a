# SPDX-License-Identifier: Apache-2.0
"""Our own commands as forks of this process, which has imported what they need."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from ldapslam.base.process import Fork, end_with_parent


def fork_command(arguments: Sequence[str], out: BinaryIO, log: BinaryIO) -> Fork:
    """Start `ldapslam ARGUMENTS…`. In a session of its own: Ctrl-C reaches only this
    process, and the kernel sends SIGTERM when that ends."""
    parent = os.getpid()

    def run() -> int:
        os.setsid()
        end_with_parent(parent, signal.SIGTERM)
        from ldapslam.cli.main import run

        return run(arguments)

    with Path(os.devnull).open("rb") as nothing:
        descriptors = nothing.fileno(), out.fileno(), log.fileno()
        return Fork(run, ["ldapslam", *arguments], descriptors)
