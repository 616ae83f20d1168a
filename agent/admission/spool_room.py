# SPDX-License-Identifier: Apache-2.0
"""Is there room for what a run may leave in the spool? Asked before any load. Pure.

In the usual case the spool is empty: a report is delivered as soon as it is written. It
fills while the coordinator cannot be reached, or cannot store. Load goes on for no
longer than the run's `orphan_grace` then, so the room that a run needs is

    bytes of a report x intervals in min(run, orphan_grace), and the drain

Histograms are packed: they take what was measured, not what could be. The figures below
are above what real runs write (tests/integration/test_disk.py compares).
"""

from __future__ import annotations

from dataclasses import dataclass

from ldapslam.base.errors import FleetError
from ldapslam.base.units import format_size
from ldapslam.jobs.plan import AgentPlan

#: An operation's counters and histograms of five times, of its usual outcomes.
OPERATION_BYTES = 20_000
#: A stream's gauges and the histograms of its set-ups.
STREAM_BYTES = 6_000
WORKER_BYTES = 100
#: Of the report itself, and what a file system rounds up to.
REPORT_BYTES = 4_096
#: Kept free for others on the disk, and for the last reports of runs before.
RESERVE_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Room:
    """What a run's reports need."""

    report_bytes: int
    reports: int

    @property
    def needed_bytes(self) -> int:
        return self.report_bytes * self.reports


def room_for(plan: AgentPlan, workers: int, orphan_grace_ns: int) -> Room:
    """For this agent's part of a run."""
    operations = sum(len(stream.request_names) for stream in plan.streams)
    report_bytes = (
        REPORT_BYTES
        + OPERATION_BYTES * operations
        + STREAM_BYTES * len(plan.streams)
        + WORKER_BYTES * workers
    )
    ends_ns = plan.boundaries_ns
    first_ns = ends_ns[0] if ends_ns else 1
    # the lease is looked at between intervals: one more; and the drain
    reports = min(len(ends_ns), -(-orphan_grace_ns // first_ns) + 1) + 1
    return Room(report_bytes, reports)


def check_room(
    room: Room, *, free_bytes: int, quota_bytes: int | None, agent: str, folder: str
) -> None:
    """FleetError when the reports would not fit the spool's disk, or its quota."""
    needed = room.needed_bytes
    figures = (
        f"the run's reports may need {format_size(needed)} ({room.reports:,} of "
        f"{format_size(room.report_bytes)})"
    )
    if quota_bytes is not None and needed > quota_bytes:
        raise FleetError(
            f"agent {agent!r} has too little room in its spool: {figures}, the quota "
            f"is {format_size(quota_bytes)}",
            hint="raise `spool-quota` in the agent's settings, or give the job a "
            "longer `run.interval` or a shorter `orphan_grace`",
        )
    if needed + RESERVE_BYTES > free_bytes:
        raise FleetError(
            f"agent {agent!r} has too little room in its spool: {figures} beside a "
            f"reserve of {format_size(RESERVE_BYTES)}, the disk of {folder!r} has "
            f"{format_size(free_bytes)} left",
            hint="make room there, choose another folder with --spool, or give the job "
            "a longer `run.interval` or a shorter `orphan_grace`",
        )
