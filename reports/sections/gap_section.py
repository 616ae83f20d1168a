# SPDX-License-Identifier: Apache-2.0
"""What a report says of missing intervals: which, and what that means. Pure."""

from __future__ import annotations

from ldapslam.reports.document import Block, Cell, Column, Paragraph, Table
from ldapslam.reports.summary import Summary
from ldapslam.reports.typeset import count, decimal, percent, time_of_day

#: More rows would hide the rest of the report; result.json has all of them.
_ROWS = 50

_MEANING = (
    "Nothing is filled in for what is missing. Counts, totals and percentiles are of "
    "what was delivered. Throughput divides it by the whole measure phase, so it is "
    "too low by the share that is missing. Charts are hatched where an interval lacks "
    "an agent, and draw no figure of the fleet from it."
)


def gaps(summary: Summary) -> tuple[Block, ...]:
    """Tables of what is missing or cut short, and what that means; none without any."""
    found = summary.completeness
    blocks: list[Block] = []
    if found.gaps:
        blocks += [_gaps_table(summary), Paragraph(_MEANING)]
    if found.partials:
        blocks.append(_partials_table(summary))
    return tuple(blocks)


def of_delivered(summary: Summary) -> tuple[str, ...]:
    """The note on figures of a measure phase that is not all there."""
    found = summary.completeness
    if found.measure_there >= found.measure_due:
        return ()
    missing = found.measure_due - found.measure_there
    share = percent(missing / found.measure_due, 2)
    return (
        "Figures are of what was delivered. Missing or cut short: "
        f"{count(missing)} of the {count(found.measure_due)} intervals that agents "
        f"owed in the measure phase ({share}%).",
    )


def _gaps_table(summary: Summary) -> Table:
    gaps = summary.completeness.gaps
    more = len(gaps) - _ROWS
    notes = []
    if more > 0:
        notes.append(f"and {count(more)} more: result.json has all of them")
    if summary.completeness.is_live:
        notes.append("The run is not over: some of them may still arrive.")
    return Table(
        "gaps",
        "Missing intervals: gaps in the charts, never filled in",
        (
            Column("Agent"),
            Column("Intervals", "", True),
            Column("Numbers", "", True),
            Column("From", "s", True),
            Column("To", "s", True),
            Column("From", "UTC", True),
            Column("To", "UTC", True),
        ),
        tuple(
            (
                Cell(gap.agent),
                Cell(count(gap.count)),
                Cell(gap.numbers),
                Cell(decimal(gap.start_s, 1)),
                Cell(decimal(gap.end_s, 1)),
                Cell(time_of_day(summary.started_utc, gap.start_s)),
                Cell(time_of_day(summary.started_utc, gap.end_s)),
            )
            for gap in gaps[:_ROWS]
        ),
        tuple(notes),
    )


def _partials_table(summary: Summary) -> Table:
    partials = summary.completeness.partials
    return Table(
        "partials",
        "Intervals cut short by an agent's early end",
        (
            Column("Agent"),
            Column("Number", "", True),
            Column("From", "s", True),
            Column("Up to", "s", True),
            Column("Up to", "UTC", True),
        ),
        tuple(
            (
                Cell(one.agent),
                Cell(str(one.index)),
                Cell(decimal(one.start_s, 1)),
                Cell(decimal(one.end_s, 3)),
                Cell(time_of_day(summary.started_utc, one.end_s)),
            )
            for one in partials[:_ROWS]
        ),
        ("Counted in all totals, in no rate of a chart.",),
    )
