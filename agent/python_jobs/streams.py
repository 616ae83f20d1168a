# SPDX-License-Identifier: Apache-2.0
"""The streams of a run that Python classes drive, with the engine's interface.

    prepare, start, snapshot…, close        stop at any time from start on

Each stream has a host process (python_host.py), and each of its clients a process of
its own. Snapshots have the engine's form; their streams are numbered as in the plan.
Everything but `stop` is for one thread.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from multiprocessing.connection import Connection as Channel
from typing import Any, NoReturn

import ldap

from ldapslam.agent.admission.limits import AgentLimits
from ldapslam.agent.python_jobs.arrivals import NEVER_NS, ArrivalSettings
from ldapslam.agent.python_jobs.client import PythonStreamSettings
from ldapslam.agent.python_jobs.recorder import HostInterval, operation_row, stream_row
from ldapslam.base.errors import ConfigError, FleetError, LdapSlamError, RunAborted
from ldapslam.directory.access import access_of
from ldapslam.jobs.plan import AgentPlan, StreamPlan

#: Each client is a process: of more, the host's scheduler is what is measured.
MAX_CLIENTS = 1_000
#: A class gets so long to be imported and set up, beyond what connecting may take.
SET_UP_LIMIT_S = 60.0
_END_LIMIT_S = 2.0
#: -P: the current folder is not a place to import from.
_HOST_COMMAND = (sys.executable, "-P", "-m", "ldapslam.agent.python_jobs.host")
_NOTES_CHARACTERS = 400_000
#: As the engine's: a stop is so far ahead that all hear of it before.
_STOP_AHEAD_NS = 10_000_000


class PythonStreams:
    """All streams of a plan that are Python's."""

    def __init__(self, plan: AgentPlan, limits: AgentLimits) -> None:
        self._streams = [
            _PythonStream(number, stream, plan, limits)
            for number, stream in enumerate(plan.streams)
            if stream.engine == "python"
        ]
        self._t0_ns = 0
        self._index = 0

    def prepare(self) -> None:
        """Import the classes, connect and set up all clients."""
        for stream in self._streams:
            stream.launch()
        for stream in self._streams:
            stream.wait_until_ready()

    def start(self, t0_mono_ns: int) -> None:
        self._t0_ns = t0_mono_ns
        for stream in self._streams:
            stream.send("start", t0_mono_ns)

    def stop(self) -> None:
        stop_ns = time.monotonic_ns() + _STOP_AHEAD_NS
        for stream in self._streams:
            stream.send("stop", stop_ns)

    def snapshot(self, index: int, timeout_ns: int) -> dict[str, Any] | None:
        """Interval `index` of all streams; None when it is not closed in time. A stream
        that ended before has no part in it."""
        if index != self._index:
            raise ValueError("snapshots are read in order, each once")
        deadline_s = time.monotonic() + timeout_ns / 1e9
        for stream in self._streams:
            if not stream.take_interval(deadline_s):
                return None
        self._index += 1
        return self._snapshot(index)

    def _snapshot(self, index: int) -> dict[str, Any]:
        operations, streams, workers = [], [], []
        starts_ns, ends_ns = [], []
        for stream in self._streams:
            interval = stream.pop_interval()
            if interval is None:
                continue
            starts_ns.append(interval.start_ns - self._t0_ns)
            ends_ns.append(interval.end_ns - self._t0_ns)
            figures = interval.figures
            operations += [
                operation_row(stream.number, operation, measured, each)
                for (operation, measured), each in sorted(figures.operations.items())
            ]
            streams.append(stream_row(stream.number, figures, self._t0_ns))
            workers += [
                {"worker": stream.first_worker(self._streams) + i, **row}
                | {"model": stream.plan.model}
                for i, row in enumerate(interval.workers)
            ]
        return {
            "index": index,
            "start_ns": max(0, min(starts_ns)),
            "end_ns": max(0, *ends_ns),
            "final": all(stream.is_final for stream in self._streams),
            "clock_step_ns": 0,
            "operations": operations,
            "streams": streams,
            "workers": workers,
        }

    def facts(self) -> dict[str, Any]:
        """As the engine's, complete after the final snapshot; but for what is of its
        connections and threads alone: stamps of the kernel, real-time priority."""
        errors_ns = [stream.start_error_ns() for stream in self._streams]
        known_ns = [error_ns for error_ns in errors_ns if error_ns is not None]
        info = ldap.get_option(ldap.OPT_API_INFO)
        clients = sum(stream.plan.connections for stream in self._streams)
        return {
            "libldap": f"{info['vendor_name']} {info['vendor_version']}",
            "tls": str(ldap.get_option(ldap.OPT_X_TLS_PACKAGE)),
            "start_error_ns": (
                max(known_ns) if len(known_ns) == len(errors_ns) else None
            ),
            "workers": clients,
            "connections": clients,
            "python_streams": {
                stream.plan.name: stream.settings.class_path for stream in self._streams
            },
            "python_requests": self._requests(),
            "notes": self._notes(),
        }

    def _notes(self) -> dict[str, Any]:
        """What the classes noted, by kind; each with its stream. Facts have a limit:
        what is beyond it is left out."""
        notes: dict[str, list[dict[str, Any]]] = {}
        characters = 0
        for stream in self._streams:
            for kind, note in stream.notes:
                characters += len(kind) + len(json.dumps(note))
                if characters <= _NOTES_CHARACTERS:
                    named = {**note, "stream": stream.plan.name}
                    notes.setdefault(kind, []).append(named)
        return notes

    def _requests(self) -> dict[str, dict[str, int]]:
        """URI -> kind -> what the classes asked of that server, measured or not."""
        totals: dict[str, Counter[str]] = {}
        for stream in self._streams:
            for uri, counts in stream.requests.items():
                totals.setdefault(uri, Counter()).update(counts)
        return {uri: dict(counts) for uri, counts in totals.items()}

    def close(self) -> None:
        for stream in self._streams:
            stream.close()


class _PythonStream:
    """One stream and its host process."""

    def __init__(
        self, number: int, plan: StreamPlan, run: AgentPlan, limits: AgentLimits
    ) -> None:
        self.number = number
        self.plan = plan
        self.settings = settings_of(plan, run, limits)
        #: Of all clients, once the stream has ended.
        self.requests: dict[str, dict[str, int]] = {}
        self.notes: list[tuple[str, dict[str, Any]]] = []
        self.is_final = False
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._intervals: list[HostInterval] = []
        self._start_error_ns: int | None = None
        self._is_ready = False
        self._has_ended = False

    def launch(self) -> None:
        if self.settings.clients > MAX_CLIENTS:
            raise FleetError(
                f"stream {self.plan.name!r} needs {self.settings.clients:,} processes "
                f"on this agent, the limit is {MAX_CLIENTS:,}",
                hint="a Python job type has a process for each client: lower the "
                "number of clients, or spread them over more agents",
            )
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [*_HOST_COMMAND, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        self._channel = Channel(ours.detach())
        self._channel.send(self.settings)

    def wait_until_ready(self) -> None:
        settings = self.settings
        connect_s = settings.access.connect_timeout_ns / 1e9
        last = settings.number(settings.clients - 1)
        spacing_s = last * settings.connect_spacing_ns / 1e9
        deadline_s = time.monotonic() + SET_UP_LIMIT_S + connect_s + spacing_s
        while not self._is_ready:
            if not self._take_message(deadline_s):
                raise ConfigError(
                    f"{settings.class_path!r} was not set up within "
                    f"{SET_UP_LIMIT_S:g} s",
                    hint="its import, its constructor or set_up hangs",
                )

    def send(self, kind: str, time_ns: int) -> None:
        if self._channel is not None:
            with contextlib.suppress(OSError):
                self._channel.send((kind, time_ns))

    def take_interval(self, deadline_s: float) -> bool:
        """Have the next interval at hand, where there is one."""
        while not self._intervals and not self.is_final:
            if not self._take_message(deadline_s):
                return False
        # what the stream asked of the servers comes after its last interval
        while self.is_final and not self._has_ended:
            if not self._take_message(deadline_s):
                return False
        return True

    def pop_interval(self) -> HostInterval | None:
        return self._intervals.pop(0) if self._intervals else None

    def _take_message(self, deadline_s: float) -> bool:
        """False: there was none in time."""
        channel = self._channel
        if channel is None:
            raise RunAborted("the Python streams are closed")
        if not channel.poll(max(0.0, deadline_s - time.monotonic())):
            return False
        try:
            kind, *content = channel.recv()
        except (EOFError, OSError):
            self._lost()
        if kind == "ready":
            self._is_ready = True
        elif kind == "started":
            self._start_error_ns = content[0]
        elif kind in ("interval", "final"):
            self._intervals.append(content[1])
            self.is_final = kind == "final"
        elif kind == "ended":
            self.requests, self._start_error_ns, self.notes = content
            self._has_ended = True
        else:
            raise self._named(LdapSlamError.from_dict(content[0]))
        return True

    def _named(self, error: LdapSlamError) -> LdapSlamError:
        error.args = (f"stream {self.plan.name!r}: {error.args[0]}", *error.args[1:])
        return error

    def _lost(self) -> NoReturn:
        status = self._process.wait() if self._process is not None else 0
        raise RunAborted(
            f"the host process of {self.settings.class_path!r} ended with status "
            f"{status}",
            hint="the engine's log on the agent has its last words",
        )

    def start_error_ns(self) -> int | None:
        """None until all clients have begun."""
        if self._start_error_ns is None and not self._has_ended:
            self._take_message(time.monotonic())
        return self._start_error_ns

    def first_worker(self, streams: Sequence[_PythonStream]) -> int:
        """Clients of the streams before this one."""
        return sum(stream.settings.clients for stream in streams[: streams.index(self)])

    def close(self) -> None:
        """End the host, and with it what is left of the clients."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._process is None:
            return
        try:
            self._process.wait(_END_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def settings_of(
    stream: StreamPlan, run: AgentPlan, limits: AgentLimits
) -> PythonStreamSettings:
    """The plan as the processes need it: one picklable value, with the secrets."""
    if stream.python is None:
        raise ValueError(f"stream {stream.name!r} is the engine's")
    arrivals = None
    if stream.model == "open":
        arrivals = ArrivalSettings(
            profile=tuple(stream.profile),
            arrivals=stream.arrivals,
            first=stream.first_connection,
            stride=stream.connection_stride,
            count=stream.connections,
            total=stream.total_connections,
            max_backlog=max(1, stream.max_backlog),
            limit=stream.total_operations,
            end_ns=stream.end_ns or NEVER_NS,
            seed=f"{run.seed}/{stream.name}/{run.agent_index}",
        )
    return PythonStreamSettings(
        name=stream.name,
        class_path=stream.python.class_path,
        options=dict(stream.python.options),
        operations=stream.python.operations,
        uris=stream.uris,
        watched=stream.python.watched,
        access=access_of(stream),
        request_timeout_ns=stream.request_timeout_ns,
        clients=stream.connections,
        first_client=stream.first_connection,
        client_stride=stream.connection_stride,
        total_clients=stream.total_connections,
        think_time_ns=stream.think_time_ns,
        arrivals=arrivals,
        total_operations=stream.total_operations,
        start_ns=stream.start_ns,
        end_ns=stream.end_ns,
        reconnect_operations=stream.reconnect_operations,
        reconnect_ns=stream.reconnect_ns,
        connect_spacing_ns=stream.connect_spacing_ns,
        boundaries_ns=run.boundaries_ns,
        measure_start_ns=run.measure_start_ns,
        measure_end_ns=run.measure_end_ns,
        ramp_up_ns=run.ramp_up_ns,
        grace_ns=run.grace_ns,
        seed=run.seed,
        limits=limits,
    )
