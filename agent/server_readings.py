# SPDX-License-Identifier: Apache-2.0
"""What the servers of a run count and how they are set up, before its load and after.

A server that cannot be read, or that says what nobody expects, has its failure in what
is found of it; the others are read all the same.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ldapslam.agent.control_connection import ControlConnection
from ldapslam.agent.observed_servers import ObservedServers
from ldapslam.agent.server_counts import (
    ServerCounts,
    ServerKind,
    detect,
    read_counts,
)
from ldapslam.agent.server_facts import server_facts
from ldapslam.jobs.errors import LdapSlamError

_log = logging.getLogger(__name__)

#: A server is through with what it was sent when two readings so far apart agree.
_SETTLE_S = 0.1
_SETTLE_LIMIT_S = 5.0


class ServerReadings:
    """For one run: `before`, then `after`."""

    def __init__(self, servers: ObservedServers, uris: Sequence[str]) -> None:
        self._servers = servers
        self._uris = uris
        self._tallies: dict[str, Counter[str]] = {}
        #: URI -> what is known of it so far, JSON-able.
        self.found: dict[str, dict[str, Any]] = {uri: {} for uri in uris}

    def before(self) -> None:
        """kind, facts and counts (`before`) of each server; or `failure`."""
        for uri in self._uris:
            try:
                self.found[uri] = self._before(uri)
            except Exception as error:
                self.found[uri] = failure_of(uri, error)

    def after(self) -> None:
        """Counts (`after`) of those read before, and what the observer asked of them
        meanwhile (`control_operations`); or `failure`."""
        for uri in self._tallies:
            try:
                self.found[uri] |= self._after(uri)
            except Exception as error:
                self.found[uri] |= failure_of(uri, error)

    def _before(self, uri: str) -> dict[str, Any]:
        with self._connection(uri) as connection:
            kind = detect(connection)
            facts = server_facts(connection, kind)
            counts = _settled(connection, kind)
            self._tallies[uri] = self._servers.control(uri).copy()
        return {"kind": str(kind), "facts": facts, "before": counts.to_dict()}

    def _after(self, uri: str) -> dict[str, Any]:
        with self._connection(uri) as connection:
            counts = _settled(connection, detect(connection))
            asked = self._servers.control(uri) - self._tallies[uri]
        return {"after": counts.to_dict(), "control_operations": dict(asked)}

    def _connection(self, uri: str) -> ControlConnection:
        access = self._servers.access(uri)
        return ControlConnection.open(uri, access, self._servers.control(uri))


def _settled(connection: ControlConnection, kind: ServerKind) -> ServerCounts:
    """A reading with all that was sent to the server before, unbinds as well."""
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


def failure_of(what: str, error: Exception) -> dict[str, Any]:
    """The reason, as what is found has it; in the log too."""
    if isinstance(error, LdapSlamError):
        _log.warning("%s: %s", what, error)
        return {"failure": str(error)}
    _log.error("%s", what, exc_info=error)
    return {"failure": f"{type(error).__name__}: {error}"}
