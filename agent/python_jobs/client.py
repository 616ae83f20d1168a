# SPDX-License-Identifier: Apache-2.0
"""One virtual client of a Python job type: a process with one connection.

One client per process, because threads of one process would share the interpreter's
lock: a response that waits for it is neither busy nor waiting for a CPU to the kernel,
so that nothing would show that the generator, not the directory, was slow (8 clients
with 1 ms of work of their own, against a directory that takes 5 ms: threads measured a
median of 7.7 ms, processes 5.2 ms). Here all that is not waiting for the directory is
CPU time or time in the run queue, which the kernel counts.

The main thread runs the class; a second one hears of the stop and of the end. What is
measured goes into the recorder that the clients of the stream share; the host closes
its intervals. Messages are tuples, the first item their kind. To the host: ready,
note, started, idle, ended, failed; from it: start, stop, finish.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import sys
import threading
import time
import traceback
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection as Channel
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ldap

from ldapslam.agent.admission.limits import AgentLimits
from ldapslam.agent.lease import Lease
from ldapslam.agent.python_jobs import job as python_job
from ldapslam.agent.python_jobs.job import Client, PythonJob, RunStopped
from ldapslam.base import process
from ldapslam.base.errors import (
    BindRejected,
    ConfigError,
    LdapSlamError,
    RunAborted,
    TlsHandshakeFailed,
)
from ldapslam.directory.access import connect, error_text
from ldapslam.jobs.model import PythonStream
from ldapslam.jobs.plan import AgentPlan, StreamPlan, share

if TYPE_CHECKING:
    from ldapslam.agent._engine import SharedRecorder

#: From an attempt to connect that failed to the next; drawn up to half as much again,
#: so that clients do not come all at once.
_PROBE_S = 0.05
_MOST_DOUBLINGS = 5
#: Time without connection is counted in steps, for its interval.
_TALLY_NS = 100_000_000
#: Time in which the copy of a fork in set_up would return too.
_COPY_RETURNS_S = 0.5
#: The last stretch before a request is slept; a stop comes later.
_SLEEP_S = 0.002
_PR_SET_TIMERSLACK = 29
#: Folders without classes of users.
_LIBRARIES = ("<", str(Path(__file__).parent), str(Path(ldap.__file__).parent))
_CAUSES = {TlsHandshakeFailed: "tls_failed", BindRejected: "bind_failed"}
_SET_UP_COUNTERS = {"bind": "binds", "extended": "extended", "unbind": "unbinds"}


@dataclass(frozen=True, slots=True)
class ClientStream:
    """A stream of this agent, as its clients inherit it from their host."""

    plan: StreamPlan
    python: PythonStream
    run: AgentPlan
    limits: AgentLimits
    lease: Lease
    job_class: type[PythonJob]
    recorder: SharedRecorder
    #: For each client, its own counts: see Client.
    counters: tuple[memoryview, ...]


class ClientProcess:
    """The main thread's work, from set-up to tear-down."""

    def __init__(self, stream: ClientStream, index: int, channel: Channel) -> None:
        self._plan = plan = stream.plan
        self._run_plan = stream.run
        self._class = stream.job_class
        self._class_path = stream.python.class_path
        self._options = stream.python.options
        self._recorder = stream.recorder
        self._lease = stream.lease
        self._index = index
        self._channel = channel
        self._sending = threading.Lock()
        number = plan.first_connection + index * plan.connection_stride
        self._client = Client(
            number=number,
            total=plan.total_connections,
            uri=plan.uris[number % (len(plan.uris) - plan.watched)],
            uris=plan.uris,
            access=plan.connection,
            request_timeout_s=plan.request_timeout_ns / 1e9,
            seed=f"{stream.run.seed}/{plan.name}/{number}",
            operations={name: n for n, name in enumerate(stream.python.operations)},
            recorder=stream.recorder,
            counters=stream.counters[index],
            send_note=partial(self._send, "note"),
            drain_s=stream.run.grace_ns / 1e9,
            limits=stream.limits,
        )
        self._pid = os.getpid()
        self._has_forked = threading.Event()
        self._connected_ns = 0
        self._sessions = 0
        #: Set when the main thread sends no more; when the last interval is closed.
        self._idle = threading.Event()
        self._closed = threading.Event()

    def serve(self) -> None:
        job = self._prepare()
        self._send("ready")
        message = self._channel.recv()
        if message[0] != "start":
            self._disconnect()
            return
        threading.Thread(target=self._listen, name="listener", daemon=True).start()
        try:
            self._run(job, message[1])
        except RunStopped as error:
            self._check_stopped(error)
        job.drain(self._client)
        self._idle.set()
        self._send("idle", self._client._expected)
        self._closed.wait()
        try:
            job.tear_down(self._client)
        except (Exception, SystemExit):
            traceback.print_exc()
        self._disconnect()
        self._send("ended")

    def _check_stopped(self, error: RunStopped) -> None:
        """RunAborted when the class itself raised it: a client less is another load."""
        is_over = self._lease.is_over or time.monotonic_ns() >= self._recorder.end_ns()
        if not is_over and not self._client._stopping.is_set():
            raise RunAborted(
                f"{self._class_path!r} raised RunStopped before the load was over",
                hint="`return` ends a session; only `count` ends a stream early",
            ) from error

    def _prepare(self) -> PythonJob:
        pause_ns = self._client.number * self._plan.connection.connect_spacing_ns
        time.sleep(pause_ns / 1e9)
        if self._class.connects:
            self._connect()
        os.register_at_fork(after_in_parent=self._has_forked.set)
        try:
            job = self._class(self._options)
            job.set_up(self._client)
        except LdapSlamError:
            raise
        except (Exception, SystemExit) as error:
            raise ConfigError(
                f"{self._class_path!r} failed in its set-up: {described(error)}",
                hint="the engine's log on the agent has the traceback",
            ) from error
        finally:
            self._end_if_forked()
        if self._has_forked.is_set():
            # a failing copy must be heard before `ready`
            time.sleep(_COPY_RETURNS_S)
        return job

    def _end_if_forked(self) -> None:
        """A class that forked may come back twice: the copy must not be a client."""
        if os.getpid() != self._pid:
            error = ConfigError(
                f"{self._class_path!r} forked, and its copy returned",
                hint="run programs with subprocess, or end the copy with os._exit",
            )
            self._send("failed", error.to_dict())
            os._exit(1)

    def _connect(self) -> None:
        client = self._client
        begun_ns = time.monotonic_ns()
        connection = connect(
            client.uri,
            client.access,
            new=python_job.Connection,
            note_request=self._count_set_up,
            is_measured=True,
        )
        connection.timeout = client.request_timeout_s
        connection.set_option(ldap.OPT_TIMEOUT, connection.timeout)
        connection.client = client
        self._connected_ns = time.monotonic_ns()
        self._recorder.connected(self._connected_ns - begun_ns)
        self._sessions = 0
        client._connection, client._is_lost = connection, False

    def _count_set_up(self, kind: str) -> None:
        self._recorder.count(_SET_UP_COUNTERS[kind])
        self._client.count_request(kind)

    def _disconnect(self) -> None:
        client = self._client
        connection, client._connection = client._connection, None
        if connection is None:
            return
        connection.client = None
        self._count_set_up("unbind")
        with contextlib.suppress(ldap.LDAPError):
            connection.unbind_s()

    def _run(self, job: PythonJob, t0_ns: int) -> None:
        plan = self._plan
        self._wait_until(t0_ns)
        self._send("started", max(0, time.monotonic_ns() - t0_ns))
        if plan.model == "open":
            self._run_open(job)
            return
        ramp_up_ns = self._run_plan.ramp_up_ns * self._index // plan.connections
        self._run_closed(job, t0_ns + plan.start_ns + ramp_up_ns)

    def _run_closed(self, job: PythonJob, due_ns: int) -> None:
        total, clients = self._plan.total_operations, self._plan.total_connections
        # this client's part of `count`; below zero: unlimited
        sessions_left = share(total, clients, self._client.number) if total else -1
        while sessions_left != 0:
            self._wait_until(due_ns)
            due_ns = max(due_ns, self._make_usable())
            self._client._slot_free_ns = self._connected_ns
            self._session(job, due_ns)
            due_ns = time.monotonic_ns() + self._plan.think_time_ns
            sessions_left -= 1

    def _run_open(self, job: PythonJob) -> None:
        while True:
            connected_ns = self._make_usable()
            now_ns = time.monotonic_ns()
            # after the end of the load: what was due before
            due_ns = self._recorder.take(now_ns)
            if due_ns is None:
                return
            client = self._client
            client._slot_free_ns = max(client._free_ns, connected_ns)
            client._free_ns = max(client._slot_free_ns, due_ns)
            if due_ns > now_ns:
                self._wait_until(due_ns)
                if not self._recorder.wake(due_ns, time.monotonic_ns(), True):
                    continue
            self._session(job, due_ns)

    def _wait_until(self, due_ns: int) -> None:
        """RunStopped when the load ends before."""
        stopping = self._client._stopping
        while True:
            now_ns, end_ns = time.monotonic_ns(), self._recorder.end_ns()
            if now_ns >= end_ns:
                raise RunStopped
            if now_ns >= due_ns:
                return
            left_s = (min(due_ns, end_ns) - now_ns) / 1e9
            # a stop is announced ahead, so that all clients hear of it in time
            if stopping.is_set() or left_s <= _SLEEP_S:
                time.sleep(left_s)
            else:
                # a plain sleep wakes sooner than a wait that can be ended
                stopping.wait(left_s - _SLEEP_S)

    def _make_usable(self) -> int:
        """Reconnect where that is needed. Returns when the connection was made; 0: it
        was made before."""
        policy, client = self._plan.connection, self._client
        if client._connection is None and not client._is_lost:
            return 0
        begun_ns = time.monotonic_ns()
        is_worn = 0 < policy.reconnect_operations <= self._sessions
        is_old = 0 < policy.reconnect_ns <= begun_ns - self._connected_ns
        if not (client._is_lost or is_worn or is_old):
            return 0
        # a planned replacement is down only when an attempt fails
        counter = "down_ns" if client._is_lost else ""
        if client._is_lost:
            self._recorder.count("disconnects")
            if not self._class.connects:
                client._is_lost = False
                return 0
        self._disconnect()
        failures = 0
        while client._connection is None:
            wait_s = 0.0
            try:
                self._connect()
            except LdapSlamError as error:
                is_own = self._count_failure(error)
                counter = "unable_ns" if is_own else "down_ns"
                wait_s = _PROBE_S * client.random.uniform(1.0, 1.5)
                if policy.reconnect_wait_ns and not is_own:
                    wait_s = policy.reconnect_wait_ns / 1e9
                    wait_s *= client.random.uniform(0.5, 1.5)
                    wait_s *= 1 << min(failures, _MOST_DOUBLINGS)
                    failures += 1
            if counter:
                begun_ns = self._tally(counter, begun_ns, wait_s)
        return self._connected_ns

    def _count_failure(self, error: LdapSlamError) -> bool:
        """Count an attempt to connect that failed, by its cause (core/cause.h).
        Returns whether it is the generator's."""
        cause = error.__cause__
        if isinstance(cause, TimeoutError):
            return self._recorder.failed(errno.ETIMEDOUT)
        if isinstance(cause, OSError):
            return self._recorder.failed(cause.errno or 0)
        self._recorder.count("connect_failures")
        self._recorder.count(_CAUSES.get(type(error), "other_cause"))
        return False

    def _tally(self, counter: str, since_ns: int, wait_s: float) -> int:
        """Wait, and count the time without connection meanwhile; returns the end."""
        end_ns = time.monotonic_ns() + round(wait_s * 1e9)
        while True:
            now_ns = time.monotonic_ns()
            self._recorder.count(counter, now_ns - since_ns)
            if now_ns >= end_ns:
                return now_ns
            since_ns = now_ns
            self._wait_until(min(end_ns, now_ns + _TALLY_NS))

    def _session(self, job: PythonJob, due_ns: int) -> None:
        if self._lease.is_over:
            raise RunStopped
        client = self._client
        client._due_ns = due_ns
        client._recorded = None
        client._in_session = True
        self._sessions += 1
        try:
            job.run(client)
        except RunStopped:
            raise
        except (Exception, SystemExit) as error:
            if error is not client._recorded:
                raise
        finally:
            client._in_session = False
            self._end_if_forked()

    def _send(self, kind: str, *content: Any) -> None:
        with self._sending, contextlib.suppress(OSError):
            self._channel.send((kind, *content))

    def _listen(self) -> None:
        try:
            while self._channel.recv()[0] == "stop":
                self._client._stopping.set()
        except (EOFError, OSError):
            os._exit(process.EXIT_ORPHANED)
        if not self._idle.is_set():
            os._exit(1)
        self._closed.set()


def main(stream: ClientStream, index: int, channel: Channel) -> int:
    class_path = stream.python.class_path
    try:
        ClientProcess(stream, index, channel).serve()
    except (EOFError, BrokenPipeError):
        return process.EXIT_ORPHANED
    except BaseException as error:
        traceback.print_exc()
        failure = error
        if not isinstance(failure, LdapSlamError):
            failure = RunAborted(
                f"{class_path!r} raised {described(error)}",
                hint="what can fail belongs into `with client.operation(…)`; the "
                "engine's log on the agent has the traceback",
            )
        channel.send(("failed", failure.to_dict()))
        return 1
    sys.stdout.flush()
    sys.stderr.flush()
    return 0


def described(error: BaseException) -> str:
    """An exception in one line, with the place in the class where it was raised."""
    if isinstance(error, ldap.LDAPError):
        text = f"{type(error).__name__}: {error_text(error)}"
    else:
        text = f"{type(error).__name__}: {error}".rstrip(": ")
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_LIBRARIES)]
    if own:
        text += f" ({Path(own[-1].filename).name}:{own[-1].lineno})"
    return text


def end_with_parent(parent: int) -> None:
    """Have the kernel end this process with its parent, and wake it on time."""
    process.end_with_parent(parent)
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1)
