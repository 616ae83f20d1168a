# SPDX-License-Identifier: Apache-2.0
"""Reports and facts become records whole, or are refused."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from typing import Any

import pytest

from ldapslam.coordinator.runs.ingest import (
    interval_record,
    reported_facts,
)
from ldapslam.jobs.run_plan import plan_of
from ldapslam.proto import common_pb2 as pb
from ldapslam.proto.agent_pb2 import IntervalReport
from ldapslam.results.facts import AgentFacts, ReportedFacts
from ldapslam.results.packing import MAX_SNAPSHOT_BYTES, pack
from ldapslam.results.store import Store
from ldapslam.transport.messages import ProtocolError
from support.histograms import packed_of
from support.intervals import Interval, open_part, stored_intervals
from support.store import Scenario, changed, run_record

PACKED = packed_of([1_000, 2_000])


PLAN = plan_of(
    {
        "phases": [{"name": "measure", "start_ns": 0, "end_ns": 40}],
        "boundaries_ns": [10, 20, 30, 40],
        "streams": [{"name": "readers", "operations": [{"name": "search"}]}],
    }
)


def snapshot() -> pb.Snapshot:
    return pb.Snapshot(
        index=4,
        phase="measure",
        start_ns=10,
        end_ns=20,
        final=True,
        clock_step_ns=-5,
        operations=[
            pb.OperationInterval(
                stream="readers",
                operation="search",
                measured=True,
                entries=9,
                result_codes={32: 1, 0: 2},
                histograms=[
                    pb.Histogram(
                        metric=pb.METRIC_RESPONSE_TIME,
                        outcome=pb.OUTCOME_UNRESOLVED,
                        packed=PACKED,
                    ),
                ],
            )
        ],
        streams=[pb.StreamInterval(stream="readers", tls_time=PACKED)],
        workers=[pb.WorkerInterval(worker=1, model="open", wall_ns=2)],
        host=pb.HostInterval(cpu_utilisation=0.5, throttled_ns=0),
    )


def report(of: pb.Snapshot | None = None) -> IntervalReport:
    return IntervalReport(
        run_id="r",
        agent="a",
        epoch=2,
        attempt=7,
        sequence=3,
        packed=pack(of or snapshot()),
    )


def test_nothing_of_a_report_is_lost() -> None:
    record, read = interval_record(report(), PLAN)
    assert read == snapshot()
    with Store.open("sqlite://") as store:
        store.create_run(replace(run_record(Scenario()), run_id="r"))
        store.put_agent("r", "a", AgentFacts(), open_part(7))
        assert store.add_interval("r", record).is_new
        (stored,) = stored_intervals(store, "r")
    assert stored == Interval.of("a", 7, 3, snapshot())
    assert record.packed == report().packed


def spoil(message: Any, path: str, value: Any) -> None:
    """Set a field, named by its path; AGAIN repeats the first of a list."""
    *steps, name = path.split(".")
    for step in steps:
        message = message[int(step)] if step.isdigit() else getattr(message, step)
    field = getattr(message, name)
    if value is AGAIN:
        field.append(field[0])
    elif isinstance(value, dict):
        field.update(value)
    else:
        setattr(message, name, value)


AGAIN = object()
SEARCH, HISTOGRAM = "operations.0.", "operations.0.histograms.0."
SNAPSHOTS = [
    (HISTOGRAM + "metric", 77),
    (HISTOGRAM + "packed", PACKED[:-1]),
    (SEARCH + "histograms", AGAIN),
    (SEARCH + "entries", 1 << 63),
    (SEARCH + "stream", "writers"),
    (SEARCH + "operation", "x" * 256),
    (SEARCH + "server", "ldap://elsewhere"),
    (SEARCH + "diagnostic_messages", dict.fromkeys(range(17), "no")),
    (SEARCH + "diagnostic_messages", {53: 1_001 * "x"}),
    ("operations", AGAIN),
    ("streams.0.connect_time", b"SLH1"),
    ("streams.0.stream", "writers"),
    ("streams", AGAIN),
    ("workers.0.worker", 1 << 31),
    ("workers.0.model", "ajar"),
    ("workers", AGAIN),
    ("host.cpu_utilisation", float("nan")),
    ("host.steal_share", float("inf")),
    ("end_ns", 9),
    ("index", 5),  # beyond the drain
    ("phase", "interlude"),
]


@pytest.mark.parametrize(
    ("path", "value"), SNAPSHOTS, ids=[path for path, _ in SNAPSHOTS]
)
def test_a_report_that_would_break_the_runs_report_is_refused(
    path: str, value: Any
) -> None:
    spoilt = snapshot()
    spoil(spoilt, path, value)
    with pytest.raises(ProtocolError):
        interval_record(report(spoilt), PLAN)


def test_a_report_with_an_unknown_field_is_refused() -> None:
    spoilt = snapshot()
    spoilt.MergeFromString(b"\xfa\x7f\x03abc")
    with pytest.raises(ProtocolError):
        interval_record(report(spoilt), PLAN)


REPORTS = {
    "huge sequence": {"sequence": 1 << 31},
    "no content": {"packed": b""},
    "cut off": {"packed": report().packed[:-1]},
    "something behind": {"packed": report().packed + b"x"},
    "no snapshot": {"packed": zlib.compress(b"\xff")},
    "bomb": {"packed": zlib.compress(bytes(1 << 20))},
    "without end": {"packed": zlib.compress(bytes(MAX_SNAPSHOT_BYTES + 1))},
}


@pytest.mark.parametrize("fields", REPORTS.values(), ids=REPORTS.keys())
def test_a_report_that_cannot_be_unpacked_or_stored_is_refused(
    fields: dict[str, Any],
) -> None:
    with pytest.raises(ProtocolError):
        interval_record(changed(report(), **fields), PLAN)


def test_the_drain_is_part_of_every_plan() -> None:
    drain = snapshot()
    drain.phase = "drain"
    assert interval_record(report(drain), PLAN)[1].phase == "drain"


FACTS = {
    "host": {"cores": 4},
    "targets": [{"uri": "ldap://ds1", "addresses": ["10.0.0.1"]}],
    "control_operations": {"ldap://ds1": {"bind": 1}},
    "clean_up": {"entries": 2, "left": 0, "seconds": 0.5, "error": None},
    "notes": {"imports": [{"entries": 1}]},
    "realtime": True,
}


def test_facts_of_the_right_shape_are_kept() -> None:
    assert reported_facts(json.dumps(FACTS)).document() == FACTS
    assert reported_facts("") == ReportedFacts()


@pytest.mark.parametrize(
    "name", sorted(AgentFacts.model_fields.keys() - ReportedFacts.model_fields.keys())
)
def test_what_only_the_coordinator_knows_is_refused_from_an_agent(name: str) -> None:
    with pytest.raises(ProtocolError):
        reported_facts(json.dumps({name: getattr(AgentFacts(), name)}))


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        '{"realtime": NaN}',
        '{"host": {"x": 1e999}}',
        '{"targets": [{"uri": 5}]}',
        '{"control_operations": {"ldap://ds1": {"bind": -1}}}',
        '{"tls": "\\ud800"}',
        '{"host": {"x": ' + "[" * 15 + "]" * 15 + "}}",
    ],
    ids=lambda text: text[:40],
)
def test_facts_that_a_reader_would_stumble_over_are_refused(text: str) -> None:
    with pytest.raises(ProtocolError):
        reported_facts(text)
