# SPDX-License-Identifier: Apache-2.0
"""Servers that are read before and after a load: one that fails is a failure alone."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import ldap
import pytest

from ldapslam.agent.monitoring import servers
from ldapslam.agent.monitoring.process import Sampling
from ldapslam.agent.monitoring.reading import Monitor
from ldapslam.agent.monitoring.servers import ServerReadings
from ldapslam.base.errors import TargetError, TargetUnreachable
from ldapslam.directory.control_connection import ControlConnection, Entry
from ldapslam.directory.counts import KINDS, ServerKind, read_counts
from ldapslam.directory.facts import server_facts
from ldapslam.results.facts import Reading
from ldapslam.results.records import Metric

GOOD, BAD = "ldap://good", "ldap://bad"


class FakeServers:
    """Those of a job, as far as readings need them."""

    def __init__(self) -> None:
        self._controls: dict[str, Counter[str]] = {}

    def access(self, uri: str) -> None:
        """Nothing is connected to."""

    def control(self, uri: str) -> Counter[str]:
        return self._controls.setdefault(uri, Counter())


class FakeConnection:
    """Entries by their DN; a search below a base finds all."""

    def __init__(self, uri: str, entries: Mapping[str, Entry] | None = None) -> None:
        self.uri = uri
        self.control: Counter[str] = Counter()
        self._entries = entries or {}

    def read(self, dn: str, attributes: Sequence[str]) -> Entry | None:
        return self._entries.get(dn)

    def search(
        self, base_dn: str, scope: int, attributes: Sequence[str], _: str = ""
    ) -> list[tuple[str, Entry]]:
        assert scope != ldap.SCOPE_BASE
        return [
            (dn, entry)
            for dn, entry in self._entries.items()
            if dn.endswith(f",{base_dn}")
        ]


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> ServerReadings:
    """Of two servers whose connections are made up."""
    monkeypatch.setattr(
        ControlConnection,
        "open",
        lambda uri, *_: nullcontext(FakeConnection(uri)),
    )
    servers: Any = FakeServers()
    return ServerReadings(servers, [BAD, GOOD])


def counts_of(*failing: Exception) -> Any:
    """A reading of counts that fails at the bad server, each time in another way."""
    failures = list(failing)

    def read(connection: Any, kind: ServerKind) -> Reading:
        if connection.uri == BAD and failures:
            raise failures.pop(0)
        return Reading(operations=dict.fromkeys(KINDS, 0), started="now")

    return read


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ValueError("5000 digits"), "ValueError: 5000 digits"),
        (TargetUnreachable(BAD, "gone"), str(TargetUnreachable(BAD, "gone"))),
    ],
)
@pytest.mark.parametrize("fails_before", [True, False], ids=["before", "after"])
def test_a_server_that_fails_does_not_fail_the_others(
    readings: ServerReadings,
    monkeypatch: pytest.MonkeyPatch,
    fails_before: bool,
    error: Exception,
    expected: str,
) -> None:
    monkeypatch.setattr(servers, "read_counts", counts_of(*[error] * fails_before))
    readings.before()
    if not fails_before:
        monkeypatch.setattr(servers, "read_counts", counts_of(error))
    readings.after()
    bad, good = (readings.found[uri].document() for uri in (BAD, GOOD))
    assert bad["failure"] == expected
    assert ("before" in bad) is not fails_before
    assert good.keys() >= {"kind", "facts", "before", "after"}
    assert "failure" not in good


def test_all_servers_are_read_at_the_same_time(
    readings: ServerReadings, monkeypatch: pytest.MonkeyPatch
) -> None:
    meeting = threading.Barrier(2, timeout=10)
    read = counts_of()

    def read_together(connection: Any, kind: ServerKind) -> Reading:
        meeting.wait()
        counts: Reading = read(connection, kind)
        return counts

    monkeypatch.setattr(servers, "read_counts", read_together)
    readings.before()
    readings.after()
    assert all(found.after.operations for found in readings.found.values())


def test_a_database_whose_kind_may_not_be_seen_is_described_without_it() -> None:
    connection: Any = FakeConnection(
        GOOD,
        {
            "olcDatabase={1}mdb,cn=config": {"olcsuffix": [b"dc=com"]},
            "olcDatabase={2}mdb,cn=config": {
                "olcsuffix": [b"dc=org"],
                "olcdatabase": [b"{2}mdb"],
            },
        },
    )
    facts = server_facts(connection, ServerKind.SLAPD)
    assert facts["backends"] == ["mdb"]
    assert [one["olcSuffix"] for one in facts["databases"]] == ["dc=com", "dc=org"]


def test_durability_is_told_of_each_database() -> None:
    connection: Any = FakeConnection(
        GOOD,
        {
            f"olcDatabase={{{number}}}mdb,cn=config": {
                "olcsuffix": [suffix],
                "olcdatabase": [b"mdb"],
                **settings,
            }
            for number, suffix, settings in (
                (1, b"dc=com", {"olcdbnosync": [b"TRUE"]}),
                (2, b"dc=org", {"olcdbnosync": [b"FALSE"]}),
                (3, b"dc=net", {}),
            )
        },
    )
    assert server_facts(connection, ServerKind.SLAPD)["durability"] == [
        {"olcSuffix": "dc=com", "olcDbNoSync": "TRUE"},
        {"olcSuffix": "dc=org", "olcDbNoSync": "FALSE"},
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"17", 17),
        (b"18446744073709551615", (1 << 64) - 1),
        (b"9" * 5000, None),
        ("\u0661".encode(), None),
    ],
)
def test_a_counter_has_no_more_digits_than_64_bits(
    text: bytes, expected: int | None
) -> None:
    connection: Any = FakeConnection(
        GOOD,
        {
            "cn=Search,cn=Operations,cn=Monitor": {
                "cn": [b"Search"],
                "monitoropinitiated": [text],
            }
        },
    )
    assert read_counts(connection, ServerKind.SLAPD).operations["search"] == expected


#: Until all of them are there.
LIMIT_S = 10.0


class Meeting(Monitor):
    """A monitor that is open once the others are being opened too."""

    metrics = (Metric("figure", "1", "gauge"),)

    def __init__(self, name: str, others: threading.Barrier) -> None:
        super().__init__(name, 0)
        self._others = others

    def open(self) -> Mapping[str, Any]:
        self._others.wait(LIMIT_S)
        if self.name == "broken":
            raise TargetError("it does not answer")
        if self.name == "odd":
            raise KeyError("olcDatabase")
        return {"of": self.name}

    def sample(self) -> Sequence[float]:
        return (1.0,)


def test_monitors_do_not_wait_for_each_other() -> None:
    names = ["first", "broken", "odd", "last"]
    others = threading.Barrier(len(names))
    watched = Sampling(1_000_000_000).open(Meeting(name, others) for name in names)
    assert [one.name for one in watched] == names
    assert [one.facts.document() for one in watched] == [
        {"of": "first"},
        {"failure": "it does not answer"},
        {"failure": "KeyError: 'olcDatabase'"},
        {"of": "last"},
    ]
