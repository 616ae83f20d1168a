# SPDX-License-Identifier: Apache-2.0
"""States of replication: what slapd and 389-DS say, who is behind, what differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pytest

from ldapslam.directory import replication
from ldapslam.directory.counts import ServerKind
from ldapslam.directory.entry_digest import Attributes
from ldapslam.directory.replication import ReplicationServer, verify_replication
from ldapslam.directory.replication_state import (
    GENERATION,
    State,
    are_equal,
    behind,
    context_csn_state,
    csn_time_s,
    ruv_state,
    stale_sources,
    without,
)
from ldapslam.jobs.fields.monitors import ReplicationCheck

FIRST = "20260301120000.000000Z#000000#001#000000"
LATER = "20260301120000.000001Z#000000#001#000000"
OTHER = "20260301110000.000000Z#000000#002#000000"


def test_contextcsn_has_a_state_for_each_server_id() -> None:
    assert context_csn_state([FIRST, OTHER]) == {"001": FIRST, "002": OTHER}
    assert context_csn_state([LATER, FIRST]) == {"001": LATER}
    assert context_csn_state(["none of them"]) == {}


def test_a_ruv_has_the_last_csn_of_each_replica_that_has_written() -> None:
    values = [
        "{replicageneration} 65e1a3f1000000010000",
        "{replica 1 ldap://ds1:389} 65e1a3f2000000010000 65e1a4f2000100010000",
        "{replica 2} 65e1a3f2000000020000 65e1a3f2000300020000 65e1a3f3",
        "{replica 3 ldap://ds3:389}",
    ]
    assert ruv_state(values) == {
        GENERATION: "65e1a3f1000000010000",
        "1": "65e1a4f2000100010000",
        "2": "65e1a3f2000300020000",
    }


@pytest.mark.parametrize(
    ("states", "equal", "lacking"),
    [
        pytest.param({"a": {"1": "5"}, "b": {"1": "5"}}, True, {}, id="equal"),
        pytest.param(
            {"a": {"1": "5"}, "b": {"1": "4"}}, False, {"b": ["1"]}, id="behind"
        ),
        pytest.param({"a": {"1": "5"}, "b": {}}, False, {"b": ["1"]}, id="silent"),
        pytest.param(
            {"a": {"1": "5", "2": "1"}, "b": {"1": "4", "2": "3"}},
            False,
            {"a": ["2"], "b": ["1"]},
            id="each lacks something",
        ),
        pytest.param({"a": {}, "b": {}}, False, {}, id="none says anything"),
    ],
)
def test_servers_are_equal_or_some_are_behind(
    states: dict[str, State], equal: bool, lacking: dict[str, list[str]]
) -> None:
    assert are_equal(states) is equal
    assert behind(states) == lacking


def test_a_csn_says_when_it_was_made() -> None:
    assert csn_time_s(FIRST) == 1_772_366_400
    assert csn_time_s("65e1a4f2000100010000") == 0x65E1A4F2
    assert csn_time_s("none") is None
    assert csn_time_s("#") is None


#: Of 2024, and of 2026.
OLD, YOUNG = "65e1a4f2000100070000", "69e1a4f2000100070000"
BEGUN_S = 1_772_366_400.0


@pytest.mark.parametrize(
    ("states", "stale"),
    [
        pytest.param({"a": {"7": OLD}, "b": {"1": YOUNG}}, ["7"], id="of one server"),
        pytest.param(
            {"a": {"7": OLD}, "b": {"1": YOUNG}, "c": {"7": OLD}},
            ["7"],
            id="of some servers",
        ),
        pytest.param({"a": {"7": OLD}, "b": {"7": OLD}}, [], id="of all"),
        pytest.param({"a": {"7": OLD}, "b": {}}, [], id="one says nothing"),
        pytest.param({"a": {"7": YOUNG}, "b": {"1": YOUNG}}, [], id="young"),
        pytest.param(
            {"a": {"7": OLD}, "b": {"1": YOUNG}, "c": {"7": "65e1a4f1000100070000"}},
            [],
            id="one of them is behind",
        ),
        pytest.param(
            {"a": {GENERATION: OLD}, "b": {"1": YOUNG}}, [], id="a generation"
        ),
        pytest.param({"a": {"7": "unreadable"}, "b": {"1": YOUNG}}, [], id="no CSN"),
    ],
)
def test_a_source_that_ended_long_ago_is_stale_where_not_all_know_it(
    states: dict[str, State], stale: list[str]
) -> None:
    assert stale_sources(states, BEGUN_S) == stale


def test_servers_are_equal_without_stale_sources() -> None:
    states = {"a": {"1": YOUNG, "7": OLD}, "b": {"1": YOUNG}}
    assert not are_equal(states)
    left = without(states, stale_sources(states, BEGUN_S))
    assert are_equal(left)
    assert behind(left) == {}
    # a server that says nothing is equal to none
    silent = {"a": {"7": OLD}, "b": {}}
    assert not are_equal(without(silent, stale_sources(silent, BEGUN_S)))
    assert behind(without(silent, stale_sources(silent, BEGUN_S))) == {"b": ["7"]}


SUFFIX = "dc=x"
Entries = dict[str, Attributes]


def person(number: int, sn: bytes = b"Same") -> tuple[str, Attributes]:
    return f"uid=u{number},{SUFFIX}", {"objectClass": [b"person"], "sn": [sn]}


class Changing:
    """A tree that is as `read` when all of it is read, and then as `now`."""

    def __init__(self, uri: str, read: Entries, now: Entries) -> None:
        self.name = uri
        self._readings = [read]
        self._now = now

    def entries(self) -> Iterator[tuple[str, Attributes]]:
        entries = self._readings.pop() if self._readings else self._now
        return iter(list(entries.items()))

    def names(self) -> Iterator[str]:
        return (dn for dn, _ in self.entries())

    def pick(self, dns: Iterable[str]) -> Iterator[tuple[str, Attributes]]:
        return ((dn, self._now[dn]) for dn in dns if dn in self._now)


class Member:
    """In place of a connection."""

    kind = ServerKind.SLAPD

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.connection = self


def verified(
    monkeypatch: pytest.MonkeyPatch,
    trees: dict[str, Changing],
    states: Mapping[str, State],
    begun_utc_s: float = 0.0,
    **options: Any,
) -> dict[str, Any]:
    """The result of a check of the servers `ldap://a` and `ldap://b`."""
    monkeypatch.setattr(replication, "_opened", lambda _, one: Member(one.uri))
    monkeypatch.setattr(replication, "_trees", lambda *_: ([SUFFIX], []))
    monkeypatch.setattr(replication, "state", lambda one, *_: states[one.uri])
    monkeypatch.setattr(replication, "_tree", lambda one, _: trees[one.uri])
    access: Any = None
    return verify_replication(
        [ReplicationServer(uri, access, Counter()) for uri in trees],
        ReplicationCheck.model_validate({"within": "1ms", **options}),
        load_ended_s=0.0,
        seed=7,
        begun_utc_s=begun_utc_s,
    )


PEOPLE = dict(person(number) for number in range(30))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(PEOPLE, dict([person(1)]), id="missing, more than are named"),
        pytest.param(dict([person(1)]), PEOPLE, id="extra, more than are named"),
        pytest.param(
            PEOPLE, dict([*PEOPLE.items(), person(3, b"Else")]), id="different"
        ),
        pytest.param(
            dict(list(PEOPLE.items())[:28]),
            dict(list(PEOPLE.items())[2:]),
            id="missing and extra",
        ),
    ],
)
def test_what_was_on_its_way_is_no_difference(
    monkeypatch: pytest.MonkeyPatch, first: Entries, second: Entries
) -> None:
    """Compare two servers that both come to hold `PEOPLE`."""
    trees = {
        uri: Changing(uri, read, PEOPLE)
        for uri, read in (("ldap://a", first), ("ldap://b", second))
    }
    states = {uri: {"001": "1"} for uri in trees}
    content = verified(monkeypatch, trees, states)["content"]
    assert (content["difference_count"], content["differences"]) == (0, [])


@pytest.mark.parametrize(
    ("options", "converged"),
    [({}, True), ({"sample": 1}, False), ({"base": "dc=x"}, False)],
)
def test_a_source_that_is_gone_is_left_aside_where_all_content_is_compared(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], converged: bool
) -> None:
    live, gone = "69e1a4f2000100010000", "65e1a4f2000100070000"
    states = {"ldap://a": {"1": live, "7": gone}, "ldap://b": {"1": live}}
    trees = {uri: Changing(uri, PEOPLE, PEOPLE) for uri in states}
    begun_utc_s = float(int(live[:8], 16))
    result = verified(monkeypatch, trees, states, begun_utc_s, **options)
    assert result["converged"] == converged
    (tree,) = result["trees"]
    assert tree["stale"] == (["7"] if converged else [])
    assert tree["behind"] == ({} if converged else {"ldap://b": ["7"]})
