# SPDX-License-Identifier: Apache-2.0
"""The values of one axis of a study compared with its first one, runs being the sample.

For each combination of the other axes' values, by what `ldapslam compare` does. Runs of
a fleet are in the coordinator's store, where `compare` finds them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ldapslam.reports.comparing.comparison import Comparison, Side, compare_sides
from ldapslam.reports.model import Summary
from ldapslam.reports.summarise import summarise
from ldapslam.results.store import Store
from ldapslam.studies.answer import Answer, PointAnswer, curve
from ldapslam.studies.labs import is_place
from ldapslam.studies.runner import Journal
from ldapslam.studies.study_file import Value

_STORE = "results.sqlite"


@dataclass(frozen=True)
class Compared:
    """One comparison."""

    #: Values of the other axes.
    rest: Mapping[str, Value]
    comparison: Comparison


def comparisons(
    answer: Answer, journal: Journal, *, in_lab: bool
) -> tuple[Compared, ...]:
    """None where the study compares nothing, or its runs are not here. Where the
    servers of a lab were is no difference."""
    axis = answer.study.compare
    return tuple(_comparisons(answer, journal, axis, in_lab)) if axis else ()


def _comparisons(
    answer: Answer, journal: Journal, axis: str, in_lab: bool
) -> Iterator[Compared]:
    for rest, points in curve(answer, axis):
        sides = [_side(one, axis, journal.runs, in_lab) for one in points]
        if len(sides) > 1 and all(one.runs for one in sides):
            yield Compared(rest, compare_sides(sides))


def _side(one: PointAnswer, axis: str, runs: Path, in_lab: bool) -> Side:
    summaries = []
    for run in one.valid:
        file = runs / run.ended.folder / _STORE
        if file.exists():
            with Store.open(file, read_only=True) as store:
                summary = summarise(store, run.run_id)
                summaries.append(_without_places(summary) if in_lab else summary)
    return Side(str(one.point.values[axis]), tuple(summaries))


def _without_places(summary: Summary) -> Summary:
    run = summary.run
    kept = [one for one in run.manifest.get("overrides", ()) if not is_place(one)]
    manifest = {**run.manifest, "overrides": kept}
    return replace(summary, run=replace(run, manifest=manifest))
