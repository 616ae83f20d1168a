# SPDX-License-Identifier: Apache-2.0
"""BER for requests (RFC 4511 section 5.1: definite lengths, primitive strings).

Every function returns a template node: finished bytes where the content is constant,
else a `Tlv`. Lengths take their shortest form, as libldap writes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ldapslam.jobs.requests.template import Node, Tlv, fold

BOOLEAN = 0x01
INTEGER = 0x02
OCTET_STRING = 0x04
ENUMERATED = 0x0A
SEQUENCE = 0x30
SET = 0x31


def tlv(tag: int, *parts: Node, least: int = 0) -> Node:
    """A TLV of these contents, folded to bytes if nothing in it varies; one that varies
    is left out if it has fewer than `least` bytes of content."""
    content = fold(parts)
    if not content:
        return bytes([tag, 0])
    if len(content) == 1 and isinstance(content[0], bytes):
        return bytes([tag]) + length(len(content[0])) + content[0]
    return Tlv(tag, content, least)


def length(count: int) -> bytes:
    """Length octets in the shortest form."""
    if count < 0x80:
        return bytes([count])
    octets = count.to_bytes((count.bit_length() + 7) // 8, "big")
    return bytes([0x80 | len(octets)]) + octets


def integer(value: int, tag: int = INTEGER) -> Node:
    """Two's complement in the fewest octets."""
    octets = value.to_bytes(
        (value + (value < 0)).bit_length() // 8 + 1, "big", signed=True
    )
    return tlv(tag, octets)


def boolean(value: bool, tag: int = BOOLEAN) -> Node:
    return tlv(tag, b"\xff" if value else b"\x00")


def octet_string(*parts: Node) -> Node:
    return tlv(OCTET_STRING, *parts)


def sequence(*parts: Node) -> Node:
    return tlv(SEQUENCE, *parts)


def attribute(name: str, values: Iterable[Sequence[Node]]) -> Node:
    """An Attribute or PartialAttribute (RFC 4511 section 4.1.7)."""
    texts = (octet_string(*value) for value in values)
    return sequence(octet_string(name.encode()), tlv(SET, *texts))
