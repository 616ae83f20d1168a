# SPDX-License-Identifier: Apache-2.0
"""How many requests of each kind a server has begun to work on since it started.

    slapd    monitorOpInitiated below cn=Operations,cn=Monitor: every kind. (A request
             counts as completed a moment after the client has the response.)
    389-DS   cn=snmp,cn=monitor: all but unbind, abandon and extended, which only the
             access log has. A supplier's changes to a replica are requests too: their
             number is in its agreements.

Both count a request when it begins. A reading includes its own search and all requests
answered before, so one's own count of requests, right after a reading, is exactly one's
own part of it.
"""

from __future__ import annotations

import re
from enum import StrEnum

import ldap

from ldapslam.directory.control_connection import (
    ControlConnection,
    Entry,
    text_of,
    texts_of,
)
from ldapslam.jobs.fields.thresholds import COUNTED_KINDS
from ldapslam.results.facts import Reading

#: Kinds of requests, as the reconciliation has them (RFC 4511).
KINDS = tuple(sorted(COUNTED_KINDS))

_OPERATIONS_DN = "cn=Operations,cn=Monitor"
_START_DN = "cn=Start,cn=Time,cn=Monitor"
#: cn=monitor's names where they differ from the RFC's.
_SLAPD_NAMES = {"modrdn": "modify_dn"}

_AGREEMENT_FILTER = "(objectClass=nsds5ReplicationAgreement)"
_SENT = "nsds5replicaChangesSentSinceStartup"
#: For each source of changes: replica id ':' sent '/' skipped.
_SENT_OF_SOURCE = re.compile(r"[0-9]+:(?P<sent>[0-9]{1,20})/[0-9]+")
#: A counter of 64 bits has no more digits.
_COUNTER = re.compile(r"[0-9]{1,20}")
_SNMP_DN = "cn=snmp,cn=monitor"
#: `anonymousbinds` and `unauthbinds` are a part of the simple ones; strong are SASL's.
_SNMP_COUNTERS = {
    "add": ("addentryops",),
    "bind": ("simpleauthbinds", "strongauthbinds"),
    "compare": ("compareops",),
    "delete": ("removeentryops",),
    "modify": ("modifyentryops",),
    "modify_dn": ("modifyrdnops",),
    "search": ("searchops",),
}


class ServerKind(StrEnum):
    """The product that a server is."""

    SLAPD = "slapd"
    DS389 = "389-ds"
    OTHER = "other"


def detect(connection: ControlConnection) -> ServerKind:
    """From the root DSE; TargetError."""
    root_dse = connection.read("", ["objectClass", "vendorName"])
    if "OpenLDAProotDSE" in texts_of(root_dse, "objectclass"):
        return ServerKind.SLAPD
    if "389" in (text_of(root_dse, "vendorname") or ""):
        return ServerKind.DS389
    return ServerKind.OTHER


def read_counts(connection: ControlConnection, kind: ServerKind) -> Reading:
    """The counts, with the requests of this reading; None where they are hidden.
    TargetError."""
    if kind is ServerKind.SLAPD:
        return _read_slapd(connection)
    if kind is ServerKind.DS389:
        return _read_ds389(connection)
    return Reading(operations=dict.fromkeys(KINDS), started=None)


def _read_slapd(connection: ControlConnection) -> Reading:
    started = text_of(
        connection.read(_START_DN, ["monitorTimestamp"]), "monitortimestamp"
    )
    operations: dict[str, int | None] = dict.fromkeys(KINDS)
    # last, so that the tally after it and the figures have the same requests
    for _, entry in connection.search(
        _OPERATIONS_DN, ldap.SCOPE_ONELEVEL, ["cn", "monitorOpInitiated"]
    ):
        name = (text_of(entry, "cn") or "").lower()
        name = _SLAPD_NAMES.get(name, name)
        if name in operations:
            operations[name] = _number(entry, "monitoropinitiated")
    return Reading(operations=operations, started=started)


def _read_ds389(connection: ControlConnection) -> Reading:
    started = text_of(connection.read("cn=monitor", ["startTime"]), "starttime")
    sent = _sent_changes(connection)
    names = [name for names in _SNMP_COUNTERS.values() for name in names]
    found = connection.read(_SNMP_DN, names) or {}
    operations: dict[str, int | None] = dict.fromkeys(KINDS)
    for kind, counters in _SNMP_COUNTERS.items():
        values = [_number(found, name) for name in counters]
        known = [value for value in values if value is not None]
        operations[kind] = sum(known) if len(known) == len(values) else None
    return Reading(operations=operations, started=started, sent=sent)


def _sent_changes(connection: ControlConnection) -> dict[str, int]:
    sent: dict[str, int] = {}
    for _, entry in connection.search(
        "cn=mapping tree,cn=config",
        ldap.SCOPE_SUBTREE,
        ["nsDS5ReplicaHost", "nsDS5ReplicaPort", _SENT],
        _AGREEMENT_FILTER,
    ):
        host, port = (
            text_of(entry, f"nsds5replica{name}") or "" for name in ("host", "port")
        )
        changes = _SENT_OF_SOURCE.finditer(text_of(entry, _SENT.lower()) or "")
        place = f"{host.lower()}:{port}"
        sent[place] = sent.get(place, 0) + sum(int(one["sent"]) for one in changes)
    return sent


def _number(entry: Entry, attribute: str) -> int | None:
    text = text_of(entry, attribute)
    return int(text) if text is not None and _COUNTER.fullmatch(text) else None
