# SPDX-License-Identifier: Apache-2.0
"""The entries of a file or of a template, as a tree to compare."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from ldapslam.base.errors import ConfigError, LdapSlamError
from ldapslam.dataset.generate import Generation, generate
from ldapslam.dataset.ldif import ldif_entries, records
from ldapslam.directory.entry_digest import Attributes, is_below, normalised_dn

_Entries = Iterator[tuple[str, Attributes]]


class LocalTree:
    """Entries at a base and below; see tree_comparison.Tree."""

    def __init__(
        self,
        name: str,
        read: Callable[[], _Entries],
        base: str = "",
        *,
        is_whole: bool = False,
    ) -> None:
        """`read` starts over each time. An empty `base` is all entries. `is_whole`: a
        ConfigError names an entry that is not below the base."""
        self.name = name
        self._read = read
        self._base = base
        self._is_whole = is_whole

    def entries(self) -> _Entries:
        for dn, attributes in self._read():
            if is_below(dn, self._base):
                yield dn, attributes
            elif self._is_whole:
                raise ConfigError(
                    f"{self.name}: {dn!r} is not below its first entry {self._base!r}",
                    hint="name the DN below which to compare with -b",
                )

    def names(self) -> Iterator[str]:
        return (dn for dn, _ in self.entries())

    def pick(self, dns: Iterable[str]) -> _Entries:
        wanted = {normalised_dn(dn) for dn in dns}
        return (
            (dn, attributes)
            for dn, attributes in self.entries()
            if normalised_dn(dn) in wanted
        )

    def below_first(self) -> tuple[LocalTree, str]:
        """The same with the first entry as its base; and that."""
        base = next(self.names(), None)
        if base is None:
            raise ConfigError(f"{self.name!r} has no entries")
        return LocalTree(self.name, self._read, base, is_whole=True), base


def ldif_tree(path: Path, base: str = "") -> LocalTree:
    return LocalTree(str(path), partial(ldif_entries, path), base)


def template_tree(wanted: Generation, base: str = "") -> LocalTree:
    """What `data generate` makes; the output of `wanted` is not used."""
    return LocalTree(wanted.template, partial(_generated, wanted), base)


def first_dn(path: Path) -> str:
    """That of a file's first entry; ConfigError when there is none."""
    return ldif_tree(path).below_first()[1]


def _generated(wanted: Generation) -> _Entries:
    """The generator writes into a pipe that is read here: nothing is on a disk."""
    reading, writing = os.pipe()
    failures: list[LdapSlamError] = []

    def write() -> None:
        try:
            generate(replace(wanted, output=Path(f"/proc/self/fd/{writing}")))
        except LdapSlamError as error:
            failures.append(error)
        finally:
            os.close(writing)

    thread = threading.Thread(target=write, name="template")
    thread.start()
    try:
        with open(reading, "rb") as stream:
            for record in records(stream, wanted.template):
                yield record.dn, record.attributes
    finally:
        # nobody reads any more: the writer fails, if it has not ended
        thread.join()
    if failures:
        raise failures[0]
