# SPDX-License-Identifier: Apache-2.0
"""A connection to a server under load that is not load itself: every request counts.

`control` is the caller's count of its requests to that server, by kind, for the
reconciliation: each request is added before it is sent. Only the unbind is added when
the server has closed the connection too, which `close` waits for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import ldap

from ldapslam.directory.access import connect, target_error, unbind_and_wait
from ldapslam.jobs.connection_settings import ConnectionSettings

#: Attribute in lower case -> values.
Entry = Mapping[str, Sequence[bytes]]

_ANY = "(objectClass=*)"
#: What is not there, or not for this user.
_NOT_SEEN = (
    ldap.NO_SUCH_OBJECT,
    ldap.INSUFFICIENT_ACCESS,
    ldap.UNWILLING_TO_PERFORM,
)


def noted_in(control: Counter[str]) -> Callable[[str], None]:
    """Adds requests to the count: for functions that take `note_request`."""
    return lambda kind: control.update((kind,))


class ControlConnection:
    """A context manager; for one thread at a time."""

    def __init__(self, uri: str, connection: Any, control: Counter[str]) -> None:
        """`connection` is python-ldap's, bound; it is this object's from now on."""
        self.uri = uri
        self.control = control
        #: For requests that this class does not have; they must be counted.
        self.ldap = connection

    @classmethod
    def open(cls, uri: str, access: ConnectionSettings, control: Counter[str]) -> Self:
        """TargetUnreachable, TlsHandshakeFailed or BindRejected."""
        connection = connect(uri, access, note_request=noted_in(control))
        return cls(uri, connection, control)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def search(
        self,
        base_dn: str,
        scope: int,
        attributes: Sequence[str],
        filter_text: str = _ANY,
    ) -> list[tuple[str, Entry]]:
        """The entries with their DNs; none where the base is not there or is hidden.
        TargetError."""
        self.control["search"] += 1
        try:
            found = self.ldap.search_s(base_dn, scope, filter_text, list(attributes))
        except _NOT_SEEN:
            return []
        except ldap.LDAPError as error:
            what = f"{base_dn!r} be searched"
            raise target_error(self.uri, what, error) from error
        return [
            (dn, {name.lower(): values for name, values in entry.items()})
            for dn, entry in found
            if dn is not None
        ]

    def read(self, dn: str, attributes: Sequence[str]) -> Entry | None:
        """One entry; None where it is not there or may not be read."""
        found = self.search(dn, ldap.SCOPE_BASE, attributes)
        return found[0][1] if found else None

    def close(self) -> None:
        """Unbind, and wait until the server has seen it; harmless when done before."""
        connection, self.ldap = self.ldap, None
        if connection is None:
            return
        if unbind_and_wait(connection):
            self.control["unbind"] += 1


def texts_of(entry: Entry | None, attribute: str) -> list[str]:
    """The values of an attribute (in lower case) as texts; none without the entry."""
    values = entry.get(attribute, ()) if entry is not None else ()
    return [value.decode("utf-8", "replace") for value in values]


def text_of(entry: Entry | None, attribute: str) -> str | None:
    """The first of them."""
    values = texts_of(entry, attribute)
    return values[0] if values else None
