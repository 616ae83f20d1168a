# SPDX-License-Identifier: Apache-2.0
"""Entry templates: MakeLDIF's, for the single entries that an add operation makes.

A template of a file (`parse_templates`, `choose`) is composed to an entry (`compose`):
its DN, its attributes, and the variables that they share. What is referred to, by
{attribute} or in the RDN, is drawn once, before the request, into a variable;
everything else is drawn where it stands.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ldapslam.base.fault import Fault, did_you_mean
from ldapslam.jobs.entries.tags import (
    Condition,
    Name,
    Reference,
    TreePart,
    Value,
    parse_values,
)
from ldapslam.jobs.entries.template_file import (
    EntryTemplate,
    Line,
    extended,
    file_fault,
    parse_file,
)
from ldapslam.jobs.requests import ber
from ldapslam.jobs.requests.dn import parse_dn
from ldapslam.jobs.requests.scope import Let, Scope
from ldapslam.jobs.requests.template import (
    CERTAIN_PPM,
    VARIABLE,
    Chance,
    Node,
    ValueSource,
)


@dataclass(frozen=True)
class ComposedEntry:
    """An entry as an add operation sends it."""

    #: Variable with its DN.
    dn: int
    #: One finished PartialAttribute each (RFC 4511 section 4.1.7).
    attributes: tuple[Node, ...]
    #: In the order in which they are drawn.
    lets: tuple[Let, ...]


def parse_templates(text: str, file: str) -> dict[str, EntryTemplate]:
    """The templates of a file by name, in its order; a Fault names the line. Branches
    are of a tree that MakeLDIF makes; an add has its `under`."""
    parsed = parse_file(text, file)
    parsed.undefined.stop()
    templates = parsed.templates
    if not templates:
        raise Fault(
            f"{file}: expected a template, got none",
            "`ldapslam job describe templates` explains them",
        )
    for template in templates.values():
        for below in template.below:
            raise file_fault(
                file,
                below.line,
                "the tag subordinateTemplate is not supported",
                "an add makes one entry: give the others an add operation of their own",
            )
    return templates


def choose(templates: Mapping[str, EntryTemplate], name: str | None) -> EntryTemplate:
    """The template of this name, or the only one; with those that it extends."""
    if name is None and len(templates) > 1:
        known = ", ".join(templates)
        file = next(iter(templates.values())).file
        raise Fault(
            f"{file} has {len(templates)} templates",
            f"choose one by `template_name`: {known}",
        )
    wanted = name or next(iter(templates))
    if wanted not in templates:
        raise Fault(
            f"unknown template {wanted!r}", did_you_mean(wanted, templates, "templates")
        )
    return extended(templates[wanted], templates)


def compose(template: EntryTemplate, under: str, scope: Scope) -> ComposedEntry:
    """The entry of a template below a DN, which may hold patterns."""
    return _Entry(template, under, scope).compose()


#: When a value is there: the numbers of the events that must all happen, () for always;
#: None: never. An event is one <presence>: all that hang on it are there together.
_Presence = tuple[int, ...] | None


@dataclass
class _Attribute:
    name: str
    values: list[tuple[Line, Value]] = field(default_factory=list)


class _Entry:
    """One entry while it is composed."""

    def __init__(self, template: EntryTemplate, under: str, scope: Scope) -> None:
        self.template = template
        self.scope = scope
        self.lets: list[Let] = []
        self.under = parse_dn(under, scope.names).nodes
        self.attributes: dict[str, _Attribute] = {}
        folder = posixpath.dirname(template.file)
        for line in template.lines:
            attribute = self.attributes.setdefault(
                line.attribute.lower(), _Attribute(line.attribute)
            )
            try:
                values = parse_values(line.text, scope.names, folder)
            except Fault as fault:
                raise self.fault(line, fault.reason, fault.hint) from None
            attribute.values += ((line, value) for value in values)
        #: Variables of attributes and of 'dn', 'rdn' and 'parentdn' with '<' before.
        self.variables: dict[str, int] = {}
        self.under_way: list[str] = []
        #: Probabilities of the events, and the event of each value that has one.
        self.events: list[int] = []
        self.event_of: dict[int, int] = {}
        self.presences: dict[str, _Presence] = {}

    def fault(self, line: Line, reason: str, hint: str | None = None) -> Fault:
        return file_fault(self.template.file, line.number, reason, hint)

    def compose(self) -> ComposedEntry:
        if not self.template.rdn:
            raise file_fault(
                self.template.file,
                self.template.line,
                f"the template {self.template.name!r} has no rdnAttr",
                "add a line such as rdnAttr: uid",
            )
        dn = self.variable("<dn")
        for line, value in self.lines():
            for part in value.parts:
                if isinstance(part, Reference):
                    self.referenced(part, line)
        finished = [self.finished(attribute) for attribute in self.attributes.values()]
        nodes = [one for one in finished if one is not None]
        self.check_events(presence for presence, _ in nodes)
        return ComposedEntry(dn, tuple(_nested(nodes, self.events)), tuple(self.lets))

    def check_events(self, presences: Iterable[tuple[int, ...]]) -> None:
        """An event happens once for an entry, so it has one place among the others."""
        before: dict[int, tuple[int, ...]] = {}
        for presence in presences:
            for number, event in enumerate(presence):
                if before.setdefault(event, presence[:number]) != presence[:number]:
                    raise file_fault(
                        self.template.file,
                        self.template.line,
                        "an attribute hangs on two others that come by chance",
                        "use <ifpresent> for one of them",
                    )

    def lines(self) -> Iterable[tuple[Line, Value]]:
        for attribute in self.attributes.values():
            yield from attribute.values

    # What is drawn once: names and attributes that are referred to.

    def variable(self, key: str) -> int:
        """The variable of a name or of an attribute; drawn now, if not before."""
        if key in self.variables:
            return self.variables[key]
        if key in self.under_way:
            circle = " -> ".join((*self.under_way, key)).replace("<", "")
            raise file_fault(
                self.template.file,
                self.template.line,
                f"values depend on each other in a circle: {circle}",
                "break it by writing one of them out",
            )
        self.under_way.append(key)
        nodes = self.name_nodes(key) if key[0] == "<" else self.first_nodes(key)
        let = self.scope.let(*nodes)
        self.lets.append(let)
        self.under_way.remove(key)
        self.variables[key] = let.variable
        return let.variable

    def name_nodes(self, key: str) -> tuple[Node, ...]:
        if key == "<parentdn":
            return self.under
        if key == "<dn":
            rdn = ValueSource(VARIABLE, lo=self.variable("<rdn"))
            return (rdn, b",", *self.parent()) if self.under else (rdn,)
        nodes: list[Node] = []
        for name in self.template.rdn:
            attribute = self.attributes.get(name)
            if attribute is None or self.presence(name) != ():
                raise file_fault(
                    self.template.file,
                    self.template.line,
                    f"the RDN's attribute {name!r} is not in every entry",
                    "give it a line without a condition",
                )
            nodes += (b"+",) if nodes else ()
            nodes.append(f"{attribute.name}=".encode())
            nodes.append(ValueSource(VARIABLE, lo=self.variable(name), width=1))
        return tuple(nodes)

    def parent(self) -> tuple[Node, ...]:
        """The parent's DN; drawn once, if it is drawn."""
        if all(isinstance(node, bytes) for node in self.under):
            return self.under
        return (ValueSource(VARIABLE, lo=self.variable("<parentdn")),)

    def first_nodes(self, key: str) -> tuple[Node, ...]:
        line, value = self.attributes[key].values[0]
        return self.nodes(line, value)

    def nodes(self, line: Line, value: Value) -> tuple[Node, ...]:
        """A value's text, with what it refers to."""
        nodes: list[Node] = []
        for part in value.parts:
            if isinstance(part, Name):
                if part.which == "parentdn":
                    nodes += self.parent()
                else:
                    nodes.append(
                        ValueSource(VARIABLE, lo=self.variable(f"<{part.which}"))
                    )
            elif isinstance(part, Reference):
                nodes.append(self.referenced(part, line))
            elif not isinstance(part, TreePart):  # which an add does not parse
                nodes.append(part)
        return tuple(nodes)

    def referenced(self, reference: Reference, line: Line) -> Node:
        attribute = self.attributes.get(reference.attribute)
        if attribute is None:
            raise self.fault(
                line,
                f"the template has no attribute {reference.attribute!r}",
                did_you_mean(reference.attribute, self.attributes, "attributes"),
            )
        constant = attribute.values[0][1].constant
        if self.presence(reference.attribute) != ():
            raise self.fault(
                line,
                f"the attribute {reference.attribute!r} is not in every entry",
                "refer to one whose line has no condition",
            )
        if constant is not None:
            text = constant.decode()
            return text[: reference.limit or None].encode()
        return ValueSource(
            VARIABLE, lo=self.variable(reference.attribute), hi=reference.limit
        )

    # What is not in every entry.

    def presence(self, key: str) -> _Presence:
        """When an attribute is there."""
        if key not in self.presences:
            self.presences[key] = ()  # of one that hangs on itself
            each = [
                self.value_presence(*value) for value in self.attributes[key].values
            ]
            certain = [one for one in each if one is not None]
            distinct = set(certain)
            if () in distinct or (len(distinct) == 1 and len(certain) > 1):
                self.presences[key] = min(certain, key=len)
            elif len(certain) > 1:
                raise self.fault(
                    self.attributes[key].values[0][0],
                    f"each value of {key!r} has a condition of its own",
                    "an attribute has at least one value: leave one without condition",
                )
            else:
                self.presences[key] = certain[0] if certain else None
        return self.presences[key]

    def value_presence(self, line: Line, value: Value) -> _Presence:
        events: tuple[int, ...] = ()
        for condition in value.conditions:
            other = self.met(condition, line)
            if other is None:
                return None
            events += tuple(one for one in other if one not in events)
        if value.ppm == 0:
            return None
        if value.ppm < CERTAIN_PPM:
            if id(value) not in self.event_of:
                self.event_of[id(value)] = len(self.events)
                self.events.append(value.ppm)
            events += (self.event_of[id(value)],)
        return events

    def met(self, condition: Condition, line: Line) -> _Presence:
        """When a condition is met."""
        key = condition.attribute
        other: _Presence = self.presence(key) if key in self.attributes else None
        if condition.value is not None and other is not None:
            constants = [value.constant for _, value in self.attributes[key].values]
            if None in constants:
                raise self.fault(
                    line,
                    f"whether {key!r} is {condition.value!r} is drawn anew each time",
                    "compare with a constant value",
                )
            if condition.value.encode() not in constants:
                other = None
        if condition.present:
            return other
        if other:
            raise self.fault(
                line,
                f"whether {key!r} is absent is drawn anew each time",
                "<ifabsent> wants an attribute that is always or never there",
            )
        return () if other is None else None

    # The finished attributes.

    def finished(self, attribute: _Attribute) -> tuple[tuple[int, ...], Node] | None:
        key = attribute.name.lower()
        presence = self.presence(key)
        if presence is None:
            return None
        values: list[Node] = []
        for number, (line, value) in enumerate(attribute.values):
            own = self.value_presence(line, value)
            if own is None:
                continue
            if number == 0 and key in self.variables and value.constant is None:
                nodes: tuple[Node, ...] = (
                    ValueSource(VARIABLE, lo=self.variables[key]),
                )
            else:
                nodes = self.nodes(line, value)
            node = ber.octet_string(*nodes)
            for event in own[len(presence) :]:
                if self.event_of.get(id(value)) != event:
                    raise self.fault(
                        line,
                        f"one value of {attribute.name!r} hangs on another attribute",
                        "<ifpresent> is for all values of an attribute",
                    )
                node = Chance(self.events[event], (node,))
            values.append(node)
        node = ber.tlv(
            ber.SEQUENCE,
            ber.octet_string(attribute.name.encode()),
            ber.tlv(ber.SET, *values),
        )
        return presence, node


def _nested(
    attributes: Iterable[tuple[tuple[int, ...], Node]], events: list[int]
) -> list[Node]:
    """The attributes, those that hang on the same event together in one Chance."""
    nodes: list[Node] = []
    groups: dict[int, list[tuple[tuple[int, ...], Node]]] = {}
    for presence, node in attributes:
        if presence:
            groups.setdefault(presence[0], []).append((presence[1:], node))
        else:
            nodes.append(node)
    for event, inner in groups.items():
        nodes.append(Chance(events[event], tuple(_nested(inner, events))))
    return nodes
