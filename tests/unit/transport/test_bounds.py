# SPDX-License-Identifier: Apache-2.0
"""The fields of messages hold what their .proto files allow, and nothing else."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from ldapslam.base.names import MAX_NAME, is_name
from ldapslam.proto import bounds_pb2, generate
from ldapslam.proto.agent_pb2 import IntervalReports
from ldapslam.proto.bounds_pb2 import SHAPE_JSON, SHAPE_LINE, SHAPE_NAME, Bound
from ldapslam.proto.common_pb2 import Failure
from ldapslam.proto.monitor_pb2 import MonitorReport
from ldapslam.transport.messages import (
    MOST_FIELDS,
    BoundExceeded,
    ProtocolError,
    bound_of,
    checked,
    parse,
)
from support.message_fuzz import MessageFuzzer

FORGED = "x\nFORGED  run\rFORGED\x1b[2K\u2028FORGED"
#: Longer fields are not filled here: a message has no room for more of them.
_MOST_FILLED = 1 << 20
_CASES = 10_000


def _all_messages() -> Iterator[Descriptor]:
    for path in sorted(Path(generate.__file__).parent.glob("*.proto")):
        module = import_module(f"ldapslam.proto.{path.stem}_pb2")
        if module is not bounds_pb2:
            yield from module.DESCRIPTOR.message_types_by_name.values()


MESSAGES = list(_all_messages())
FIELDS = {
    f"{message.name}.{field.name}": field
    for message in MESSAGES
    for field in message.fields
}


def parts_of(field: FieldDescriptor) -> list[FieldDescriptor]:
    """The key and the value of a map, or the field."""
    inner: Any = field.message_type
    is_map = inner is not None and inner.GetOptions().map_entry
    return list(inner.fields) if is_map else [field]


def has_texts(field: FieldDescriptor) -> bool:
    texts = (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES)
    return any(part.type in texts for part in parts_of(field))


def empty_with(field: FieldDescriptor) -> Message:
    kind: Any = field.containing_type
    return GetMessageClass(kind)()


def is_repeated(field: FieldDescriptor) -> bool:
    message = empty_with(field)
    return hasattr(getattr(message, field.name), "__len__") and not isinstance(
        getattr(message, field.name), str | bytes
    )


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_has_its_bound(name: str) -> None:
    field = FIELDS[name]
    bound = bound_of(field)
    assert bool(bound.items) == is_repeated(field)
    assert bool(bound.length or bound.shape == SHAPE_NAME) == has_texts(field)
    assert (bound.shape == SHAPE_JSON) == name.endswith("_json")


def filled(field: FieldDescriptor, length: int, items: int) -> Message:
    """Return a message whose field has `items` texts of `length` characters."""
    message = empty_with(field)
    *_, last = parts_of(field)
    value: Any
    if last.type == last.TYPE_STRING:
        is_json = bound_of(field).shape == SHAPE_JSON
        value = json.dumps({"": "x" * (length - 8)}) if is_json else "x" * length
    else:
        value = b"x" * length if last.type == last.TYPE_BYTES else 1
    if len(parts_of(field)) == 2:
        for number in range(items):
            key = number if parts_of(field)[0].type != last.TYPE_STRING else str(number)
            getattr(message, field.name)[key] = value
    elif not bound_of(field).items:
        setattr(message, field.name, value)
    elif field.message_type is not None:
        for _ in range(items):
            getattr(message, field.name).add()
    else:
        getattr(message, field.name).extend([value] * items)
    return message


def most_of(field: FieldDescriptor) -> tuple[int, int]:
    bound = bound_of(field)
    return MAX_NAME if bound.shape == SHAPE_NAME else bound.length, bound.items


@pytest.mark.parametrize("name", [name for name in FIELDS if has_texts(FIELDS[name])])
def test_a_text_is_as_long_as_it_may_be_and_no_longer(name: str) -> None:
    length, _ = most_of(FIELDS[name])
    if length > _MOST_FILLED:
        return
    most, more = (filled(FIELDS[name], length + over, 1) for over in (0, 1))
    assert checked(most) == filled(FIELDS[name], length, 1)
    is_line = bound_of(FIELDS[name]).shape == SHAPE_LINE
    if is_line and any(one.type == one.TYPE_STRING for one in parts_of(FIELDS[name])):
        assert_within(checked(more))
        assert "x…".encode() in more.SerializeToString()
    else:
        with pytest.raises(ProtocolError):
            checked(more)


@pytest.mark.parametrize(
    "name", [name for name in FIELDS if bound_of(FIELDS[name]).items]
)
def test_a_field_has_as_many_items_as_it_may_and_no_more(name: str) -> None:
    _, items = most_of(FIELDS[name])
    assert checked(filled(FIELDS[name], 1, items)) == filled(FIELDS[name], 1, items)
    with pytest.raises(BoundExceeded, match=name):
        checked(filled(FIELDS[name], 1, items + 1))


def assert_within(message: Message) -> None:
    """The long way, for all that a message has."""
    for field, value in message.ListFields():
        bound = bound_of(field)
        if not is_repeated(field):
            values = [value]
        elif len(parts_of(field)) == 2:
            assert len(value) <= bound.items
            values = [*value.keys(), *value.values()]
        else:
            assert len(value) <= bound.items
            values = list(value)
        for one in values:
            assert_value_within(one, bound)


def assert_value_within(value: Any, bound: Bound) -> None:
    if isinstance(value, Message):
        assert_within(value)
    elif isinstance(value, bytes):
        assert len(value) <= bound.length
    elif isinstance(value, str) and bound.shape == SHAPE_NAME:
        assert is_name(value)
    elif isinstance(value, str):
        assert len(value) <= bound.length
        if bound.shape == SHAPE_LINE:
            assert len(value.splitlines()) <= 1
            assert "\x1b" not in value
        if bound.shape == SHAPE_JSON:
            assert isinstance(json.loads(value), dict)


def test_a_message_of_anything_is_refused_or_within_its_bounds() -> None:
    others = {one.name for one in FIELDS.values() if one.type != one.TYPE_STRING}
    likely: dict[str, list[object]] = {
        field.name: ["x" * length, "x" * (length + 1), FORGED, '{"a":' * 20]
        for field in FIELDS.values()
        if field.type == field.TYPE_STRING and field.name not in others
        if (length := min(most_of(field)[0], 4000))
    }
    fuzzer, ends = MessageFuzzer(7, likely), Counter[str]()
    for number in range(_CASES):
        descriptor = MESSAGES[number % len(MESSAGES)]
        kind = GetMessageClass(descriptor)
        try:
            message = checked(parse(kind, fuzzer.request(descriptor)))
        except ProtocolError as error:
            ends[type(error).__name__] += 1
            continue
        ends["kept"] += 1
        assert_within(message)
        again = kind.FromString(message.SerializeToString())
        assert checked(again) == message
    assert min(ends[name] for name in ("kept", "ProtocolError", "BoundExceeded")) > 20


@pytest.mark.parametrize("depth", [15, 16, 10_000])
def test_json_is_nested_only_so_deep(depth: int) -> None:
    failure = Failure(values_json='{"a":' * depth + "1" + "}" * depth)
    if depth < 16:
        assert checked(failure).values_json
    else:
        with pytest.raises(ProtocolError):
            checked(failure)


def test_what_is_not_known_is_not_kept() -> None:
    content = Failure(message="m").SerializeToString() + b"\xfa\x7f\x03abc"
    assert checked(Failure.FromString(content)).SerializeToString() == b"\x12\x01m"


def nested(content: bytes, *numbers: int) -> bytes:
    """`content` in a field of a field, from the inner one to the outer one."""
    for number in numbers:
        size = len(content)
        length = bytes([size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14])
        content = bytes([number << 3 | 2]) + length + content
    return content


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        (IntervalReports, b"\x0a\x00" * (MOST_FIELDS + 1)),
        (MonitorReport, nested(b"\x0a\x00" * MOST_FIELDS, 2, 5)),
        (MonitorReport, b"\x0a\x00" * (MOST_FIELDS + 1)),
        (MonitorReport, b"\xf8\x07\x00" * (MOST_FIELDS + 1)),
    ],
    ids=["items", "items of a message in it", "a field again", "unknown fields"],
)
def test_a_message_of_too_many_fields_is_refused(
    kind: type[Message], content: bytes
) -> None:
    with pytest.raises(BoundExceeded):
        parse(kind, content)
    assert parse(kind, b"") == kind()
