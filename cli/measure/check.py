# SPDX-License-Identifier: Apache-2.0
"""`check`: everything that can be known of a job before it puts load on anything.

The file is always checked whole. Then, unless --offline, every server is reached, bound
to and asked for its version, as agents will do, but from this host and with this user's
secrets; monitors, probes and imports are tried too.
"""

from __future__ import annotations

from pathlib import Path

import click

from ldapslam.base.errors import ExitCode, LdapSlamError
from ldapslam.base.units import Rate, format_rate, parse_rate
from ldapslam.cli.command import command
from ldapslam.cli.console import put_json, wants_json
from ldapslam.cli.measure import check_servers
from ldapslam.cli.measure.check_plan import explain
from ldapslam.cli.measure.check_servers import Document, Faults
from ldapslam.cli.measure.check_trace import explain_traces
from ldapslam.cli.options import FILE, change_options, flag, option
from ldapslam.cli.submission import check_size_of_files
from ldapslam.jobs.doubts import doubts, unsupported_thresholds
from ldapslam.jobs.fields.remedies import BOUND_BEFORE, UNTOLD
from ldapslam.jobs.load import load_job
from ldapslam.jobs.model import Job
from ldapslam.jobs.plan import AgentPlan, agent_plan


@command("check")
@click.argument("job_file", metavar="JOB", required=False, type=FILE)
@change_options
@flag("--offline", "The file alone; reach no server.")
@option(
    "--samples N",
    "Sessions of each kind that are sent to each server, one after the other; 0: none.",
    type=click.IntRange(0, 100),
    default=10,
)
@flag(
    "--generator",
    "In place of JOB, measure the generator itself against a built-in responder on "
    "this host; ends with 3 (INVALID) when runs from here could not be certified.",
)
@option(
    "-r --rate RATE",
    "Of --generator: arrivals of its open loop.",
    default="5k/s",
    parse=parse_rate,
)
def check_command(
    job_file: Path | None,
    overrides: tuple[str, ...],
    offline: bool,
    samples: int,
    generator: bool,
    rate: Rate,
) -> ExitCode:
    """Check JOB before it runs: what it would do, and what a few of its requests meet.

    Writes are rehearsed by modifies that cannot succeed. Ends with 0 where the run
    would begin, whatever the warnings; with 1 where no sampled request of an operation
    succeeded, or all rehearsals of a write were refused.
    """
    if generator:
        if job_file is not None:
            raise click.UsageError("--generator stands in place of a JOB")
        from ldapslam.cli.measure.generator import check_generator

        return check_generator(format_rate(rate))
    if job_file is None:
        raise click.UsageError("give a JOB to check, or --generator")
    job = load_job(job_file, overrides)
    check_size_of_files(job)
    faults = Faults()
    plan = [*explain(job), *explain_traces(job)]
    for line in plan:
        faults.put(line)
    for doubt in doubts(job):
        faults.warn(doubt)
    asked = ("servers", "watched", "monitors", "imports", "probes", "samples")
    found: Document = {**{name: [] for name in asked}, "verify": None}
    if not offline:
        found = _ask_all(job, faults)
        found["samples"] = _sample(job, samples, faults) if samples else []
    faults.tell_warnings()
    if wants_json():
        warnings = {"warnings": faults.warnings}
        put_json({"job": job.name, "plan": plan, **found, **warnings})
    if faults.exit_code is ExitCode.PASS and any(map(_is_hopeless, found["samples"])):
        return ExitCode.FAIL
    return faults.exit_code


def _is_hopeless(sample: Document) -> bool:
    """Whether requests were sent, and none ended as it should: a rehearsal does where
    the server would make the change, or does not tell."""
    if not sample.get("sent") or sample["succeeded"] or sample["expected"]:
        return False
    return not (
        sample["rehearsal"] and UNTOLD & {int(c) for c in sample["result_codes"]}
    )


def _ask_all(job: Job, faults: Faults) -> Document:
    """The servers, for all that the run will ask of them."""
    # One agent for all: it has every connection, so it uses every server.
    plan = agent_plan(job, agent_index=0, agent_count=1, seed=0)
    observed = check_servers.observed_servers(job)
    return {
        "servers": _ask_servers(plan, faults),
        "watched": check_servers.ask_watched(observed, faults),
        "monitors": check_servers.ask_monitors(job, observed, faults),
        "imports": check_servers.ask_imports(plan, faults),
        "probes": check_servers.ask_probes(plan, faults),
        "verify": check_servers.ask_verification(job, observed, faults),
    }


def _ask_servers(plan: AgentPlan, faults: Faults) -> list[Document]:
    """Every server as every stream uses it; all that fail, not the first alone."""
    from ldapslam.agent.admission.preflight import Probe, preflight, probes

    def ask(probe: Probe) -> tuple[Document, str]:
        facts = preflight(probe)
        return facts, _server_line(facts)

    return [faults.ask({"uri": one.uri}, ask, one) for one in probes(plan)]


def _server_line(facts: Document) -> str:
    who = facts.get("bind_dn") or "anonymous"
    transport = "with TLS" if facts["tls"] else "without TLS"
    version = facts.get("vendor_version") or facts.get("monitor_version")
    vendor = [facts.get("vendor_name"), facts.get("vendor_version")]
    server = " ".join(filter(None, vendor)) or version or "unknown"
    if not version:
        server += f", version not readable: {_who_may_read(facts)}"
    line = f"{facts['uri']}: ready, as {who}, {transport}; server: {server}"
    if population := facts.get("population"):
        line += f"; population: all {population['sampled']:,} sampled entries are there"
    return line


def _who_may_read(facts: Document) -> str:
    """What to do about a version that is in none of the usual places."""
    if who := facts.get("bind_dn"):
        return f"{who} may read it neither in the root DSE nor in cn=Monitor"
    return "-D, or the job's `bind`, may read it"


def _sample(job: Job, each: int, faults: Faults) -> list[Document]:
    """A few requests of every stream, on the servers that can be used."""
    from ldapslam.cli.measure.check_findings import (
        expected_requests,
        findings,
        too_few_intervals,
        untried,
    )
    from ldapslam.cli.measure.check_samples import sample
    from ldapslam.cli.measure.check_tables import samples_table
    from ldapslam.jobs.sampling import sample_plans
    from ldapslam.reports.formats.text import render_table

    unusable = faults.unusable(job)
    plans = {plan.streams[0].name: plan for plan in sample_plans(job, each, unusable)}
    documents: list[Document] = []
    for warning in too_few_intervals(job):
        faults.warn(warning)
    for stream in job.streams:
        if unusable.issuperset(job.targets[stream.target]):
            continue
        plan = plans.get(stream.name)
        try:
            met = sample(plan) if plan else []
        except LdapSlamError as error:
            faults.add(error)
            continue
        why = untried(stream, {one.operation for one in met})
        if met:
            faults.put("\n" + render_table(samples_table(stream.name, met, why)))
        else:
            reasons = ", ".join(dict.fromkeys(why.values()))
            faults.put(f"\n{stream.name} has no samples: {reasons}")
        has_changed = job.identity_change(stream)
        who = BOUND_BEFORE if has_changed else job.identity(stream)
        found = findings(stream, met, who)
        expected = expected_requests(job, stream, met)
        for warning in (*found, *unsupported_thresholds(job, expected)):
            faults.warn(warning)
        documents += (one.document() for one in met)
        documents += (
            {"stream": stream.name, "operation": name, "untried": reason}
            for name, reason in why.items()
        )
    return documents
