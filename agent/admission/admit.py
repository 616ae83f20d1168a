# SPDX-License-Identifier: Apache-2.0
"""May this agent take its share of a run? Asked in the engine's process, before a load.

In this order: the operator's limits, the room in the spool, the open files, where the
servers are and whether they are allowed. Nothing has been connected to by then; names
have been resolved, once. Then the servers are asked themselves (preflight.py).
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import sys
from collections.abc import Mapping
from typing import Any

from ldapslam.agent.admission import preflight
from ldapslam.agent.admission.addresses import Place, with_places
from ldapslam.agent.admission.limits import AgentLimits, check_share, share_of
from ldapslam.agent.admission.spool_room import check_room, room_for
from ldapslam.agent.host import usable_cores
from ldapslam.base.errors import FleetError
from ldapslam.directory.marker import Marker
from ldapslam.jobs.model import Job
from ldapslam.jobs.plan import AgentPlan
from ldapslam.proto import engine_pb2 as pb

#: Open files besides connections: of threads, libraries, logs.
_RESERVED_FILES = 64


def workers_for(request: pb.PrepareEngine, limits: AgentLimits) -> int:
    """How many engine threads there may be; has this process keep to its CPUs."""
    keep_to_cpus(limits)
    if not request.workers:
        return max(1, usable_cores() - 1)
    if limits.max_cpu_share is None:
        return int(request.workers)
    return min(request.workers, usable_cores())


def keep_to_cpus(limits: AgentLimits) -> None:
    """Have this process, and all that it starts, run on no more than is allowed."""
    usable = sorted(os.sched_getaffinity(0))
    allowed = limits.cpus(usable)
    if allowed != usable:
        os.sched_setaffinity(0, allowed)


def admit(
    plan: AgentPlan, request: pb.PrepareEngine, limits: AgentLimits, workers: int
) -> tuple[AgentPlan, dict[str, Place]]:
    """The plan with its servers' addresses, and these by URI; or the refusal:
    AgentLimitExceeded, FleetError, TargetNotAllowed, TargetUnreachable."""
    agent = request.agent
    check_share(share_of(plan), limits, agent)
    # it lies in the spool
    folder = request.files_folder
    check_room(
        room_for(plan, workers, request.run.orphan_grace_ns),
        free_bytes=shutil.disk_usage(folder).free,
        quota_bytes=limits.spool_quota_bytes,
        agent=agent,
        folder=folder,
    )
    check_open_files(plan, raise_open_files())
    return with_places(plan, limits, agent)


def ask_servers(
    plan: AgentPlan, job: Job, limits: AgentLimits, places: Mapping[str, Place]
) -> list[dict[str, Any]]:
    """Facts of every server, each asked as the load will use it; TargetError."""
    rdn = limits.marker_rdn
    return [
        preflight.preflight(
            probe, places[probe.uri], Marker(rdn, job) if rdn is not None else None
        )
        for probe in preflight.probes(plan)
    ]


def raise_open_files() -> int:
    """Take as many open files as this process may have; how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # one who may not is left with what there is
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
