# SPDX-License-Identifier: Apache-2.0
"""The streams of a run that Python classes drive, with the engine's interface.

One host process (host.py) forks the clients and sends snapshots; streams are numbered
as in the plan. Everything but `stop` is for one thread.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import socket
import subprocess
import sys
import time
from multiprocessing.connection import Connection as Channel
from typing import Any

import ldap

from ldapslam.agent.admission.limits import AgentLimits
from ldapslam.agent.lease import Lease
from ldapslam.base.errors import ConfigError, FleetError, LdapSlamError, RunAborted
from ldapslam.jobs.plan import AgentPlan

#: With more processes the host's scheduler would be measured.
MAX_CLIENTS = 1_000
#: Time to import and set up a class, beyond connecting.
SET_UP_LIMIT_S = 60.0
_END_LIMIT_S = 2.0
_HOST_COMMAND = (sys.executable, "-P", "-m", "ldapslam.agent.python_jobs.host")
_NOTES_CHARACTERS = 400_000
#: As the engine's: a stop is announced this much ahead.
_STOP_AHEAD_NS = 10_000_000


class PythonStreams:
    """All streams of a plan that are Python's."""

    def __init__(self, plan: AgentPlan, limits: AgentLimits, lease: Lease) -> None:
        self._plan = dataclasses.replace(plan, streams=(), population=None)
        self._streams = {
            number: stream
            for number, stream in enumerate(plan.streams)
            if stream.engine == "python"
        }
        self._limits = limits
        self._lease = lease
        self._class_paths = {
            stream.name: stream.python.class_path
            for stream in self._streams.values()
            if stream.python is not None
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._snapshots: list[dict[str, Any]] = []
        self._start_error_ns: int | None = None
        self._is_ready = False
        #: After the run: URI -> kind -> requests of the classes; stream -> operation ->
        #: the result codes that they expected; and their notes.
        self._requests: dict[str, dict[str, int]] = {}
        self._expected: dict[str, dict[str, set[int]]] = {}
        self._notes: list[tuple[str, str, dict[str, Any]]] = []

    def prepare(self) -> None:
        limit_s = SET_UP_LIMIT_S
        for stream in self._streams.values():
            if stream.connections > MAX_CLIENTS:
                raise FleetError(
                    f"stream {stream.name!r} needs {stream.connections:,} processes "
                    f"on this agent, the limit is {MAX_CLIENTS:,}",
                    hint="a Python job type has a process for each client: lower the "
                    "number of clients, or spread them over more agents",
                )
            connection = stream.connection
            spacing_ns = stream.total_connections * connection.connect_spacing_ns
            connect_s = (connection.connect_timeout_ns + spacing_ns) / 1e9
            limit_s = max(limit_s, SET_UP_LIMIT_S + connect_s)
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [*_HOST_COMMAND, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        self._channel = Channel(ours.detach())
        self._send(self._plan, self._streams, self._limits, self._lease.folder)
        deadline_s = time.monotonic() + limit_s
        while not self._is_ready:
            if not self._take_message(deadline_s):
                raise ConfigError(
                    f"{self._classes()} was not set up within {SET_UP_LIMIT_S:g} s",
                    hint="its import, its constructor or set_up hangs",
                )

    def start(self, t0_mono_ns: int) -> None:
        self._send("start", t0_mono_ns)

    def stop(self) -> None:
        self._send("stop", time.monotonic_ns() + _STOP_AHEAD_NS)

    def snapshot(self, index: int, timeout_ns: int) -> dict[str, Any] | None:
        """Interval `index` of all streams; None when it is not closed in time."""
        deadline_s = time.monotonic() + timeout_ns / 1e9
        while not self._snapshots:
            if not self._take_message(deadline_s):
                return None
        if index != self._snapshots[0]["index"]:
            raise ValueError("snapshots are read in order, each once")
        return self._snapshots.pop(0)

    def facts(self) -> dict[str, Any]:
        """As the engine's, complete after the final snapshot; without the facts about
        threads."""
        if self._start_error_ns is None and self._channel is not None:
            self._take_message(time.monotonic())
        info = ldap.get_option(ldap.OPT_API_INFO)
        clients = sum(stream.connections for stream in self._streams.values())
        return {
            "libldap": f"{info['vendor_name']} {info['vendor_version']}",
            "tls": str(ldap.get_option(ldap.OPT_X_TLS_PACKAGE)),
            "start_error_ns": self._start_error_ns,
            "workers": clients,
            "connections": clients,
            "python_streams": self._class_paths,
            "python_requests": self._requests,
            "python_expected_codes": {
                stream: {name: sorted(codes) for name, codes in operations.items()}
                for stream, operations in self._expected.items()
            },
            "notes": self._notes_by_kind(),
        }

    def _notes_by_kind(self) -> dict[str, Any]:
        """The classes' notes with their streams, up to the limit of facts."""
        notes: dict[str, list[dict[str, Any]]] = {}
        characters = 0
        for stream, kind, note in self._notes:
            characters += len(kind) + len(json.dumps(note))
            if characters <= _NOTES_CHARACTERS:
                notes.setdefault(kind, []).append({**note, "stream": stream})
        return notes

    def _classes(self) -> str:
        return " or ".join(map(repr, self._class_paths.values()))

    def _send(self, *message: Any) -> None:
        if self._channel is not None:
            with contextlib.suppress(OSError):
                self._channel.send(message)

    def _take_message(self, deadline_s: float) -> bool:
        """False: none came in time."""
        channel = self._channel
        if channel is None:
            raise RunAborted("the Python streams are closed")
        if not channel.poll(max(0.0, deadline_s - time.monotonic())):
            return False
        try:
            kind, *content = channel.recv()
        except (EOFError, OSError):
            status = self._process.wait() if self._process is not None else 0
            raise RunAborted(
                f"the host process of {self._classes()} ended with status {status}",
                hint="the engine's log on the agent has its last words",
            ) from None
        if kind == "ready":
            self._is_ready = True
        elif kind == "started":
            self._start_error_ns = content[0]
        elif kind == "interval":
            self._snapshots.append(content[0])
        elif kind == "final":
            last, self._start_error_ns, self._requests, *content = content
            self._expected, self._notes = content
            self._snapshots.append(last)
        else:
            raise LdapSlamError.from_dict(content[0])
        return True

    def close(self) -> None:
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
