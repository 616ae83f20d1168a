# SPDX-License-Identifier: Apache-2.0
"""intervals.csv: every interval of every agent and operation, one row each.

Streams over the store, so a run of any length can be written. An empty field is a
figure that does not exist: no value, too few for the percentile, or one that lies
among the requests without an answer, which rank above every time.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from typing import TextIO

from ldapslam.proto.common_pb2 import OperationInterval
from ldapslam.proto.fields import OPERATION_COUNTERS, histograms_of
from ldapslam.reports.results.histogram import Histogram
from ldapslam.reports.results.records import IntervalRecord
from ldapslam.reports.totals import UNANSWERED_METRICS

_KEY = ("agent", "index", "phase", "start_s", "end_s", "stream", "operation")
#: Metric -> percentiles shown, of successes.
_TIMES = {
    "response_time": (50, 90, 95, 99),
    "service_time": (50, 90, 95, 99),
    "backlog_wait": (99,),
    "send_lag": (99,),
    "receive_lag": (99,),
}


def columns() -> tuple[str, ...]:
    times = (
        name
        for metric, percentiles in _TIMES.items()
        for name in (
            *(f"{metric}_p{p}_us" for p in percentiles),
            f"{metric}_max_us",
        )
    )
    return (*_KEY, "measured", *OPERATION_COUNTERS, *times)


def write_intervals(records: Iterable[IntervalRecord], out: TextIO) -> None:
    """`measured` is 1 in the row of the requests that the percentiles cover."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns())
    for record in records:
        key = (
            record.agent,
            record.index,
            record.phase,
            f"{record.start_ns / 1e9:.6f}",
            f"{record.end_ns / 1e9:.6f}",
        )
        for operation in record.operations:
            writer.writerow(
                (
                    *key,
                    operation.stream,
                    operation.operation,
                    int(operation.measured),
                    *(getattr(operation, name) for name in OPERATION_COUNTERS),
                    *_times(operation),
                )
            )


def _times(operation: OperationInterval) -> list[str]:
    values: list[str] = []
    histograms = histograms_of(operation)
    for metric, percentiles in _TIMES.items():
        packed = histograms.get((metric, "succeeded"))
        histogram = Histogram() if packed is None else Histogram.from_packed(packed)
        if metric in UNANSWERED_METRICS:
            histogram.unanswered = operation.timed_out + operation.unresolved
        values += [_us(histogram.reliable_percentile(p)) for p in percentiles]
        values.append(_us(histogram.percentile(100)))
    return values


def _us(value_ns: float | None) -> str:
    return "" if value_ns is None else f"{value_ns / 1000:.3f}"
