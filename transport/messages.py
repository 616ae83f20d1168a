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
from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from google.protobuf.message import DecodeError, Message

from ldapslam.base.errors import FleetError, LdapSlamError
from ldapslam.base.inert import one_line, one_line_texts
from ldapslam.base.names import MAX_NAME, is_name
from ldapslam.proto import common_pb2 as pb

if TYPE_CHECKING:
    from asyncio import StreamReader

#: Raised with each incompatible change.
PROTOCOL_VERSION = 9

#: A snapshot of 100 operations is below 10 MB.
MAX_MESSAGE_BYTES = 64 * 1024 * 1024
#: Intervals of one call.
MOST_REPORTS = 4

M = TypeVar("M", bound=Message)

#: Fields of all messages that are names; a field `name` is one in some.
_NAMES = frozenset(
    {"agent", "agents", "job_name", "monitored_runs"}
    | {"run_id", "run_ids", "schedule_id"}
)
_NAMED = frozenset({"AgentStatus", "ScheduleStatus"})
#: Fields that are read as YAML.
_SEVERAL_LINES = frozenset({"overrides"})


class ProtocolError(FleetError):
    """A peer sent what the protocol does not allow."""

    def __init__(self, detail: str) -> None:
        super().__init__(
            f"malformed message: {detail}", hint="install the same ldapslam on both"
        )
        self.detail = detail


def checked(message: M) -> M:
    """Return a peer's message with texts of one line; ProtocolError where a text stands
    for a name and is none."""
    kind = message.DESCRIPTOR.name
    for field, value in message.ListFields():
        has_names = field.name in _NAMES or (field.name == "name" and kind in _NAMED)
        if field.type == field.TYPE_STRING and field.name not in _SEVERAL_LINES:
            texts = [value] if isinstance(value, str) else list(value)
            if has_names and (wrong := [one for one in texts if not is_name(one)]):
                text = wrong[0][: 2 * MAX_NAME]
                raise ProtocolError(f"{kind}.{field.name}: {text!r} is no name")
            if isinstance(value, str):
                setattr(message, field.name, one_line(value))
            else:
                value[:] = map(one_line, texts)
        elif isinstance(value, Message):
            checked(value)
        elif isinstance(value, MutableMapping):
            for key, text in list(value.items()):
                if isinstance(text, str):
                    del value[key]
                    value[one_line(key)] = one_line(text)
        elif field.type == field.TYPE_MESSAGE:
            for part in value:
                checked(part)
    return message


def describe_version(protocol_version: int, build: str) -> str:
    return f"protocol {protocol_version} (ldapslam {build})"


def failure_message(error: LdapSlamError) -> pb.Failure:
    data = error.to_dict()
    return pb.Failure(
        error_class=data["class"],
        message=data["message"],
        values_json=json.dumps(data["values"]),
    )


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
    """A JSON object, with texts of one line."""
    try:
        facts = json.loads(text or "{}", parse_float=_finite, parse_constant=_finite)
        # half a surrogate pair is valid JSON but no text
        json.dumps(facts, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise ProtocolError("facts are not JSON") from None
    if not isinstance(facts, dict):
        raise ProtocolError("facts are not a JSON object")
    lines: dict[str, Any] = one_line_texts(facts)
    return lines


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
    return message
