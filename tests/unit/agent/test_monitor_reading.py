# SPDX-License-Identifier: Apache-2.0
"""Figures out of a server's entries: what values mean, and what is missing."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import ldap
import pytest

from ldapslam.agent.monitoring.choose import directory_table
from ldapslam.agent.monitoring.reading import (
    EntriesMonitor,
    Table,
    TargetAccess,
    entry_table,
    fill,
    folded,
    number,
    time_s,
)
from ldapslam.base.errors import TargetError
from ldapslam.results.records import STARTED

Entry = dict[str, list[bytes]]


class FakeDirectory:
    """Entries by DN, read as a Directory's; knows which searches it was asked."""

    def __init__(self, entries: dict[str, dict[str, str | list[str]]]) -> None:
        self.uri = "ldap://ds1.example.com"
        self.searches: list[tuple[str, int]] = []
        self.entries: dict[str, tuple[str, Entry]] = {
            folded(dn): (dn, {name.lower(): _bytes(v) for name, v in entry.items()})
            for dn, entry in entries.items()
        }

    def read(
        self,
        base_dn: str,
        scope: int = ldap.SCOPE_BASE,
        attributes: Sequence[str] = ("*", "+"),
        filter_text: str = "(objectClass=*)",
    ) -> list[tuple[str, Entry]]:
        self.searches.append((base_dn, scope))
        base = folded(base_dn)
        wanted = {name.lower() for name in attributes}
        found = []
        for key, (dn, entry) in self.entries.items():
            if not _in_scope(key, base, scope) or not _passes(entry, filter_text):
                continue
            given = (
                entry if "*" in wanted else {k: entry[k] for k in wanted & set(entry)}
            )
            found.append((dn, given))
        return found

    def close(self) -> None:
        """Nothing is held."""


def _bytes(values: str | list[str]) -> list[bytes]:
    return [one.encode() for one in ([values] if isinstance(values, str) else values)]


def _in_scope(key: str, base: str, scope: int) -> bool:
    if scope == ldap.SCOPE_BASE:
        return key == base
    is_below = key.endswith(f",{base}")
    if scope == ldap.SCOPE_ONELEVEL:
        return is_below and "," not in key.removesuffix(f",{base}")
    return is_below or key == base


def _passes(entry: Entry, filter_text: str) -> bool:
    """Filters of one object class, as the tables have them."""
    name = filter_text.strip("()").partition("=")[2].lower()
    if name == "*" or "nstombstone" in name:
        return True
    return name.encode() in [value.lower() for value in entry.get("objectclass", ())]


def values_of(table: Table, directory: Any) -> dict[str, float]:
    names = [source.metric.name for source in table.sources]
    return dict(zip(names, fill(table, directory), strict=True))


def figures_of(directory: Any) -> dict[str, float]:
    return values_of(directory_table(directory), directory)


# Values.


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("17", 17.0),
        ("-1", -1.0),
        ("0.5", 0.5),
        ("n/a", None),
        ("", None),
        ("inf", None),
        ("18446744073709551615", 2.0**64),
        ("1e308", None),
        ("-1e308", None),
        ("9" * 5000, None),
    ],
)
def test_number_is_one_or_missing(text: str, expected: float | None) -> None:
    found = number([text.encode()])
    assert math.isnan(found) if expected is None else found == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("19700101000010Z", 10.0),
        ("19700102000000.500000Z", 86_400.5),
        ("20261199000000Z", None),
        ("yesterday", None),
    ],
)
def test_generalized_time_is_in_seconds(text: str, expected: float | None) -> None:
    found = time_s([text.encode()])
    assert math.isnan(found) if expected is None else found == expected


def test_dns_are_equal_however_they_are_written() -> None:
    assert folded("cn=Current,cn=Connections, CN=Monitor") == (
        "cn=current,cn=connections,cn=monitor"
    )


def now_as(form: Callable[[time.struct_time], str], ago_s: float) -> str:
    return form(time.gmtime(time.time() - ago_s))


# slapd.

_SLAPD: dict[str, dict[str, str | list[str]]] = {
    "": {"objectClass": ["top", "OpenLDAProotDSE"], "namingContexts": "dc=com"},
    "dc=com": {},
    "cn=Monitor": {"cn": "Monitor", "monitoredInfo": "OpenLDAP: slapd 2.6.9"},
    "cn=Start,cn=Time,cn=Monitor": {"monitorTimestamp": "20261121120000Z"},
    "cn=Operations,cn=Monitor": {
        "monitorOpInitiated": "15",
        "monitorOpCompleted": "13",
    },
    "cn=Search,cn=Operations,cn=Monitor": {
        "monitorOpInitiated": "12",
        "monitorOpCompleted": "10",
    },
    "cn=Modrdn,cn=Operations,cn=Monitor": {
        "monitorOpInitiated": "3",
        "monitorOpCompleted": "3",
    },
    "cn=Connections,cn=Monitor": {},
    "cn=Current,cn=Connections,cn=Monitor": {"monitorCounter": "5"},
    "cn=Total,cn=Connections,cn=Monitor": {"monitorCounter": "1005"},
    "cn=Connection 1004,cn=Connections,cn=Monitor": {"monitorConnectionNumber": "1004"},
    "cn=Pending,cn=Threads,cn=Monitor": {"monitoredInfo": "2"},
    "cn=Read,cn=Waiters,cn=Monitor": {"monitorCounter": "4"},
    "cn=Bytes,cn=Statistics,cn=Monitor": {"monitorCounter": "123456"},
    "cn=Databases,cn=Monitor": {},
    "cn=Database 1,cn=Databases,cn=Monitor": {
        "namingContexts": "dc=com",
        "olmMDBPagesMax": "262144",
        "olmMDBPagesUsed": "500",
        "olmDbNotIndexed": ["mail#equality=3#substr=4", "cn#present=1"],
    },
}


def slapd_with(
    more: dict[str, dict[str, str | list[str]]] | None = None,
) -> FakeDirectory:
    return FakeDirectory({**_SLAPD, **(more or {})})


def test_slapd_says_what_it_does() -> None:
    directory = slapd_with()
    table = directory_table(directory)  # type: ignore[arg-type]
    assert table.facts["server"] == "slapd"
    assert table.facts["version"] == "OpenLDAP: slapd 2.6.9"
    found = values_of(table, directory)
    assert found["operations_initiated"] == 15
    assert found["operations_completed"] == 13
    assert found["search_initiated"] == 12
    assert found["search_completed"] == 10
    assert found["modify_dn_initiated"] == 3
    assert found["connections"] == 5
    assert found["connects"] == 1005
    assert found["threads_pending"] == 2
    assert found["read_waiters"] == 4
    assert found["bytes_sent"] == 123_456
    assert found["mdb_pages_used[dc=com]"] == 500
    assert found["not_indexed[dc=com]"] == 8
    assert found[STARTED] == time_s([b"20261121120000Z"])
    # what it does not say is missing; no consumer, and no contextCSN
    assert math.isnan(found["bind_initiated"])
    assert math.isnan(found["mdb_entries[dc=com]"])
    assert not [name for name in found if name.startswith(("syncrepl", "newest"))]
    # its connections are never listed
    below = [folded(base) for base, scope in directory.searches if scope]
    assert not {"cn=monitor", "cn=connections,cn=monitor"} & set(below)


def test_consumer_says_how_replication_goes() -> None:
    def stamp(ago_s: float) -> str:
        return now_as(lambda t: time.strftime("%Y%m%d%H%M%SZ", t), ago_s)

    csn = now_as(lambda t: time.strftime("%Y%m%d%H%M%S.000000Z", t), 30)
    consumer = {
        "olmSRProviderURIList": "ldap://supplier",
        "olmSRConnection": "IP=127.0.0.1:5000",
        "olmSRSyncPhase": "Persist",
        "olmSRLastContact": stamp(20),
    }
    directory = slapd_with(
        {
            "cn=Consumer 001,cn=Database 1,cn=Databases,cn=Monitor": dict(consumer),
            "dc=com": {
                "contextCSN": [
                    f"{csn}#000000#001#000000",
                    "20200101000000.000000Z#000000#002#000000",
                ]
            },
        }
    )
    found = figures_of(directory)
    assert found["syncrepl_connected[ldap://supplier]"] == 1
    assert found["syncrepl_persist[ldap://supplier]"] == 1
    assert found["syncrepl_last_contact_age[ldap://supplier]"] == pytest.approx(
        20, abs=2
    )
    assert found["newest_change_age[dc=com]"] == pytest.approx(30, abs=2)


def test_consumers_of_one_provider_have_metrics_of_their_own() -> None:
    consumers = [
        f"cn=Consumer 001,cn=Database {number},cn=Databases,cn=Monitor"
        for number in (1, 2)
    ]
    directory = slapd_with(
        {
            dn: {"olmSRProviderURIList": "ldap://supplier", "olmSRSyncPhase": phase}
            for dn, phase in zip(consumers, ("Persist", "Refresh"), strict=True)
        }
    )
    found = figures_of(directory)
    assert {
        name: value
        for name, value in found.items()
        if name.startswith("syncrepl_persist")
    } == {
        f"syncrepl_persist[{folded(dn)}]": float(value)
        for dn, value in zip(consumers, (1, 0), strict=True)
    }


def test_slapd_without_a_monitor_is_an_error_that_says_how_to_get_one() -> None:
    root_dse = {"": _SLAPD[""]}
    with pytest.raises(TargetError, match="cn=Monitor") as caught:
        directory_table(FakeDirectory(root_dse))  # type: ignore[arg-type]
    assert "database monitor" in (caught.value.hint or "")


# 389-DS.

_LDBM = "cn=ldbm database,cn=plugins,cn=config"
_AGREEMENT = "cn=to replica,cn=replica,cn=dc\\3Dcom,cn=mapping tree,cn=config"
_DS389: dict[str, dict[str, str | list[str]]] = {
    "": {"objectClass": "top", "vendorName": "389 Project"},
    "cn=monitor": {
        "version": "389-Directory/2.3.1",
        "startTime": "20261121120000Z",
        "opsInitiated": "100",
        "opsCompleted": "99",
        "currentConnections": "7",
    },
    "cn=snmp,cn=monitor": {
        "searchOps": "40",
        "simpleAuthBinds": "5",
        "strongAuthBinds": "1",
        "unAuthBinds": "2",
    },
    _LDBM: {},
    f"cn=monitor,{_LDBM}": {"dbCacheHits": "90", "dbCacheTries": "100"},
    f"cn=database,cn=monitor,{_LDBM}": {"nsslapd-db-commit-rate": "8"},
    f"cn=userRoot,{_LDBM}": {"objectClass": "nsBackendInstance", "cn": "userRoot"},
    f"cn=monitor,cn=userRoot,{_LDBM}": {"entryCacheHits": "3", "entryCacheTries": "4"},
    "cn=mapping tree,cn=config": {},
}


def test_389_ds_says_what_it_does() -> None:
    directory = FakeDirectory(_DS389)
    table = directory_table(directory)  # type: ignore[arg-type]
    assert table.facts["version"] == "389-Directory/2.3.1"
    found = values_of(table, directory)
    assert found["operations_initiated"] == 100
    assert found["search_initiated"] == 40
    # anonymous ones are simple ones
    assert found["bind_initiated"] == 6
    assert found["db_cache_hits"] == 90
    assert found["bdb_commits"] == 8
    assert found["entry_cache_tries[userRoot]"] == 4
    # a newer server's
    assert math.isnan(found["work_queue"])
    # LMDB's, which this one is not
    assert "mdb_map" not in found


def test_agreement_of_389_ds_says_how_replication_goes() -> None:
    csn = f"{int(time.time()) - 30:08x}000000010000"
    directory = FakeDirectory(
        {
            **_DS389,
            _AGREEMENT: {
                "objectClass": "nsds5replicationAgreement",
                "cn": "to replica",
                "nsds5replicaChangesSentSinceStartup": "1:42/0 2:7/3 ",
                "nsds5replicaUpdateInProgress": "TRUE",
                "nsds5replicaLastUpdateStatus": "Error (18) Replication error",
            },
            "cn=replica,cn=dc\\3Dcom,cn=mapping tree,cn=config": {
                "objectClass": "nsds5replica",
                "nsds5replicaRoot": "dc=com",
            },
            "dc=com": {
                "nsds50ruv": [
                    "{replicageneration} 5fb5c1aa000000010000",
                    f"{{replica 1 ldap://ds1:389}} 5fb5c1aa000000010000 {csn}",
                    "{replica 2 ldap://ds2:389}",
                ]
            },
        }
    )
    found = figures_of(directory)
    assert found["changes_sent[to replica]"] == 49
    assert found["update_in_progress[to replica]"] == 1
    assert found["update_status[to replica]"] == 18
    assert found["newest_change_age[dc=com]"] == pytest.approx(30, abs=2)


def test_agreements_of_one_name_have_metrics_of_their_own() -> None:
    agreements = [_AGREEMENT, _AGREEMENT.replace("com", "org")]
    directory = FakeDirectory(
        {
            **_DS389,
            **{
                dn: {
                    "objectClass": "nsds5replicationAgreement",
                    "cn": "to replica",
                    "nsds5replicaChangesSentSinceStartup": f"1:{sent}/0",
                }
                for dn, sent in zip(agreements, (42, 7), strict=True)
            },
        }
    )
    found = figures_of(directory)
    assert [found[f"changes_sent[{folded(dn)}]"] for dn in agreements] == [42, 7]


def test_figures_that_no_counter_holds_are_left_out() -> None:
    """Python converts no text of so many digits."""
    agreement: dict[str, str | list[str]] = {
        "objectClass": "nsds5replicationAgreement",
        "cn": "to replica",
        "nsds5replicaChangesSentSinceStartup": f"1:{'9' * 5000}/0 2:7/0",
        "nsds5replicaLastUpdateStatus": f"Error ({'9' * 5000}) Odd",
    }
    found = figures_of(FakeDirectory({**_DS389, _AGREEMENT: agreement}))
    assert found["changes_sent[to replica]"] == 7
    assert math.isnan(found["update_status[to replica]"])
    odd = {**_SLAPD["cn=Database 1,cn=Databases,cn=Monitor"]}
    odd["olmDbNotIndexed"] = [f"mail#equality={'9' * 5000}", "cn#present=1"]
    found = figures_of(slapd_with({"cn=Database 1,cn=Databases,cn=Monitor": odd}))
    assert found["not_indexed[dc=com]"] == 1


def test_server_of_another_kind_is_named() -> None:
    directory = FakeDirectory({"": {"objectClass": "top", "vendorName": "Acme"}})
    with pytest.raises(TargetError, match="Acme"):
        directory_table(directory)  # type: ignore[arg-type]


# Any entry.


def test_numbers_of_any_entry_are_read() -> None:
    directory = FakeDirectory({"cn=stats": {"level": "7", "Total": "100", "text": "x"}})
    table = entry_table("cn=Stats", ["level", "text"], ["total", "nothing"])(
        directory  # type: ignore[arg-type]
    )
    found = values_of(table, directory)
    assert (found["level"], found["total"]) == (7, 100)
    assert math.isnan(found["text"])
    assert math.isnan(found["nothing"])
    assert [source.metric.kind for source in table.sources] == ["gauge"] * 2 + [
        "counter"
    ] * 2


def test_reading_without_any_value_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    directory = FakeDirectory({"cn=stats": {"level": "7"}})
    learn = entry_table("cn=stats", ["level"], [])
    monitor = EntriesMonitor("m", 0, directory.uri, _no_access(), learn)
    monkeypatch.setattr(monitor, "_directory", directory)
    monitor.open()
    assert monitor.sample() == [7]
    directory.entries.clear()
    with pytest.raises(TargetError, match="says nothing"):
        monitor.sample()


def _no_access() -> TargetAccess:
    return TargetAccess(None, lambda kind: None)  # type: ignore[arg-type]


def test_metrics_of_a_table_have_names_of_their_own() -> None:
    for entries in (_SLAPD, _DS389):
        table = directory_table(FakeDirectory(entries))  # type: ignore[arg-type]
        names = [source.metric.name for source in table.sources]
        assert len(names) == len(set(names))
