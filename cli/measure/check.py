# SPDX-License-Identifier: Apache-2.0
"""`check`: everything that can be known of a job before it puts load on anything.

The file is always checked whole. Then, unless --offline, every server is reached, bound
to and asked for its version, as agents will do, but from this host and with this user's
secrets; monitors, probes and imports are tried too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click

from ldapslam.base.errors import ExitCode
from ldapslam.base.units import format_duration, format_rate
from ldapslam.cli.console import json_option, put, put_json, say
from ldapslam.cli.measure import check_servers
from ldapslam.cli.measure.check_servers import Document, Faults
from ldapslam.cli.measure.replay import explain_replays
from ldapslam.cli.options import change_options, flag, job_argument
from ldapslam.cli.submission import check_size_of_files
from ldapslam.jobs.doubts import doubts
from ldapslam.jobs.load import load_job
from ldapslam.jobs.model import Job, Stream
from ldapslam.jobs.operations.sequence import sessions_of
from ldapslam.jobs.plan import (
    AgentPlan,
    agent_plan,
    measure_span,
    phase_spans,
    planned_arrivals,
    stream_profile,
)
from ldapslam.jobs.rates.profile import peak_rate
from ldapslam.jobs.requests.dn import plain_dn

#: Trees of the server itself, which it need not name among its own.
_OWN_TREES = ("cn=monitor", "cn=config", "cn=schema", "cn=subschema")


@click.command("check")
@job_argument
@change_options
@flag("--offline", "The file alone; reach no server.")
@json_option
def check_command(
    job_file: Path, overrides: tuple[str, ...], offline: bool, as_json: bool
) -> ExitCode:
    """Check JOB before it runs, and explain what it would do."""
    job = load_job(job_file, overrides)
    check_size_of_files(job)
    if not as_json:
        put("\n".join([*_explain(job), *explain_replays(job)]))
    for warning in doubts(job):
        say(f"warning: {warning}")
    faults = Faults(as_json=as_json)
    asked = ("servers", "watched", "monitors", "imports", "probes")
    found: Document = {**{name: [] for name in asked}, "verify": None}
    if not offline:
        found = _ask_all(job, faults)
    if as_json:
        put_json({"job": job.name, "plan": _plan_document(job), **found})
    return faults.exit_code


def _ask_all(job: Job, faults: Faults) -> Document:
    """The servers, for all that the run will ask of them."""
    # One agent for all: it has every connection, so it uses every server.
    plan = agent_plan(job, agent_index=0, agent_count=1, seed=0)
    observed = check_servers.observed_servers(job)
    return {
        "servers": _ask_servers(job, plan, faults),
        "watched": check_servers.ask_watched(observed, faults),
        "monitors": check_servers.ask_monitors(job, observed, faults),
        "imports": check_servers.ask_imports(plan, faults),
        "probes": check_servers.ask_probes(plan, faults),
        "verify": check_servers.ask_verification(job, observed, faults),
    }


def _ask_servers(job: Job, plan: AgentPlan, faults: Faults) -> list[Document]:
    """Every server as every stream uses it; all that fail, not the first alone."""
    from ldapslam.agent.admission.preflight import Probe, preflight, probes

    def ask(probe: Probe) -> tuple[Document, str]:
        facts = preflight(probe)
        for warning in _strange_bases(job, facts):
            say(f"warning: {warning}")
        return facts, _server_line(facts)

    return [faults.ask({"uri": one.uri}, ask, one) for one in probes(plan)]


def _strange_bases(job: Job, facts: Document) -> Iterator[str]:
    """Entries that the job names and that lie in none of a server's trees."""
    contexts = [plain_dn(dn) for dn in facts.get("naming_contexts") or ()]
    if not contexts:
        return
    for stream in job.streams:
        if facts["uri"] not in job.targets[stream.target]:
            continue
        sessions = sessions_of(stream.operations)
        for request in (one for session in sessions for one in session.requests):
            body = request.step.body
            dn = getattr(body, "base", None) or getattr(body, "dn", None) or ""
            # what follows the last pattern is the same in every request
            tail = plain_dn(dn.rpartition("]")[2])
            if tail.startswith(_OWN_TREES) or not tail:
                continue
            if not any(tail == one or tail.endswith(f",{one}") for one in contexts):
                yield (
                    f"{stream.name}.{request.name}: {dn!r} lies in none of the trees "
                    f"of {facts['uri']}: {'; '.join(facts['naming_contexts'])}"
                )


def _server_line(facts: Document) -> str:
    who = facts.get("bind_dn") or "anonymous"
    transport = "with TLS" if facts["tls"] else "without TLS"
    version = facts.get("vendor_version") or facts.get("monitor_version")
    vendor = [facts.get("vendor_name"), facts.get("vendor_version")]
    server = " ".join(filter(None, vendor)) or version or "unknown"
    if not version:
        server += ", version not readable: -D, or the job's `bind`, may read it"
    line = f"{facts['uri']}: ready, as {who}, {transport}; server: {server}"
    if population := facts.get("population"):
        line += f"; population: all {population['sampled']:,} sampled entries are there"
    return line


def _explain(job: Job) -> Iterator[str]:
    """The job in words: who, how long, how much."""
    spans = phase_spans(job.run)
    lengths = ((one.name, format_duration(one.end_ns - one.start_ns)) for one in spans)
    yield f"job {job.name}" + (f": {job.description}" if job.description else "")
    end = ""
    if all(one.count or one.replay for one in job.streams):
        end = "; at most: the run ends when its streams have sent all that they have"
    yield f"phases: {', '.join(map(' '.join, lengths))}{end}"
    for stream in job.streams:
        yield _stream_line(job, stream)
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


def _stream_line(job: Job, stream: Stream) -> str:
    operations = ", ".join(name for name, _ in stream.request_names)
    servers = ", ".join(job.targets[stream.target])
    count = f", {stream.count:,} in all" if stream.count else ""
    load = _load_text(job, stream)
    return f"stream {stream.name}: {operations} on {servers}; {load}{count}"


def _load_text(job: Job, stream: Stream) -> str:
    if stream.load.closed is not None:
        think_ns = stream.load.closed.think_time_ns
        think = f", think time {format_duration(think_ns)}" if think_ns else ""
        return f"closed loop, {stream.load.closed.clients} clients{think}"
    if stream.load.replay is not None:
        replay = stream.load.replay
        speed = f"at {replay.speed}" if replay.factor else "as fast as possible"
        return f"a log {speed}, {replay.connections} connections"
    load = stream.load.open
    assert load is not None, "a stream's load is closed, open or a replay"
    measure = measure_span(job.run)
    if load.rate is not None and load.stages is None:
        rate = format_rate(load.rate)
    elif load.is_known:
        rate = f"up to {peak_rate(stream_profile(job.run, stream)) * 1e9:.6g}/s"
    else:
        rate = "rates of a file"
    planned = ""
    if load.is_known:
        due = planned_arrivals(job.run, stream, measure.start_ns, measure.end_ns)
        planned = f", {due:,.0f} arrivals to be measured"
    return f"open loop, {rate} {load.arrivals}, {load.connections} connections{planned}"


def _plan_document(job: Job) -> Document:
    return {
        "phases": [asdict(span) for span in phase_spans(job.run)],
        "streams": [
            {
                "name": stream.name,
                "servers": list(job.targets[stream.target]),
                "load": stream.load.model_dump(
                    mode="json", by_alias=True, exclude_none=True
                ),
                "operations": [name for name, _ in stream.request_names],
            }
            for stream in job.streams
        ],
        "thresholds": list(job.thresholds),
    }
