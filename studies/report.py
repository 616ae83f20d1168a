# SPDX-License-Identifier: Apache-2.0
"""The report of a study: HTML, PDF, text and study.json. Pure but for the files."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ldapslam.base.files import part_of
from ldapslam.jobs.fields.thresholds import FigureName
from ldapslam.reports.document import (
    MUTED,
    NOT_AVAILABLE,
    NOTHING,
    Blocks,
    Cell,
    ChartPlace,
    Document,
    Field,
    Glance,
    Table,
    column,
    glance,
    number,
    section,
    table,
)
from ldapslam.reports.figures import ERRORS, METRICS, THROUGHPUT, point_of
from ldapslam.reports.typeset import (
    figure_cell,
    figure_columns,
    figure_text,
    minute_utc,
    percent,
    value_text,
    verdict_cell,
)
from ldapslam.studies.answer import Answer, Mean, PointAnswer, Run, curve
from ldapslam.studies.figures import Column
from ldapslam.studies.points import files_of
from ldapslam.studies.study_file import JOB

if TYPE_CHECKING:
    from ldapslam.reports.charts.charts import Line
    from ldapslam.studies.comparisons import Comparisons
    from ldapslam.studies.study_file import Published, StudyTable, Value

_CHART = "study-curve"
_P99 = METRICS["p99"]
SCHEMA = "ldapslam-study/1"


def study_document(answer: Answer, compared: Comparisons | None = None) -> Document:
    """The study as a document: its answer first."""
    made = [run for one in answer.points for run in one.runs]
    return Document(
        title=answer.study.name,
        verdict=answer.verdict,
        statement=_statement(answer),
        reasons=_reasons(answer),
        cautions=_cautions(answer, compared),
        glance=_glance(answer),
        facts=(
            ("Study", answer.study.description or answer.study.name),
            ("Job", ", ".join(dict.fromkeys(files_of(answer.study)))),
            ("Axes", ", ".join(answer.study.labels)),
            ("Points", f"{len(answer.points)}, {_of_each(answer.study.repeats)}"),
            ("Order", f"{answer.study.order}, seed {answer.study.seed}"),
            ("Runs made", str(len(made)) + until_text(_ended_utc(answer))),
        ),
        sections=(
            *section("table", "Answer", *_tables(answer)),
            *section("points", "Points", *_points(answer)),
            *section("comparison", "Comparison", *_comparison(compared)),
            *section("runs", "Runs", _runs(answer)),
        ),
    )


def _of_each(repeats: int) -> str:
    return f"{repeats} runs of each" if repeats > 1 else "one run of each"


def write_study(
    answer: Answer, folder: Path, compared: Comparisons | None = None
) -> list[Path]:
    """Write the reports; their paths."""
    content = study_document(answer, compared)
    draw, found = partial(_chart, answer), answer_json(answer, compared)
    return write_reports(folder, STUDY, content, draw, found, _ended_utc(answer))


def write_reports(
    folder: Path,
    stem: str,
    content: Document,
    draw: Callable[[ChartPlace], str],
    found: Mapping[str, Any],
    ended_utc: str | None,
    more: Mapping[str, str] | None = None,
) -> list[Path]:
    """HTML, PDF, text and JSON of what many runs have found, of which the last ended
    then, and `more` texts by their file's name; their paths. `draw` makes charts."""
    from ldapslam.reports.formats.html import render_html
    from ldapslam.reports.formats.pdf import render_pdf
    from ldapslam.reports.formats.text import render_text

    drawn = {place.name: draw(place) for place in content.charts()}
    document = json.dumps(found, indent=2, ensure_ascii=False) + "\n"
    files = {
        f"{stem}.html": render_html(content, drawn).encode(),
        f"{stem}.pdf": render_pdf(content, drawn, date_utc=ended_utc),
        f"{stem}.txt": render_text(content).encode(),
        f"{stem}.json": document.encode(),
        **{name: text.encode() for name, text in (more or {}).items()},
    }
    paths = []
    for name, data in files.items():
        path = folder / name
        part = part_of(path)
        part.write_bytes(data)
        os.replace(part, path)
        paths.append(path)
    return paths


STUDY = "study"


def _ended_utc(answer: Answer) -> str | None:
    return latest(run.ended_utc for one in answer.points for run in one.runs)


def latest(times_utc: Iterable[str | None]) -> str | None:
    """Return the latest of the known times."""
    return max(filter(None, times_utc), default=None)


def _statement(answer: Answer) -> str:
    if answer.waiting:
        return f"The study is not complete: {answer.waiting} runs are still to be made."
    if answer.missing:
        return (
            f"{answer.missing} of {len(answer.points) * answer.study.repeats} runs "
            "have no valid result: their points rest on fewer runs, or on none."
        )
    made = sum(len(one.runs) for one in answer.points)
    valid = sum(len(one.valid) for one in answer.points)
    runs = "All runs are valid"
    if valid < made:
        runs = f"{valid} of {made} runs are valid, the others were repeated"
    failed = sum(one.verdict == "FAIL" for one in answer.points)
    points = f"{failed} of {len(answer.points)} points FAIL" if failed else ""
    return f"{runs}; {points or 'all points PASS'}."


def until_text(ended_utc: str | None) -> str:
    return f", the last ended {minute_utc(ended_utc)} UTC" if ended_utc else ""


#: More of them would push the answer off its page.
_MOST_REASONS = 10
#: With more, each is told in short: the runs have them in full.
_MOST_IN_FULL = 2


def _reasons(answer: Answer) -> tuple[str, ...]:
    """Why points lack a valid run, which is decisive, and why others fail."""
    lacking: list[tuple[str, Run]] = []
    failing: list[tuple[str, Run]] = []
    for one in answer.points:
        label, valid = one.point.label, {run.ended.repeat for run in one.valid}
        # the last attempt of each
        lacks = {run.ended.repeat: run for run in one.runs}.keys() - valid
        failed = [run for run in one.valid if run.ended.verdict == "FAIL"]
        if lacks:
            last = [run for run in one.runs if run.ended.repeat in lacks][-1]
            count = f"{len(lacks)} of {answer.study.repeats} runs"
            lacking.append((f"{label}: {count} without a valid result", last))
        if failed:
            count = f"{len(failed)} of {len(valid)} runs"
            failing.append((f"{label}: {count} FAIL", failed[-1]))
    found = lacking + failing
    is_short = len(found) > _MOST_IN_FULL
    reasons = [f"{what}: {_why(run, is_short=is_short)}" for what, run in found]
    if (more := len(reasons) - _MOST_REASONS) > 0:
        reasons[_MOST_REASONS:] = [f"and {more} more: see the runs"]
    return tuple(reasons)


def _why(run: Run, *, is_short: bool) -> str:
    """Short: the first reason, without its limit and remedy."""
    if is_short and not run.ended.error and run.reasons:
        first, more = run.reasons[0].partition(" (limit")[0], len(run.reasons) - 1
        return f"{first}; and {more} more" if more else first
    return run.ended.error or "; ".join(run.reasons) or "no result"


#: Range of a point's runs, as a share of their mean, from which on it is a caution.
_LARGE_RANGE = 0.1


def _cautions(answer: Answer, compared: Comparisons | None) -> tuple[str, ...]:
    """What is not compared, and where the runs of a point differ."""
    by_reason: dict[str, list[str]] = {}
    for left_out in compared.left_out if compared else ():
        by_reason.setdefault(left_out.why, []).append(left_out.label)
    found = [f"Not compared: {', '.join(of)}: {why}." for why, of in by_reason.items()]
    ranges = [
        ((max(runs) - min(runs)) / one.value, point.point.label, title, runs)
        for point in answer.points
        for title in point.operations
        if (one := point.figures.get(THROUGHPUT.of(title).name)) and one.value
        for runs in [one.of_runs]
    ]
    large = [one for one in ranges if one[0] > _LARGE_RANGE]
    if large:
        _, label, title, runs = max(large, key=lambda of: of[0])
        points = len({of[1] for of in large})
        found.append(
            f"Runs of a point differ by more than {percent(_LARGE_RANGE, 0)} % of its "
            f"throughput at {points} of {len(answer.points)} points, most of {title} "
            f"at {label}: {value_text(THROUGHPUT, min(runs))} to "
            f"{value_text(THROUGHPUT, max(runs), has_unit=True)}."
        )
    return tuple(found)


def _glance(answer: Answer) -> tuple[Glance, ...]:
    """Return the point with the highest throughput for each operation; none where a
    table has the answer."""
    if answer.study.table is not None:
        return ()
    glances = []
    for title in answer.operations:
        found = [
            (known.value, one.point.label)
            for one in answer.points
            if (known := one.figures.get(THROUGHPUT.of(title).name))
        ]
        if found:
            best, label = max(found, key=lambda pair: pair[0])
            highest = value_text(THROUGHPUT, best, has_unit=True)
            at = ("highest throughput", highest), ("at", label)
            glances.append(glance(title, *at))
    return tuple(glances)


def _points(answer: Answer) -> Blocks:
    rows = [
        (one, title)
        for one in answer.points
        for title in (
            [t for t in answer.operations if t in one.operations] or [NOTHING]
        )
    ]

    def axis(name: str) -> Field[tuple[PointAnswer, str]]:
        return column(name, lambda row: str(row[0].point.values[name]))

    def read(row: tuple[PointAnswer, str], metric: FigureName) -> Mean | None:
        return row[0].figures.get(metric.of(row[1]).name)

    def interval(row: tuple[PointAnswer, str]) -> str:
        found = read(row, THROUGHPUT)
        if found is None or found.interval is None:
            return NOT_AVAILABLE
        return " to ".join(value_text(THROUGHPUT, end) for end in found.interval[1:])

    points = table(
        "study-points",
        "Points: means over their valid runs",
        rows,
        *map(axis, answer.study.labels),
        column("Operation", lambda row: row[1]),
        column("Verdict", lambda row: verdict_cell(row[0].verdict)),
        number("valid runs", lambda row: f"{len(row[0].valid)} of {len(row[0].runs)}"),
        *figure_columns((THROUGHPUT,), read),
        number(THROUGHPUT.with_unit("95 % interval"), interval),
        *figure_columns((METRICS["p50"], _P99, ERRORS), read),
        notes=(
            "The interval is Student's t over the runs of the point: it has what "
            "differs between runs. n/a: one run, or too few requests.",
        ),
    )
    title = "Throughput and response time of each point"
    place = ChartPlace(_CHART, title, "mean over valid runs, with the 95 % interval")
    drawn = [one for one in answer.points if one.figures]
    return (points, place) if len(drawn) > 1 and _drawn_axes(answer) else (points,)


def _drawn_axes(answer: Answer) -> dict[str, Sequence[Value]]:
    """Several jobs are no axis: each has operations of its own."""
    return {one: of for one, of in answer.study.labels.items() if one != JOB}


#: Figures of a table: with the runs of each, and what was published, more are too wide.
_SIDE_BY_SIDE = 3


@dataclass(frozen=True)
class _Row:
    """A row of the study's table: a point, what was published of it, or both."""

    values: Mapping[str, Published]
    point: PointAnswer | None
    published: Mapping[str, Published]


def _rows(answer: Answer, of: StudyTable) -> list[_Row]:
    """Points in their order, each with the published row of its values, then what was
    published of others."""
    axes = list(answer.study.labels)
    published = {tuple(row[name] for name in axes): row for row in of.published}
    rows = []
    for one in answer.points:
        values = one.point.values
        row = published.pop(tuple(values[name] for name in axes), {})
        rows.append(_Row(values, one, row))
    for row in published.values():
        rows.append(_Row({name: row[name] for name in axes}, None, row))
    return rows


def _tables(answer: Answer) -> Iterator[Table]:
    if (of := answer.study.table) is None:
        return
    notes = [f"Published: {of.source}"] if of.source else []
    if of.published:
        notes.append("What was published is of the original's size and machines.")
    if answer.study.repeats > 1:
        notes.append("Figures are means over the valid runs.")

    def axis(name: str) -> Field[_Row]:
        return column(name, lambda row: str(row.values[name]))

    figures, rows = list(of.columns.items()), _rows(answer, of)
    for place in range(0, len(figures), _SIDE_BY_SIDE):
        columns = [
            field
            for name, text in figures[place : place + _SIDE_BY_SIDE]
            for field in _side_by_side(answer, name, text)
        ]
        axes = map(axis, answer.study.labels)
        caption = f"{of.title}, continued" if place else of.title
        yield table(f"study-table-{place}", caption, rows, *axes, *columns, notes=notes)


def _side_by_side(answer: Answer, name: str, text: str) -> Iterator[Field[_Row]]:
    """A figure of the point, of each of its runs, and what was published."""
    assert answer.study.table is not None
    heading = Column.of(text).names[0].with_unit(name)
    yield number(heading, lambda row: _ours(answer, row, text))
    if answer.study.repeats > 1:
        yield column("each run", lambda row: _each(row, text))
    if any(name in row for row in answer.study.table.published):
        yield number("published", lambda row: _published(row, name))


def _ours(answer: Answer, row: _Row, text: str) -> Cell:
    """`text`: the column's figure."""
    if row.point is None:
        return Cell("not run", MUTED)
    found = row.point.figures.get(text)
    # of several jobs, each has its own operations
    if found is None and answer.study.jobs is not None and row.point.valid:
        return Cell(NOTHING, MUTED)
    return figure_cell(Column.of(text).names[0], found)


def _each(row: _Row, text: str) -> str:
    found, name = row.point and row.point.figures.get(text), Column.of(text).names[0]
    each = found.of_runs if found else ()
    return ", ".join(value_text(name, one) for one in each) or NOTHING


def _published(row: _Row, name: str) -> str:
    found = row.published.get(name, NOTHING)
    if isinstance(found, list):
        each = ", ".join(map(figure_text, found))
        return f"{figure_text(math.fsum(found) / len(found))} ({each})"
    return figure_text(found) if isinstance(found, (int, float)) else str(found)


def _comparison(compared: Comparisons | None) -> Blocks:
    from ldapslam.reports.comparing.tables import tables_of

    return tuple(
        replace(found, caption=": ".join(filter(None, (one.label, found.caption))))
        for one in (compared.made if compared else ())
        # the runs have a table of the study's
        for found in tables_of(one.comparison)[1:]
    )


def _runs(answer: Answer) -> Table:
    rows = [(one, run) for one in answer.points for run in one.runs]
    # of several, the points have them by their names
    has_one = all(len(run.operations) < 2 for _, run in rows)
    return table(
        "study-runs",
        "All runs, in the order of the points",
        rows,
        column("Point", lambda row: row[0].point.label),
        number("repeat", lambda row: str(row[1].ended.repeat)),
        number("attempt", lambda row: str(row[1].ended.attempt)),
        column("Verdict", lambda row: verdict_cell(row[1].ended.verdict or "INVALID")),
        *([column(THROUGHPUT.heading, _throughput)] if has_one else []),
        column("Folder", lambda row: f"runs/{row[1].ended.folder}"),
        column("Why", lambda row: row[1].ended.error or "; ".join(row[1].reasons)),
        limit=500,
    )


def _throughput(row: tuple[PointAnswer, Run]) -> str:
    """Return the throughput of a run of one operation."""
    run = row[1]
    found = (run.figures.get(THROUGHPUT.of(title).name) for title in run.operations)
    return figure_text(next(found, None))


def _chart(answer: Answer, place: ChartPlace) -> str:
    """Throughput above, p99 below, along the axis that has most values."""
    from ldapslam.reports.charts.charts import draw_lines

    axes = _drawn_axes(answer)
    axis = max(axes, key=lambda one: len(axes[one]))
    labels = axes[axis]
    numbers = [one for one in labels if type(one) in (int, float)]
    is_number = len(numbers) == len(labels) > 2
    places: dict[Value, float] = {
        label: float(label) if is_number else float(number)
        for number, label in enumerate(labels)
    }
    panels = {
        metric.heading: _lines(answer, axis, places, metric)
        for metric in (THROUGHPUT, _P99)
    }
    ticks = {at: str(label) for label, at in places.items()}
    return draw_lines(place, panels, ticks, axis)


def _lines(
    answer: Answer, axis: str, places: Mapping[Value, float], metric: FigureName
) -> list[Line]:
    """One for each operation and combination of the other axes' values."""
    from ldapslam.reports.charts.charts import Line

    titles = answer.operations
    lines = []
    for title in titles:
        for rest, points in curve(answer, axis):
            words = [f"{name}={value}" for name, value in rest.items()]
            words[:0] = [title] * (len(titles) > 1 or not words)
            marks = [
                point_of(
                    metric,
                    places[one.point.values[axis]],
                    found.value,
                    found.interval,
                )
                for one in points
                if (found := one.figures.get(metric.of(title).name))
            ]
            if marks:
                lines.append(Line(" ".join(words), marks))
    return lines


def answer_json(answer: Answer, compared: Comparisons | None = None) -> dict[str, Any]:
    """The content of study.json."""
    from ldapslam.reports.comparing.tables import document_of

    return {
        "schema": SCHEMA,
        "study": answer.study.name,
        "description": answer.study.description,
        "verdict": answer.verdict,
        "repeats": answer.study.repeats,
        "method": "mean over valid runs; 95 % interval of Student's t over runs",
        "points": [_point_json(one) for one in answer.points],
        "table": answer.study.table and answer.study.table.model_dump(),
        "comparisons": [
            # each run's result.json has what `runs` would repeat
            {"values": dict(one.values), **document_of(one.comparison), "runs": None}
            for one in (compared.made if compared else ())
        ],
        "not_compared": [
            {"values": dict(one.values), "why": one.why}
            for one in (compared.left_out if compared else ())
        ],
        "cautions": list(_cautions(answer, compared)),
    }


def _point_json(one: PointAnswer) -> dict[str, Any]:
    return {
        "values": dict(one.point.values),
        "verdict": one.verdict or None,
        "runs": [
            {
                "run_id": run.run_id or None,
                "repeat": run.ended.repeat,
                "attempt": run.ended.attempt,
                "verdict": run.ended.verdict or None,
                "error": run.ended.error or None,
                "reasons": list(run.reasons),
                "folder": f"runs/{run.ended.folder}",
            }
            for run in one.runs
        ],
        "figures": {name: found.document() for name, found in one.figures.items()},
    }
