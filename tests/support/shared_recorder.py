# SPDX-License-Identifier: Apache-2.0
"""The recorder of Python clients, and what it says of an interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ldapslam.agent._engine import SharedRecorder
from ldapslam.proto.messages import OPERATION_COUNTERS
from ldapslam.reports.results.histogram import Histogram
from ldapslam.reports.results.records import METRICS, OUTCOMES

_NS = 1 << 62


def new_recorder(**changes: Any) -> SharedRecorder:
    """Of a closed loop of one client; what is due before 2^62 ns is measured."""
    settings: dict[str, Any] = {
        "stream": 0,
        "operations": 2,
        "clients": 1,
        "measure_start_ns": 0,
        "measure_end_ns": 0 if "profile" in changes else _NS,
        "profile": (),
        "arrivals": "constant",
        "first": 0,
        "stride": 1,
        "total": changes.get("clients", 1),
        "limit": 0,
        "max_backlog": 1,
        "seed": 7,
    }
    return SharedRecorder(**{**settings, **changes})


@dataclass
class Interval:
    """What `close` returned."""

    end_ns: int
    operations: list[dict[str, Any]]
    stream: dict[str, Any]

    def row(self, operation: int = 0, *, measured: bool = True) -> dict[str, Any]:
        """Of an operation; empty where nothing was counted."""
        for row in self.operations:
            if (row["operation"], row["measured"]) == (operation, measured):
                return row
        return {}

    def counts(self, operation: int = 0, *, measured: bool = True) -> dict[str, int]:
        """Counters that are not zero."""
        row = self.row(operation, measured=measured)
        return {name: row[name] for name in OPERATION_COUNTERS if row.get(name)}

    def histograms(self) -> dict[tuple[str, str], Histogram]:
        """Of the first operation, by metric and outcome."""
        return {
            (METRICS[metric], OUTCOMES[outcome]): Histogram.from_packed(packed)
            for metric, outcome, packed in self.row().get("histograms", ())
        }


def closed(recorder: SharedRecorder, *, final: bool = False) -> Interval:
    return Interval(*recorder.close(final))
