# SPDX-License-Identifier: Apache-2.0
"""One virtual client of a Python job type: a process with one connection.

One client per process, because threads of one process would share the interpreter's
lock: a response that waits for it is neither busy nor waiting for a CPU to the kernel,
so that nothing would show that the generator, not the directory, was slow (8 clients
with 1 ms of work of their own, against a directory that takes 5 ms: threads measured a
median of 7.7 ms, processes 5.2 ms). Here all that is not waiting for the directory is
CPU time or time in the run queue, which the kernel counts.

The main thread runs the class; a second one closes intervals, hears of the stop and
ends the process when its host is gone. Messages to the host are tuples, the first item
their kind: ready, started, idle, interval, final, ended, failed.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection as Channel
from typing import Any

import ldap

from ldapslam.agent.admission.limits import AgentLimits
from ldapslam.agent.python_jobs import job as python_job
from ldapslam.agent.python_jobs.arrivals import (
    NEVER_NS,
    ArrivalSettings,
    SharedArrivals,
)
from ldapslam.agent.python_jobs.job import Client, PythonJob, RunStopped
from ldapslam.agent.python_jobs.process import EXIT_ORPHANED, Usage, described
from ldapslam.agent.python_jobs.recorder import IntervalFigures, Outage, Recorder
from ldapslam.base.errors import ConfigError, LdapSlamError, RunAborted
from ldapslam.directory.access import LdapAccess, connect

#: A class gets so long for tear_down.
TEAR_DOWN_LIMIT_S = 10.0
_BACK_OFF_S = (0.1, 5.0)
#: Of time that a connection was down, into the interval that it belongs to.
_TALLY_NS = 100_000_000
#: So long after a fork in set_up its copy would have come back as well.
_COPY_RETURNS_S = 0.5
#: The last stretch before a request is due is slept; a stop comes later than that.
_SLEEP_S = 0.002
_SET_UP_COUNTERS = {"bind": "binds", "extended": "extended"}


@dataclass(frozen=True, slots=True)
class PythonStreamSettings:
    """One agent's part of a stream, with its secrets resolved: see jobs/plan.py."""

    name: str
    class_path: str
    options: Mapping[str, Any]
    #: Names of what the class records; the position of each is its number.
    operations: tuple[str, ...]
    uris: tuple[str, ...]
    #: So many of them, at the end, are not for connections.
    watched: int
    access: LdapAccess
    request_timeout_ns: int
    clients: int
    first_client: int
    client_stride: int
    total_clients: int
    think_time_ns: int
    #: None: a closed loop.
    arrivals: ArrivalSettings | None
    #: Sessions of the whole run; 0: no end.
    total_operations: int
    start_ns: int
    end_ns: int
    reconnect_operations: int
    reconnect_ns: int
    connect_spacing_ns: int
    boundaries_ns: tuple[int, ...]
    measure_start_ns: int
    measure_end_ns: int
    ramp_up_ns: int
    grace_ns: int
    seed: int
    #: What the agent's operator allows.
    limits: AgentLimits

    @property
    def is_open(self) -> bool:
        return self.arrivals is not None

    def number(self, index: int) -> int:
        """Of this agent's client `index` in the whole run."""
        return self.first_client + index * self.client_stride


class ClientProcess:
    """The main thread's work, from set-up to tear-down."""

    def __init__(
        self,
        settings: PythonStreamSettings,
        index: int,
        job_class: type[PythonJob],
        channel: Channel,
        arrivals: SharedArrivals | None,
    ) -> None:
        self._settings = settings
        self._index = index
        self._class = job_class
        self._channel = channel
        self._sending = threading.Lock()
        self._arrivals = arrivals
        module = importlib.import_module("ldapslam.agent._engine")
        self._recorder = Recorder(module.Histogram, is_open=settings.is_open)
        number = settings.number(index)
        self._client = Client(
            number=number,
            total=settings.total_clients,
            uri=settings.uris[number % (len(settings.uris) - settings.watched)],
            uris=settings.uris,
            access=settings.access,
            request_timeout_s=settings.request_timeout_ns / 1e9,
            seed=f"{settings.seed}/{settings.name}/{number}",
            operations={name: n for n, name in enumerate(settings.operations)},
            recorder=self._recorder,
            is_measured=self._is_measured,
            drain_s=settings.grace_ns / 1e9,
            limits=settings.limits,
        )
        self._pid = os.getpid()
        self._has_forked = False
        self._t0_ns = 0
        #: When the load ends, CLOCK_MONOTONIC; a stop brings it forward.
        self._end_ns = 0
        self._start_error_ns = 0
        self._connected_ns = 0
        self._sessions = 0
        #: Set when the main thread sends no more requests; then by the reporter, when
        #: the last interval is closed.
        self._idle = threading.Event()
        self._closed = threading.Event()

    def serve(self) -> None:
        """All of it; raises what belongs to the host's `failed` and `fault`."""
        job = self._prepare()
        self._send("ready")
        message = self._channel.recv()
        if message[0] != "start":
            self._disconnect()
            return
        self._t0_ns = message[1]
        self._end_ns = self._t0_ns + min(
            self._settings.boundaries_ns[-1], self._settings.end_ns or NEVER_NS
        )
        reporter = threading.Thread(target=self._report, name="reporter", daemon=True)
        reporter.start()
        try:
            self._run(job)
        except RunStopped as error:
            self._check_stopped(error)
        job.drain(self._client)
        self._idle.set()
        self._send("idle")
        self._closed.wait()
        self._tear_down(job)
        if self._client._connection is not None:
            # after the last interval: booked with what the class asked
            self._client.count_request("unbind")
        self._disconnect()
        self._send_end()

    def _check_stopped(self, error: RunStopped) -> None:
        """RunAborted when it is the class's own: a client less is a load of its own."""
        is_over = time.monotonic_ns() >= self._end_ns
        if not is_over and not self._client._stopping.is_set():
            raise RunAborted(
                f"{self._settings.class_path!r} raised RunStopped before the load was "
                "over",
                hint="`return` ends a session; only `count` ends a stream early",
            ) from error

    # Before the load.

    def _prepare(self) -> PythonJob:
        settings = self._settings
        pause_ns = settings.number(self._index) * settings.connect_spacing_ns
        time.sleep(pause_ns / 1e9)
        if self._class.connects:
            self._connect()
        os.register_at_fork(after_in_parent=self._note_fork)
        try:
            job = self._class(settings.options)
            job.set_up(self._client)
        except LdapSlamError:
            raise
        except (Exception, SystemExit) as error:
            raise ConfigError(
                f"{settings.class_path!r} failed in its set-up: {described(error)}",
                hint="the engine's log on the agent has the traceback",
            ) from error
        finally:
            self._end_if_forked()
        if self._has_forked:
            # a copy that comes back too, and fails, must be heard before `ready` is
            time.sleep(_COPY_RETURNS_S)
        return job

    def _note_fork(self) -> None:
        self._has_forked = True

    def _end_if_forked(self) -> None:
        """A class that forked may come back twice: the copy must not be a client."""
        if os.getpid() != self._pid:
            error = ConfigError(
                f"{self._settings.class_path!r} forked, and its copy returned",
                hint="run programs with subprocess, or end the copy with os._exit",
            )
            self._send("failed", error.to_dict())
            os._exit(1)

    def _connect(self) -> None:
        settings, client = self._settings, self._client
        begun_ns = time.monotonic_ns()
        connection = connect(
            client.uri,
            settings.access,
            new=python_job.Connection,
            note_request=lambda kind: self._recorder.count(_SET_UP_COUNTERS[kind]),
        )
        connection.timeout = settings.request_timeout_ns / 1e9
        connection.set_option(ldap.OPT_TIMEOUT, connection.timeout)
        # from now on its requests are the class's
        connection.client = client
        self._connected_ns = time.monotonic_ns()
        self._recorder.connected(self._connected_ns - begun_ns)
        self._sessions = 0
        client._connection, client._is_lost = connection, False

    def _disconnect(self) -> None:
        client = self._client
        connection, client._connection = client._connection, None
        if connection is None:
            return
        connection.client = None
        self._recorder.count("unbinds")
        with contextlib.suppress(ldap.LDAPError):
            connection.unbind_s()

    # The load.

    def _run(self, job: PythonJob) -> None:
        settings = self._settings
        begin_ns = self._t0_ns + settings.start_ns
        self._wait_until(self._t0_ns)
        self._start_error_ns = max(0, time.monotonic_ns() - self._t0_ns)
        self._send("started", self._start_error_ns)
        if self._arrivals is not None:
            self._run_open(job, self._arrivals)
            return
        begin_ns += settings.ramp_up_ns * self._index // settings.clients
        self._run_closed(job, begin_ns)

    def _run_closed(self, job: PythonJob, due_ns: int) -> None:
        sessions_left = self._own_sessions()
        while sessions_left != 0:
            self._wait_until(due_ns)
            due_ns = max(due_ns, self._make_usable())
            self._session(job, due_ns)
            due_ns = time.monotonic_ns() + self._settings.think_time_ns
            sessions_left -= 1

    def _own_sessions(self) -> int:
        """Below zero: no end."""
        total, clients = self._settings.total_operations, self._settings.total_clients
        if not total:
            return -1
        return max(0, (total - self._client.number + clients - 1) // clients)

    def _run_open(self, job: PythonJob, arrivals: SharedArrivals) -> None:
        while True:
            self._make_usable()
            now_ns = time.monotonic_ns()
            if now_ns >= self._end_ns:
                return  # what waits is dropped by the reporter
            due_ns, dropped = arrivals.take(
                now_ns - self._t0_ns, self._end_ns - self._t0_ns
            )
            self._drop(dropped)
            if due_ns is None:
                return
            due_ns += self._t0_ns
            self._client._slot_free_ns = now_ns
            if due_ns > now_ns:
                self._wait_until(due_ns)
            self._session(job, due_ns)

    def _drop(self, arrivals_ns: list[int]) -> None:
        for arrival_ns in arrivals_ns:
            self._recorder.drop(0, self._is_measured(self._t0_ns + arrival_ns))

    def _is_measured(self, intended_ns: int) -> bool:
        since_t0_ns = intended_ns - self._t0_ns
        settings = self._settings
        return settings.measure_start_ns <= since_t0_ns < settings.measure_end_ns

    def _wait_until(self, due_ns: int) -> None:
        """RunStopped: the load ends before."""
        stopping = self._client._stopping
        while True:
            now_ns = time.monotonic_ns()
            if now_ns >= self._end_ns:
                raise RunStopped
            if now_ns >= due_ns:
                return
            left_s = (min(due_ns, self._end_ns) - now_ns) / 1e9
            # a stop is a little ahead, so that all clients hear of it in time
            if stopping.is_set() or left_s <= _SLEEP_S:
                time.sleep(left_s)
            else:
                # a plain sleep wakes up sooner than a wait that can be cut short
                stopping.wait(left_s - _SLEEP_S)

    def _make_usable(self) -> int:
        """Reconnect where that is needed; since when the client can send, or 0."""
        settings, client = self._settings, self._client
        if client._connection is None and not client._is_lost:
            return 0
        age_ns = time.monotonic_ns() - self._connected_ns
        is_worn = 0 < settings.reconnect_operations <= self._sessions
        is_old = 0 < settings.reconnect_ns <= age_ns
        if not (client._is_lost or is_worn or is_old):
            return 0
        if client._is_lost:
            self._recorder.count("disconnects")
            if not self._class.connects:
                client._is_lost = False
                return 0
        outage = Outage(self._recorder, is_down=client._is_lost)
        self._disconnect()
        back_off_s = _BACK_OFF_S[0]
        while True:
            try:
                self._connect()
                outage.tally()
                return self._connected_ns
            except LdapSlamError:
                self._recorder.count("connect_failures")
            outage.is_down = True
            # many connections are lost at once: they must not come back in step
            wait_s = back_off_s * client.random.uniform(0.5, 1.0)
            retry_ns = time.monotonic_ns() + round(wait_s * 1e9)
            while (now_ns := time.monotonic_ns()) < retry_ns:
                outage.tally()
                self._wait_until(min(retry_ns, now_ns + _TALLY_NS))
            back_off_s = min(2 * back_off_s, _BACK_OFF_S[1])

    def _session(self, job: PythonJob, due_ns: int) -> None:
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

    def _tear_down(self, job: PythonJob) -> None:
        timer = threading.Timer(TEAR_DOWN_LIMIT_S, self._give_up_tear_down)
        timer.daemon = True
        timer.start()
        try:
            job.tear_down(self._client)
        except (Exception, SystemExit):
            traceback.print_exc()
        timer.cancel()

    def _give_up_tear_down(self) -> None:
        self._send_end()
        os._exit(1)

    def _send_end(self) -> None:
        self._send("ended", self._client._requests, self._client._notes)

    # The reporter's thread.

    def _send(self, kind: str, *content: Any) -> None:
        with self._sending, contextlib.suppress(OSError):
            self._channel.send((kind, *content))

    def _report(self) -> None:
        try:
            self._report_intervals()
        except EOFError:
            os._exit(EXIT_ORPHANED)
        except BaseException:
            traceback.print_exc()
            os._exit(1)

    def _report_intervals(self) -> None:
        settings = self._settings
        # a client of its own leads: it tells of the backlog while no client is free
        leads = self._arrivals if self._index == 0 else None
        arrivals = leads.attached() if leads is not None else None
        usage = Usage(self._client)
        start_ns = self._t0_ns
        run_end_ns = self._t0_ns + settings.boundaries_ns[-1]
        for boundary_ns in settings.boundaries_ns:
            run_end_ns = self._hear_until(self._t0_ns + boundary_ns, run_end_ns)
            # a stop may come before the start
            now_ns = max(start_ns, time.monotonic_ns())
            backlog = 0
            if arrivals is not None:
                end_ns = self._end_ns - self._t0_ns
                backlog, dropped = arrivals.note(now_ns - self._t0_ns, end_ns)
                self._drop(dropped)
            self._send_interval("interval", start_ns, now_ns, usage, backlog)
            start_ns = now_ns
            if run_end_ns <= self._t0_ns + boundary_ns:
                break
        self._client._stopping.set()
        grace_end_ns = run_end_ns + settings.grace_ns
        has_ended = self._idle.wait(max(0, grace_end_ns - time.monotonic_ns()) / 1e9)
        if arrivals is not None:
            self._drop(arrivals.end(self._end_ns - self._t0_ns))
        now_ns = max(start_ns, time.monotonic_ns())
        if not has_ended:
            self._recorder.give_up_all(now_ns)
        self._send_interval("final", start_ns, now_ns, usage, 0)
        self._closed.set()
        if not has_ended:
            self._send_end()
            os._exit(1)

    def _hear_until(self, boundary_ns: int, run_end_ns: int) -> int:
        """Wait for the end of an interval, or of the load; when the load ends."""
        while True:
            left_ns = min(boundary_ns, run_end_ns) - time.monotonic_ns()
            if left_ns <= 0:
                return run_end_ns
            if self._channel.poll(left_ns / 1e9):
                kind, stop_ns = self._channel.recv()
                if kind == "stop":
                    run_end_ns = min(run_end_ns, stop_ns)
                    self._end_ns = min(self._end_ns, run_end_ns)
                    self._client._stopping.set()

    def _send_interval(
        self, kind: str, start_ns: int, end_ns: int, usage: Usage, backlog: int
    ) -> None:
        figures: IntervalFigures = self._recorder.close_interval(backlog=backlog)
        worker = usage.worker_row(end_ns - start_ns)
        self._send(kind, start_ns, end_ns, figures, worker)


def main(
    settings: PythonStreamSettings,
    index: int,
    job_class: type[PythonJob],
    channel: Channel,
    arrivals: SharedArrivals | None,
) -> int:
    """The process's whole life after the fork; its exit status."""
    if arrivals is not None:
        arrivals.attach()
    process: ClientProcess | None = None
    try:
        process = ClientProcess(settings, index, job_class, channel, arrivals)
        process.serve()
    except LdapSlamError as error:
        traceback.print_exc()
        channel.send(("failed", error.to_dict()))
        return 1
    except (EOFError, BrokenPipeError):
        return EXIT_ORPHANED
    except BaseException as error:
        traceback.print_exc()
        failure = RunAborted(
            f"{settings.class_path!r} raised {described(error)}",
            hint="what can fail belongs into `with client.operation(…)`; the engine's "
            "log on the agent has the traceback",
        )
        channel.send(("failed", failure.to_dict()))
        return 1
    sys.stdout.flush()
    sys.stderr.flush()
    return 0
