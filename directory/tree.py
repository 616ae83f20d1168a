# SPDX-License-Identifier: Apache-2.0
"""The entries below a DN of a server, read page by page with python-ldap.

    tree = DirectoryTree(connection, uri, base)
    for dn, attributes in tree.entries(): …

Memory is that of a page. Referrals are read as entries. A base that is not there is an
empty tree: what a replica lacks is a result. `note_request` hears of every request, for
the reconciliation; a page is a search.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import ldap
from ldap.controls.libldap import SimplePagedResultsControl
from ldap.controls.simple import ManageDSAITControl

from ldapslam.base.errors import TargetError
from ldapslam.directory.access import result_code_of, target_error
from ldapslam.directory.entry_digest import Attributes

#: Entries of a page: enough that round trips do not count.
PAGE_ENTRIES = 500
_PICKED_AT_A_TIME = 32

_FILTER = "(objectClass=*)"
#: nsAccountLock is operational in 389-DS, and yet what somebody has written.
_ATTRIBUTES = ["*", "nsAccountLock"]
_NO_ATTRIBUTES = ["1.1"]
# timeLimitExceeded, sizeLimitExceeded, adminLimitExceeded, unwillingToPerform: the
# server's limits for the identity that reads.
_LIMITS = (3, 4, 11, 53)
_Found = list[tuple[str, Attributes]]


@dataclass(slots=True)
class DirectoryTree:
    """A subtree of a server, over a connection that python-ldap has bound."""

    connection: Any
    #: The URI.
    name: str
    base: str
    note_request: Callable[[str], None] = lambda kind: None
    #: For each page.
    timeout_s: float = 60.0
    page_entries: int = PAGE_ENTRIES

    def entries(self) -> Iterator[tuple[str, Attributes]]:
        """DN and attributes of each entry, nsAccountLock included. TargetError, also
        where attributes are hidden: without them all entries would be equal."""
        for dn, attributes in self._pages(_ATTRIBUTES):
            self._check_readable(dn, attributes)
            yield dn, attributes

    def names(self) -> Iterator[str]:
        """The DN of each entry."""
        return (dn for dn, _ in self._pages(_NO_ATTRIBUTES))

    def pick(self, dns: Iterable[str]) -> Iterator[tuple[str, Attributes]]:
        """The entries with these DNs that are there; TargetError as with `entries`."""
        remaining = iter(dns)
        while batch := list(itertools.islice(remaining, _PICKED_AT_A_TIME)):
            sent = [
                (dn, self._send(dn, ldap.SCOPE_BASE, _ATTRIBUTES, [])) for dn in batch
            ]
            for dn, message_id in sent:
                for _, attributes in self._receive(dn, message_id)[0]:
                    self._check_readable(dn, attributes)
                    yield dn, attributes

    def _pages(self, attributes: list[str]) -> Iterator[tuple[str, Attributes]]:
        paging = SimplePagedResultsControl(False, size=self.page_entries, cookie="")
        while True:
            sent = self._send(self.base, ldap.SCOPE_SUBTREE, attributes, [paging])
            found, controls = self._receive(self.base, sent)
            yield from found
            cookies = [
                control.cookie
                for control in controls
                if control.controlType == paging.controlType
            ]
            if not cookies or not cookies[0]:
                return
            paging.cookie = cookies[0]

    def _send(
        self, base: str, scope: int, attributes: list[str], controls: list[Any]
    ) -> int:
        self.note_request("search")
        controls = [*controls, ManageDSAITControl()]
        try:
            message_id: int = self.connection.search_ext(
                base, scope, _FILTER, attributes, serverctrls=controls
            )
        except ldap.LDAPError as error:
            raise self._failure(error, base) from error
        return message_id

    def _receive(self, base: str, message_id: int) -> tuple[_Found, list[Any]]:
        """Entries and controls of a response; none where the base is not there."""
        try:
            _, messages, _, controls = self.connection.result3(
                message_id, timeout=self.timeout_s
            )
        except ldap.NO_SUCH_OBJECT:
            return [], []
        except ldap.LDAPError as error:
            raise self._failure(error, base) from error
        # a DN of None is a search reference, to entries of another server
        return [(dn, entry) for dn, entry in messages if dn is not None], controls

    def _check_readable(self, dn: str, attributes: Attributes) -> None:
        """Every entry has an objectClass; one without hides its attributes."""
        if "objectClass" in attributes:
            return
        if "objectclass" not in map(str.lower, attributes):
            raise TargetError(
                f"target {self.name!r} does not let the attributes of {dn!r} be read: "
                "not even its objectClass",
                hint="read as an identity that may read all attributes: the rootdn of "
                "slapd, cn=Directory Manager of 389-DS",
            )

    def _failure(self, error: ldap.LDAPError, base: str) -> TargetError:
        hint = "read as an identity without limits: the rootdn of slapd, "
        hint += "cn=Directory Manager of 389-DS"
        is_limit = result_code_of(error) in _LIMITS
        what = f"{base!r} be read"
        return target_error(self.name, what, error, hint if is_limit else None)
