# SPDX-License-Identifier: Apache-2.0
"""The lab's own connections: bound as the administrator, every operation tallied.

A server's counters have the lab's operations too. Whoever reads them subtracts the
tally, which is exact: a connection's end is waited for, so that what was done has been
counted by the server, too, when `bound` returns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import ldap

from ldapslam.directory.access import unbind_and_wait
from ldapslam.lab.server import Server

Found = dict[str, dict[str, list[bytes]]]

_CONNECT_TIMEOUT_S = 5
_ANSWER_TIMEOUT_S = 30


class Connection:
    """A bound connection to one server; ldap.LDAPError is passed on."""

    def __init__(self, connection: Any, own: Counter[str]) -> None:
        self._connection = connection
        self._own = own

    def search(
        self,
        base_dn: str,
        scope: int,
        attributes: Sequence[str],
        filter_text: str = "(objectClass=*)",
    ) -> Found:
        """All entries found, by DN; referrals are left out."""
        found = self._connection.search_s(base_dn, scope, filter_text, list(attributes))
        self._own["search"] += 1
        return {dn: attributes for dn, attributes in found if dn is not None}

    def modify(self, dn: str, changes: Sequence[tuple[int, str, Any]]) -> None:
        self._own["modify"] += 1
        self._connection.modify_s(dn, list(changes))

    def add(self, dn: str, attributes: dict[str, list[bytes]]) -> None:
        self._own["add"] += 1
        self._connection.add_s(dn, list(attributes.items()))

    def delete(self, dn: str) -> None:
        self._own["delete"] += 1
        self._connection.delete_s(dn)

    def own_operations(self) -> Counter[str]:
        """The lab's operations on the server so far, by the RFC's names."""
        return self._own.copy()


class Access:
    """Connections to the servers of one lab, and the tallies of their operations."""

    def __init__(self, password: str) -> None:
        self._password = password
        self._own: dict[str, Counter[str]] = {}

    def forget(self, server: Server) -> None:
        """The server was started anew, and counts from nought."""
        self._own[server.name] = Counter()

    @contextmanager
    def bound(
        self, server: Server, timeout_s: int = _CONNECT_TIMEOUT_S
    ) -> Iterator[Connection]:
        """A connection bound as the administrator; ldap.SERVER_DOWN without a server.

        Its operations have been counted by the server when this returns.
        """
        connection = ldap.initialize(server.uri)
        connection.set_option(ldap.OPT_NETWORK_TIMEOUT, timeout_s)
        connection.set_option(ldap.OPT_TIMEOUT, _ANSWER_TIMEOUT_S)
        connection.set_option(ldap.OPT_REFERRALS, 0)
        own = self._own.setdefault(server.name, Counter())
        try:
            connection.simple_bind_s(server.admin_dn, self._password)
        except ldap.LDAPError:
            connection.unbind_s()
            raise
        own["bind"] += 1
        try:
            yield Connection(connection, own)
        finally:
            own["unbind"] += 1
            unbind_and_wait(connection)
