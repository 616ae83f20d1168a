# SPDX-License-Identifier: Apache-2.0
"""Protobuf messages of our values (errors, facts), and frames on pipes.

Without gRPC, so that the engine's process does not load it. Peers are hostile: decoding
raises ProtocolError and nothing else. A frame is 4 bytes of length, big-endian, then
the message.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, MutableMapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from ldapslam.base.errors import FleetError, LdapSlamError
from ldapslam.base.inert import one_line, one_line_texts, parse_json
from ldapslam.base.names import MAX_NAME, is_name
from ldapslam.proto import bounds_pb2
from ldapslam.proto import common_pb2 as pb
from ldapslam.proto.bounds_pb2 import (
    SHAPE_JSON,
    SHAPE_LINE,
    SHAPE_NAME,
    SHAPE_TEXT,
    Bound,
)

if TYPE_CHECKING:
    from asyncio import StreamReader

#: Raised with each incompatible change.
PROTOCOL_VERSION = 11

#: A snapshot of 100 operations is below 10 MB.
MAX_MESSAGE_BYTES = 64 * 1024 * 1024
#: Intervals of one message.
MOST_REPORTS = 8

#: Fields of one message and of the messages in it: each takes memory, an empty one too.
MOST_FIELDS = 200_000

M = TypeVar("M", bound=Message)

#: Types of a field on the wire.
_VARINT, _LENGTH_AND_BYTES = 0, 2
_FIXED_BYTES = {1: 8, 5: 4}

#: Settings of servers, by database and plug-in, lie deep.
_MOST_DEPTH = 16


class ProtocolError(FleetError):
    """A peer sent what the protocol does not allow."""

    def __init__(self, detail: str) -> None:
        super().__init__(
            f"malformed message: {detail}", hint="install the same ldapslam on both"
        )
        self.detail = detail


class BoundExceeded(ProtocolError):
    """A field has more than its bound."""


def parse(kind: type[M], content: bytes) -> M:
    """Return a peer's message, to be `checked`. Its fields are counted before they are
    parsed: an empty one takes fifty times its bytes. ProtocolError."""
    try:
        if _count_fields(kind.DESCRIPTOR, memoryview(content)) > MOST_FIELDS:
            raise BoundExceeded(f"a message of more than {MOST_FIELDS:,} fields")
        return kind.FromString(content)
    except (DecodeError, IndexError) as error:
        raise ProtocolError("a message cannot be read") from error


def _count_fields(kind: Any, content: memoryview) -> int:
    """Return how many fields a serialised message of this descriptor has, or more than
    MOST_FIELDS.
    IndexError where it ends too early (protobuf.dev/programming-guides/encoding)."""
    count = position = 0
    while position < len(content) and count <= MOST_FIELDS:
        tag, position = _varint(content, position)
        count += 1
        if (wire_type := tag & 7) == _LENGTH_AND_BYTES:
            size, position = _varint(content, position)
            field = kind.fields_by_number.get(tag >> 3)
            if field is not None and field.message_type is not None:
                inner = content[position : position + size]
                count += _count_fields(field.message_type, inner)
            position += size
        elif wire_type == _VARINT:
            _, position = _varint(content, position)
        elif wire_type in _FIXED_BYTES:
            position += _FIXED_BYTES[wire_type]
        else:
            raise DecodeError("a group, or no type of a field")
    return count


def _varint(content: memoryview, position: int) -> tuple[int, int]:
    """Return the number at a position, and the position behind it."""
    number = shift = 0
    while (byte := content[position]) & 0x80 and shift < 63:
        number |= (byte & 0x7F) << shift
        shift += 7
        position += 1
    return number | byte << shift, position + 1


def checked(message: M) -> M:
    """Return a peer's message within the bounds of its fields (proto/bounds.proto):
    long lines are cut off, unknown fields removed. Raise BoundExceeded, or
    ProtocolError where a text has not the shape of its field."""
    message.DiscardUnknownFields()
    return _within_bounds(message)


def _within_bounds(message: M) -> M:
    for name, field, bound in _checked_fields(message.DESCRIPTOR):
        if bound is None:
            if message.HasField(name):
                _within_bounds(getattr(message, name))
            continue
        if not (value := getattr(message, name)):
            continue
        if not bound.items:
            if (kept := _kept(value, bound, field)) is not value:
                setattr(message, name, kept)
            continue
        _check_amount(len(value), bound.items, field)
        if isinstance(value, MutableMapping):
            for key, item in list(value.items()):
                pair = _kept(key, bound, field), _kept(item, bound, field)
                if pair != (key, item):
                    del value[key]
                    value[pair[0]] = pair[1]
        elif field.type != field.TYPE_DOUBLE:
            for index, item in enumerate(value):
                if (kept := _kept(item, bound, field)) is not item:
                    value[index] = kept
    return message


@cache
def _checked_fields(
    kind: Descriptor,
) -> Sequence[tuple[str, FieldDescriptor, Bound | None]]:
    """Return the fields that have a bound, or hold one message and have none. Messages
    of others, such as gRPC's health service, have neither."""
    return [
        (field.name, field, bound if bound.ByteSize() else None)
        for field in kind.fields
        if (bound := bound_of(field)).ByteSize() or field.type == field.TYPE_MESSAGE
    ]


def bound_of(field: Any) -> Bound:
    """Return the option of a field; an empty one where there is none."""
    option: Bound = field.GetOptions().Extensions[bounds_pb2.bound]
    return option


def _kept(value: Any, bound: Bound, field: FieldDescriptor) -> Any:
    """Return what is kept of a value."""
    if isinstance(value, Message):
        return _within_bounds(value)
    if isinstance(value, int):  # in a map
        return value
    shape = bound.shape if isinstance(value, str) else SHAPE_TEXT
    if shape == SHAPE_LINE:
        if len(value) <= bound.length and value.isprintable():
            return value
        text = one_line(value[: bound.length + 1])
        return text if len(text) <= bound.length else f"{text[: bound.length - 1]}…"
    if shape == SHAPE_NAME:
        if not is_name(value):
            raise ProtocolError(f"{field.full_name}: {value[:MAX_NAME]!r} is no name")
        return value
    _check_amount(len(value), bound.length, field)
    if shape == SHAPE_JSON:
        decode_facts(value)
    return value


def _check_amount(amount: int, most: int, field: FieldDescriptor) -> None:
    if amount > most:
        raise BoundExceeded(
            f"{field.full_name} has {amount:,}, where at most {most:,} are taken"
        )


def describe_version(protocol_version: int, build: str) -> str:
    return f"protocol {protocol_version} (ldapslam {build})"


def failure_message(error: LdapSlamError) -> pb.Failure:
    """The error as a message; without its values where they exceed their bound."""
    data, fields = error.to_dict(), pb.Failure.DESCRIPTOR.fields_by_name
    message = data["message"][: bound_of(fields["message"]).length]
    values = json.dumps(data["values"])
    if len(values) > bound_of(fields["values_json"]).length:
        return failure_message(LdapSlamError(message))
    return pb.Failure(error_class=data["class"], message=message, values_json=values)


def error_of(failure: pb.Failure) -> LdapSlamError:
    """The error that a peer described; a nonsensical description is an error too."""
    try:
        values = decode_facts(failure.values_json)
        return LdapSlamError.from_dict(
            {
                "class": failure.error_class,
                "message": failure.message,
                "values": values,
            }
        )
    except (ProtocolError, ValueError, TypeError, KeyError, AttributeError):
        return ProtocolError(f"failure {failure.error_class!r} cannot be read")


def facts_json(facts: Mapping[str, Any]) -> str:
    """Facts as JSON; values that JSON does not know become texts."""
    return json.dumps(facts, default=str, sort_keys=True)


def decode_facts(text: str) -> dict[str, Any]:
    """A JSON object, not nested too deep, with texts of one line."""
    try:
        facts = parse_json(text or "{}", number=_finite)
        # half a surrogate pair is valid JSON but no text
        json.dumps(facts, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise ProtocolError("facts are not JSON") from None
    if not isinstance(facts, dict):
        raise ProtocolError("facts are not a JSON object")
    _check_depth(facts, _MOST_DEPTH)
    lines: dict[str, Any] = one_line_texts(facts)
    return lines


def _check_depth(value: object, left: int) -> None:
    if not left:
        raise ProtocolError("facts are nested too deep")
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            _check_depth(one, left - 1)


def _finite(text: str) -> float:
    """NaN and infinities are no JSON, though Python reads and writes them."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


MAX_FRAME_BYTES = MAX_MESSAGE_BYTES
_LENGTH = struct.Struct(">I")


def encode_frame(message: Message) -> bytes:
    """The message with its length before it."""
    body = message.SerializeToString()
    if len(body) > MAX_FRAME_BYTES:
        raise ProtocolError(f"frame of {len(body)} bytes, limit {MAX_FRAME_BYTES}")
    return _LENGTH.pack(len(body)) + body


def read_frame(stream: BinaryIO, message_type: type[M]) -> M | None:
    """The next message; None at the end of the stream."""
    if not (head := stream.read(_LENGTH.size)):
        return None
    size = _size(head)
    return _parse(stream.read(size), size, message_type)


async def read_frame_async(stream: StreamReader, message_type: type[M]) -> M | None:
    """The next message; None at the end of the stream."""
    from asyncio import IncompleteReadError

    async def read(size: int) -> bytes:
        try:
            return await stream.readexactly(size)
        except IncompleteReadError as error:
            return error.partial

    if not (head := await read(_LENGTH.size)):
        return None
    size = _size(head)
    return _parse(await read(size), size, message_type)


def _size(head: bytes) -> int:
    """Checked before anything is allocated."""
    if len(head) < _LENGTH.size:
        raise ProtocolError("the stream ended within a frame")
    size = int(_LENGTH.unpack(head)[0])
    if size > MAX_FRAME_BYTES:
        raise ProtocolError(f"frame of {size} bytes, limit {MAX_FRAME_BYTES}")
    return size


def _parse(body: bytes, size: int, message_type: type[M]) -> M:
    if len(body) < size:
        raise ProtocolError("the stream ended within a frame")
    message = message_type()
    try:
        message.ParseFromString(body)
    except DecodeError:
        raise ProtocolError(f"not a {message_type.DESCRIPTOR.name}") from None
    return checked(message)
