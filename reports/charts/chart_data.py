# SPDX-License-Identifier: Apache-2.0
"""What the charts draw: points, bars and panels of the Summary. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ldapslam.jobs.fields.result_codes import code_title
from ldapslam.jobs.fields.thresholds import UNANSWERED, samples_needed
from ldapslam.reports.collect.telemetry import MetricSummary, MonitorSummary
from ldapslam.reports.collect.timeline import (
    Series,
    Timeline,
    Values,
)
from ldapslam.reports.collect.totals import counter_title
from ldapslam.reports.model import Summary
from ldapslam.reports.streams import OperationSummary
from ldapslam.reports.typeset import count

#: What strips show of an agent or a server, and compare with the median of all.
_STRIPPED = ("throughput_per_s", "p90_us", "p99_us")

#: More panels than this do not fit a page; the tables have all of them.
PANELS = 8
#: Width of a chart over that of the narrowest gap that is drawn.
_GAPS = 300
#: And over the distance that two marks of events need.
_MARKS = 40


def causes(one: OperationSummary) -> list[tuple[str, int]]:
    """Why requests of the operation ended otherwise than expected, and how often."""
    found = _codes(one, "failed")
    if one.expected_codes is None:
        found.append(("failed", one.counts["failed"]))
    found.append(("nothing to capture", one.counts["captures_missing"]))
    found += [
        (counter_title(name), one.counts[name]) for name in (*UNANSWERED, "dropped")
    ]
    return [(cause, amount) for cause, amount in found if amount]


def expected_codes(one: OperationSummary) -> list[tuple[str, int]]:
    """Result codes other than success that the job expects, and how often."""
    found = [(f"{code}, expected", n) for code, n in _codes(one, "expected")]
    if one.expected_codes is None:
        found.append(("expected", one.counts["expected"]))
    return [(code, amount) for code, amount in found if amount]


def _codes(one: OperationSummary, outcome: str) -> list[tuple[str, int]]:
    codes = sorted(one.result_codes.items(), key=lambda item: -item[1])
    return [
        (code_title(code), n) for code, n in codes if one.outcome_of(code) == outcome
    ]


def end_of(timeline: Timeline) -> float:
    """Where time axes end, in s."""
    return max([phase.end_s for phase in timeline.phases] + timeline.end_s, default=1)


def event_marks(summary: Summary) -> list[tuple[str, float]]:
    """Return the numbers of events in their table, and their times in s since T0;
    events that are too near to distinguish share a mark."""
    end_s = end_of(summary.timeline)
    marks: list[tuple[list[int], float]] = []
    for number, event in enumerate(summary.events, 1):
        at_s = summary.since_start_s(event.at_utc)
        if at_s is None or not 0 < at_s <= end_s:
            continue
        if marks and at_s - marks[-1][1] < end_s / _MARKS:
            marks[-1][0].append(number)
        else:
            marks.append(([number], at_s))
    return [
        (str(them[0]) if len(them) == 1 else f"{them[0]}–{them[-1]}", at_s)
        for them, at_s in marks
    ]


def series_of(summary: Summary, one: OperationSummary) -> Series:
    """Return the operation's series; it is empty where the timeline has none."""
    return summary.timeline.operations.get((one.stream, one.operation), Series())


def gap_spans(timeline: Timeline, end_s: float) -> list[tuple[float, float]]:
    """Return the incomplete intervals, made wide enough to be seen; near
    neighbours are merged."""
    least_s = end_s / _GAPS
    spans: list[tuple[float, float]] = []
    for start_s, stop_s in timeline.gaps:
        stop_s = max(stop_s, start_s + least_s)
        if spans and start_s - spans[-1][1] < least_s:
            start_s, stop_s = spans[-1][0], max(spans.pop()[1], stop_s)
        spans.append((start_s, stop_s))
    return spans


def steps(timeline: Timeline, values: Values) -> tuple[list[float], list[float]]:
    """Edges and levels of a step line that breaks where there is no value."""
    return _line(timeline, values, lambda start_s, end_s: [start_s, end_s])


def middles(timeline: Timeline, values: Values) -> tuple[list[float], list[float]]:
    """Middles of the points and their values; broken as `steps`."""
    return _line(timeline, values, lambda start_s, end_s: [(start_s + end_s) / 2])


def _line(
    timeline: Timeline, values: Values, places: Callable[[float, float], list[float]]
) -> tuple[list[float], list[float]]:
    xs: list[float] = []
    ys: list[float] = []
    last_s = math.inf
    for start_s, end_s, value in zip(
        timeline.start_s, timeline.end_s, values, strict=False
    ):
        if start_s - last_s > 1e-6:
            xs.append(last_s)
            ys.append(math.nan)
        at_s = places(start_s, end_s)
        xs += at_s
        ys += [math.nan if value is None else value] * len(at_s)
        last_s = end_s
    return xs, ys


def spans_of(
    timeline: Timeline, xs: Sequence[float], ys: Sequence[float], *, is_steps: bool
) -> tuple[list[float], list[float], list[float]]:
    """Where each value of a line begins and ends, and the values. One in the middle of
    a point is of that point; others, as of samples, reach half way to their
    neighbours."""
    points = {
        (start_s + end_s) / 2: (start_s, end_s)
        for start_s, end_s in zip(timeline.start_s, timeline.end_s, strict=True)
    }
    if is_steps:
        edges = list(pairwise(xs))
    elif all(x in points for x, y in zip(xs, ys, strict=True) if not math.isnan(y)):
        edges = [points.get(x, (x, x)) for x in xs]
    else:
        halfway = [(x + later) / 2 for x, later in pairwise(xs)]
        # as far from the ends as from their neighbours; one alone is of a second
        first = 2 * xs[0] - halfway[0] if halfway else xs[0] - 0.5
        last = 2 * xs[-1] - halfway[-1] if halfway else xs[0] + 0.5
        edges = list(pairwise([first, *halfway, last]))
    found = [
        (start, end, y)
        for (start, end), y in zip(edges, ys, strict=False)
        if start < end
    ]
    starts, ends, values = ([one[place] for one in found] for place in range(3))
    return starts, ends, values


def lonely(ys: Sequence[float]) -> list[int]:
    """Places of values without a neighbour: no line shows them, a marker has to."""
    shown = [False, *(not math.isnan(y) for y in ys), False]
    return [
        place
        for place in range(len(ys))
        if shown[place + 1] and not (shown[place] or shown[place + 2])
    ]


def heat_rows(series: Series) -> tuple[int, int]:
    """Return the range of rows of the heat map that have a value; empty without any."""
    known = [one for one in series.heat if one is not None]
    rows = np.flatnonzero(np.sum(known, axis=0)) if known else np.zeros(0, np.intp)
    return (int(rows[0]), int(rows[-1]) + 1) if rows.size else (0, 0)


def heat_columns(
    timeline: Timeline, series: Series, rows: tuple[int, int]
) -> tuple[list[float], npt.NDArray[np.float64]]:
    """Edges in s, and between them the share of the point's requests in each row; NaN
    where there is none."""
    edges: list[float] = []
    columns: list[npt.NDArray[np.float64]] = []
    nothing = np.full(rows[1] - rows[0], np.nan)
    for start_s, end_s, counts in zip(
        timeline.start_s, timeline.end_s, series.heat, strict=False
    ):
        if edges and start_s > edges[-1]:
            columns.append(nothing)
        edges += [start_s] if not edges or start_s > edges[-1] else []
        if counts is None or not sum(counts):
            columns.append(nothing)
        else:
            shares = np.array(counts[slice(*rows)]) / sum(counts)
            columns.append(np.where(shares > 0, shares, np.nan))
        edges.append(end_s)
    return edges, np.array(columns).T


#: Wait, as a share of the p99, from which on the waits have a chart.
_APART = 0.1


def waited(summary: Summary) -> list[OperationSummary]:
    """Return the operations with a response time above the service time, or with a send
    lag that is a part of it, in some point."""
    found = []
    for one in summary.timed:
        series = series_of(summary, one)
        points = zip(
            series.p99_us, series.service_p99_us, series.send_lag_p99_us, strict=True
        )
        if any(
            response_us is not None
            and max(response_us - (service_us or response_us), lag_us or 0)
            > _APART * response_us
            for response_us, service_us, lag_us in points
        ):
            found.append(one)
    return found


def queued(timeline: Timeline) -> list[str]:
    """Return the streams with a backlog in the measure phase, or with a change of the
    mean number of requests in flight by one or more."""
    return [
        name
        for name, series in timeline.streams.items()
        if any(series.backlog[place] for place in timeline.measured)
        or _spread(series.in_flight[place] for place in timeline.measured) >= 1
    ]


def _spread(values: Iterable[float | None]) -> float:
    known = [value for value in values if value is not None]
    return max(known, default=0.0) - min(known, default=0.0)


def too_few(series: Series) -> str:
    """The percentiles that some points had too few requests for; empty without any."""
    missing = [
        (name, p)
        for name, p in (("p50", 50), ("p90", 90), ("p99", 99))
        if any(
            sample is not None and 0 < sample < samples_needed(p)
            for sample in series.sample
        )
    ]
    return ", ".join(f"{name} ≥ {count(samples_needed(p))}" for name, p in missing)


#: Maximum number of strips of a chart; the members that differ most are shown.
STRIPS = 8


def strips(
    timeline: Timeline, members: Mapping[str, Series]
) -> tuple[dict[str, Series], Series]:
    """Return the agents, or servers, with a strip, in their order, and the medians of
    all. Among many, those furthest from the medians in the measure phase."""
    middle = Series()
    for name in _STRIPPED:
        every = [getattr(one, name) for one in members.values()]
        medians = [_median(at_point) for at_point in zip(*every, strict=True)]
        setattr(middle, name, medians)

    def distance(member: str) -> float:
        ratios = (
            [
                abs(math.log(value / usual))
                for place in timeline.measured
                if (value := getattr(members[member], name)[place])
                and (usual := getattr(middle, name)[place])
            ]
            for name in _STRIPPED
        )
        return max(_median(of_name) or 0.0 for of_name in ratios)

    furthest = sorted(members, key=distance, reverse=True)[:STRIPS]
    return {name: one for name, one in members.items() if name in furthest}, middle


def strip_percentile(members: Mapping[str, Series]) -> str:
    """p99, or p90 where no point has enough requests of anyone for it."""
    every = (us for one in members.values() for us in one.p99_us)
    return "p90" if all(us is None for us in every) else "p99"


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


#: Lines of a panel, at most: those with the highest means.
_LINES = 8
#: Longer labels would take the space of the lines.
_LABEL_CHARACTERS = 28

#: Title and the metrics' names, without what is in brackets; a `*` stands for any
#: beginning. A metric is in the first panel that names it.
_PANEL_METRICS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("CPU, cores", ("cpu_user", "cpu_nice", "cpu_system", "cpu_iowait", "cpu_steal")),
    ("operations begun", ("*_initiated",)),
    (
        "operations",
        (
            *("search", "compare", "bind", "add", "modify", "delete", "modify_dn"),
            *("extended", "abandon", "unbind"),
        ),
    ),
    ("results", ("results",)),
    (
        "threads and queues",
        (
            *("threads_active", "threads_pending", "threads", "work_queue"),
            *("read_waiters", "write_waiters"),
        ),
    ),
    ("connections", ("connections", "open_files")),
    ("bytes sent and received", ("bytes_sent", "bytes_received")),
    ("age of the newest change", ("newest_change_age",)),
    ("changes sent to replicas", ("changes_sent",)),
    ("cache hits", ("*_cache_hits",)),
    ("cache tries", ("*_cache_tries",)),
    ("filters without an index", ("not_indexed",)),
    ("pages", ("mdb_pages_used", "mdb_pages_free", "bdb_dirty_pages")),
    ("memory", ("memory_resident", "memory_used", "memory_available", "swap_used")),
    ("disk", ("disk_read", "disk_written")),
    ("network", ("network_sent", "network_received")),
)
_CHART = "monitor-"


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    unit: str
    #: Label and statistic of each line.
    lines: tuple[tuple[str, MetricSummary], ...]


def chart_name(number: int) -> str:
    """Name of the chart of the summary's monitor of this number."""
    return f"{_CHART}{number}"


def monitor_number(name: str) -> int | None:
    """The reverse; None where it is another chart's name."""
    return int(name.removeprefix(_CHART)) if name.startswith(_CHART) else None


def panels_of(one: MonitorSummary) -> tuple[Panel, ...]:
    """Return the panels of the metrics that are not always zero. A monitor without any
    metric in _PANEL_METRICS, such as an entry's, has a panel for each unit."""
    moving = [each for each in one.metrics if not each.is_idle]
    panels = []
    placed: set[str] = set()
    for title, names in _PANEL_METRICS:
        chosen = [
            each
            for each in moving
            if each.metric.name not in placed and _is_one_of(each.metric.name, names)
        ]
        placed |= {each.metric.name for each in chosen}
        panels += _by_unit(title, chosen)
    if not panels:
        panels = _by_unit("", moving)
    return tuple(panels[:PANELS])


def _is_one_of(name: str, patterns: Sequence[str]) -> bool:
    plain = name.partition("[")[0]
    return any(
        plain.endswith(pattern[1:]) if pattern.startswith("*") else plain == pattern
        for pattern in patterns
    )


def _by_unit(title: str, chosen: Sequence[MetricSummary]) -> list[Panel]:
    panels = []
    for unit in dict.fromkeys(each.unit for each in chosen):
        of_unit = [each for each in chosen if each.unit == unit]
        of_unit.sort(key=lambda each: -size_of(each))
        shown = of_unit[:_LINES]
        subjects = {_subject(each) for each in shown}
        words = [title or "statistics"]
        if title == "" and unit:
            words.append(unit)
        # a common subject is in the title, not in each label
        common = subjects.pop() if len(subjects) == 1 else None
        if common:
            words.append(common)
        lines = tuple((_label(each, common), each) for each in shown)
        panels.append(Panel(", ".join(words), unit, lines))
    return panels


def _subject(each: MetricSummary) -> str:
    """What is in brackets: a suffix, a disk, an agreement."""
    return each.metric.name.partition("[")[2].removesuffix("]")


def size_of(each: MetricSummary) -> float:
    return max(abs(value) for value in each.points.values if value is not None)


def _label(each: MetricSummary, common: str | None) -> str:
    """Without what the panel's title says already."""
    name = each.metric.name.partition("[")[0] if common else each.metric.name
    for ending in ("_initiated", "_cache_hits", "_cache_tries"):
        name = name.replace(ending, "")
    if len(name) > _LABEL_CHARACTERS:
        name = f"{name[: _LABEL_CHARACTERS - 1]}…"
    return name.replace("_", " ")
