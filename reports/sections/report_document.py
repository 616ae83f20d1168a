# SPDX-License-Identifier: Apache-2.0
"""What the report says and in which order: the Summary as a Document.

The first page has the answer: the verdict, its reasons and cautions, what was measured
on which system, the thresholds, the operations. Then the charts and the statistics; in
the appendix what makes them credible and repeatable. Pure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ldapslam.jobs.fields.thresholds import (
    STATISTICS,
    FigureName,
    parse_name,
    parse_threshold,
)
from ldapslam.jobs.fields.validity import Validity
from ldapslam.jobs.run_plan import RunPlan
from ldapslam.reports.charts.chart_data import PANELS, event_marks, queued, waited
from ldapslam.reports.collect.replication import servers_apart
from ldapslam.reports.collect.timeline import IntervalState
from ldapslam.reports.distribution import Distribution
from ldapslam.reports.document import (
    BAD,
    GOOD,
    MUTED,
    NOT_AVAILABLE,
    NOTHING,
    Blocks,
    Cell,
    ChartPlace,
    Column,
    Document,
    Field,
    Paragraph,
    Section,
    Table,
    cell_of,
    column,
    glance,
    no_value,
    number,
    section,
    table,
    table_of_cells,
    with_texts,
)
from ldapslam.reports.figures import ERRORS, GOODPUT, THROUGHPUT, Readings, readings_of
from ldapslam.reports.model import Summary
from ldapslam.reports.rules.criteria import ThresholdResult
from ldapslam.reports.rules.operation_range import Outcome
from ldapslam.reports.rules.rules import Cause, Rule
from ldapslam.reports.rules.trends import Trend
from ldapslam.reports.sections import appendix, bulk_imports, requests, servers
from ldapslam.reports.sections.facts import facts
from ldapslam.reports.streams import OperationSummary
from ldapslam.reports.typeset import (
    RARE,
    SHOWN,
    count,
    decimal,
    figure_cell,
    figure_text,
    grouped,
    milliseconds,
    number_of,
    percent,
    seconds,
    signed,
    statistic_cell,
    time_of_day,
    times_columns,
)


def document(summary: Summary) -> Document:
    """The report; servers are named by their role first."""
    return with_texts(_document(summary), _roles_named(summary.run.plan))


def _roles_named(plan: RunPlan) -> Callable[[str], str]:
    """What puts the role of a server before its URI, where a job has several."""
    roles: dict[str, list[str]] = {}
    for stream in plan.streams:
        for uri in stream.uris:
            known = roles.setdefault(uri, [])
            if (role := stream.target) not in known:
                known.append(role)
    if len(roles) < 2:
        return lambda text: text
    # the longest first: one may begin as another; server(URI) is a figure's name
    every = "|".join(map(re.escape, sorted(roles, key=len, reverse=True)))
    form = re.compile(rf"(?<!\w\()({every})(?![\w.:-])")

    def named(found: re.Match[str]) -> str:
        role = "/".join(roles[found[1]])
        before = found.string[: found.start()].rstrip(" :=([")
        return found[1] if before.endswith(role) else f"{role} {found[1]}"

    return lambda text: form.sub(named, text)


def _document(summary: Summary) -> Document:
    return Document(
        title=summary.run.job_name,
        description=summary.run.plan.description,
        verdict=summary.verdict,
        statement=_statement(summary),
        reasons=tuple(grouped(reason) for reason in summary.reasons),
        cautions=_cautions(summary),
        glance=tuple(
            glance(
                one.title,
                *(bulk_imports.glance(summary, one.stream) or _glance(summary, one)),
            )
            for one in summary.operations
        ),
        facts=facts(summary),
        sections=tuple(_sections(summary)),
    )


def _sections(summary: Summary) -> Iterator[Section]:
    parts: tuple[tuple[str, str, Blocks], ...] = (
        ("results", "Results", _results(summary)),
        ("imports", "Imports", bulk_imports.imports(summary)),
        ("timeline", "Over time", _over_time(summary)),
        ("times", "Response times", _times(summary)),
        ("errors", "Requests and errors", requests.outcomes(summary)),
        ("replication", "Replication", servers.replication(summary)),
        ("agents", "Load generators", appendix.agents(summary)),
    )
    of_appendix: tuple[tuple[str, str, Blocks], ...] = (
        ("rules", "Validity rules", (_rules(summary),)),
        ("details", "Times in detail", _times_in_detail(summary)),
        ("requests", "Requests by server", requests.by_server(summary)),
        ("connections", "Connections", requests.connections(summary)),
        ("monitors", "Servers and hosts", servers.monitors(summary)),
        ("hosts", "Load generators in detail", appendix.hosts(summary)),
        ("method", "How this was measured", appendix.method()),
        ("manifest", "Manifest", appendix.manifest(summary)),
        ("settings", "Server settings", appendix.shared(summary.run.manifest)),
    )
    for name, title, blocks in parts:
        yield from section(name, title, *blocks)
    for name, title, blocks in of_appendix:
        yield from section(name, title, *blocks, in_appendix=True)


def _cautions(summary: Summary) -> tuple[str, ...]:
    """The limits that the job has changed, and the notes."""
    changed = _changed_limits(summary)
    lines = [f"limits changed by the job: {', '.join(changed)}"] * bool(changed)
    lines += _empty_searches(summary)
    lines += [
        f"{one.subject}: {one.metric.replace('_', ' ')} changed by "
        f"{signed(one.change * 100)}% over the measure phase"
        for one in summary.trends
        if one.is_drift and one.change and abs(one.change) >= _LARGE_DRIFT
    ]
    lines += [
        f"{one.subject}: {one.metric.replace('_', ' ')} stepped by "
        f"{signed((step.after / step.before - 1) * 100)}% about {step.at_s:,.0f} s "
        "after T0"
        for one in summary.trends
        for step in one.steps
        if step.before and abs(step.after / step.before - 1) >= _LARGE_DRIFT
    ]
    return tuple(f"{_begun(text)}." for text in map(grouped, (*lines, *summary.notes)))


def _begun(text: str) -> str:
    """With a capital letter, but for a name and its colon, and a URI."""
    is_name = ":" in text.partition(" ")[0]
    return text if is_name else f"{text[:1].upper()}{text[1:]}"


_LARGE_DRIFT = 0.1
_EMPTY_SHARE = 0.01


def _empty_searches(summary: Summary) -> Iterator[str]:
    """Yield operations with searches that found nothing, unless a threshold is missed
    by it."""
    if any(".empty" in one.expression and not one.passed for one in summary.thresholds):
        return
    for one in summary.operations:
        empty, succeeded = one.counts["empty"], one.counts["succeeded"]
        if empty > _EMPTY_SHARE * succeeded:
            share = percent(empty / succeeded, 1)
            yield f"{one.title}: {share}% of the searches found nothing"


def _statement(summary: Summary) -> str:
    failing = [rule for rule in summary.rules if not rule.passed]
    outcomes = Counter(one.outcome for one in summary.thresholds)
    missed, unsure = outcomes[Outcome.MISSED], outcomes[Outcome.UNCERTAIN]
    if summary.verdict == "INVALID":
        what = [f"{number_of(len(failing), 'rule')} {_fail(len(failing))}"] * bool(
            failing
        )
        if unsure:
            is_are = "is" if unsure == 1 else "are"
            what.append(f"{number_of(unsure, 'threshold')} {is_are} uncertain")
        if summary.altered:
            what.insert(0, "the stored run is not what was judged")
        text = f"These numbers cannot be certified: {', '.join(what)}."
        is_held_up = failing and all(one.cause is Cause.GENERATOR for one in failing)
        return f"{text} {_HELD_UP}" if is_held_up and not summary.altered else text
    checked = sum(rule.is_checked for rule in summary.rules)
    text = f"All {checked} rules that had something to check pass"
    if failing:
        text = f"{checked - len(failing)} of {checked} rules pass"
    if any(rule.cause is Cause.GENERATOR for rule in failing):
        text += "; the generator's part does not change the verdict"
    if summary.replication is not None:
        differ = bool(servers_apart(summary.replication))
        text += "; replicas differ" if differ else ", replicas hold the same"
    every = number_of(len(summary.thresholds), "threshold")
    if missed or unsure:
        text = f"{text}; {missed} of {every} {_fail(missed)}"
        return f"{text}, {unsure} uncertain." if unsure else f"{text}."
    own = sum(not one.is_default for one in summary.thresholds)
    if not own:
        return f"{text}. The job sets no thresholds; the default thresholds pass."
    passes = "passes" if len(summary.thresholds) == 1 else "pass"
    return f"{text}, and {every} {passes} ({own} of the job)."


_HELD_UP = (
    "The load generator was held up, so they say nothing of the directory: free its "
    "CPUs, or run again on another host."
)


def _fail(number: int) -> str:
    return "fails" if number == 1 else "fail"


def _changed_limits(summary: Summary) -> list[str]:
    """The limits of rules that the job has changed."""
    usual = Validity().model_dump(mode="json", by_alias=True)
    limits = summary.run.plan.validity.model_dump(mode="json", by_alias=True)
    return [
        f"{name} {value} (default {usual[name] or 'none'})"
        for name, value in limits.items()
        if value != usual[name]
    ]


#: Rates that differ by no larger share are shown as one.
_SAME = 0.001


def _judged_statistics(
    summary: Summary, operations: Iterable[OperationSummary]
) -> list[str]:
    """Statistics of the response time that thresholds on these operations name."""
    named = {
        threshold.statistic
        for one in summary.thresholds
        if (threshold := parse_threshold(one.expression)).is_of_stream
        and threshold.metric == "response_time"
        and any(threshold.matches(each.stream, each.operation) for each in operations)
    }
    return [name for name in STATISTICS if name in named]


def _glance(
    summary: Summary, one: OperationSummary
) -> tuple[tuple[str, Cell | str], ...]:
    judged = _judged_statistics(summary, (one,))
    # a card has no room for more
    names = {"p50", *judged[-2:]}
    if not {*judged} - {"mean", "min", "p50"}:
        names.add("p99")
    times, of_which = _shown_times(one), " of expected results" * _is_of_expected(one)
    shown = [
        (f"{name.replace('_', '.')}{of_which}", statistic_cell(times, name, " ms"))
        for name in STATISTICS
        if name in names
    ]
    figures = readings_of(summary.figures)

    def statistic(name: FigureName) -> tuple[str, Cell]:
        cell = figure_cell(name, figures[name.of(one.title)], has_unit=True)
        return name.words, cell

    return (
        statistic(GOODPUT if _has_goodput(one) else THROUGHPUT),
        *(shown if one.has_responses else ()),
        *[(PER_SEARCH, requests.entries_per_search(one))] * (one.kind == "search"),
        statistic(ERRORS),
    )


def _is_of_expected(one: OperationSummary) -> bool:
    """Of other results that the job expects, where no success came."""
    return (
        one.times_of == "succeeded"
        and not one.times["response_time"].sample
        and "response_time" in one.outcome_times.get("expected", {})
    )


def _shown_times(one: OperationSummary) -> Distribution:
    if _is_of_expected(one):
        return one.outcome_times["expected"]["response_time"]
    return one.times["response_time"]


def _has_goodput(one: OperationSummary) -> bool:
    """Is it a figure of its own? Not where no success is expected."""
    throughput, goodput = one.throughput_per_s, one.goodput_per_s
    if throughput is None or goodput is None or one.times_of != "succeeded":
        return False
    return goodput < throughput * (1 - _SAME)


PER_SEARCH = "entries per search"


def _thresholds(summary: Summary) -> Table:
    missed: list[Field[ThresholdResult]] = []
    timeline = summary.timeline
    if any(any(timeline.states_of(one) or b"") for one in timeline.states):
        missed.append(number("Time missed (%)", lambda one: _time_missed(summary, one)))
    return table(
        "thresholds",
        "Thresholds",
        summary.thresholds,
        column(
            "Threshold",
            lambda one: f"{one.expression}{' (default)' * one.is_default}",
        ),
        number("Observed", lambda one: grouped(one.shown)),
        column("Where", lambda one: one.where),
        column("Range (95%)", lambda one: grouped(one.range) or NOTHING),
        number("of limit (%)", _of_limit),
        *missed,
        column("Result", _outcome),
        notes=[
            *[_RANGE] * any(" of requests " in one.range for one in summary.thresholds),
            *[_TIME_MISSED] * len(missed),
        ],
    )


def _rules(summary: Summary) -> Table:
    return table(
        "rules",
        "May the numbers be trusted, and who is at fault?",
        summary.rules,
        column("Rule", lambda rule: Cell(rule.title, hint=rule.name)),
        column("Limit", lambda rule: grouped(rule.limit)),
        column("Observed", lambda rule: grouped(rule.observed)),
        column("Result", _passed),
    )


_RANGE = (
    "Range: of a percentile, the share of requests that may be over its limit; a p99 "
    "allows 1%. Failures are over every limit."
)
_TIME_MISSED = (
    "Time missed: the share of intervals with enough requests that missed the limit "
    "by their own figure; n/a where these are fewer than half."
)


def _time_missed(summary: Summary, one: ThresholdResult) -> Cell:
    states = summary.timeline.states_of(one.expression)
    if states is None:
        return Cell(NOTHING, MUTED, "it is not about intervals")
    missed = states.count(IntervalState.MISSED)
    known = missed + states.count(IntervalState.MET)
    if not known:
        return Cell(NOT_AVAILABLE, MUTED, "no interval has enough requests for it")
    hint = f"{count(missed)} of {count(known)} intervals"
    if known * summary.interval_s < (summary.measure_s or 0) / 2:
        few = f"{hint}; the others have too few requests for it"
        return Cell(NOT_AVAILABLE, MUTED, few)
    return Cell(percent(missed / known, 1), hint=hint)


def _of_limit(one: ThresholdResult) -> Cell:
    value, limit = one.value, one.limit
    if value is None or not limit:
        return Cell(NOTHING, MUTED)
    return Cell(percent(value / limit, 1 if value < limit * 10 else 0))


def _outcome(one: ThresholdResult) -> Cell:
    words = {
        Outcome.MET: "pass",
        Outcome.MISSED: "fail",
        Outcome.UNCERTAIN: "uncertain",
    }
    return Cell(words[one.outcome], GOOD if one.passed else BAD)


def _passed(rule: Rule) -> Cell:
    if not rule.is_checked:
        return Cell(NOTHING, MUTED)
    return Cell("pass", GOOD) if rule.passed else Cell(f"fail: {rule.cause}", BAD)


def _results(summary: Summary) -> Blocks:
    def statistic(name: str) -> Field[OperationSummary]:
        def cell(one: OperationSummary) -> Cell:
            if not one.has_responses:
                return Cell(NOTHING, MUTED, "has no response")
            return statistic_cell(_shown_times(one), name)

        return number(parse_name(name).heading, cell)

    judged = _judged_statistics(summary, summary.operations)
    shown = [name for name in STATISTICS if name in (*SHOWN, "max", *judged)]

    expected: Field[OperationSummary]
    expected = number("expected", lambda one: count(one.counts["expected"]))
    goodput: Field[OperationSummary]
    goodput = number(GOODPUT.heading, lambda one: figure_text(one.goodput_per_s))
    headline = table(
        "headline",
        "Measure phase, response time of successes",
        summary.operations,
        column("Operation", lambda one: one.title),
        number(THROUGHPUT.heading, lambda one: figure_text(one.throughput_per_s)),
        *[goodput] * any(_has_goodput(one) for one in summary.operations),
        number("succeeded", lambda one: count(one.counts["succeeded"])),
        *[expected] * any(one.counts["expected"] for one in summary.operations),
        number(
            ERRORS.heading,
            lambda one: Cell(percent(one.error_share), BAD if one.error_share else ""),
        ),
        *map(statistic, shown),
        notes=(*_expected_only(summary), *_of_delivered(summary)),
    )
    return _thresholds(summary), headline, _streams(summary), _throughput(summary)


def _streams(summary: Summary) -> Table:
    return table(
        "streams",
        "Streams with an end or times of their own",
        [
            stream
            for stream in summary.streams
            if stream.planned.count or stream.window.measure_s != summary.measure_s
        ],
        column("Stream", lambda stream: stream.name),
        number(
            "sessions planned",
            lambda stream: count(stream.planned.count or None),
        ),
        number("total time (s)", lambda stream: decimal(stream.window.elapsed_s, 3)),
        number("measured (s)", lambda stream: decimal(stream.window.measure_s, 3)),
        notes=(
            "Total time: from the stream's start to its last response, in any phase. "
            "Throughput is over the time measured.",
        ),
    )


def _expected_only(summary: Summary) -> Iterator[str]:
    """Whose times are not those of successes, and who has none."""
    timed = summary.timed
    for why, named in (
        ("is expected", [one for one in timed if one.times_of == "expected"]),
        ("came", [one for one in timed if _is_of_expected(one)]),
    ):
        if names := ", ".join(one.title for one in named):
            yield (
                f"Of {names} no success {why}: its times are those of the expected "
                "results."
            )
    if any(not _shown_times(one).sample for one in timed):
        yield f"{NOTHING}: no success, so no times."


def _throughput(summary: Summary) -> ChartPlace:
    marks = ""
    if event_marks(summary):
        marks = " Dotted: events, by their numbers in the manifest."
    return ChartPlace(
        "throughput",
        "Throughput",
        "Completions per second. Dashed, where it differs: what was due. Shaded: other "
        "phases than measure."
        f"{_merged(summary)}{marks}{_shown(summary.operations)}",
    )


def _over_time(summary: Summary) -> Blocks:
    return (
        ChartPlace(
            "response_times",
            "Response time",
            "Percentiles of the response time of successes in each interval, "
            f"logarithmic scale.{_merged(summary)}{_marks(summary)}"
            f"{_shown(summary.timed)}",
        ),
        _queues(summary),
        _waits(summary),
        appendix.strips_of("server", summary.timeline.servers),
        _trends(summary),
        gaps := _gaps_table(summary),
        Paragraph(_MEANING) if gaps.rows else None,
        _partials_table(summary),
    )


def _trends(summary: Summary) -> Table:
    return table(
        "trends",
        "Drift over the measure phase",
        summary.trends,
        column("Figure", lambda one: f"{one.subject} {one.metric.replace('_', ' ')}"),
        column("Unit", lambda one: one.unit),
        number("at the start", lambda one: figure_text(one.start)),
        number("change (%)", _drift),
        column("Range (95%)", _drift_range),
        number("per hour", lambda one: figure_text(one.per_hour)),
        column("Steps", _steps_of),
        notes=(
            "Change: of the line of Theil and Sen over the whole phase, of what it is "
            "at the start; the range allows for blocks that depend on each other. "
            "In full ink: what chance makes of any figure of a run in one run in "
            "twenty at most. Steps: where levels fit better than the line.",
        ),
    )


def _drift(one: Trend) -> Cell:
    if one.change is None:
        return Cell(NOTHING, MUTED)
    return Cell(signed(one.change * 100), "" if one.is_drift else MUTED)


def _drift_range(one: Trend) -> str:
    if one.low is None or one.high is None:
        return NOTHING
    return f"{signed(one.low * 100)} to {signed(one.high * 100)}"


def _steps_of(one: Trend) -> str:
    return "; ".join(
        f"at {seconds(step.at_s)}: {figure_text(step.before)} → "
        f"{figure_text(step.after)}"
        for step in one.steps
    )


def _queues(summary: Summary) -> ChartPlace | None:
    if not queued(summary.timeline):
        return None
    return ChartPlace(
        "queues",
        "Backlog and requests in flight",
        "In flight: requests without a response yet, the mean over each interval by "
        "Little's law. Where none ended in an interval, or one took longer than it: "
        "their number at its end. Backlog: arrivals that waited for a connection at "
        "the end of each interval.",
    )


def _waits(summary: Summary) -> ChartPlace | None:
    if not (operations := waited(summary)):
        return None
    return ChartPlace(
        "waits",
        "Response time, service time and send lag",
        "The p99 of each, logarithmic scale. Response above service time: requests "
        "waited for a connection, or were sent late, which is the send lag: the load "
        f"generator's own.{_shown(operations)}",
    )


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


def _times(summary: Summary) -> Blocks:
    return (
        ChartPlace(
            "percentiles",
            "Response time by percentile",
            "Response time (from the scheduled start) and service time (from the "
            "sending) of successes by percentile, logarithmic scales. Where the two "
            "part, requests waited before they were sent."
            f"{_ends(summary)}{_shown(summary.timed)}",
        ),
        ChartPlace(
            "heat",
            "Response times over time",
            "Each column is a point of time, and its colour the share of its successes "
            "with the response time of the row; logarithmic scales. Two "
            f"bands are two kinds of requests.{_shown(summary.timed)}",
        ),
        *map(_servers_table, summary.timed),
    )


def _times_in_detail(summary: Summary) -> Blocks:
    figures = readings_of(summary.figures)
    return tuple(_times_table(one, figures) for one in summary.timed)


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


def _servers_table(one: OperationSummary) -> Table:
    return table(
        f"servers-{one.stream}-{one.operation}",
        f"{one.title}, by server",
        [
            (each, metric, times)
            for each in one.servers
            for metric, times in each.times.items()
        ],
        column("Server", lambda row: row[0].uri),
        number(THROUGHPUT.heading, lambda row: figure_text(row[0].throughput_per_s)),
        number(ERRORS.heading, lambda row: percent(row[0].error_share)),
        column("Time (ms)", lambda row: row[1].replace("_", " ")),
        *times_columns(),
    )


def _times_table(one: OperationSummary, figures: Readings) -> Table:
    rows: list[tuple[Cell, ...]] = []
    is_rare_known = one.times["response_time"].percentiles_us[RARE] is not None
    names = (*SHOWN, RARE) if is_rare_known else SHOWN
    columns = times_columns(names)
    for metric, times in one.times.items():
        if metric in ("backlog_wait", "sequence_time") and not times.count:
            continue  # a closed loop, or no sequence
        cells = (of((times,)) for _, of in columns)
        rows.append((Cell(metric.replace("_", " ")), *map(cell_of, cells)))
        if metric == "response_time":
            needs = {
                name: figures[parse_name(name).of(one.title)].needs for name in names
            }
            rows.append(_interval_row(times, needs))
    return table_of_cells(
        f"times-{one.stream}-{one.operation}",
        one.title,
        (Column("Time", "ms"), *(column for column, _ in columns)),
        rows,
    )


def _interval_row(times: Distribution, needs: Mapping[str, str]) -> tuple[Cell, ...]:
    """`needs`: by percentile."""

    def cell(name: str) -> Cell:
        if (interval := times.ci95_us[name]) is None:
            return no_value(grouped(needs[name]))
        low, high = interval
        if high is None:
            return Cell(f"≥ {milliseconds(low)}", MUTED)
        return Cell(f"{milliseconds(low)} – {milliseconds(high)}", MUTED)

    empty = Cell("")
    title = Cell("95% confidence interval", MUTED)
    return title, empty, empty, *map(cell, needs), empty


#: More rows would hide the rest of the report; result.json has all of them.
_ROWS = 50

_MEANING = (
    "Nothing is filled in for what is missing. Counts, totals and percentiles are of "
    "what was delivered. Throughput divides it by the whole measure phase, so it is "
    "too low by the share that is missing. Charts are hatched where an interval lacks "
    "an agent, and draw no statistic of the fleet from it."
)


def _of_delivered(summary: Summary) -> tuple[str, ...]:
    """The note on statistics of a measure phase that is not all there."""
    found = summary.completeness
    if found.measure_there >= found.measure_due:
        return ()
    missing = found.measure_due - found.measure_there
    share = percent(missing / found.measure_due, 2)
    return (
        "Statistics are of what was delivered. Missing or cut short: "
        f"{count(missing)} of the {count(found.measure_due)} intervals that agents "
        f"owed in the measure phase ({share}%).",
    )


def _gaps_table(summary: Summary) -> Table:
    def at(second: float) -> str:
        return time_of_day(summary.started_utc, second)

    live = "The run is not over: some of them may still arrive."
    return table(
        "gaps",
        "Missing intervals: gaps in the charts, never filled in",
        summary.completeness.gaps,
        column("Agent", lambda gap: gap.agent),
        number("Intervals", lambda gap: count(gap.count)),
        number("Numbers", lambda gap: gap.numbers),
        number("From (s)", lambda gap: decimal(gap.start_s, 1)),
        number("To (s)", lambda gap: decimal(gap.end_s, 1)),
        number("From (UTC)", lambda gap: at(gap.start_s)),
        number("To (UTC)", lambda gap: at(gap.end_s)),
        notes=[live] * summary.completeness.is_live,
        limit=_ROWS,
    )


def _partials_table(summary: Summary) -> Table:
    return table(
        "partials",
        "Intervals cut short by an agent's early end",
        summary.completeness.partials,
        column("Agent", lambda one: one.agent),
        number("Number", lambda one: str(one.index)),
        number("From (s)", lambda one: decimal(one.start_s, 1)),
        number("Up to (s)", lambda one: decimal(one.end_s, 3)),
        number("Up to (UTC)", lambda one: time_of_day(summary.started_utc, one.end_s)),
        notes=("Counted in all totals, in no rate of a chart.",),
        limit=_ROWS,
    )
