# SPDX-License-Identifier: Apache-2.0
"""The process that imports a Python job type and forks its clients.

    python -P -m ldapslam.agent.python_jobs.host FD

FD is a socket to the engine's process. Classes are imported once, before there are
threads, so that clients share their memory. The host closes the intervals of the shared
recorders, reads each client's CPU usage and sends one snapshot for each interval. It
ends with the engine's process, and its clients with it.
"""

from __future__ import annotations

import contextlib
import importlib
import mmap
import os
import signal
import socket
import struct
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from multiprocessing.connection import Connection as Channel
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, NoReturn

from ldapslam.agent._engine import SharedRecorder
from ldapslam.agent.admission.limits import AgentLimits
from ldapslam.agent.lease import Lease
from ldapslam.agent.python_jobs import client as python_client
from ldapslam.agent.python_jobs.client import ClientStream, described, end_with_parent
from ldapslam.agent.python_jobs.job import REQUEST_KINDS, PythonJob
from ldapslam.base import process
from ldapslam.base.errors import ConfigError, LdapSlamError, RunAborted
from ldapslam.jobs.model import PythonStream
from ldapslam.jobs.plan import AgentPlan, StreamPlan
from ldapslam.proto.fields import PACKED, TABLES, WORKER_COUNTERS

#: Time for a class's tear_down.
_TEAR_DOWN_LIMIT_NS = 10_000_000_000
#: How often it looks whether all processes stood still.
_LOOK_NS = 250_000_000
_WORKER_ROW = struct.Struct(f"<{len(TABLES['workers'])}q")
_HINT = "install the class on every agent, or set PYTHONPATH for the agent"


def find_class(plan: PythonStream) -> type[PythonJob]:
    """Import the class that the job names; ConfigError says why that cannot be."""
    path = plan.class_path
    module_name, colon, class_name = path.partition(":")
    if not (module_name and colon and class_name):
        raise ConfigError(
            f"{path!r} does not name a class", hint="write package.module:Class"
        )
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        if not isinstance(error, ModuleNotFoundError):
            traceback.print_exc()
        raise ConfigError(
            f"{module_name!r} cannot be imported: {described(error)}", hint=_HINT
        ) from error
    found = getattr(module, class_name, None)
    if not (isinstance(found, type) and issubclass(found, PythonJob)):
        what = "is no subclass of PythonJob" if found else "does not exist"
        raise ConfigError(
            f"{path!r} {what}",
            hint="see docs/how-to/python-jobs.md for what a class must be",
        )
    recorded = sorted(found.operations_of(plan.options))
    if recorded != sorted(plan.operations):
        raise ConfigError(
            f"{path!r} records the operations {recorded}, the job "
            f"names {sorted(plan.operations)}",
            hint="name the same in `operations` of the job and of the class",
        )
    return found


class Usage:
    """A client's CPU usage since the last interval, with the programs that it ran."""

    def __init__(self, pid: int, programs: memoryview) -> None:
        self._schedstat = Path(f"/proc/{pid}/schedstat")
        # the kernel's number of another process's CPU clock: see clock_getcpuclockid(3)
        self._clock = ~pid << 3 | 2
        self._programs = programs
        self._own = self._last = (0, 0)
        self.take(0)

    def take(self, wall_ns: int) -> dict[str, int]:
        with contextlib.suppress(OSError, ValueError, IndexError):
            cpu_ns = time.clock_gettime_ns(self._clock)
            # the main thread's: runnable, but not running
            self._own = cpu_ns, int(self._schedstat.read_text("ascii").split()[1])
        cpu_ns, run_queue_ns = map(sum, zip(self._own, self._programs, strict=True))
        before, self._last = self._last, (cpu_ns, run_queue_ns)
        cpu_ns, run_queue_ns = cpu_ns - before[0], run_queue_ns - before[1]
        return {
            "wall_ns": wall_ns,
            # a client does one thing at a time: the rest is waiting
            "busy_ns": min(wall_ns, cpu_ns + run_queue_ns),
            "spin_ns": 0,
            "cpu_ns": cpu_ns,
            "run_queue_ns": min(wall_ns, run_queue_ns),
            "loops": 0,
        }


@dataclass(slots=True)
class _Child:
    pid: int
    stream: ClientStream
    channel: Channel
    usage: Usage
    is_ready: bool = False
    start_error_ns: int | None = None
    #: Its sessions are over.
    is_idle: bool = False
    is_ended: bool = False


class Host:
    """The clients of all streams, from their set-up to their end."""

    def __init__(
        self,
        plan: AgentPlan,
        streams: dict[int, StreamPlan],
        limits: AgentLimits,
        lease: Lease,
        parent: Channel,
    ) -> None:
        self._plan = plan
        self._lease = lease
        self._parent = parent
        self._streams = [
            self._open(number, stream, limits) for number, stream in streams.items()
        ]
        self._children: list[_Child] = []
        self._notes: list[tuple[Any, ...]] = []
        #: Stream -> operation -> the result codes that its class expected.
        self._expected: dict[str, dict[str, set[int]]] = {}
        self._t0_ns = self._end_ns = self._closed_ns = 0
        self._index = 0
        self._is_final = False

    def _open(self, number: int, plan: StreamPlan, limits: AgentLimits) -> ClientStream:
        python, run = plan.python, self._plan
        if python is None:
            raise ValueError(f"stream {plan.name!r} is the engine's")
        count = 2 + len(plan.uris) * len(REQUEST_KINDS)
        try:
            plan = replace(plan, connection=plan.connection.resolved())
            return ClientStream(
                plan=plan,
                python=python,
                run=run,
                limits=limits,
                lease=self._lease,
                job_class=find_class(python),
                recorder=SharedRecorder(run, plan, number, len(python.operations)),
                counters=tuple(
                    memoryview(mmap.mmap(-1, 8 * count)).cast("Q")
                    for _ in range(plan.connections)
                ),
            )
        except LdapSlamError as error:
            self._fail(error, plan.name)

    def serve(self) -> None:
        for stream in self._streams:
            for index in range(stream.plan.connections):
                self._children.append(self._fork(stream, index))
        while not all(child.is_ready for child in self._children):
            self._take_messages()
        self._parent.send(("ready",))
        while not self._t0_ns:
            self._take_messages()
        self._close_intervals()
        self._pass_on("stop")
        self._wait_for(lambda child: child.is_idle, self._end_ns + self._plan.grace_ns)
        self._is_final = True
        last = self._close()
        self._pass_on("finish")
        overdue_ns = time.monotonic_ns() + _TEAR_DOWN_LIMIT_NS
        self._wait_for(lambda child: child.is_ended, overdue_ns)
        for child in self._children:
            if not child.is_ended:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child.pid, signal.SIGKILL)
        error_ns, requests = self._start_error_ns() or 0, self._requests()
        self._parent.send(
            ("final", last, error_ns, requests, self._expected, self._notes)
        )

    def _fork(self, stream: ClientStream, index: int) -> _Child:
        ours, theirs = socket.socketpair()
        host = os.getpid()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                end_with_parent(host)
                ours.close()
                self._parent.close()
                for child in self._children:
                    child.channel.close()
                status = python_client.main(stream, index, Channel(theirs.detach()))
            finally:
                os._exit(status)
        theirs.close()
        usage = Usage(pid, stream.counters[index][:2])
        return _Child(pid, stream, Channel(ours.detach()), usage)

    def _wait_for(self, is_met: Callable[[_Child], bool], until_ns: int) -> None:
        while not all(map(is_met, self._children)):
            left_ns = until_ns - time.monotonic_ns()
            if left_ns <= 0:
                return
            self._take_messages(left_ns)

    def _take_messages(self, timeout_ns: int | None = None) -> None:
        children = {
            child.channel: child for child in self._children if not child.is_ended
        }
        timeout_s = None if timeout_ns is None else timeout_ns / 1e9
        for channel in wait([self._parent, *children], timeout_s):
            if channel is self._parent:
                self._hear(*self._parent.recv())
            elif isinstance(channel, Channel):
                self._take(children[channel])

    def _hear(self, kind: str, time_ns: int) -> None:
        if kind == "stop":
            self._stop(time_ns)
            return
        self._t0_ns = self._closed_ns = time_ns
        self._set_end(time_ns + self._plan.boundaries_ns[-1], stopped=False)
        for child in self._children:
            child.usage.take(0)
        self._pass_on("start", time_ns)

    def _stop(self, end_ns: int) -> None:
        self._set_end(min(self._end_ns, end_ns), stopped=True)
        self._pass_on("stop")

    def _set_end(self, end_ns: int, *, stopped: bool) -> None:
        self._end_ns = end_ns
        for stream in self._streams:
            own_ns = self._t0_ns + stream.plan.end_ns if stream.plan.end_ns else end_ns
            stream.recorder.set_span(self._t0_ns, min(end_ns, own_ns), stopped)

    def _pass_on(self, *message: Any) -> None:
        for child in self._children:
            with contextlib.suppress(OSError):
                child.channel.send(message)

    def _take(self, child: _Child) -> None:
        try:
            kind, *content = child.channel.recv()
        except (EOFError, OSError):
            self._take_end(child)
            return
        if kind == "ready":
            child.is_ready = True
        elif kind == "started":
            child.start_error_ns = content[0]
            if (error_ns := self._start_error_ns()) is not None:
                self._parent.send(("started", error_ns))
        elif kind == "idle":
            child.is_idle = True
            self._note_expected(child.stream, content[0])
            is_counted = all(one.plan.total_operations for one in self._streams)
            if is_counted and all(other.is_idle for other in self._children):
                self._stop(time.monotonic_ns())
        elif kind == "ended":
            child.is_ended = True
        elif kind == "note":
            self._notes.append((child.stream.plan.name, *content))
        else:
            self._fail(LdapSlamError.from_dict(content[0]), child.stream.plan.name)

    def _note_expected(
        self, stream: ClientStream, expected: set[tuple[int, int]]
    ) -> None:
        for number, code in expected:
            operations = self._expected.setdefault(stream.plan.name, {})
            name = stream.python.operations[number]
            operations.setdefault(name, set()).add(code)

    def _requests(self) -> dict[str, Counter[str]]:
        """URI -> kind -> what the classes asked of that server, measured or not."""
        requests: dict[str, Counter[str]] = {}
        for stream in self._streams:
            kinds = product(stream.plan.uris, REQUEST_KINDS)
            for (uri, kind), *counts in zip(
                kinds, *(counters[2:] for counters in stream.counters), strict=True
            ):
                if sum(counts):
                    requests.setdefault(uri, Counter())[kind] += sum(counts)
        return requests

    def _start_error_ns(self) -> int | None:
        """The longest; None until all clients have begun."""
        errors_ns = [child.start_error_ns for child in self._children]
        known_ns = [error_ns for error_ns in errors_ns if error_ns is not None]
        return max(known_ns) if len(known_ns) == len(errors_ns) else None

    def _take_end(self, child: _Child) -> None:
        """A client ended without a last message."""
        if self._is_final:
            child.is_ended = True
            return
        _, status = os.waitpid(child.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        how = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        when = "during the run" if child.is_ready else "in its set-up"
        path = child.stream.python.class_path
        error = RunAborted(f"a client's process of {path!r} ended {when}: {how}")
        self._fail(error, child.stream.plan.name)

    def _fail(self, error: LdapSlamError, stream: str) -> NoReturn:
        error.args = (f"stream {stream!r}: {error.args[0]}", *error.args[1:])
        self._parent.send(("failed", error.to_dict()))
        os._exit(1)  # the kernel ends the clients

    def _close_intervals(self) -> None:
        for boundary_ns in self._plan.boundaries_ns:
            boundary_ns += self._t0_ns
            while (left_ns := min(boundary_ns, self._end_ns) - time.monotonic_ns()) > 0:
                left_ns = min(left_ns, _LOOK_NS)
                due_ns = time.monotonic_ns() + left_ns
                self._take_messages(left_ns)
                for stream in self._streams:
                    stream.recorder.wake(due_ns, time.monotonic_ns(), False)
            if self._lease.is_over:
                self._stop(time.monotonic_ns())
            self._parent.send(("interval", self._close()))
            if self._end_ns <= boundary_ns:
                break

    def _close(self) -> dict[str, Any]:
        """The interval's snapshot in the engine's form."""
        tables: list[dict[str, bytes]] = []
        start_ns = end_ns = self._closed_ns
        for stream in self._streams:
            closed_ns, of_stream = stream.recorder.close(self._is_final)
            tables.append(of_stream)
            # a stop may come before the start
            end_ns = max(end_ns, closed_ns)
        self._closed_ns = end_ns
        self._index += 1
        return {
            "index": self._index - 1,
            "start_ns": start_ns - self._t0_ns,
            "end_ns": end_ns - self._t0_ns,
            "final": self._is_final,
            "clock_step_ns": 0,
            **{name: b"".join(one[name] for one in tables) for name in PACKED},
            "workers": b"".join(
                self._worker_row(number, child, end_ns - start_ns)
                for number, child in enumerate(self._children)
                if child.stream.job_class.is_load
            ),
        }

    def _worker_row(self, number: int, child: _Child, wall_ns: int) -> bytes:
        usage = child.usage.take(wall_ns)
        is_open = child.stream.plan.model == "open"
        return _WORKER_ROW.pack(
            number, is_open, *(usage[name] for name in WORKER_COUNTERS)
        )


def main(descriptor: int) -> int:
    end_with_parent(os.getppid())
    parent = Channel(descriptor)
    try:
        plan, streams, limits, folder = parent.recv()
        Host(plan, streams, limits, Lease(folder), parent).serve()
    except (EOFError, BrokenPipeError):
        return process.EXIT_ORPHANED
    except BaseException as error:
        traceback.print_exc()
        failure = RunAborted(f"the host of Python clients: {described(error)}")
        parent.send(("failed", failure.to_dict()))
        return 1
    return 0


if __name__ == "__main__":
    # sys.exit would wait for threads of imported modules
    os._exit(main(int(sys.argv[1])))
