# SPDX-License-Identifier: Apache-2.0
"""What a monitor is, and how those that ask a directory come to it.

The observer calls `open` of a monitor once, `sample` at every tick of `every_ns`, and
`close`: from different threads, but never one while another is under way. What cannot
be read is NaN; a sample that has nothing at all is an error, and the next tick tries
again.
"""

from __future__ import annotations

import dataclasses
import math
import select
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import ldap

from ldapslam.base.errors import TargetUnreachable
from ldapslam.directory.access import connect, error_text
from ldapslam.jobs.connection_settings import ConnectionSettings
from ldapslam.jobs.fields.connection import Bind
from ldapslam.results.monitor_records import STARTED, Metric

__all__ = [
    "MISSING",
    "STARTED",
    "Directory",
    "Metric",
    "Monitor",
    "TargetAccess",
]

MISSING = math.nan


class Monitor(Protocol):
    """One source of figures; `name` is unique in the run."""

    @property
    def name(self) -> str: ...
    @property
    def every_ns(self) -> int:
        """Time between samples; 0: the run's interval."""

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Fixed once `open` has returned."""

    def open(self) -> Mapping[str, Any]:
        """Facts for the manifest; LdapSlamError."""

    def sample(self) -> Sequence[float]:
        """A value for each metric, NaN where missing; LdapSlamError when all are."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class TargetAccess:
    """How to come to one server: TLS, addresses and the job's own bind."""

    access: ConnectionSettings
    #: Hears the kind of every request, for the books.
    note_request: Callable[[str], None]

    def bound_as(self, bind: Bind | None) -> TargetAccess:
        """The same with the password of `bind` resolved; ConfigError. None: itself."""
        if bind is None:
            return self
        return dataclasses.replace(self, access=self.access.bound_as(bind))


class Directory:
    """A connection to a server that is made anew when it was lost."""

    def __init__(self, uri: str, target: TargetAccess) -> None:
        self.uri = uri
        self._target = target
        self._connection: Any = None

    def read(
        self,
        base_dn: str,
        scope: int = ldap.SCOPE_BASE,
        attributes: Sequence[str] = ("*", "+"),
        filter_text: str = "(objectClass=*)",
    ) -> list[tuple[str, dict[str, list[bytes]]]]:
        """The entries found, attribute names in lower case; none where the base is not
        there or may not be seen. TargetError when there is no answer."""
        wanted = (base_dn, scope, filter_text, list(attributes))
        try:
            try:
                found = self._search(*wanted)
            except ldap.SERVER_DOWN:
                found = self._search(*wanted)
        except (ldap.NO_SUCH_OBJECT, ldap.INSUFFICIENT_ACCESS):
            return []
        except ldap.LDAPError as error:
            self.close()
            raise TargetUnreachable(self.uri, error_text(error)) from error
        return [
            (dn, {name.lower(): values for name, values in entry.items()})
            for dn, entry in found
            if dn is not None
        ]

    def _search(self, *wanted: Any) -> Any:
        """SERVER_DOWN when the connection was lost: the next search makes another.

        A server that closes idle connections sees nothing of what comes after that, so
        only a search that was answered, or may be yet, is noted.
        """
        if self._connection is not None and _has_hung_up(self._connection):
            self._forget()
        if self._connection is None:
            self._connection = connect(
                self.uri, self._target.access, note_request=self._target.note_request
            )
        timeout_s = self._target.access.connect_timeout_ns / 1e9
        try:
            found = self._connection.search_ext_s(*wanted, timeout=timeout_s)
        except ldap.SERVER_DOWN:
            self._forget()
            raise
        except ldap.LDAPError:
            self._target.note_request("search")
            raise
        self._target.note_request("search")
        return found

    def close(self) -> None:
        """Unbind, if it is connected."""
        if self._connection is None:
            return
        is_heard = not _has_hung_up(self._connection)
        if self._forget() and is_heard:
            self._target.note_request("unbind")

    def _forget(self) -> bool:
        """Close; whether that went well."""
        connection, self._connection = self._connection, None
        try:
            connection.unbind_s()
        except ldap.LDAPError:
            return False
        return True


def _has_hung_up(connection: Any) -> bool:
    """Has the server closed it, as far as this host knows?"""
    try:
        fileno = connection.get_option(ldap.OPT_DESC)
    except (ldap.LDAPError, ValueError):
        return True
    if fileno < 0:
        return True
    poll = select.poll()
    poll.register(fileno, select.POLLRDHUP)
    return bool(poll.poll(0))
