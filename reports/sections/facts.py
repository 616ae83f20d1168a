# SPDX-License-Identifier: Apache-2.0
"""The lines below the verdict: the run, the load, the requests, the identity of the
connections, the system, and the clean-up. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ldapslam.base.units import format_duration
from ldapslam.jobs.run_plan import PlannedStream
from ldapslam.reports.collect.completeness import losses_of
from ldapslam.reports.model import Summary
from ldapslam.reports.result import populations_of
from ldapslam.reports.sections.appendix import products
from ldapslam.reports.typeset import count, grouped, number_of, seconds
from ldapslam.results.facts import AgentFacts

Facts = tuple[tuple[str, str], ...]

#: What is shown of the operations, and characters of each; the job file has the rest.
_OPERATIONS = 5
_LONGEST = 140
#: A person's name.
_ARRIVALS = {"poisson": "Poisson"}


def facts(summary: Summary) -> Facts:
    started = f"{summary.started_utc[:19].replace('T', ' ')} UTC"
    length = (
        f"{seconds(summary.measure_s)} in intervals of {seconds(summary.interval_s)}"
    )
    plan = summary.run.plan
    load = (_load(plan.stream(stream.name)) for stream in summary.streams)
    return (
        ("Run", f"{summary.run.run_id}, started {started}"),
        ("Measured", f"{length}, by {number_of(len(summary.run.agents), 'agent')}"),
        ("Load", ", ".join(load)),
        *_requests(plan.streams),
        *_connections(plan.streams),
        ("System", _system(summary)),
        *_clean_up(summary),
        *_digest(summary),
    )


def _load(stream: PlannedStream) -> str:
    how = ""
    if stream.model == "open" and stream.rate_per_s is not None:
        load = f"{_rate(stream)} open loop"
        if connections := stream.connections:
            how = f", {number_of(connections, 'connection')}"
    elif stream.clients is not None:
        load = f"{number_of(stream.clients, 'client')} closed loop"
        if think_ns := stream.think_time_ns:
            how = f", think time {format_duration(think_ns)}"
    else:
        load = stream.model
    if requests := stream.reconnect_operations:
        each = "each request" if requests == 1 else f"every {requests:,} requests"
        how += f", a new connection for {each}"
    if reconnect_ns := stream.reconnect_ns:
        how += f", a new connection every {format_duration(reconnect_ns)}"
    if arrivals := stream.arrivals:
        how += f", {_ARRIVALS.get(arrivals, arrivals)} arrivals"
    return grouped(f"{stream.name} ({load} on {stream.target}{how})")


def _rate(stream: PlannedStream) -> str:
    rate = f"{stream.rate_per_s:,.6g}/s"
    peak = stream.peak_rate_per_s
    if peak is None or peak <= (stream.rate_per_s or 0) * 1.001:
        return rate
    return f"{rate} on average, at most {peak:,.6g}/s,"


def _requests(streams: Iterable[PlannedStream]) -> Iterator[tuple[str, str]]:
    """What is asked for."""
    found = [
        f"{stream.name}.{operation.name}: {_shortened(operation.about)}"
        for stream in streams
        for operation in stream.operations
        if operation.about
    ]
    if found:
        more = len(found) - _OPERATIONS
        left_out = [f"and {more} more: see the job file"] * (more > 0)
        yield "Requests", "; ".join((*found[:_OPERATIONS], *left_out))


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _connections(streams: Iterable[PlannedStream]) -> Iterator[tuple[str, str]]:
    """Their identity and protection: once, where streams agree."""
    texts = {
        stream.name: f"{_bound_as(stream.identity)}, {stream.tls}"
        for stream in streams
        if stream.identity
    }
    if len(set(texts.values())) == 1:
        yield "Connections", next(iter(texts.values()))
    elif texts:
        every = (f"{name}: {text}" for name, text in texts.items())
        yield "Connections", "; ".join(every)


def _bound_as(identity: str) -> str:
    """Return the text of a stream's identity in the plan."""
    if identity == "anonymous":
        return identity
    kind = "" if identity.startswith("SASL ") else " (simple bind)"
    return f"bound as {identity}{kind}"


def _system(summary: Summary) -> str:
    """The servers and what they hold."""
    found = products(summary.run.manifest, summary.facts)
    found = found or "servers that nobody could ask"
    for population, _ in populations_of(summary.facts):
        return f"{found}, {count(population.entries)} entries"
    return found


def _clean_up(summary: Summary) -> Iterator[tuple[str, str]]:
    """Yield that all entries are removed; entries that remain are a caution."""
    found = [one for facts in summary.facts.values() if (one := facts.clean_up)]
    is_left = any(one.has_left_entries for one in found)
    losses = losses_of(summary.events, summary.run.agents, summary.run.t0_utc)
    is_left |= any(not summary.facts.get(one, AgentFacts()).clean_up for one in losses)
    if any(one.entries for one in found) and not is_left:
        removed = sum(one.deleted or 0 for one in found)
        yield "Clean-up", f"removed {count(removed)} entries, 0 left"


def _digest(summary: Summary) -> Iterator[tuple[str, str]]:
    digest = summary.run.digest
    if digest is None and summary.run.verdict is not None:
        yield "Digest", "none"
    if digest is None or summary.altered:
        return
    signature = digest["signature"]
    by = f", signed by {signature['signer']}" if signature else ", not signed"
    yield "SHA-256", f"{digest['sha256']}{by}"
