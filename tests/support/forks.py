# SPDX-License-Identifier: Apache-2.0
"""Processes in milliseconds: forked from one that has imported what they need.

tests ── start once ── fork server ── forks ── command, coordinator, agent
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

_MAX_MESSAGE_BYTES = 1 << 17
#: What a process reads while it starts, and a fork has read already.
_READ_AT_START = ("HOME", "LANG", "LC_", "LD_", "MALLOC_", "PYTHON", "TZ")


class Forked:
    """What the tests use of subprocess.Popen, for a child of a fork server."""

    def __init__(self, forks: Forks, pid: int, stdout: IO[bytes] | None) -> None:
        self.pid = pid
        self.stdout = stdout
        self.returncode: int | None = None
        self._forks = forks
        self._pidfd = os.pidfd_open(pid)
        # several threads may wait, and one of them is told the status
        self._telling = threading.Lock()
        weakref.finalize(self, os.close, self._pidfd)

    def poll(self) -> int | None:
        return self._wait(0.0)

    def wait(self, timeout: float | None = None) -> int:
        status = self._wait(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(str(self._forks), timeout or 0.0)
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _wait(self, timeout_s: float | None) -> int | None:
        if (
            self.returncode is None
            and select.select([self._pidfd], [], [], timeout_s)[0]
        ):
            with self._telling:
                if self.returncode is None:
                    self.returncode = self._forks.status_of(self.pid)
        return self.returncode


class Forks:
    """A fork server: a program that calls `serve`. It starts with the first process,
    and ends with the tests. Its environment is that of now, and `variables`."""

    def __init__(self, program: Path, *options: str, **variables: str) -> None:
        self._command = (sys.executable, *options, str(program))
        self._environment = {**_inherited(), **variables}
        self._control: socket.socket | None = None
        self._one_at_a_time = threading.Lock()

    def __str__(self) -> str:
        return " ".join(self._command)

    def can_start(self, environment: Mapping[str, str] | None = None) -> bool:
        """Whether a process with this environment, or that of now, starts as a fork
        would go on."""
        wanted = _inherited() if environment is None else environment
        return _read_at_start(wanted) == _read_at_start(self._environment)

    def start(
        self, request: Mapping[str, Any], stdout: int | None, stderr: int
    ) -> Forked:
        """A process that `serve` returns the request in; None is a pipe."""
        ours, theirs = os.pipe() if stdout is None else (None, stdout)
        text = json.dumps(request).encode()
        try:
            pid = int(self._ask(text, [theirs, stderr]))
        finally:
            if ours is not None:
                os.close(theirs)
        return Forked(self, pid, None if ours is None else open(ours, "rb"))

    def status_of(self, pid: int) -> int:
        """Of a process that has ended."""
        return int(self._ask(str(pid).encode(), []))

    def _ask(self, message: bytes, descriptors: Sequence[int]) -> bytes:
        with self._one_at_a_time:
            if self._control is None:
                self._control = self._started()
            socket.send_fds(self._control, [message], descriptors)
            answer = self._control.recv(64)
        assert answer, f"the fork server has ended: {self}"
        return answer

    def _started(self) -> socket.socket:
        control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            process = subprocess.Popen(
                [*self._command, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                # numpy's BLAS starts threads, and what has threads must not fork
                env={**self._environment, "OPENBLAS_NUM_THREADS": "1"},
            )
        atexit.register(process.wait)
        atexit.register(control.close)
        return control


def _inherited() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name[:6] != "PYTEST"}


def _read_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(_READ_AT_START)
    }


def serve(descriptor: int) -> Any:
    """Be the fork server until the tests end; return in each fork, with what is asked
    of it."""
    with socket.socket(fileno=descriptor) as control:
        control.set_inheritable(False)
        while True:
            message, descriptors, _, _ = socket.recv_fds(control, _MAX_MESSAGE_BYTES, 2)
            if not message:
                sys.exit()
            request = json.loads(message)
            if not descriptors:
                _, status = os.waitpid(request, 0)
                control.send(str(os.waitstatus_to_exitcode(status)).encode())
                continue
            pid = os.fork()
            for place, one in enumerate(descriptors, 1):
                if not pid:
                    os.dup2(one, place)
                os.close(one)
            if not pid:
                return request
            control.send(str(pid).encode())
