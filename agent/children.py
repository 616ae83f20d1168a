# SPDX-License-Identifier: Apache-2.0
"""The agent's side of its child processes: launch, talk, listen, end.

A process has pipes for stdin and stdout and a log file for stderr. It is always reaped,
and its folder removed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

from google.protobuf.message import Message

from ldapslam.agent.assignment import store_files
from ldapslam.agent.fork_server import ENGINE, MONITOR, ForkedProcess, ForkServer
from ldapslam.agent.lease import Lease
from ldapslam.base.child import command_of
from ldapslam.base.errors import EngineError
from ldapslam.base.files import private
from ldapslam.proto import engine_pb2 as pb
from ldapslam.proto.common_pb2 import RunAssignment
from ldapslam.proto.monitor_pb2 import MonitorEvent, MonitorRequest
from ldapslam.transport.messages import encode_frame, read_frame_async

_log = logging.getLogger(__name__)

#: Logs of child processes that an agent keeps.
_MOST_LOGS = 200


R = TypeVar("R", pb.EngineRequest, MonitorRequest)
E = TypeVar("E", pb.EngineEvent, MonitorEvent)


class _Child(Generic[R, E]):
    """One process. Iterate over `events` to the end."""

    _module: ClassVar[str]
    _request_type: type[R]
    _event_type: type[E]

    _process: asyncio.subprocess.Process | ForkedProcess

    def __init__(self, folder: Path) -> None:
        """Make what the process is to find in its folder; OSError."""
        self._folder = folder

    @classmethod
    async def launch(
        cls,
        run: RunAssignment,
        prepare: Message,
        *,
        work: Path,
        log_path: Path,
        forks: ForkServer | None = None,
        command: Sequence[str] | None = None,
    ) -> Self:
        """Start the process and give it the run and `prepare`. The run's files move
        below `work`. `command` replaces our own program."""
        work.mkdir(parents=True, exist_ok=True, mode=0o700)
        log_path.parent.mkdir(parents=True, exist_ok=True)
        _remove_old_logs(log_path.parent)
        folder = Path(tempfile.mkdtemp(prefix="run-", dir=work))
        storing = asyncio.ensure_future(asyncio.to_thread(store_files, run, folder))
        try:
            await asyncio.shield(storing)
            child = cls(folder)
            with open(log_path, "ab", opener=private) as log:
                child._process = await cls._new_process(log.fileno(), forks, command)
        except BaseException as error:
            # the thread goes on after a cancellation
            await asyncio.wait([storing])
            shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, OSError):
                raise EngineError(f"the process did not start: {error}") from error
            raise
        request: Any = cls._request_type()
        request.prepare.CopyFrom(prepare)
        request.prepare.run.CopyFrom(run)
        request.prepare.files_folder = str(folder)
        try:
            await child.send(request)
        except BaseException:
            child.kill()
            await child.wait()
            raise
        return child

    @classmethod
    async def _new_process(
        cls, log: int, forks: ForkServer | None, command: Sequence[str] | None
    ) -> asyncio.subprocess.Process | ForkedProcess:
        if forks is not None and command is None:
            try:
                return await forks.launch(cls._module, log)
            except OSError as error:
                _log.warning("%s: a new program is started", error)
        return await asyncio.create_subprocess_exec(
            *(command or command_of(cls._module)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    async def send(self, request: Message) -> None:
        """A process that is gone does not read; its end is reported by `events`."""
        stdin = self._process.stdin
        if stdin is None:
            return
        with contextlib.suppress(ConnectionError):
            stdin.write(encode_frame(request))
            await stdin.drain()

    async def events(self) -> AsyncIterator[E]:
        """The process's messages until it ends; a malformed one is a ProtocolError."""
        stdout = self._process.stdout
        if stdout is None:
            return
        while event := await read_frame_async(stdout, self._event_type):
            yield event

    def kill(self) -> None:
        """End the process without its doing; `wait` still has to be called."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def wait(self) -> str:
        """Reap the process and remove its folder; its end in words."""
        try:
            status = await self._process.wait()
        finally:
            if self._process.stdin is not None:
                self._process.stdin.close()
            shutil.rmtree(self._folder, ignore_errors=True)
        if status < 0:
            return f"killed by {signal.Signals(-status).name}"
        return f"exit status {status}"


class EngineChild(_Child[pb.EngineRequest, pb.EngineEvent]):
    _module = ENGINE
    _request_type = pb.EngineRequest
    _event_type = pb.EngineEvent

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.lease = Lease(folder)


class MonitorChild(_Child[MonitorRequest, MonitorEvent]):
    _module = MONITOR
    _request_type = MonitorRequest
    _event_type = MonitorEvent


def _remove_old_logs(folder: Path) -> None:
    logs = [*folder.glob("engine-*.log"), *folder.glob("monitor-*.log")]
    logs.sort(key=lambda path: path.stat().st_mtime)
    for path in logs[:-_MOST_LOGS]:
        path.unlink(missing_ok=True)
