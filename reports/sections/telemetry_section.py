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
    counted,
    number,
    table,
)
from ldapslam.reports.model import Summary
from ldapslam.reports.typeset import NOTHING, count, decimal, percent

#: Charts of more monitors would hide the rest of the report; tables are of all.
_CHARTS = 16


def sections(summary: Summary) -> tuple[Section, ...]:
    """None in a run without monitors."""
    if not summary.monitors:
        return ()
    blocks: list[Block] = [_overview(summary)]
    for place, one in enumerate(summary.monitors):
        chart = _chart(place, one)
        if chart is not None and place < _CHARTS:
            blocks.append(chart)
        blocks += _figures(place, one)
    return (Section("monitors", "Servers and hosts", tuple(blocks)),)


def _overview(summary: Summary) -> Table:
    return table(
        "monitors",
        "Monitors",
        summary.monitors,
        (Column("Monitor"), lambda one: one.name),
        (Column("Agent"), lambda one: one.agent),
        (Column("of"), _what),
        (number("readings"), lambda one: count(one.readings)),
        (number("failed"), lambda one: counted(one.failed, count(one.failed))),
        (number("mean", "ms"), lambda one: _ms(one.took_mean_s)),
        (number("longest", "ms"), lambda one: _ms(one.took_longest_s)),
        (
            number("restarts"),
            lambda one: counted(len(one.restarts_s), count(len(one.restarts_s))),
        ),
        notes=(
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


def _chart(place: int, one: MonitorSummary) -> ChartPlace | None:
    panels = panels_of(one)
    if not panels:
        return None
    marks = " Dashed: a restart." if one.restarts_s else ""
    return ChartPlace(
        chart_name(place),
        one.name,
        f"{', '.join(panel.title for panel in panels)}; counters as rates. A line is "
        f"broken where nothing could be read.{marks}",
    )


def _figures(place: int, one: MonitorSummary) -> tuple[Block, ...]:
    shown = [each for each in one.metrics if not each.is_idle]
    notes = []
    if idle := [each for each in one.metrics if each.is_idle and _is_known(each)]:
        notes.append(f"Zero all through: {_names(idle)}.")
    if missing := [each for each in one.metrics if not _is_known(each)]:
        notes.append(f"Missing, not to be had here: {_names(missing)}.")
    if not shown:
        return tuple(Paragraph(f"{one.name}: {note}") for note in notes)
    figures = table(
        f"monitor-{place}",
        f"{one.name}, measure phase",
        shown,
        (Column("Figure"), lambda each: each.metric.name.replace("_", " ")),
        (Column("unit"), lambda each: each.unit),
        (number("min"), lambda each: _figure(each.lowest)),
        (number("mean"), lambda each: _figure(each.mean)),
        (number("max"), lambda each: _figure(each.highest)),
        (
            number("missing", "%"),
            lambda each: (
                Cell(percent(each.missing_share, 1), BAD) if each.missing_share else "0"
            ),
        ),
        notes=notes,
    )
    return (figures,)


def _is_known(each: MetricSummary) -> bool:
    return each.missing_share < 1


def _names(metrics: list[MetricSummary]) -> str:
    return ", ".join(each.metric.name for each in metrics)


def _figure(value: float | None) -> str:
    """As many digits as tell figures of very different sizes apart."""
    if value is None:
        return NOTHING
    digits = 0 if abs(value) >= 1000 or value == int(value) else 3
    return decimal(value, digits)
