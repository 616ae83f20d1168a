# SPDX-License-Identifier: Apache-2.0
"""Reports become records whole, or are refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from ldapslam.coordinator.runs.ingest import interval_record
from ldapslam.proto import common_pb2 as pb
from ldapslam.proto.agent_pb2 import IntervalReport
from ldapslam.results.store import Store
from ldapslam.transport.messages import ProtocolError
from support.histograms import packed_of
from support.store import Scenario, run_record
from support.stored import stored_intervals

PACKED = packed_of([1_000, 2_000])


PLAN = {
    "phases": [{"name": "measure", "start_ns": 0, "end_ns": 40}],
    "boundaries_ns": [10, 20, 30, 40],
    "streams": [{"name": "readers", "operations": [{"name": "search"}]}],
}


def report() -> IntervalReport:
    return IntervalReport(
        run_id="r",
        agent="a",
        epoch=2,
        sequence=3,
        snapshot=pb.Snapshot(
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
        ),
    )


def test_nothing_of_a_report_is_lost() -> None:
    with Store.open("sqlite://") as store:
        store.create_run(replace(run_record(Scenario()), run_id="r"))
        store.add_interval("r", interval_record(report(), PLAN))
        (stored,) = stored_intervals(store, "r")
    assert stored == interval_record(report(), PLAN)
    snapshot = report().snapshot
    assert (stored.agent, stored.epoch, stored.sequence) == ("a", 2, 3)
    assert (stored.index, stored.phase, stored.final) == (4, "measure", True)
    assert (stored.start_ns, stored.end_ns, stored.clock_step_ns) == (10, 20, -5)
    assert list(stored.operations) == list(snapshot.operations)
    assert list(stored.streams) == list(snapshot.streams)
    assert list(stored.workers) == list(snapshot.workers)
    # steal is what this host does not tell; not throttled is a fact
    assert stored.host == snapshot.host


def _bad_metric(report: IntervalReport) -> None:
    report.snapshot.operations[0].histograms[0].metric = 77  # type: ignore[assignment]


def _double_histogram(report: IntervalReport) -> None:
    operation = report.snapshot.operations[0]
    operation.histograms.append(operation.histograms[0])


def _cut_histogram(report: IntervalReport) -> None:
    report.snapshot.operations[0].histograms[0].packed = PACKED[:-1]


def _cut_connect_time(report: IntervalReport) -> None:
    report.snapshot.streams[0].connect_time = b"SLH1"


def _huge_counter(report: IntervalReport) -> None:
    report.snapshot.operations[0].entries = 1 << 63


def _huge_epoch(report: IntervalReport) -> None:
    report.epoch = 1 << 31


def _backwards(report: IntervalReport) -> None:
    report.snapshot.end_ns = 9


def _beyond_the_drain(report: IntervalReport) -> None:
    report.snapshot.index = 5


def _unknown_phase(report: IntervalReport) -> None:
    report.snapshot.phase = "interlude"


def _unknown_stream(report: IntervalReport) -> None:
    report.snapshot.streams[0].stream = "writers"


def _operation_of_another_stream(report: IntervalReport) -> None:
    report.snapshot.operations[0].stream = "writers"


def _unknown_operation(report: IntervalReport) -> None:
    report.snapshot.operations[0].operation = "x" * 256


def _double_operation(report: IntervalReport) -> None:
    report.snapshot.operations.append(report.snapshot.operations[0])


def _double_stream(report: IntervalReport) -> None:
    report.snapshot.streams.append(report.snapshot.streams[0])


def _double_worker(report: IntervalReport) -> None:
    report.snapshot.workers.append(report.snapshot.workers[0])


def _huge_worker(report: IntervalReport) -> None:
    report.snapshot.workers[0].worker = 1 << 31


def _nan(report: IntervalReport) -> None:
    report.snapshot.host.cpu_utilisation = float("nan")


def _infinite(report: IntervalReport) -> None:
    report.snapshot.host.steal_share = float("inf")


def _odd_model(report: IntervalReport) -> None:
    report.snapshot.workers[0].model = "ajar"


@pytest.mark.parametrize(
    "spoil",
    [
        _bad_metric,
        _double_histogram,
        _cut_histogram,
        _cut_connect_time,
        _huge_counter,
        _huge_epoch,
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
        _nan,
        _infinite,
        _odd_model,
    ],
    ids=lambda spoil: spoil.__name__,
)
def test_a_report_that_would_break_the_runs_report_is_refused(
    spoil: Callable[[IntervalReport], None],
) -> None:
    spoilt = report()
    spoil(spoilt)
    with pytest.raises(ProtocolError):
        interval_record(spoilt, PLAN)


def test_the_drain_is_part_of_every_plan() -> None:
    drain = report()
    drain.snapshot.phase = "drain"
    assert interval_record(drain, PLAN).phase == "drain"
