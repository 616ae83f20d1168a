# SPDX-License-Identifier: Apache-2.0
"""What one agent has to do in a run: the job's totals split, its requests compiled.

Pure: a plan follows from (job, agent index, agent count, seed) alone, so the
coordinator and the agent compute the same one. Plans hold plain data and references to
secrets, never secrets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ldapslam.jobs.model import Job, Operation, Stream
from ldapslam.jobs.partition import participants, share
from ldapslam.jobs.phases import (
    PhaseSpan,
    interval_boundaries_ns,
    measure_span,
    phase_spans,
)
from ldapslam.jobs.profile import Profile, hold, profile_of
from ldapslam.jobs.scope import Scope
from ldapslam.jobs.secrets import SecretRef
from ldapslam.jobs.template import Template

#: Number of a variable that is not there.
NO_VARIABLE = -1


@dataclass(frozen=True)
class OperationPlan:
    """One operation of a stream, as the engine's add_operation takes it. Variables are
    those of a session of the script that it is a step of (scope.py)."""

    name: str
    #: Its key in the job file.
    kind: str
    #: Tag of the protocolOp that ends the operation; 0: there is none.
    response_tag: int
    template: Template
    #: Result codes that count as succeeded, and those that count as expected.
    success_codes: tuple[int, ...] = (0,)
    expected_codes: tuple[int, ...] = ()
    #: Variables and the texts that they get before each request, in order.
    lets: tuple[tuple[int, Template], ...] = ()
    #: Variables and the attributes whose first value they get of the first entry; the
    #: empty attribute is the entry's DN.
    captures: tuple[tuple[int, bytes], ...] = ()
    #: Holds the cookie of paged results; the operation is repeated until it is empty.
    cookie_variable: int = NO_VARIABLE
    #: 'request', 'unbind' or 'abandon'.
    action: str = "request"
    #: False: the session goes on without waiting for the response.
    awaits: bool = True
    #: A bind in several steps: mechanism and the variables of authcid, password,
    #: authzid and credentials.
    sasl: tuple[str, int, int, int, int] | None = None
    #: The ledger of added entries: its number within the stream, the variables with
    #: the DN to note after success and with the DN to take out before, and in which
    #: order ('fifo', 'lifo', 'random').
    ledger: int = 0
    ledger_put: int = NO_VARIABLE
    ledger_take: int = NO_VARIABLE
    ledger_order: str = "fifo"


@dataclass(frozen=True)
class ScriptPlan:
    """A session: operations of the stream that follow one another on one connection.
    A plain operation is a script of one step."""

    #: Its share among the stream's scripts.
    weight: int
    #: Number of an operation of the stream, and the pause after it in ns.
    steps: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class PythonPlan:
    """A stream that a Python class drives instead of the engine."""

    #: 'package.module:Class', installed on the agents.
    class_path: str
    #: What the job file says of it, as plain data.
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class StreamPlan:
    """This agent's part of one stream."""

    name: str
    #: Role of the targets, and their URIs: global connection n goes to
    #: uris[n % len(uris)].
    target: str
    uris: tuple[str, ...]
    start_tls: bool
    #: Paths on this host; without ca_file, the system's authorities.
    ca_file: str | None
    cert_file: str | None
    key_file: str | None
    verify: bool
    bind_dn: str | None
    #: Of the simple bind or the SASL mechanism.
    bind_password: SecretRef | None
    #: SASL mechanism of the set-up; None: a simple bind, or none without bind_dn.
    mechanism: str | None
    authcid: str | None
    authzid: str | None
    realm: str | None
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
    #: The whole run's arrival rate over time; empty in a closed loop.
    profile: Profile
    #: 'constant', 'poisson' or 'uniform'.
    arrivals: str
    #: This agent's share, in arrivals; 0 in a closed loop.
    max_backlog: int
    #: Sessions of the whole run, dealt by connection number; 0: no end.
    total_operations: int
    #: When the stream starts and stops, since T0; an end of 0 is the run's.
    start_ns: int
    end_ns: int
    #: A connection is made anew after so many requests, or so long; 0: never.
    reconnect_operations: int
    reconnect_ns: int
    #: Connection n of the run is set up not before n times this.
    connect_spacing_ns: int
    #: Variables of a session, and ledgers of the stream.
    variables: int
    ledgers: int
    operations: tuple[OperationPlan, ...]
    scripts: tuple[ScriptPlan, ...]
    #: None: the engine drives the stream.
    python: PythonPlan | None = None

    @property
    def engine(self) -> str:
        """Who drives the stream: 'native' or 'python'."""
        return "python" if self.python else "native"


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
        start_tls=tls.start_tls,
        ca_file=_path(job, tls.ca_file),
        cert_file=None,
        key_file=None,
        verify=tls.verify,
        bind_dn=bind.dn if bind else None,
        bind_password=bind.secret if bind else None,
        mechanism=None,
        authcid=None,
        authzid=None,
        realm=None,
        connect_timeout_ns=stream.connection.connect_timeout_ns,
        request_timeout_ns=stream.request_timeout_ns,
        model="open" if open_loop else "closed",
        connections=share(load.connections, count, index),
        first_connection=index,
        connection_stride=count,
        total_connections=load.connections,
        in_flight=open_loop.in_flight if open_loop else 1,
        think_time_ns=load.closed.think_time_ns if load.closed else 0,
        profile=_profile(job, stream),
        arrivals=open_loop.arrivals if open_loop else "constant",
        max_backlog=(
            max(1, share(open_loop.max_backlog_arrivals, drivers, index))
            if open_loop
            else 0
        ),
        total_operations=0,
        start_ns=0,
        end_ns=0,
        reconnect_operations=0,
        reconnect_ns=0,
        connect_spacing_ns=0,
        variables=0,
        ledgers=0,
        operations=tuple(_operation_plan(operation) for operation in stream.operations),
        scripts=tuple(
            ScriptPlan(operation.weight, ((number, 0),))
            for number, operation in enumerate(stream.operations)
        ),
    )


def _profile(job: Job, stream: Stream) -> Profile:
    """The whole run's arrival rate over time; empty in a closed loop."""
    if stream.load.open is None:
        return ()
    rate = stream.load.open.rate
    return profile_of(
        [hold(rate.events / rate.per_ns, 1)],
        ramp_up_ns=job.run.ramp_up_ns,
        measure_start_ns=measure_span(job.run).start_ns,
    )


def _operation_plan(operation: Operation) -> OperationPlan:
    compiled = operation.body.compile(Scope())
    return OperationPlan(
        name=operation.name,
        kind=operation.kind,
        response_tag=compiled.response_tag,
        template=compiled.template,
        success_codes=compiled.success_codes,
        lets=tuple(compiled.lets),
        cookie_variable=compiled.cookie_variable,
        action=compiled.action,
        awaits=compiled.awaits,
        sasl=compiled.sasl,
        ledger_put=compiled.put,
    )


def _path(job: Job, name: str | None) -> str | None:
    if name is None:
        return None
    return str(job.files.get(name, Path(name)))
