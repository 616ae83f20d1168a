# SPDX-License-Identifier: Apache-2.0
"""Entries of a population that would surely have equal DNs. Pure.

Of a template's RDN it is known how many different values there can be at most, where it
is made of constants, lists and random numbers alone; and of two templates below one
entry, whether they count in the same way. Nothing else is held against a file: values
that are drawn may come twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ldapslam.base.fault import Fault
from ldapslam.jobs.entries.population_tags import (
    AncestorDn,
    Base64,
    ParentValue,
    Place,
    Placed,
)
from ldapslam.jobs.entries.tags import Name, Part, Reference, Value
from ldapslam.jobs.requests.template import (
    CERTAIN_PPM,
    LIST,
    RANDOM_STRING,
    SEQUENCE,
    UNIFORM,
    ValueSource,
)

if TYPE_CHECKING:
    from ldapslam.jobs.entries.population import PopulationNode

#: What is the same for all siblings, and what counts them.
Pattern = tuple[object, ...]

_MANY = 1 << 62


def check_siblings(nodes: Sequence[PopulationNode]) -> Iterator[Fault]:
    """What is wrong with the names of templates' entries; `nodes` as a population has
    them."""
    known: dict[tuple[int, Pattern], list[tuple[PopulationNode, range]]] = {}
    for node in nodes:
        if node.parent is None:
            continue
        names = _Names(node)
        if (most := names.most()) < node.count:
            yield node.fault(
                f"{node.count:,} entries of the template {node.name!r} have {most:,} "
                f"different names at most, by {' + '.join(node.rdn)}",
                "put <sequential> or <entryNumber> into that attribute",
            )
            continue
        if (found := names.numbered(nodes[node.parent])) is None:
            continue
        pattern, numbers = found
        siblings = known.setdefault((node.parent, pattern), [])
        for other, taken in siblings:
            if max(numbers.start, taken.start) < min(numbers.stop, taken.stop):
                yield node.fault(
                    f"the templates {other.name!r} and {node.name!r} give their "
                    f"entries the same names below {nodes[node.parent].name!r}",
                    "let one <sequential:START> begin where the other ends, or put "
                    "each below a branch of its own",
                )
        siblings.append((node, numbers))


class _Names:
    """Of the entries of one template below one entry: their RDN."""

    def __init__(self, node: PopulationNode) -> None:
        self._node = node
        #: The first one of each attribute.
        self._values: dict[str, Value] = {}
        for line, value in node.values:
            self._values.setdefault(line.attribute.lower(), value)

    def most(self) -> int:
        """How many different ones there can be."""
        number = 1
        for attribute in self._node.rdn:
            number = min(_MANY, number * self._most(attribute, ()))
        return number

    def numbered(self, parent: PopulationNode) -> tuple[Pattern, range] | None:
        """Their pattern and the numbers in it; None: of names that are not known by
        the number of their entry alone, or that are others below each parent."""
        parts: list[object] = []
        for attribute in self._node.rdn:
            found = self._resolved(attribute, ())
            if found is None:
                return None
            parts += [attribute, *found]
        counters = [part for part in parts if isinstance(part, Placed)]
        if not counters:
            return tuple(parts), range(1)
        if len(counters) > 1 or counters[0].source.kind != SEQUENCE:
            return None
        first, node = counters[0].source.lo, self._node
        if counters[0].place is Place.INDEX and parent.total == 1:
            first += node.first_index
        elif counters[0].place is not Place.SIBLING:
            return None
        pattern = tuple(Placed if part in counters else part for part in parts)
        return pattern, range(first, first + node.count)

    def _most(self, attribute: str, above: tuple[str, ...]) -> int:
        value = self._values.get(attribute)
        if value is None or attribute in above or not _is_certain(value):
            return _MANY
        return self._product(value.parts, (*above, attribute))

    def _product(self, parts: Sequence[Part], above: tuple[str, ...]) -> int:
        number = 1
        for part in parts:
            if isinstance(part, Reference):
                number *= self._most(part.attribute, above)
            elif isinstance(part, Base64):
                number *= self._product(part.parts, above)
            elif not isinstance(part, bytes) and not _is_of_parent(part):
                number *= _drawn(part)
            number = min(_MANY, number)
        return number

    def _resolved(self, attribute: str, above: tuple[str, ...]) -> list[object] | None:
        value = self._values.get(attribute)
        if value is None or attribute in above or not _is_certain(value):
            return None
        found: list[object] = []
        for part in value.parts:
            if isinstance(part, Reference) and not part.limit:
                inner = self._resolved(part.attribute, (*above, attribute))
                if inner is None:
                    return None
                found += inner
            elif isinstance(part, bytes | Placed) or _is_of_parent(part):
                found.append(part)
            else:
                return None
        return found


def _is_certain(value: Value) -> bool:
    return value.ppm == CERTAIN_PPM and not value.conditions


def _is_of_parent(part: Part) -> bool:
    """The same for all siblings."""
    if isinstance(part, AncestorDn):
        return part.levels > 0
    return isinstance(part, ParentValue) or part == Name("parentdn")


def _drawn(part: Part) -> int:
    if not isinstance(part, ValueSource):
        return _MANY
    if part.kind == LIST:
        return len({text for text, weight in part.choices if weight})
    if part.kind == UNIFORM:
        return part.hi - part.lo + 1
    if part.kind == RANDOM_STRING and part.hi <= 8:
        letters = len(set(part.data))
        return sum(letters**length for length in range(part.lo, part.hi + 1))
    return _MANY
