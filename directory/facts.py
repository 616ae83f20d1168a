# SPDX-License-Identifier: Apache-2.0
"""What a server is and how it is set up, for the run's manifest.

Read from cn=config as far as the job's bind DN may: the settings that decide the
figures (back end, indexes, caches, threads, logs) and commits that do not wait for the
disk. Settings keep the server's own names and texts. Only attributes named here are
read: never passwords or the credentials of replication. A setting that the server does
not have is left out: its default counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import ldap

from ldapslam.directory.control_connection import (
    ControlConnection,
    Entry,
    text_of,
    texts_of,
)
from ldapslam.directory.counts import ServerKind

_SLAPD_GLOBAL = (
    "olcThreads olcListenerThreads olcThreadQueues olcConnMaxPending "
    "olcConnMaxPendingAuth olcIdleTimeout olcSizeLimit olcTimeLimit olcLogLevel "
    "olcServerID"
).split()
_SLAPD_DATABASE = (
    "olcDatabase olcSuffix olcReadOnly olcLastMod olcSizeLimit olcLimits "
    "olcMultiProvider olcMirrorMode olcDbDirectory olcDbIndex olcDbMaxSize "
    "olcDbMaxReaders olcDbMaxEntrySize olcDbMultival olcDbSearchStack olcDbRtxnSize "
    "olcDbMode olcDbEnvFlags olcDbNoSync olcDbCheckpoint olcDbCacheSize "
    "olcDbIDLcacheSize olcDbDNcacheSize olcDbDirtyRead olcDbConfig"
).split()
_SLAPD_OVERLAY = ("olcOverlay", "olcSpCheckpoint", "olcSpSessionlog")
#: Those with which a commit may be lost when the host fails.
_SLAPD_DURABILITY = ("olcDbNoSync", "olcDbEnvFlags", "olcDbCheckpoint")

_DS389_GLOBAL = (
    "nsslapd-threadnumber nsslapd-maxdescriptors nsslapd-conntablesize "
    "nsslapd-numlisteners nsslapd-ioblocktimeout nsslapd-idletimeout nsslapd-sizelimit "
    "nsslapd-timelimit nsslapd-enable-turbo-mode nsslapd-accesslog-logging-enabled "
    "nsslapd-accesslog-logbuffering nsslapd-accesslog-level nsslapd-errorlog-level "
    "nsslapd-auditlog-logging-enabled nsslapd-plugin-logging nsslapd-syntaxcheck "
    "nsslapd-security nsslapd-localhost nsslapd-port nsslapd-securePort"
).split()
_DS389_BACK_END = (
    "nsslapd-backend-implement nsslapd-lookthroughlimit nsslapd-idlistscanlimit "
    "nsslapd-pagedlookthroughlimit nsslapd-cache-autosize nsslapd-cache-autosize-split "
    "nsslapd-dbcachesize nsslapd-search-bypass-filter-test "
    "nsslapd-db-durable-transaction nsslapd-db-transaction-wait "
    "nsslapd-db-transaction-batch-val nsslapd-db-checkpoint-interval nsslapd-db-locks "
    "nsslapd-mdb-max-size nsslapd-mdb-max-readers nsslapd-mdb-max-dbs"
).split()
_DS389_DATABASE = (
    "cn nsslapd-suffix nsslapd-readonly nsslapd-cachesize nsslapd-cachememsize "
    "nsslapd-dncachememsize nsslapd-directory nsslapd-require-index"
).split()
_DS389_DURABILITY = (
    "nsslapd-db-durable-transaction nsslapd-db-transaction-batch-val".split()
)
_DS389_REPLICA = "nsDS5ReplicaRoot nsDS5ReplicaType nsDS5ReplicaId nsDS5Flags".split()
_SLAPD_FILTER = "(|(objectClass=olcDatabaseConfig)(objectClass=olcOverlayConfig))"
_REFERRALS = "(olcUpdateRef=*)"
_INSTANCES = "(objectClass=nsBackendInstance)"
_ENABLED_PLUGINS = "(&(objectClass=nsSlapdPlugin)(nsslapd-pluginEnabled=on))"
_REPLICAS = "(objectClass=nsDS5Replica)"
_INDEXES = "(objectClass=nsIndex)"
_LDBM_DN = "cn=ldbm database,cn=plugins,cn=config"


def server_facts(connection: ControlConnection, kind: ServerKind) -> dict[str, Any]:
    """The facts of one server, as JSON-able data; TargetError.

        kind, vendor, version, backends,    backends: their implementations
        settings: {name: value}             of the server as a whole
        databases: [{name: value}]          each with its indexes and overlays
        durability: [{name: value}]         durability given up for speed, if any:
                                            of each database, or of all in common
        plugins: [name]                     overlays, or plug-ins that are enabled
        replication: [{name: value}]        roles and ids, without credentials
        unreadable: [DN]

    A value is a text, or a list of texts.
    """
    if kind is ServerKind.SLAPD:
        return _slapd(connection)
    if kind is ServerKind.DS389:
        return _ds389(connection)
    root_dse = connection.read("", ["vendorName", "vendorVersion"])
    return {
        "kind": str(kind),
        "vendor": text_of(root_dse, "vendorname"),
        "version": text_of(root_dse, "vendorversion"),
        "unreadable": ["cn=config"],
    }


def _slapd(connection: ControlConnection) -> dict[str, Any]:
    version = text_of(connection.read("cn=Monitor", ["monitoredInfo"]), "monitoredinfo")
    root = connection.read("cn=config", _SLAPD_GLOBAL)
    unreadable = {"cn=Monitor": version is None, "cn=config": root is None}
    databases, overlays = [], []
    wanted = (*_SLAPD_DATABASE, *_SLAPD_OVERLAY)
    for dn, entry in connection.search(
        "cn=config", ldap.SCOPE_SUBTREE, wanted, _SLAPD_FILTER
    ):
        if "olcoverlay" in entry:
            overlays.append((dn, _settings(entry, _SLAPD_OVERLAY)))
        elif "olcsuffix" in entry:
            databases.append((dn, _settings(entry, _SLAPD_DATABASE)))
    for dn, database in databases:
        of_database = [one for at, one in overlays if at.lower().endswith(dn.lower())]
        if of_database:
            database["overlays"] = of_database
    found = [database for _, database in databases]
    referrals = connection.search(
        "cn=config", ldap.SCOPE_SUBTREE, ["olcSuffix", "olcUpdateRef"], _REFERRALS
    )
    return {
        "kind": str(ServerKind.SLAPD),
        "vendor": "OpenLDAP",
        "version": version,
        "backends": _types(found, "olcDatabase"),
        "settings": _settings(root or {}, _SLAPD_GLOBAL),
        "databases": found,
        "durability": _durability(found, "olcSuffix", _SLAPD_DURABILITY),
        "plugins": _types([one for _, one in overlays], "olcOverlay"),
        "replication": [
            {"suffix": text_of(entry, "olcsuffix"), "update_referral": referral}
            for _, entry in referrals
            for referral in texts_of(entry, "olcupdateref")
        ],
        "unreadable": [dn for dn, is_hidden in unreadable.items() if is_hidden],
    }


def _ds389(connection: ControlConnection) -> dict[str, Any]:
    root_dse = connection.read("", ["vendorName", "vendorVersion"])
    root = connection.read("cn=config", _DS389_GLOBAL)
    back_end_dn = f"cn=config,{_LDBM_DN}"
    back_end: dict[str, Any] = {}
    # 389-DS keeps those of BDB and LMDB in an entry below the common one
    for _, entry in connection.search(back_end_dn, ldap.SCOPE_SUBTREE, _DS389_BACK_END):
        back_end |= _settings(entry, _DS389_BACK_END)
    unreadable = {"cn=config": root is None, back_end_dn: not back_end}
    instances = connection.search(
        _LDBM_DN, ldap.SCOPE_ONELEVEL, _DS389_DATABASE, _INSTANCES
    )
    plugins = connection.search(
        "cn=plugins,cn=config", ldap.SCOPE_SUBTREE, ["cn"], _ENABLED_PLUGINS
    )
    replicas = connection.search(
        "cn=mapping tree,cn=config", ldap.SCOPE_SUBTREE, _DS389_REPLICA, _REPLICAS
    )
    implementation = back_end.get("nsslapd-backend-implement", "bdb")
    return {
        "kind": str(ServerKind.DS389),
        "vendor": text_of(root_dse, "vendorname"),
        "version": text_of(root_dse, "vendorversion"),
        "backends": [implementation] if back_end else [],
        "settings": {**_settings(root or {}, _DS389_GLOBAL), **back_end},
        "databases": [
            {
                **_settings(entry, _DS389_DATABASE),
                "indexes": _ds389_indexes(connection, dn),
            }
            for dn, entry in instances
        ],
        "durability": _durability([back_end], "nsslapd-suffix", _DS389_DURABILITY),
        "plugins": sorted(
            name for _, entry in plugins for name in texts_of(entry, "cn")[:1]
        ),
        "replication": [_settings(entry, _DS389_REPLICA) for _, entry in replicas],
        "unreadable": [dn for dn, is_hidden in unreadable.items() if is_hidden],
    }


def _ds389_indexes(connection: ControlConnection, database_dn: str) -> list[str]:
    """`attribute kind,kind`, as slapd writes them."""
    names, dn = ["cn", "nsIndexType"], f"cn=index,{database_dn}"
    return sorted(
        f"{name} {','.join(sorted(texts_of(entry, 'nsindextype')))}"
        for _, entry in connection.search(dn, ldap.SCOPE_ONELEVEL, names, _INDEXES)
        for name in texts_of(entry, "cn")[:1]
    )


def _settings(entry: Entry, names: Sequence[str]) -> dict[str, Any]:
    """Those that are there, by their usual names."""
    return {
        name: values[0] if len(values) == 1 else values
        for name in names
        if (values := texts_of(entry, name.lower()))
    }


def _durability(
    databases: Sequence[dict[str, Any]], suffix: str, names: Sequence[str]
) -> list[dict[str, Any]]:
    """The databases that set one of `names`, with their suffixes."""
    return [
        {name: one[name] for name in (suffix, *names) if name in one}
        for one in databases
        if any(name in one for name in names)
    ]


def _types(settings: Sequence[dict[str, Any]], name: str) -> list[str]:
    """Each type once, without the number that cn=config writes before it: {1}mdb."""
    texts = {one[name] for one in settings if isinstance(one.get(name), str)}
    return sorted({re.sub(r"^\{[^}]*\}", "", text) for text in texts})
