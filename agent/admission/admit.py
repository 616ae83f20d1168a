# SPDX-License-Identifier: Apache-2.0
"""Checks whether this agent can take its part of a run, before any load.

In this order: the operator's limits, room in the spool, open files, the servers'
addresses. Nothing is connected before; then preflight.py asks the servers.

The spool fills while the coordinator cannot be reached or cannot store. Load goes on
for the coordinator timeout at most, so a run needs

    bytes of a report x intervals in min(run, coordinator timeout), and the drain
"""

from __future__ import annotations

import contextlib
import resource
import shutil
import sys
from collections.abc import Mapping
from typing import Any

from ldapslam.agent.admission import preflight
from ldapslam.agent.admission.addresses import Location, with_locations
from ldapslam.agent.admission.limits import AgentLimits, check_part, part_of
from ldapslam.agent.host import usable_cores
from ldapslam.base.errors import FleetError
from ldapslam.base.units import format_size
from ldapslam.jobs.plan import AgentPlan, ReportRoom
from ldapslam.proto import engine_pb2 as pb

#: Open files of threads, libraries and logs.
_RESERVED_FILES = 64


def workers_for(wanted: int | None) -> int:
    """Return the number of engine threads."""
    return wanted or max(1, usable_cores() - 1)


def admit(
    plan: AgentPlan, request: pb.PrepareEngine, limits: AgentLimits, workers: int
) -> tuple[AgentPlan, dict[str, Location]]:
    """The plan with its servers' addresses, and these by URI; AgentLimitExceeded,
    FleetError, TargetNotAllowed or TargetUnreachable."""
    agent = request.agent
    check_part(part_of(plan, request.run.coordinator_timeout_ns), limits, agent)
    folder = request.files_folder
    check_room(
        room_for(plan, workers, request.run.coordinator_timeout_ns),
        free_bytes=shutil.disk_usage(folder).free,
        quota_bytes=limits.spool_quota_bytes,
        agent=agent,
        folder=folder,
    )
    check_open_files(plan, raise_open_files())
    return with_locations(plan, limits, agent)


def ask_servers(
    plan: AgentPlan, locations: Mapping[str, Location]
) -> list[dict[str, Any]]:
    """Facts of every server, each asked as the load will use it; TargetError."""
    return [
        preflight.preflight(probe, locations[probe.uri])
        for probe in preflight.probes(plan)
    ]


def raise_open_files() -> int:
    """Raise the limit of open files as far as possible; the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # without the right to raise it, the limit stays
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def check_open_files(plan: AgentPlan, limit: int) -> None:
    """FleetError when the plan has more connections than this host allows."""
    needed = sum(stream.connections for stream in plan.streams) + _RESERVED_FILES
    if needed > limit:
        raise FleetError(
            f"this agent's share needs {needed:,} open files, it may have {limit:,}",
            hint=f"start the agent after `ulimit -n {needed}`, in systemd with "
            f"LimitNOFILE={needed}, or spread the load over more agents",
        )


#: An operation's counters, and the histograms of its usual outcomes.
OPERATION_BYTES = 20_000
#: A stream's gauges and the histograms of its set-ups.
STREAM_BYTES = 6_000
WORKER_BYTES = 100
#: The report without its rows, rounded up by the file system.
REPORT_BYTES = 4_096
#: Kept free for other users of the disk, and for reports of earlier runs.
RESERVE_BYTES = 4 << 20


def room_for(plan: AgentPlan, workers: int, coordinator_timeout_ns: int) -> ReportRoom:
    operations = sum(
        len(stream.request_names) * len(stream.uris) for stream in plan.streams
    )
    report_bytes = (
        REPORT_BYTES
        + OPERATION_BYTES * operations
        + STREAM_BYTES * len(plan.streams)
        + WORKER_BYTES * workers
    )
    ends_ns = plan.boundaries_ns
    first_ns = ends_ns[0] if ends_ns else 1
    # the lease is checked between intervals: one more; and the drain
    reports = min(len(ends_ns), -(-coordinator_timeout_ns // first_ns) + 1) + 1
    return ReportRoom(report_bytes, reports)


def check_room(
    room: ReportRoom,
    *,
    free_bytes: int,
    quota_bytes: int | None,
    agent: str,
    folder: str,
) -> None:
    """FleetError when the reports would not fit the spool's disk, or its quota."""
    needed, needs = room.needed_bytes, f"the run's reports may need {room}"
    if quota_bytes is not None and needed > quota_bytes:
        raise FleetError(
            f"agent {agent!r} has too little room in its spool: {needs}, the quota "
            f"is {format_size(quota_bytes)}",
            hint="raise `spool-quota` in the agent's settings, or give the job a "
            "longer `run.interval` or a shorter `coordinator_timeout`",
        )
    if needed + RESERVE_BYTES > free_bytes:
        raise FleetError(
            f"agent {agent!r} has too little room in its spool: {needs} and a "
            f"reserve of {format_size(RESERVE_BYTES)}, the disk of {folder!r} has "
            f"{format_size(free_bytes)} left",
            hint="make room there, choose another folder with --spool, or give the job "
            "a longer `run.interval` or a shorter `coordinator_timeout`",
        )
