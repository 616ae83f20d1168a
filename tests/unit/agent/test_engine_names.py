# SPDX-License-Identifier: Apache-2.0
"""The engine's names are those of the protocol (proto/common.proto)."""

from __future__ import annotations

import pytest
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from ldapslam.agent import _engine
from ldapslam.proto import common_pb2 as pb


def fields_of(message: Descriptor, kind: int) -> list[str]:
    return [field.name for field in message.fields if field.type == kind]


@pytest.mark.parametrize(
    ("names", "message", "kind"),
    [
        (_engine.OPERATION_COUNTERS, "OperationInterval", FieldDescriptor.TYPE_UINT64),
        (_engine.STREAM_COUNTERS, "StreamInterval", FieldDescriptor.TYPE_UINT64),
        (_engine.SET_UP_TIMES, "StreamInterval", FieldDescriptor.TYPE_BYTES),
        (_engine.WORKER_COUNTERS, "WorkerInterval", FieldDescriptor.TYPE_UINT64),
    ],
)
def test_counters_are_those_of_the_protocol(
    names: tuple[str, ...], message: str, kind: int
) -> None:
    descriptor = pb.DESCRIPTOR.message_types_by_name[message]
    assert sorted(names) == sorted(fields_of(descriptor, kind))


@pytest.mark.parametrize(
    ("names", "enumeration", "prefix"),
    [
        (_engine.METRICS, pb.Metric.DESCRIPTOR, "METRIC_"),
        (_engine.OUTCOMES, pb.Outcome.DESCRIPTOR, "OUTCOME_"),
    ],
)
def test_metrics_and_outcomes_are_numbered_as_in_the_protocol(
    names: tuple[str, ...], enumeration: EnumDescriptor, prefix: str
) -> None:
    # protobuf's 0 is UNSPECIFIED, the engine counts from 0
    numbered = {value.name: value.number for value in enumeration.values}
    del numbered[f"{prefix}UNSPECIFIED"]
    assert numbered == {prefix + name: n for n, name in enumerate(names, 1)}
