# SPDX-License-Identifier: Apache-2.0
"""The entry that a replication probe writes: is it there, and may it be written?

Asked over a python-ldap connection that is the caller's, by the probe before its first
mark and by `check`. Nothing is changed: whether a value may be written is asked with a
modification that cannot apply, as it deletes a value that no entry has. Servers look
whether it is allowed first.
"""

from __future__ import annotations

import uuid
from typing import Any

import ldap
from ldap.dn import str2dn

from ldapslam.base.errors import TargetError
from ldapslam.directory.access import target_error
from ldapslam.jobs.requests.dn import split_rdn

#: What goes for the parent need not for a new entry.
_OF_ONE_ENTRY = (ldap.INSUFFICIENT_ACCESS, ldap.OBJECT_CLASS_VIOLATION)
_HINTS = {
    ldap.REFERRAL: "it takes no writes: the probe's target is the supplier",
    ldap.NO_SUCH_OBJECT: "the entry above it is not there",
}


def values_of(connection: Any, uri: str, dn: str, attribute: str) -> list[bytes] | None:
    """Of the attribute; None where there is no such entry. TargetError."""
    try:
        found = connection.search_s(dn, ldap.SCOPE_BASE, "(objectClass=*)", [attribute])
    except ldap.NO_SUCH_OBJECT:
        return None
    except ldap.LDAPError as error:
        raise _refused(uri, f"{dn!r} be read", error) from error
    return [
        value
        for found_dn, attributes in found
        if found_dn is not None
        for name, values in attributes.items()
        if name.lower() == attribute.lower()
        for value in values
    ]


def require_writable(connection: Any, uri: str, dn: str, attribute: str) -> None:
    """Of an entry that is there; TargetError."""
    if (error := _write_error(connection, dn, attribute)) is not None:
        raise _refused(uri, f"{attribute} of {dn!r} be written", error) from error


def add(connection: Any, uri: str, dn: str) -> None:
    """A device, named by its cn; TargetError."""
    name, value, _ = str2dn(dn)[0][0]
    try:
        connection.add_s(dn, [("objectClass", [b"device"]), (name, [value.encode()])])
    except ldap.LDAPError as error:
        raise _refused(uri, f"{dn!r} be added", error) from error


def require_parent(connection: Any, uri: str, dn: str, attribute: str) -> str:
    """The DN below which the entry may be added, as far as that can be told; else
    TargetError."""
    parent = split_rdn(dn)[1]
    if values_of(connection, uri, parent, attribute) is None:
        raise TargetError(
            f"{uri} has no {parent!r}, below which the probe adds its entry {dn!r}",
            hint="the options' `dn` is an entry of the tree that is replicated",
        )
    error = _write_error(connection, parent, attribute)
    if error is not None and not isinstance(error, _OF_ONE_ENTRY):
        raise _refused(uri, f"{dn!r} be added", error) from error
    return parent


def _refused(uri: str, what: str, error: ldap.LDAPError) -> TargetError:
    hint = _HINTS.get(type(error), "may the stream's bind DN do that?")
    return target_error(uri, what, error, hint)


def _write_error(connection: Any, dn: str, attribute: str) -> ldap.LDAPError | None:
    nobodys = f"ldapslam-check-{uuid.uuid4()}".encode()
    try:
        connection.modify_s(dn, [(ldap.MOD_DELETE, attribute, [nobodys])])
    except ldap.NO_SUCH_ATTRIBUTE:
        return None
    except ldap.LDAPError as error:
        return error
    return None
