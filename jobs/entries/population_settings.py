# SPDX-License-Identifier: Apache-2.0
"""What a population is made with: seed, files of names, side files; and its sources."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ldapslam.base.fault import Fault, did_you_mean
from ldapslam.jobs.entries import ldif_code
from ldapslam.jobs.entries.ldif_code import NO_NAMES
from ldapslam.jobs.entries.population_tags import Place
from ldapslam.jobs.requests.template import FILE_SEQUENCE, ValueSource

#: A kind of filter: its form, and what stands before and after the part of the value.
FILTER_TYPES: Mapping[str, tuple[int, bytes, bytes]] = {
    "eq": (ldif_code.FILTER_INITIAL, b"", b""),
    "subInitial": (ldif_code.FILTER_INITIAL, b"", b"*"),
    "subAny": (ldif_code.FILTER_ANY, b"*", b"*"),
    "subFinal": (ldif_code.FILTER_FINAL, b"*", b""),
}


@dataclass(frozen=True)
class FilterLine:
    """A filter for each entry that has the attribute."""

    attribute: str
    #: One of FILTER_TYPES.
    kind: str
    #: Characters of a substring.
    length: int = 3


@dataclass(frozen=True)
class SideFiles:
    """Numbers of outputs; None: not wanted. Entries of branches are in none of them."""

    dns: int | None = None
    #: DN, a tab, the first userPassword.
    binds: int | None = None
    filters: int | None = None
    filter_lines: tuple[FilterLine, ...] = ()


@dataclass(frozen=True)
class ProgramSettings:
    seed: int
    #: Files with a name on each line.
    first_names: str
    last_names: str
    side_files: SideFiles = SideFiles()
    skip_branches: bool = False
    #: File with the values of a field of the CSV file, a line for each row.
    csv_columns: Mapping[str, str] = field(default_factory=dict)


class Sources:
    """The value sources of all nodes; equal ones once."""

    def __init__(self, settings: ProgramSettings) -> None:
        self.settings = settings
        self.numbers: dict[ValueSource, int] = {}
        self.found: list[ValueSource] = []
        self.names = (NO_NAMES, NO_NAMES)

    def number(self, source: ValueSource) -> int:
        if source not in self.numbers:
            self.numbers[source] = len(self.found)
            self.found.append(source)
        return self.numbers[source]

    def name(self, place: Place) -> int:
        """First and last names go together: a combination is of both."""
        if self.names[0] == NO_NAMES:
            paths = (self.settings.first_names, self.settings.last_names)
            first, last = (
                self.number(ValueSource(FILE_SEQUENCE, data=path.encode()))
                for path in paths
            )
            self.names = (first, last)
        return self.names[0] if place == Place.FIRST else self.names[1]


def parse_filter_types(text: str) -> tuple[tuple[str, str], ...]:
    """uid:eq,subInitial as pairs of attribute and type; `sub` is all three."""
    attribute, _, kinds = text.partition(":")
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9;-]*", attribute) or not kinds:
        raise Fault(
            f"expected ATTRIBUTE:TYPE,…, got {text!r}",
            f"such as uid:eq or cn:sub; the types are {', '.join(FILTER_TYPES)}, sub",
        )
    found: list[tuple[str, str]] = []
    for kind in kinds.split(","):
        if kind == "sub":
            found += [(attribute, one) for one in FILTER_TYPES if one != "eq"]
        elif kind in FILTER_TYPES:
            found.append((attribute, kind))
        else:
            hint = did_you_mean(kind, (*FILTER_TYPES, "sub"), "types")
            raise Fault(f"unknown type of filter {kind!r}", hint)
    return tuple(found)
