# SPDX-License-Identifier: Apache-2.0
"""Protobuf messages on a byte stream: 4 bytes of length, big-endian, then the message.

Used on the pipe between an agent and its engine process, and nowhere else. The readers
hold the length to MAX_FRAME_BYTES before they allocate anything.
"""

from __future__ import annotations

import asyncio
import struct
from typing import BinaryIO, TypeVar

from google.protobuf.message import DecodeError, Message

from ldapslam.transport.messages import MAX_MESSAGE_BYTES, ProtocolError

MAX_FRAME_BYTES = MAX_MESSAGE_BYTES
_LENGTH = struct.Struct(">I")

M = TypeVar("M", bound=Message)


def encode_frame(message: Message) -> bytes:
    """The message with its length before it."""
    body = message.SerializeToString()
    if len(body) > MAX_FRAME_BYTES:
        raise ProtocolError(f"frame of {len(body)} bytes, limit {MAX_FRAME_BYTES}")
    return _LENGTH.pack(len(body)) + body


def read_frame(stream: BinaryIO, message_type: type[M]) -> M | None:
    """The next message; None at the end of the stream."""
    head = stream.read(_LENGTH.size)
    if not head:
        return None
    if len(head) < _LENGTH.size:
        raise ProtocolError("the stream ended within a frame")
    size = _checked_size(head)
    body = stream.read(size)
    if len(body) < size:
        raise ProtocolError("the stream ended within a frame")
    return _parse(body, message_type)


async def read_frame_async(
    stream: asyncio.StreamReader, message_type: type[M]
) -> M | None:
    """The next message; None at the end of the stream."""
    try:
        head = await stream.readexactly(_LENGTH.size)
    except asyncio.IncompleteReadError as error:
        if not error.partial:
            return None
        raise ProtocolError("the stream ended within a frame") from None
    try:
        body = await stream.readexactly(_checked_size(head))
    except asyncio.IncompleteReadError:
        raise ProtocolError("the stream ended within a frame") from None
    return _parse(body, message_type)


def _checked_size(head: bytes) -> int:
    size = int(_LENGTH.unpack(head)[0])
    if size > MAX_FRAME_BYTES:
        raise ProtocolError(f"frame of {size} bytes, limit {MAX_FRAME_BYTES}")
    return size


def _parse(body: bytes, message_type: type[M]) -> M:
    message = message_type()
    try:
        message.ParseFromString(body)
    except DecodeError:
        raise ProtocolError(f"not a {message_type.DESCRIPTOR.name}") from None
    return message
