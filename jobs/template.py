# SPDX-License-Identifier: Apache-2.0
"""Request templates: BER with holes, in the form that the engine executes.

A template is what follows the messageID inside an LDAPMessage (RFC 4511): the
protocolOp. Its program is a sequence of little-endian instructions:

    0x01 LIT   u32 n, n bytes   literal bytes
    0x02 VAL   u16 i            the text of values[i]
    0x03 OPEN  u8 tag           begin a TLV
    0x04 CLOSE                  end of the innermost open TLV

The engine adds the outer SEQUENCE, the messageID and all lengths of open TLVs. The
limits here are the engine's (agent/csrc/op.h, values.h), so that a job that loads also
compiles there.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field

from ldapslam.jobs.fault import Fault

UNIFORM, SEQUENCE, RANDOM_STRING = 0, 1, 2
VARIABLE, PARENT, MESSAGE_ID, LIST = 12, 13, 14, 15

LIT, VAL, OPEN, CLOSE = 0x01, 0x02, 0x03, 0x04

MAX_VALUES = 256
MAX_DEPTH = 32
MAX_REQUEST_BYTES = 1 << 20
MAX_VALUE_BYTES = 65_536
MAX_VARIABLE_BYTES = 2_044

#: A TLV's tag and length at their longest within MAX_REQUEST_BYTES.
_HEADER_BYTES = 5


@dataclass(frozen=True)
class ValueSource:
    """A hole's values: which texts, and how the next one is chosen."""

    #: UNIFORM: a member at random; SEQUENCE: the members in turn; RANDOM_STRING:
    #: `lo` characters, each at random from `data`; VARIABLE: the text of the
    #: session's variable `lo`; PARENT: the parent of the DN that it holds; MESSAGE_ID:
    #: the content octets of the messageID of the session's request before.
    kind: int
    lo: int = 0
    #: Last number, inclusive; at least lo.
    hi: int = 0
    step: int = 1
    #: Least number of digits, padded with zeros; 0: no padding.
    width: int = 0
    data: bytes = b""
    a: float = 0.0
    b: float = 0.0

    @property
    def max_bytes(self) -> int:
        if self.kind == RANDOM_STRING:
            return self.lo
        if self.kind == MESSAGE_ID:
            return 4
        if self.kind in (VARIABLE, PARENT):
            return MAX_VARIABLE_BYTES
        return max(self._digits(self.lo), self._digits(self.hi))

    def _digits(self, number: int) -> int:
        """Length of a number's text; its sign is not one of the `width` digits."""
        return max(len(str(abs(number))), self.width) + (number < 0)


@dataclass(frozen=True)
class Tlv:
    """A TLV whose content has holes, so that its length is known only when sent."""

    tag: int
    parts: tuple[Node, ...]


#: bytes are finished BER (or content octets); the others are filled in per request.
Node = bytes | ValueSource | Tlv


@dataclass(frozen=True)
class Template:
    """A compiled request; `values` are numbered in the order of their holes."""

    program: bytes
    values: tuple[ValueSource, ...]


@dataclass
class _Program:
    literal: bytearray = field(default_factory=bytearray)
    code: bytearray = field(default_factory=bytearray)
    values: list[ValueSource] = field(default_factory=list)
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
            self.code += struct.pack("<BH", VAL, len(self.values) % (1 << 16))
            self.values.append(node)
            self.max_bytes += node.max_bytes
            return
        if depth == MAX_DEPTH:
            raise Fault(f"patterns are nested more than {MAX_DEPTH} levels deep")
        self.code += struct.pack("<BB", OPEN, node.tag)
        self.max_bytes += _HEADER_BYTES
        for part in node.parts:
            self.add(part, depth + 1)
        self.flush()
        self.code.append(CLOSE)


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
    if program.max_bytes > MAX_REQUEST_BYTES:
        raise Fault(
            f"expected a request of at most {MAX_REQUEST_BYTES} bytes, "
            f"got up to {program.max_bytes}"
        )
    return Template(bytes(program.code), tuple(program.values))


def fold(parts: Iterable[Node]) -> tuple[Node, ...]:
    """Parts with neighbouring constants joined, and empty ones left out."""
    folded: list[Node] = []
    constant = bytearray()
    for part in parts:
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
