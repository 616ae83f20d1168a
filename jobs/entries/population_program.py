# SPDX-License-Identifier: Apache-2.0
"""The generator's programs of a population: agent/csrc/ldif/ldif.h runs them.

Each line draws from random numbers of its own, by its place in the template: that a
value is referred to, or a side file wanted, changes no other value.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ldapslam.base.fault import Collected, Fault, did_you_mean
from ldapslam.jobs.entries.entry import (
    ALWAYS,
    NEVER,
    Entry,
    ancestor_of,
    cut,
    draws,
    repeated,
)
from ldapslam.jobs.entries.population import Population, PopulationNode
from ldapslam.jobs.entries.tags import AncestorDn, CsvField, ParentValue, PersonName
from ldapslam.jobs.entries.template_file import Line as FileLine
from ldapslam.jobs.requests.dn import split_rdn
from ldapslam.jobs.requests.template import (
    FILE_SEQUENCE,
    FILTER_ANY,
    FILTER_FINAL,
    FILTER_INITIAL,
    PLAIN,
    SEQUENCE,
    TIMESTAMP,
    UNDERSCORES,
    UNIQUE,
    Body,
    Field,
    Fill,
    If,
    Line,
    Node,
    Output,
    Place,
    Placed,
    Slot,
    Sources,
    ValueSource,
    compile_entry,
)

NO_PARENT = NO_NAMES = 0xFFFFFFFF

#: A kind of filter: its form, and what stands before and after the part of the value.
FILTER_TYPES: Mapping[str, tuple[int, bytes, bytes]] = {
    "eq": (FILTER_INITIAL, b"", b""),
    "subInitial": (FILTER_INITIAL, b"", b"*"),
    "subAny": (FILTER_ANY, b"*", b"*"),
    "subFinal": (FILTER_FINAL, b"*", b""),
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


@dataclass(frozen=True)
class NodeProgram:
    """struct slam_ldif_node."""

    parent: int
    count: int
    first_index: int
    first_name: int
    seed: int
    program: bytes


@dataclass(frozen=True)
class PopulationProgram:
    """struct slam_ldif_config, but for what is of the machine."""

    seed: int
    nodes: tuple[NodeProgram, ...]
    sources: tuple[ValueSource, ...]
    first_names: int = NO_NAMES
    last_names: int = NO_NAMES


def compile_population(
    population: Population, settings: ProgramSettings
) -> PopulationProgram:
    """The programs of all nodes; Faults name the lines that cannot be compiled."""
    sources = _Sources(settings)
    entries: list[_PopulationEntry] = []
    for node in population.nodes:
        parent = None if node.parent is None else entries[node.parent]
        entries.append(_PopulationEntry(node, parent, sources, settings))
    # A body asks the nodes above for slots: heads are whole once all bodies are.
    bodies, found = [], Collected()
    for entry in entries:
        with found.each():
            bodies.append(tuple(entry.body()))
    found.stop()
    nodes = []
    names = 0
    for node, entry, body in zip(population.nodes, entries, bodies, strict=True):
        kind = "branch" if node.is_branch else "template"
        nodes.append(
            NodeProgram(
                parent=NO_PARENT if node.parent is None else node.parent,
                count=node.count,
                first_index=node.first_index,
                first_name=names,
                seed=_seed(settings.seed, kind, node.name),
                program=compile_entry((*entry.head, Body(), *body), sources),
            )
        )
        names += node.total if node.has_names else 0
    first, last = sources.name_numbers()
    return PopulationProgram(
        seed=_seed(settings.seed, "names", ""),
        nodes=tuple(nodes),
        sources=tuple(sources.found),
        first_names=first,
        last_names=last,
    )


def _seed(seed: int, kind: str, name: str) -> int:
    digest = hashlib.sha256(f"{seed}\0{kind}\0{name}".encode()).digest()
    return int.from_bytes(digest[:8], "little")


class _Sources(Sources):
    """The value sources of all nodes; equal ones once."""

    def __init__(self, settings: ProgramSettings) -> None:
        super().__init__()
        self.numbers: dict[ValueSource, int] = {}
        self.names = {
            place: ValueSource(FILE_SEQUENCE, data=path.encode())
            for place, path in (
                (Place.FIRST, settings.first_names),
                (Place.LAST, settings.last_names),
            )
        }
        self.has_names = False

    def number(self, source: ValueSource) -> int:
        if source not in self.numbers:
            self.numbers[source] = super().number(source)
        return self.numbers[source]

    def name_numbers(self) -> tuple[int, int]:
        """First and last names go together: a combination is of both."""
        if not self.has_names:
            return NO_NAMES, NO_NAMES
        return self.number(self.names[Place.FIRST]), self.number(self.names[Place.LAST])


class _PopulationEntry(Entry):
    """The entry of a node, once `body` has been called for all nodes: those below ask
    for the slots that they refer to."""

    def __init__(
        self,
        node: PopulationNode,
        parent: _PopulationEntry | None,
        sources: _Sources,
        settings: ProgramSettings,
    ) -> None:
        super().__init__(node.values, node.rdn)
        self.node = node
        self.parent = parent
        self.sources = sources
        self.settings = settings
        #: What stands before the body, in order.
        self.head: list[Node] = []

    def body(self) -> Iterator[Node]:
        dn = self.slot(self.dn_slot())
        lines: list[Node] = [Line("dn", (dn,))]
        lines += [
            node for number in range(len(self.values)) for node in self.line(number)
        ]
        if not (self.node.is_branch and self.settings.skip_branches):
            yield from (*lines, Output(0, ()))
        if not self.node.is_branch:
            yield from self.side_lines(dn)

    def line(self, number: int) -> tuple[Node, ...]:
        line, value = self.values[number]
        if self.presence(number) == NEVER:
            return ()
        if number in self.slots:
            nodes: tuple[Node, ...] = (self.slot(self.slots[number]),)
        else:
            nodes = self.nodes(value.parts, line)
        is_drawn = value.loop is not None or draws(nodes)
        nodes = repeated(value, (Line(line.attribute, nodes),))
        if is_drawn:
            nodes = (*self.field(2 * number), *nodes)
        return self.conditional(number, nodes)

    def side_lines(self, dn: Node) -> Iterator[Node]:
        files = self.settings.side_files
        if files.dns is not None:
            yield Output(files.dns, (dn,))
        if files.binds is not None:
            password = self.first_value("userPassword")
            if password is not None:
                text: tuple[Node, ...] = (dn, b"\t", Slot(password))
                yield self.where_filled("userPassword", Output(files.binds, text))
        for one in files.filter_lines:
            slot = self.first_value(one.attribute)
            if files.filters is not None and slot is not None:
                text = _filter_text(one, slot)
                yield self.where_filled(one.attribute, Output(files.filters, text))

    def first_value(self, attribute: str) -> int | None:
        """The slot of an attribute's first value."""
        numbers = self.attributes.get(attribute.lower())
        if not numbers or self.flag(numbers[0]) == NEVER:
            return None
        return self.value_slot(numbers[0])

    def where_filled(self, attribute: str, node: Node) -> Node:
        flag = self.flag(self.attributes[attribute.lower()][0])
        return node if flag == ALWAYS else If(flag, (node,))

    # Entry

    def fault(
        self, reason: str, hint: str | None = None, line: FileLine | None = None
    ) -> Fault:
        return self.node.fault(reason, hint, line)

    def fill(self, nodes: tuple[Node, ...]) -> int:
        self.head.append(Fill(len(self.head), nodes))
        return len(self.head) - 1

    def slot(self, number: int, limit: int = 0, form: int = PLAIN) -> Node:
        return Slot(number, limit=limit, form=form)

    def field(self, number: int) -> tuple[Node, ...]:
        return (Field(number),)

    def dn_nodes(self) -> tuple[Node, ...]:
        if self.parent is None:
            return (self.node.name.encode(),)
        return (*self.rdn_nodes(), b",", Slot(self.parent.dn_slot(), level=1))

    def rdn_nodes(self) -> tuple[Node, ...]:
        if self.parent is None:
            return (split_rdn(self.node.name)[0].encode(),)
        return super().rdn_nodes()

    def ancestor_dn(self, part: AncestorDn, line: FileLine) -> tuple[Node, ...]:
        entry, level = self, 0
        while level < part.levels and entry.parent is not None:
            entry, level = entry.parent, level + 1
        form = UNDERSCORES if part.has_underscores else PLAIN
        if entry.parent is not None:
            return (Slot(entry.dn_slot(), level, form=form),)
        dn = ancestor_of(entry.node.name, part.levels - level)
        if not dn:
            raise self.fault(
                f"nothing is {part.levels} levels above this entry",
                f"the branch is {entry.node.name!r}",
                line,
            )
        return ((dn.replace(",", "_") if part.has_underscores else dn).encode(),)

    def drawn(self, source: ValueSource | Placed, line: FileLine) -> Node:
        if isinstance(source, Placed):
            return source
        if source.kind == TIMESTAMP and source.lo == source.hi == 0:
            raise self.fault(
                "the time of day is not the same each time",
                "give a range: [timestamp:min=…:max=…]",
                line,
            )
        if source.kind in (SEQUENCE, FILE_SEQUENCE):
            return Placed(source, Place.INDEX)
        return Placed(source, Place.POSITION) if source.kind == UNIQUE else source

    def person_name(self, part: PersonName) -> Node:
        self.sources.has_names = True
        return Placed(self.sources.names[part.place], part.place)

    def csv_field(self, part: CsvField, line: FileLine) -> Node:
        path = self.settings.csv_columns.get(part.field)
        if path is None:
            raise self.fault(
                f"there is no CSV field {part.field!r}",
                "--csv FILE gives the rows",
                line,
            )
        source = ValueSource(FILE_SEQUENCE, data=path.encode())
        return Placed(source, Place.INDEX)

    def parent_value(self, part: ParentValue, line: FileLine) -> tuple[Node, ...]:
        above = self.parent
        if above is None:
            raise self.fault(
                "a value of the parent, which a branch does not have",
                "write it out, or refer to an attribute",
                line,
            )
        if part.attribute not in above.attributes:
            raise self.fault(
                f"{above.node.name!r} has no attribute {part.attribute!r}",
                did_you_mean(part.attribute, above.attributes, "attributes"),
                line,
            )
        number = above.attributes[part.attribute][0]
        constant = above.constant(number)
        if constant is not None:
            return (cut(constant, part.limit),)
        return (Slot(above.value_slot(number), 1, part.limit),)


def _filter_text(one: FilterLine, slot: int) -> tuple[Node, ...]:
    form, before, after = FILTER_TYPES[one.kind]
    limit = 0 if one.kind == "eq" else one.length
    start = f"({one.attribute}=".encode() + before
    return (start, Slot(slot, limit=limit, form=form), after + b")")


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
