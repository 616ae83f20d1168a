# SPDX-License-Identifier: Apache-2.0
"""What the report says and in which order: the Summary as a Document.

The verdict and its reasons, the thresholds and rules behind it, the figures, the
charts, the agents, how it was measured, and the manifest. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from ldapslam.reports.charts.chart_data import PANELS, event_marks
from ldapslam.reports.distribution import Distribution
from ldapslam.reports.document import (
    BAD,
    GOOD,
    MUTED,
    Block,
    Cell,
    ChartPlace,
    Column,
    Document,
    Glance,
    Paragraph,
    Section,
    Table,
)
from ldapslam.reports.result import manifest_of
from ldapslam.reports.sections import (
    appendix,
    connections,
    gap_section,
    imports,
    outcomes,
    replication_section,
    settings_section,
    telemetry_section,
)
from ldapslam.reports.sections.time_cells import (
    SHOWN,
    missing,
    percentile_cells,
    time_cell,
    time_columns,
    times_cells,
)
from ldapslam.reports.summary import (
    OperationSummary,
    StreamSummary,
    Summary,
)
from ldapslam.reports.typeset import (
    NOT_AVAILABLE,
    NOTHING,
    count,
    decimal,
    grouped,
    milliseconds,
    percent,
    seconds,
)

_METRIC_TITLES = {
    "response_time": "response time",
    "service_time": "service time",
    "backlog_wait": "backlog wait",
    "send_lag": "send lag",
    "receive_lag": "receive lag",
}


def document(summary: Summary) -> Document:
    return Document(
        title=summary.run.job_name,
        verdict=summary.verdict,
        statement=_statement(summary),
        reasons=tuple(grouped(reason) for reason in summary.reasons),
        glance=tuple(
            Glance(one.title, imports.glance(summary, one.stream) or _glance(one))
            for one in summary.operations
        ),
        facts=_facts(summary),
        sections=(
            Section("verdict", "What the verdict rests on", _basis(summary)),
            Section("results", "Results", _results(summary)),
            Section("timeline", "Over time", _over_time(summary)),
            Section("times", "Times in detail", _times(summary)),
            Section("errors", "Requests and errors", outcomes.outcomes(summary)),
            Section("connections", "Connections", connections.connections(summary)),
            *_section("imports", "Imports", imports.imports(summary)),
            *_section(
                "replication",
                "Replication",
                replication_section.replication(summary),
            ),
            *telemetry_section.sections(summary),
            Section("agents", "Load generators", appendix.agents(summary)),
            Section("method", "How this was measured", appendix.method()),
            Section("manifest", "Manifest", appendix.manifest(summary)),
            *_section(
                "settings",
                "Settings of the servers",
                settings_section.shared(manifest_of(summary)),
            ),
        ),
    )


def _section(name: str, title: str, blocks: tuple[Block, ...]) -> tuple[Section, ...]:
    """None without blocks."""
    return (Section(name, title, blocks),) if blocks else ()


def _statement(summary: Summary) -> str:
    rules = sum(not rule.passed for rule in summary.rules)
    missed = sum(not one.passed for one in summary.thresholds)
    if rules:
        return (
            "These numbers cannot be certified: "
            f"{_counted(rules, 'validity rule is', 'validity rules are')} broken."
        )
    met = f"The {len(summary.rules)} validity rules hold"
    if summary.replication is not None:
        failed = bool(summary.replication.failures)
        met += "; replicas differ" if failed else ", replicas hold the same"
    if missed:
        of_all = _counted(len(summary.thresholds), "threshold is", "thresholds are")
        return f"{met}; {missed} of {of_all} missed."
    if summary.thresholds:
        all_of = _counted(len(summary.thresholds), "threshold is", "thresholds are")
        return f"{met}, and {all_of} met."
    return f"{met}. The job sets no thresholds."


def _facts(summary: Summary) -> tuple[tuple[str, str], ...]:
    run = summary.run
    return (
        ("Run", run.run_id),
        ("Started", f"{summary.started_utc[:19].replace('T', ' ')} UTC"),
        ("Measured", seconds(summary.measure_s)),
        ("Interval", seconds(summary.interval_s)),
        ("Agents", count(len(run.agents))),
        ("Streams", ", ".join(_load(stream) for stream in summary.streams)),
    )


def _glance(one: OperationSummary) -> tuple[tuple[str, str], ...]:
    times = one.times["response_time"].percentiles_us
    shown = [(name, _with_ms(times[name])) for name in ("p50", "p99")]
    return (
        ("throughput", _with_unit(one.throughput_per_s, 0, "/s")),
        *(shown if one.has_responses else ()),
        ("errors", _with_unit(one.error_share and one.error_share * 100, 2, "%")),
    )


def _with_unit(value: float | None, digits: int, unit: str) -> str:
    return NOTHING if value is None else f"{decimal(value, digits)}{unit}"


def _with_ms(value_us: float | None) -> str:
    return NOT_AVAILABLE if value_us is None else f"{milliseconds(value_us)} ms"


def _load(stream: StreamSummary) -> str:
    if stream.model == "open" and stream.rate_per_s is not None:
        load = f"{_rate(stream)} open loop"
    elif stream.clients is not None:
        load = f"{_counted(stream.clients, 'client')} closed loop"
    else:
        load = stream.model
    return grouped(f"{stream.name} ({load} on {stream.target})")


def _rate(stream: StreamSummary) -> str:
    rate = f"{stream.rate_per_s:,.6g}/s"
    peak = stream.peak_rate_per_s
    if peak is None or peak <= (stream.rate_per_s or 0) * 1.001:
        return rate
    return f"{rate} on average, at most {peak:,.6g}/s,"


def _basis(summary: Summary) -> tuple[Block, ...]:
    thresholds: Block = Paragraph("The job sets no thresholds.")
    if summary.thresholds:
        thresholds = Table(
            "thresholds",
            "Thresholds of the job",
            (
                Column("Threshold"),
                Column("Observed", is_number=True),
                Column("Result"),
            ),
            tuple(
                (
                    Cell(one.expression),
                    Cell(grouped(one.shown)),
                    Cell("met", GOOD) if one.passed else Cell("missed", BAD),
                )
                for one in summary.thresholds
            ),
        )
    rules = Table(
        "rules",
        "Validity rules: may the numbers be trusted?",
        (Column("Rule"), Column("Limit"), Column("Observed"), Column("Result")),
        tuple(
            (
                Cell(rule.title, hint=rule.name),
                Cell(grouped(rule.limit)),
                Cell(grouped(rule.observed)),
                Cell("holds", GOOD) if rule.passed else Cell("broken", BAD),
            )
            for rule in summary.rules
        ),
    )
    notes = [Paragraph(f"Note: {grouped(note)}.") for note in summary.notes]
    return thresholds, rules, *notes


def _results(summary: Summary) -> tuple[Block, ...]:
    has_expected = any(one.counts["expected"] for one in summary.operations)
    table = Table(
        "headline",
        "Measure phase, response time of successes",
        (
            Column("Operation"),
            Column("throughput", "/s", True),
            Column("succeeded", "", True),
            *([Column("expected", "", True)] if has_expected else []),
            Column("errors", "%", True),
            Column("p50", "ms", True),
            Column("p90", "ms", True),
            Column("p95", "ms", True),
            Column("p99", "ms", True),
            Column("p99.9", "ms", True),
            Column("max", "ms", True),
        ),
        tuple(_headline(one, has_expected) for one in summary.operations),
        (
            *missing([one.times["response_time"] for one in summary.timed]),
            *_expected_only(summary),
            *gap_section.of_delivered(summary),
        ),
    )
    return (table, *_streams(summary))


def _streams(summary: Summary) -> tuple[Block, ...]:
    """Those with times of their own, or a length that is a result."""
    own = [
        stream
        for stream in summary.streams
        if stream.count or stream.window.measure_s != summary.measure_s
    ]
    if not own:
        return ()
    table = Table(
        "streams",
        "Streams with an end or times of their own",
        (
            Column("Stream"),
            Column("sessions planned", "", True),
            Column("total time", "s", True),
            Column("measured", "s", True),
        ),
        tuple(
            (
                Cell(stream.name),
                Cell(count(stream.count) if stream.count else NOTHING),
                Cell(decimal(stream.window.elapsed_s, 3)),
                Cell(decimal(stream.window.measure_s, 3)),
            )
            for stream in own
        ),
        (
            "Total time: from the stream's start to its last response, in any phase. "
            "Throughput is over the time measured.",
        ),
    )
    return (table,)


def _expected_only(summary: Summary) -> tuple[str, ...]:
    names = [
        one.title
        for one in summary.operations
        if one.times_of == "expected" and one.has_responses
    ]
    if not names:
        return ()
    return (
        f"Of {', '.join(names)} no success is expected: its times are those of the "
        "expected results.",
    )


def _headline(one: OperationSummary, has_expected: bool) -> tuple[Cell, ...]:
    times = one.times["response_time"]
    has_errors = bool(one.error_share)
    return (
        Cell(one.title),
        Cell(decimal(one.throughput_per_s)),
        Cell(count(one.counts["succeeded"])),
        *([Cell(count(one.counts["expected"]))] if has_expected else []),
        Cell(percent(one.error_share, 3), BAD if has_errors else ""),
        *(
            (*percentile_cells(times), time_cell(times, "max", times.max_us))
            if one.has_responses
            else [Cell(NOTHING, MUTED, "has no response")] * (len(SHOWN) + 1)
        ),
    )


def _over_time(summary: Summary) -> tuple[Block, ...]:
    merged, marks = _merged(summary), ""
    if event_marks(summary):
        marks = " Dotted: events, by their numbers in the manifest."
    blocks: list[Block] = [
        ChartPlace(
            "throughput",
            "Throughput",
            "Completions per second over the run, one panel for each operation; "
            "other phases than measure are shaded."
            f"{merged}{marks}{_shown(summary.operations)}",
        ),
        ChartPlace(
            "response_times",
            "Response time",
            "Percentiles of the response time of successes in each interval, "
            f"logarithmic scale.{merged}{_marks(summary)}{_shown(summary.timed)}",
        ),
    ]
    blocks += gap_section.gaps(summary)
    return tuple(blocks)


def _merged(summary: Summary) -> str:
    """What a point is, where it is more than one interval."""
    per_point = summary.timeline.intervals_per_point
    if per_point == 1:
        return ""
    return (
        f" One point is {per_point} intervals, merged: a line is of all their requests "
        "(of throughput the mean), a band reaches from the lowest to the highest "
        "single interval, max is the highest of all. Bands of percentiles need "
        "intervals with enough requests."
    )


def _times(summary: Summary) -> tuple[Block, ...]:
    blocks: list[Block] = [
        ChartPlace(
            "percentiles",
            "Response time by percentile",
            "Response time (from the scheduled start) and service time (from the "
            "sending) of successes by percentile, logarithmic scales. Where the two "
            "part, requests waited before they were sent."
            f"{_ends(summary)}{_shown(summary.timed)}",
        )
    ]
    blocks += [_times_table(one) for one in summary.timed]
    shown = [times for one in summary.timed for times in one.times.values()]
    blocks += [Paragraph(note) for note in missing(shown)]
    return tuple(blocks)


def _shown(operations: Sequence[OperationSummary]) -> str:
    number = len(operations)
    return f" The first {PANELS} of {number} operations." if number > PANELS else ""


def _marks(summary: Summary) -> str:
    operations = summary.timeline.operations.values()
    if not any(amount for series in operations for amount in series.unanswered):
        return ""
    return (
        " A triangle marks requests that ended without an answer: they rank above "
        "every value, and a percentile among them is not drawn."
    )


def _ends(summary: Summary) -> str:
    if not any(one.times["response_time"].unanswered for one in summary.operations):
        return ""
    return " A line ends where the requests without an answer begin."


def _times_table(one: OperationSummary) -> Table:
    rows = []
    for metric, times in one.times.items():
        if metric == "backlog_wait" and not times.count:
            continue  # a closed loop has no backlog
        rows.append((Cell(_METRIC_TITLES[metric]), *times_cells(times)))
        if metric == "response_time":
            rows.append(_interval_row(times))
    return Table(
        f"times-{one.stream}-{one.operation}",
        one.title,
        (Column("Time", "ms"), *time_columns()),
        tuple(rows),
    )


def _interval_row(times: Distribution) -> tuple[Cell, ...]:
    cells = [
        Cell("95% confidence interval", MUTED),
        Cell("", MUTED),
        Cell("", MUTED),
    ]
    for name in SHOWN:
        interval = times.ci95_us[name]
        text = NOTHING
        if interval is not None and interval[1] is None:
            text = f"≥ {milliseconds(interval[0])}"
        elif interval is not None:
            text = f"{milliseconds(interval[0])} – {milliseconds(interval[1])}"
        cells.append(Cell(text, MUTED))
    return (*cells, Cell("", MUTED))


def _counted(number: int, one: str, many: str | None = None) -> str:
    return f"{count(number)} {one if number == 1 else many or one + 's'}"
