# SPDX-License-Identifier: Apache-2.0
"""Composes the program of an entry from the values of its template.

What is referred to (in the DN, by {attribute}, by a condition) is put into a slot
before the lines; everything else is drawn where its line stands. A condition is a slot
with a text or without. operations/add.py makes adds of it, dataset/population.py test
data: they differ in what a slot is, in the numbers of entries, and in what lies above
one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from ldapslam.base.fault import Fault, unknown
from ldapslam.jobs.entries.tags import (
    AncestorDn,
    Condition,
    Encoded,
    ParentValue,
    Part,
    PersonName,
    Rdn,
    Reference,
    Value,
)
from ldapslam.jobs.entries.template_file import Line
from ldapslam.jobs.requests.dn import split_rdn
from ldapslam.jobs.requests.template import (
    CERTAIN_PPM,
    DN_VALUE,
    PLAIN,
    UNDERSCORES,
    Base64,
    If,
    Node,
    OptionalGroup,
    Placed,
    ValueSource,
)

#: What stands for the slot of a condition that is always met, or never.
ALWAYS, NEVER = -1, -2
#: What is kept besides values: under these keys instead of the values' numbers.
_DN, _RDN = "dn", "rdn"
_Key = int | str


class Entry(ABC):
    """One kind of entry while it is composed."""

    def __init__(
        self, values: Sequence[tuple[Line, Value]], rdn: Sequence[str]
    ) -> None:
        self.values = values
        self.rdn = rdn
        #: Numbers of the values of each attribute.
        self.attributes: dict[str, list[int]] = {}
        for number, (line, _) in enumerate(values):
            self.attributes.setdefault(line.attribute.lower(), []).append(number)
        self.slots: dict[_Key, int] = {}
        #: Slots of conditions: by value, by attribute, by attribute and its value.
        self.flags: dict[_Key | tuple[str, str], int] = {}
        self._under_way: list[_Key] = []

    # Where adds and test data differ.

    @abstractmethod
    def fault(
        self, reason: str, hint: str | None = None, line: Line | None = None
    ) -> Fault:
        """A fault of a line, or of the whole template."""

    @abstractmethod
    def fill(self, nodes: tuple[Node, ...]) -> int:
        """A new slot with this text."""

    @abstractmethod
    def slot(self, number: int, limit: int = 0, form: int = PLAIN) -> Node:
        """The text of a slot."""

    @abstractmethod
    def dn_nodes(self) -> tuple[Node, ...]: ...

    @abstractmethod
    def ancestor_dn(self, part: AncestorDn, line: Line) -> tuple[Node, ...]:
        """The DN of an entry above this one."""

    @abstractmethod
    def drawn(self, source: ValueSource | Placed, line: Line) -> Node: ...

    @abstractmethod
    def person_name(self, part: PersonName) -> Node: ...

    @abstractmethod
    def parent_value(self, part: ParentValue, line: Line) -> tuple[Node, ...]: ...

    def field(self, number: int) -> tuple[Node, ...]:
        """What stands before draws: of value `number` // 2, or of its probability."""
        return ()

    # Slots.

    def dn_slot(self) -> int:
        return self.name_slot(_DN, self.dn_nodes)

    def rdn_slot(self) -> int:
        return self.name_slot(_RDN, self.rdn_nodes)

    def name_slot(self, key: str, nodes: Callable[[], tuple[Node, ...]]) -> int:
        if key not in self.slots:
            with self.guarded(key):
                self.slots[key] = self.fill(nodes())
        return self.slots[key]

    def rdn_nodes(self) -> tuple[Node, ...]:
        nodes: list[Node] = []
        for name in self.rdn:
            number = self.attributes.get(name, [-1])[0]
            if number < 0 or self.flag(number) != ALWAYS:
                raise self.fault(
                    f"the RDN's attribute {name!r} is not in every entry",
                    "give it a line without a condition",
                )
            line, _ = self.values[number]
            nodes.append(f"{'+' if nodes else ''}{line.attribute}=".encode())
            nodes.append(self.slot(self.value_slot(number), form=DN_VALUE))
        return tuple(nodes)

    def value_slot(self, number: int) -> int:
        if number not in self.slots:
            line, value = self.values[number]
            if value.loop is not None:
                raise self.fault(
                    f"{line.attribute!r} is repeated and cannot be referred to",
                    "refer to an attribute with one value",
                    line,
                )
            flag = self.flag(number)
            with self.guarded(number):
                nodes = self.value_nodes(number)
            if flag == NEVER:
                nodes = ()
            elif flag != ALWAYS:
                nodes = (If(flag, nodes),)
            self.slots[number] = self.fill(nodes)
        return self.slots[number]

    @contextmanager
    def guarded(self, key: _Key) -> Iterator[None]:
        """While what the key stands for is being composed, it must not be needed."""
        if key in self._under_way:
            circle = " -> ".join(
                self.values[one][0].attribute if isinstance(one, int) else one
                for one in (*self._under_way, key)
            )
            raise self.fault(
                f"values depend on each other in a circle: {circle}",
                "break it by writing one of them out",
            )
        self._under_way.append(key)
        yield
        self._under_way.pop()

    # Conditions.

    def flag(self, number: int) -> int:
        """The slot that has a text where a value is there; ALWAYS, NEVER."""
        if number not in self.flags:
            with self.guarded(number):
                flag = self.presence(number)
                if flag is None:
                    flag = self.fill(self.wrapped(number, (b"1",)))
            self.flags[number] = flag
        return self.flags[number]

    def presence(self, number: int) -> int | None:
        """As `flag`; None: a condition that has no slot."""
        _, value = self.values[number]
        if number in self.flags:
            return self.flags[number]
        if self.is_impossible(number):
            return NEVER
        is_certain = value.ppm >= CERTAIN_PPM and not any(self.conditions(number))
        return ALWAYS if is_certain else None

    def is_impossible(self, number: int) -> bool:
        _, value = self.values[number]
        return value.ppm == 0 or any(
            self.met(one) == (NEVER if one.present else ALWAYS)
            for one in value.conditions
        )

    def conditions(self, number: int) -> Iterator[tuple[int, bool]]:
        """The slots that decide about a value, and whether they must have a text."""
        for one in self.values[number][1].conditions:
            slot = self.met(one)
            if slot not in (ALWAYS, NEVER):
                yield slot, one.present

    def conditional(self, number: int, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        """The nodes, there where a value is."""
        flag = self.presence(number)
        if flag == NEVER:
            return ()
        if flag is None:
            return self.wrapped(number, nodes)
        return nodes if flag == ALWAYS else (If(flag, nodes),)

    def wrapped(self, number: int, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        _, value = self.values[number]
        if value.ppm < CERTAIN_PPM:
            nodes = (*self.field(2 * number + 1), OptionalGroup(value.ppm, nodes))
        for slot, is_wanted in self.conditions(number):
            nodes = (If(slot, nodes, is_wanted),)
        return nodes

    def met(self, condition: Condition) -> int:
        """The slot that has a text where an attribute is there, or has a value."""
        name = condition.attribute
        key = name if condition.value is None else (name, condition.value)
        if key not in self.flags:
            wanted = None if condition.value is None else condition.value.encode()
            self.flags[key] = self.any_of(self.attributes.get(name, ()), wanted)
        return self.flags[key]

    def any_of(self, numbers: Sequence[int], wanted: bytes | None) -> int:
        """The slot of a condition that one of the values meets."""
        found: list[Node] = []
        flags: list[int] = []
        for number in numbers:
            flag = self.flag(number)
            constant = self.values[number][1].constant
            if flag == NEVER or (wanted and constant not in (None, wanted)):
                continue
            if wanted and constant is None:
                found.append(If(self.value_slot(number), (b"1",), text=wanted))
            elif flag == ALWAYS:
                return ALWAYS
            else:
                flags.append(flag)
        if not found and len(flags) <= 1:
            return flags[0] if flags else NEVER
        return self.fill((*found, *(If(flag, (b"1",)) for flag in flags)))

    # Text.

    def value_nodes(self, number: int) -> tuple[Node, ...]:
        """A value's text, drawn here."""
        line, value = self.values[number]
        nodes = self.nodes(value.parts, line)
        return (*self.field(2 * number), *nodes) if draws(nodes) else nodes

    def nodes(self, parts: Sequence[Part], line: Line) -> tuple[Node, ...]:
        return tuple(node for part in parts for node in self.part(part, line))

    def part(self, part: Part, line: Line) -> tuple[Node, ...]:
        match part:
            case ValueSource() | Placed():
                return (self.drawn(part, line),)
            case PersonName():
                return (self.person_name(part),)
            case Encoded(parts=parts):
                return (Base64(self.nodes(parts, line)),)
            case Rdn():
                return (self.slot(self.rdn_slot()),)
            case AncestorDn(levels=0, has_underscores=has_underscores):
                form = UNDERSCORES if has_underscores else PLAIN
                return (self.slot(self.dn_slot(), form=form),)
            case AncestorDn():
                return self.ancestor_dn(part, line)
            case ParentValue():
                return self.parent_value(part, line)
            case Reference(attribute=attribute, limit=limit):
                return self.referenced(attribute, limit, line)
        return (part,)

    def constant_ancestor(
        self, dn: str, levels: int, part: AncestorDn, line: Line, hint: str = ""
    ) -> tuple[Node, ...]:
        """The DN some levels above one that is the same for all entries."""
        for _ in range(levels):
            dn = split_rdn(dn)[1].lstrip(" ")
        if not dn:
            reason = f"nothing is {part.levels} levels above this entry"
            raise self.fault(reason, hint, line)
        return ((dn.replace(",", "_") if part.has_underscores else dn).encode(),)

    def referenced(self, attribute: str, limit: int, line: Line) -> tuple[Node, ...]:
        if attribute not in self.attributes:
            fault = unknown("attribute", attribute, self.attributes)
            raise self.fault(fault.reason, fault.hint, line)
        number = self.attributes[attribute][0]
        constant = self.constant(number)
        if constant is not None:
            return (cut(constant, limit),)
        return (self.slot(self.value_slot(number), limit),)

    def constant(self, number: int) -> bytes | None:
        """The text of a value that is the same in every entry."""
        constant = self.values[number][1].constant
        return constant if self.flag(number) == ALWAYS else None


def cut(text: bytes, limit: int) -> bytes:
    """At most `limit` bytes of a text, whole characters; 0: all."""
    if not 0 < limit < len(text):
        return text
    return text[:limit].decode(errors="ignore").encode()


def draws(nodes: Sequence[Node]) -> bool:
    """Whether a text is drawn, at least in parts."""
    return any(
        isinstance(node, ValueSource)
        or (isinstance(node, Base64) and draws(node.parts))
        for node in nodes
    )


def repeated(value: Value, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """The nodes of a line, as often as its loop says."""
    return nodes if value.loop is None else (replace(value.loop, parts=nodes),)
