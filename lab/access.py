# SPDX-License-Identifier: Apache-2.0
"""The lab's own connections: bound as the administrator, every operation counted.

A server's counters have the lab's operations too: readers subtract `control`, which is
exact, as the end of each connection is waited for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import ldap

from ldapslam.directory.control_connection import ControlConnection
from ldapslam.jobs.connection_settings import BindSettings, ConnectionSettings
from ldapslam.lab.server import Server

CONNECT_TIMEOUT_S = 5
_ANSWER_TIMEOUT_S = 30


class Access:
    """Connections to the servers of one lab, and the counts of their operations."""

    def __init__(self, password: str) -> None:
        self._password = password.encode()
        self._control: dict[str, Counter[str]] = {}

    def forget(self, server: Server) -> None:
        """The server was started again, and counts from zero."""
        self._control[server.name] = Counter()

    @contextmanager
    def bound(
        self, server: Server, timeout_s: int = CONNECT_TIMEOUT_S
    ) -> Iterator[ControlConnection]:
        """A connection bound as the administrator; TargetUnreachable, BindRejected.

        Its operations have been counted by the server when this returns.
        """
        settings = ConnectionSettings(
            bind=BindSettings(server.admin_dn, self._password),
            connect_timeout_ns=timeout_s * 1_000_000_000,
        )
        # what reached no server is not counted
        attempt: Counter[str] = Counter()
        with ControlConnection.open(server.uri, settings, attempt) as connection:
            connection.control = self._control.setdefault(server.name, Counter())
            connection.control.update(attempt)
            connection.ldap.set_option(ldap.OPT_TIMEOUT, _ANSWER_TIMEOUT_S)
            yield connection
