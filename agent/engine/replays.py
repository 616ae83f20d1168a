# SPDX-License-Identifier: Apache-2.0
"""An agent's part of a job's replays: traces that the engine reads, in files.

Every agent reads the whole log and makes the whole replay of it, as the others do, and
keeps its own connections. A trace may hold a password: its file is for this user alone,
in the run's own folder, which is removed with the run.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from ldapslam.jobs.plan import AgentPlan, ReplayPlan, StreamPlan
from ldapslam.jobs.replay.read import prepare, read_logs
from ldapslam.jobs.replay.trace import Identity, Schedule, write_trace


def with_traces(plan: AgentPlan, folder: Path) -> tuple[AgentPlan, dict[str, Any]]:
    """The plan with its replays' traces written to `folder`; and, for the manifest,
    what of each log is sent and what is not, and why."""
    facts: dict[str, Any] = {}
    streams: list[StreamPlan] = []
    for number, stream in enumerate(plan.streams):
        if stream.replay is not None:
            made = _schedule(stream, stream.replay, plan.seed)
            facts[stream.name] = made.facts()
            stream = _with_trace(stream, made, folder / f"replay-{number}.trace")
        streams.append(stream)
    return replace(plan, streams=tuple(streams)), facts


def _schedule(stream: StreamPlan, planned: ReplayPlan, seed: int) -> Schedule:
    bind = stream.connection.bind
    replayed = planned.replay
    return prepare(
        replayed,
        read_logs(planned.logs),
        planned.pace,
        connections=stream.total_connections,
        seed=seed,
        identity=Identity(bind.dn or "", bind.secret),
    )


def _with_trace(stream: StreamPlan, made: Schedule, path: Path) -> StreamPlan:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as trace:
        write_trace(
            made,
            trace,
            first_connection=stream.first_connection,
            stride=stream.connection_stride,
        )
    # what the log's own server answered is no failure of this one
    operations = tuple(
        replace(one, expected_codes=tuple(sorted(made.codes.get(one.kind, ()))))
        for one in stream.operations
    )
    return replace(stream, trace=str(path), operations=operations)
