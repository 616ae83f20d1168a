# SPDX-License-Identifier: Apache-2.0
"""An interpreter for the programs of templates: what the C engine executes."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator, Mapping, Sequence

from ldapslam.jobs.requests import ber
from ldapslam.jobs.requests.template import (
    BASE64,
    CHANCE,
    END,
    EQUAL,
    IF,
    LITERAL,
    LOOP,
    NUMBER,
    OPTIONAL_TLV,
    TLV,
    VALUE,
    Template,
)

_OPERANDS = {
    LITERAL: "<I",
    VALUE: "<H",
    TLV: "<B",
    END: "<",
    CHANCE: "<I",
    OPTIONAL_TLV: "<BI",
    NUMBER: "<",
    BASE64: "<",
    IF: "<HB",
    EQUAL: "<HI",
    LOOP: "<QQ",
}


def encode_message(
    template: Template,
    message_id: int,
    values: Sequence[str] = (),
    present: Sequence[bool] | None = None,
    variables: Mapping[int, str] | None = None,
) -> bytes:
    """The LDAPMessage of a template, with these texts in its holes, and with these of
    its optional parts; all without `present`."""
    message_id_tlv = ber.integer(message_id)
    assert isinstance(message_id_tlv, bytes)
    run = Run(template, values, iter(present or ()), variables or {})
    return _tlv(ber.SEQUENCE, message_id_tlv + run.text)


class Run:
    """One run of a program; `text` is what it makes."""

    def __init__(
        self,
        template: Template,
        values: Sequence[str],
        present: Iterator[bool],
        variables: Mapping[int, str],
    ) -> None:
        self._template = template
        self._values = values
        self._present = present
        self._variables = variables
        self._at = 0
        self._number = 0
        self.text = self._part()

    def _part(self) -> bytes:
        """The text from here to the END of the part, or to the program's."""
        text = b""
        while self._at < len(self._template.program):
            code, operands = self._instruction()
            if code == END:
                break
            text += self._instruction_text(code, operands)
        return text

    def _instruction(self) -> tuple[int, tuple[int, ...]]:
        program = self._template.program
        code = program[self._at]
        operands = struct.unpack_from(_OPERANDS[code], program, self._at + 1)
        self._at += 1 + struct.calcsize(_OPERANDS[code])
        return code, operands

    def _bytes(self, count: int) -> bytes:
        self._at += count
        return self._template.program[self._at - count : self._at]

    def _instruction_text(self, code: int, operands: tuple[int, ...]) -> bytes:
        if code == LITERAL:
            return self._bytes(operands[0])
        if code == VALUE:
            return self._values[operands[0]].encode()
        if code == NUMBER:
            return b"%d" % self._number
        if code == LOOP:
            return self._loop(*operands)
        if code == EQUAL:
            wanted = self._bytes(operands[1]).decode()
            return self._where(self._variables.get(operands[0], "") == wanted)
        if code == IF:
            return self._where(
                bool(self._variables.get(operands[0], "")) == bool(operands[1])
            )
        if code == CHANCE:
            return self._where(next(self._present, True))
        text = self._part()
        if code == BASE64:
            return base64.b64encode(text)
        is_there = code == TLV or len(text) >= operands[1]
        return _tlv(operands[0], text) if is_there else b""

    def _where(self, is_there: bool) -> bytes:
        text = self._part()
        return text if is_there else b""

    def _loop(self, first: int, turns: int) -> bytes:
        text, start = b"", self._at
        for self._number in range(first, first + turns):
            self._at = start
            text += self._part()
        return text


def _tlv(tag: int, content: bytes) -> bytes:
    return bytes([tag]) + ber.length(len(content)) + content
