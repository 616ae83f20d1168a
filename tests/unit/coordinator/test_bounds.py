# SPDX-License-Identifier: Apache-2.0
"""Each bound: as much as there may be is taken, one more is refused and counted.

Those of fields are in tests/unit/transport/test_bounds.py, of the services in
test_control.py, of live figures in test_live.py, of enrolment in test_guard.py.
"""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import pytest

from ldapslam.base.errors import StoreRefused
from ldapslam.coordinator import store_writer
from ldapslam.coordinator.bounds import Bound
from ldapslam.coordinator.runs.ingest import interval_record
from ldapslam.coordinator.security import audit_log
from ldapslam.coordinator.security.access import NOBODY
from ldapslam.coordinator.security.audit_log import AuditLog
from ldapslam.coordinator.security.guard import read_request
from ldapslam.coordinator.store_writer import StoreWriter
from ldapslam.jobs.run_plan import plan_of
from ldapslam.proto import agent_pb2
from ldapslam.proto.agent_pb2 import IntervalReport
from ldapslam.results.packing import pack
from ldapslam.transport.messages import ProtocolError
from support.bounds import exceeds
from support.rows import OperationRow, snapshot_of

PLAN = plan_of(
    {
        "phases": [{"name": "measure", "start_ns": 0, "end_ns": 40}],
        "boundaries_ns": [40],
        "streams": [{"name": "readers", "operations": [{"name": "search"}]}],
    }
)


def take_interval(**rows: Any) -> None:
    snapshot = snapshot_of(phase="measure", end_ns=1, **rows)
    interval_record(IntervalReport(agent="a", packed=pack(snapshot)), PLAN)


def test_a_report_with_a_row_more_than_the_plan_is_refused() -> None:
    operation = OperationRow(stream="readers", operation="search")
    with exceeds():
        take_interval(operations=[operation])
    with exceeds(REPORT_ROWS=1), pytest.raises(ProtocolError, match="than the plan"):
        take_interval(operations=[operation] * 3)


def test_more_than_a_field_may_have_is_refused_wherever_the_field_is() -> None:
    load = agent_pb2.HeartbeatRequest(samples=[agent_pb2.ClockSample()] * 64)
    with exceeds():
        read_request(agent_pb2.HeartbeatRequest, load.SerializeToString())
    load.samples.add()
    with exceeds(FIELDS=1), pytest.raises(ProtocolError, match="samples"):
        read_request(agent_pb2.HeartbeatRequest, load.SerializeToString())


async def test_so_many_writes_wait_for_a_store(
    writer: StoreWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_writer, "MOST_KEPT", 3)
    # the store's thread is busy
    is_free = threading.Event()
    blocked = writer.submit(is_free.wait)
    with exceeds():
        for _ in range(3):
            writer.post(int)
    with exceeds(STORE_WRITES=1):
        writer.post(int)
    is_free.set()
    await blocked
    with pytest.raises(StoreRefused, match="more than 3 writes wait"):
        await writer.flush()


async def test_so_many_refusals_are_written(writer: StoreWriter) -> None:
    log = AuditLog(writer, lambda: 0.0)
    with exceeds():
        for _ in range(audit_log._BURST):
            log.refused(NOBODY, "Enrol", "no")
    with exceeds(AUDIT=1):
        log.refused(NOBODY, "Enrol", "no")


def test_every_bound_is_documented() -> None:
    text = Path("docs/how-to/run-a-coordinator.md").read_text("utf-8")
    section = text.partition("### Bounds")[2].partition("\n## ")[0]
    names = re.findall(r"^\| `(\w+)` \|.*\|$", section, re.M)
    assert sorted(names) == sorted(Bound)
