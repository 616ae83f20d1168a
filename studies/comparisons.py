# SPDX-License-Identifier: Apache-2.0
"""The values of one axis of a study compared with its first one, runs being the sample.

For each combination of the other axes' values, by what `ldapslam compare` does. Runs of
a fleet are in the coordinator's store, where `compare` finds them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ldapslam.reports.comparing.comparison import Comparison, Side, compare_sides
from ldapslam.reports.model import Summary
from ldapslam.reports.summarise import summarise
from ldapslam.results.store import Store
from ldapslam.studies.answer import Answer, PointAnswer, curve
from ldapslam.studies.labs import is_place
from ldapslam.studies.runner import RUNS, Ended, Journal, ended_in
from ldapslam.studies.study_file import Value

_STORE = "results.sqlite"


@dataclass(frozen=True)
class Compared:
    """One comparison."""

    #: Of the axes that are the same on all sides.
    values: Mapping[str, Value]
    comparison: Comparison

    @property
    def label(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.values.items())


def comparisons(
    answer: Answer, journal: Journal, *, in_lab: bool
) -> tuple[Compared, ...]:
    """None where the study compares nothing, or its runs are not here. Where the
    servers of a lab were is no difference."""
    axis = answer.study.compare
    return tuple(_comparisons(answer, journal, axis, in_lab)) if axis else ()


def compared_studies(
    folders: Mapping[str, Path], *, include_invalid: bool = False
) -> tuple[Compared, ...]:
    """Studies by name, point by point, against the first of them: at the points that
    have runs in all of their folders."""
    found: dict[str, dict[str, Side]] = {}
    for name, folder in folders.items():
        by_point: dict[str, list[Ended]] = {}
        for one in ended_in(folder):
            by_point.setdefault(json.dumps(one.values, sort_keys=True), []).append(one)
        for values, ended in by_point.items():
            runs = (folder / RUNS / one.folder for one in ended if one.verdict)
            summaries = tuple(filter(None, map(_summary, runs)))
            if summaries:
                found.setdefault(values, {})[name] = Side(name, summaries)
    return tuple(
        Compared(
            json.loads(values),
            compare_sides(list(sides.values()), include_invalid=include_invalid),
        )
        for values, sides in found.items()
        if len(sides) == len(folders)
    )


def _summary(folder: Path) -> Summary | None:
    """Of the only run in the folder's store; None without one."""
    if not (folder / _STORE).exists():
        return None
    with Store.open(folder / _STORE, read_only=True) as store:
        records = store.runs(1)
        return summarise(store, records[0].run_id) if records else None


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
