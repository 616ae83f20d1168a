# SPDX-License-Identifier: Apache-2.0
"""The later sections of the report: load generators, method, manifest. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ldapslam.reports.document import (
    BAD,
    Block,
    Cell,
    ChartPlace,
    Column,
    Listing,
    Paragraph,
    Table,
)
from ldapslam.reports.result import manifest_of
from ldapslam.reports.sections import clock_section, settings_section
from ldapslam.reports.sections.flat_facts import compared, flattened
from ldapslam.reports.summary import AgentSummary, Summary
from ldapslam.reports.typeset import (
    NOTHING,
    count,
    decimal,
    milliseconds,
    percent,
)

_METHOD = (
    "Response time runs from the moment the schedule intended a request to be sent "
    "until the kernel had received the last byte of its final response; service time "
    "runs from the sending. Backlog wait is the time until a connection had a free "
    "slot, and part of the response time. Send lag and receive lag are the load "
    "generator's own delays; receive lag is part of no other time.",
    "Percentiles come from the merged histograms of all agents, never from averaged "
    "percentiles; their buckets are no wider than 0.1% of the value. Confidence "
    "intervals are 95% order-statistic intervals. They take values for independent; "
    "response times that follow each other seldom are, so the true interval is wider.",
    "Percentiles cover the requests whose intended time lies in the measure phase, "
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
    "later_operations",
    "observer",
    "python_requests",
    "targets",
)

_CLEAN_UP = {
    "entries": "entries",
    "deleted": "deleted",
    "already_gone": "already gone",
    "left": "left",
}

#: Of the manifest's keys, those with a place of their own, or of interest to programs.
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


def agents(summary: Summary) -> tuple[Block, ...]:
    figures = Table(
        "agents",
        "Agents in the measure phase",
        (
            Column("Agent"),
            Column("throughput", "/s", True),
            Column("failed", "", True),
            Column("p50", "ms", True),
            Column("p99", "ms", True),
            Column("CPU per op", "µs", True),
            Column("host CPU", "%", True),
            Column("workers busy", "%", True),
            Column("busiest interval", "%", True),
            Column("CPU wait", "%", True),
        ),
        tuple(_agent_row(agent) for agent in summary.agents),
        (
            "CPU wait: the largest share of an interval in which a worker was ready "
            "to run and had no CPU.",
        ),
    )
    return (
        ChartPlace(
            "agents",
            "Agents compared",
            "Throughput and response-time percentiles of successes on each agent.",
        ),
        figures,
        ChartPlace(
            "workers",
            "Busy share of the workers",
            "Share of each interval in which the agent's busiest worker thread was "
            "busy, and in which one waited for a CPU; above the limit the interval "
            "counts as saturated.",
        ),
        *clock_section.clocks(summary),
        *_clean_up(summary),
    )


def method() -> tuple[Block, ...]:
    return tuple(Paragraph(text) for text in _METHOD)


def manifest(summary: Summary) -> tuple[Block, ...]:
    content = manifest_of(summary)
    shown = {key: value for key, value in content.items() if key not in _ELSEWHERE}
    shown["servers"] = settings_section.products(content)
    blocks: list[Block] = [
        _facts_table("facts", "Run", shown),
        *settings_section.differing(content),
        _agent_facts(content["agents"]),
    ]
    if summary.events:
        blocks.append(_events(summary))
    blocks.append(Listing("Job file", summary.run.job_text.rstrip()))
    return tuple(blocks)


def _events(summary: Summary) -> Table:
    """The run's log; its numbers are in the charts."""
    more = len(summary.events) - _EVENTS
    return Table(
        "events",
        "Events",
        (
            Column("No."),
            Column("Time (UTC)"),
            Column("since T0", "s", True),
            Column("Event"),
            Column(""),
        ),
        tuple(
            (
                Cell(str(number)),
                Cell(event.at_utc[:19].replace("T", " ")),
                Cell(decimal(summary.since_start_s(event.at_utc), 1)),
                Cell(event.kind),
                Cell(event.text),
            )
            for number, event in enumerate(summary.events[:_EVENTS], 1)
        ),
        (f"and {count(more)} more: result.json has all of them",) if more > 0 else (),
    )


def _agent_row(agent: AgentSummary) -> tuple[Cell, ...]:
    times = agent.response_times.percentiles_us
    return (
        Cell(agent.name),
        Cell(decimal(agent.throughput_per_s)),
        Cell(count(agent.failed)),
        Cell(milliseconds(times["p50"])),
        Cell(milliseconds(times["p99"])),
        Cell(decimal(agent.cpu_us_per_op)),
        Cell(percent(agent.cpu_utilisation, 1)),
        Cell(percent(agent.busy_share, 1)),
        Cell(percent(agent.highest_busy_share, 1)),
        Cell(percent(agent.highest_run_queue_share, 1)),
    )


def _clean_up(summary: Summary) -> list[Block]:
    done = [
        (agent.name, agent.facts["clean_up"])
        for agent in summary.agents
        if agent.facts.get("clean_up")
    ]
    if not done:
        return []
    rows = tuple(
        (
            Cell(agent),
            *(
                Cell(count(facts.get(key)), BAD if key == "left" and facts[key] else "")
                if key in facts
                else Cell(NOTHING)
                for key in _CLEAN_UP
            ),
            Cell(decimal(facts.get("seconds"), 1)),
            Cell(facts.get("error") or "", BAD),
        )
        for agent, facts in done
    )
    table = Table(
        "clean-up",
        "Clean-up of the entries that the run had added and not deleted",
        (
            Column("Agent"),
            *(Column(title, "", True) for title in _CLEAN_UP.values()),
            Column("time", "s", True),
            Column("Problem"),
        ),
        rows,
    )
    return [table]


def _facts_table(name: str, caption: str, facts: Mapping[str, Any]) -> Table:
    return Table(
        name,
        caption,
        (Column("Fact"), Column("Value")),
        tuple(
            (Cell(key), Cell(value))
            for key, value in flattened(facts)
            if value != NOTHING
        ),
    )


def _agent_facts(agents: Mapping[str, Mapping[str, Any]]) -> Table:
    """What the agents said of themselves: once, where all of them agree."""
    facts = {
        name: {key: value for key, value in of.items() if key not in _IN_RESULT}
        for name, of in agents.items()
    }
    return Table(
        "facts-agents",
        "Agents",
        (Column("Fact"), Column("Value")),
        tuple((Cell(key), Cell(_joined(of))) for key, of in compared(facts).items()),
        ("What each agent found out about its targets is in result.json.",),
    )


def _joined(values: Mapping[str, str]) -> str:
    """One value when all agree, else each one's."""
    if len(set(values.values())) == 1:
        return next(iter(values.values()))
    return ", ".join(f"{name}: {value}" for name, value in values.items())
