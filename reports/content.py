# SPDX-License-Identifier: Apache-2.0
"""What the report says and in which order: the Summary as a Document.

The verdict and its reasons, the thresholds and rules behind it, the figures, the
charts, the agents, how it was measured, and the manifest. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from ldapslam.jobs.result_codes import code_title
from ldapslam.reports import appendix
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
from ldapslam.reports.results.histogram import samples_needed
from ldapslam.reports.summary import (
    PERCENTILES,
    Distribution,
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

#: Percentiles in the tables of times; p99.99 is in result.json.
_SHOWN = ("p50", "p90", "p95", "p99", "p99_9")

_METRIC_TITLES = {
    "response_time": "response time",
    "service_time": "service time",
    "backlog_wait": "backlog wait",
    "send_lag": "send lag",
    "receive_lag": "receive lag",
}

_TOO_FEW = (
    f"{NOT_AVAILABLE}: too few values. A percentile needs ten values above it: "
    + ", ".join(
        f"{name.replace('_', '.')} n ≥ {count(samples_needed(PERCENTILES[name]))}"
        for name in _SHOWN
    )
    + "."
)

_NO_ANSWER = (
    f"{NOT_AVAILABLE} also where the figure hangs on requests that had no answer: they "
    "rank above every value."
)


def document(summary: Summary) -> Document:
    return Document(
        title=summary.run.job_name,
        verdict=summary.verdict,
        statement=_statement(summary),
        reasons=tuple(grouped(reason) for reason in summary.reasons),
        glance=tuple(_glance(one) for one in summary.operations),
        facts=_facts(summary),
        sections=(
            Section("verdict", "What the verdict rests on", _basis(summary)),
            Section("results", "Results", _results(summary)),
            Section("timeline", "Over time", _over_time(summary)),
            Section("times", "Times in detail", _times(summary)),
            Section("errors", "Requests and errors", _errors(summary)),
            Section("agents", "Load generators", appendix.agents(summary)),
            Section("method", "How this was measured", appendix.method()),
            Section("manifest", "Manifest", appendix.manifest(summary)),
        ),
    )


def _statement(summary: Summary) -> str:
    rules = sum(not rule.passed for rule in summary.rules)
    missed = sum(not one.passed for one in summary.thresholds)
    if rules:
        return (
            "These numbers cannot be certified: "
            f"{_counted(rules, 'validity rule is', 'validity rules are')} broken."
        )
    met = f"The {len(summary.rules)} validity rules hold"
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


def _glance(one: OperationSummary) -> Glance:
    times = one.times["response_time"].percentiles_us
    return Glance(
        one.title,
        (
            ("throughput", _with_unit(one.throughput_per_s, 0, "/s")),
            ("p50", _with_ms(times["p50"])),
            ("p99", _with_ms(times["p99"])),
            ("errors", _with_unit(one.error_share and one.error_share * 100, 2, "%")),
        ),
    )


def _with_unit(value: float | None, digits: int, unit: str) -> str:
    return NOTHING if value is None else f"{decimal(value, digits)}{unit}"


def _with_ms(value_us: float | None) -> str:
    return NOT_AVAILABLE if value_us is None else f"{milliseconds(value_us)} ms"


def _load(stream: StreamSummary) -> str:
    if stream.model == "open" and stream.rate_per_s is not None:
        load = f"{stream.rate_per_s:,.6g}/s open loop"
    elif stream.clients is not None:
        load = f"{_counted(stream.clients, 'client')} closed loop"
    else:
        load = stream.model
    return grouped(f"{stream.name} ({load} on {stream.target})")


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
    table = Table(
        "headline",
        "Measure phase, response time of successes",
        (
            Column("Operation"),
            Column("throughput", "/s", True),
            Column("succeeded", "", True),
            Column("errors", "%", True),
            Column("p50", "ms", True),
            Column("p90", "ms", True),
            Column("p95", "ms", True),
            Column("p99", "ms", True),
            Column("p99.9", "ms", True),
            Column("max", "ms", True),
        ),
        tuple(_headline(one) for one in summary.operations),
        _missing([one.times["response_time"] for one in summary.operations]),
    )
    return (table,)


def _headline(one: OperationSummary) -> tuple[Cell, ...]:
    times = one.times["response_time"]
    has_errors = bool(one.error_share)
    return (
        Cell(one.title),
        Cell(decimal(one.throughput_per_s)),
        Cell(count(one.counts["succeeded"])),
        Cell(percent(one.error_share, 3), BAD if has_errors else ""),
        *_percentile_cells(times),
        _time_cell(times, "max", times.max_us),
    )


def _over_time(summary: Summary) -> tuple[Block, ...]:
    per_point = summary.timeline.intervals_per_point
    merged = ""
    if per_point > 1:
        merged = f" One point is {per_point} intervals, merged."
    blocks: list[Block] = [
        ChartPlace(
            "throughput",
            "Throughput",
            "Completions per second over the run, one panel for each operation; "
            f"other phases than measure are shaded.{merged}",
        ),
        ChartPlace(
            "response_times",
            "Response time",
            "Percentiles of the response time of successes in each interval, "
            f"logarithmic scale.{merged}{_marks(summary)}",
        ),
    ]
    if summary.gaps:
        gaps = Table(
            "gaps",
            "Missing intervals: gaps in the charts, never filled in",
            (
                Column("Agent"),
                Column("Intervals", "", True),
                Column("From", "s", True),
                Column("To", "s", True),
            ),
            tuple(
                (
                    Cell(gap.agent),
                    Cell(count(gap.count)),
                    Cell(decimal(gap.start_s, 1)),
                    Cell(decimal(gap.end_s, 1)),
                )
                for gap in summary.gaps[:50]
            ),
            (f"and {len(summary.gaps) - 50} more",) if len(summary.gaps) > 50 else (),
        )
        blocks.append(gaps)
    return tuple(blocks)


def _times(summary: Summary) -> tuple[Block, ...]:
    blocks: list[Block] = [
        ChartPlace(
            "percentiles",
            "Response time by percentile",
            "Response time (from the scheduled start) and service time (from the "
            "sending) of successes by percentile, logarithmic scales. Where the two "
            f"part, requests waited before they were sent.{_ends(summary)}",
        )
    ]
    for stream in summary.streams:
        blocks += [_times_table(stream, one) for one in stream.operations]
    return tuple(blocks)


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


def _times_table(stream: StreamSummary, one: OperationSummary) -> Table:
    rows = []
    for metric, times in one.times.items():
        if metric == "backlog_wait" and not times.count:
            continue  # a closed loop has no backlog
        rows.append(_times_row(_METRIC_TITLES[metric], times))
        if metric == "response_time":
            rows.append(_interval_row(times))
    rows += [
        _times_row(f"{_METRIC_TITLES[metric]} of failures", times)
        for metric, times in one.failure_times.items()
    ]
    rows.append(_times_row("connect time", stream.connect_time))
    shown = (*one.times.values(), *one.failure_times.values())
    return Table(
        f"times-{one.stream}-{one.operation}",
        one.title,
        (
            Column("Time", "ms"),
            Column("n", "", True),
            Column("mean", "", True),
            *(Column(name.replace("_", "."), "", True) for name in _SHOWN),
            Column("max", "", True),
        ),
        tuple(rows),
        _missing(shown),
    )


def _times_row(title: str, times: Distribution) -> tuple[Cell, ...]:
    return (
        Cell(title),
        Cell(count(times.count)),
        _time_cell(times, "mean", times.mean_us),
        *_percentile_cells(times),
        _time_cell(times, "max", times.max_us),
    )


def _interval_row(times: Distribution) -> tuple[Cell, ...]:
    cells = [
        Cell("95% confidence interval", MUTED),
        Cell("", MUTED),
        Cell("", MUTED),
    ]
    for name in _SHOWN:
        interval = times.ci95_us[name]
        text = NOTHING
        if interval is not None and interval[1] is None:
            text = f"≥ {milliseconds(interval[0])}"
        elif interval is not None:
            text = f"{milliseconds(interval[0])} – {milliseconds(interval[1])}"
        cells.append(Cell(text, MUTED))
    return (*cells, Cell("", MUTED))


def _errors(summary: Summary) -> tuple[Block, ...]:
    names = ("scheduled", "sent", "completed", "succeeded", "failed")
    lost = ("timed_out", "unresolved", "dropped")
    requests = Table(
        "requests",
        "Requests whose intended time lies in the measure phase",
        (
            Column("Operation"),
            *(Column(name.replace("_", " "), "", True) for name in (*names, *lost)),
            Column("entries", "", True),
        ),
        tuple(
            (
                Cell(one.title),
                *(Cell(count(one.counts[name])) for name in names[:-1]),
                *(
                    Cell(count(one.counts[name]), BAD if one.counts[name] else "")
                    for name in (names[-1], *lost)
                ),
                Cell(count(one.counts["entries"])),
            )
            for one in summary.operations
        ),
    )
    codes = Table(
        "result-codes",
        "Responses by LDAP result code",
        (
            Column("Operation"),
            Column("Result code"),
            Column("responses", "", True),
            Column("share", "%", True),
        ),
        tuple(
            (
                Cell(one.title),
                Cell(code_title(code)),
                Cell(count(responses)),
                Cell(percent(responses / sum(one.result_codes.values()), 3)),
            )
            for one in summary.operations
            for code, responses in one.result_codes.items()
        ),
    )
    if not any(one.error_share or one.counts["dropped"] for one in summary.operations):
        has_sent = any(one.counts["sent"] for one in summary.operations)
        text = (
            "Every request of the measure phase succeeded."
            if has_sent
            else "Nothing was sent in the measure phase."
        )
        return requests, Paragraph(text), codes
    chart = ChartPlace(
        "errors",
        "Errors",
        "Requests of the measure phase that did not succeed, by result code or cause, "
        "and errors per second over the run.",
    )
    return requests, chart, codes


def _percentile_cells(times: Distribution) -> list[Cell]:
    return [_percentile_cell(times, name) for name in _SHOWN]


def _percentile_cell(times: Distribution, name: str) -> Cell:
    value_us = times.percentiles_us[name]
    if value_us is None:
        return Cell(NOT_AVAILABLE, MUTED, grouped(times.why_missing(name)))
    return Cell(milliseconds(value_us))


def _time_cell(times: Distribution, name: str, value_us: float | None) -> Cell:
    if value_us is not None:
        return Cell(milliseconds(value_us))
    if times.unanswered or times.overflow:
        return Cell(NOT_AVAILABLE, MUTED, grouped(times.why_missing(name)))
    return Cell(NOTHING, MUTED)


def _missing(shown: Sequence[Distribution]) -> tuple[str, ...]:
    """What the n/a of a table mean."""
    notes = []
    if any(times.sample < samples_needed(PERCENTILES[_SHOWN[-1]]) for times in shown):
        notes.append(_TOO_FEW)
    if any(times.unanswered for times in shown):
        notes.append(_NO_ANSWER)
    return tuple(notes)


def _counted(number: int, one: str, many: str | None = None) -> str:
    return f"{count(number)} {one if number == 1 else many or one + 's'}"
