# SPDX-License-Identifier: Apache-2.0
"""What the traces of a job send of their logs, and what not: `check` and `new`."""

from __future__ import annotations

from collections.abc import Iterator

from ldapslam.jobs.model import Job
from ldapslam.jobs.plan import agent_plan
from ldapslam.jobs.replay.read import prepare, read_logs
from ldapslam.jobs.replay.trace import Identity, Schedule


def explain_traces(job: Job) -> Iterator[str]:
    """Yield what the streams send that have the load of a log; reads their logs."""
    if all(stream.trace is None for stream in job.streams):
        return
    for stream in agent_plan(job, 0, 1, 0).streams:
        if (planned := stream.replay) is not None:
            log = read_logs(planned.logs)
            schedule = prepare(
                stream.name,
                planned.trace,
                log,
                planned.pace,
                connections=stream.total_connections,
                seed=0,
                identity=Identity("", b""),
            )
            for line in schedule_lines(schedule):
                yield f"stream {stream.name}: {line}"


def schedule_lines(schedule: Schedule) -> Iterator[str]:
    """Yield what of a log is sent, and what is not, for people."""
    from ldapslam.reports.typeset import number_of

    requests = ", ".join(
        number_of(count, f"{kind} request") for kind, count in schedule.requests.items()
    )
    sessions = number_of(schedule.sessions, "session")
    connections = number_of(len(schedule.connections), "connection")
    yield f"{requests} in {sessions} on {connections}"
    for (kind, reason), count in sorted(schedule.skipped.items()):
        yield f"not replayed: {number_of(count, f'{kind} request')}: {reason}"
