# SPDX-License-Identifier: Apache-2.0
"""Monitor tables of 389-DS: cn=monitor, SNMP counters, databases, replication.

BDB, LMDB and versions differ: only the attributes that a database has when the monitor
is opened are read later. Some "rates" of the server are counters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import ldap

from ldapslam.agent.monitoring.reading import (
    MISSING,
    Columns,
    Convert,
    Directory,
    Kind,
    Query,
    Table,
    age_s,
    columns_of,
    distinct,
    is_true,
    newest_change,
    source,
    started,
    text,
)
from ldapslam.base.errors import TargetError

_MONITOR = "cn=monitor"
_SNMP = "cn=snmp,cn=monitor"
_BACK_END = "cn=ldbm database,cn=plugins,cn=config"
_MAPPING_TREE = "cn=mapping tree,cn=config"
_RUV_FILTER = (
    "(&(nsuniqueid=ffffffff-ffffffff-ffffffff-ffffffff)(objectClass=nsTombstone))"
)

_COLUMNS = columns_of("389-ds")
_SERVER = _COLUMNS["cn=monitor"]
#: The server's values are added; `unauthbinds` are part of the simple ones.
_COUNTS = _COLUMNS["cn=snmp,cn=monitor"]
#: What a monitor of all databases, or of one, may have.
_DATABASE = [
    column
    for entry in ("caches", "bdb", "mdb", "back end caches")
    for column in _COLUMNS[entry]
]

_CHANGES = re.compile(rb"\d+:(\d{1,20})/\d+")
_STATUS = re.compile(rb"Error \((-?\d{1,9})\)")
#: {replica 1 ldap://…} least greatest: a CSN begins with its time in s.
_RUV = re.compile(rb"\{replica \d+[^}]*\} [0-9a-f]+ ([0-9a-f]{8})[0-9a-f]+")


def ds389_table(directory: Directory) -> Table:
    """The table of this server; TargetError when its monitor is hidden."""
    monitor = directory.read(_MONITOR, attributes=("version", "startTime"))
    if not monitor:
        raise TargetError(
            f"server {directory.uri!r} shows no cn=monitor",
            hint="give the monitor a `bind` that may read it",
        )
    queries = [_query(_MONITOR, ("startTime",), _SERVER), _query(_SNMP, (), _COUNTS)]
    sources = [started(_MONITOR, "startTime")]
    sources += [source(_MONITOR, *one) for one in _SERVER]
    sources += [source(_SNMP, *one) for one in _COUNTS]
    for dn, suffix in _databases(directory):
        known = _known(directory, dn)
        queries.append(_query(dn, (), known))
        sources += [source(dn, *one, of=suffix) for one in known]
    for dn, name in _mapped(directory, "cn", "nsds5replicationAgreement"):
        queries.append(_query(dn, (), [one[:4] for one in _AGREEMENT]))
        sources += [source(dn, *one, of=name or dn) for one in _AGREEMENT]
    for _, root in _mapped(directory, "nsds5replicaRoot", "nsds5replica"):
        if root:
            # the RUV is in an entry below, which has an index to be found by
            wanted = root, ldap.SCOPE_SUBTREE, ("nsds50ruv",), _RUV_FILTER
            queries.append(Query(*wanted, finds_one=True))
            sources.append(newest_change(root, "nsds50ruv", _ruv_age_s))
    facts = {
        "server": "389-ds",
        "version": text(monitor[0][1], "version"),
        "started": text(monitor[0][1], "startTime"),
    }
    return Table(tuple(queries), distinct(sources), facts)


def _query(
    dn: str, attributes: Iterable[str], columns: Sequence[tuple[str, str, str, Kind]]
) -> Query:
    names = [name for one in columns for name in one[0].split()]
    return Query(dn, ldap.SCOPE_BASE, (*attributes, *names))


def _databases(directory: Directory) -> list[tuple[str, str]]:
    """DN and back end of every database monitor; no name: of all back ends."""
    found = [
        (f"cn=monitor,{_BACK_END}", ""),
        (f"cn=database,cn=monitor,{_BACK_END}", ""),
    ]
    for dn, entry in directory.read(
        _BACK_END, ldap.SCOPE_ONELEVEL, ("cn",), "(objectClass=nsBackendInstance)"
    ):
        found.append((f"cn=monitor,{dn}", text(entry, "cn") or dn))
    return found


def _known(directory: Directory, dn: str) -> Columns:
    """The columns whose attributes the entry has."""
    has = {name for _, entry in directory.read(dn) for name in entry}
    return tuple(one for one in _DATABASE if one[0] in has)


def _mapped(
    directory: Directory, attribute: str, object_class: str
) -> list[tuple[str, str | None]]:
    """Entries of a class in the mapping tree: DN, and the attribute's value."""
    found = directory.read(
        _MAPPING_TREE,
        ldap.SCOPE_SUBTREE,
        (attribute,),
        f"(objectClass={object_class})",
    )
    return [(dn, text(entry, attribute)) for dn, entry in found]


def _changes(values: Sequence[bytes]) -> float:
    """'1:42/0 2:7/0': of each replica id, changes sent and skipped."""
    return float(sum(int(sent) for sent in _CHANGES.findall(values[0])))


def _status(values: Sequence[bytes]) -> float:
    """0: the last update was good."""
    match = _STATUS.match(values[0])
    return float(match[1]) if match else MISSING


_AGREEMENT: tuple[tuple[str, str, str, Kind, Convert], ...] = (
    (
        "nsds5replicaChangesSentSinceStartup",
        "changes_sent",
        "changes",
        "counter",
        _changes,
    ),
    ("nsds5replicaUpdateInProgress", "update_in_progress", "1", "gauge", is_true),
    ("nsds5replicaLastUpdateStatus", "update_status", "code", "gauge", _status),
)


def _ruv_age_s(values: Sequence[bytes]) -> float:
    """Since the newest change of any replica id, to a second."""
    times = [float(int(m[1], 16)) for value in values if (m := _RUV.match(value))]
    return age_s(times)
