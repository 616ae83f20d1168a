# SPDX-License-Identifier: Apache-2.0
"""Reports packed and unpacked; damaged ones are in ../coordinator/test_ingest.py."""

from __future__ import annotations

import pytest

from ldapslam.proto.common_pb2 import OperationInterval, Snapshot
from ldapslam.results.packing import pack, unpack


@pytest.mark.parametrize("count", [0, 1, 100, 5_000])
def test_a_report_of_many_like_operations_is_unpacked(count: int) -> None:
    operation = OperationInterval(stream="s", measured=True)
    operation.histograms.add(metric=1, outcome=1, packed=bytes(range(256)) * 4)
    snapshot = Snapshot(index=3)
    for number in range(count):
        operation.operation = f"operation-{number}"
        snapshot.operations.append(operation)
    assert unpack(pack(snapshot)) == snapshot
