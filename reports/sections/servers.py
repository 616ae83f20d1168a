# SPDX-License-Identifier: Apache-2.0
"""The sections on servers: replication, and what monitors read. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from ldapslam.reports.charts.chart_data import chart_name, panels_of
from ldapslam.reports.collect.job_notes import Probe, method_text, probes_of
from ldapslam.reports.collect.telemetry import (
    MetricSummary,
    MonitorSummary,
    subjects_of,
)
from ldapslam.reports.document import (
    BAD,
    MUTED,
    NOTHING,
    Blocks,
    Cell,
    ChartPlace,
    Paragraph,
    Table,
    column,
    number,
    table,
)
from ldapslam.reports.figures import Figure
from ldapslam.reports.model import Summary
from ldapslam.reports.streams import OperationSummary
from ldapslam.reports.typeset import (
    count,
    counted,
    decimal,
    figure_text,
    percent,
    times_columns,
)
from ldapslam.reports.uncertainty import Estimate
from ldapslam.results.facts import ReplicatedContent, ReplicatedTree, ReplicationFacts

#: More rows would hide the rest of the report; result.json has all of them.
_ROWS = 50
#: Of times that are known by reading.
_POLLED = (
    "Where the entry was read, a change was seen at the next reading: times are up to "
    "that much too long, half of it on average."
)


def replication(summary: Summary) -> Blocks:
    """During the run and after it."""
    yield _propagation(_watched(summary), probes_of(summary.facts))
    if (found := summary.replication) is None:
        return
    if found.failure:
        yield Paragraph(f"Replication could not be checked: {found.failure}.")
        return
    yield _trees(found)
    if content := found.content:
        yield _entries(found, content)
        yield _differences(content)


def _watched(summary: Summary) -> list[tuple[OperationSummary, str]]:
    """The operations of probes, with the server of each."""
    servers = {
        (stream.name, operation): uri
        for stream in summary.run.plan.streams
        for operation, uri in stream.watched.items()
    }
    return [
        (one, servers[one.stream, one.operation])
        for one in summary.operations
        if (one.stream, one.operation) in servers
    ]


def _propagation(
    watched: Sequence[tuple[OperationSummary, str]], probes: Sequence[Probe]
) -> Table:
    methods = {
        (probe.stream, probe.operation): method_text(probe.method, probe.poll_s)
        for probe in probes
    }
    rows = [
        (
            one.title,
            uri,
            methods.get((one.stream, one.operation), NOTHING),
            one.times["response_time"],
        )
        for one, uri in watched
    ]
    return table(
        "propagation",
        "Propagation during the run, in the measure phase",
        rows,
        column("Probe", lambda row: row[0]),
        column("Server", lambda row: row[1]),
        column("told by", lambda row: row[2]),
        *times_columns(),
        notes=(
            "In ms: from when a write was sent to the supplier until this host had "
            "word of it from the replica. Of these operations, service time is the "
            "same.",
            *[_POLLED] * any(probe.poll_s for probe in probes),
        ),
    )


def _trees(found: ReplicationFacts) -> Table:
    skipped = ", ".join(found.skipped)
    return table(
        "replication",
        "Convergence after the load",
        [
            (tree, uri, states)
            for tree in found.trees
            for uri, states in tree.states.items()
        ],
        column("Tree", lambda row: row[0].suffix),
        column("Server", lambda row: row[1]),
        number("converged after (s)", lambda row: _converged(*row, found.within_s)),
        column("state", lambda row: _state(*row)),
        notes=(
            "From when all agents had ended until every server had the last change of "
            "every source (contextCSN of slapd, RUV of 389-DS).",
            *_stale(found),
            *[f"Not compared, as not all servers replicate it: {skipped}."]
            * bool(skipped),
        ),
    )


def _stale(found: ReplicationFacts) -> list[str]:
    return [
        f"{tree.suffix}: left aside are the changes of {', '.join(tree.stale)}, "
        "which only some servers have, and which are all older than an hour before the "
        "run; what they wrote is compared with the entries."
        for tree in found.trees
        if tree.stale
    ]


def _converged(
    tree: ReplicatedTree, uri: str, states: Mapping[str, str], within_s: float
) -> Cell:
    if tree.converged:
        return Cell(decimal(tree.after_s, 3))
    if uri in tree.behind or not states:
        return Cell(f"not within {within_s:g}", BAD)
    return Cell(NOTHING, MUTED)


def _state(tree: ReplicatedTree, uri: str, states: Mapping[str, str]) -> Cell:
    if uri in tree.behind:
        return Cell(f"behind on changes of {', '.join(tree.behind[uri])}", BAD)
    if not states:
        return Cell("says nothing", BAD)
    return Cell("has all changes")


def _entries(found: ReplicationFacts, content: ReplicatedContent) -> Table:
    first = found.first_server
    differing = Counter(one.server for one in content.differences)
    what = "All entries were compared"
    if content.sample is not None:
        what = (
            f"The DNs of all entries and a sample of {count(content.sample)} "
            "entries were compared"
        )
    return table(
        "replication-entries",
        "Entries after the load",
        content.entries.items(),
        column("Server", lambda row: row[0]),
        number("entries", lambda row: count(row[1])),
        number(
            "differences named",
            lambda row: (
                Cell(NOTHING, MUTED) if row[0] == first else counted(differing[row[0]])
            ),
        ),
        notes=(
            f"{what} with those of {first}; {count(content.difference_count)} differ.",
        ),
    )


def _differences(content: ReplicatedContent) -> Table:
    differences = content.differences
    more = content.difference_count - len(differences[:_ROWS])
    return table(
        "replication-differences",
        "Entries that differ",
        differences[:_ROWS],
        column("Server", lambda one: one.server),
        column("Entry", lambda one: one.dn),
        column("is", lambda one: Cell(one.difference, BAD)),
        column("in", lambda one: ", ".join(one.attributes) or NOTHING),
        notes=[f"and {count(more)} more"] * (more > 0),
    )


_MIB = 1 << 20
#: Charts of more monitors would hide the rest of the report; tables are of all.
_CHARTS = 16


def monitors(summary: Summary) -> Blocks:
    yield _overview(summary)
    for place, one in enumerate(summary.monitors):
        if place < _CHARTS:
            yield _chart(place, one)
        yield from _statistics(place, one, summary.figures)


def _overview(summary: Summary) -> Table:
    return table(
        "monitors",
        "Monitors",
        summary.monitors,
        column("Monitor", lambda one: one.name),
        column("Agent", lambda one: one.agent),
        column("of", _what),
        number("readings", lambda one: count(one.readings)),
        number("failed", lambda one: counted(one.failed)),
        number("mean (ms)", lambda one: _ms(one.took_mean_s)),
        number("longest (ms)", lambda one: _ms(one.took_longest_s)),
        number("restarts", lambda one: counted(len(one.restarts_s))),
        notes=(
            "mean, longest: time that a reading took. Counters are shown as rates; "
            "statistics of the measure phase are below.",
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
    words = (facts.server, facts.version, facts.kernel)
    return facts.failure or ", ".join(filter(None, words)) or NOTHING


def _restarts(summary: Summary) -> tuple[str, ...]:
    return tuple(
        f"{one.name} was restarted before "
        + ", ".join(f"{decimal(at_s, 1)} s" for at_s in one.restarts_s)
        for one in summary.monitors
        if one.restarts_s
    )


def _cost(summary: Summary) -> tuple[str, ...]:
    if (cost := summary.run.manifest.observer_cost) is None:
        return ()
    return (
        f"Monitors took {decimal(cost.cpu_s, 2)} s of CPU; their start, and what they "
        "read and verified before and after the load, are in it.",
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


def _statistics(place: int, one: MonitorSummary, figures: Sequence[Figure]) -> Blocks:
    moving = [each for each in one.metrics if not each.is_idle]
    shown = [each for each in moving if each.lowest != each.highest]
    place_of = one.facts.kind, subjects_of(one.name, one.facts)[:1], "cpu_per_operation"
    notes = [
        f"CPU time per operation: {_micros(each.interval or each.value)}."
        for each in figures
        if (each.kind, (each.subject,), each.metric) == place_of and each.value
    ]
    if constant := [each for each in moving if each.lowest == each.highest is not None]:
        values = (f"{_title(each)} {_value(each, each.mean)}" for each in constant)
        notes.append(f"The same all through: {', '.join(values)}.")
    if idle := [each for each in one.metrics if each.is_idle and _is_known(each)]:
        notes.append(f"Zero all through: {_names(idle)}.")
    if missing := [each for each in one.metrics if not _is_known(each)]:
        notes.append(f"Missing, not available here: {_names(missing)}.")
    if not shown:
        return tuple(Paragraph(f"{one.name}: {note}") for note in notes)
    statistics = table(
        f"monitor-{place}",
        f"{one.name}, measure phase",
        shown,
        column("Metric", _title),
        column("unit", lambda each: _unit(each)[1]),
        number("min", lambda each: _number(each, each.lowest)),
        number("mean", lambda each: _number(each, each.mean)),
        number("max", lambda each: _number(each, each.highest)),
        number(
            "missing (%)",
            lambda each: (
                Cell(percent(each.missing_share, 1), BAD) if each.missing_share else "0"
            ),
        ),
        notes=notes,
    )
    return (statistics,)


def _micros(of_time: Estimate | float) -> str:
    """A time in µs with its interval."""
    if not isinstance(of_time, Estimate):
        return f"{decimal(of_time, 1)} µs"
    value, *ends = (decimal(one, 1) for one in of_time)
    interval = " – ".join(ends) if math.isfinite(of_time.high) else f"≥ {ends[0]}"
    return f"{value} µs (95% confidence interval {interval} µs)"


def _is_known(each: MetricSummary) -> bool:
    return each.missing_share < 1


def _names(metrics: list[MetricSummary]) -> str:
    return ", ".join(each.metric.name for each in metrics)


def _title(each: MetricSummary) -> str:
    return each.metric.name.replace("_", " ")


def _unit(each: MetricSummary) -> tuple[float, str]:
    """What its values are divided by, and the unit then: MiB of many bytes."""
    largest = max(abs(each.lowest or 0), abs(each.highest or 0))
    if each.unit.startswith("bytes") and largest >= _MIB:
        return _MIB, each.unit.replace("bytes", "MiB")
    return 1, each.unit


def _value(each: MetricSummary, value: float | None) -> str:
    return f"{_number(each, value)} {_unit(each)[1]}".rstrip()


def _number(each: MetricSummary, value: float | None) -> str:
    return figure_text(None if value is None else value / _unit(each)[0])
