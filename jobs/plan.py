# SPDX-License-Identifier: Apache-2.0
"""What one agent has to do in a run: the job's totals split, its requests compiled.

Pure: a plan follows from (job, agent index, agent count, seed, first unique number)
alone, so the parts of a run's agents fit together. Plans hold plain data and references
to secrets, never secrets.

Times are ns since T0, the common start of all agents. The drain follows the last phase;
it has no planned end.

The connections of a stream are numbered from 0 over the whole run; number i belongs to
agent i mod A. So the parts of the agents differ by at most one, sum to the total, and
every agent knows its own without asking. Inside an agent the engine gives number i to
worker (i div A) mod W.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ldapslam.base.units import format_size
from ldapslam.jobs.connection_settings import (
    BindSettings,
    ConnectionSettings,
    TlsSettings,
)
from ldapslam.jobs.fields.connection import Bind, Connection, Tls
from ldapslam.jobs.fields.population import PopulationRecord
from ldapslam.jobs.model import Job, PythonStream, Run, Stream
from ldapslam.jobs.operations.body import OperationPlan
from ldapslam.jobs.rates.profile import (
    Profile,
    arrivals_by,
    between,
    peak_rate,
    profile_of,
)
from ldapslam.jobs.replay.options import Trace
from ldapslam.jobs.replay.trace import Pace
from ldapslam.jobs.run_plan import PhaseSpan
from ldapslam.jobs.scripts import ScriptPlan, Scripts, compile_streams

DRAIN = "drain"
MEASURE = "measure"

#: An interval shorter than this share of the nominal one joins its neighbour.
_SLIVER_DIVISOR = 10


@dataclass(frozen=True)
class ReportRoom:
    """What the interval reports of a run take on a disk, at most."""

    report_bytes: int
    reports: int

    @property
    def needed_bytes(self) -> int:
        return self.report_bytes * self.reports

    def __str__(self) -> str:
        size = format_size(self.report_bytes)
        return f"{format_size(self.needed_bytes)} ({self.reports:,} reports of {size})"


def phase_spans(run: Run) -> tuple[PhaseSpan, ...]:
    """The phases with a length, in order and without gaps, from 0; no drain."""
    spans: list[PhaseSpan] = []
    start_ns = 0
    for name, length_ns in (
        ("ramp_up", run.ramp_up_ns),
        ("warm_up", run.warm_up_ns),
        (MEASURE, run.duration_ns),
        ("cool_down", run.cool_down_ns),
    ):
        if length_ns:
            spans.append(PhaseSpan(name, start_ns, start_ns + length_ns))
            start_ns += length_ns
    return tuple(spans)


def planned_end_ns(run: Run) -> int:
    """Length of the time line, without the drain."""
    return phase_spans(run)[-1].end_ns


def measure_span(run: Run) -> PhaseSpan:
    return next(span for span in phase_spans(run) if span.name == MEASURE)


def interval_boundaries_ns(run: Run) -> tuple[int, ...]:
    """Ends of the intervals, ascending: the multiples of the interval since T0, and the
    end of every phase, so that no interval belongs to two phases. A piece shorter than
    a tenth of the interval joins its neighbour within the phase."""
    ends: list[int] = []
    sliver_ns = run.interval_ns // _SLIVER_DIVISOR
    for span in phase_spans(run):
        first = span.start_ns // run.interval_ns + 1
        ends += (
            end_ns
            for end_ns in range(first * run.interval_ns, span.end_ns, run.interval_ns)
            if end_ns - span.start_ns >= sliver_ns and span.end_ns - end_ns >= sliver_ns
        )
        ends.append(span.end_ns)
    return tuple(ends)


def phase_at(spans: Sequence[PhaseSpan], time_ns: int) -> str:
    """Name of the phase of a time since T0; `drain` after the last one."""
    for span in spans:
        if time_ns < span.end_ns:
            return span.name
    return DRAIN


@dataclass(frozen=True)
class ReplayPlan:
    """A stream whose requests are a log's; each agent makes a trace of its part."""

    #: What the job file says of it, and the log's files on this host.
    trace: Trace
    logs: tuple[Path, ...]
    pace: Pace


@dataclass(frozen=True)
class StreamPlan:
    """This agent's part of one stream."""

    name: str
    #: Role of the targets, and their URIs: global connection n goes to
    #: uris[n % len(uris)]. After them come those that a Python class watches.
    target: str
    uris: tuple[str, ...]
    connection: ConnectionSettings
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
    #: Variables of a session, and ledgers of the stream.
    variables: int
    ledgers: int
    #: Whether what is left in each ledger is deleted after the run.
    clean_up: tuple[bool, ...]
    operations: tuple[OperationPlan, ...]
    scripts: tuple[ScriptPlan, ...]
    #: None: the engine drives the stream.
    python: PythonStream | None = None
    #: URIs at the end of `uris` that its connections do not use.
    watched: int = 0
    #: None: the scripts make the requests.
    replay: ReplayPlan | None = None
    #: File, on this host, of the requests that the engine sends in place of what the
    #: scripts would; the agent makes it and sets this (dataclasses.replace).
    trace: str | None = None
    #: Where the engine notes what it adds; None: nowhere. The agent sets this.
    ledger_folder: str | None = None

    @property
    def addresses(self) -> tuple[str, ...]:
        """Of each of uris, where to connect; an empty text: by the URI's name."""
        return tuple(self.connection.addresses.get(uri, "") for uri in self.uris)

    @property
    def engine(self) -> str:
        """Who drives the stream: 'native' or 'python'."""
        return "python" if self.python else "native"

    @property
    def request_names(self) -> tuple[str, ...]:
        """What reports call the stream's operations, in the order of their numbers."""
        if self.python is not None:
            return tuple(self.python.operations)
        return tuple(operation.name for operation in self.operations)


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
    #: This agent's streams; empty with more agents than connections.
    streams: tuple[StreamPlan, ...]
    #: What servers must hold, for the agent that looks; and those servers.
    population: PopulationRecord | None = None
    population_uris: tuple[str, ...] = ()


def agent_plan(
    job: Job,
    agent_index: int,
    agent_count: int,
    seed: int,
    unique_from: int = 0,
    *,
    is_rehearsal: bool = False,
) -> AgentPlan:
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
            _stream_plan(job, stream, scripts, agent_index, agent_count)
            for stream, scripts in zip(
                job.streams,
                compile_streams(
                    job.streams, job.files, unique_from, is_rehearsal=is_rehearsal
                ),
                strict=True,
            )
            if agent_index < participants(stream.load.total_connections, agent_count)
        ),
        **(_population(job) if agent_index == 0 else {}),
    )


def _population(job: Job) -> dict[str, Any]:
    """The first agent has every stream, and looks for all of them."""
    if job.population is None:
        return {}
    roles = job.population.targets
    if roles is None:
        roles = list(dict.fromkeys(stream.target for stream in job.streams))
    uris = tuple(uri for role in roles for uri in job.targets[role])
    return {"population": job.population.record, "population_uris": uris}


def _stream_plan(
    job: Job, stream: Stream, scripts: Scripts, index: int, count: int
) -> StreamPlan:
    load = stream.load
    drivers = participants(load.total_connections, count)
    ledgers = scripts.ledgers or {}
    return StreamPlan(
        name=stream.name,
        target=stream.target,
        uris=(*job.targets[stream.target], *_watched(job, stream)),
        connection=connection_settings(
            job, stream.tls or job.tls, stream.bind or job.bind, stream.connection
        ),
        request_timeout_ns=stream.request_timeout_ns,
        model="open" if load.is_scheduled else "closed",
        connections=share(load.total_connections, count, index),
        first_connection=index,
        connection_stride=count,
        total_connections=load.total_connections,
        in_flight=stream.in_flight,
        think_time_ns=load.think_time_ns,
        profile=stream_profile(job.run, stream),
        arrivals=load.arrivals,
        max_backlog=(
            max(1, share(load.max_backlog_arrivals, drivers, index))
            if load.kind == "open"
            else 0
        ),
        total_operations=stream.count or 0,
        start_ns=stream.start_after_ns,
        end_ns=stream.stop_after_ns or 0,
        variables=scripts.variables,
        ledgers=len(ledgers),
        clean_up=tuple(ledgers.values()),
        operations=scripts.operations,
        scripts=scripts.scripts,
        python=stream.python,
        watched=len(_watched(job, stream)),
        replay=_replay_plan(job, stream),
    )


def connection_settings(
    job: Job, tls: Tls, bind: Bind | None, connection: Connection | None = None
) -> ConnectionSettings:
    """How to connect, by these parts of the job."""
    connection = connection or Connection()
    return ConnectionSettings(
        TlsSettings(**{**dict(tls), "ca_file": _path(job, tls.ca_file)}),
        BindSettings.of(bind),
        connection.connect_timeout_ns,
        connection.reconnect_operations,
        connection.reconnect_ns,
        connection.reconnect_wait_ns or 0,
        connection.spacing_ns,
    )


def stream_profile(run: Run, stream: Stream) -> Profile:
    """The arrival rate of a stream over the whole run; empty in a closed loop."""
    if stream.load.kind != "open":
        return ()
    return profile_of(
        stream.load.segments(),
        ramp_up_ns=run.ramp_up_ns,
        measure_start_ns=measure_span(run).start_ns,
        start_ns=stream.start_after_ns,
        end_ns=stream.stop_after_ns or 0,
    )


def planned_arrivals(run: Run, stream: Stream, start_ns: int, end_ns: int) -> float:
    """Arrivals of an open stream between two times since T0, without its count."""
    profile = stream_profile(run, stream)
    return arrivals_by(profile, end_ns) - arrivals_by(profile, start_ns)


def planned_peak(run: Run, stream: Stream, start_ns: int, end_ns: int) -> float:
    """The highest rate between two times since T0, in arrivals per ns."""
    return peak_rate(between(stream_profile(run, stream), start_ns, end_ns))


def _watched(job: Job, stream: Stream) -> tuple[str, ...]:
    """URIs that a stream uses beside those of its target."""
    roles = stream.python.watches if stream.python is not None else []
    return tuple(uri for role in roles for uri in job.targets[role])


def _replay_plan(job: Job, stream: Stream) -> ReplayPlan | None:
    if (trace := stream.trace) is None:
        return None
    measure = measure_span(job.run)
    return ReplayPlan(
        trace,
        tuple(Path(_path(job, name) or name) for name in trace.logs),
        Pace(
            measure.start_ns + stream.start_after_ns,
            min(measure.end_ns, stream.stop_after_ns or measure.end_ns),
            trace.factor,
            trace.skip_ns,
        ),
    )


def _path(job: Job, name: str | None) -> str | None:
    if name is None:
        return None
    return str(job.files.get(name, Path(name)))


def share(total: int, parts: int, index: int) -> int:
    """How many of the numbers 0 … total-1 are congruent to index modulo parts."""
    if not 0 <= index < parts:
        raise ValueError(f"part {index} of {parts}")
    return (total - index + parts - 1) // parts if total > index else 0


def participants(connections: int, agents: int) -> int:
    """Agents with at least one connection of a stream: the first ones by index."""
    return min(connections, agents)
