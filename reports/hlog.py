# SPDX-License-Identifier: Apache-2.0
"""histograms.hlog: an HdrHistogram log (format 1.3), for the tools that read those.

One line for each interval, operation and metric, agents merged: response and service
time of successes, in us; the tag is `stream.operation.metric`. Interval_Max is in ms,
as HdrHistogram's own writer does it. Requests without an answer have no place in this
format, and a comment says so. Streams over the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import groupby
from typing import TextIO

from ldapslam.proto.fields import histograms_of
from ldapslam.reports.results.histogram import Histogram
from ldapslam.reports.results.records import IntervalRecord

_METRICS = ("response_time", "service_time")
_HEADER = (
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
    out.write(f"{_HEADER}\n")
    for _, group in groupby(records, key=lambda record: record.index):
        for line in _lines(list(group)):
            out.write(line)


def _lines(interval: list[IntervalRecord]) -> Iterator[str]:
    start_s = min(record.start_ns for record in interval) / 1e9
    end_s = max(record.end_ns for record in interval) / 1e9
    merged: dict[str, Histogram] = {}
    for record in interval:
        for operation in record.operations:
            histograms = histograms_of(operation)
            for metric in _METRICS:
                packed = histograms.get((metric, "succeeded"))
                if packed is not None:
                    tag = f"{operation.stream}.{operation.operation}.{metric}"
                    merged.setdefault(tag, Histogram()).add_packed(packed)
    for tag, histogram in sorted(merged.items()):
        yield (
            f"Tag={tag},{start_s:.3f},{end_s - start_s:.3f},"
            f"{histogram.max_ns / 1e6:.3f},{histogram.to_hdr_v2()}\n"
        )
