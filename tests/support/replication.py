# SPDX-License-Identifier: Apache-2.0
"""The servers of a lab as an observer comes to them; what tests broke there, mended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ldap

from ldapslam.agent.ldap_access import LdapAccess
from ldapslam.agent.replication import ReplicationServer
from ldapslam.lab import Lab


def access_of(lab: Lab) -> LdapAccess:
    """Bound as the administrator."""
    return LdapAccess(
        start_tls=False,
        ca_file=None,
        cert_file=None,
        key_file=None,
        verify=True,
        bind_dn=lab.admin_dn,
        bind_password=lab.admin_password_file.read_bytes(),
        mechanism=None,
        authcid=None,
        authzid=None,
        connect_timeout_ns=10_000_000_000,
    )


def servers_of(lab: Lab) -> list[ReplicationServer]:
    """The supplier first, each with an empty tally."""
    access = access_of(lab)
    return [ReplicationServer(one.uri, access, Counter()) for one in lab.servers]


@contextmanager
def supplier_of(lab: Lab) -> Iterator[Any]:
    """A connection to it, bound as the administrator."""
    connection = ldap.initialize(lab.supplier.uri)
    connection.simple_bind_s(lab.admin_dn, lab.admin_password_file.read_text())
    try:
        yield connection
    finally:
        connection.unbind_s()


def mend_entry(lab: Lab, dn: str) -> None:
    """Delete and add anew, on all servers, an entry that is not the same on all."""
    with supplier_of(lab) as connection:
        ((_, entry),) = connection.search_s(dn, ldap.SCOPE_BASE)
        connection.delete_s(dn)
        connection.add_s(dn, list(entry.items()))
