# SPDX-License-Identifier: Apache-2.0
"""Reports and facts become records whole, or are refused."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from dataclasses import replace

import pytest

from ldapslam.coordinator.runs.ingest import (
    COORDINATOR_FACTS,
    agent_facts,
    interval_record,
)
from ldapslam.jobs.run_plan import plan_of
from ldapslam.proto import common_pb2 as pb
from ldapslam.proto.agent_pb2 import IntervalReport
from ldapslam.results.packing import MAX_SNAPSHOT_BYTES, pack
from ldapslam.results.store import Store
from ldapslam.transport.messages import ProtocolError
from support.histograms import packed_of
from support.intervals import Interval, open_part, stored_intervals
from support.store import Scenario, run_record

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
                scheduled=1,
                sent=2,
                completed=3,
                succeeded=4,
                failed=5,
                dropped=6,
                unresolved=7,
                timed_out=8,
                entries=9,
                references=10,
                expected=11,
                abandoned=12,
                substituted=13,
                captures_missing=14,
                requests=15,
                empty=16,
                result_codes={32: 1, 0: 2},
                histograms=[
                    pb.Histogram(
                        metric=pb.METRIC_RESPONSE_TIME,
                        outcome=pb.OUTCOME_UNRESOLVED,
                        packed=PACKED,
                    ),
                    pb.Histogram(
                        metric=pb.METRIC_SEND_LAG,
                        outcome=pb.OUTCOME_FAILED,
                        packed=PACKED,
                    ),
                ],
            )
        ],
        streams=[
            pb.StreamInterval(
                stream="readers",
                connects=1,
                notices=3,
                backlog=2,
                binds=4,
                extended=5,
                unbinds=6,
                last_done_ns=0,
                tls_time=PACKED,
            )
        ],
        workers=[
            pb.WorkerInterval(
                worker=1,
                model="open",
                wall_ns=2,
                busy_ns=3,
                spin_ns=4,
                cpu_ns=5,
                run_queue_ns=6,
                loops=7,
            )
        ],
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
        store.put_agent("r", "a", {}, open_part(7))
        assert store.add_interval("r", record).is_new
        (stored,) = stored_intervals(store, "r")
    assert stored == Interval.of("a", 7, 3, snapshot())
    assert record.packed == report().packed


def _bad_metric(spoilt: pb.Snapshot) -> None:
    spoilt.operations[0].histograms[0].metric = 77  # type: ignore[assignment]


def _double_histogram(spoilt: pb.Snapshot) -> None:
    operation = spoilt.operations[0]
    operation.histograms.append(operation.histograms[0])


def _cut_histogram(spoilt: pb.Snapshot) -> None:
    spoilt.operations[0].histograms[0].packed = PACKED[:-1]


def _cut_connect_time(spoilt: pb.Snapshot) -> None:
    spoilt.streams[0].connect_time = b"SLH1"


def _huge_counter(spoilt: pb.Snapshot) -> None:
    spoilt.operations[0].entries = 1 << 63


def _backwards(spoilt: pb.Snapshot) -> None:
    spoilt.end_ns = 9


def _beyond_the_drain(spoilt: pb.Snapshot) -> None:
    spoilt.index = 5


def _unknown_phase(spoilt: pb.Snapshot) -> None:
    spoilt.phase = "interlude"


def _unknown_stream(spoilt: pb.Snapshot) -> None:
    spoilt.streams[0].stream = "writers"


def _operation_of_another_stream(spoilt: pb.Snapshot) -> None:
    spoilt.operations[0].stream = "writers"


def _unknown_operation(spoilt: pb.Snapshot) -> None:
    spoilt.operations[0].operation = "x" * 256


def _double_operation(spoilt: pb.Snapshot) -> None:
    spoilt.operations.append(spoilt.operations[0])


def _double_stream(spoilt: pb.Snapshot) -> None:
    spoilt.streams.append(spoilt.streams[0])


def _double_worker(spoilt: pb.Snapshot) -> None:
    spoilt.workers.append(spoilt.workers[0])


def _huge_worker(spoilt: pb.Snapshot) -> None:
    spoilt.workers[0].worker = 1 << 31


def _many_operations(spoilt: pb.Snapshot) -> None:
    for _ in range(3):
        spoilt.operations.add(stream="readers", operation="search")


def _unknown_field(spoilt: pb.Snapshot) -> None:
    spoilt.MergeFromString(b"\xfa\x7f\x03abc")


def _many_result_codes(spoilt: pb.Snapshot) -> None:
    for code in range(257):
        spoilt.operations[0].result_codes[code] = 1


def _many_messages(spoilt: pb.Snapshot) -> None:
    for code in range(17):
        spoilt.operations[0].diagnostic_messages[code] = "no"


def _long_message(spoilt: pb.Snapshot) -> None:
    spoilt.operations[0].diagnostic_messages[53] = 1_001 * "x"


def _unknown_server(spoilt: pb.Snapshot) -> None:
    spoilt.operations[0].server = "ldap://elsewhere"


def _nan(spoilt: pb.Snapshot) -> None:
    spoilt.host.cpu_utilisation = float("nan")


def _infinite(spoilt: pb.Snapshot) -> None:
    spoilt.host.steal_share = float("inf")


def _odd_model(spoilt: pb.Snapshot) -> None:
    spoilt.workers[0].model = "ajar"


@pytest.mark.parametrize(
    "spoil",
    [
        _bad_metric,
        _double_histogram,
        _cut_histogram,
        _cut_connect_time,
        _huge_counter,
        _backwards,
        _beyond_the_drain,
        _unknown_phase,
        _unknown_stream,
        _operation_of_another_stream,
        _unknown_operation,
        _double_operation,
        _double_stream,
        _double_worker,
        _huge_worker,
        _many_operations,
        _unknown_field,
        _nan,
        _many_result_codes,
        _many_messages,
        _long_message,
        _unknown_server,
        _infinite,
        _odd_model,
    ],
    ids=lambda spoil: spoil.__name__,
)
def test_a_report_that_would_break_the_runs_report_is_refused(
    spoil: Callable[[pb.Snapshot], None],
) -> None:
    spoilt = snapshot()
    spoil(spoilt)
    with pytest.raises(ProtocolError):
        interval_record(report(spoilt), PLAN)


def _huge_sequence(spoilt: IntervalReport) -> None:
    spoilt.sequence = 1 << 31


def _no_content(spoilt: IntervalReport) -> None:
    spoilt.packed = b""


def _cut_off(spoilt: IntervalReport) -> None:
    spoilt.packed = spoilt.packed[:-1]


def _something_behind(spoilt: IntervalReport) -> None:
    spoilt.packed += b"x"


def _no_snapshot(spoilt: IntervalReport) -> None:
    spoilt.packed = zlib.compress(b"\xff")


def _bomb(spoilt: IntervalReport) -> None:
    spoilt.packed = zlib.compress(bytes(1 << 20))


def _without_end(spoilt: IntervalReport) -> None:
    spoilt.packed = zlib.compress(bytes(MAX_SNAPSHOT_BYTES + 1))


@pytest.mark.parametrize(
    "spoil",
    [
        _huge_sequence,
        _no_content,
        _cut_off,
        _something_behind,
        _no_snapshot,
        _bomb,
        _without_end,
    ],
    ids=lambda spoil: spoil.__name__,
)
def test_a_report_that_cannot_be_unpacked_or_stored_is_refused(
    spoil: Callable[[IntervalReport], None],
) -> None:
    spoilt = report()
    spoil(spoilt)
    with pytest.raises(ProtocolError):
        interval_record(spoilt, PLAN)


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
    assert agent_facts(json.dumps(FACTS)) == FACTS
    assert agent_facts("") == {}


def test_what_only_the_coordinator_knows_is_not_taken_from_an_agent() -> None:
    claimed = {**FACTS, **dict.fromkeys(COORDINATOR_FACTS, 0)}
    assert agent_facts(json.dumps(claimed)) == FACTS


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        '{"realtime": NaN}',
        '{"x": 1e999}',
        '{"host": "mars"}',
        '{"targets": {}}',
        '{"targets": ["ldap://ds1"]}',
        '{"targets": [{"uri": 5}]}',
        '{"control_operations": []}',
        '{"control_operations": {"ldap://ds1": 5}}',
        '{"control_operations": {"ldap://ds1": {"bind": -1}}}',
        '{"control_operations": {"ldap://ds1": {"bind": true}}}',
        '{"notes": []}',
        '{"notes": {"imports": {}}}',
        '{"notes": {"imports": [1]}}',
        '{"x": "\\ud800"}',
        '{"clean_up": []}',
        '{"clean_up": {"left": "all"}}',
        '{"clean_up": {"seconds": "long"}}',
        '{"clean_up": {"error": 5}}',
        '{"x": ' + "[" * 9 + "]" * 9 + "}",
        '{"x": "' + "y" * (1 << 20) + '"}',
    ],
    ids=lambda text: text[:40],
)
def test_facts_that_a_reader_would_stumble_over_are_refused(text: str) -> None:
    with pytest.raises(ProtocolError):
        agent_facts(text)
