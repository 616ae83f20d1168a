# SPDX-License-Identifier: Apache-2.0
"""A job in words: its length, identities and load. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from ldapslam.base.units import NS_PER_S, format_duration, format_rate
from ldapslam.jobs.doubts import per_session
from ldapslam.jobs.model import Job, Stream
from ldapslam.jobs.plan import (
    measure_span,
    phase_spans,
    planned_arrivals,
    planned_end_ns,
    planned_peak,
    share,
)

#: Servers that are named where several get the same load.
_NAMED = 3


def explain(job: Job) -> Iterator[str]:
    """The job in words: who, how long, how much."""
    yield f"job {job.name}" + (f": {job.description}" if job.description else "")
    yield _length(job)
    for stream in job.streams:
        yield _stream_line(job, stream)
    yield from _load_lines(job)
    for threshold in job.thresholds:
        yield f"threshold: {threshold}"
    for one in job.monitors:
        every = f", every {format_duration(one.every_ns)}" if one.every_ns else ""
        yield f"monitor: {one.kind} {getattr(one, one.kind)}{every}"
    if job.population is not None and (record := job.population.record):
        yield f"population: {record.entries:,} entries below {record.base}"
    if job.verify is not None:
        within = format_duration(job.verify.replication.within_ns)
        yield f"verify: all servers hold the same within {within}"


def _length(job: Job) -> str:
    spans = phase_spans(job.run)
    lengths = ((one.name, format_duration(one.end_ns - one.start_ns)) for one in spans)
    takes = f"takes {format_duration(planned_end_ns(job.run))}"
    if all(one.count or one.trace for one in job.streams):
        takes += " at most, as it ends when its streams have sent all that they have"
    after = [f"{format_duration(job.run.drain_ns)} of drain"]
    if job.verify is not None:
        within = format_duration(job.verify.replication.within_ns)
        after.append(f"{within} for the replicas")
    phases = ", ".join(map(" ".join, lengths))
    return f"{takes}: {phases}; then up to {' and '.join(after)}"


def _stream_line(job: Job, stream: Stream) -> str:
    operations = ", ".join(name for name, _ in stream.request_names)
    servers = ", ".join(job.targets[stream.target])
    count = f", {stream.count:,} in all" if stream.count else ""
    load = _load_text(job, stream)
    who = job.identity(stream)
    return f"stream {stream.name}: {operations} on {servers}, as {who}; {load}{count}"


def _load_text(job: Job, stream: Stream) -> str:
    load = stream.load
    if load.kind == "closed":
        think_ns = load.think_time_ns
        think = f", think time {format_duration(think_ns)}" if think_ns else ""
        return f"closed loop, {load.clients} clients{think}"
    if (trace := stream.trace) is not None:
        speed = f"at {trace.speed}" if trace.factor else "as fast as possible"
        return f"a log {speed}, {load.total_connections} connections"
    measure = measure_span(job.run)
    if load.rate is not None and load.stages is None:
        rate = format_rate(load.rate)
    elif load.is_known:
        peak = planned_peak(job.run, stream, measure.start_ns, measure.end_ns)
        rate = f"up to {peak * NS_PER_S:.6g}/s"
    else:
        rate = "rates of a file"
    planned = ""
    if load.is_known:
        due = planned_arrivals(job.run, stream, measure.start_ns, measure.end_ns)
        planned = f", {due:,.0f} arrivals to be measured"
    return f"open loop, {rate} {load.arrivals}, {load.connections} connections{planned}"


def _load_lines(job: Job) -> Iterator[str]:
    """The load of each server and agent, where there are several."""
    loads: dict[str, list[str]] = defaultdict(list)
    for stream in job.streams:
        uris = job.targets[stream.target]
        for index, uri in enumerate(uris):
            loads[uri] += _part_text(job, stream, len(uris), index)
    alike: dict[str, list[str]] = defaultdict(list)
    for uri, texts in loads.items():
        if texts:
            alike["; ".join(texts)].append(uri)
    for text, uris in alike.items() if len(loads) > 1 else ():
        yield f"load on {'each of ' if len(uris) > 1 else ''}{_named(uris)}: {text}"
    agents = job.agents.count or len(job.agents.names or ())
    if agents > 1:
        # the first has most
        first = [
            one for stream in job.streams for one in _part_text(job, stream, agents, 0)
        ]
        yield f"load of each of {agents} agents, at most: {'; '.join(first)}"


def _part_text(job: Job, stream: Stream, parts: int, index: int) -> Iterator[str]:
    """Yield the highest load of a stream on a server, or of an agent; nothing where it
    has no connections."""
    total = stream.load.total_connections
    connections = share(total, parts, index)
    if not connections:
        return
    noun = "client" if stream.load.kind == "closed" else "connection"
    text = f"{connections} {noun}{'s' if connections > 1 else ''}"
    if stream.load.kind == "open" and stream.load.is_known:
        peak = planned_peak(job.run, stream, 0, planned_end_ns(job.run))
        # of paged searches, the first page; a job type says nothing of its requests
        length = per_session(stream, lambda one: one.repeat) if stream.operations else 1
        rate_per_s = peak * NS_PER_S * connections / total * length
        text = f"{rate_per_s:,.4g} requests/s over {text}"
    yield f"{stream.name} {text}"


def _named(uris: Sequence[str]) -> str:
    more = len(uris) - _NAMED
    return ", ".join(uris[:_NAMED]) + (f" and {more} more" if more > 0 else "")
