# SPDX-License-Identifier: Apache-2.0
"""What is different when it is read, and no longer when it is read again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from ldapslam.directory import replication
from ldapslam.directory.counts import ServerKind
from ldapslam.directory.entry_digest import Attributes
from ldapslam.directory.replication import ReplicationServer, verify_replication
from ldapslam.jobs.fields.monitors import ReplicationCheck

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


def found(
    monkeypatch: pytest.MonkeyPatch, read: tuple[Entries, Entries], now: Entries
) -> dict[str, Any]:
    """Of two servers that both come to hold `now`."""
    trees = {
        uri: Changing(uri, one, now)
        for uri, one in zip(("ldap://a", "ldap://b"), read, strict=True)
    }
    monkeypatch.setattr(replication, "_opened", lambda _, one: Member(one.uri))
    monkeypatch.setattr(replication, "_trees", lambda *_: ([SUFFIX], []))
    monkeypatch.setattr(replication, "state", lambda *_: {"001": "1"})
    monkeypatch.setattr(replication, "_tree", lambda one, _: trees[one.uri])
    access: Any = None
    servers = [ReplicationServer(uri, access, Counter()) for uri in trees]
    check = ReplicationCheck.model_validate({"within": "1s"})
    result = verify_replication(servers, check, load_ended_s=0.0, seed=7)
    content: dict[str, Any] = result["content"]
    return content


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
    content = found(monkeypatch, (first, second), PEOPLE)
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
    monkeypatch.setattr(replication, "_opened", lambda _, one: Member(one.uri))
    monkeypatch.setattr(replication, "_trees", lambda *_: ([SUFFIX], []))
    monkeypatch.setattr(replication, "state", lambda one, *_: states[one.uri])
    monkeypatch.setattr(
        replication, "_tree", lambda one, _: Changing(one.uri, PEOPLE, PEOPLE)
    )
    access: Any = None
    result = verify_replication(
        [ReplicationServer(uri, access, Counter()) for uri in states],
        ReplicationCheck.model_validate({"within": "1ms", **options}),
        load_ended_s=0.0,
        seed=7,
        begun_utc_s=float(int(live[:8], 16)),
    )
    assert result["converged"] == converged
    (tree,) = result["trees"]
    assert tree["stale"] == (["7"] if converged else [])
    assert tree["behind"] == ({} if converged else {"ldap://b": ["7"]})
