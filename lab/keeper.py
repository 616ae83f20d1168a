# SPDX-License-Identifier: Apache-2.0
"""The client of the keeper process: starts and stops a lab's servers through it.

The keeper owns the folder and the servers (keeper_process.py), so closing the pipe to
it, by `close()` or by the end of this process, leaves nothing behind. After `detach()`
it stays, and answers `ask_detached()` of any process of its user. For one thread.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ldapslam.lab.server import LabError

# Longer than the keeper takes to kill servers that do not end by themselves.
_END_TIMEOUT_S = 30.0
_ASK_TIMEOUT_S = 10.0


class Keeper:
    """One keeper process, its folder and the servers started through it."""

    def __init__(
        self, base: Path | None = None, cpus: frozenset[int] | None = None
    ) -> None:
        """Start the keeper; its folder is made below `base`, else below TMPDIR. What it
        starts runs on `cpus`, else on those of this process."""
        script = Path(__file__).with_name("keeper_process.py")
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(script), str(os.getpid()), str(base or "")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        if cpus is not None:
            os.sched_setaffinity(self._process.pid, cpus)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._replies = self._process.stdin, self._process.stdout
        #: Removed, with all that is in it, when the keeper ends.
        self.folder = Path(self._receive()["folder"])

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self, name: str, argv: Sequence[str], log: Path, nofile: int) -> int:
        """Start a program in the background; its pid is valid until its status was
        read."""
        reply = self._ask(
            do="start", name=name, argv=list(argv), log=str(log), nofile=nofile
        )
        return int(reply["pid"])

    def status(self, name: str) -> int | None:
        """The exit status of a program that has ended, or None while it runs."""
        status = self._ask(do="status", name=name)["status"]
        return None if status is None else int(status)

    def wait(self, name: str, pid: int, timeout_s: float) -> int | None:
        """Wait for the end of a program; None when it still runs after `timeout_s`."""
        try:
            pid_fd = os.pidfd_open(pid)
        except ProcessLookupError:  # ended, and its status asked for before
            return self.status(name)
        try:
            select.select([pid_fd], [], [], timeout_s)
        finally:
            os.close(pid_fd)
        return self.status(name)

    def stop(self, name: str, grace_s: float = 5.0) -> int:
        """Terminate a program, kill it after `grace_s`; its exit status."""
        return int(self._ask(do="stop", name=name, grace_s=grace_s)["status"])

    def detach(self, state_file: Path) -> None:
        """Leave folder and servers to the keeper, which removes `state_file` (a JSON
        document with the key `folder`) at its end."""
        self._ask(do="detach", name="keeper", state_file=str(state_file))
        # Popen would complain of a child that is not waited for.
        self._process.returncode = 0
        self._requests.close()
        self._replies.close()

    def close(self) -> None:
        """End all servers and remove the folder; returns when that is done."""
        with contextlib.suppress(BrokenPipeError):
            self._requests.close()
        try:
            self._process.wait(_END_TIMEOUT_S)
        finally:
            self._replies.close()
        # Only a keeper that was killed has left it.
        shutil.rmtree(self.folder, ignore_errors=True)

    def _ask(self, **request: Any) -> dict[str, Any]:
        try:
            self._requests.write(json.dumps(request).encode() + b"\n")
            self._requests.flush()
        except (BrokenPipeError, ValueError) as error:
            raise self._gone() from error
        return self._receive()

    def _receive(self) -> dict[str, Any]:
        line = self._replies.readline()
        if not line:
            raise self._gone()
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise LabError(f"the lab's keeper could not do it: {reply['error']}")
        return reply

    def _gone(self) -> LabError:
        return LabError(
            "the lab's keeper process has ended, and its servers with it",
            hint="was it killed? Is there room in the folder for temporary files?",
        )


def ask_detached(folder: Path, **request: Any) -> dict[str, Any]:
    """The reply of the detached keeper of the lab in `folder`; ConnectionError,
    FileNotFoundError."""
    with socket.socket(socket.AF_UNIX) as stream:
        stream.settimeout(_ASK_TIMEOUT_S)
        stream.connect(str(folder / "keeper"))
        stream.sendall(json.dumps(request).encode() + b"\n")
        with stream.makefile("rb") as lines:
            reply: dict[str, Any] = json.loads(lines.readline() or b"{}")
    return reply
