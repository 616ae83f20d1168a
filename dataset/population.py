# SPDX-License-Identifier: Apache-2.0
"""A population: the tree of entries that a template file describes, and its programs.

The nodes of the tree are the branches and, below them, each template where it is
subordinate to something. The generator (agent/csrc/ldif/ldif.h) runs a program for each
node. Each line draws from random numbers of its own, by its place in the template: that
a value is referred to, or a side file wanted, changes no other value. Pure.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ldapslam.base.fault import Collected, Fault, UnknownName, got, unknown
from ldapslam.jobs.entries.entry import ALWAYS, NEVER, Entry, cut, draws, repeated
from ldapslam.jobs.entries.tags import (
    AncestorDn,
    ParentValue,
    PersonName,
    Reference,
    Value,
    all_parts,
    parse_value,
)
from ldapslam.jobs.entries.template_file import (
    Below,
    Branch,
    EntryTemplate,
    TemplateFile,
    constant_hint,
    extended,
    file_fault,
)
from ldapslam.jobs.entries.template_file import Line as FileLine
from ldapslam.jobs.requests.dn import check_dn, plain_dn, rdn_values, split_rdn
from ldapslam.jobs.requests.template import (
    FILE_SEQUENCE,
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

#: Limits of the generator: agent/csrc/ldif/ldif.h.
MAX_NODES = 65_536
MAX_DEPTH = 32
MAX_ENTRIES = 1 << 62

#: What the entry of a branch is, by the attribute of its RDN; others are of the class
#: that allows every attribute.
_CLASSES = {
    "dc": "domain",
    "o": "organization",
    "ou": "organizationalUnit",
    "c": "country",
    "l": "locality",
    "cn": "organizationalRole",
}


@dataclass
class PopulationNode:
    """One kind of entry at one place of the tree."""

    file: str
    #: The template's; of a branch its DN.
    name: str
    line: int
    #: Number of the node above; None: of a branch.
    parent: int | None
    #: Entries below each entry of the parent.
    count: int
    #: In the whole population.
    total: int
    #: Index of the first entry among all entries of the template.
    first_index: int
    #: In the order of the file; several with the same attribute for several values.
    values: list[tuple[FileLine, Value]] = field(default_factory=list)
    #: Attributes of the RDN in lower case; of a branch ().
    rdn: tuple[str, ...] = ()

    @property
    def is_branch(self) -> bool:
        return self.parent is None

    def fault(
        self, reason: str, hint: str | None = None, line: FileLine | None = None
    ) -> Fault:
        number = self.line if line is None else line.number
        return file_fault(self.file, number, reason, hint)

    @property
    def has_names(self) -> bool:
        """Whether its entries have first or last names."""
        return any(isinstance(part, PersonName) for part in self.parts())

    def parts(self) -> Iterator[object]:
        for _, value in self.values:
            yield from all_parts(value.parts)


def build_population(
    file: TemplateFile, *, max_per_template: int | None = None
) -> list[PopulationNode]:
    """The nodes of a file's tree, each after its parent; Faults name the lines.
    `max_per_template` limits the entries of a template below each parent."""
    if not file.branches:
        raise Fault(
            f"{file.name} has no branch",
            "add one with its subordinateTemplate: branch: ou=people,dc=example,dc=com",
        )
    builder = _Builder(file, max_per_template)
    with builder.found.each():
        _check_order(file)
    for branch in file.branches:
        with builder.found.each():
            builder.branch(branch)
    builder.found.stop()
    if sum(node.total for node in builder.nodes) > MAX_ENTRIES:
        raise Fault(f"{file.name} makes more than 2^62 entries", "lower its counts")
    return builder.nodes


class _Builder:
    def __init__(self, file: TemplateFile, max_per_template: int | None) -> None:
        self.file = file
        self.folder = posixpath.dirname(file.name)
        self.most = MAX_ENTRIES if max_per_template is None else max_per_template
        self.nodes: list[PopulationNode] = []
        self.templates: dict[str, EntryTemplate] = {}
        self.values: dict[str, list[tuple[FileLine, Value]]] = {}
        #: Entries of each template so far.
        self.made: dict[str, int] = {}
        self.found = Collected()
        with self.found.each():
            file.undefined.stop()

    def fault(self, number: int, reason: str, hint: str | None = None) -> Fault:
        return file_fault(self.file.name, number, reason, hint)

    def branch(self, branch: Branch) -> None:
        try:
            check_dn(branch.dn)
        except Fault as fault:
            raise self.fault(branch.line, fault.reason, fault.hint) from None
        if not branch.dn:
            raise self.fault(branch.line, "the branch has no DN", "branch: DN")
        node = PopulationNode(self.file.name, branch.dn, branch.line, None, 1, 1, 0)
        node.values = self.parsed(_branch_lines(branch))
        self.nodes.append(node)
        self.below(branch.below, len(self.nodes) - 1, ())

    def below(self, below: list[Below], parent: int, above: tuple[str, ...]) -> None:
        for one in below:
            if min(one.count, self.most) > 0:
                with self.found.each():
                    self.template(one, parent, above)

    def template(self, below: Below, parent: int, above: tuple[str, ...]) -> None:
        template = self.known(below, above)
        count = min(below.count, self.most)
        total = count * self.nodes[parent].total
        if len(self.nodes) == MAX_NODES or total > MAX_ENTRIES:
            raise self.fault(
                below.line,
                f"the tree has more than {MAX_NODES} kinds of entries or 2^62 entries",
                "lower the counts, or the number of branches and templates",
            )
        first = self.made.get(template.name, 0)
        self.made[template.name] = first + total
        self.nodes.append(
            PopulationNode(
                self.file.name,
                template.name,
                template.line,
                parent,
                count,
                total,
                first,
                self.values[template.name],
                template.rdn,
            )
        )
        self.below(template.below, len(self.nodes) - 1, (*above, template.name))

    def known(self, below: Below, above: tuple[str, ...]) -> EntryTemplate:
        """The template of a line, with the templates that it extends, checked once."""
        name = below.template
        if name not in self.file.templates:
            fault = unknown("template", name, self.file.templates)
            raise self.fault(below.line, fault.reason, fault.hint)
        if name in above or len(above) >= MAX_DEPTH - 1:
            circle = " -> ".join((*above, name))
            raise self.fault(
                below.line,
                f"templates are below themselves, or nested too deep: {circle}",
                f"a tree has at most {MAX_DEPTH} levels",
            )
        if name not in self.templates:
            template = extended(self.file.templates[name], self.file.templates)
            if not template.rdn:
                raise template.no_rdn()
            self.values[name] = self.parsed(template.lines)
            self.templates[name] = template
        return self.templates[name]

    def parsed(self, lines: list[FileLine]) -> list[tuple[FileLine, Value]]:
        values = []
        known = {line.attribute.lower() for line in lines}
        for line in lines:
            try:
                value = parse_value(line.text, {}, self.folder)
                values.append((line, value))
                self.check_references(line, value, known)
            except Fault as fault:
                hint = fault.hint
                if isinstance(fault, UnknownName):
                    hint = constant_hint(line.text, self.file.constants) or hint
                self.found.add(self.fault(line.number, fault.reason, hint))
        return values

    def check_references(self, line: FileLine, value: Value, known: set[str]) -> None:
        """Of lines that are surely wanted; the program's coder sees the others."""
        for part in all_parts(value.parts):
            if (
                isinstance(part, Reference)
                and part.attribute not in known
                and not value.conditions
            ):
                raise unknown("attribute", part.attribute, known)


def _branch_lines(branch: Branch) -> list[FileLine]:
    """The lines of a branch, with its class and RDN where they are left out."""
    present = {line.attribute.lower() for line in branch.lines}
    rdn = rdn_values(branch.dn)
    lines: list[FileLine] = []
    if "objectclass" not in present:
        known = _CLASSES.get(rdn[0][0].lower(), "extensibleObject")
        lines += [FileLine(branch.line, "objectClass", text) for text in ("top", known)]
    lines += branch.lines
    lines += [
        FileLine(branch.line, name, re.sub(r"[<{\[\\]", r"\\\g<0>", text))
        for name, text in rdn
        if name.lower() not in present
    ]
    return lines


def _check_order(file: TemplateFile) -> None:
    """A branch stands behind those above it, and is there once."""
    later = {plain_dn(branch.dn): branch for branch in file.branches}
    seen: set[str] = set()
    for branch in file.branches:
        dn = plain_dn(branch.dn)
        if dn in seen:
            reason = f"the branch {got(branch.dn)} is given twice"
            raise file_fault(file.name, branch.line, reason, "put its lines together")
        seen.add(dn)
        _, above = split_rdn(dn)
        while above:
            if above in later and above not in seen:
                raise file_fault(
                    file.name,
                    branch.line,
                    f"the branch {got(branch.dn)} stands before {later[above].dn!r}, "
                    "which is above it",
                    "move it down: servers want parents first",
                )
            _, above = split_rdn(above)


NO_PARENT = NO_NAMES = 0xFFFFFFFF


@dataclass(frozen=True)
class ProgramSettings:
    seed: int
    #: Files with a name on each line.
    first_names: str
    last_names: str
    #: By number: ldif, dns, binds (DN, a tab, the first userPassword). Entries of
    #: branches are only in the LDIF.
    outputs: tuple[str, ...] = ("ldif",)


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
    """struct slam_ldif_config without the settings of the machine."""

    seed: int
    nodes: tuple[NodeProgram, ...]
    sources: tuple[ValueSource, ...]
    first_names: int = NO_NAMES
    last_names: int = NO_NAMES


def compile_population(
    population: Sequence[PopulationNode], settings: ProgramSettings
) -> PopulationProgram:
    """The programs of all nodes; Faults name the lines that cannot be compiled."""
    sources = _Sources(settings)
    entries: list[_PopulationEntry] = []
    for node in population:
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
    for node, entry, body in zip(population, entries, bodies, strict=True):
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
    """The value sources of all nodes; equal sources once."""

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
    """The entry of a node; complete when `body` was called for all nodes, as those
    below ask for slots."""

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
        outputs = self.settings.outputs
        if "dns" in outputs:
            yield Output(outputs.index("dns"), (dn,))
        password = self.first_value("userPassword") if "binds" in outputs else None
        if password is not None:
            output = Output(outputs.index("binds"), (dn, b"\t", Slot(password)))
            yield self.where_filled("userPassword", output)

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
        branch = entry.node.name
        hint = f"the branch is {branch!r}"
        return self.constant_ancestor(branch, part.levels - level, part, line, hint)

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

    def parent_value(self, part: ParentValue, line: FileLine) -> tuple[Node, ...]:
        above = self.parent
        if above is None:
            raise self.fault(
                "a value of the parent, which a branch does not have",
                "write it out, or refer to an attribute",
                line,
            )
        if part.attribute not in above.attributes:
            where = f" of {above.node.name!r}"
            fault = unknown("attribute", part.attribute, above.attributes, where=where)
            raise self.fault(fault.reason, fault.hint, line)
        number = above.attributes[part.attribute][0]
        constant = above.constant(number)
        if constant is not None:
            return (cut(constant, part.limit),)
        return (Slot(above.value_slot(number), 1, part.limit),)
