# SPDX-License-Identifier: Apache-2.0
"""Snapshots as tables of numbers: a row for each message, a column for each field.

Read in C (agent/csrc/columns/tables.h), some hundred at a time: an object for each
message costs ten times as much. The tables are those of the .proto's descriptors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from google.protobuf.descriptor import FieldDescriptor

from ldapslam.base.arrays import Flags, Floats, Integers, Places
from ldapslam.base.errors import StoreError
from ldapslam.base.inert import one_line
from ldapslam.proto.common_pb2 import Snapshot
from ldapslam.results import _columns

#: Type of a field -> its kind (enum slam_field_kind).
_KINDS = {
    FieldDescriptor.TYPE_INT64: 1,
    FieldDescriptor.TYPE_UINT64: 1,
    FieldDescriptor.TYPE_INT32: 2,
    FieldDescriptor.TYPE_ENUM: 2,
    FieldDescriptor.TYPE_UINT32: 3,
    FieldDescriptor.TYPE_BOOL: 4,
    FieldDescriptor.TYPE_DOUBLE: 5,
    FieldDescriptor.TYPE_STRING: 6,
    FieldDescriptor.TYPE_BYTES: 7,
    FieldDescriptor.TYPE_MESSAGE: 8,
}
_PARENT, _PRESENT, _FIRST = range(3)


@dataclass(frozen=True, slots=True)
class Table:
    """All messages of one field."""

    #: Name -> number, and column.
    _fields: Mapping[str, tuple[int, int]]
    #: By column.
    _cells: Integers
    #: Of all tables.
    texts: Sequence[str]

    @property
    def parent(self) -> Places:
        """The row of the message around each; of a snapshot, its place."""
        parents: Places = self._cells[_PARENT]
        return parents

    def integers(self, name: str) -> Integers:
        """Of a text its number in `texts`."""
        values: Integers = self._cells[self._fields[name][1]]
        return values

    def floats(self, name: str) -> Floats:
        """NaN where the field is absent."""
        values = self._cells[self._fields[name][1]].view(np.float64)
        return np.where(self.has(name), values, np.nan)

    def texts_of(self, name: str) -> list[str]:
        texts = self.texts
        return [texts[one] for one in self.integers(name).tolist()]

    def has(self, name: str) -> Flags:
        there: Flags = self._cells[_PRESENT] & (1 << self._fields[name][0]) != 0
        return there

    def optional(self, name: str) -> list[int | None]:
        """None where the field is absent."""
        values, there = self.integers(name).tolist(), self.has(name).tolist()
        return [
            value if is_there else None
            for value, is_there in zip(values, there, strict=True)
        ]

    def spans(self, name: str) -> Integers:
        """Where the bytes of each begin in what was read, and their length."""
        cell = self._fields[name][1]
        return np.ascontiguousarray(self._cells[cell : cell + 2].T)


#: Cells of a row; number, kind, and cell or table, of each field.
_Spec = tuple[int, tuple[tuple[int, int, int], ...]]


def _layout() -> tuple[dict[str, dict[str, tuple[int, int]]], tuple[_Spec, ...]]:
    """Name of a field with messages -> that of each field in them -> its number and
    column; and the same as the engine takes it."""
    found: list[tuple[str, Any]] = [("snapshots", Snapshot.DESCRIPTOR)]
    names: dict[str, dict[str, tuple[int, int]]] = {}
    spec: list[_Spec] = []
    for name, message in found:  # it grows
        columns: dict[str, tuple[int, int]] = {}
        fields: list[tuple[int, int, int]] = []
        width = _FIRST
        for field in message.fields:
            if field.type == FieldDescriptor.TYPE_MESSAGE:
                at = len(found)
                found.append((field.name, field.message_type))
            else:
                at = width
                width += 1 + (field.type == FieldDescriptor.TYPE_BYTES)
                columns[field.name] = field.number, at
            fields.append((field.number, _KINDS[field.type], at))
        names[name] = columns
        spec.append((width, tuple(fields)))
    return names, tuple(spec)


_NAMES, _SPEC = _layout()


def tables_of(content: bytes, lengths: Sequence[int]) -> dict[str, Table]:
    """Of serialised snapshots, one behind the other: name of the field that has the
    messages -> their table; "snapshots" for themselves. StoreError: damaged."""
    ends = np.cumsum(np.array(lengths, np.int64))
    try:
        cells, texts = _columns.tables(_SPEC, content, ends)
    except ValueError as error:
        raise StoreError(f"an interval's report is damaged: {error}") from error
    texts = [one_line(text) for text in texts]
    return {
        name: Table(
            fields,
            np.ascontiguousarray(np.frombuffer(rows, np.int64).reshape(-1, width).T),
            texts,
        )
        for (name, fields), (width, _), rows in zip(
            _NAMES.items(), _SPEC, cells, strict=True
        )
    }
