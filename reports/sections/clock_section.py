# SPDX-License-Identifier: Apache-2.0
"""What a report says of the agents' clocks. Pure."""

from __future__ import annotations

from ldapslam.reports.collect.clocks import Clock
from ldapslam.reports.collect.timeline import NS_PER_S
from ldapslam.reports.document import BAD, Block, Cell, ChartPlace, Column, Table
from ldapslam.reports.summary import AgentSummary, Summary
from ldapslam.reports.typeset import NOTHING, count, decimal, microseconds, time_of_day

_ROWS = 50
_NS_PER_MS = 1_000_000


def clocks(summary: Summary) -> tuple[Block, ...]:
    """Start and completeness of each agent; and its clock over the run, if sampled."""
    blocks: list[Block] = [_start(summary)]
    if summary.clocks:
        place = ChartPlace(
            "clocks",
            "Clocks over the run",
            "How far each agent's intervals were from the coordinator's, with the "
            "bounds of each sample; dashed: the limit.",
        )
        blocks += [place, _over_run(summary)]
    steps = _steps(summary)
    return (*blocks, steps) if steps.rows else tuple(blocks)


def _start(summary: Summary) -> Table:
    return Table(
        "clocks",
        "Clocks and completeness",
        (
            Column("Agent"),
            Column("start error", "µs", True),
            Column("clock offset", "µs", True),
            Column("known within", "± µs", True),
            Column("largest step", "µs", True),
            Column("intervals", "", True),
            Column("missing", "", True),
        ),
        tuple(_start_row(agent) for agent in summary.agents),
    )


def _start_row(agent: AgentSummary) -> tuple[Cell, ...]:
    facts = agent.facts
    return (
        Cell(agent.name),
        *(
            Cell(microseconds(facts.get(name), NOTHING))
            for name in ("start_error_us", "clock_offset_us", "clock_offset_bound_us")
        ),
        Cell(microseconds(abs(agent.clock_step_ns) / 1000)),
        Cell(count(agent.intervals)),
        Cell(count(agent.missing_intervals), BAD if agent.missing_intervals else ""),
    )


def _over_run(summary: Summary) -> Table:
    limit_ms = summary.clock_deviation_limit_ns / _NS_PER_MS
    return Table(
        "clock-drift",
        "Agents' clocks against the coordinator's, all through the run",
        (
            Column("Agent"),
            Column("samples", "", True),
            Column("drift", "ppm", True),
            Column("known within", "± ppm", True),
            Column("largest deviation", "ms", True),
            Column("known within", "± ms", True),
            Column("at", "s", True),
            Column("steps", "", True),
        ),
        tuple(_drift_row(name, clock) for name, clock in summary.clocks.items()),
        (
            "Deviation: how far the agent's intervals were from where the "
            f"coordinator's clock has them; the limit is {decimal(limit_ms, 3)} ms. A "
            "figure of one interval over all agents is of what happened up to so far "
            "beside it; totals and percentiles of the run do not depend on it.",
        ),
    )


def _drift_row(name: str, clock: Clock) -> tuple[Cell, ...]:
    largest = clock.largest
    return (
        Cell(name),
        Cell(count(len(clock.deviations))),
        Cell(decimal(clock.drift_ppm, 3)),
        Cell(decimal(clock.drift_bound_ppm, 3)),
        Cell(decimal(largest.ns / _NS_PER_MS, 3)),
        Cell(decimal(largest.bound_ns / _NS_PER_MS, 3)),
        Cell(decimal(largest.at_s, 1)),
        Cell(count(clock.step_count), BAD if clock.step_count else ""),
    )


def _steps(summary: Summary) -> Table:
    """Steps of either clock."""
    steps = [
        (one.at_s, name, "monotonic", one.ns)
        for name, clock in summary.clocks.items()
        for one in clock.steps
    ]
    for agent in summary.agents:
        for index, step_ns in agent.clock_steps_ns.items():
            start_s = index * summary.interval_s
            if index < len(summary.boundaries_ns):
                start_s = summary.boundaries_ns[index] / NS_PER_S
            steps.append((start_s, agent.name, "wall", float(step_ns)))
    steps.sort()
    known = sum(agent.stepped for agent in summary.agents)
    known += sum(clock.step_count for clock in summary.clocks.values())
    shown = steps[:_ROWS]
    return Table(
        "clock-steps",
        "Steps of clocks",
        (
            Column("Agent"),
            Column("Clock"),
            Column("by", "ms", True),
            Column("up to", "s", True),
            Column("up to", "UTC", True),
        ),
        tuple(
            (
                Cell(name),
                Cell(which),
                Cell(decimal(step_ns / _NS_PER_MS, 3)),
                Cell(decimal(at_s, 1)),
                Cell(time_of_day(summary.started_utc, at_s)),
            )
            for at_s, name, which, step_ns in shown
        ),
        (
            "wall: the time of day, against the agent's own monotonic clock. "
            "monotonic: that clock, against the coordinator's. The step was in the "
            "interval, or between the two samples, that ended then.",
            *(
                (f"{count(known - len(shown))} more are not listed.",)
                if known > len(shown)
                else ()
            ),
        ),
    )
