# SPDX-License-Identifier: Apache-2.0
"""The process that owns a lab's folder and servers, and removes both at its end.

It runs as a script of its own (with few imports it starts in milliseconds) and is the
parent of every server of one lab. When its standard input ends, or the process that
started it, it terminates the servers and removes the folder. If the keeper itself is
killed, the kernel kills its servers (PR_SET_PDEATHSIG).

    started ── end of input, parent gone ──────────────────────────> ended
       └── detach ──> detached: asked by the socket `keeper` ── end ────┘

A detached keeper outlives its parent. A second process waits for it, and removes the
folder and the lab's state file if the keeper is killed.

Requests and replies are one JSON object per line, one reply per request; a connection
to the socket carries one request:

    {"do": "start", "name", "argv", "log", "nofile"}   -> {"pid"}
    {"do": "status", "name"}                           -> {"status": code or null}
    {"do": "stop", "name", "grace_s"}                  -> {"status": code}
    {"do": "detach", "name", "state_file"}             -> {}
    {"do": "end", "name"}                              -> {}, then the end

A failed request is answered {"error": text}. The first line out is {"folder": path}.
Only `status`, `stop` and the end reap a child: until then its pid stays valid.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ldapslam.base.process import end_with_parent

_END_GRACE_S = 5.0
_CALLER_TIMEOUT_S = 5.0


class Children:
    """The servers of this lab by name; each name runs at most once at a time."""

    def __init__(self) -> None:
        self._by_name: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, argv: list[str], log: str, nofile: int) -> int:
        running = self._by_name.get(name)
        if running is not None and running.poll() is None:
            raise RuntimeError(f"{name!r} runs already, pid {running.pid}")

        keeper = os.getpid()

        def in_child() -> None:
            # The keeper has one thread: Python between fork and exec is safe.
            end_with_parent(keeper)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            soft = nofile if hard == resource.RLIM_INFINITY else min(nofile, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

        with Path(log).open("ab") as output:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # No ldap.conf or ~/.ldaprc of this machine may reach a lab's slapd.
                env={**os.environ, "LDAPNOINIT": "1"},
                start_new_session=True,
                preexec_fn=in_child,
            )
        self._by_name[name] = process
        return process.pid

    def status(self, name: str) -> int | None:
        return self._by_name[name].poll()

    def stop(self, name: str, grace_s: float) -> int:
        process = self._by_name[name]
        _ask_to_end(process)
        return _wait_or_kill(process, grace_s)

    def stop_all(self) -> None:
        for process in self._by_name.values():
            _ask_to_end(process)
        deadline_s = time.monotonic() + _END_GRACE_S
        for process in self._by_name.values():
            _wait_or_kill(process, max(deadline_s - time.monotonic(), 0))


def _ask_to_end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        # A server that a test has stopped would never see the SIGTERM.
        process.send_signal(signal.SIGCONT)


def _wait_or_kill(process: subprocess.Popen[bytes], grace_s: float) -> int:
    try:
        return process.wait(grace_s)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


class Keeper:
    """Answers requests until its end; which of them end it, `serve` has."""

    def __init__(self, folder: Path, parent_fd: int) -> None:
        self.children = Children()
        self.folder = folder
        #: The state file of a detached lab, removed with the folder.
        self.state_file: Path | None = None
        self._parent_fd = parent_fd
        self._is_ended = False

    def serve(self) -> None:
        """Answer the parent; once detached, clients of the socket."""
        # The parent may be gone at any point: a closed pipe is a normal end.
        with contextlib.suppress(BrokenPipeError):
            for request in self._of_parent():
                reply = self._answer(request)
                os.write(1, _line(reply))
                if self.state_file is not None:
                    break
        if self.state_file is not None:
            self._serve_socket()

    def remove(self) -> None:
        """End the servers; remove folder and state file."""
        self.children.stop_all()
        _remove(self.folder, self.state_file)

    def _of_parent(self) -> Iterator[dict[str, Any]]:
        """Requests on standard input, until its end or the end of the parent."""
        pending = b""
        while True:
            readable, _, _ = select.select([0, self._parent_fd], [], [])
            if self._parent_fd in readable:
                return
            received = os.read(0, 65536)
            if not received:
                return
            *lines, pending = (pending + received).split(b"\n")
            for line in lines:
                yield json.loads(line)

    def _serve_socket(self) -> None:
        # Nothing of the parent's terminal, pipes or folders is held any longer.
        os.close(self._parent_fd)
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        os.close(null)
        os.chdir("/")
        while not self._is_ended:
            caller, _ = self._socket.accept()
            caller.settimeout(_CALLER_TIMEOUT_S)
            with caller, contextlib.suppress(OSError, ValueError):
                with caller.makefile("rb") as lines:
                    request = json.loads(lines.readline())
                caller.sendall(_line(self._answer(request)))

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        name = request.get("name", "")
        try:
            match request["do"]:
                case "start":
                    argv, log = request["argv"], request["log"]
                    pid = self.children.start(name, argv, log, request["nofile"])
                    return {"pid": pid}
                case "status":
                    return {"status": self.children.status(name)}
                case "stop":
                    return {"status": self.children.stop(name, request["grace_s"])}
                case "detach":
                    self._detach(Path(request["state_file"]))
                    return {}
                case "end":
                    self._is_ended = True
                    return {}
                case unknown:
                    return {"error": f"unknown request {unknown!r}"}
        except (OSError, RuntimeError, KeyError, subprocess.SubprocessError) as error:
            return {"error": f"{name}: {error}"}

    def _detach(self, state_file: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(self.folder / "keeper"))
        self._socket.listen()
        _watch_over(self.folder, state_file)
        self.state_file = state_file


def _watch_over(folder: Path, state_file: Path) -> None:
    """Fork the process that removes both once this one is gone, killed or not."""
    keeper_fd = os.pidfd_open(os.getpid())
    if os.fork():
        os.close(keeper_fd)
        return
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(null, descriptor)
    os.closerange(3, keeper_fd)
    os.closerange(keeper_fd + 1, 4096)
    os.chdir("/")
    select.select([keeper_fd], [], [])
    # The kernel is killing the servers, which may write until they are gone.
    deadline_s = time.monotonic() + _END_GRACE_S
    while folder.exists() and time.monotonic() < deadline_s:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.05)
    _remove(folder, state_file)
    os._exit(0)


def _remove(folder: Path, state_file: Path | None) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    # Semaphores of servers that were killed: their names have the folder's.
    for left in Path("/dev/shm").glob(f"*{folder.name}*"):
        left.unlink(missing_ok=True)
    if state_file is None:
        return
    # Another lab may have taken the name in the meantime.
    with contextlib.suppress(OSError, ValueError, KeyError):
        if json.loads(state_file.read_text())["folder"] == str(folder):
            state_file.unlink()


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"


def main() -> int:
    parent_pid, base = int(sys.argv[1]), sys.argv[2] or None
    try:
        parent_fd = os.pidfd_open(parent_pid)
    except ProcessLookupError:
        return 0
    if os.getppid() != parent_pid:  # it died before, and the pid was taken again
        return 0
    # Ctrl-C reaches the whole foreground group; it is the parent's to act upon.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))

    folder = Path(tempfile.mkdtemp(prefix="ldapslam-lab-", dir=base))
    keeper = Keeper(folder, parent_fd)
    try:
        with contextlib.suppress(BrokenPipeError):
            os.write(1, _line({"folder": str(folder)}))
            keeper.serve()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        keeper.remove()
    return 0


if __name__ == "__main__":
    sys.exit(main())
