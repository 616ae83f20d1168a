# SPDX-License-Identifier: Apache-2.0
"""The recorder of Python clients, and what it says of an interval."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ldapslam.agent._engine import SharedRecorder
from ldapslam.jobs.load import load_job_text
from ldapslam.jobs.plan import agent_plan
from ldapslam.proto.fields import METRICS, OPERATION_COUNTERS, OUTCOMES
from ldapslam.results.histogram import Histogram
from support.rows import engine_rows

_JOB = """\
name: test
targets: {server: "ldap://ds1"}
run: {duration: 10s}
streams:
  - name: probe
    target: server
    python: {class: "a:B", operations: [find, miss]}
    load: {clients: 1}
"""


def new_recorder(
    *,
    measure_start_ns: int = 0,
    measure_end_ns: int = 1 << 62,
    grace_ns: int = 0,
    **changes: Any,
) -> SharedRecorder:
    """Of a closed loop of one client; `changes` are those of the stream's plan."""
    plan = agent_plan(load_job_text(_JOB.encode(), file="job", base=None), 0, 1, 7)
    run = replace(
        plan,
        measure_start_ns=measure_start_ns,
        measure_end_ns=measure_end_ns,
        grace_ns=grace_ns,
    )
    if "profile" in changes:
        changes["model"] = "open"
    total = changes.get("connections", 1)
    stream = replace(plan.streams[0], **{"total_connections": total, **changes})
    return SharedRecorder(run, stream, 0, 2)


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
            (METRICS[metric], OUTCOMES[outcome]): Histogram.merge([packed])
            for metric, outcome, packed in self.row().get("histograms", ())
        }


def closed(recorder: SharedRecorder, *, final: bool = False) -> Interval:
    end_ns, tables = recorder.close(final)
    rows = engine_rows(tables)
    (stream,) = rows["streams"]
    return Interval(end_ns, rows["operations"], stream)
