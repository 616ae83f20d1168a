# SPDX-License-Identifier: Apache-2.0
"""The servers of a lab as an observer comes to them; what tests broke there, mended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import ldap

from ldapslam.directory.replication import ReplicationServer
from ldapslam.jobs.connection_settings import BindSettings, ConnectionSettings
from ldapslam.lab import Server
from support.lab import Lab


def access_of(lab: Lab) -> ConnectionSettings:
    """Bound as the administrator."""
    return ConnectionSettings(
        bind=BindSettings(lab.admin_dn, lab.admin_password_file.read_bytes())
    )


def servers_of(lab: Lab) -> list[ReplicationServer]:
    """The supplier first, each with an empty tally."""
    access = access_of(lab)
    return [ReplicationServer(one.uri, access, Counter()) for one in lab.servers]


def supplier_of(lab: Lab) -> AbstractContextManager[Any]:
    """A connection to it, bound as the administrator."""
    return bound_to(lab, lab.supplier)


@contextmanager
def bound_to(lab: Lab, server: Server) -> Iterator[Any]:
    """A connection to a server, bound as the administrator."""
    connection = ldap.initialize(server.uri)
    connection.simple_bind_s(lab.admin_dn, lab.admin_password_file.read_text())
    try:
        yield connection
    finally:
        connection.unbind_s()


@contextmanager
def silent(lab: Lab, replica: Server) -> Iterator[None]:
    """A replica of slapd's that tells of no changes: its syncprov is off."""

    def switch(value: bytes) -> None:
        with bound_to(lab, replica) as connection:
            found = connection.search_s(
                "cn=config", ldap.SCOPE_SUBTREE, "(olcOverlay=syncprov)", ["1.1"]
            )
            for dn, _ in found:
                connection.modify_s(dn, [(ldap.MOD_REPLACE, "olcDisabled", [value])])

    switch(b"TRUE")
    try:
        yield
    finally:
        switch(b"FALSE")


def mend_entry(lab: Lab, dn: str) -> None:
    """Delete and add anew, on all servers, an entry that is not the same on all."""
    with supplier_of(lab) as connection:
        ((_, entry),) = connection.search_s(dn, ldap.SCOPE_BASE)
        connection.delete_s(dn)
        connection.add_s(dn, list(entry.items()))
