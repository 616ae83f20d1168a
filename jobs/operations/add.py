# SPDX-License-Identifier: Apache-2.0
"""The add operation (RFC 4511 section 4.7), of values or of an entry template.

A template becomes a DN and attributes in BER. The slots of an entry (entries/entry.py)
are variables of the session, drawn before the request.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field, PrivateAttr, ValidationInfo, field_validator

from ldapslam.base.fault import Fault, unknown
from ldapslam.jobs.entries.entry import ALWAYS, Entry, repeated
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
    EntryTemplate,
    Line,
    extended,
    file_fault,
    parse_file,
)
from ldapslam.jobs.fields.context import Reading
from ldapslam.jobs.fields.sections import FileName, Flag, Text, checked
from ldapslam.jobs.fields.texts import AttributeName, BaseDn, EntryDn, SomeValues
from ldapslam.jobs.operations.body import (
    OperationBody,
    OperationPlan,
    dn_nodes,
    nodes,
    variable,
)
from ldapslam.jobs.operations.entries import refused_modify, rehearsal
from ldapslam.jobs.requests import ber
from ldapslam.jobs.requests.dn import (
    is_of_server,
    parse_dn,
    pieces,
    rdn_parts,
    split_rdn,
)
from ldapslam.jobs.requests.pattern import MASK_CLASS
from ldapslam.jobs.requests.scope import Let, Scope
from ldapslam.jobs.requests.template import (
    PARENT,
    PLAIN,
    UNDERSCORES,
    VARIABLE,
    Node,
    Place,
    Placed,
    ValueSource,
    choice,
    may_be_empty,
)

#: Names of people for <first> and <last>: ASCII, no blanks.
_FIRST_NAMES = """
Ada Adam Agnes Ahmed Aiko Alan Alba Albert Alice Amara Amir Ana Andre Anita Anna Anton
Arjun Astrid Aya Bao Barbara Beatriz Ben Birgit Boris Bruno Camila Carla Carlos Carmen
Cecilia Chen Chiara Chidi Clara Claire Daniel David Deepa Diana Diego Dmitri Edith Elena
Elias Elif Emil Emma Erik Esther Eva Fatima Felix Fiona Franz Freya Gabriel George Gita
Grace Greta Hana Hannah Hans Hassan Helen Hiro Hugo Ibrahim Ida Igor Ines Ingrid Irene
Isaac Isabel Ivan Jack Jana Javier Jean Joana John Jonas Jorge Jose Julia Kai Karim
Karin Kenji Kofi Lars Laura Lea Leila Leo Li Lina Linus Lucia Luis Mai Malik Marco Maria
Mario Marta Martin Mateo Maya Mei Mia Miguel Mina Mohamed Nadia Nina Nora Oliver Olga
Omar Oscar Otto Pablo Paul Pedro Petra Priya Quentin Rachel Rafael Ravi Rita Robert Rosa
Ruth Samir Sana Sara Sato Sven Tara Thomas Tomas Uma Ursula Valentin Vera Victor Viktor
Wei Yara Yuki Zara Zoe
""".split()

_LAST_NAMES = """
Abe Adams Adeyemi Ahmed Ali Almeida Andersen Bakker Banerjee Barbosa Bauer Becker Bell
Berg Bianchi Brown Castro Chan Chen Clark Cohen Costa Cruz Das Davies Diaz Dubois Duran
Eriksen Evans Farah Fernandez Ferrari Fischer Flores Fontaine Garcia Gomez Gonzalez
Green Gupta Haddad Hall Hansen Harris Hassan Hernandez Hill Hoffmann Horvath Huang
Hughes Ibrahim Ito Ivanov Jackson Jansen Jensen Johnson Jones Joshi Kaya Keller Khan Kim
King Klein Kobayashi Koch Kovacs Kowalski Kumar Larsen Laurent Lee Lehmann Leroy Lewis
Li Lima Lin Lopez Mahmoud Martin Martinez Mendes Mensah Meyer Miller Moreau Moreira
Morgan Morris Mueller Murphy Nakamura Nelson Nguyen Nielsen Novak Nowak Okafor Olsen
Ortiz Osei Papadakis Park Patel Pereira Petrov Phillips Popescu Ramos Rao Richter Rivera
Roberts Rossi Roux Russo Saito Santos Sato Schmidt Schneider Schulz Shah Sharma Silva
Singh Smirnov Smith Sokolov Suzuki Svensson Tanaka Taylor Thomas Toth Tran Turner Vargas
Vasquez Virtanen Walker Wang Weber White Williams Wilson Wong Wright Yamada Yang Yilmaz
Young Zhang Zhou Zimmermann
""".split()


_NAMES = {
    Place.FIRST: choice([(name.encode(), 1) for name in _FIRST_NAMES]),
    Place.LAST: choice([(name.encode(), 1) for name in _LAST_NAMES]),
}


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
    """The templates of a file by name; a Fault names the line. Branches are for test
    data only."""
    parsed = parse_file(text, file)
    parsed.undefined.stop()
    if not parsed.templates:
        raise Fault(
            f"{file}: expected a template, got none",
            "`ldapslam describe templates` explains them",
        )
    return parsed.templates


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
        raise unknown("template", wanted, templates)
    return extended(templates[wanted], templates)


def compose(template: EntryTemplate, under: str, scope: Scope) -> ComposedEntry:
    """The entry of a template below a DN, which may hold patterns."""
    if not template.rdn:
        raise template.no_rdn()
    values = []
    for line in template.lines:
        try:
            folder = posixpath.dirname(template.file)
            values.append((line, parse_value(line.text, scope.names, folder)))
        except Fault as fault:
            raise file_fault(
                template.file, line.number, fault.reason, fault.hint
            ) from None
    return _AddedEntry(template, values, under, scope).compose()


class _AddedEntry(Entry):
    def __init__(
        self,
        template: EntryTemplate,
        values: Sequence[tuple[Line, Value]],
        under: str,
        scope: Scope,
    ) -> None:
        super().__init__(values, template.rdn)
        self.template = template
        self.scope = scope
        self.lets: list[Let] = []
        #: Variables that have a text in every entry.
        self.filled: set[int] = set()
        self.under = parse_dn(under, scope.names).nodes
        #: Variables with the DNs above, from the parent on.
        self.above: list[int] = []

    def compose(self) -> ComposedEntry:
        dn = self.dn_slot()
        # a line that others refer to takes its text from the slot: it is drawn once
        for numbers in self.attributes.values():
            for number in numbers:
                self.prepare(number)
        certain: list[Node] = []
        optional: list[Node] = []
        for numbers in self.attributes.values():
            values = [node for number in numbers for node in self.value(number)]
            if any(map(self.is_certain, numbers)):
                certain.append(self.attribute(numbers[0], values))
            elif values:
                optional.append(self.attribute(numbers[0], values, is_optional=True))
        return ComposedEntry(dn, (*certain, *optional), tuple(self.lets))

    def prepare(self, number: int) -> None:
        line, value = self.values[number]
        for condition in value.conditions:
            self.met(condition)
        if self.is_impossible(number):
            return
        for part in all_parts(value.parts):
            if isinstance(part, Reference):
                self.referenced(part.attribute, part.limit, line)

    def value(self, number: int) -> tuple[Node, ...]:
        """The AttributeValues of a line."""
        _, value = self.values[number]
        nodes = self.text(number)
        if not nodes:
            return ()
        least = int(may_be_empty(nodes, self.filled))
        node = ber.tlv(ber.OCTET_STRING, *nodes, least=least)
        return self.conditional(number, repeated(value, (node,)))

    def text(self, number: int) -> tuple[Node, ...]:
        _, value = self.values[number]
        constant = value.constant
        if constant is not None:
            return (constant,) if constant else ()
        if number in self.slots:
            return (self.slot(self.slots[number]),)
        return self.value_nodes(number)

    def is_certain(self, number: int) -> bool:
        """Whether a line gives a value to every entry."""
        _, value = self.values[number]
        nodes = self.text(number)
        return (
            self.presence(number) == ALWAYS
            and not may_be_empty(nodes, self.filled)
            and (value.loop is None or value.loop.least > 0)
        )

    def attribute(
        self, number: int, values: Sequence[Node], is_optional: bool = False
    ) -> Node:
        name = ber.octet_string(self.values[number][0].attribute.encode())
        size = len(name) if isinstance(name, bytes) else 0
        # an empty SET has two bytes
        return ber.tlv(
            ber.SEQUENCE,
            name,
            ber.tlv(ber.SET, *values),
            least=size + 3 if is_optional else 0,
        )

    # Entry

    def fault(
        self, reason: str, hint: str | None = None, line: Line | None = None
    ) -> Fault:
        number = self.template.line if line is None else line.number
        return file_fault(self.template.file, number, reason, hint)

    def fill(self, nodes: tuple[Node, ...]) -> int:
        self.lets.append(self.scope.let(*nodes))
        if not may_be_empty(nodes, self.filled):
            self.filled.add(self.lets[-1].variable)
        return self.lets[-1].variable

    def slot(self, number: int, limit: int = 0, form: int = PLAIN) -> Node:
        return ValueSource(VARIABLE, lo=number, hi=limit, width=form)

    def dn_nodes(self) -> tuple[Node, ...]:
        rdn = self.rdn_nodes()
        return (*rdn, b",", *self.parent(PLAIN)) if self.under else rdn

    def parent(self, form: int) -> tuple[Node, ...]:
        """The parent's DN; drawn once, if it is drawn."""
        if all(isinstance(node, bytes) for node in self.under):
            text = self.constant_parent()
            return (text.replace(b",", b"_") if form == UNDERSCORES else text,)
        return (self.slot(self.ancestor(1), form=form),)

    def constant_parent(self) -> bytes:
        return b"".join(node for node in self.under if isinstance(node, bytes))

    def ancestor(self, levels: int) -> int:
        """The variable with the DN some levels above."""
        if not self.above:
            self.above.append(self.fill(self.under))
        while len(self.above) < levels:
            self.above.append(self.fill((ValueSource(PARENT, lo=self.above[-1]),)))
        return self.above[levels - 1]

    def ancestor_dn(self, part: AncestorDn, line: Line) -> tuple[Node, ...]:
        form = UNDERSCORES if part.has_underscores else PLAIN
        if part.levels == 1:
            return self.parent(form)
        if not all(isinstance(node, bytes) for node in self.under):
            return (self.slot(self.ancestor(part.levels), form=form),)
        above = self.constant_parent().decode()
        return self.constant_ancestor(above, part.levels - 1, part, line)

    def drawn(self, source: ValueSource | Placed, line: Line) -> Node:
        if isinstance(source, Placed):
            raise self.fault(
                "numbers that begin again below each parent need test data",
                "<sequential:START> counts over the whole fleet",
                line,
            )
        return source

    def person_name(self, part: PersonName) -> Node:
        return _NAMES[part.place]

    def parent_value(self, part: ParentValue, line: Line) -> tuple[Node, ...]:
        raise self.fault(
            "an add does not know the values of the parent", "write it out", line
        )


_ADD_REQUEST = 0x68
_PLACEHOLDER = re.compile(f"[{MASK_CLASS}]")


class Add(OperationBody):
    """Add an entry. The run knows it from then on: `of` in other operations takes it,
    and at the end what is left of the run's entries is deleted."""

    kind: ClassVar[str] = "add"
    response_tag: ClassVar[int] = 0x69
    is_needed_done: ClassVar[bool] = True
    attributes_key: ClassVar[str] = "entry"
    exactly_one: ClassVar[tuple[str, ...]] = ("dn", "template")
    needs: ClassVar[Mapping[str, str]] = {"dn": "entry", "template": "under"}

    dn: EntryDn | None = Field(
        default=None, examples=["uid=new.[unique],ou=people,dc=example,dc=com"]
    )
    """DN of the new entry; patterns allowed; `entry` goes with it"""
    entry: dict[AttributeName, SomeValues] = Field(
        default_factory=dict,
        examples=["{objectClass: [top, person], sn: '[random:8]'}"],
    )
    """attribute and its value or values; patterns allowed. Those of the RDN are added
    where they are left out"""
    template_name: Text | None = None
    """which template of the file, if it has several"""
    under: BaseDn | None = Field(default=None, examples=["ou=people,dc=example,dc=com"])
    """DN of the parent of the template's entries; patterns allowed"""
    template: FileName | None = Field(default=None, examples=["person.template"])
    """file with an entry template in the notation of MakeLDIF, relative to the job
    file; `under` goes with it"""
    clean_up: Flag = True
    """delete the entry when the run is over, if it is still there"""

    #: Text of `template`; None where the files of the job are not looked into.
    _template_text: str | None = PrivateAttr(default=None)

    @field_validator("template")
    @classmethod
    def _usable(cls, value: str | None, info: ValidationInfo) -> str | None:
        reading = Reading.of(info)
        text = None if value is None else reading.text_of(value)
        if value is not None and text is not None:
            template = choose(
                parse_templates(text, value), info.data.get("template_name")
            )
            compose(template, info.data.get("under") or "", reading.scope.copy())
        return value

    @checked
    def _goes_together(self, reading: Reading) -> None:
        if self.template is not None:
            if self.entry:
                raise Fault(
                    "`entry` goes with `dn`, not with `template`",
                    "leave one of them out",
                )
            self._template_text = reading.text_of(self.template)
        elif self.under is not None or self.template_name is not None:
            raise Fault("`under` and `template_name` go with `template`", "add it")
        elif "entry" in self.model_fields_set and not self.entry:
            raise Fault("expected attributes in `entry`, got none", "add objectClass")

    @property
    def about(self) -> str:
        return self.dn or f"entries of {self.template} under {self.under}"

    def compile(self, scope: Scope, controls: Sequence[Node] = ()) -> OperationPlan:
        entry = self._composed(scope)
        request = add_request((variable(entry.dn),), entry.attributes)
        return self.planned(request, controls, lets=entry.lets, ledger_put=entry.dn)

    def rehearse(
        self, scope: Scope, controls: Sequence[Node] = ()
    ) -> OperationPlan | None:
        """On the entry's parent."""
        if is_of_server(self.dn or self.under or ""):
            return None
        entry = self._composed(scope)
        request = refused_modify((ValueSource(PARENT, lo=entry.dn),))
        return rehearsal(self.planned(request, controls, lets=entry.lets))

    def _composed(self, scope: Scope) -> ComposedEntry:
        return self._from_template(scope) if self.template else self._plain(scope)

    def _from_template(self, scope: Scope) -> ComposedEntry:
        under = self.under or ""
        if self._template_text is None:
            dn = scope.let(*dn_nodes(under, scope))
            return ComposedEntry(dn.variable, (), (dn,))
        templates = parse_templates(self._template_text, self.template or "")
        return compose(choose(templates, self.template_name), under, scope)

    def _plain(self, scope: Scope) -> ComposedEntry:
        dn, attributes, lets = _named_entry(self.dn or "", scope)
        present = {attribute.lower() for attribute in self.entry}
        given = [
            (attribute, [nodes(text, scope) for text in values])
            for attribute, values in self.entry.items()
        ]
        given += [pair for pair in attributes if pair[0].lower() not in present]
        lets.append(scope.let(*dn))
        return ComposedEntry(
            dn=lets[-1].variable,
            attributes=tuple(ber.attribute(*pair) for pair in given),
            lets=tuple(lets),
        )


def add_request(entry: Iterable[Node], attributes: Iterable[Node]) -> Node:
    return ber.tlv(_ADD_REQUEST, ber.octet_string(*entry), ber.sequence(*attributes))


def _named_entry(
    text: str, scope: Scope
) -> tuple[tuple[Node, ...], list[tuple[str, list[tuple[Node, ...]]]], list[Let]]:
    """A DN, the attributes of its RDN, and the variables of both: a drawn value is the
    same in both."""
    pattern = parse_dn(text, scope.names)
    rdn, parent = split_rdn(pattern.masked)
    lets: list[Let] = []
    if "=" not in rdn:  # a variable or a line of a file stands for it
        return pattern.nodes, [], lets
    drawn: dict[str, int] = {}
    for placeholder in _PLACEHOLDER.findall(rdn):
        source = pattern.source(placeholder)
        if source.kind == VARIABLE:
            drawn[placeholder] = source.lo
        else:
            lets.append(scope.let(source))
            drawn[placeholder] = lets[-1].variable

    def filled(masked: str, escaped: bool) -> tuple[Node, ...]:
        parts = re.split(f"({_PLACEHOLDER.pattern})", masked)
        return tuple(
            ValueSource(VARIABLE, lo=drawn[part], width=int(escaped))
            if part in drawn
            else part.encode()
            for part in parts
        )

    def unescaped(value: str) -> Iterator[Node]:
        for piece in pieces(value):
            yield from (piece,) if isinstance(piece, bytes) else filled(piece, False)

    attributes = [
        (name, [tuple(unescaped(value))])
        for name, value in rdn_parts(rdn)
        if not value.startswith("#")  # BER in hex: the file must give the value
    ]
    dn = filled(rdn, escaped=True)
    if parent:
        dn = (*dn, b",", *pattern.unmask(parent))
    return dn, attributes, lets
