# SPDX-License-Identifier: Apache-2.0
"""Request templates: BER with holes, in the form that the engine executes.

A template is what follows the messageID inside an LDAPMessage (RFC 4511): the
protocolOp. Its program is a sequence of little-endian instructions:

    0x01 LIT    u32 n, n bytes   literal bytes
    0x02 VAL    u16 i            the text of values[i]
    0x03 OPEN   u8 tag           begin a TLV
    0x04 CLOSE                   end of the innermost open TLV
    0x05 CHANCE u32 ppm          begin a part that is present with that probability
    0x06 END                     end of the innermost such part

The engine adds the outer SEQUENCE, the messageID and all lengths of open TLVs. The
limits here are the engine's (agent/csrc/op.h, values.h), so that a job that loads also
compiles there; only what is in a file of values is known to the engine alone.

Who composes a request makes a tree of nodes:

    bytes          as they are
    ValueSource    a value that is drawn anew for each request
    Ref            the text of a ValueSource that stands earlier in the same request
    Chance         parts that are there together, with a probability, or not at all
    Tlv            made by ber.tlv, which folds constants to bytes

`choice` makes the ValueSource of a weighted list.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from ldapslam.base.fault import Fault

# Kinds of value sources: enum slam_value_kind.
UNIFORM, SEQUENCE, RANDOM_STRING, ZIPF, GAUSS, HOT = range(6)
FILE_RANDOM, FILE_SEQUENCE, TIMESTAMP, UUID, REF, UNIQUE = range(6, 12)
VARIABLE, PARENT, MESSAGE_ID, LIST = range(12, 16)

#: `step` of a TIMESTAMP: enum slam_timestamp_format.
GENERALIZED, MILLISECONDS, SECONDS, FORMATTED = range(4)

LIT, VAL, OPEN, CLOSE, CHANCE, END = range(1, 7)

MAX_VALUES = 256
MAX_CHANCES = 256
MAX_DEPTH = 32
MAX_REQUEST_BYTES = 1 << 20
MAX_VALUE_BYTES = 65_536
MAX_VARIABLE_BYTES = 2_044
MAX_LIST_BYTES = 1 << 20
#: A Chance that is always there.
CERTAIN_PPM = 1_000_000

#: A TLV's tag and length at their longest within MAX_REQUEST_BYTES.
_HEADER_BYTES = 5
#: Digits of a number of 64 bits.
_MAX_DIGITS = 20
_MAX_TIME_BYTES = len("20180102030405.678Z")
#: Of the kinds whose texts have the same bound whatever their figures.
_MAX_BYTES = {
    FILE_RANDOM: 0,
    FILE_SEQUENCE: 0,
    UUID: 36,
    PARENT: MAX_VARIABLE_BYTES,
    MESSAGE_ID: 4,
}


@dataclass(frozen=True)
class ValueSource:
    """A hole's values: which texts, and how the next one is chosen. In terms of member
    k = lo + step k (lo - step k where lo > hi, which a SEQUENCE may have):

    UNIFORM: a member, each as likely. SEQUENCE: the members in turn. ZIPF: member k
    with probability ~ 1 / (k + 1)^a. GAUSS: normal, the middle of the range its mean,
    the range six standard deviations. HOT: of the first a * members with probability b,
    else of the others.

    RANDOM_STRING: lo to max(lo, hi) characters, each at random from `data`.
    FILE_RANDOM, FILE_SEQUENCE: a line of the file `data`, at random or in turn.
    TIMESTAMP: now, or where lo or hi is not 0 a time from lo to hi ms after 1970; in
    the format `step`, FORMATTED that of `data` (%Y %m %d %H %M %S, %L ms, %%).
    UUID: of version 4. UNIQUE: lo + step x, a number that comes once in the whole run.
    VARIABLE: the text of the session's variable `lo`; with hi above 0 at most so many
    bytes of it, whole characters; with `width` 1 escaped, to stand as a value in a DN.
    PARENT: the parent of the DN that the variable holds.
    MESSAGE_ID: content octets of the messageID of the session's request before.
    LIST: `data` is (u32 weight, u32 length, text)…: see `choice`.
    REF: made by the compiler from a Ref.
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
        if self.kind == TIMESTAMP:
            return 2 * len(self.data) if self.step == FORMATTED else _MAX_TIME_BYTES
        if self.kind == UNIQUE:
            return max(_MAX_DIGITS, self.width)
        if self.kind == VARIABLE:
            return (self.hi or MAX_VARIABLE_BYTES) * (3 if self.width == 1 else 1)
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
class Ref:
    """The text that `target`, the very object, was given last in this request; nothing,
    where it stood in a Chance that did not come."""

    target: ValueSource
    #: At most so many bytes of it, whole characters; 0: all.
    limit: int = 0


@dataclass(frozen=True)
class Chance:
    """Parts that are all there with a probability, else none of them."""

    #: Probability in millionths, from 0 to CERTAIN_PPM.
    ppm: int
    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Tlv:
    """A TLV whose content has holes, so that its length is known only when sent."""

    tag: int
    parts: tuple[Node, ...]


#: bytes are finished BER (or content octets); the others are filled in per request.
Node = bytes | ValueSource | Ref | Chance | Tlv


@dataclass(frozen=True)
class Template:
    """A compiled request; `values` are numbered in the order of their holes."""

    program: bytes
    values: tuple[ValueSource, ...]

    @property
    def files(self) -> tuple[str, ...]:
        """Names of the files of values that it draws from, as the job has them."""
        names = [
            value.data.decode()
            for value in self.values
            if value.kind in (FILE_RANDOM, FILE_SEQUENCE)
        ]
        return tuple(dict.fromkeys(names))


@dataclass
class _Program:
    literal: bytearray = field(default_factory=bytearray)
    code: bytearray = field(default_factory=bytearray)
    values: list[ValueSource] = field(default_factory=list)
    #: The node of each value: a Ref means an object, not an equal one.
    drawn: list[ValueSource | Ref] = field(default_factory=list)
    chances: int = 0
    #: Bound of the whole LDAPMessage: its SEQUENCE and messageID come first.
    max_bytes: int = _HEADER_BYTES + 6

    def flush(self) -> None:
        if self.literal:
            self.code += struct.pack("<BI", LIT, len(self.literal)) + self.literal
            self.max_bytes += len(self.literal)
            self.literal.clear()

    def add(self, node: Node, depth: int) -> None:
        if isinstance(node, bytes):
            self.literal += node
            return
        self.flush()
        if isinstance(node, ValueSource):
            self.value(node, node, node.max_bytes)
            return
        if isinstance(node, Ref):
            self.reference(node)
            return
        if depth == MAX_DEPTH:
            raise Fault(f"patterns are nested more than {MAX_DEPTH} levels deep")
        if isinstance(node, Tlv):
            self.code += struct.pack("<BB", OPEN, node.tag)
            self.max_bytes += _HEADER_BYTES
        else:
            self.code += struct.pack("<BI", CHANCE, node.ppm)
            self.chances += 1
        for part in node.parts:
            self.add(part, depth + 1)
        self.flush()
        self.code.append(CLOSE if isinstance(node, Tlv) else END)

    def value(self, source: ValueSource, node: ValueSource | Ref, bound: int) -> None:
        self.code += struct.pack("<BH", VAL, len(self.values) % (1 << 16))
        self.values.append(source)
        self.drawn.append(node)
        self.max_bytes += bound

    def reference(self, ref: Ref) -> None:
        for index in reversed(range(len(self.drawn))):
            if self.drawn[index] is ref.target:
                bound = ref.target.max_bytes
                if ref.limit:
                    bound = min(bound, ref.limit)
                self.value(ValueSource(REF, lo=index, hi=ref.limit), ref, bound)
                return
        raise Fault("a reference is to a value that comes later in the request")


def compile_template(*nodes: Node) -> Template:
    """The program of a request; a Fault when the engine's limits are exceeded."""
    program = _Program()
    for node in nodes:
        program.add(node, 0)
    program.flush()
    if len(program.values) > MAX_VALUES:
        raise Fault(
            f"expected at most {MAX_VALUES} patterns in one operation, "
            f"got {len(program.values)}"
        )
    if program.chances > MAX_CHANCES:
        raise Fault(
            f"expected at most {MAX_CHANCES} optional parts in one operation, "
            f"got {program.chances}"
        )
    if program.max_bytes > MAX_REQUEST_BYTES:
        raise Fault(
            f"expected a request of at most {MAX_REQUEST_BYTES} bytes, "
            f"got up to {program.max_bytes}"
        )
    return Template(bytes(program.code), tuple(program.values))


def longest_text(nodes: Iterable[Node]) -> int:
    """Bound of the length of these nodes' text, in bytes; they hold no Tlv."""
    longest = 0
    for node in nodes:
        match node:
            case bytes():
                longest += len(node)
            case ValueSource():
                longest += node.max_bytes
            case Ref(target=target, limit=limit):
                longest += min(target.max_bytes, limit or target.max_bytes)
            case Chance(parts=parts):
                longest += longest_text(parts)
    return longest


def number_uniques(templates: Sequence[Template]) -> tuple[Template, ...]:
    """The templates of a whole run, with their UNIQUE sources set apart: of n, source i
    draws i, i + n, i + 2 n, …, so that no number comes from two of them."""
    count = sum(v.kind == UNIQUE for t in templates for v in t.values)
    numbers = iter(range(count))
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
    """Parts with neighbouring constants joined, and empty ones left out. Of a Chance
    that always comes the parts are left, of one that never comes nothing."""
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
        if not isinstance(part, Chance):
            yield part
        elif part.ppm >= CERTAIN_PPM:
            yield from _without_certainties(part.parts)
        elif part.ppm > 0 and part.parts:
            yield Chance(part.ppm, fold(part.parts))
