# SPDX-License-Identifier: Apache-2.0
"""Runs the operator's command when a run has ended: `--on-run-end`.

The command is started without a shell and reads the run as JSON on stdin. It is started
once for each verdict; when it fails, the log and an event of the run say why, and it is
not tried again.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from ldapslam.base.errors import ConfigError, StoreError
from ldapslam.base.inert import one_line
from ldapslam.base.log_format import without_passwords
from ldapslam.coordinator.bounds import Bound, note_exceeded
from ldapslam.coordinator.control import Coordinator
from ldapslam.coordinator.extension import Extension
from ldapslam.coordinator.observer import JudgedRun, KeyFigures
from ldapslam.coordinator.security.guard import Server
from ldapslam.coordinator.store_writer import StoreWriter
from ldapslam.results.records import RunRecord, utc_text
from ldapslam.results.store import Store

_log = logging.getLogger(__name__)

LIMIT_S = 60.0
#: For commands that are running when the coordinator stops.
STOP_GRACE_S = 5.0
#: Commands at a time, and ended runs that wait for theirs.
MOST_RUNNING = 2
MOST_WAITING = 500
#: The command is not started for a run that ended earlier.
_NEWS_FOR = timedelta(hours=1)
_MAX_REASONS = 20
#: Characters of the command's output that an event quotes: the last ones.
_MAX_OUTPUT = 300
#: For the end of a process that was killed.
_KILL_WAIT_S = 1.0
#: A run as the command reads it.
Document = Mapping[str, object]
_DONE, _FAILED = "on_run_end", "on_run_end_failed"


class RunEndCommand(Extension):
    def __init__(self, command: Sequence[str], *, limit_s: float = LIMIT_S) -> None:
        """`command`: a program and its arguments."""
        self._command = tuple(command)
        self._limit_s = limit_s
        self._writer: StoreWriter | None = None
        self._has_started = asyncio.Event()
        self._running = asyncio.Semaphore(MOST_RUNNING)
        self._tasks: set[asyncio.Task[None]] = set()

    async def check(self) -> None:
        if shutil.which(self._command[0]) is None:
            raise ConfigError(
                f"--on-run-end: there is no program {self._command[0]!r}",
                hint="give the program's path, and each argument as a value of its own",
            )

    async def start(self, coordinator: Coordinator, server: Server) -> None:
        self._writer = coordinator.writer
        coordinator.bounds[Bound.RUN_END_COMMANDS] = (
            lambda: len(self._tasks),
            MOST_WAITING,
        )
        self._has_started.set()

    async def stop(self) -> None:
        """Let running commands end, for a while."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=STOP_GRACE_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def run_judged(self, judged: JudgedRun) -> None:
        record, now = judged.record, datetime.now(UTC)
        if not is_news(record, judged.ended_s, time.monotonic(), now):
            return
        document: Document | None
        document = run_document(record, judged.reasons, judged.figures)
        if len(self._tasks) >= MOST_WAITING:
            note_exceeded(Bound.RUN_END_COMMANDS)
            document = None
        task = asyncio.get_running_loop().create_task(self._report(record, document))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _report(self, record: RunRecord, document: Document | None) -> None:
        await self._has_started.wait()
        writer = self._writer
        assert writer is not None
        run_id, outcome = record.run_id, record.verdict or "no verdict"
        try:
            if await writer.call(_was_reported, writer.store, run_id, outcome):
                return
        except StoreError as error:
            _log.error("run %s: its events cannot be read: %s", run_id, error)
            return
        why = await self._run(document)
        kind = _FAILED if why else _DONE
        level = logging.WARNING if why else logging.INFO
        text = f"{outcome}: the command {why or 'succeeded'}"
        _log.log(level, "run %s: %s: %s", run_id, kind, text)
        at_utc = utc_text(datetime.now(UTC))
        writer.post(writer.store.add_event, run_id, kind, text, at_utc)

    async def _run(self, document: Document | None) -> str:
        """Run the command; why it failed, or empty. None: too many runs wait."""
        if document is None:
            return "was not started: too many ended runs wait for it"
        content = json.dumps(document).encode() + b"\n"
        try:
            async with self._running:
                return await run_command(self._command, content, self._limit_s)
        except (OSError, ValueError) as error:
            return f"could not be started: {error}"
        except asyncio.CancelledError:
            return "was stopped: the coordinator ended"


async def run_command(command: Sequence[str], content: bytes, limit_s: float) -> str:
    """Run a program with this on stdin; why it failed, or empty. OSError or ValueError
    when it cannot be started. Its process group is killed at the limit, and when the
    caller is cancelled."""
    transport, process = await asyncio.get_running_loop().subprocess_exec(
        _Process, *command, stderr=asyncio.subprocess.STDOUT, start_new_session=True
    )
    stdin = transport.get_pipe_transport(0)
    assert isinstance(stdin, asyncio.WriteTransport)
    stdin.write(content)
    stdin.close()
    try:
        async with asyncio.timeout(limit_s):
            await process.has_ended.wait()
    except TimeoutError:
        return f"was killed: it had not ended after {limit_s:g} s"
    finally:
        if not process.has_ended.is_set():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(transport.get_pid(), signal.SIGKILL)
        transport.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_KILL_WAIT_S):
                await process.has_ended.wait()
    status = transport.get_returncode() or 0
    if status == 0:
        return ""
    how = f"exit status {status}" if status > 0 else f"signal {-status}"
    return f"ended with {how}: {process.output}".removesuffix(": ")


class _Process(asyncio.SubprocessProtocol):
    def __init__(self) -> None:
        #: Set when the process has ended and nobody can write to its output any more.
        self.has_ended = asyncio.Event()
        self._last = b""

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self._last = (self._last + data)[-4 * _MAX_OUTPUT :]

    def connection_lost(self, exc: Exception | None) -> None:
        self.has_ended.set()

    @property
    def output(self) -> str:
        """The end of it, on one line, without passwords."""
        text = one_line(self._last.decode(errors="replace"))
        return without_passwords(text)[-_MAX_OUTPUT:]


def is_news(
    record: RunRecord, ended_s: float | None, now_s: float, now: datetime
) -> bool:
    """Whether the run ended within the last hour; by the time of day only where this
    process did not see the end."""
    if ended_s is not None:
        return now_s - ended_s <= _NEWS_FOR.total_seconds()
    ended_utc = record.finished_utc or record.submitted_utc
    return ended_utc >= utc_text(now - _NEWS_FOR)


def _was_reported(store: Store, run_id: str, outcome: str) -> bool:
    """Whether the command was last started for this outcome of the run."""
    texts = [e.text for e in store.events(run_id) if e.kind in (_DONE, _FAILED)]
    return bool(texts) and texts[-1].startswith(f"{outcome}:")


def run_document(
    record: RunRecord, reasons: Sequence[str], figures: KeyFigures
) -> Document:
    """What the command reads; docs/how-to/run-a-coordinator.md describes it."""
    return {
        "title": title_of(record, reasons),
        "run_id": record.run_id,
        "job_name": record.job_name,
        "state": record.state,
        "state_detail": record.state_detail,
        "verdict": record.verdict,
        "reasons": [one_line(reason) for reason in reasons[:_MAX_REASONS]],
        "figures": figures,
        "submitted_utc": record.submitted_utc,
        "submitted_by": record.submitted_by,
        "schedule_id": record.schedule_id,
        "t0_utc": record.t0_utc,
        "finished_utc": record.finished_utc,
        "agents": list(record.agents),
        "report": f"ldapslam report {record.run_id}",
    }


def title_of(record: RunRecord, reasons: Sequence[str]) -> str:
    """`FAIL: directory-mix, run 2026… finished: p99 …`, on one line."""
    text = f"{record.verdict or 'no verdict'}: {record.job_name}, run {record.run_id} "
    text += record.state
    why = reasons[0] if reasons else record.state_detail
    return one_line(f"{text}: {why}" if why else text)
