# SPDX-License-Identifier: Apache-2.0
"""The add operation (RFC 4511 section 4.7)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import ClassVar

from pydantic import Field, PrivateAttr, ValidationInfo, field_validator

from ldapslam.base.fault import Fault
from ldapslam.jobs.entries.entry_template import (
    ComposedEntry,
    choose,
    compose,
    parse_templates,
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
from ldapslam.jobs.requests import ber
from ldapslam.jobs.requests.dn import parse_dn, split_rdn
from ldapslam.jobs.requests.pattern import MASK_CLASS
from ldapslam.jobs.requests.scope import Let, Scope
from ldapslam.jobs.requests.template import VARIABLE, Node, Ref, ValueSource

_ADD_REQUEST = 0x68
_HOLE = re.compile(f"[{MASK_CLASS}]")
_ESCAPE = re.compile(r"\\([0-9A-Fa-f]{2}|.)", re.DOTALL)


class Add(OperationBody):
    """Add an entry. The run knows it from then on: `of` in other operations takes it,
    and at the end what is left of the run's entries is deleted."""

    kind: ClassVar[str] = "add"
    response_tag: ClassVar[int] = 0x69
    exactly_one: ClassVar[tuple[str, ...]] = ("dn", "template")

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
            if self.under is None and self.dn is None:
                raise Fault(
                    "the key 'under' is missing",
                    "under: DN of the parent of the template's entries",
                )
            if self.entry:
                raise Fault(
                    "`entry` goes with `dn`, not with `template`",
                    "leave one of them out",
                )
            self._template_text = reading.text_of(self.template)
        elif self.under is not None or self.template_name is not None:
            raise Fault("`under` and `template_name` go with `template`", "add it")
        if self.dn is not None and not self.entry:
            raise Fault(
                "the key 'entry' is missing",
                "entry: attribute and its value or values, objectClass at the least",
            )

    def compile(self, scope: Scope, controls: Sequence[Node] = ()) -> OperationPlan:
        entry = self._from_template(scope) if self.template else self._plain(scope)
        request = add_request((variable(entry.dn),), entry.attributes)
        return self.planned(request, controls, lets=entry.lets, ledger_put=entry.dn)

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
    """A DN, the attributes of its RDN with their values, and the variables of both: a
    value that is drawn is the same in both."""
    pattern = parse_dn(text, scope.names)
    rdn, parent = split_rdn(pattern.masked)
    lets: list[Let] = []
    if "=" not in rdn:  # a variable or a line of a file stands for it
        return pattern.nodes, [], lets
    drawn: dict[str, int] = {}
    once: dict[int, int] = {}  # by identity of what is drawn
    for hole in _HOLE.findall(rdn):
        source = pattern.source(hole)
        if isinstance(source, Ref):
            drawn[hole] = once[id(source.target)]
            continue
        if source.kind == VARIABLE:
            drawn[hole] = source.lo
        else:
            lets.append(scope.let(source))
            drawn[hole] = lets[-1].variable
        once[id(source)] = drawn[hole]

    def filled(masked: str, escaped: bool) -> tuple[Node, ...]:
        parts = re.split(f"({_HOLE.pattern})", masked)
        return tuple(
            ValueSource(VARIABLE, lo=drawn[part], width=int(escaped))
            if part in drawn
            else part.encode()
            for part in parts
        )

    attributes = [
        (name, [_unescaped(value, lambda piece: filled(piece, escaped=False))])
        for name, value in _avas(rdn)
    ]
    dn = filled(rdn, escaped=True)
    if parent:
        above = (
            variable(once[id(node.target)])
            if isinstance(node, Ref) and id(node.target) in once
            else node
            for node in pattern.unmask(parent)
        )
        dn = (*dn, b",", *above)
    return dn, attributes, lets


def _avas(rdn: str) -> Iterator[tuple[str, str]]:
    """Attribute and value, escapes and all, of each part of an RDN."""
    for part in re.findall(r"(?:[^\\+]|\\.)+", rdn, re.DOTALL):
        name, _, value = part.partition("=")
        value = value.lstrip(" ")
        if not value.startswith("#"):  # BER in hex: the file must give the value
            yield name.strip(" "), re.sub(r"(?<!\\) +$", "", value)


def _unescaped(
    value: str, filled: Callable[[str], tuple[Node, ...]]
) -> tuple[Node, ...]:
    parts: list[Node] = []
    end = 0
    for escape in _ESCAPE.finditer(value):
        parts += filled(value[end : escape.start()])
        escaped = escape[1]
        parts.append(bytes.fromhex(escaped) if len(escaped) == 2 else escaped.encode())
        end = escape.end()
    return (*parts, *filled(value[end:]))
