# SPDX-License-Identifier: Apache-2.0
"""The later sections: load generators, their clocks, method, manifest, servers. Pure.

What differs between the servers' settings may matter to the run and stands in its
manifest; what is the same on all, a page or two of it, comes last.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from ldapslam.jobs.fields.thresholds import (
    SUBJECTS,
    FigureName,
    parse_name,
    samples_needed,
)
from ldapslam.reports.charts.chart_data import STRIPS, strip_percentile
from ldapslam.reports.collect.timeline import NS_PER_S, Series
from ldapslam.reports.document import (
    BAD,
    NOTHING,
    Blocks,
    Cell,
    ChartPlace,
    Column,
    Field,
    Listing,
    Paragraph,
    Table,
    column,
    number,
    table,
)
from ldapslam.reports.figures import Figure
from ldapslam.reports.model import Summary
from ldapslam.reports.result import manifest_of
from ldapslam.reports.streams import AgentSummary
from ldapslam.reports.typeset import (
    compared,
    count,
    counted,
    decimal,
    figure_columns,
    flattened,
    milliseconds,
    time_of_day,
)
from ldapslam.results.facts import (
    AgentFacts,
    Manifest,
    Observation,
    Said,
    ServerIdentity,
)

_METHOD = (
    "Response time runs from the moment the schedule intended a request to be sent "
    "until the kernel had received the last byte of its final response; service time "
    "runs from the sending. Backlog wait is the time until a connection had a free "
    "slot, and part of the response time. Send lag and receive lag are the load "
    "generator's own delays; receive lag is part of no other time.",
    "Percentiles come from the merged histograms of all agents, never from averaged "
    "percentiles; their buckets are no wider than 0.1% of the value. Confidence "
    "intervals are of 95%: order statistics of the effective sample, which is smaller "
    "where response times that follow each other are alike.",
    "Percentiles cover requests with an intended start in the measure phase, "
    "throughput the completions that happened in it. Requests that had no answer, "
    "because they timed out or were lost, rank above every response time and service "
    "time; means and maxima are not given where there are any.",
)

#: Rows of the log, at most.
_EVENTS = 200
#: Facts of agents that are long, and of interest to programs only, or elsewhere.
_IN_RESULT = (
    "attempt",
    "clean_up",
    "notes",
    "control_operations",
    "epoch",
    "later_operations",
    "observer",
    "python_expected_codes",
    "python_requests",
    "targets",
)

#: Keys of the manifest with a place of their own, or of interest only to programs.
_ELSEWHERE = (
    "job_text",
    "agents",
    "phases",
    "planned_agents",
    "servers",
    "control_operations",
    "observations",
    "observer_cost",
    "replication",
    "t0",
    "ending",
)


def agents(summary: Summary) -> Blocks:
    """How hard the generator worked: was it the limit?"""
    return strips_of("agent", summary.timeline.agents), _agents(summary)


def strips_of(what: str, members: Mapping[str, Series]) -> ChartPlace | None:
    """Return the chart of several agents, or servers, over time; none if there are too
    many for their response times over time to be collected."""
    has_times = any(any(one.p90_us) for one in members.values())
    if len(members) < 2 or not has_times:
        return None
    percentile = strip_percentile(members)
    needed = count(samples_needed(99))
    few = f" No point has the {needed} requests that a p99 needs." * (
        percentile != "p99"
    )
    more = (
        f" The {STRIPS} that differ most from the median of all {len(members)} {what}s."
        if len(members) > STRIPS
        else ""
    )
    return ChartPlace(
        f"{what}_strips",
        f"{what.capitalize()}s over time",
        f"Throughput and {percentile} of the response time of successes on each "
        f"{what}, all operations together, on one scale each; grey: the median of "
        f"all at that time.{few}{more}",
    )


def hosts(summary: Summary) -> Blocks:
    """What the agents' hosts took from them, over time and in all, and their clocks."""
    return (
        ChartPlace(
            "workers",
            "Busy share of the workers",
            "Solid: share of each interval in which the agent's busiest worker thread "
            "was busy. Dotted: share in which one waited for a CPU. Dashed: the limit, "
            "above which the interval counts as saturated.",
        ),
        _hosts(summary),
        _start(summary),
        _over_run(summary),
        _steps(summary),
        _clean_up(summary),
    )


def _figures(
    summary: Summary, name: str, caption: str, texts: str, *more: Field[AgentSummary]
) -> Table:
    """Return a table of figures of the agents, and what each of them is."""
    names = [parse_name(f"agent(*).{text}") for text in texts.split()]
    known = {one.key: one for one in summary.figures}
    abouts = {SUBJECTS["agent"].metrics[one.metric].about: one.words for one in names}
    notes = "; ".join(f"{words}: {about}" for about, words in abouts.items())

    def read(agent: AgentSummary, name: FigureName) -> Figure | None:
        return known.get(replace(name, subject=agent.name))

    return table(
        name,
        caption,
        summary.agents,
        column("Agent", lambda one: one.name),
        *figure_columns(names, read),
        *more,
        notes=(f"{notes}.",),
    )


def _agents(summary: Summary) -> Table:
    return _figures(
        *(summary, "agents", "Agents in the measure phase"),
        "throughput failed response_time.p50 response_time.p99 cpu_per_operation cpu "
        "busy_share highest_busy_share highest_run_queue_share",
    )


def _hosts(summary: Summary) -> Table:
    """What the hosts took from their agents."""
    return _figures(
        *(summary, "hosts", "Agents' hosts in the measure phase"),
        "highest_steal_share throttled longest_hiccup stalled_share",
    )


def method() -> Blocks:
    return map(Paragraph, _METHOD)


def manifest(summary: Summary) -> Blocks:
    content, of_run = manifest_of(summary), summary.run.manifest
    shown = {key: value for key, value in content.items() if key not in _ELSEWHERE}
    shown["servers"] = products(of_run, summary.facts)
    return (
        _facts_table(
            "facts", "Run", [row for row in flattened(shown) if row[1] != NOTHING]
        ),
        differing(of_run),
        _agent_facts(summary.facts),
        _events(summary),
        Listing("Job file", summary.run.job_text.rstrip()),
    )


def _events(summary: Summary) -> Table:
    """The run's log; its numbers are in the charts."""
    return table(
        "events",
        "Events",
        enumerate(summary.events, 1),
        column("No.", lambda row: str(row[0])),
        column("Time (UTC)", lambda row: row[1].at_utc[:19].replace("T", " ")),
        number(
            "since T0 (s)", lambda row: decimal(summary.since_start_s(row[1].at_utc), 1)
        ),
        column("Event", lambda row: row[1].kind),
        column("", lambda row: row[1].text),
        limit=_EVENTS,
    )


def _clean_up(summary: Summary) -> Table:
    return table(
        "clean-up",
        "Clean-up: entries that the run had added, and not deleted as far as it knew",
        [
            (agent.name, agent.facts.clean_up)
            for agent in summary.agents
            if agent.facts.clean_up
        ],
        column("Agent", lambda row: row[0]),
        number("to remove", lambda row: count(row[1].entries)),
        number("removed", lambda row: count(row[1].deleted)),
        number("not there", lambda row: count(row[1].already_gone)),
        number("left", lambda row: Cell(count(row[1].left), BAD * bool(row[1].left))),
        number("time (s)", lambda row: decimal(row[1].seconds, 1)),
        column("Problem", lambda row: Cell(row[1].error or "", BAD)),
        notes=(
            "not there: the load ended before the response to the run's own delete, "
            "its add had not succeeded, or another client had deleted it. left: still "
            "there, or perhaps not the run's.",
        ),
    )


def _facts_table(
    name: str, caption: str, facts: Iterable[tuple[str, str]], *notes: str
) -> Table:
    return table(
        name,
        caption,
        facts,
        column("Name", lambda row: row[0]),
        column("Value", lambda row: row[1]),
        notes=notes,
    )


def _agent_facts(agents: Mapping[str, AgentFacts]) -> Table:
    """The facts of agents: once, where all of them agree."""
    facts = {
        name: {
            key: value
            for key, value in known.document().items()
            if key not in _IN_RESULT
        }
        for name, known in agents.items()
    }
    return _facts_table(
        "facts-agents",
        "Agents",
        [
            (key, _joined(of))
            for key, of in compared(facts).items()
            if not key.endswith("boot id")
        ],
        "What each agent found out about its targets is in result.json.",
    )


def _joined(values: Mapping[str, str]) -> str:
    """Return the common value, or each owner's."""
    if len(set(values.values())) == 1:
        return next(iter(values.values()))
    return ", ".join(f"{name}: {value}" for name, value in values.items())


_ROWS = 50
_NS_PER_MS = 1_000_000


def _start(summary: Summary) -> Table:
    return _figures(
        *(summary, "clocks", "Clocks and completeness"),
        "start_error clock_offset clock_step",
        number(
            "offset known within (± ms)",
            lambda one: milliseconds(one.facts.clock_offset_bound_us),
        ),
        number("intervals", lambda one: count(len(one.totals.seen))),
        number("missing", lambda one: counted(summary.completeness.missing[one.name])),
    )


def _over_run(summary: Summary) -> Table:
    limit_ms = summary.clock_deviation_limit_ns / _NS_PER_MS
    return table(
        "clock-drift",
        "Agents' clocks against the coordinator's, all through the run",
        summary.clocks.items(),
        column("Agent", lambda row: row[0]),
        number("samples", lambda row: count(len(row[1].deviations))),
        number(
            "largest deviation (ms)",
            lambda row: decimal(row[1].largest.ns / _NS_PER_MS, 3),
        ),
        number(
            "known within (± ms)",
            lambda row: decimal(row[1].largest.bound_ns / _NS_PER_MS, 3),
        ),
        number("at (s)", lambda row: decimal(row[1].largest.at_s, 1)),
        number("steps", lambda row: counted(row[1].step_count)),
        notes=(
            "Deviation: how far the agent's intervals were from where the "
            f"coordinator's clock has them; the limit is {decimal(limit_ms, 3)} ms. By "
            "as much a statistic of one interval over all agents may be off in time; "
            "totals and percentiles of the run do not depend on it.",
        ),
    )


def _steps(summary: Summary) -> Table:
    """Steps of either clock."""
    steps = [
        (one.at_s, name, "monotonic", one.ns)
        for name, clock in summary.clocks.items()
        for one in clock.steps
    ]
    for agent in summary.agents:
        for index, step_ns in agent.totals.clock_steps_ns.items():
            start_s = index * summary.interval_s
            if index < len(summary.boundaries_ns):
                start_s = summary.boundaries_ns[index] / NS_PER_S
            steps.append((start_s, agent.name, "wall", float(step_ns)))
    steps.sort()
    known = sum(agent.totals.stepped for agent in summary.agents)
    known += sum(clock.step_count for clock in summary.clocks.values())
    more = known - len(steps[:_ROWS])
    return table(
        "clock-steps",
        "Steps of clocks",
        steps[:_ROWS],
        column("Agent", lambda row: row[1]),
        column("Clock", lambda row: row[2]),
        number("by (ms)", lambda row: decimal(row[3] / _NS_PER_MS, 3)),
        number("up to (s)", lambda row: decimal(row[0], 1)),
        number("up to (UTC)", lambda row: time_of_day(summary.started_utc, row[0])),
        notes=(
            "wall: the time of day, against the agent's own monotonic clock. "
            "monotonic: that clock, against the coordinator's. The step was in the "
            "interval, or between the two samples, that ended then.",
            *[f"{count(more)} more are not listed."] * (more > 0),
        ),
    )


#: Servers that have a column each.
_COLUMNS = 3
#: Characters of a setting and its value up to which two settings share a row.
_SHORT = 56
_SETTING = (Column("Setting"), Column("Value"))
_NOTE = "Before the load, as far as the servers let the run's user read it."


_BUILT = re.compile(r" \([A-Z][a-z]{2} [ \d]\d \d{4} [\d:]+\)$")


def products(manifest: Manifest, agents: Mapping[str, AgentFacts]) -> str:
    """Return the products of the servers, by the facts that they report."""
    uris: dict[str, list[str]] = {}
    for uri, facts in _facts(manifest).items():
        said = {key: str(of) for key, of in facts.items() if of}
        words = [of for key, of in said.items() if "vendor" in key or "version" in key]
        has_version = any("version" in key for key in said)
        if not has_version and said.get("kind") == "slapd":
            words.append("slapd")
        # slapd says its vendor in its version, too, and when it was built
        named = " ".join(
            _BUILT.sub("", one)
            for one in words
            if not any(one in w for w in words if w != one)
        )
        if named and not has_version:
            named += f", version not readable{_reader(agents, uri)}"
        uris.setdefault(named or "product unknown", []).append(uri)
    return "; ".join(f"{named}: {', '.join(of)}" for named, of in uris.items())


def _reader(agents: Mapping[str, AgentFacts], uri: str) -> str:
    """The identity with which agents have asked a server; empty where not known."""
    for facts in agents.values():
        for target in facts.targets:
            if target.uri == uri:
                return f" as {target.bind_dn}" if target.bind_dn else " anonymously"
    return ""


def differing(manifest: Manifest) -> Table:
    """The settings that are not the same on all servers."""
    facts = _facts(manifest)
    rows = {
        name: of for name, of in compared(facts).items() if len(set(of.values())) > 1
    }
    columns = (Column("Setting"), *map(Column, facts))
    cells: Iterable[tuple[str, ...]] = (
        (name, *of.values()) for name, of in rows.items()
    )
    if len(facts) > _COLUMNS:
        columns = (Column("Setting"), Column("Server"), Column("Value"))
        cells = ((name, *one) for name, of in rows.items() for one in of.items())
    caption = "Servers: what differs between them"
    return Table("facts-servers", caption, columns, _rows(cells), (_NOTE,))


def shared(manifest: Manifest) -> tuple[Table, ...]:
    """Return the settings that all servers share; short settings are in pairs."""
    facts = _facts(manifest)
    rows = [
        (name, next(iter(of.values())))
        for name, of in compared(facts).items()
        if len(set(of.values())) == 1
    ]
    short = [one for one in rows if len(one[0]) + len(one[1]) <= _SHORT]
    long = [one for one in rows if len(one[0]) + len(one[1]) > _SHORT]
    half = (len(short) + 1) // 2
    pairs = zip(short[:half], [*short[half:], ("", "")], strict=False)
    cells = ((*left, *right) for left, right in pairs)
    caption = "The same on all servers" if len(facts) > 1 else f"Of {''.join(facts)}"
    return (
        Table("settings", caption, (*_SETTING, *_SETTING), _rows(cells), (_NOTE,)),
        Table("settings-long", "With longer values", _SETTING, _rows(long)),
    )


def _facts(manifest: Manifest) -> dict[str, Said]:
    """Return the facts of each server that a monitor read, else that agents read."""
    facts: dict[str, Said] = {}
    for uri in dict.fromkeys((*manifest.servers, *manifest.observations)):
        of_agents = manifest.servers.get(uri, ServerIdentity()).document()
        observed = manifest.observations.get(uri, Observation()).facts
        if observed:
            addresses = {"addresses": of_agents.get("addresses")}
            facts[uri] = {**(addresses if of_agents else {}), **observed}
        elif of_agents:
            facts[uri] = of_agents
    return facts


def _rows(rows: Iterable[tuple[str, ...]]) -> tuple[tuple[Cell, ...], ...]:
    return tuple(tuple(map(Cell, row)) for row in rows)
