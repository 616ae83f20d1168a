# SPDX-License-Identifier: Apache-2.0
"""A comparison as tables and as JSON: what differs in the making, then the figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ldapslam.jobs.fields.thresholds import FigureName
from ldapslam.reports.comparing.change import LEVEL, Change, Measured, finite
from ldapslam.reports.comparing.comparison import (
    BY_BATCHES,
    BY_RUNS,
    CANNOT_TELL,
    HIGHER,
    LOWER,
    NO_DIFFERENCE,
    Comparison,
    Finding,
    Side,
)
from ldapslam.reports.comparing.making import Facts, differences_of
from ldapslam.reports.document import (
    BAD,
    CAUTION,
    MUTED,
    NOTHING,
    Cell,
    Field,
    Table,
    column,
    no_value,
    number,
    table,
)
from ldapslam.reports.model import Summary
from ldapslam.reports.result import result_of
from ldapslam.reports.sections.bulk_imports import compared
from ldapslam.reports.typeset import changes, decimal, value_text, verdict_cell

_RUNS = (
    "Sample: the runs. Values are geometric means of runs (of errors: means). "
    "Intervals and p are of Welch's t on logarithms, or of Student's where it is "
    "wider; a single run has the spread of the other side."
)
_BATCHES = (
    "Sample: batches of consecutive intervals within the runs (MOVER). This is weaker "
    "than repeats: it does not see what varies from run to run, such as caches or "
    "other load of the hosts, so that these may be the cause of a difference. Three "
    "runs a side would show it."
)
_FAMILY = (
    "adj. p: by Holm, over all {tests} tests of the comparison; a figure is higher or "
    "lower where it is below 0.05. Intervals are 95 %, each by itself. detectable: a "
    "change of this size is found in 80 % of cases, by the standard error seen."
)


def tables_of(comparison: Comparison) -> tuple[Table, ...]:
    """What the command prints, in its order."""
    imports = compared([run for side in comparison.sides for run in side.runs])
    return (
        _runs(comparison),
        _making(comparison),
        *([imports] if imports.rows else ()),
        *_figures(comparison),
    )


def document_of(comparison: Comparison) -> dict[str, Any]:
    """The same for programs; numbers are not rounded."""
    runs = [run for side in comparison.sides for run in side.runs]
    return {
        "sides": [
            {"name": side.name, "runs": [run.run.run_id for run in side.runs]}
            for side in comparison.sides
        ],
        "baseline": comparison.sides[0].name,
        "excluded": list(comparison.excluded),
        "runs": [result_of(run) for run in runs],
        "differences": _differences(comparison, runs),
        "differing_repeats": _differing(comparison),
        "method": {
            "level": LEVEL,
            "adjustment": "Holm",
            "tests": comparison.tests,
            **_samples(comparison),
        },
        "findings": [_finding(one) for one in comparison.findings],
    }


def _runs(comparison: Comparison) -> Table:
    def verdict(run: Summary) -> Cell:
        if run.run.run_id in comparison.excluded:
            if run.is_judged:
                return Cell("INVALID, left out", CAUTION)
            return Cell("not as judged, left out", BAD)
        return verdict_cell(run.verdict)

    return table(
        "runs",
        f"Runs; {comparison.sides[0].name} is the baseline",
        [pair for side in comparison.sides for pair in side.named()],
        column("", lambda row: row[0]),
        column("Run", lambda row: row[1].run.run_id),
        column("Job", lambda row: row[1].run.job_name),
        column("Verdict", lambda row: verdict(row[1])),
        number("measured (s)", lambda row: decimal(row[1].measure_s, 0)),
        number("agents", lambda row: str(len(row[1].agents))),
        notes=[
            f"{name} has no valid run: nothing is compared with it."
            for name in comparison.without_runs
        ],
    )


def _differences(comparison: Comparison, runs: Sequence[Summary]) -> Facts:
    return differences_of(runs, without_places=comparison.without_places)


def _making(comparison: Comparison) -> Table:
    """A row for each value of what differs: as wide for two runs as for twenty."""
    sides = comparison.sides
    runs = [run for side in sides for run in side.runs]
    rows = []
    for fact, texts in _differences(comparison, runs).items():
        title = fact
        for text in dict.fromkeys(texts):
            shown = NOTHING if text is None else text
            rows.append((title, shown, _having(sides, texts, text)))
            title = ""
    differing = _differing(comparison)
    return table(
        "differences",
        "How the runs differ",
        rows,
        column("Differs", lambda row: row[0]),
        column("is", lambda row: row[1]),
        column("in", lambda row: row[2]),
        notes=(
            *(
                f"The runs of {name} differ in how they were made: they are no repeats "
                "of the same."
                for name in differing
            ),
            "Job, servers, population, agents and versions. What is not here was the "
            "same, where it could be read.",
        ),
    )


def _having(
    sides: Sequence[Side], texts: Sequence[str | None], text: str | None
) -> str:
    """The sides and runs with this text, by their short names."""
    names, place = [], 0
    for side in sides:
        of_side = texts[place : place + len(side.runs)]
        place += len(side.runs)
        if all(one == text for one in of_side):
            names.append(side.name)
        else:
            pairs = zip(side.named(), of_side, strict=True)
            names += [name for (name, _), one in pairs if one == text]
    return ", ".join(names)


def _differing(comparison: Comparison) -> list[str]:
    """Return the sides with runs of different making."""
    return [
        side.name
        for side in comparison.sides
        if any(
            len(set(texts)) > 1
            for texts in _differences(comparison, side.runs).values()
        )
    ]


def _samples(comparison: Comparison) -> dict[str, str]:
    """Return the samples of the findings, and how they were used."""
    samples = {one.sample for one in comparison.findings}
    texts = {BY_RUNS: _RUNS, BY_BATCHES: _BATCHES}
    return {name: text for name, text in texts.items() if name in samples}


#: Heading, side, figure, value, finding, what a value needs; of the baseline without a
#: finding.
_Row = tuple[str, str, FigureName, Measured, Finding | None, str]


def _figures(comparison: Comparison) -> list[Table]:
    """A table for each operation; the baseline's value heads the rows of a metric. The
    notes below the last table say how the figures were compared."""
    made: list[Table] = []
    base = comparison.sides[0].name
    for title in dict.fromkeys(one.name.title for one in comparison.findings):
        rows: list[_Row] = []
        ours = [one for one in comparison.findings if one.name.title == title]
        for name in dict.fromkeys(one.name for one in ours):
            of_name = [one for one in ours if one.name == name]
            first, needs = of_name[0], of_name[0].needs
            rows.append((name.heading, base, name, first.old, None, needs))
            rows += [("", one.side, name, one.new, one, one.needs) for one in of_name]
        made.append(_figures_of(title, base, rows))
    notes = *_samples(comparison).values(), _FAMILY.format(tests=comparison.tests)
    return [*made[:-1], *(replace(last, notes=notes) for last in made[-1:])]


def _figures_of(title: str, baseline: str, rows: Sequence[_Row]) -> Table:
    def judged(title: str, cell: Callable[[Finding], Cell | str]) -> Field[_Row]:
        return number(title, lambda row: cell(row[4]) if row[4] else "")

    return table(
        f"comparison-{title}",
        f"{title}, against {baseline}",
        rows,
        column("Metric", lambda row: row[0]),
        column("", lambda row: row[1]),
        number("value (95 %)", lambda row: _value(row[2], row[3], row[5])),
        judged("change (95 %)", _change),
        judged("adj. p", _p),
        column("Finding", lambda row: _verdict(row[4]) if row[4] else ""),
        judged("detectable", _detectable),
    )


def _value(name: FigureName, value: Measured, needs: str) -> Cell:
    if value.value is None:
        return no_value(needs)
    text = value_text(name, value.value)
    if value.interval is None:
        return Cell(text)
    low, high = (value_text(name, end) for end in value.interval[1:])
    return Cell(f"{text} ({low} to {high})")


def _change(finding: Finding) -> Cell | str:
    if finding.change is None:
        return no_value(finding.needs)
    change = finding.change
    width = abs(change.high - change.low) * 100
    digits = 2
    if 0 < width < math.inf:
        # no more digits than the width of the interval supports
        digits = min(2, max(0, 1 - math.floor(math.log10(width / 2))))
    ends = (change.value, change.low, change.high)
    form, (value, low, high) = changes(ends, digits, is_ratio=change.is_ratio)
    return f"{form.format(value)} ({low} to {high})"


def _p(finding: Finding) -> str:
    if finding.adjusted_p is None:
        return ""
    return "<0.001" if finding.adjusted_p < 0.001 else f"{finding.adjusted_p:.3f}"


def _verdict(finding: Finding) -> Cell:
    if finding.verdict == CANNOT_TELL:
        return Cell(f"{CANNOT_TELL}: needs {finding.needs}", MUTED)
    is_change = finding.verdict in (HIGHER, LOWER)
    return Cell(finding.verdict, CAUTION if is_change else "")


def _detectable(finding: Finding) -> str:
    """The change that would have been found where none was."""
    if finding.verdict != NO_DIFFERENCE or finding.change is None:
        return ""
    if finding.detectable is None:
        return ""
    amount, is_ratio = finding.detectable * 100, finding.change.is_ratio
    digits = 0 if amount >= 10 else 1 if amount >= 1 else 2
    form, [text] = changes([finding.detectable + is_ratio], digits, is_ratio=is_ratio)
    return form.format(text.removeprefix("+"))


def _finding(one: Finding) -> dict[str, Any]:
    change = one.change
    return {
        "operation": one.name.title,
        "metric": one.name.short,
        "side": one.side,
        "verdict": one.verdict,
        "sample": one.sample,
        "old": one.old.document(),
        "new": one.new.document(),
        "ratio": _change_of(change) if change and change.is_ratio else None,
        "difference": _change_of(change) if change and not change.is_ratio else None,
        "p": change and change.p,
        "adjusted_p": one.adjusted_p,
        "detectable": finite(one.detectable),
        "needs": one.needs,
    }


def _change_of(change: Change) -> dict[str, Any]:
    return {
        "value": change.value,
        "ci95": [finite(change.low), finite(change.high)],
        "standard_error": change.error,
        "degrees_of_freedom": finite(change.freedom),
    }
