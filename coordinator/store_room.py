# SPDX-License-Identifier: Apache-2.0
"""Is there room in the store for what a run will bring? Asked before it begins. Pure.

Every agent brings one report for each interval, and one of its drain:

    bytes of a report x (intervals and the drain) x agents

Where the run ends with the counts of its streams nobody knows its length: room for so
many intervals as an hour has by default is asked for then, and no more.
The figures below are twice what intervals with some hundred requests take; those with
many thousands take more. When room runs out all the same the run ends in order, and
what was measured is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ldapslam.base.errors import FleetError
from ldapslam.base.units import format_size

#: An operation's counters and histograms.
OPERATION_BYTES = 5_000
STREAM_BYTES = 500
#: Of the report itself, with its workers and the host's figures.
REPORT_BYTES = 1_000
#: Of a run without a known length.
COUNTED_INTERVALS = 3_600
#: Kept free, for the database's log and for other runs' ends.
RESERVE_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class StoreNeed:
    """What a run's reports take in the store."""

    report_bytes: int
    reports: int

    @property
    def needed_bytes(self) -> int:
        return self.report_bytes * self.reports


def need_of(plan: Mapping[str, Any], agents: int) -> StoreNeed:
    """Of a run with this plan (`report_plan`)."""
    streams = plan["streams"]
    operations = sum(len(stream["operations"]) for stream in streams)
    report_bytes = (
        REPORT_BYTES + OPERATION_BYTES * operations + STREAM_BYTES * len(streams)
    )
    intervals = len(plan["boundaries_ns"])
    if all(stream.get("count") for stream in streams):
        intervals = min(intervals, COUNTED_INTERVALS)
    return StoreNeed(report_bytes, (intervals + 1) * agents)


def check_store_room(need: StoreNeed, *, free_bytes: int | None, store: str) -> None:
    """FleetError when the reports would not fit; None: nobody knows what is free."""
    if free_bytes is None or need.needed_bytes + RESERVE_BYTES <= free_bytes:
        return
    raise FleetError(
        f"the coordinator has too little room in its store: the run may bring "
        f"{format_size(need.needed_bytes)} ({need.reports:,} reports of "
        f"{format_size(need.report_bytes)}) beside a reserve of "
        f"{format_size(RESERVE_BYTES)}, the disk of {store!r} has "
        f"{format_size(free_bytes)} left",
        hint="make room there, remove old runs with `ldapslam store prune`, or give "
        "the job a longer `run.interval`",
    )
