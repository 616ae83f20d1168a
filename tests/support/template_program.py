# SPDX-License-Identifier: Apache-2.0
"""An interpreter for the programs of request templates: what the C engine executes."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from ldapslam.jobs.requests import ber
from ldapslam.jobs.requests.template import (
    CHANCE,
    CLOSE,
    END,
    LIT,
    OPEN,
    REF,
    VAL,
    Template,
)


def encode_message(
    template: Template,
    message_id: int,
    values: Sequence[str] = (),
    present: Sequence[bool] | None = None,
) -> bytes:
    """The LDAPMessage of a template, with these texts in its holes (those of references
    are not looked at), and with these of its optional parts; all without `present`."""
    program, at = template.program, 0
    open_tlvs: list[tuple[int, bytearray]] = [(ber.SEQUENCE, bytearray())]
    message_id_tlv = ber.integer(message_id)
    assert isinstance(message_id_tlv, bytes)
    open_tlvs[0][1].extend(message_id_tlv)
    drawn: dict[int, bytes] = {}
    chances = 0
    #: Depth of optional parts inside one that is absent; 0: none is.
    absent = 0
    while at < len(program):
        opcode = program[at]
        if opcode == LIT:
            (length,) = struct.unpack_from("<I", program, at + 1)
            if not absent:
                open_tlvs[-1][1].extend(program[at + 5 : at + 5 + length])
            at += 5 + length
        elif opcode == VAL:
            (index,) = struct.unpack_from("<H", program, at + 1)
            source = template.values[index]
            if absent:
                drawn[index] = b""
            elif source.kind == REF:
                drawn[index] = _first_bytes(drawn[source.lo], source.hi)
            else:
                drawn[index] = values[index].encode()
            open_tlvs[-1][1].extend(drawn[index])
            at += 3
        elif opcode == OPEN:
            if not absent:
                open_tlvs.append((program[at + 1], bytearray()))
            at += 2
        elif opcode == CLOSE:
            if not absent:
                _close(open_tlvs)
            at += 1
        elif opcode == CHANCE:
            if absent or (present is not None and not present[chances]):
                absent += 1
            chances += 1
            at += 5
        elif opcode == END:
            absent = max(absent - 1, 0)
            at += 1
        else:
            raise AssertionError(f"opcode {opcode:#x} at {at}")
    assert len(open_tlvs) == 1
    tag, content = open_tlvs[0]
    return bytes([tag]) + ber.length(len(content)) + content


def _first_bytes(text: bytes, limit: int) -> bytes:
    """Whole characters of at most `limit` bytes; 0: all of them."""
    return text[:limit].decode(errors="ignore").encode() if limit else text


def _close(open_tlvs: list[tuple[int, bytearray]]) -> None:
    tag, content = open_tlvs.pop()
    open_tlvs[-1][1].extend(bytes([tag]) + ber.length(len(content)) + content)
