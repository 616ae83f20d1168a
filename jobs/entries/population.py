# SPDX-License-Identifier: Apache-2.0
"""A population: the tree of entries that a template file describes. Pure.

Its nodes are the branches and, below them, each template where it is subordinate to
something; population_program makes the generator's programs of them.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ldapslam.base.fault import Collected, Fault, UnknownName, did_you_mean, got
from ldapslam.jobs.entries.tags import (
    LAST_NUMBER,
    AncestorDn,
    CsvField,
    Encoded,
    ParentValue,
    Part,
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
    Line,
    TemplateFile,
    constant_hint,
    extended,
    file_fault,
)
from ldapslam.jobs.requests.dn import check_dn, rdn_values, split_rdn
from ldapslam.jobs.requests.template import (
    LIST,
    RANDOM_STRING,
    SEQUENCE,
    UNIFORM,
    Placed,
    ValueSource,
)

#: Limits of the generator: agent/csrc/ldif/ldif.h.
MAX_NODES = 65_536
MAX_DEPTH = 32
MAX_ENTRIES = 1 << 62

#: More names than anybody counts.
_MANY = 1 << 62
#: What is the same for all siblings, and what counts them.
_Pattern = tuple[object, ...]

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
    #: Index of the first one among all entries of the template.
    first_index: int
    #: In the order of the file; several with the same attribute for several values.
    values: list[tuple[Line, Value]] = field(default_factory=list)
    #: Attributes of the RDN in lower case; of a branch ().
    rdn: tuple[str, ...] = ()

    @property
    def is_branch(self) -> bool:
        return self.parent is None

    def fault(
        self, reason: str, hint: str | None = None, line: Line | None = None
    ) -> Fault:
        number = self.line if line is None else line.number
        return file_fault(self.file, number, reason, hint)

    @property
    def has_names(self) -> bool:
        """Whether its entries have first or last names."""
        return any(isinstance(part, PersonName) for part in self.parts())

    def csv_fields(self) -> set[str]:
        return {part.field for part in self.parts() if isinstance(part, CsvField)}

    def parts(self) -> Iterator[object]:
        for _, value in self.values:
            yield from all_parts(value.parts)


@dataclass
class Population:
    #: Each one after the one above it.
    nodes: list[PopulationNode]

    @property
    def entries(self) -> int:
        return sum(node.total for node in self.nodes)


def build_population(
    file: TemplateFile, *, max_per_template: int | None = None
) -> Population:
    """The tree of a file. With `max_per_template` no parent has more entries of a
    template than that below it, for a preview. Faults name the lines."""
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
    for fault in _check_siblings(builder.nodes):
        builder.found.add(fault)
    builder.found.stop()
    population = Population(builder.nodes)
    if population.entries > MAX_ENTRIES:
        raise Fault(f"{file.name} makes more than 2^62 entries", "lower its counts")
    return population


class _Builder:
    def __init__(self, file: TemplateFile, max_per_template: int | None) -> None:
        self.file = file
        self.folder = posixpath.dirname(file.name)
        self.most = MAX_ENTRIES if max_per_template is None else max_per_template
        self.nodes: list[PopulationNode] = []
        self.templates: dict[str, EntryTemplate] = {}
        self.values: dict[str, list[tuple[Line, Value]]] = {}
        #: Entries of each template so far.
        self.made: dict[str, int] = {}
        self.found = Collected()
        with self.found.each():
            file.undefined.stop()

    def branch(self, branch: Branch) -> None:
        try:
            check_dn(branch.dn)
        except Fault as fault:
            raise file_fault(
                self.file.name, branch.line, fault.reason, fault.hint
            ) from None
        if not branch.dn:
            raise file_fault(
                self.file.name, branch.line, "the branch has no DN", "branch: DN"
            )
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
            raise file_fault(
                self.file.name,
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
        """The template of a line, with those that it extends, checked once."""
        name = below.template
        if name not in self.file.templates:
            raise file_fault(
                self.file.name,
                below.line,
                f"unknown template {name!r}",
                did_you_mean(name, self.file.templates, "templates"),
            )
        if name in above or len(above) >= MAX_DEPTH - 1:
            circle = " -> ".join((*above, name))
            raise file_fault(
                self.file.name,
                below.line,
                f"templates are below themselves, or nested too deep: {circle}",
                f"a tree has at most {MAX_DEPTH} levels",
            )
        if name not in self.templates:
            template = extended(self.file.templates[name], self.file.templates)
            if not template.rdn:
                raise file_fault(
                    self.file.name,
                    template.line,
                    f"the template {name!r} has no rdnAttr",
                    "add a line such as rdnAttr: uid",
                )
            self.values[name] = self.parsed(template.lines)
            self.templates[name] = template
        return self.templates[name]

    def parsed(self, lines: list[Line]) -> list[tuple[Line, Value]]:
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
                self.found.add(
                    file_fault(self.file.name, line.number, fault.reason, hint)
                )
        return values

    def check_references(self, line: Line, value: Value, known: set[str]) -> None:
        """Of lines that are surely wanted; the program's coder sees the others."""
        for part in all_parts(value.parts):
            if (
                isinstance(part, Reference)
                and part.attribute not in known
                and not value.conditions
            ):
                raise Fault(
                    f"the template has no attribute {part.attribute!r}",
                    did_you_mean(part.attribute, known, "attributes"),
                )


def _branch_lines(branch: Branch) -> list[Line]:
    """The lines of a branch, with its class and RDN where they are left out."""
    present = {line.attribute.lower() for line in branch.lines}
    rdn = rdn_values(branch.dn)
    lines: list[Line] = []
    if "objectclass" not in present:
        known = _CLASSES.get(rdn[0][0].lower(), "extensibleObject")
        lines += [Line(branch.line, "objectClass", text) for text in ("top", known)]
    lines += branch.lines
    lines += [
        Line(branch.line, name, re.sub(r"[<{\[\\]", r"\\\g<0>", text))
        for name, text in rdn
        if name.lower() not in present
    ]
    return lines


def _check_order(file: TemplateFile) -> None:
    """A branch stands behind those above it, and is there once."""
    later: Mapping[str, Branch] = {
        _normalised(branch.dn): branch for branch in file.branches
    }
    seen: set[str] = set()
    for branch in file.branches:
        dn = _normalised(branch.dn)
        if dn in seen:
            raise file_fault(
                file.name,
                branch.line,
                f"the branch {got(branch.dn)} is given twice",
                "put its lines together",
            )
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


def _normalised(dn: str) -> str:
    return re.sub(r" *([,+=]) *", r"\1", dn.strip()).lower()


def _check_siblings(nodes: Sequence[PopulationNode]) -> Iterator[Fault]:
    """Entries that would surely have equal DNs.

    An RDN of constants, lists and random numbers alone has a known number of values,
    and two templates below one entry may count in the same way. Nothing else is held
    against a file: values that are drawn may come twice."""
    known: dict[tuple[int, _Pattern], list[tuple[PopulationNode, range]]] = {}
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

    def numbered(self, parent: PopulationNode) -> tuple[_Pattern, range] | None:
        """Their pattern and the numbers in it; None: of names that are not known by
        the number of their entry alone, or that are others below each parent."""
        parts: list[object] = []
        for attribute in self._node.rdn:
            found = self._resolved(attribute, ())
            if found is None:
                return None
            parts += [attribute, *found]
        counters = [part for part in parts if _counts(part)]
        if not counters:
            return tuple(parts), range(1)
        counter, node = counters[0], self._node
        source = counter.source if isinstance(counter, Placed) else counter
        if len(counters) > 1 or not isinstance(source, ValueSource):
            return None
        first = source.lo
        if not isinstance(counter, Placed):
            if parent.total > 1:
                return None
            first += node.first_index
        pattern = tuple(Placed if part is counter else part for part in parts)
        return pattern, range(first, first + node.count)

    def _most(self, attribute: str, above: tuple[str, ...]) -> int:
        value = self._values.get(attribute)
        if value is None or attribute in above or not value.is_certain:
            return _MANY
        return self._product(value.parts, (*above, attribute))

    def _product(self, parts: Sequence[Part], above: tuple[str, ...]) -> int:
        number = 1
        for part in parts:
            if isinstance(part, Reference):
                number *= self._most(part.attribute, above)
            elif isinstance(part, Encoded):
                number *= self._product(part.parts, above)
            elif not isinstance(part, bytes) and not _is_of_parent(part):
                number *= _drawn(part)
            number = min(_MANY, number)
        return number

    def _resolved(self, attribute: str, above: tuple[str, ...]) -> list[object] | None:
        value = self._values.get(attribute)
        if value is None or attribute in above or not value.is_certain:
            return None
        found: list[object] = []
        for part in value.parts:
            if isinstance(part, Reference) and not part.limit:
                inner = self._resolved(part.attribute, (*above, attribute))
                if inner is None:
                    return None
                found += inner
            elif isinstance(part, bytes) or _counts(part) or _is_of_parent(part):
                found.append(part)
            else:
                return None
        return found


def _counts(part: object) -> bool:
    """Whether it is a <sequential>."""
    source = part.source if isinstance(part, Placed) else part
    return (
        isinstance(source, ValueSource)
        and source.kind == SEQUENCE
        and (source.hi, source.step) == (LAST_NUMBER, 1)
    )


def _is_of_parent(part: Part) -> bool:
    """The same for all siblings."""
    if isinstance(part, AncestorDn):
        return part.levels > 0
    return isinstance(part, ParentValue)


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
