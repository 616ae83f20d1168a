# SPDX-License-Identifier: Apache-2.0
"""The values of one axis of a study compared with its first one, runs being the sample.

For each combination of the other axes' values, by what `ldapslam compare` does. Runs of
a fleet are in the coordinator's store, where `compare` finds them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ldapslam.reports.comparing.comparison import Comparison, Side, compare_sides
from ldapslam.reports.summarise import summarise
from ldapslam.results.store import Store
from ldapslam.studies.answer import Answer, PointAnswer, curve
from ldapslam.studies.runner import Journal
from ldapslam.studies.study_file import Value

_STORE = "results.sqlite"


@dataclass(frozen=True)
class Compared:
    """One comparison."""

    #: Values of the other axes.
    rest: Mapping[str, Value]
    comparison: Comparison


def comparisons(answer: Answer, journal: Journal) -> tuple[Compared, ...]:
    """None where the study compares nothing, or its runs are not here."""
    axis = answer.study.compare
    return tuple(_comparisons(answer, journal, axis)) if axis else ()


def _comparisons(answer: Answer, journal: Journal, axis: str) -> Iterator[Compared]:
    for rest, points in curve(answer, axis):
        sides = [_side(one, axis, journal.runs) for one in points]
        if len(sides) > 1 and all(one.runs for one in sides):
            yield Compared(rest, compare_sides(sides))


def _side(one: PointAnswer, axis: str, runs: Path) -> Side:
    summaries = []
    for run in one.valid:
        file = runs / run.ended.folder / _STORE
        if file.exists():
            with Store.open(file, read_only=True) as store:
                summaries.append(summarise(store, run.run_id))
    return Side(str(one.point.values[axis]), tuple(summaries))
