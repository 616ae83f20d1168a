# SPDX-License-Identifier: Apache-2.0
"""What the servers of a run count and how they are set up, before its load and after.

Servers are read at the same time, each by a thread of its own: with other clients on
them, each is read for as long as it may take to settle, and the run waits for all.
A server that cannot be read, or that says what nobody expects, has its failure in what
is found of it; the others are read all the same.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ldapslam.agent.monitoring.servers import ObservedServers
from ldapslam.base.errors import LdapSlamError
from ldapslam.directory.control_connection import ControlConnection
from ldapslam.directory.counts import ServerCounts, ServerKind, detect, read_counts
from ldapslam.directory.facts import server_facts

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
        self._read_all(self._uris, self._before)

    def after(self) -> None:
        """Counts (`after`) of those read before, and what the observer asked of them
        meanwhile (`control_operations`); or `failure`."""
        self._read_all(list(self._tallies), self._after)

    def _read_all(
        self, uris: Sequence[str], read: Callable[[str], dict[str, Any]]
    ) -> None:
        """All at once: what one takes to settle is no matter of how many there are."""

        def found_of(uri: str) -> dict[str, Any]:
            try:
                return read(uri)
            except Exception as error:
                return failure_of(uri, error)

        with ThreadPoolExecutor(max(1, len(uris)), "server") as pool:
            for uri, found in zip(uris, pool.map(found_of, uris), strict=True):
                self.found[uri] |= found

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
