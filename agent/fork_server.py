# SPDX-License-Identifier: Apache-2.0
"""Starts the engine's and the monitor's processes of an agent quickly.

    agent ── fork ── fork server ── fork ── (fork, exits) ── engine process
      └────────────────── its parent, once that has exited ───────┘

An agent has threads, so it must not fork. It forks this server at its start; the server
has one thread, imports what the processes need, and forks when it is asked. A process
that it makes becomes the agent's own child: the agent waits for it and ends with it,
and the end of the server does not touch it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import importlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from io import FileIO

from ldapslam.base.process import Fork, end_with_parent, has_threads

ENGINE = "ldapslam.agent.engine.process"
MONITOR = "ldapslam.agent.monitoring.process"

_PR_SET_CHILD_SUBREAPER = 36
_MAX_MESSAGE_BYTES = 256
_END_TIMEOUT_S = 1.0
#: A fork takes milliseconds; the first one may import.
_ANSWER_TIMEOUT_S = 30.0

Descriptors = tuple[int, int, int]


class ForkServer:
    """The agent's side."""

    def __init__(self) -> None:
        """Fork the server; the process must not have another thread yet."""
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._one_at_a_time = threading.Lock()
        agent = os.getpid()

        def serve() -> int:
            self._control.close()
            end_with_parent(agent)
            return _serve(theirs)

        self._server = Fork(serve, ["ldapslam.agent.fork_server"], (0, 2, 2))
        theirs.close()
        self._control.settimeout(_ANSWER_TIMEOUT_S)

    def close(self) -> None:
        self._control.close()
        self._server.wait(_END_TIMEOUT_S)

    async def launch(self, module: str, log: int) -> ForkedProcess:
        """A process that runs `main` of a module; OSError when the server is gone."""
        starting = asyncio.ensure_future(self._start(module, log))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            # the thread goes on: what it starts is ended as a whole
            await asyncio.wait([starting])
            if starting.exception() is None:
                process = starting.result()
                process.kill()
                process.stdin.close()
                await process.wait()
            raise

    async def _start(self, module: str, log: int) -> ForkedProcess:
        with contextlib.ExitStack() as theirs, contextlib.ExitStack() as ours:
            requests, ours_in = os.pipe()
            theirs.callback(os.close, requests)
            stdin = ours.enter_context(open(ours_in, "wb", 0))
            ours_out, events = os.pipe()
            theirs.callback(os.close, events)
            stdout = ours.enter_context(open(ours_out, "rb", 0))
            pid = await asyncio.to_thread(self._ask, module, (requests, events, log))
            process = await ForkedProcess.of(pid, stdin, stdout)
            ours.pop_all()
        return process

    def _ask(self, module: str, descriptors: Descriptors) -> int:
        libc = ctypes.CDLL(None)
        with self._one_at_a_time:
            # only now: an agent must not inherit other orphans
            libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
            try:
                socket.send_fds(self._control, [module.encode()], descriptors)
                answer = self._control.recv(_MAX_MESSAGE_BYTES)
            except TimeoutError:
                # a late answer would be taken for the next one's
                self._server.send_signal(signal.SIGKILL)
                raise
            finally:
                libc.prctl(_PR_SET_CHILD_SUBREAPER, 0)
        if not answer:
            raise BrokenPipeError("the fork server is gone")
        return int(answer)


@contextlib.contextmanager
def fork_server() -> Iterator[ForkServer | None]:
    """A fork server while an agent serves; None when this process has threads."""
    server = None if has_threads() else ForkServer()
    try:
        yield server
    finally:
        if server is not None:
            server.close()


def _serve(control: socket.socket) -> int:
    """Fork on request until the agent is gone."""
    # the agent decides what a signal to the terminal's process group means
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # as -P: no imports from the current folder
    if not sys.flags.safe_path:
        del sys.path[0]
    importlib.import_module(ENGINE)
    gc.freeze()
    while True:
        request, descriptors, _, _ = socket.recv_fds(control, _MAX_MESSAGE_BYTES, 3)
        if not request:
            return 0
        for one in descriptors:
            os.set_inheritable(one, False)
        importlib.import_module(request.decode())
        requests, events, log = descriptors
        pid = _fork_for_agent(control, request.decode(), (requests, events, log))
        for one in descriptors:
            os.close(one)
        control.send(str(pid).encode())


def _fork_for_agent(
    control: socket.socket, module: str, descriptors: Descriptors
) -> int:
    """The pid of a process whose parent has exited: the agent is its parent now."""
    answer, told = os.pipe()

    def run() -> int:
        control.close()
        os.close(answer)
        os.close(told)
        status: int = importlib.import_module(module).main()
        return status

    def be_parent() -> int:
        child = Fork(run, [module], descriptors)
        os.write(told, str(child.pid).encode())
        return 0

    between = Fork(be_parent, ["ldapslam.agent.fork_server"], (0, 1, 2))
    os.close(told)
    between.wait()
    pid = int(os.read(answer, _MAX_MESSAGE_BYTES))
    os.close(answer)
    return pid


class ForkedProcess:
    """What asyncio.subprocess.Process is for a program that was started."""

    def __init__(
        self, pid: int, stdin: asyncio.StreamWriter, stdout: asyncio.StreamReader
    ) -> None:
        self.pid = pid
        self.stdin = stdin
        self.stdout = stdout
        self.returncode: int | None = None
        self._pidfd = os.pidfd_open(pid)
        self._ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(self._pidfd, self._reap)

    @classmethod
    async def of(cls, pid: int, requests: FileIO, events: FileIO) -> ForkedProcess:
        loop = asyncio.get_running_loop()
        stdout = asyncio.StreamReader()
        await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stdout), events
        )
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), requests
        )
        return cls(pid, asyncio.StreamWriter(transport, protocol, None, loop), stdout)

    def kill(self) -> None:
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)

    async def wait(self) -> int:
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode

    def _reap(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        os.close(self._pidfd)
        _, status = os.waitpid(self.pid, 0)
        self.returncode = os.waitstatus_to_exitcode(status)
        self._ended.set()
