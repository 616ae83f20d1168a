# SPDX-License-Identifier: Apache-2.0
"""Records of populations: made of a tree, and looked for on a server.

A server is asked for the sampled entries alone, one search each. A sample of 200 misses
a population of which one entry in fifty is wrong once in 57 times (0.98^200). Other
entries of the server are not noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from ldapslam.directory.comparison import Sample, Tree, digested
from ldapslam.directory.entry_digest import (
    Fingerprint,
    Rules,
    entry_digest,
    normalised_dn,
)
from ldapslam.jobs.fields.population import PopulationRecord

SAMPLE: Final = 200
_TOLD_ENTRIES = 1_000


def rules_of(ignored: tuple[str, ...]) -> Rules:
    """A population is digested without passwords: a server may hash them."""
    return Rules(passwords=False, ignored=frozenset(ignored))


def record_of(
    tree: Tree,
    base: str,
    *,
    ignored: tuple[str, ...] = (),
    sample: int = SAMPLE,
    progress: Callable[[int], None] = lambda entries: None,
) -> PopulationRecord | None:
    """The record of a tree's entries, read once; None for an empty tree."""
    rules = rules_of(ignored)
    total = Fingerprint()
    drawn = Sample(sample)
    for _, _, digest in drawn.watch(digested(tree, rules)):
        total.add(digest)
        if total.count % _TOLD_ENTRIES == 0:
            progress(total.count)
    if not total.count:
        return None
    return PopulationRecord(
        base=base,
        entries=total.count,
        fingerprint=str(total),
        sample=tuple((dn, digest.hex()) for dn, digest in drawn.entries()),
        ignored=ignored,
    )


def differences(record: PopulationRecord, tree: Tree) -> Iterator[tuple[str, bool]]:
    """DNs of sampled entries that the tree does not have as recorded; whether each is
    there."""
    rules = rules_of(record.ignored)
    wanted = {normalised_dn(dn): (dn, digest) for dn, digest in record.sample}
    for dn, attributes in tree.pick([dn for dn, _ in wanted.values()]):
        # a server's spelling of the DN is its own
        recorded, digest = wanted.pop(normalised_dn(dn))
        if entry_digest(dn, attributes, rules).hex() != digest:
            yield recorded, True
    for dn, _ in wanted.values():
        yield dn, False
