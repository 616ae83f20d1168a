# SPDX-License-Identifier: Apache-2.0
"""The instructions of the generator's programs: agent/csrc/ldif.h says what they do."""

from __future__ import annotations

import struct

from ldapslam.jobs.entries.population_tags import Turns

(
    LITERAL,
    VALUE,
    SLOT,
    NUMBER,
    BASE64,
    FILL,
    LINE,
    OUTPUT,
    IF,
    EQUAL,
    LOOP,
    PICK,
    CHANCE,
    SET,
    FIELD,
    BODY,
    END,
) = range(1, 18)

#: enum slam_ldif_form.
PLAIN, DN_VALUE, UNDERSCORES, FILTER_INITIAL, FILTER_ANY, FILTER_FINAL = range(6)

NO_PARENT = 0xFFFFFFFF
NO_NAMES = 0xFFFFFFFF

#: The flag of what is always there.
ALWAYS = -1

_END = bytes([END])


def literal(text: bytes) -> bytes:
    return struct.pack("<BI", LITERAL, len(text)) + text if text else b""


def slot(number: int, *, level: int = 0, limit: int = 0, form: int = PLAIN) -> bytes:
    return struct.pack("<BBHIB", SLOT, level, number, limit, form)


def line(attribute: str, text: bytes) -> bytes:
    name = attribute.encode()
    return struct.pack("<BH", LINE, len(name)) + name + text + _END


def output(number: int, text: bytes) -> bytes:
    return bytes([OUTPUT, number]) + text + _END


def field(number: int) -> bytes:
    return struct.pack("<BI", FIELD, number)


def conditional(flag: int, code: bytes) -> bytes:
    if flag == ALWAYS:
        return code
    return when(flag, True, code)


def loop(turns: Turns, parts: bytes) -> bytes:
    if turns.first is None:
        head = struct.pack("<BQQQ", PICK, turns.to, turns.least, turns.most)
    else:
        head = struct.pack("<BQQ", LOOP, turns.first, turns.least)
    return head + parts + _END


def value(source: int, place: int) -> bytes:
    return struct.pack("<BHB", VALUE, source, place)


def number() -> bytes:
    return bytes([NUMBER])


def base64(text: bytes) -> bytes:
    return bytes([BASE64]) + text + _END


def fill(slot_number: int, text: bytes) -> bytes:
    return struct.pack("<BH", FILL, slot_number) + text + _END


def equal(slot_number: int, wanted: bytes, parts: bytes) -> bytes:
    head = struct.pack("<BHI", EQUAL, slot_number, len(wanted))
    return head + wanted + parts + _END


def chance(flag: int, ppm: int) -> bytes:
    return struct.pack("<BHI", CHANCE, flag, ppm)


def set_flag(flag: int) -> bytes:
    return struct.pack("<BH", SET, flag)


def when(flag: int, wanted: bool, parts: bytes) -> bytes:
    return struct.pack("<BHB", IF, flag, wanted) + parts + _END


def body() -> bytes:
    return bytes([BODY])
