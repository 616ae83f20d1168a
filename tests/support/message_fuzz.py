# SPDX-License-Identifier: Apache-2.0
"""Messages as nobody should send them, made from the descriptors.

A message is first filled at random, mostly with values that have a meaning (ids that
exist, names, numbers at the ends of their ranges), then serialised, then often spoilt:
cut off, bits flipped, fields repeated, unknown ones added, lengths that lie. The same
seed makes the same bytes.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

_MAX_DEPTH = 6
_LONG = 100_000

_INTEGERS = (0, 1, 2, 3, 5, 77, 1000, 10**6, 10**9, 60 * 10**9, 2**31 - 1, 2**31)
_ENDS = (2**32 - 1, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, -1, -(2**31))
_FLOATS = (0.0, -0.0, 1.0, 0.5, -1.0, 1e308, 5e-324, float("inf"), float("nan"))
_TEXTS = (
    "",
    " ",
    "latest",
    "a",
    "a,b",
    "readers",
    "search",
    "measure",
    "drain",
    "success",
    "running",
    "any",
    "*",
    "* * * * *",
    "0 2 * * 1-5",
    "61 * * * *",
    "* * 31 2 *",
    "Europe/Berlin",
    "../../etc/passwd",
    "2026-11-21T12:00:00+00:00",
    "2030-01-01T00:00:00Z",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00",
    "2026-02-30T00:00:00",
    "{}",
    "[]",
    "null",
    '{"a": NaN}',
    '{"cpu": ["x", {"y": 1e999}]}',
    "[" * 5000,
    "http://127.0.0.1:1/",
    "mailto:nobody@localhost",
    "ldap://127.0.0.1:1",
    "run.duration=1s",
    "streams[0].name=x",
    "x\0y",
    "\u202ename",
    "ü" * 70,
    "%s%n{0}",
    "'; DROP TABLE run; --",
    "x" * _LONG,
)

_INTEGER_LIMITS = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
    FieldDescriptor.CPPTYPE_ENUM: (-(2**31), 2**31 - 1),
}


class MessageFuzzer:
    """Bytes for methods' requests."""

    def __init__(
        self,
        seed: int,
        values: Mapping[str, Sequence[object]] | None = None,
        contents: Sequence[bytes] = (),
    ) -> None:
        """`values`: field's name -> what is likely in it; `contents` of bytes."""
        self._random = random.Random(seed)
        self._values = values or {}
        texts = (v for found in self._values.values() for v in found)
        self._likely = tuple(text for text in texts if isinstance(text, str))
        self._contents = (b"", b"\0", b"{", b"\xff" * 100, *contents)

    def chance(self, share: float) -> bool:
        return self._random.random() < share

    def request(self, descriptor: Descriptor) -> bytes:
        """One request's bytes."""
        if self.chance(0.02):
            return self._random.randbytes(self._random.choice((0, 1, 10, 1000)))
        content = self._message(descriptor, 0).SerializeToString()
        for _ in range(self._random.choice((0, 0, 0, 1, 1, 2, 5))):
            content = self._spoilt(content)
        return content

    def part(self, field: FieldDescriptor) -> bytes:
        """Bytes of a message that has this field alone, which is a message itself."""
        assert field.message_type is not None
        content = self.request(field.message_type)
        return _varint(field.number << 3 | 2) + _varint(len(content)) + content

    def _message(self, descriptor: Descriptor, depth: int) -> Message:
        message = GetMessageClass(descriptor)()
        density = self._random.choice((0.2, 0.7, 0.95))
        for field in descriptor.fields:
            if self.chance(density):
                self._fill(message, field, depth)
        return message

    def _fill(self, message: Message, field: FieldDescriptor, depth: int) -> None:
        count = self._random.choice((1, 1, 2, 3, 0)) if field.is_repeated else 1
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            self._fill_map(message, field, count, depth)
        elif field.message_type is not None:
            for _ in range(count if depth < _MAX_DEPTH else 0):
                inner = self._message(field.message_type, depth + 1)
                if field.is_repeated:
                    getattr(message, field.name).append(inner)
                else:
                    getattr(message, field.name).CopyFrom(inner)
        elif field.is_repeated:
            values = [self._value(field) for _ in range(count)]
            getattr(message, field.name).extend(values)
        else:
            setattr(message, field.name, self._value(field))

    def _fill_map(
        self, message: Message, field: FieldDescriptor, count: int, depth: int
    ) -> None:
        assert field.message_type is not None
        entry = field.message_type.fields_by_name
        for _ in range(count):
            key, values = self._value(entry["key"]), getattr(message, field.name)
            if entry["value"].message_type is None:
                values[key] = self._value(entry["value"])
            elif depth < _MAX_DEPTH:
                inner = self._message(entry["value"].message_type, depth + 1)
                values[key].CopyFrom(inner)

    def _value(self, field: FieldDescriptor) -> object:
        kind = field.cpp_type
        if field.name in self._values and self.chance(0.7):
            return self._random.choice(self._values[field.name])
        if kind in _INTEGER_LIMITS:
            return self._integer(*_INTEGER_LIMITS[kind], field)
        if kind == FieldDescriptor.CPPTYPE_BOOL:
            return self.chance(0.5)
        if kind in (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT):
            return self._random.choice((*_FLOATS, self._random.random()))
        if field.type == FieldDescriptor.TYPE_BYTES:
            return self._content()
        return self._text()

    def _integer(self, low: int, high: int, field: FieldDescriptor) -> int:
        if field.enum_type is not None and self.chance(0.7):
            return int(self._random.choice(field.enum_type.values).number)
        number = self._random.choice((*_INTEGERS, *_ENDS, self._random.getrandbits(64)))
        if not self.chance(0.4):
            number = self._random.choice(_INTEGERS[:6])
        return max(low, min(high, number))

    def _text(self) -> str:
        if self._likely and self.chance(0.3):
            return self._random.choice(self._likely)
        if self.chance(0.01):
            return self._random.choice(_TEXTS)
        return self._random.choice(_TEXTS[:-1])

    def _content(self) -> bytes:
        content = self._random.choice(self._contents)
        return content if self.chance(0.8) else self._spoilt(content)

    def _spoilt(self, content: bytes) -> bytes:
        at = self._random.randrange(len(content) + 1)
        match self._random.randrange(7):
            case 0:  # cut off
                return content[:at]
            case 1 if content:  # a bit flipped
                at = min(at, len(content) - 1)
                flipped = content[at] ^ (1 << self._random.randrange(8))
                return content[:at] + bytes([flipped]) + content[at + 1 :]
            case 2:  # an unknown field of any wire type, valid or not
                tag = _varint(self._random.getrandbits(12))
                rest = self._random.randbytes(self._random.randrange(12))
                return content[:at] + tag + rest + content[at:]
            case 3:  # a length that lies
                lie = self._random.choice((2**20, 2**31 - 1, 2**32, 2**63, 2**64 - 1))
                return content[:at] + b"\x0a" + _varint(lie) + content[at:]
            case 4:  # the same again
                return content + content
            case 5:  # groups that never end
                return content[:at] + b"\x0b" * self._random.choice((1, 200, 5000))
            case _:  # something from elsewhere in it
                other = self._random.randrange(len(content) + 1)
                return content[:at] + content[other:]


def _varint(number: int) -> bytes:
    out = bytearray()
    while True:
        out.append(number & 0x7F | (0x80 if number > 0x7F else 0))
        number >>= 7
        if not number:
            return bytes(out)
