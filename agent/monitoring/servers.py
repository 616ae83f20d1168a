# SPDX-License-Identifier: Apache-2.0
"""The servers of a job as an monitor comes to them: allowed, and with a tally."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from ldapslam.agent.admission.addresses import Location, allowed, resolve
from ldapslam.agent.admission.limits import AgentLimits
from ldapslam.agent.host import shares_host
from ldapslam.agent.monitoring.reading import TargetAccess
from ldapslam.base.errors import LdapSlamError
from ldapslam.directory.control_connection import ControlConnection
from ldapslam.directory.counts import ServerKind, detect, read_counts
from ldapslam.directory.facts import server_facts
from ldapslam.jobs.connection_settings import ConnectionSettings
from ldapslam.jobs.model import Job
from ldapslam.jobs.plan import connection_settings
from ldapslam.results.facts import Observation, Reading

_SUPPLIER = "supplier"


class ObservedServers:
    """For one run on one agent; secrets are resolved when they are asked for."""

    def __init__(self, job: Job, limits: AgentLimits, agent: str) -> None:
        self._job = job
        self._limits = limits
        self._agent = agent
        self._locations: dict[str, Location] = {}
        self._controls: dict[str, Counter[str]] = {}
        self._guard = threading.Lock()

    def every(self) -> list[str]:
        """All servers, each once; the suppliers first."""
        roles = sorted(self._job.targets, key=lambda role: role != _SUPPLIER)
        uris = [uri for role in roles for uri in self._job.targets[role]]
        return list(dict.fromkeys(uris))

    def counted(self) -> list[str]:
        """Servers whose counts are reconciled: those with a directory monitor, or all
        when replication is verified."""
        if self._job.verify is not None:
            return self.every()
        roles = [one.directory for one in self._job.monitors if one.directory]
        return [
            uri
            for uri in self.every()
            if any(uri in self._job.targets[role] for role in roles)
        ]

    def control(self, uri: str) -> Counter[str]:
        """The number of requests to the server so far, by kind."""
        return self._controls.setdefault(uri, Counter())

    def target(self, uri: str) -> TargetAccess:
        return TargetAccess(self._access(uri), self._note(uri))

    def access(self, uri: str) -> ConnectionSettings:
        """Bound as the server's monitor says, if it does. TargetNotAllowed,
        TargetUnreachable, or ConfigError without the password."""
        binds = [
            one.bind
            for one in self._job.monitors
            if one.directory and one.bind and uri in self._job.targets[one.directory]
        ]
        return self.target(uri).bound_as(binds[0] if binds else None).access

    def _access(self, uri: str) -> ConnectionSettings:
        """As the job binds, or the first stream that loads the server."""
        job, location = self._job, self._location(uri)
        tls, bind = job.tls, job.bind
        for stream in job.streams:
            if uri in job.targets[stream.target]:
                tls, bind = stream.tls or tls, bind or stream.bind
                break
        access = connection_settings(job, tls, bind).resolved()
        return replace(access, addresses={uri: location.text})

    def is_local(self, uri: str) -> bool:
        return uri.startswith("ldapi:") or shares_host(self._location(uri).addresses)

    def _location(self, uri: str) -> Location:
        if uri not in self._locations:
            self._locations[uri] = allowed(uri, self._limits, self._agent, resolve)
        return self._locations[uri]

    def _note(self, uri: str) -> Callable[[str], None]:
        control = self.control(uri)

        def note(kind: str) -> None:
            with self._guard:  # monitors have threads of their own
                control[kind] += 1

        return note


_log = logging.getLogger(__name__)

#: A server has settled when two readings at this interval agree.
_SETTLE_S = 0.1
_SETTLE_LIMIT_S = 5.0


class ServerReadings:
    """For one run: `before`, then `after`."""

    def __init__(self, servers: ObservedServers, uris: Sequence[str]) -> None:
        self._servers = servers
        self._uris = uris
        self._tallies: dict[str, Counter[str]] = {}
        self.found = dict.fromkeys(uris, Observation())

    def before(self) -> None:
        """kind, facts and counts (`before`) of each server; or `failure`."""
        self._read_all(self._uris, self._before)

    def after(self) -> None:
        """Counts (`after`), and what was asked meanwhile (`control_operations`); or
        `failure`."""
        self._read_all(list(self._tallies), self._after)

    def _read_all(
        self, uris: Sequence[str], read: Callable[[str], Observation]
    ) -> None:
        """Read all servers at once, as each may take long to settle."""

        def found_of(uri: str) -> Observation:
            try:
                return read(uri)
            except Exception as error:
                return Observation(failure=failure_of(uri, error))

        with ThreadPoolExecutor(max(1, len(uris)), "server") as pool:
            for uri, found in zip(uris, pool.map(found_of, uris), strict=True):
                self.found[uri] = self.found[uri].updated(found)

    def _before(self, uri: str) -> Observation:
        with self._connection(uri) as connection:
            kind = detect(connection)
            facts = server_facts(connection, kind)
            counts = _settled(connection, kind)
            self._tallies[uri] = self._servers.control(uri).copy()
        return Observation(kind=str(kind), facts=facts, before=counts)

    def _after(self, uri: str) -> Observation:
        with self._connection(uri) as connection:
            counts = _settled(connection, detect(connection))
            asked = self._servers.control(uri) - self._tallies[uri]
        return Observation(after=counts, control_operations=asked)

    def _connection(self, uri: str) -> ControlConnection:
        access = self._servers.access(uri)
        return ControlConnection.open(uri, access, self._servers.control(uri))


def _settled(connection: ControlConnection, kind: ServerKind) -> Reading:
    """Read until the counts rise by no more than this monitor's own requests."""
    control = connection.control
    until_s = time.monotonic() + _SETTLE_LIMIT_S
    counts, asked = read_counts(connection, kind), control.copy()
    while time.monotonic() < until_s:
        time.sleep(_SETTLE_S)
        before, asked_before = counts, asked
        counts, asked = read_counts(connection, kind), control.copy()
        own = asked - asked_before
        if all(
            count is None or count - (before.operations[name] or 0) == own[name]
            for name, count in counts.operations.items()
        ):
            break
    return counts


def failure_of(what: str, error: Exception) -> str:
    """The failure as a fact; logs it too."""
    if isinstance(error, LdapSlamError):
        _log.warning("%s: %s", what, error)
        return str(error)
    _log.error("%s", what, exc_info=error)
    return f"{type(error).__name__}: {error}"
