# SPDX-License-Identifier: Apache-2.0
"""Do servers hold the same entries, and if not, which of them differ?

Every entry of every server is read once, page by page, and falls into one of _BUCKETS
by its DN; of each bucket only the number of entries and the sum of their digests
(content.py) are kept, so that memory does not grow with the tree. Where two servers
agree in all buckets they hold the same. What is in buckets that differ is read again,
and its entries are named. An entry that differs is read a third time on both servers:
what was changed meanwhile is no difference, and attributes are named from that reading.

With a sample, all DNs are compared so, and the attributes of so many entries, chosen by
the seed, one by one.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

import ldap
from ldap.controls import SimplePagedResultsControl

from ldapslam.agent.content import (
    Attributes,
    content_digest,
    differing_attributes,
    normalised,
    normalised_dn,
)
from ldapslam.agent.control_connection import ControlConnection
from ldapslam.agent.ldap_access import error_text
from ldapslam.jobs.errors import TargetError, TargetUnreachable

_BUCKETS = 1 << 16
_PAGE_ENTRIES = 1_000
#: Of buckets that differ, held at once for each server; the rest is not named.
_MOST_HELD = 200_000
#: Differences that are named.
_MOST_NAMED = 100
_SUM_RANGE = 1 << 128
_ALL, _NONE = ("*",), ("1.1",)

MISSING, EXTRA, DIFFERENT = "missing", "extra", "different"


class Difference(NamedTuple):
    """Of one server, against the first one."""

    uri: str
    dn: str
    #: MISSING, EXTRA or DIFFERENT.
    kind: str
    #: Names of those that differ, in lower case.
    attributes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """What became of it."""

    #: How many entries' attributes were compared; None: those of all.
    sample: int | None
    #: URI -> entries below the bases.
    entries: Mapping[str, int]
    #: All that were found; at least so many, where there are more than are held.
    difference_count: int
    #: The first of them.
    differences: Sequence[Difference]


@dataclass(slots=True)
class _Tally:
    """The entries of one server."""

    entries: int = 0
    counts: list[int] = field(default_factory=lambda: [0] * _BUCKETS)
    sums: list[int] = field(default_factory=lambda: [0] * _BUCKETS)

    def add(self, key: bytes, digest: bytes) -> None:
        bucket = _bucket(key)
        self.entries += 1
        self.counts[bucket] += 1
        total = self.sums[bucket] + int.from_bytes(digest, "big")
        self.sums[bucket] = total % _SUM_RANGE

    def differing(self, other: _Tally) -> set[int]:
        return {
            bucket
            for bucket in range(_BUCKETS)
            if self.counts[bucket] != other.counts[bucket]
            or self.sums[bucket] != other.sums[bucket]
        }


def compare(
    connections: Sequence[ControlConnection],
    bases: Sequence[str],
    *,
    sample: int | None,
    seed: int,
) -> Comparison:
    """Each server with the first one; TargetError when they cannot be read."""
    wanted = _ALL if sample is None else _NONE
    first, *others = connections
    chosen = _Sample(sample or 0, seed)
    tallies = {}
    for connection in connections:
        tally = tallies[connection.uri] = _Tally()
        for dn, attributes in _entries(connection, bases, wanted):
            key = normalised_dn(dn)
            tally.add(key, content_digest(key, normalised(attributes)))
            if connection is first:
                chosen.offer(key, dn)
    if not tallies[first.uri].entries:
        raise TargetError(
            f"{first.uri}: nothing can be read below {', '.join(map(repr, bases))}",
            hint="may the job's bind DN read the tree?",
        )
    found = _suspects(connections, bases, wanted, tallies)
    difference_count = len(found)
    named = []
    for suspect in found[:_MOST_NAMED]:
        other = next(one for one in others if one.uri == suspect.uri)
        confirmed = _difference(first, other, suspect.dn)
        if confirmed is None:
            difference_count -= 1
        else:
            named.append(confirmed)
    known = {(one.uri, one.dn) for one in found}
    for dn in chosen.dns:
        for other in others:
            differing = _difference(first, other, dn)
            if differing is not None and (other.uri, dn) not in known:
                difference_count += 1
                named.append(differing)
    return Comparison(
        sample=None if sample is None else len(chosen.dns),
        entries={uri: tally.entries for uri, tally in tallies.items()},
        difference_count=difference_count,
        differences=tuple(named[:_MOST_NAMED]),
    )


class _Sample:
    """The `size` entries whose DNs come first in an order that the seed gives."""

    def __init__(self, size: int, seed: int) -> None:
        self._size = size
        self._seed = str(seed).encode()
        #: Rank, negative, and DN: the one to give way comes first.
        self._heap: list[tuple[int, str]] = []

    def offer(self, key: bytes, dn: str) -> None:
        if not self._size:
            return
        digest = blake2b(key, digest_size=8, key=self._seed[:64]).digest()
        item = (-int.from_bytes(digest, "big"), dn)
        if len(self._heap) < self._size:
            heapq.heappush(self._heap, item)
        else:
            heapq.heappushpop(self._heap, item)

    @property
    def dns(self) -> list[str]:
        return sorted(dn for _, dn in self._heap)


def _suspects(
    connections: Sequence[ControlConnection],
    bases: Sequence[str],
    wanted: Sequence[str],
    tallies: Mapping[str, _Tally],
) -> list[Difference]:
    """The entries in buckets that differ, by server and DN, without attributes."""
    first, *others = connections
    tally = tallies[first.uri]
    buckets: dict[str, set[int]] = {}
    for other in others:
        if differing := tally.differing(tallies[other.uri]):
            held = 0
            of_other = buckets[other.uri] = set()
            for bucket in sorted(differing):
                held += max(tally.counts[bucket], tallies[other.uri].counts[bucket])
                if of_other and held > _MOST_HELD:
                    break
                of_other.add(bucket)
    if not buckets:
        return []
    expected = _held(first, bases, wanted, set().union(*buckets.values()))
    found = []
    for other in others:
        if other.uri not in buckets:
            continue
        of_other = buckets[other.uri]
        there = _held(other, bases, wanted, of_other)
        due = {key: one for key, one in expected.items() if _bucket(key) in of_other}
        for key in sorted(due.keys() | there.keys()):
            if key not in there:
                found.append(Difference(other.uri, due[key][0], MISSING))
            elif key not in due:
                found.append(Difference(other.uri, there[key][0], EXTRA))
            elif due[key][1] != there[key][1]:
                found.append(Difference(other.uri, due[key][0], DIFFERENT))
    return found


def _held(
    connection: ControlConnection,
    bases: Sequence[str],
    wanted: Sequence[str],
    buckets: set[int],
) -> dict[bytes, tuple[str, bytes]]:
    """Key -> DN and digest, of the entries in these buckets."""
    held = {}
    for dn, attributes in _entries(connection, bases, wanted):
        key = normalised_dn(dn)
        if _bucket(key) in buckets:
            held[key] = (dn, content_digest(key, normalised(attributes)))
    return held


def _difference(
    first: ControlConnection, other: ControlConnection, dn: str
) -> Difference | None:
    """As it is now; None when the two have the same."""
    expected, found = first.read(dn, _ALL), other.read(dn, _ALL)
    if expected is None and found is None:
        return None
    if expected is None or found is None:
        return Difference(other.uri, dn, MISSING if found is None else EXTRA)
    attributes = tuple(one.attribute for one in differing_attributes(expected, found))
    return Difference(other.uri, dn, DIFFERENT, attributes) if attributes else None


def _entries(
    connection: ControlConnection, bases: Sequence[str], wanted: Sequence[str]
) -> Iterator[tuple[str, Attributes]]:
    for base in bases:
        yield from _pages(connection, base, wanted)


def _pages(
    connection: ControlConnection, base: str, wanted: Sequence[str]
) -> Iterator[tuple[str, Attributes]]:
    """All below the base, a page (RFC 2696) for each request; none where it is not."""
    cookie: bytes | str = b""
    while True:
        control = SimplePagedResultsControl(True, _PAGE_ENTRIES, cookie)
        connection.control["search"] += 1
        try:
            message = connection.ldap.search_ext(
                base,
                ldap.SCOPE_SUBTREE,
                "(objectClass=*)",
                list(wanted),
                serverctrls=[control],
            )
            _, found, _, answers = connection.ldap.result3(message)
        except ldap.NO_SUCH_OBJECT:
            return
        except ldap.LDAPError as error:
            # a limit that cuts the answer short must not pass for the whole of it
            raise TargetUnreachable(connection.uri, error_text(error)) from error
        yield from ((dn, attributes) for dn, attributes in found if dn is not None)
        cookies = [
            one.cookie
            for one in answers
            if one.controlType == SimplePagedResultsControl.controlType
        ]
        cookie = cookies[0] if cookies else b""
        if not cookie:
            return


def _bucket(key: bytes) -> int:
    return int.from_bytes(blake2b(key, digest_size=2).digest(), "big") % _BUCKETS
