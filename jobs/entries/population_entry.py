# SPDX-License-Identifier: Apache-2.0
"""Writes the program of one node of a population: see population_program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ldapslam.base.fault import did_you_mean
from ldapslam.jobs.entries import ldif_code
from ldapslam.jobs.entries.ldif_code import ALWAYS
from ldapslam.jobs.entries.population import PopulationNode
from ldapslam.jobs.entries.population_settings import (
    FILTER_TYPES,
    FilterLine,
    ProgramSettings,
    Sources,
)
from ldapslam.jobs.entries.population_tags import (
    AncestorDn,
    Base64,
    CsvField,
    ParentValue,
    PersonName,
    Place,
    Placed,
    Turns,
    turns_of,
)
from ldapslam.jobs.entries.tags import Condition, Name, Part, Reference, Value
from ldapslam.jobs.entries.template_file import Line
from ldapslam.jobs.requests.dn import split_rdn
from ldapslam.jobs.requests.template import (
    CERTAIN_PPM,
    FILE_SEQUENCE,
    SEQUENCE,
    TIMESTAMP,
    UNIQUE,
    Ref,
    ValueSource,
)

#: What is kept besides values: under these keys instead of the values' numbers.
_DN = "dn"
_RDN = "rdn"
_NEVER = "never"
_Key = int | str


class EntryCoder:
    """The program of a node, once `body` has been called for all nodes: those below ask
    for the slots that they refer to."""

    def __init__(
        self,
        node: PopulationNode,
        parent: EntryCoder | None,
        sources: Sources,
        settings: ProgramSettings,
    ) -> None:
        self.node = node
        self.parent = parent
        self.sources = sources
        self.settings = settings
        #: What comes before the body, in order.
        self.head: list[bytes] = []
        #: Numbers of the values of each attribute.
        self.attributes: dict[str, list[int]] = {}
        for number, (line, _) in enumerate(node.values):
            self.attributes.setdefault(line.attribute.lower(), []).append(number)
        self.slots: dict[_Key, int] = {}
        #: Of values, of attributes, of attributes with a value; None: never there.
        self.flags: dict[_Key | tuple[str, str], int | None] = {}
        self.flag_count = 0
        self.under_way: list[_Key] = []

    # The body.

    def body(self) -> bytes:
        lines = b"".join(
            self.line(number, line, value)
            for number, (line, value) in enumerate(self.node.values)
        )
        code = ldif_code.line("dn", ldif_code.slot(self.dn_slot())) + lines
        code += ldif_code.output(0, b"")
        if self.node.is_branch:
            return b"" if self.settings.skip_branches else code
        return code + self.side_lines()

    def line(self, number: int, line: Line, value: Value) -> bytes:
        flag = self.flag(number)
        if flag is None:
            return b""
        turns = turns_of(value)
        if turns is None and number in self.slots:
            text = ldif_code.slot(self.slots[number])
            return ldif_code.conditional(flag, ldif_code.line(line.attribute, text))
        code = ldif_code.line(line.attribute, self.text(number, value.parts))
        if turns is not None:
            code = ldif_code.loop(turns, code)
        if turns is not None or _draws(value.parts):
            code = ldif_code.field(2 * number) + code
        return ldif_code.conditional(flag, code)

    def side_lines(self) -> bytes:
        files = self.settings.side_files
        code = b""
        if files.dns is not None:
            code += ldif_code.output(files.dns, ldif_code.slot(self.dn_slot()))
        if files.binds is not None:
            dn = ldif_code.slot(self.dn_slot()) + ldif_code.literal(b"\t")
            code += self.with_value(
                "userPassword", files.binds, lambda slot: dn + ldif_code.slot(slot)
            )
        for one in files.filter_lines:
            if files.filters is not None:
                code += self.with_value(one.attribute, files.filters, _filter_text(one))
        return code

    def with_value(
        self, attribute: str, output: int, text: Callable[[int], bytes]
    ) -> bytes:
        """A line of a side file, where the entry has the attribute's first value."""
        numbers = self.attributes.get(attribute.lower())
        flag = self.flag(numbers[0]) if numbers else None
        if numbers is None or flag is None:
            return b""
        code = ldif_code.output(output, text(self.slot(numbers[0])))
        return ldif_code.conditional(flag, code)

    # Slots.

    def dn_slot(self) -> int:
        if _DN not in self.slots:
            with self.guarded(_DN):
                text = self.dn_text()
            self.fill(_DN, text)
        return self.slots[_DN]

    def dn_text(self) -> bytes:
        if self.parent is None:
            return ldif_code.literal(self.node.name.encode())
        above = ldif_code.slot(self.parent.dn_slot(), level=1)
        return self.rdn_text() + ldif_code.literal(b",") + above

    def rdn_text(self) -> bytes:
        code = b""
        for name in self.node.rdn:
            number = self.attributes.get(name, [-1])[0]
            if number < 0 or self.flag(number) != ALWAYS:
                raise self.node.fault(
                    f"the RDN's attribute {name!r} is not in every entry",
                    "give it a line without a condition",
                )
            line, _ = self.node.values[number]
            code += ldif_code.literal(b"+") if code else b""
            code += ldif_code.literal(f"{line.attribute}=".encode())
            code += ldif_code.slot(self.slot(number), form=ldif_code.DN_VALUE)
        return code

    def slot(self, number: int) -> int:
        """The slot of a value."""
        if number in self.slots:
            return self.slots[number]
        line, value = self.node.values[number]
        if turns_of(value) is not None:
            raise self.node.fault(
                f"{line.attribute!r} is repeated and cannot be referred to",
                "refer to an attribute with one value",
                line,
            )
        flag = self.flag(number)
        with self.guarded(number):
            text = self.text(number, value.parts)
        before = ldif_code.field(2 * number) if _draws(value.parts) else b""
        # the slot of a value that is never there must be, though always empty
        self.fill(number, text, before, self.never() if flag is None else flag)
        return self.slots[number]

    def fill(
        self, key: _Key, text: bytes, before: bytes = b"", flag: int = ALWAYS
    ) -> None:
        slot = len(self.slots)
        self.slots[key] = slot
        code = before + ldif_code.fill(slot, text)
        self.head.append(ldif_code.conditional(flag, code))

    @contextmanager
    def guarded(self, key: _Key) -> Iterator[None]:
        """While what the key stands for is being written, it must not be needed."""
        if key in self.under_way:
            circle = " -> ".join(
                self.node.values[one][0].attribute if isinstance(one, int) else one
                for one in (*self.under_way, key)
            )
            raise self.node.fault(
                f"values depend on each other in a circle: {circle}",
                "break it by writing one of them out",
            )
        self.under_way.append(key)
        yield
        self.under_way.pop()

    # Flags: whether a value is there.

    def never(self) -> int:
        """A flag that no entry has."""
        flag = self.flags.get(_NEVER)
        if flag is None:
            flag = self.flags[_NEVER] = self.new_flag()
        return flag

    def new_flag(self) -> int:
        self.flag_count += 1
        return self.flag_count - 1

    def flag(self, number: int) -> int | None:
        """The flag of a value; None: it is never there."""
        if number not in self.flags:
            with self.guarded(number):
                self.flags[number] = self.value_flag(number)
        return self.flags[number]

    def value_flag(self, number: int) -> int | None:
        _, value = self.node.values[number]
        conditions: list[tuple[int, bool]] = []
        is_possible = value.ppm > 0
        for condition in value.conditions:
            other = self.met(condition)
            if other is None or other == ALWAYS:
                is_possible &= (other == ALWAYS) == condition.present
            else:
                conditions.append((other, condition.present))
        if not is_possible:
            return None
        if not conditions and value.ppm >= CERTAIN_PPM:
            return ALWAYS
        flag = self.new_flag()
        code = ldif_code.set_flag(flag)
        if value.ppm < CERTAIN_PPM:
            code = ldif_code.field(2 * number + 1) + ldif_code.chance(flag, value.ppm)
        for other, wanted in conditions:
            code = ldif_code.when(other, wanted, code)
        self.head.append(code)
        return flag

    def met(self, condition: Condition) -> int | None:
        """The flag of an attribute's being there, or having a value."""
        name = condition.attribute
        key = name if condition.value is None else (name, condition.value)
        if key in self.flags:
            return self.flags[key]
        wanted = None if condition.value is None else condition.value.encode()
        #: Of each value that may do: its flag, and the slot that must equal `wanted`.
        found: list[tuple[int, int | None]] = []
        for number in self.attributes.get(name, ()):
            flag = self.flag(number)
            constant = self.node.values[number][1].constant
            if flag is None:
                continue
            if wanted is None or constant == wanted:
                found.append((flag, None))
            elif constant is None:
                found.append((flag, self.slot(number)))
        self.flags[key] = self.any_of(found, wanted or b"")
        return self.flags[key]

    def any_of(
        self, found: Sequence[tuple[int, int | None]], wanted: bytes
    ) -> int | None:
        if (ALWAYS, None) in found:
            return ALWAYS
        if not found:
            return None
        any_flag = self.new_flag()
        for flag, slot in found:
            code = ldif_code.set_flag(any_flag)
            if slot is not None:
                code = ldif_code.equal(slot, wanted, code)
            self.head.append(ldif_code.conditional(flag, code))
        return any_flag

    # Text.

    def text(self, number: int, parts: Sequence[Part]) -> bytes:
        line, _ = self.node.values[number]
        return b"".join(self.part(number, part, line) for part in parts)

    def part(self, number: int, part: Part, line: Line) -> bytes:
        match part:
            case bytes():
                return ldif_code.literal(part)
            case ValueSource():
                return self.value(part, line)
            case Placed(source=source, place=place):
                return ldif_code.value(self.sources.number(source), place)
            case PersonName(place=place):
                return ldif_code.value(self.sources.name(place), place)
            case CsvField(field=field):
                return self.csv_field(field, line)
            case Turns():
                return ldif_code.number()
            case Base64(parts=parts):
                return ldif_code.base64(self.text(number, parts))
            case Name(which="rdn"):
                return self.rdn()
            case Name(which=which):
                return self.ancestor_dn(int(which == "parentdn"), False, line)
            case AncestorDn(levels=levels, has_underscores=has_underscores):
                return self.ancestor_dn(levels, has_underscores, line)
            case Reference(attribute=attribute, limit=limit):
                return self.referenced(self, attribute, limit, line)
            case ParentValue(attribute=attribute, limit=limit) if self.parent:
                return self.referenced(self.parent, attribute, limit, line)
        what = "a pattern that refers to another one"
        if not isinstance(part, Ref):
            what = "a value of the parent, which a branch does not have"
        raise self.node.fault(what, "write it out, or refer to an attribute", line)

    def value(self, source: ValueSource, line: Line) -> bytes:
        if source.kind == TIMESTAMP and source.lo == source.hi == 0:
            raise self.node.fault(
                "the time of day is not the same each time",
                "give a range: [timestamp:min=…:max=…]",
                line,
            )
        place = Place.DRAWN
        if source.kind in (SEQUENCE, FILE_SEQUENCE):
            place = Place.INDEX
        elif source.kind == UNIQUE:
            place = Place.POSITION
        return ldif_code.value(self.sources.number(source), place)

    def csv_field(self, name: str, line: Line) -> bytes:
        path = self.settings.csv_columns.get(name)
        if path is None:
            raise self.node.fault(
                f"there is no CSV field {name!r}", "--csv FILE gives the rows", line
            )
        source = ValueSource(FILE_SEQUENCE, data=path.encode())
        return ldif_code.value(self.sources.number(source), Place.INDEX)

    def rdn(self) -> bytes:
        if self.parent is None:
            return ldif_code.literal(split_rdn(self.node.name)[0].encode())
        if _RDN not in self.slots:
            with self.guarded(_RDN):
                text = self.rdn_text()
            self.fill(_RDN, text)
        return ldif_code.slot(self.slots[_RDN])

    def ancestor_dn(self, levels: int, has_underscores: bool, line: Line) -> bytes:
        """The DN so many levels above, which may be above the branch."""
        form = ldif_code.UNDERSCORES if has_underscores else ldif_code.PLAIN
        coder, level = self, 0
        while level < levels and coder.parent is not None:
            coder, level = coder.parent, level + 1
        if coder.parent is not None:
            return ldif_code.slot(coder.dn_slot(), level=level, form=form)
        dn = coder.node.name
        for _ in range(levels - level):
            dn = split_rdn(dn)[1].lstrip(" ")
        if not dn:
            raise self.node.fault(
                f"nothing is {levels} levels above this entry",
                f"the branch is {coder.node.name!r}",
                line,
            )
        return ldif_code.literal(
            (dn.replace(",", "_") if has_underscores else dn).encode()
        )

    def referenced(
        self, coder: EntryCoder, attribute: str, limit: int, line: Line
    ) -> bytes:
        """A value of this entry or of its parent."""
        numbers = coder.attributes.get(attribute)
        if not numbers:
            whose = "the template" if coder is self else f"{coder.node.name!r}"
            raise self.node.fault(
                f"{whose} has no attribute {attribute!r}",
                did_you_mean(attribute, coder.attributes, "attributes"),
                line,
            )
        constant = coder.node.values[numbers[0]][1].constant
        if constant is not None and coder.flag(numbers[0]) == ALWAYS:
            return ldif_code.literal(_cut(constant, limit))
        level = int(coder is not self)
        return ldif_code.slot(coder.slot(numbers[0]), level=level, limit=limit)


def _cut(text: bytes, limit: int) -> bytes:
    """At most so many bytes of a text, whole characters; 0: all."""
    if not 0 < limit < len(text):
        return text
    return text[:limit].decode(errors="ignore").encode()


def _draws(parts: Sequence[Part]) -> bool:
    return any(
        isinstance(part, ValueSource)
        or (isinstance(part, Base64) and _draws(part.parts))
        for part in parts
    )


def _filter_text(one: FilterLine) -> Callable[[int], bytes]:
    form, before, after = FILTER_TYPES[one.kind]
    limit = 0 if one.kind == "eq" else one.length

    def text(slot: int) -> bytes:
        return (
            ldif_code.literal(f"({one.attribute}=".encode() + before)
            + ldif_code.slot(slot, limit=limit, form=form)
            + ldif_code.literal(after + b")")
        )

    return text
