# SPDX-License-Identifier: Apache-2.0
"""Processes of fleet_program.py in milliseconds: forked from one that has imported it.

tests -- starts once -- fork server -- forks -- (forks, exits) -- coordinator, agent
  `--------------------- their parent, once that has exited ----------'
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

_PROGRAM = Path(__file__).with_name("fleet_program.py")
_PR_SET_CHILD_SUBREAPER = 36


class Forked:
    """What fleets use of subprocess.Popen, for a child that a fork server made."""

    def __init__(self, pid: int, stdout: IO[bytes]) -> None:
        self.pid = pid
        self.stdout: IO[bytes] | None = stdout
        self.returncode: int | None = None
        self._pidfd = os.pidfd_open(pid)

    def poll(self) -> int | None:
        return self._wait(0.0)

    def wait(self, timeout: float | None = None) -> int:
        status = self._wait(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(str(_PROGRAM), timeout or 0.0)
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _wait(self, timeout_s: float | None) -> int | None:
        if (
            self.returncode is None
            and select.select([self._pidfd], [], [], timeout_s)[0]
        ):
            _, status = os.waitpid(self.pid, 0)
            self.returncode = os.waitstatus_to_exitcode(status)
            os.close(self._pidfd)
        return self.returncode


def start(options: dict[str, Any], log: int) -> Forked:
    """A process of fleet_program.py with a pipe as its stdout, `log` as its stderr."""
    ours, theirs = os.pipe()
    libc = ctypes.CDLL(None)
    control = _server()
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
    try:
        socket.send_fds(control, [json.dumps(options).encode()], [theirs, log])
        pid = int(control.recv(64))
    finally:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 0)
        os.close(theirs)
    return Forked(pid, open(ours, "rb"))


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name[:6] != "PYTEST"}


#: The fork server's, and that of all that it makes.
_ENVIRONMENT = _environment()


def has_our_environment() -> bool:
    """Whether no test has changed the environment that the fork server has."""
    return _environment() == _ENVIRONMENT


@functools.cache
def _server() -> socket.socket:
    """The fork server's control connection; it ends when that is closed."""
    control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-W", "error", str(_PROGRAM), str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            # numpy's BLAS starts threads, and what has threads must not fork
            env={**_ENVIRONMENT, "OPENBLAS_NUM_THREADS": "1"},
        )
    atexit.register(process.wait)
    atexit.register(control.close)
    return control
