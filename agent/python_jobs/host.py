# SPDX-License-Identifier: Apache-2.0
"""The process in which a Python job type is imported, and which forks its clients.

    python -P -m ldapslam.agent.python_jobs.host FD

FD is a socket to the engine's process. The class is imported once, before anything has
a thread, so that the clients share its memory and an import that fails is one error.
The host then waits and adds up: of each interval of all clients it sends one message.
It dies with the engine's process, and its clients with it.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import socket
import sys
import time
import traceback
from dataclasses import dataclass, field
from multiprocessing.connection import Connection as Channel
from multiprocessing.connection import wait
from typing import Any, NoReturn

from ldapslam.agent.python_jobs import client as python_client
from ldapslam.agent.python_jobs.arrivals import SharedArrivals
from ldapslam.agent.python_jobs.client import PythonStreamSettings
from ldapslam.agent.python_jobs.job import PythonJob
from ldapslam.agent.python_jobs.packed_histogram import add_packed
from ldapslam.agent.python_jobs.process import EXIT_ORPHANED, described, end_with_parent
from ldapslam.agent.python_jobs.recorder import (
    HostInterval,
    IntervalFigures,
    OperationFigures,
)
from ldapslam.base.errors import ConfigError, LdapSlamError, RunAborted

_HINT = "install the class on every agent, or set PYTHONPATH for the agent"


def find_class(settings: PythonStreamSettings) -> type[PythonJob]:
    """Import the class that the job names; ConfigError says why that cannot be."""
    path = settings.class_path
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
            f"{path!r} {what}", hint="see docs/python-jobs.md for what a class must be"
        )
    recorded = sorted(found.operations_of(settings.options))
    if recorded != sorted(settings.operations):
        raise ConfigError(
            f"{path!r} records the operations {recorded}, the job "
            f"names {sorted(settings.operations)}",
            hint="name the same in `operations` of the job and of the class",
        )
    return found


@dataclass(slots=True)
class _Child:
    pid: int
    index: int
    channel: Channel
    #: Intervals not yet part of a merged one; the last may be the final one.
    intervals: list[tuple[int, int, IntervalFigures, dict[str, int]]] = field(
        default_factory=list
    )
    is_ready: bool = False
    #: All sessions that it was to have are over.
    is_idle: bool = False
    is_final: bool = False
    is_ended: bool = False

    @property
    def closed_intervals(self) -> int:
        """Those of `intervals` that are not the final one."""
        return len(self.intervals) - self.is_final


class Host:
    """The clients of one stream, from their set-up to their end."""

    def __init__(self, settings: PythonStreamSettings, parent: Channel) -> None:
        self._settings = settings
        self._parent = parent
        self._children: list[_Child] = []
        self._sent_intervals = 0
        self._requests: dict[str, dict[str, int]] = {}
        self._notes: list[tuple[str, dict[str, Any]]] = []
        self._is_load = True
        self._started = 0
        self._start_error_ns = 0
        self._deadline_s: float | None = None

    def serve(self) -> None:
        job_class = find_class(self._settings)
        self._is_load = job_class.is_load
        arrivals = None
        if self._settings.arrivals is not None:
            arrivals = SharedArrivals(self._settings.arrivals)
        for index in range(self._settings.clients):
            self._children.append(self._fork(index, job_class, arrivals))
        while not all(child.is_ended for child in self._children):
            self._take_messages()
        self._send_final()
        self._parent.send(("ended", self._requests, self._start_error_ns, self._notes))

    def _fork(
        self, index: int, job_class: type[PythonJob], arrivals: SharedArrivals | None
    ) -> _Child:
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
                channel = Channel(theirs.detach())
                status = python_client.main(
                    self._settings, index, job_class, channel, arrivals
                )
            finally:
                os._exit(status)
        theirs.close()
        return _Child(pid, index, Channel(ours.detach()))

    def _take_messages(self) -> None:
        open_children = {
            child.channel: child for child in self._children if not child.is_ended
        }
        timeout_s = None
        if self._deadline_s is not None:
            timeout_s = max(0.0, self._deadline_s - time.monotonic())
        ready = wait([self._parent, *open_children], timeout_s)
        if not ready:
            self._end_overdue()
        for channel in ready:
            if channel is self._parent:
                self._pass_on(self._parent.recv())
            elif isinstance(channel, Channel):
                self._take(open_children[channel])

    def _pass_on(self, message: tuple[Any, ...]) -> None:
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
            if all(other.is_ready for other in self._children):
                self._parent.send(("ready",))
        elif kind == "started":
            self._start_error_ns = max(self._start_error_ns, content[0])
            self._started += 1
            if self._started == len(self._children):
                self._parent.send(("started", self._start_error_ns))
        elif kind == "idle":
            child.is_idle = True
            is_counted = self._settings.total_operations > 0
            if is_counted and all(other.is_idle for other in self._children):
                self._pass_on(("stop", time.monotonic_ns()))
        elif kind in ("interval", "final"):
            child.intervals.append(tuple(content))
            child.is_final = kind == "final"
            if child.is_final and self._deadline_s is None:
                grace_s = self._settings.grace_ns / 1e9
                limit_s = python_client.TEAR_DOWN_LIMIT_S + 2
                self._deadline_s = time.monotonic() + grace_s + limit_s
            self._send_intervals()
        elif kind == "ended":
            self._count(content[0])
            self._notes += content[1]
            child.is_ended = True
        else:
            self._fail(LdapSlamError.from_dict(content[0]))

    def _count(self, requests: dict[str, dict[str, int]]) -> None:
        for uri, of_server in requests.items():
            counts = self._requests.setdefault(uri, {})
            for kind, count in of_server.items():
                counts[kind] = counts.get(kind, 0) + count

    def _take_end(self, child: _Child) -> None:
        """A client that ended without a word."""
        if child.is_final:
            child.is_ended = True
            return
        _, status = os.waitpid(child.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        how = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        when = "during the run" if child.is_ready else "in its set-up"
        path = self._settings.class_path
        self._fail(RunAborted(f"a client's process of {path!r} ended {when}: {how}"))

    def _end_overdue(self) -> None:
        for child in self._children:
            if not child.is_ended and child.is_final:
                child.is_ended = True
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)
        self._deadline_s = None

    def _fail(self, error: LdapSlamError) -> NoReturn:
        self._parent.send(("failed", error.to_dict()))
        os._exit(1)  # the kernel ends the clients

    def _send_intervals(self) -> None:
        """What all clients have closed; the last ones go with _send_final."""
        while all(child.closed_intervals for child in self._children):
            self._send_merged("interval")

    def _send_final(self) -> None:
        # a stop near a boundary finds some clients before it, others after it
        while any(child.closed_intervals for child in self._children):
            self._send_merged("interval")
        self._send_merged("final")

    def _send_merged(self, kind: str) -> None:
        taken = [
            child.intervals.pop(0)
            for child in self._children
            if child.closed_intervals or (kind == "final" and child.intervals)
        ]
        merged = HostInterval(
            start_ns=min(start_ns for start_ns, _, _, _ in taken),
            end_ns=max(end_ns for _, end_ns, _, _ in taken),
            figures=add_figures([figures for _, _, figures, _ in taken]),
            workers=[worker for _, _, _, worker in taken] if self._is_load else [],
        )
        self._parent.send((kind, self._sent_intervals, merged))
        self._sent_intervals += 1


def add_figures(parts: list[IntervalFigures]) -> IntervalFigures:
    """The figures of clients that are not the same."""
    total = IntervalFigures()
    histograms: dict[tuple[tuple[int, bool], tuple[int, int]], list[bytes]] = {}
    for part in parts:
        total.stream.update(part.stream)
        if part.last_done_ns is not None:
            total.last_done_ns = max(total.last_done_ns or 0, part.last_done_ns)
        for key, figures in part.operations.items():
            into = total.operations.setdefault(key, OperationFigures())
            into.counts.update(figures.counts)
            into.result_codes.update(figures.result_codes)
            for kind, packed in figures.histograms.items():
                histograms.setdefault((key, kind), []).append(packed)
    for (key, kind), packed_parts in histograms.items():
        total.operations[key].histograms[kind] = add_packed(packed_parts)
    total.connect_time = add_packed([part.connect_time for part in parts])
    return total


def main(descriptor: int) -> int:
    """Serve one stream; the exit status."""
    end_with_parent(os.getppid())
    parent = Channel(descriptor)
    try:
        settings = parent.recv()
        Host(settings, parent).serve()
    except LdapSlamError as error:
        parent.send(("failed", error.to_dict()))
        return 1
    except (EOFError, BrokenPipeError):
        return EXIT_ORPHANED
    except BaseException as error:
        traceback.print_exc()
        failure = RunAborted(f"the host of Python clients: {described(error)}")
        parent.send(("failed", failure.to_dict()))
        return 1
    return 0


if __name__ == "__main__":
    # not sys.exit: threads of an imported module must not hold the process
    os._exit(main(int(sys.argv[1])))
