# SPDX-License-Identifier: Apache-2.0
"""The servers of a job as an observer comes to them: allowed, and with a tally."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from ldapslam.agent.admission.addresses import Place, allowed, resolve
from ldapslam.agent.admission.limits import AgentLimits
from ldapslam.agent.host import shares_host
from ldapslam.agent.monitoring.base import TargetAccess
from ldapslam.jobs.connection_settings import ConnectionSettings
from ldapslam.jobs.model import Job
from ldapslam.jobs.plan import connection_settings

_SUPPLIER = "supplier"


class ObservedServers:
    """For one run on one agent; secrets are resolved when they are asked for."""

    def __init__(self, job: Job, limits: AgentLimits, agent: str) -> None:
        self._job = job
        self._limits = limits
        self._agent = agent
        self._places: dict[str, Place] = {}
        self._controls: dict[str, Counter[str]] = {}
        self._guard = threading.Lock()

    def every(self) -> list[str]:
        """All servers, each once; the suppliers first."""
        roles = sorted(self._job.targets, key=lambda role: role != _SUPPLIER)
        uris = [uri for role in roles for uri in self._job.targets[role]]
        return list(dict.fromkeys(uris))

    def counted(self) -> list[str]:
        """Servers whose counts belong into the books: those with a monitor of their
        own, and all whose replication is verified."""
        if self._job.verify is not None:
            return self.every()
        roles = [one.directory for one in self._job.monitors if one.directory]
        return [
            uri
            for uri in self.every()
            if any(uri in self._job.targets[role] for role in roles)
        ]

    def control(self, uri: str) -> Counter[str]:
        """What the observer asked of the server so far, by kind."""
        return self._controls.setdefault(uri, Counter())

    def target(self, uri: str) -> TargetAccess:
        """For a monitor."""
        return TargetAccess(self._access(uri), self._note(uri))

    def access(self, uri: str) -> ConnectionSettings:
        """For what is read beside monitors: as the server's own monitor binds, if that
        says so; TargetNotAllowed when this agent's operator does not allow the server,
        TargetUnreachable, ConfigError for a password that cannot be had."""
        binds = [
            one.bind
            for one in self._job.monitors
            if one.directory and one.bind and uri in self._job.targets[one.directory]
        ]
        return self.target(uri).bound_as(binds[0] if binds else None).access

    def _access(self, uri: str) -> ConnectionSettings:
        """As the job binds, or the first stream that loads the server."""
        job, place = self._job, self._place(uri)
        tls, bind = job.tls, job.bind
        for stream in job.streams:
            if uri in job.targets[stream.target]:
                tls, bind = stream.tls or tls, bind or stream.bind
                break
        access = connection_settings(job, tls, bind).resolved()
        return replace(access, addresses={uri: place.text})

    def is_local(self, uri: str) -> bool:
        """Whether the server is on this host."""
        return uri.startswith("ldapi:") or shares_host(self._place(uri).addresses)

    def _place(self, uri: str) -> Place:
        if uri not in self._places:
            self._places[uri] = allowed(uri, self._limits, self._agent, resolve)
        return self._places[uri]

    def _note(self, uri: str) -> Callable[[str], None]:
        control = self.control(uri)

        def note(kind: str) -> None:
            with self._guard:  # monitors have threads of their own
                control[kind] += 1

        return note
