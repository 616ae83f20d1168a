# SPDX-License-Identifier: Apache-2.0
"""What a report says of servers and hosts: what their monitors read. Pure."""

from __future__ import annotations

from ldapslam.reports.charts.monitor_panels import chart_name, panels_of
from ldapslam.reports.collect.telemetry import MetricSummary, MonitorSummary
from ldapslam.reports.document import (
    BAD,
    Block,
    Cell,
    ChartPlace,
    Column,
    Paragraph,
    Section,
    Table,
)
from ldapslam.reports.summary import Summary
from ldapslam.reports.typeset import NOTHING, count, decimal, percent

#: Charts of more monitors would hide the rest of the report; tables are of all.
_CHARTS = 16


def sections(summary: Summary) -> tuple[Section, ...]:
    """None in a run without monitors."""
    if not summary.monitors:
        return ()
    blocks: list[Block] = [_overview(summary)]
    for number, one in enumerate(summary.monitors):
        place = _chart(number, one)
        if place is not None and number < _CHARTS:
            blocks.append(place)
        blocks += _figures(number, one)
    return (Section("monitors", "Servers and hosts", tuple(blocks)),)


def _overview(summary: Summary) -> Table:
    return Table(
        "monitors",
        "Monitors",
        (
            Column("Monitor"),
            Column("Agent"),
            Column("of"),
            Column("readings", "", True),
            Column("failed", "", True),
            Column("mean", "ms", True),
            Column("longest", "ms", True),
            Column("restarts", "", True),
        ),
        tuple(
            (
                Cell(one.name),
                Cell(one.agent),
                Cell(_what(one)),
                Cell(count(one.readings)),
                Cell(count(one.failed), BAD if one.failed else ""),
                Cell(_ms(one.took_mean_s)),
                Cell(_ms(one.took_longest_s)),
                Cell(count(len(one.restarts_s)), BAD if one.restarts_s else ""),
            )
            for one in summary.monitors
        ),
        (
            "mean, longest: what a reading took. Figures of counters are rates; those "
            "of the measure phase are below.",
            *(
                f"{one.name}: {'; '.join(one.failures)}"
                for one in summary.monitors
                if one.failures
            ),
            *_restarts(summary),
            *_cost(summary),
        ),
    )


def _what(one: MonitorSummary) -> str:
    """Server and version, where it is known; why nothing could be read."""
    facts = one.facts
    if facts.get("failure"):
        return str(facts["failure"])
    words = (facts.get("server"), facts.get("version"), facts.get("kernel"))
    return ", ".join(str(word) for word in words if word) or NOTHING


def _restarts(summary: Summary) -> tuple[str, ...]:
    return tuple(
        f"{one.name} was restarted before "
        + ", ".join(f"{decimal(at_s, 1)} s" for at_s in one.restarts_s)
        for one in summary.monitors
        if one.restarts_s
    )


def _cost(summary: Summary) -> tuple[str, ...]:
    cost = summary.run.manifest.get("observer_cost") or {}
    cpu_s = cost.get("cpu_s")
    if not isinstance(cpu_s, (int, float)):
        return ()
    return (
        f"Observers took {decimal(cpu_s, 2)} s of CPU; their start, and what they read "
        "and verified before and after the load, are in it.",
    )


def _ms(value_s: float | None) -> str:
    return NOTHING if value_s is None else decimal(value_s * 1000, 2)


def _chart(number: int, one: MonitorSummary) -> ChartPlace | None:
    panels = panels_of(one)
    if not panels:
        return None
    marks = " Dashed: a restart." if one.restarts_s else ""
    return ChartPlace(
        chart_name(number),
        one.name,
        f"{', '.join(panel.title for panel in panels)}; counters as rates. A line is "
        f"broken where nothing could be read.{marks}",
    )


def _figures(number: int, one: MonitorSummary) -> tuple[Block, ...]:
    shown = [each for each in one.metrics if not each.is_idle]
    notes = []
    if idle := [each for each in one.metrics if each.is_idle and _is_known(each)]:
        notes.append(f"Zero all through: {_names(idle)}.")
    if missing := [each for each in one.metrics if not _is_known(each)]:
        notes.append(f"Missing, not to be had here: {_names(missing)}.")
    if not shown:
        return tuple(Paragraph(f"{one.name}: {note}") for note in notes)
    table = Table(
        f"monitor-{number}",
        f"{one.name}, measure phase",
        (
            Column("Figure"),
            Column("unit"),
            Column("min", "", True),
            Column("mean", "", True),
            Column("max", "", True),
            Column("missing", "%", True),
        ),
        tuple(_row(each) for each in shown),
        tuple(notes),
    )
    return (table,)


def _is_known(each: MetricSummary) -> bool:
    return each.missing_share < 1


def _names(metrics: list[MetricSummary]) -> str:
    return ", ".join(each.metric.name for each in metrics)


def _row(each: MetricSummary) -> tuple[Cell, ...]:
    return (
        Cell(each.metric.name.replace("_", " ")),
        Cell(each.unit),
        *(Cell(_figure(value)) for value in (each.lowest, each.mean, each.highest)),
        Cell(
            percent(each.missing_share, 1) if each.missing_share else "0",
            BAD if each.missing_share else "",
        ),
    )


def _figure(value: float | None) -> str:
    """As many digits as tell figures of very different sizes apart."""
    if value is None:
        return NOTHING
    digits = 0 if abs(value) >= 1000 or value == int(value) else 3
    return decimal(value, digits)
