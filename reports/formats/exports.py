# SPDX-License-Identifier: Apache-2.0
"""Exports of every interval and reading for other programs, streamed over the store.

intervals.csv: one row for each interval, agent and operation, and server where a role
has several: what got to none has a row without one. An empty field is a statistic that
does not exist: no value, too few for the percentile, or one that lies among the
requests without an answer, which rank above every time. A name that a spreadsheet would
compute begins with an apostrophe. Times are named as figures are, in us.

monitors.csv: every reading of every monitor, one row for each metric. Values are as
they were read: counters are not yet rates. A reading that failed is one row with its
reason. An empty value was missing.

histograms.hlog: an HdrHistogram log (format 1.3). One line for each interval, operation
and metric, agents merged: response and service time of successes, in us; the tag is
`stream.operation.metric`. Interval_Max is in ms, as HdrHistogram's own writer does it.
The format has no place for requests without an answer, which a comment states.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TextIO

from ldapslam.base.inert import inert_cell
from ldapslam.jobs.fields.thresholds import UNANSWERED
from ldapslam.proto.fields import OPERATION_COUNTERS
from ldapslam.reports.collect.totals import UNANSWERED_METRICS
from ldapslam.results.histogram import Histogram
from ldapslam.results.records import MonitorSeries
from ldapslam.results.window import Columns, Window

_INTERVAL_KEY = (
    "agent",
    "index",
    "phase",
    "start_s",
    "end_s",
    "stream",
    "operation",
    "server",
)
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
        for name in (*(f"{metric}.p{p}" for p in percentiles), f"{metric}.max")
    )
    return (*_INTERVAL_KEY, "measured", *OPERATION_COUNTERS, *times)


def write_intervals(windows: Iterable[Window], out: TextIO) -> None:
    """`measured` is 1 in the row of the requests that the percentiles cover."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(interval_columns())
    for window in windows:
        reports = window.reports
        rows: list[list[tuple[object, ...]]] = [[] for _ in reports["agent"]]
        for (stream, operation, measured), found in window.operations.items():
            columns = {name: list(values) for name, values in found.columns.items()}
            packed = {
                metric: dict(them.each())
                for (metric, outcome), them in found.histograms.items()
                if outcome == "succeeded"
            }
            for row, report in enumerate(columns["report"]):
                rows[report].append(
                    (
                        inert_cell(stream),
                        inert_cell(operation),
                        inert_cell(columns["server"][row]),
                        int(measured),
                        *(columns[name][row] for name in OPERATION_COUNTERS),
                        *_times_of(columns, packed, row),
                    )
                )
        for report, of_report in enumerate(rows):
            key = (
                inert_cell(reports["agent"][report]),
                reports["interval_index"][report],
                reports["phase"][report],
                f"{reports['start_ns'][report] / 1e9:.6f}",
                f"{reports['end_ns'][report] / 1e9:.6f}",
            )
            writer.writerows((*key, *row) for row in of_report)


def _times_of(
    columns: Columns, packed: Mapping[str, Mapping[int, bytes]], row: int
) -> list[str]:
    values: list[str] = []
    for metric, percentiles in _TIMES.items():
        one = packed.get(metric, {}).get(row)
        histogram = Histogram.merge([one] if one else [])
        if metric in UNANSWERED_METRICS:
            histogram.unanswered = sum(int(columns[name][row]) for name in UNANSWERED)
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
        metrics = [tuple(map(inert_cell, each)) for each in one.description.metrics]
        for place in range(len(one.at_ns)):
            key = (
                inert_cell(one.agent),
                inert_cell(one.description.name),
                f"{one.at_ns[place] / 1e9:.6f}",
                f"{one.took_ns[place] / 1e3:.3f}",
            )
            if place in one.failures:
                writer.writerow((*key, "", "", "", "", inert_cell(one.failures[place])))
                continue
            for metric, value in zip(metrics, one.values[place].tolist(), strict=True):
                writer.writerow((*key, *metric, _text(value), ""))


def _text(value: float) -> str:
    """Whole numbers without a point; doubles to their last digit."""
    if math.isnan(value):
        return ""
    return str(int(value)) if value.is_integer() else repr(value)


_HLOG_HEADER = (
    '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"'
)


def write_hlog(windows: Iterable[Window], out: TextIO, *, started_utc: str) -> None:
    start_s = datetime.fromisoformat(started_utc).timestamp()
    out.write("#[Histogram log format version 1.3]\n")
    out.write("#[values in microseconds, maxima in milliseconds]\n")
    out.write("#[requests without an answer are in no histogram: see result.json]\n")
    out.write(f"#[StartTime: {start_s:.3f} (seconds since epoch), {started_utc}]\n")
    out.write(f"{_HLOG_HEADER}\n")
    for window in windows:
        out.writelines(_hlog_lines(window))


def _hlog_lines(window: Window) -> Iterator[str]:
    # packed, as a histogram takes 190 kB
    merged: dict[int, dict[str, list[bytes]]] = {one: {} for one in window.indexes}
    numbers = window.reports["interval_index"].tolist()
    for (stream, operation, _), found in window.operations.items():
        reports = found.columns["report"].tolist()
        for metric in UNANSWERED_METRICS:
            tag = f"{stream}.{operation}.{metric}"
            if packed := found.histograms.get((metric, "succeeded")):
                for row, one in packed.each():
                    merged[numbers[reports[row]]].setdefault(tag, []).append(one)
    places_of: dict[int, list[int]] = {}
    for place, number in enumerate(numbers):
        places_of.setdefault(number, []).append(place)
    for number, tags in merged.items():
        places = places_of.get(number, [])
        start_s = min(window.reports["start_ns"][place] for place in places) / 1e9
        end_s = max(window.reports["end_ns"][place] for place in places) / 1e9
        for tag, parts in sorted(tags.items()):
            histogram = Histogram.merge(parts)
            yield (
                f"Tag={tag},{start_s:.3f},{end_s - start_s:.3f},"
                f"{histogram.max_ns / 1e6:.3f},{histogram.to_hdr_v2()}\n"
            )
