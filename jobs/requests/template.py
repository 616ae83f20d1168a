# SPDX-License-Identifier: Apache-2.0
"""Templates: the programs that the engine's machine executes, and their parts.

agent/csrc/template/template.h has the instructions. A request's program writes the
protocolOp of an LDAPMessage (RFC 4511); the engine adds the outer SEQUENCE, the
messageID and all lengths of TLVs. A program of an entry (dataset/population.py) writes
lines of LDIF. The limits here are the engine's, so that a job that loads also compiles
there; only what is in a file of values is known to the engine alone.

A program is made of a tree of nodes:

    bytes          as they are
    ValueSource    a value that is drawn for each request
    OptionalGroup  parts that are there together, with a probability
    If             parts that are there if a slot has a text, or a given one
    Loop, Number   parts that are repeated, and the number of the turn
    Base64         the text of its parts in base64
    Tlv            made by ber.tlv, which folds constants to bytes

and in entries alone Placed, Slot, Fill, Line, Output, Field and Body. `choice` makes
the ValueSource of a weighted list.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from ldapslam.base.fault import Fault

# Kinds of value sources: enum slam_value_kind.
UNIFORM, SEQUENCE, RANDOM_STRING, ZIPF, GAUSS, HOT = range(6)
FILE_RANDOM, FILE_SEQUENCE, TIMESTAMP, UUID, UNIQUE = range(6, 11)
VARIABLE, PARENT, MESSAGE_ID, LIST = range(11, 15)

#: Kinds whose values are lines of a file.
FILES = (FILE_RANDOM, FILE_SEQUENCE)

#: `step` of a TIMESTAMP: enum slam_timestamp_format.
GENERALIZED, MILLISECONDS, SECONDS = range(3)

#: enum slam_template_code.
LITERAL, VALUE, TLV, END, CHANCE, OPTIONAL_TLV, PLACED = range(0x01, 0x08)
SLOT, NUMBER, BASE64, IF, EQUAL, LOOP, PICK = range(0x08, 0x0F)
FILL, LINE, OUTPUT, FIELD, BODY = range(0x0F, 0x14)

#: enum slam_text_form.
PLAIN, DN_VALUE, UNDERSCORES = range(3)

MAX_VALUES = 256
MAX_DEPTH = 32
MAX_REQUEST_BYTES = 1 << 20
MAX_VALUE_BYTES = 65_536
MAX_VARIABLE_BYTES = 2_044
MAX_LIST_BYTES = 1 << 20
#: Of an optional group that is always there.
CERTAIN_PPM = 1_000_000

#: A TLV's tag and length at their longest within MAX_REQUEST_BYTES.
_HEADER_BYTES = 5
#: Digits of a number of 64 bits.
_MAX_DIGITS = 20
#: Of UTF-8.
_MAX_CHARACTER_BYTES = 4
#: Longest text of each kind that has a fixed bound.
_MAX_BYTES = {
    **dict.fromkeys(FILES, 0),
    TIMESTAMP: len("20180102030405.678Z"),
    UUID: 36,
    PARENT: MAX_VARIABLE_BYTES,
    MESSAGE_ID: 4,
}


@dataclass(frozen=True)
class ValueSource:
    """The values of a placeholder, and how the next one is chosen. Member k is
    lo + step k (lo - step k where lo > hi, which a SEQUENCE may have).

    UNIFORM: a member, each as likely. SEQUENCE: the members in turn. ZIPF: member k
    with probability ~ 1 / (k + 1)^a. GAUSS: normal, the middle of the range its mean,
    the range six standard deviations. HOT: of the first a * members with probability b,
    else of the others.

    RANDOM_STRING: lo to max(lo, hi) characters, each at random from `data`.
    FILE_RANDOM, FILE_SEQUENCE: a line of the file `data`, at random or in turn.
    TIMESTAMP: now, or where lo or hi is not 0 a time from lo to hi ms after 1970; in
    the format `step`.
    UUID: of version 4. UNIQUE: lo + step x, a number that comes once in the whole run.
    VARIABLE: the text of the session's variable `lo`; with hi above 0 at most hi bytes
    of it, whole characters; in the form `width`.
    PARENT: the parent of the DN that the variable holds.
    MESSAGE_ID: content octets of the messageID of the session's request before.
    LIST: `data` is (u32 weight, u32 length, text)…: see `choice`.
    """

    kind: int
    lo: int = 0
    #: Last number, inclusive.
    hi: int = 0
    step: int = 1
    #: Least number of digits, padded with zeros; 0: no padding.
    width: int = 0
    data: bytes = b""
    a: float = 0.0
    b: float = 0.0

    @property
    def max_bytes(self) -> int:
        """Length of the longest text; 0 for files, whose lines the engine reads."""
        if self.kind in _MAX_BYTES:
            return _MAX_BYTES[self.kind]
        if self.kind == RANDOM_STRING:
            return max(self.lo, self.hi)
        if self.kind == UNIQUE:
            return max(_MAX_DIGITS, self.width)
        if self.kind == VARIABLE:
            escaped = self.width not in (PLAIN, UNDERSCORES)
            return (self.hi or MAX_VARIABLE_BYTES) * (3 if escaped else 1)
        if self.kind == LIST:
            return max(len(text) for text, _ in self.choices)
        return max(self._digits(self.lo), self._digits(self.hi))

    def _digits(self, number: int) -> int:
        """Length of a number's text; its sign is not one of the `width` digits."""
        return max(len(str(abs(number))), self.width) + (number < 0)

    @property
    def choices(self) -> tuple[tuple[bytes, int], ...]:
        """Texts and weights of a LIST."""
        choices, at = [], 0
        while at < len(self.data):
            weight, length = struct.unpack_from("<II", self.data, at)
            choices.append((self.data[at + 8 : at + 8 + length], weight))
            at += 8 + length
        return tuple(choices)


def choice(choices: Iterable[tuple[bytes, int]]) -> ValueSource:
    """One of these texts, drawn by weight."""
    data = bytearray()
    total = 0
    for text, weight in choices:
        if not 0 <= weight < 1 << 32:
            raise Fault(f"expected a weight from 0 to {(1 << 32) - 1}, got {weight}")
        if len(text) > MAX_VALUE_BYTES:
            raise Fault(f"expected a text of at most {MAX_VALUE_BYTES} bytes")
        data += struct.pack("<II", weight, len(text)) + text
        total += weight
    if total == 0:
        raise Fault("expected a list with a weight above zero in it")
    if len(data) > MAX_LIST_BYTES:
        raise Fault(
            f"expected a list of at most {MAX_LIST_BYTES} bytes, got {len(data)}",
            "put the texts in a file, one on each line: [file:NAME]",
        )
    return ValueSource(LIST, data=bytes(data))


@dataclass(frozen=True)
class OptionalGroup:
    """Parts that are all there with a probability, else none of them."""

    #: Probability in millionths, from 0 to CERTAIN_PPM.
    ppm: int
    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Tlv:
    """A TLV whose content varies, so that its length is known only when sent."""

    tag: int
    parts: tuple[Node, ...]
    #: The TLV is left out if its content has fewer bytes.
    least: int = 0


@dataclass(frozen=True)
class If:
    """Parts that are there if a slot (of a request: a variable) has a text."""

    slot: int
    parts: tuple[Node, ...]
    #: False: if it has none.
    is_wanted: bool = True
    #: Not None: if it has this text.
    text: bytes | None = None


@dataclass(frozen=True)
class Loop:
    """Parts that are repeated."""

    #: The first number; None: different numbers are picked from those below `to`.
    first: int | None
    #: Least and most turns.
    least: int
    most: int
    to: int
    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Number:
    """The number of the turn of the loop around it."""


@dataclass(frozen=True)
class Base64:
    parts: tuple[Node, ...]


class Place(IntEnum):
    """Which number of an entry chooses the value: enum slam_place."""

    INDEX = 1
    SIBLING = 2
    POSITION = 3
    FIRST = 4
    LAST = 5


@dataclass(frozen=True)
class Placed:
    """The value of a source in turn, at an entry's number."""

    source: ValueSource
    place: Place


@dataclass(frozen=True)
class Slot:
    """The text of a slot of the entry `level` levels above."""

    number: int
    level: int = 0
    #: Most bytes; 0: all.
    limit: int = 0
    form: int = PLAIN


@dataclass(frozen=True)
class Fill:
    """Gives a slot its text."""

    slot: int
    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Line:
    """An attribute and its value, as LDIF has them; nothing if the value is empty."""

    attribute: str
    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Output:
    """A line of a side file."""

    number: int
    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Field:
    """What is drawn from here on belongs to this field of the entry."""

    number: int


@dataclass(frozen=True)
class Body:
    """Ends what the entries below an entry want of it."""


#: bytes are finished BER (or content octets); the others are filled in per request.
Node = (
    bytes
    | ValueSource
    | OptionalGroup
    | Tlv
    | If
    | Loop
    | Number
    | Base64
    | Placed
    | Slot
    | Fill
    | Line
    | Output
    | Field
    | Body
)


@dataclass(frozen=True)
class Template:
    """A compiled request; `values` are numbered in the order of their placeholders."""

    program: bytes
    values: tuple[ValueSource, ...]
    #: Bytes of its constant texts, and its parts in base64.
    constant_bytes: int = 0
    base64s: int = 0

    @property
    def files(self) -> tuple[str, ...]:
        """Names of the files of values that it draws from, as the job has them."""
        names = (one.data.decode() for one in self.values if one.kind in FILES)
        return tuple(dict.fromkeys(names))


class Sources:
    """The value sources of a program, numbered in the order of their placeholders."""

    def __init__(self) -> None:
        self.found: list[ValueSource] = []

    def number(self, source: ValueSource) -> int:
        self.found.append(source)
        return len(self.found) - 1


class _Program:
    """Writes the program of nodes."""

    def __init__(self, sources: Sources) -> None:
        self.sources = sources
        self.literal = bytearray()
        self.code = bytearray()
        self.constant_bytes = self.base64s = 0

    def flush(self) -> None:
        if self.literal:
            self.constant_bytes += len(self.literal)
            self.code += struct.pack("<BI", LITERAL, len(self.literal)) + self.literal
            self.literal.clear()

    def add(self, nodes: Iterable[Node], depth: int = 0) -> int:
        """Returns the most bytes that the nodes' text has."""
        return sum(self.node(node, depth) for node in nodes)

    def node(self, node: Node, depth: int) -> int:
        if isinstance(node, bytes):
            self.literal += node
            return len(node)
        self.flush()
        match node:
            case ValueSource():
                self.value(VALUE, node)
                return node.max_bytes
            case Placed(source=source, place=place):
                self.value(PLACED, source, bytes([place]))
            case Slot(number=number, level=level, limit=limit, form=form):
                self.code += struct.pack("<BBHIB", SLOT, level, number, limit, form)
            case Number():
                self.code.append(NUMBER)
                return _MAX_DIGITS
            case Field(number=number):
                self.code += struct.pack("<BI", FIELD, number)
            case Body():
                self.code.append(BODY)
            case _:
                if depth == MAX_DEPTH:
                    raise Fault(
                        f"patterns are nested more than {MAX_DEPTH} levels deep"
                    )
                self.code += _opening(node)
                self.base64s += isinstance(node, Base64)
                size = self.add(node.parts, depth + 1)
                self.flush()
                self.code.append(END)
                return _closed_bytes(node, size)
        return 0

    def value(self, code: int, source: ValueSource, operands: bytes = b"") -> None:
        number = self.sources.number(source)
        self.code += struct.pack("<BH", code, number % (1 << 16)) + operands


def _opening(node: Node) -> bytes:
    match node:
        case OptionalGroup(ppm=ppm):
            return struct.pack("<BI", CHANCE, ppm)
        case Tlv(tag=tag, least=0):
            return bytes([TLV, tag])
        case Tlv(tag=tag, least=least):
            return struct.pack("<BBI", OPTIONAL_TLV, tag, least)
        case If(slot=slot, is_wanted=is_wanted, text=None):
            return struct.pack("<BHB", IF, slot, is_wanted)
        case If(slot=slot, text=bytes() as text):
            return struct.pack("<BHI", EQUAL, slot, len(text)) + text
        case Loop(first=None, to=to, least=least, most=most):
            return struct.pack("<BQQQ", PICK, to, least, most)
        case Loop(first=int() as first, least=least):
            return struct.pack("<BQQ", LOOP, first, least)
        case Base64():
            return bytes([BASE64])
        case Fill(slot=slot):
            return struct.pack("<BH", FILL, slot)
        case Line(attribute=attribute):
            name = attribute.encode()
            return struct.pack("<BH", LINE, len(name)) + name
        case Output(number=number):
            return bytes([OUTPUT, number])
    raise TypeError(f"{node!r} has no parts")


def _closed_bytes(node: Node, size: int) -> int:
    """Bound of a part whose content has at most `size` bytes."""
    match node:
        case Tlv():
            return size + _HEADER_BYTES
        case Loop(most=most):
            return size * most
        case Base64():
            return -(-size // 3) * 4
    return size


def may_be_empty(nodes: Iterable[Node], filled: Collection[int] = ()) -> bool:
    """Whether the nodes can have no text; `filled` variables have one."""
    return all(_may_be_empty(node, filled) for node in nodes)


def _may_be_empty(node: Node, filled: Collection[int]) -> bool:
    match node:
        case bytes():
            return not node
        case ValueSource(kind=kind) if kind == VARIABLE:
            # the first bytes may be no whole character
            return node.lo not in filled or 0 < node.hi < _MAX_CHARACTER_BYTES
        case ValueSource(kind=kind) if kind in (*FILES, PARENT):
            return True
        case ValueSource(kind=kind) if kind == LIST:
            return any(weight and not text for text, weight in node.choices)
        case ValueSource() | Number():
            return False
        case Base64(parts=parts):
            return may_be_empty(parts, filled)
    return True


def compile_template(*nodes: Node) -> Template:
    """The program of a request; a Fault when the engine's limits are exceeded."""
    program = _Program(Sources())
    # its SEQUENCE and messageID come first
    size = program.add(nodes) + _HEADER_BYTES + 6
    program.flush()
    values = program.sources.found
    if len(values) > MAX_VALUES:
        raise Fault(
            f"expected at most {MAX_VALUES} patterns in one operation, "
            f"got {len(values)}"
        )
    if size > MAX_REQUEST_BYTES:
        raise Fault(
            f"expected a request of at most {MAX_REQUEST_BYTES} bytes, got up to {size}"
        )
    return Template(
        bytes(program.code), tuple(values), program.constant_bytes, program.base64s
    )


def compile_entry(nodes: Iterable[Node], sources: Sources) -> bytes:
    """The program of a population's entry, which draws from these sources."""
    program = _Program(sources)
    program.add(nodes)
    program.flush()
    return bytes(program.code)


def first_unique(run_id: str) -> int:
    """The lowest of a run's unique numbers. Those of two runs hardly ever meet, all
    have as many digits, and a double holds each exactly."""
    drawn = int.from_bytes(hashlib.sha256(run_id.encode()).digest()[:8])
    return 10**15 + drawn % (8 * 10**15)


def number_uniques(
    templates: Sequence[Template], first: int = 0
) -> tuple[Template, ...]:
    """The templates of a run with disjoint UNIQUE sources: of n, source i draws first +
    i, first + i + n, …"""
    count = sum(v.kind == UNIQUE for t in templates for v in t.values)
    numbers = iter(range(first, first + count))
    return tuple(
        replace(
            template,
            values=tuple(
                replace(v, lo=next(numbers), step=count) if v.kind == UNIQUE else v
                for v in template.values
            ),
        )
        for template in templates
    )


def fold(parts: Iterable[Node]) -> tuple[Node, ...]:
    """Parts with neighbouring constants joined and empty ones left out. An optional
    group that is certain becomes its parts, an impossible one nothing."""
    folded: list[Node] = []
    constant = bytearray()
    for part in _without_certainties(parts):
        if isinstance(part, bytes):
            constant += part
            continue
        if constant:
            folded.append(bytes(constant))
            constant.clear()
        folded.append(part)
    if constant:
        folded.append(bytes(constant))
    return tuple(folded)


def _without_certainties(parts: Iterable[Node]) -> Iterable[Node]:
    for part in parts:
        if not isinstance(part, OptionalGroup):
            yield part
        elif part.ppm >= CERTAIN_PPM:
            yield from _without_certainties(part.parts)
        elif part.ppm > 0 and part.parts:
            yield OptionalGroup(part.ppm, fold(part.parts))
