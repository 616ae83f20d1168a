# SPDX-License-Identifier: Apache-2.0
"""The runs of jobs over weeks: each figure's series, and where its level changed. Pure
but for the files.

A change is a step (reports/rules/steps.py), at a level that all series share: of
figures that never change, one history in twenty shows one. It needs five runs on each
side, and more the smaller it is. INVALID runs take no part. What else changed between
the two runs at a step, such as the server's version, is said with it; it need not be
the cause.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ldapslam.base.arrays import median
from ldapslam.jobs.fields.thresholds import FigureName
from ldapslam.reports.document import (
    BAD,
    GOOD,
    NOTHING,
    Cell,
    ChartPlace,
    Document,
    Paragraph,
    Section,
    Table,
    column,
    number,
    section,
    table,
)
from ldapslam.reports.figures import (
    Figure,
    Readings,
    figures_in,
    point_of,
    readings_of,
)
from ldapslam.reports.rules.steps import step_places
from ldapslam.reports.typeset import (
    changes,
    figure_columns,
    minute_utc,
    value_text,
    verdict_cell,
)
from ldapslam.studies.job_groups import Load, key_of, load_of, names_of
from ldapslam.studies.report import latest, write_reports

SCHEMA = "ldapslam-history/1"
HISTORY = "history"
_FALSE_ALARMS = 0.05
#: In the order of charts and tables.
_METRICS = ("throughput", "p50", "p95", "p99", "errors")
#: Maximum number of runs in a table, the latest.
_SHOWN = 30
_DAY_S = 86_400.0
_METHOD = "Of histories in which nothing changes, one in twenty shows a change."
#: Steps of an axis of less than a day.
_STEPS_MIN = (1, 2, 5, 10, 20, 30, 60, 120, 240)


@dataclass(frozen=True)
class Run:
    """A run of a job."""

    job: str
    run_id: str
    t0_utc: str
    verdict: str
    readings: Readings
    #: What may have changed a figure, by name.
    made: Mapping[str, str]
    #: Its report, as a link from the history's folder; empty: unknown.
    report: str = ""
    load: Load = field(default_factory=dict)

    @property
    def at_s(self) -> float:
        return datetime.fromisoformat(self.t0_utc).timestamp()


def run_of(result: Mapping[str, Any], report: str = "") -> Run | None:
    """Return the run of a result.json; None if it never began. ValueError, KeyError,
    TypeError, AttributeError if the content is none of a result.json."""
    manifest = result["manifest"]
    if not manifest.get("t0_utc"):
        return None
    if result["verdict"] not in ("PASS", "FAIL", "INVALID"):
        raise ValueError(f"the verdict {result['verdict']!r} is none")
    datetime.fromisoformat(manifest["t0_utc"])
    versions = {
        f"version of server {place}": str(
            facts.get("monitor_version") or facts.get("vendor_version") or ""
        )
        for place, facts in enumerate((manifest.get("servers") or {}).values(), 1)
    }
    return Run(
        job=manifest["job"],
        run_id=result["run_id"],
        t0_utc=manifest["t0_utc"],
        verdict=result["verdict"],
        readings=readings_of(figures_in(result)),
        made={
            **versions,
            "job file": str(manifest.get("job_hash") or "")[:12],
            "agents": str(len(manifest.get("planned_agents") or ())),
            "ldapslam": str(manifest.get("ldapslam") or ""),
        },
        report=report,
        load=load_of(manifest),
    )


def by_load(runs: Iterable[Run]) -> list[Run]:
    """With the name of their series as their job: runs of unlike loads have others."""
    ordered = sorted(runs, key=lambda one: one.at_s)
    loads: dict[str, dict[str, Load]] = {}
    for one in ordered:
        loads.setdefault(one.job, {})[one.run_id] = one.load
    names = {job: names_of(job, of) for job, of in loads.items()}
    return [replace(one, job=names[one.job][key_of(one.load)]) for one in ordered]


class Change(NamedTuple):
    """A step of a series: the levels are medians up to the next steps."""

    #: The first run of the new level, and the run before it.
    run: Run
    last: Run
    before: float
    after: float

    @property
    def also(self) -> tuple[str, ...]:
        """What else was not the same in the two runs."""
        then, now = self.last.made, self.run.made
        return tuple(
            f"{name}: {then.get(name) or NOTHING} → {now.get(name) or NOTHING}"
            for name in dict.fromkeys((*then, *now))
            if then.get(name) != now.get(name)
        )


@dataclass(frozen=True)
class Series:
    """A figure over the valid runs of a job that have it."""

    job: str
    name: FigureName
    runs: Sequence[Run]
    values: Sequence[float]
    changes: Sequence[Change]

    @property
    def title(self) -> str:
        return f"{self.name.title} {self.name.words}"

    def is_worse(self, change: Change) -> bool:
        is_lower = change.after < change.before
        return is_lower == self.name.is_rate


def series_of(runs: Iterable[Run]) -> list[Series]:
    """By job, operation and figure; runs in the order of their start."""
    ordered = sorted(runs, key=lambda one: one.at_s)
    found: dict[tuple[str, FigureName], list[tuple[Run, float]]] = {}
    for run in ordered:
        if run.verdict == "INVALID":
            continue
        for name, figure in run.readings.items():
            if name.short in _METRICS and figure.value is not None:
                found.setdefault((run.job, name), []).append((run, figure.value))
    limit = _FALSE_ALARMS / max(len(found), 1)
    series = []
    for (job, name), of_runs in found.items():
        its_runs, values = zip(*of_runs, strict=True)
        changes = _changes_of(its_runs, np.array(values), limit)
        series.append(Series(job, name, its_runs, values, changes))
    places = {one: place for place, one in enumerate(_METRICS)}
    return sorted(series, key=lambda s: (s.job, s.name.title, places[s.name.short]))


def _changes_of(
    runs: Sequence[Run], values: npt.NDArray[np.float64], limit: float
) -> list[Change]:
    # runs count, whenever they were made
    places = step_places(np.arange(len(values), dtype=np.float64), values, limit)
    levels = [median(part) for part in np.split(values, places)]
    return [
        Change(runs[place], runs[place - 1], before, after)
        for place, (before, after) in zip(places, pairwise(levels), strict=True)
    ]


def history_document(runs: Sequence[Run], series: Sequence[Series]) -> Document:
    """The history of one run or more as a document: what changed first, then each
    job."""
    changes = _changes(series)
    jobs = sorted({one.job for one in runs})
    worse = [(s, c) for s, c in changes if s.is_worse(c)]
    times = sorted((one.t0_utc for one in runs), key=datetime.fromisoformat)
    return Document(
        title=f"History of {len(runs)} runs",
        verdict="",
        statement=_statement(len(jobs), len(changes), len(worse)),
        reasons=(),
        glance=(),
        facts=(
            ("First run", f"{minute_utc(times[0])} UTC"),
            ("Last run", f"{minute_utc(times[-1])} UTC"),
            ("Verdicts", _verdicts(runs)),
        ),
        sections=(
            *section("changes", "Changes", _change_table(changes)),
            *(
                one
                for place, name in enumerate(jobs)
                for one in _job(place, name, runs, series)
            ),
        ),
    )


def _statement(jobs: int, changes: int, worse: int) -> str:
    of = "1 job" if jobs == 1 else f"{jobs} jobs"
    if not changes:
        return f"{of}; no figure changed."
    found = "1 change of a figure" if changes == 1 else f"{changes} changes of figures"
    is_all = worse == changes
    which = "" if is_all else "none " if not worse else f"{worse} of them "
    return f"{of}; {found}, {which}for the worse."


def _verdicts(runs: Sequence[Run]) -> str:
    counts = Counter(one.verdict or "none" for one in runs)
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())


def _changes(series: Sequence[Series]) -> list[tuple[Series, Change]]:
    """The newest first."""
    found = [(one, change) for one in series for change in one.changes]
    return sorted(found, key=lambda pair: pair[1].run.at_s, reverse=True)


def _change_table(changes: Sequence[tuple[Series, Change]]) -> Table | Paragraph:
    if not changes:
        return Paragraph(f"No change was found. {_METHOD}")
    return table(
        "history-changes",
        "Where a figure changed, the newest first",
        changes,
        column("Since (UTC)", lambda row: minute_utc(row[1].run.t0_utc)),
        column("Run", lambda row: row[1].run.run_id),
        column("Job", lambda row: row[0].job),
        column("Figure", lambda row: row[0].title),
        number("before", lambda row: value_text(row[0].name, row[1].before)),
        number("after", lambda row: value_text(row[0].name, row[1].after)),
        column("Change", lambda row: _change_cell(*row)),
        column("With it", lambda row: "; ".join(row[1].also) or NOTHING),
        notes=(
            f"{_METHOD} before, after: medians up to the next change. With it: what "
            "else changed between the two runs; it need not be the cause.",
        ),
        limit=200,
    )


def _change_cell(series: Series, change: Change) -> Cell:
    tone = BAD if series.is_worse(change) else GOOD
    word = "worse" if tone == BAD else "better"
    if not change.before:
        return Cell(word, tone)
    form, [text] = changes([change.after / change.before], 1, is_ratio=True)
    return Cell(f"{form.format(text)}, {word}", tone)


def _job(
    number: int, name: str, runs: Sequence[Run], series: Sequence[Series]
) -> list[Section]:
    ours = sorted((one for one in runs if one.job == name), key=lambda one: one.at_s)
    of_job = [one for one in series if one.job == name]
    shown = [place for place, _ in _charts(number, of_job)]
    # a table for each operation: one table of all is too wide
    operations = dict.fromkeys(one.name.title for one in of_job) or [""]
    tables = [
        _runs(name, title, ours, [one for one in of_job if one.name.title == title])
        for title in operations
    ]
    return section(f"job-{number}", name, *shown, *tables)


def _runs(
    name: str, operation: str, runs: Sequence[Run], series: Sequence[Series]
) -> Table:
    def read(run: Run, name: FigureName) -> Figure | None:
        return run.readings.get(name) if run.verdict != "INVALID" else None

    shown = runs[-_SHOWN:]
    left_out = len(runs) - len(shown)
    return table(
        "history-runs",
        f"{operation or 'Runs'} of {name}, the newest last",
        shown,
        column("Began (UTC)", lambda run: minute_utc(run.t0_utc)),
        column("Run", lambda run: Cell(run.run_id, link=run.report)),
        column("Verdict", lambda run: verdict_cell(run.verdict)),
        *figure_columns([one.name for one in series], read),
        notes=[f"{left_out} runs before: history.json has them."] * (left_out > 0),
    )


def history_json(runs: Sequence[Run], series: Sequence[Series]) -> dict[str, Any]:
    """The content of history.json."""
    return {
        "schema": SCHEMA,
        "method": "circular binary segmentation of ranks; Bonferroni over the series",
        "runs": [
            {
                "job": one.job,
                "run_id": one.run_id,
                "t0_utc": one.t0_utc,
                "verdict": one.verdict,
                "made": dict(one.made),
                "report": one.report or None,
            }
            for one in sorted(runs, key=lambda one: one.at_s)
        ],
        "series": [
            {
                "job": one.job,
                "operation": one.name.title,
                "metric": one.name.short,
                "runs": [run.run_id for run in one.runs],
                "values": list(one.values),
                "changes": [
                    {
                        "run_id": change.run.run_id,
                        "before": change.before,
                        "after": change.after,
                        "is_worse": one.is_worse(change),
                        "also": list(change.also),
                    }
                    for change in one.changes
                ],
            }
            for one in series
        ],
    }


def write_history(
    runs: Sequence[Run], series: Sequence[Series], folder: Path
) -> list[Path]:
    """Write history.html, .pdf, .txt and .json; their paths."""
    content = history_document(runs, series)
    charted = {
        place: of_metric
        for number, name in enumerate(sorted({one.job for one in runs}))
        for place, of_metric in _charts(number, [s for s in series if s.job == name])
    }
    found = history_json(runs, series)
    last_utc = latest(one.t0_utc for one in runs)
    return write_reports(
        *(folder, HISTORY, content),
        *(lambda place: _chart(charted[place], place), found, last_utc),
    )


def _charts(
    number: int, series: Sequence[Series]
) -> Iterator[tuple[ChartPlace, list[Series]]]:
    """Of one job: a chart for each metric, unless it was 0 throughout."""
    by_metric: dict[str, list[Series]] = {}
    for one in series:
        by_metric.setdefault(one.name.short, []).append(one)
    for metric, found in by_metric.items():
        if any(value for one in found for value in one.values):
            first, name = found[0].name, f"history-{number}-{metric}"
            of = first.title if len(found) == 1 else "each operation"
            yield ChartPlace(name, first.heading, f"{of} in each valid run"), found


def _chart(series: Sequence[Series], place: ChartPlace) -> str:
    """A line for each operation."""
    from ldapslam.reports.charts.charts import Line, draw_lines

    first_s = min(run.at_s for one in series for run in one.runs)
    last_s = max(run.at_s for one in series for run in one.runs)
    lines = [
        Line(
            one.name.title,
            [
                point_of(one.name, (run.at_s - first_s) / _DAY_S, value)
                for run, value in zip(one.runs, one.values, strict=True)
            ],
        )
        for one in series
    ]
    return draw_lines(place, {"": lines}, dict(_ticks(first_s, last_s)), "")


def _ticks(first_s: float, last_s: float) -> Iterator[tuple[float, str]]:
    """At most seven days by their date, or seven times of less than a day; in UTC."""
    span_s = last_s - first_s
    step_s, form = _DAY_S * max(1, math.ceil(span_s / _DAY_S / 6)), "%Y-%m-%d"
    if span_s < _DAY_S:
        steps_s = (60.0 * one for one in _STEPS_MIN)
        step_s = next(one for one in steps_s if one * 6 >= span_s)
        form = "%H:%M"
    early_s = first_s % 60  # to the first run, from the minute that its label says
    for place in range(int((span_s + early_s) / step_s) + 1):
        after_s = place * step_s - early_s
        at = datetime.fromtimestamp(first_s + after_s, UTC)
        date = f"{at:%Y-%m-%d} " if form == "%H:%M" and not place else ""
        yield after_s / _DAY_S, date + at.strftime(form)
