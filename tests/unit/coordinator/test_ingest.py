# SPDX-License-Identifier: Apache-2.0
"""Reports become records whole, or are refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ldapslam.coordinator.ingest import interval_record
from ldapslam.proto import common_pb2 as pb
from ldapslam.proto.agent_pb2 import IntervalReport
from ldapslam.proto.messages import ProtocolError
from ldapslam.reports.results.histogram import Histogram
from ldapslam.reports.results.records import (
    HostInterval,
    IntervalRecord,
    OperationInterval,
    StreamInterval,
    WorkerInterval,
)

PACKED = Histogram.of_values([1_000, 2_000]).packed()


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
                    result_codes={32: 1, 0: 2},
                    histograms=[
                        pb.Histogram(
                            metric=pb.METRIC_SEND_LAG,
                            outcome=pb.OUTCOME_FAILED,
                            packed=PACKED,
                        )
                    ],
                )
            ],
            streams=[pb.StreamInterval(stream="readers", connects=1, backlog=2)],
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
    assert interval_record(report()) == IntervalRecord(
        agent="a",
        epoch=2,
        sequence=3,
        index=4,
        phase="measure",
        start_ns=10,
        end_ns=20,
        final=True,
        operations=(
            OperationInterval(
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
                result_codes={0: 2, 32: 1},
                histograms={("send_lag", "failed"): PACKED},
            ),
        ),
        streams=(StreamInterval(stream="readers", connects=1, backlog=2),),
        workers=(
            WorkerInterval(
                worker=1,
                model="open",
                wall_ns=2,
                busy_ns=3,
                spin_ns=4,
                cpu_ns=5,
                run_queue_ns=6,
                loops=7,
            ),
        ),
        # steal is what this host does not tell; not throttled is a fact
        host=HostInterval(cpu_utilisation=0.5, steal_share=None, throttled_ns=0),
        clock_step_ns=-5,
    )


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


def _nameless(report: IntervalReport) -> None:
    report.snapshot.operations[0].stream = ""


def _long_name(report: IntervalReport) -> None:
    report.snapshot.operations[0].operation = "x" * 256


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
        _nameless,
        _long_name,
        _odd_model,
    ],
    ids=lambda spoil: spoil.__name__,
)
def test_a_report_that_could_not_be_read_again_is_refused(
    spoil: Callable[[IntervalReport], None],
) -> None:
    spoilt = report()
    spoil(spoilt)
    with pytest.raises(ProtocolError):
        interval_record(spoilt)
