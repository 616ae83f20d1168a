# SPDX-License-Identifier: Apache-2.0
"""Exports of every interval and reading for other programs, streamed over the store.

intervals.csv: every interval of every agent and operation, one row each. An empty field
is a figure that does not exist: no value, too few for the percentile, or one that lies
among the requests without an answer, which rank above every time.

monitors.csv: every reading of every monitor, one row for each metric. Values are as
they were read: counters are not yet rates. A reading that failed is one row with its
reason. An empty value was missing.

histograms.hlog: an HdrHistogram log (format 1.3). One line for each interval, operation
and metric, agents merged: response and service time of successes, in us; the tag is
`stream.operation.metric`. Interval_Max is in ms, as HdrHistogram's own writer does it.
Requests without an answer have no place in this format, and a comment says so.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import groupby
from typing import TextIO

from ldapslam.proto.common_pb2 import OperationInterval
from ldapslam.proto.fields import OPERATION_COUNTERS, histograms_of
from ldapslam.reports.collect.totals import UNANSWERED_METRICS
from ldapslam.results.histogram import Histogram
from ldapslam.results.monitor_records import MonitorSeries
from ldapslam.results.records import IntervalRecord

_INTERVAL_KEY = ("agent", "index", "phase", "start_s", "end_s", "stream", "operation")
#: Metric -> percentiles shown, of successes.
_TIMES = {
    "response_time": (50, 90, 95, 99),
    "service_time": (50, 90, 95, 99),
    "backlog_wait": (99,),
    "send_lag": (99,),
    "receive_lag": (99,),
}


def interval_columns() -> tuple[str, ...]:
    times = (
        name
        for metric, percentiles in _TIMES.items()
        for name in (
            *(f"{metric}_p{p}_us" for p in percentiles),
            f"{metric}_max_us",
        )
    )
    return (*_INTERVAL_KEY, "measured", *OPERATION_COUNTERS, *times)


def write_intervals(records: Iterable[IntervalRecord], out: TextIO) -> None:
    """`measured` is 1 in the row of the requests that the percentiles cover."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(interval_columns())
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
                    *_times_of(operation),
                )
            )


def _times_of(operation: OperationInterval) -> list[str]:
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


MONITOR_COLUMNS = (
    "agent",
    "monitor",
    "at_s",
    "took_us",
    "metric",
    "unit",
    "kind",
    "value",
    "failure",
)


def write_monitors(series: Iterable[MonitorSeries], out: TextIO) -> None:
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(MONITOR_COLUMNS)
    for one in series:
        metrics = one.description.metrics
        for place in range(len(one.at_ns)):
            key = (
                one.agent,
                one.description.name,
                f"{one.at_ns[place] / 1e9:.6f}",
                f"{one.took_ns[place] / 1e3:.3f}",
            )
            if place in one.failures:
                writer.writerow((*key, "", "", "", "", one.failures[place]))
                continue
            for metric, value in zip(metrics, one.values[place].tolist(), strict=True):
                writer.writerow((*key, *metric, _text(value), ""))


def _text(value: float) -> str:
    """Whole numbers without a point; doubles to their last digit."""
    if math.isnan(value):
        return ""
    return str(int(value)) if value.is_integer() else repr(value)


_HLOG_METRICS = ("response_time", "service_time")
_HLOG_HEADER = (
    '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"'
)


def write_hlog(
    records: Iterable[IntervalRecord], out: TextIO, *, started_utc: str
) -> None:
    """`records` in the order of their index, as the store gives them."""
    start_s = datetime.fromisoformat(started_utc).timestamp()
    out.write("#[Histogram log format version 1.3]\n")
    out.write("#[values in microseconds, maxima in milliseconds]\n")
    out.write("#[requests without an answer are in no histogram: see result.json]\n")
    out.write(f"#[StartTime: {start_s:.3f} (seconds since epoch), {started_utc}]\n")
    out.write(f"{_HLOG_HEADER}\n")
    for _, group in groupby(records, key=lambda record: record.index):
        for line in _hlog_lines(list(group)):
            out.write(line)


def _hlog_lines(interval: list[IntervalRecord]) -> Iterator[str]:
    start_s = min(record.start_ns for record in interval) / 1e9
    end_s = max(record.end_ns for record in interval) / 1e9
    merged: dict[str, Histogram] = {}
    for record in interval:
        for operation in record.operations:
            histograms = histograms_of(operation)
            for metric in _HLOG_METRICS:
                packed = histograms.get((metric, "succeeded"))
                if packed is not None:
                    tag = f"{operation.stream}.{operation.operation}.{metric}"
                    merged.setdefault(tag, Histogram()).add_packed(packed)
    for tag, histogram in sorted(merged.items()):
        yield (
            f"Tag={tag},{start_s:.3f},{end_s - start_s:.3f},"
            f"{histogram.max_ns / 1e6:.3f},{histogram.to_hdr_v2()}\n"
        )
