# SPDX-License-Identifier: Apache-2.0
"""Names of counters, metrics and outcomes, from common.proto's descriptors.

The one list of them in Python: snapshots, the store's columns, sums and exports are
made of it, in the order of the .proto.
"""

from __future__ import annotations

import re
from typing import Any

from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

from ldapslam.base.causes import FAILURE_CAUSES
from ldapslam.proto import common_pb2 as pb


def _fields(message: type[Message], kind: int) -> tuple[str, ...]:
    fields = message.DESCRIPTOR.fields
    return tuple(field.name for field in fields if field.type == kind)


def words_of(enum: EnumDescriptor) -> dict[str, Any]:
    """The enum's values by their names, in lower case and without the enum's own."""
    prefix = re.sub("(?<=[a-z])(?=[A-Z])", "_", enum.name).upper() + "_"
    return {one.name.removeprefix(prefix).lower(): one.number for one in enum.values}


def _values(enum: EnumDescriptor) -> tuple[str, ...]:
    """The names without value 0, UNSPECIFIED."""
    return tuple(words_of(enum))[1:]


#: Histograms of an operation. The engine numbers them from 0, protobuf from 1.
METRICS = _values(pb.Metric.DESCRIPTOR)
#: `expected` is a result code other than success that the job allows; the last two had
#: no response, their times end when they were given up.
OUTCOMES = _values(pb.Outcome.DESCRIPTOR)

OPERATION_COUNTERS = _fields(pb.OperationInterval, FieldDescriptor.TYPE_UINT64)
#: With the gauges and `down_ns`.
STREAM_COUNTERS = _fields(pb.StreamInterval, FieldDescriptor.TYPE_UINT64)
#: Not added up.
GAUGES = ("in_flight", "backlog", "connecting")
CONNECTION_COUNTERS = tuple(
    name
    for name in STREAM_COUNTERS
    if name not in (*GAUGES, *FAILURE_CAUSES) and not name.endswith("_ns")
)
#: Packed histograms of set-ups: the whole, and its steps.
SET_UP_TIMES = _fields(pb.StreamInterval, FieldDescriptor.TYPE_BYTES)
WORKER_COUNTERS = _fields(pb.WorkerInterval, FieldDescriptor.TYPE_UINT64)
