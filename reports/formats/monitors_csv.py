# SPDX-License-Identifier: Apache-2.0
"""monitors.csv: every reading of every monitor.

Monitors have different figures, so a figure of a reading is one row, and the values are
as they were read: counters are not yet rates. A reading that failed is one row with its
reason. An empty value was missing. Streams over the store, one monitor in memory.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from typing import TextIO

from ldapslam.results.monitor_records import MonitorSeries

COLUMNS = (
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
    writer.writerow(COLUMNS)
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
