# SPDX-License-Identifier: Apache-2.0
"""An interpreter for the programs of request templates: what the C engine executes."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from ldapslam.jobs import ber
from ldapslam.jobs.template import CLOSE, LIT, OPEN, VAL, Template


def encode_message(
    template: Template, message_id: int, values: Sequence[str] = ()
) -> bytes:
    """The LDAPMessage of a template, with these texts in its holes."""
    program, at = template.program, 0
    open_tlvs: list[tuple[int, bytearray]] = [(ber.SEQUENCE, bytearray())]
    message_id_tlv = ber.integer(message_id)
    assert isinstance(message_id_tlv, bytes)
    open_tlvs[0][1].extend(message_id_tlv)
    while at < len(program):
        opcode = program[at]
        if opcode == LIT:
            (length,) = struct.unpack_from("<I", program, at + 1)
            open_tlvs[-1][1].extend(program[at + 5 : at + 5 + length])
            at += 5 + length
        elif opcode == VAL:
            (index,) = struct.unpack_from("<H", program, at + 1)
            open_tlvs[-1][1].extend(values[index].encode())
            at += 3
        elif opcode == OPEN:
            open_tlvs.append((program[at + 1], bytearray()))
            at += 2
        elif opcode == CLOSE:
            _close(open_tlvs)
            at += 1
        else:
            raise AssertionError(f"opcode {opcode:#x} at {at}")
    assert len(open_tlvs) == 1
    tag, content = open_tlvs[0]
    return bytes([tag]) + ber.length(len(content)) + content


def _close(open_tlvs: list[tuple[int, bytearray]]) -> None:
    tag, content = open_tlvs.pop()
    open_tlvs[-1][1].extend(bytes([tag]) + ber.length(len(content)) + content)
