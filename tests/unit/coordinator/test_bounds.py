# SPDX-License-Identifier: Apache-2.0
"""Each bound: as much as there may be is taken, one more is refused and counted.

Those of the services are in test_control.py, of live figures in test_live.py, of
enrolment in test_enrolment.py.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ldapslam.base.errors import StoreRefused
from ldapslam.coordinator import store_writer
from ldapslam.coordinator.bounds import Bound
from ldapslam.coordinator.runs import ingest
from ldapslam.coordinator.runs.ingest import (
    interval_record,
    monitor_news,
    reported_facts,
)
from ldapslam.coordinator.security import audit_log
from ldapslam.coordinator.security.access import NOBODY
from ldapslam.coordinator.security.audit_log import AuditLog
from ldapslam.coordinator.store_writer import StoreWriter
from ldapslam.jobs.run_plan import plan_of
from ldapslam.proto import monitor_pb2
from ldapslam.proto.agent_pb2 import IntervalReport
from ldapslam.results.packing import pack
from ldapslam.transport.messages import ProtocolError
from support.bounds import exceeds
from support.rows import OperationRow, WorkerRow, snapshot_of

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


def take_result_codes(count: int) -> None:
    codes = dict.fromkeys(range(count), 1)
    operation = OperationRow(stream="readers", operation="search", result_codes=codes)
    take_interval(operations=[operation])


def take_workers(count: int) -> None:
    workers = [WorkerRow(worker=number, model="open") for number in range(count)]
    take_interval(workers=workers)


def take_facts(characters: int) -> None:
    reported_facts(json.dumps({"tls": "y" * (characters - len('{"tls": ""}'))}))


def take_monitor(**kind: object) -> None:
    event = monitor_pb2.MonitorEvent(**kind)  # type: ignore[arg-type]
    monitor_news(monitor_pb2.MonitorReport(agent="a", event=event), until_ns=10)


def take_monitors(count: int, metrics: int = 0) -> None:
    described = [monitor_pb2.MonitorMetric(name=f"m{one}") for one in range(metrics)]
    monitors = [
        monitor_pb2.MonitorDescription(name=f"m{n}", metrics=described, facts_json="{}")
        for n in range(count)
    ]
    take_monitor(ready=monitor_pb2.MonitorReady(monitors=monitors, facts_json="{}"))


def take_metrics(count: int) -> None:
    take_monitors(1, metrics=count)


def take_samples(count: int, values: int = 0) -> None:
    sample = monitor_pb2.MonitorSample(monitor="m", values=[0.0] * values)
    take_monitor(samples=monitor_pb2.MonitorSamples(samples=[sample] * count))


def take_values(count: int) -> None:
    take_samples(1, values=count)


@pytest.mark.parametrize(
    ("take", "limit", "bound"),
    [
        (take_samples, "_MAX_SAMPLES", Bound.MONITOR_SAMPLES),
        (take_result_codes, "_MOST_RESULT_CODES", Bound.RESULT_CODES),
        (take_workers, "_MOST_WORKERS", Bound.REPORT_ROWS),
        (take_facts, "_MAX_CHARACTERS", Bound.FACTS),
        (take_monitors, "_MAX_MONITORS", Bound.MONITORS),
        (take_metrics, "_MAX_METRICS", Bound.METRICS),
        (take_values, "_MAX_METRICS", Bound.METRICS),
    ],
)
def test_a_report_has_so_much_and_no_more(
    take: Callable[[int], None], limit: str, bound: Bound
) -> None:
    most = getattr(ingest, limit)
    with exceeds():
        take(most)
    with exceeds(**{bound.name: 1}), pytest.raises(ProtocolError):
        take(most + 1)


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
