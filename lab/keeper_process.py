# SPDX-License-Identifier: Apache-2.0
"""The process that owns a lab's folder and servers, and removes both at its end.

It runs as a script of its own (standard library only, so that it starts in
milliseconds) and is the parent of every slapd of one lab. Its end comes when its
standard input reaches end of file or when the process that started it is gone, by
whatever signal: then it terminates the servers and removes the folder. Should the
keeper itself be killed, the kernel kills its servers (PR_SET_PDEATHSIG).

Requests and replies are one JSON object per line, one reply per request:

    {"do": "start", "name", "argv", "log", "nofile"}   -> {"pid"}
    {"do": "status", "name"}                           -> {"status": code or null}
    {"do": "stop", "name", "grace_s"}                  -> {"status": code}

A failed request is answered {"error": text}. The first line out, before any request,
is {"folder": path}. A child is reaped only by `status`, `stop` or the end, so that a
pid handed out stays valid until its status was asked.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1
_END_GRACE_S = 5.0

_libc = ctypes.CDLL(None, use_errno=True)


class Children:
    """The servers of this lab by name; each name runs at most once at a time."""

    def __init__(self) -> None:
        self._by_name: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, argv: list[str], log: str, nofile: int) -> int:
        running = self._by_name.get(name)
        if running is not None and running.poll() is None:
            raise RuntimeError(f"{name!r} runs already, pid {running.pid}")

        def in_child() -> None:
            # The keeper has one thread, so running Python between fork and exec is
            # safe, and PDEATHSIG (which follows the parent *thread*) means the keeper.
            _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
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
        for process in self._by_name.values():
            _wait_or_kill(process, _END_GRACE_S)


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


def requests(parent_fd: int) -> Iterator[dict[str, Any]]:
    """Requests on standard input, until its end or the end of the parent."""
    pending = b""
    while True:
        readable, _, _ = select.select([0, parent_fd], [], [])
        if parent_fd in readable:
            return
        received = os.read(0, 65536)
        if not received:
            return
        *lines, pending = (pending + received).split(b"\n")
        for line in lines:
            yield json.loads(line)


def reply(message: dict[str, Any]) -> None:
    os.write(1, json.dumps(message).encode() + b"\n")


def answer(children: Children, request: dict[str, Any]) -> dict[str, Any]:
    name = request["name"]
    try:
        match request["do"]:
            case "start":
                argv, log, nofile = request["argv"], request["log"], request["nofile"]
                return {"pid": children.start(name, argv, log, nofile)}
            case "status":
                return {"status": children.status(name)}
            case "stop":
                return {"status": children.stop(name, request["grace_s"])}
            case unknown:
                return {"error": f"unknown request {unknown!r}"}
    except (OSError, RuntimeError, KeyError, subprocess.SubprocessError) as error:
        return {"error": f"{name}: {error}"}


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

    children = Children()
    folder = tempfile.mkdtemp(prefix="ldapslam-lab-", dir=base)
    try:
        # The parent may be gone at any point: a closed pipe is a normal end.
        with contextlib.suppress(BrokenPipeError):
            reply({"folder": folder})
            for request in requests(parent_fd):
                reply(answer(children, request))
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        children.stop_all()
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
