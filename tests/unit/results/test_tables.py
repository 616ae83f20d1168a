# SPDX-License-Identifier: Apache-2.0
"""Tables read in C have what protobuf's own objects have."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from google.protobuf.descriptor import FieldDescriptor

from ldapslam.base.errors import StoreError
from ldapslam.proto.common_pb2 import OperationInterval, Snapshot
from ldapslam.results.tables import Table, tables_of

_NUMBERS = {
    FieldDescriptor.TYPE_INT64: (-(2**63), 2**63),
    FieldDescriptor.TYPE_UINT64: (0, 2**63),
    FieldDescriptor.TYPE_INT32: (-(2**31), 2**31),
    FieldDescriptor.TYPE_UINT32: (0, 2**32),
    FieldDescriptor.TYPE_BOOL: (0, 2),
}
_TEXTS = ("", "a", "Straße", "x" * 300)


def _value(rng: np.random.Generator, field: Any) -> Any:
    if field.type in _NUMBERS:
        low, high = _NUMBERS[field.type]
        bits = int(rng.integers(1, 64))
        return max(low, min(high - 1, int(rng.integers(-(2**bits), 2**bits - 1))))
    if field.type == FieldDescriptor.TYPE_ENUM:
        return int(rng.choice([one.number for one in field.enum_type.values]))
    if field.type == FieldDescriptor.TYPE_DOUBLE:
        return float(rng.normal())
    if field.type == FieldDescriptor.TYPE_STRING:
        return str(rng.choice(_TEXTS))
    return rng.bytes(int(rng.integers(0, 200)))


def _fill(rng: np.random.Generator, message: Any) -> None:
    """Most of the fields, whatever they mean."""
    for field in message.DESCRIPTOR.fields:
        if rng.random() < 0.2:
            continue
        if field.name in ("result_codes", "diagnostic_messages"):
            value_field = field.message_type.fields_by_name["value"]
            for code in rng.integers(-1, 90, 3).tolist():
                getattr(message, field.name)[code] = _value(rng, value_field)
        elif field.type != FieldDescriptor.TYPE_MESSAGE:
            value = _value(rng, field)
            is_bool = field.type == FieldDescriptor.TYPE_BOOL
            setattr(message, field.name, bool(value) if is_bool else value)
        elif field.is_repeated:
            for _ in range(int(rng.integers(0, 4))):
                _fill(rng, getattr(message, field.name).add())
        else:
            getattr(message, field.name).SetInParent()
            _fill(rng, getattr(message, field.name))


def _within(messages: list[Any], name: str) -> list[tuple[int, Any]]:
    """Place of each message, and what it has in this field."""
    found: list[tuple[int, Any]] = []
    for place, message in enumerate(messages):
        value = getattr(message, name)
        if name == "host":
            found += [(place, value)] * message.HasField(name)
        else:
            pairs = hasattr(value, "items")
            found += [(place, one) for one in (value.items() if pairs else value)]
    return found


def _check(table: Table, content: bytes, messages: list[Any]) -> None:
    for field in messages[0].DESCRIPTOR.fields:
        name = field.name
        wanted = [getattr(one, name) for one in messages]
        if field.type == FieldDescriptor.TYPE_STRING:
            assert table.texts_of(name) == wanted
        elif field.type == FieldDescriptor.TYPE_BYTES:
            spans = table.spans(name).tolist()
            assert [content[start : start + size] for start, size in spans] == wanted
        elif field.type == FieldDescriptor.TYPE_DOUBLE:
            there = [one.HasField(name) for one in messages]
            for value, is_there, one in zip(
                table.floats(name).tolist(), there, wanted, strict=True
            ):
                assert value == one if is_there else math.isnan(value)
        elif field.type != FieldDescriptor.TYPE_MESSAGE:
            assert table.integers(name).tolist() == wanted
            if field.has_presence:
                assert table.optional(name) == [
                    getattr(one, name) if one.HasField(name) else None
                    for one in messages
                ]


@pytest.mark.parametrize("seed", range(8))
def test_every_field_is_in_its_column(seed: int) -> None:
    rng = np.random.default_rng(seed)
    snapshots: list[Any] = [Snapshot() for _ in range(20)]
    for one in snapshots:
        _fill(rng, one)
    serialised = [one.SerializeToString() for one in snapshots]
    content = b"".join(serialised)
    tables = tables_of(content, list(map(len, serialised)))
    assert tables["snapshots"].parent.tolist() == list(range(20))
    _check(tables["snapshots"], content, snapshots)
    for name in ("operations", "streams", "workers", "host"):
        found = _within(snapshots, name)
        assert tables[name].parent.tolist() == [place for place, _ in found]
        _check(tables[name], content, [one for _, one in found])
    operations = [one for _, one in _within(snapshots, "operations")]
    histograms = _within(operations, "histograms")
    assert tables["histograms"].parent.tolist() == [row for row, _ in histograms]
    _check(tables["histograms"], content, [one for _, one in histograms])
    for name in ("result_codes", "diagnostic_messages"):
        table = tables[name]
        read = table.integers if name == "result_codes" else table.texts_of
        columns = table.parent, table.integers("key"), read("value")
        rows = [
            (int(row), int(key), one) for row, key, one in zip(*columns, strict=True)
        ]
        pairs = [(row, *pair) for row, pair in _within(operations, name)]
        assert sorted(rows) == sorted(pairs)


def test_a_damaged_report_is_refused() -> None:
    good = Snapshot(index=3, operations=[OperationInterval(stream="s", sent=5)])
    serialised = good.SerializeToString()
    tables_of(serialised, [len(serialised)])
    for size in range(1, len(serialised)):
        try:
            wanted = Snapshot.FromString(serialised[:size])
        except Exception:
            with pytest.raises(StoreError, match="an interval's report is damaged"):
                tables_of(serialised[:size], [size])
        else:
            found = tables_of(serialised[:size], [size])["snapshots"]
            assert found.integers("index").tolist() == [wanted.index]
    with pytest.raises(StoreError, match="an interval's report is damaged"):
        tables_of(b"\x12\x01\xff", [3])  # a phase that is no UTF-8
