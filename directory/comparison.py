# SPDX-License-Identifier: Apache-2.0
"""Two trees of entries compared: how many are missing, extra or different, and which.

    result = compare(expected, found)         Tree: a server's, a file's
    result.is_equal, result.missing, result.named

The expected tree is read first and leaves 16 bytes an entry in memory (hashes of DN and
content), which the other one is compared with. Differing entries that are to be named
are read again. `sample` compares the contents of that many entries, drawn by a hash of
their DNs, the same ones for the same seed; the DNs of all are compared.
"""

from __future__ import annotations

import heapq
import itertools
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, Literal, Protocol

from ldapslam.base.errors import TargetError
from ldapslam.directory.entry_digest import (
    EVERYTHING,
    AttributeDifference,
    Attributes,
    Fingerprint,
    Rules,
    content_digest,
    differing_attributes,
    normalised,
    normalised_dn,
)

#: Entries that a result names.
NAMED: Final = 20

_HASH_BYTES = 8
_SALT_BYTES = 16
_BATCH = 2_048

#: DN as it was read, normalised DN, digest of the content.
Digested = tuple[str, bytes, bytes]
Kind = Literal["missing", "extra", "different"]
Progress = Callable[[str, int], None]


class Tree(Protocol):
    """Entries that can be read more than once."""

    @property
    def name(self) -> str:
        """What people call it: a URI, a file."""

    def entries(self) -> Iterator[tuple[str, Attributes]]:
        """DN and attributes of each."""

    def names(self) -> Iterator[str]:
        """The DN of each."""

    def pick(self, dns: Iterable[str]) -> Iterator[tuple[str, Attributes]]:
        """Those with these DNs that are there."""


def digested(tree: Tree, rules: Rules) -> Iterator[Digested]:
    for dn, attributes in tree.entries():
        key = normalised_dn(dn)
        yield dn, key, content_digest(key, normalised(attributes, rules))


@dataclass(frozen=True, slots=True)
class EntryDifference:
    """One entry that is not alike in both trees."""

    kind: Kind
    dn: str
    #: In what a different entry differs; empty when it no longer does.
    attributes: tuple[AttributeDifference, ...] = ()


@dataclass(slots=True)
class Comparison:
    """What was found."""

    expected: Fingerprint
    found: Fingerprint
    #: Entries of the expected tree that the other one lacks.
    missing: int = 0
    #: Entries of the other tree that are not expected.
    extra: int = 0
    #: Entries of both trees whose attributes differ.
    different: int = 0
    #: Entries whose attributes were compared.
    compared: int = 0
    #: Only a sample's contents were compared: the fingerprints have counts alone.
    is_sample: bool = False
    #: At most as many of each kind as were asked for.
    named: list[EntryDifference] = field(default_factory=list)

    @property
    def is_equal(self) -> bool:
        return not (self.missing or self.extra or self.different)


def compare(
    expected: Tree,
    found: Tree,
    rules: Rules = EVERYTHING,
    *,
    sample: int | None = None,
    seed: int = 0,
    named: int = NAMED,
    progress: Progress = lambda name, entries: None,
) -> Comparison:
    """Read both and compare. `progress` hears the name of the tree being read and how
    many entries it has had. TargetError where an entry of the sample cannot be read."""
    result = Comparison(Fingerprint(), Fingerprint(), is_sample=sample is not None)
    comparer = _Comparer(expected, found, rules, result, named, progress)
    if sample is None:
        comparer.compare_all()
    else:
        comparer.compare_sample(sample, seed)
    return result


@dataclass(slots=True)
class _Comparer:
    expected: Tree
    found: Tree
    rules: Rules
    result: Comparison
    named: int
    progress: Progress
    #: DNs of different entries, to be explained.
    different: list[str] = field(default_factory=list)

    def compare_all(self) -> None:
        table = _Table(self._digested(self.expected, self.result.expected))
        for batch in _batches(self._digested(self.found, self.result.found)):
            for dn, is_known, is_same in table.look_up(batch):
                if not is_known or not is_same:
                    self._note("different" if is_known else "extra", dn)
        self.result.compared = table.seen_count
        self._name_missing(table)
        self._explain()

    def compare_sample(self, sample: int, seed: int) -> None:
        drawn = Sample(sample, seed)
        names = self._named_only(self.expected, self.result.expected)
        table = _Table(drawn.watch(names))
        for batch in _batches(self._named_only(self.found, self.result.found)):
            for dn, is_known, _ in table.look_up(batch):
                if not is_known:
                    self._note("extra", dn)
        self._name_missing(table)
        common = [dn for dn, _ in drawn.entries() if not table.lacks(normalised_dn(dn))]
        for dn, expected, found in _pairs(common, self.expected, self.found):
            self.result.compared += 1
            differences = differing_attributes(expected, found, self.rules)
            if differences:
                self._note("different", dn, tuple(differences))
        if self.result.compared < len(common):
            raise TargetError(
                f"{self.found.name}: of a sample of {len(common):,} entries "
                f"{self.result.compared:,} could be read here and in "
                f"{self.expected.name}",
                hint="may the bind DN read all entries, and are none being deleted?",
            )

    def _digested(self, tree: Tree, total: Fingerprint) -> Iterator[Digested]:
        for entry in digested(tree, self.rules):
            total.add(entry[2])
            self._tell(tree, total)
            yield entry

    def _named_only(self, tree: Tree, total: Fingerprint) -> Iterator[Digested]:
        for dn in tree.names():
            total.count += 1
            self._tell(tree, total)
            yield dn, normalised_dn(dn), bytes(_HASH_BYTES)

    def _tell(self, tree: Tree, total: Fingerprint) -> None:
        if total.count % _BATCH == 0:
            self.progress(tree.name, total.count)

    def _note(
        self, kind: Kind, dn: str, attributes: tuple[AttributeDifference, ...] = ()
    ) -> None:
        count = getattr(self.result, kind) + 1
        setattr(self.result, kind, count)
        if count > self.named:
            return
        if kind == "different" and not attributes:
            self.different.append(dn)
        else:
            self.result.named.append(EntryDifference(kind, dn, attributes))

    def _name_missing(self, table: _Table) -> None:
        """The table has no names: those of the expected tree are read again."""
        self.result.missing = table.missing_count
        if left := min(self.named, table.missing_count):
            names = self.expected.names()
            lost = (dn for dn in names if table.lacks(normalised_dn(dn)))
            self.result.named += [
                EntryDifference("missing", dn) for dn in itertools.islice(lost, left)
            ]

    def _explain(self) -> None:
        """Last those that have gone since."""
        pairs = _pairs(self.different, self.expected, self.found)
        explained = {
            dn: tuple(differing_attributes(left, right, self.rules))
            for dn, left, right in pairs
        }
        self.result.named += [
            EntryDifference("different", dn, explained.get(dn, ()))
            for dn in sorted(self.different, key=lambda dn: dn not in explained)
        ]


def _pairs(
    dns: Sequence[str], expected: Tree, found: Tree
) -> Iterator[tuple[str, Attributes, Attributes]]:
    """Entries that both trees have, in the order of `dns`."""
    for dn, left, right in picked(dns, expected, found):
        if left is not None and right is not None:
            yield dn, left, right


def picked(
    dns: Sequence[str], expected: Tree, found: Tree
) -> Iterator[tuple[str, Attributes | None, Attributes | None]]:
    """Each of the entries as both trees have it; None: it is not there."""
    if not dns:
        return
    left, right = (
        {normalised_dn(dn): attributes for dn, attributes in tree.pick(dns)}
        for tree in (expected, found)
    )
    for dn in dns:
        key = normalised_dn(dn)
        yield dn, left.get(key), right.get(key)


class _Table:
    """Hashes of DNs and contents, sorted by the former."""

    # numpy is imported late: where it is loaded it starts threads, and no process with
    # threads may fork

    def __init__(self, entries: Iterable[Digested]) -> None:
        import numpy as np

        keys, contents = array("Q"), array("Q")
        for _, key, digest in entries:
            keys.append(_hash(key))
            contents.append(_head(digest))
        order = np.argsort(np.frombuffer(keys, np.uint64), kind="stable")
        in_order = np.frombuffer(keys, np.uint64)[order]
        # a DN that a file has twice is one entry, the first
        is_first = np.ones(len(keys), np.bool_)
        is_first[1:] = in_order[1:] != in_order[:-1]
        self._keys = in_order[is_first]
        self._contents = np.frombuffer(contents, np.uint64)[order[is_first]]
        self._is_seen = np.zeros(len(self._keys), np.bool_)

    def look_up(self, batch: list[Digested]) -> Iterator[tuple[str, bool, bool]]:
        """For each entry: DN, whether it is known, whether its content is the same."""
        if not len(self._keys):
            yield from ((dn, False, False) for dn, _, _ in batch)
            return
        import numpy as np

        keys = np.array([_hash(key) for _, key, _ in batch], np.uint64)
        contents = np.array([_head(digest) for _, _, digest in batch], np.uint64)
        places = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        is_known = self._keys[places] == keys
        is_same = self._contents[places] == contents
        self._is_seen[places[is_known]] = True
        for (dn, _, _), known, same in zip(
            batch, is_known.tolist(), is_same.tolist(), strict=True
        ):
            yield dn, known, same

    @property
    def seen_count(self) -> int:
        return int(self._is_seen.sum())

    @property
    def missing_count(self) -> int:
        """The number of entries that were not looked up."""
        return len(self._keys) - self.seen_count

    def lacks(self, key: bytes) -> bool:
        """Whether an entry was not looked up."""
        import numpy as np

        number = np.uint64(_hash(key))
        place = int(np.searchsorted(self._keys, number))
        is_known = place < len(self._keys) and self._keys[place] == number
        return bool(is_known and not self._is_seen[place])


class Sample:
    """The entries whose DNs have the smallest hashes among those that pass by."""

    def __init__(self, size: int, seed: int = 0) -> None:
        self._size = size
        self._salt = seed.to_bytes(_SALT_BYTES, "big")
        #: The largest hash first: it is the next to go.
        self._heap: list[tuple[int, str, bytes]] = []
        self._drawn: set[int] = set()

    def watch(self, entries: Iterable[Digested]) -> Iterator[Digested]:
        for entry in entries:
            self._consider(*entry)
            yield entry

    def _consider(self, dn: str, key: bytes, digest: bytes) -> None:
        heap, drawn = self._heap, -_hash(key, self._salt)
        is_too_large = heap and len(heap) == self._size and drawn < heap[0][0]
        if is_too_large or drawn in self._drawn:
            return
        self._drawn.add(drawn)
        heapq.heappush(heap, (drawn, dn, digest))
        if len(heap) > self._size:
            self._drawn.remove(heapq.heappop(heap)[0])

    def entries(self) -> list[tuple[str, bytes]]:
        """DN and digest of each, in the order of DNs."""
        return sorted((dn, digest) for _, dn, digest in self._heap)


def _batches(entries: Iterator[Digested]) -> Iterator[list[Digested]]:
    while batch := list(itertools.islice(entries, _BATCH)):
        yield batch


def _hash(key: bytes, salt: bytes = b"") -> int:
    """64 bits of a normalised DN."""
    return _head(blake2b(key, digest_size=_HASH_BYTES, salt=salt).digest())


def _head(digest: bytes) -> int:
    return int.from_bytes(digest[:_HASH_BYTES], "big")
