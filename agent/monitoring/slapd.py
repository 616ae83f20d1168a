# SPDX-License-Identifier: Apache-2.0
"""Monitor tables of slapd: cn=Monitor (`database monitor`) and the newest changes.

cn=Connections is never searched below its two counters: slapd would make an entry of
every connection. The searches of a reading are in slapd's counters too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import ldap

from ldapslam.agent.monitoring.reading import (
    MISSING,
    Directory,
    Entry,
    Query,
    Source,
    Table,
    age_s,
    columns_of,
    distinct,
    newest_change,
    number,
    source,
    started,
    text,
    time_s,
)
from ldapslam.base.errors import TargetError
from ldapslam.jobs.fields.thresholds import COUNTED_KINDS

_BASE = "cn=Monitor"
_START = f"cn=Start,cn=Time,{_BASE}"
_DATABASES = f"cn=Databases,{_BASE}"

#: What slapd calls otherwise.
_NAMES = {"modify_dn": "modrdn"}
_FIGURES = columns_of("slapd")
_MDB = _FIGURES.pop("database")
_DATABASE_ATTRIBUTES = (
    "namingContexts",
    "monitorIsShadow",
    *(attribute for attribute, *_ in _MDB),
    "olmSRProviderURIList",
    "olmSRConnection",
    "olmSRSyncPhase",
    "olmSRLastContact",
)
_NOT_INDEXED = re.compile(rb"=(\d{1,20})(?!\d)")
_CSN_TIME = re.compile(rb"(\d{14}\.\d+Z)#")


def slapd_table(directory: Directory, root_dse: Entry) -> Table:
    """The table of this slapd; TargetError when its monitor is hidden."""
    if not directory.read(_BASE, attributes=("cn",)):
        raise TargetError(
            f"server {directory.uri!r} shows no cn=Monitor",
            hint="slapd.conf: `database monitor`, and read access to it for the "
            "monitor's `bind`",
        )
    databases = directory.read(_DATABASES, ldap.SCOPE_SUBTREE, _DATABASE_ATTRIBUTES)
    suffixes = _replicated(directory, root_dse)
    sources = [started(_START, "monitorTimestamp"), *_operations()]
    for rdns, columns in _FIGURES.items():
        sources += [source(f"{rdns},{_BASE}", *one) for one in columns]
    for dn, entry in databases:
        sources += _of_database(dn, entry)
        sources += _of_consumer(dn, entry)
    sources += [newest_change(suffix, "contextCSN", _csn_age_s) for suffix in suffixes]
    return Table(
        (
            *_QUERIES,
            *(Query(one, ldap.SCOPE_BASE, ("contextCSN",)) for one in suffixes),
        ),
        distinct(sources),
        _facts(directory),
    )


_QUERIES = (
    Query(_START, ldap.SCOPE_BASE, ("monitorTimestamp",)),
    Query(
        f"cn=Operations,{_BASE}",
        ldap.SCOPE_SUBTREE,
        ("monitorOpInitiated", "monitorOpCompleted"),
    ),
    Query(f"cn=Current,cn=Connections,{_BASE}", ldap.SCOPE_BASE, ("monitorCounter",)),
    Query(f"cn=Total,cn=Connections,{_BASE}", ldap.SCOPE_BASE, ("monitorCounter",)),
    Query(f"cn=Waiters,{_BASE}", ldap.SCOPE_ONELEVEL, ("monitorCounter",)),
    Query(f"cn=Threads,{_BASE}", ldap.SCOPE_ONELEVEL, ("monitoredInfo",)),
    Query(f"cn=Statistics,{_BASE}", ldap.SCOPE_ONELEVEL, ("monitorCounter",)),
    Query(_DATABASES, ldap.SCOPE_SUBTREE, _DATABASE_ATTRIBUTES),
)


def _facts(directory: Directory) -> dict[str, Any]:
    found = directory.read(_BASE, attributes=("monitoredInfo",))
    start = directory.read(_START, attributes=("monitorTimestamp",))
    return {
        "server": "slapd",
        "version": text(found[0][1], "monitoredInfo") if found else None,
        "started": text(start[0][1], "monitorTimestamp") if start else None,
    }


def _operations() -> list[Source]:
    return [
        source(
            f"{rdn}cn=Operations,{_BASE}",
            f"monitorOp{word}",
            f"{kind}_{word.lower()}",
            "operations",
            "counter",
        )
        for rdn, kind in (
            ("", "operations"),
            *((f"cn={_NAMES.get(kind, kind)},", kind) for kind in COUNTED_KINDS),
        )
        for word in ("Initiated", "Completed")
    ]


def _of_database(dn: str, entry: Entry) -> list[Source]:
    """Columns of an mdb database that holds a suffix."""
    suffix = text(entry, "namingContexts")
    if suffix is None or "olmmdbpagesmax" not in entry:
        return []
    convert = {"not_indexed": _not_indexed}
    return [source(dn, *one, convert.get(one[1], number), of=suffix) for one in _MDB]


def _not_indexed(values: Sequence[bytes]) -> float:
    """Filters that no index served, over all attributes and kinds of index."""
    return float(sum(int(n) for value in values for n in _NOT_INDEXED.findall(value)))


def _of_consumer(dn: str, entry: Entry) -> list[Source]:
    """Metrics of a syncrepl consumer."""
    provider = text(entry, "olmSRProviderURIList")
    if provider is None:
        return []
    return [
        source(dn, attribute, f"syncrepl_{name}", unit, convert=convert, of=provider)
        for name, unit, attribute, convert in (
            ("connected", "1", "olmSRConnection", _is_connected),
            ("persist", "1", "olmSRSyncPhase", _is_persist),
            ("last_contact_age", "s", "olmSRLastContact", _contact_age_s),
        )
    ]


def _is_connected(values: Sequence[bytes]) -> float:
    return float(bool(values[0].strip()))


def _is_persist(values: Sequence[bytes]) -> float:
    return float(values[0] == b"Persist")


def _contact_age_s(values: Sequence[bytes]) -> float:
    if values[0].startswith(b"0000"):
        return MISSING  # never yet
    return age_s([time_s(values)])


def _replicated(directory: Directory, root_dse: Entry) -> list[str]:
    """Suffixes that have a contextCSN to see."""
    suffixes = [
        value.decode("utf-8", "replace") for value in root_dse.get("namingcontexts", ())
    ]
    return [
        suffix
        for suffix in suffixes
        if any(
            "contextcsn" in entry
            for _, entry in directory.read(suffix, attributes=("contextCSN",))
        )
    ]


def _csn_age_s(values: Sequence[bytes]) -> float:
    """Since the newest change of any server id."""
    times = (match[1] for value in values if (match := _CSN_TIME.match(value)))
    return age_s([time_s([one]) for one in times])
