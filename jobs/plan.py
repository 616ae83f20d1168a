# SPDX-License-Identifier: Apache-2.0
"""What one agent has to do in a run: the job's totals split, its requests compiled.

Pure: a plan follows from (job, agent index, agent count, seed) alone, so the
coordinator and the agent compute the same one. Plans hold plain data and references to
secrets, never secrets.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ldapslam.jobs.model import Job, Operation, Stream
from ldapslam.jobs.partition import participants, share
from ldapslam.jobs.phases import (
    PhaseSpan,
    interval_boundaries_ns,
    measure_span,
    phase_spans,
)
from ldapslam.jobs.secrets import SecretRef
from ldapslam.jobs.template import Template


@dataclass(frozen=True)
class OperationPlan:
    """One operation of a stream, ready for the engine."""

    name: str
    kind: str
    weight: int
    #: Tag of the protocolOp that ends the operation.
    response_tag: int
    template: Template


@dataclass(frozen=True)
class StreamPlan:
    """This agent's part of one stream."""

    name: str
    #: Role of the targets, and their URIs: global connection n goes to
    #: uris[n % len(uris)].
    target: str
    uris: tuple[str, ...]
    bind_dn: str | None
    bind_password: SecretRef | None
    start_tls: bool
    #: Path on this host; None: the system's authorities.
    ca_file: str | None
    verify: bool
    connect_timeout_ns: int
    request_timeout_ns: int
    #: 'closed' or 'open'.
    model: str
    #: This agent's connections (closed: its clients); at least one. The j-th has the
    #: global number first_connection + j * connection_stride.
    connections: int
    first_connection: int
    connection_stride: int
    #: Of the whole run.
    total_connections: int
    #: Most requests in flight per connection; 1 in a closed loop.
    in_flight: int
    think_time_ns: int
    #: The whole run's rate: events per ns; 0 and 1 in a closed loop.
    rate_events: int
    rate_per_ns: int
    poisson: bool
    #: This agent's number among the agents that drive the stream, and theirs.
    participant: int
    participants: int
    #: This agent's share, in arrivals; 0 in a closed loop.
    max_backlog: int
    operations: tuple[OperationPlan, ...]


@dataclass(frozen=True)
class AgentPlan:
    """This agent's part of a run; times in ns since T0."""

    agent_index: int
    agent_count: int
    seed: int
    #: Ends of the intervals.
    boundaries_ns: tuple[int, ...]
    phases: tuple[PhaseSpan, ...]
    measure_start_ns: int
    measure_end_ns: int
    ramp_up_ns: int
    #: Longest drain.
    grace_ns: int
    #: The streams that this agent drives; empty when there are more agents than
    #: connections.
    streams: tuple[StreamPlan, ...]


def agent_plan(job: Job, agent_index: int, agent_count: int, seed: int) -> AgentPlan:
    """The plan of agent `agent_index` of `agent_count`."""
    if not 0 <= agent_index < agent_count:
        raise ValueError(f"agent {agent_index} of {agent_count}")
    measure = measure_span(job.run)
    return AgentPlan(
        agent_index=agent_index,
        agent_count=agent_count,
        seed=seed,
        boundaries_ns=interval_boundaries_ns(job.run),
        phases=phase_spans(job.run),
        measure_start_ns=measure.start_ns,
        measure_end_ns=measure.end_ns,
        ramp_up_ns=job.run.ramp_up_ns,
        grace_ns=job.run.drain_ns,
        streams=tuple(
            _stream_plan(job, stream, agent_index, agent_count)
            for stream in job.streams
            if agent_index < participants(stream.load.connections, agent_count)
        ),
    )


def _stream_plan(job: Job, stream: Stream, index: int, count: int) -> StreamPlan:
    bind = stream.bind or job.bind
    tls = stream.tls or job.tls
    load = stream.load
    drivers = participants(load.connections, count)
    open_loop = load.open
    return StreamPlan(
        name=stream.name,
        target=stream.target,
        uris=tuple(job.targets[stream.target]),
        bind_dn=bind.dn if bind else None,
        bind_password=bind.password.ref if bind else None,
        start_tls=tls.start_tls,
        ca_file=_path(job, tls.ca_file),
        verify=tls.verify,
        connect_timeout_ns=stream.connection.connect_timeout_ns,
        request_timeout_ns=stream.request_timeout_ns,
        model="open" if open_loop else "closed",
        connections=share(load.connections, count, index),
        first_connection=index,
        connection_stride=count,
        total_connections=load.connections,
        in_flight=open_loop.in_flight if open_loop else 1,
        think_time_ns=load.closed.think_time_ns if load.closed else 0,
        rate_events=open_loop.rate.events if open_loop else 0,
        rate_per_ns=open_loop.rate.per_ns if open_loop else 1,
        poisson=open_loop is not None and open_loop.arrivals == "poisson",
        participant=index,
        participants=drivers,
        max_backlog=(
            max(1, share(open_loop.max_backlog_arrivals, drivers, index))
            if open_loop
            else 0
        ),
        operations=tuple(_operation_plan(operation) for operation in stream.operations),
    )


def _operation_plan(operation: Operation) -> OperationPlan:
    return OperationPlan(
        name=operation.name,
        kind=operation.kind,
        weight=operation.weight,
        response_tag=operation.body.response_tag,
        template=operation.body.compile(),
    )


def _path(job: Job, name: str | None) -> str | None:
    if name is None:
        return None
    return str(job.files.get(name, Path(name)))
