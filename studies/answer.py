# SPDX-License-Identifier: Apache-2.0
"""What a study found: for each point, what its valid runs have in common.

A point's figure is the mean over its valid runs; its 95 % interval is Student's t over
the same runs, so that it includes the variation between runs. Neither a single run nor
runs with one value have an interval.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ldapslam.reports.comparing.change import Measured, mean_of
from ldapslam.reports.figures import figures_in, readings_of
from ldapslam.studies.figures import Column
from ldapslam.studies.points import Point, Turn
from ldapslam.studies.runner import Ended, Journal
from ldapslam.studies.study_file import Study, Value

#: Metrics that an answer has of every operation.
_METRICS = ("throughput", "goodput", "errors", "response_time", "elapsed")


@dataclass(frozen=True, slots=True)
class Mean(Measured):
    """A figure that all runs have."""

    value: float
    of_runs: tuple[float, ...]


@dataclass(frozen=True)
class Run:
    """A run of a point."""

    ended: Ended
    run_id: str
    reasons: tuple[str, ...]
    #: Name of a figure, or a column of the study's table as the file has it -> value,
    #: None where the run cannot say it.
    figures: Mapping[str, float | None]
    #: Titles of its operations.
    operations: tuple[str, ...] = ()
    #: Empty without a result.
    ended_utc: str = ""


@dataclass(frozen=True)
class PointAnswer:
    point: Point
    #: In the order in which they were made.
    runs: tuple[Run, ...]

    @cached_property
    def figures(self) -> Mapping[str, Mean]:
        """Name, as of a run -> estimate of the values that all valid runs have: a mean
        over some of the runs would be biased."""
        estimates = {}
        for name in dict.fromkeys(name for run in self.valid for name in run.figures):
            values = [run.figures.get(name) for run in self.valid]
            known = [one for one in values if one is not None]
            if len(known) == len(values):
                estimates[name] = estimate_of(known)
        return estimates

    @property
    def operations(self) -> tuple[str, ...]:
        """Titles of the operations of the valid runs."""
        return tuple(dict.fromkeys(t for run in self.valid for t in run.operations))

    @property
    def valid(self) -> tuple[Run, ...]:
        return tuple(one for one in self.runs if is_valid(one))

    @property
    def verdict(self) -> str:
        """FAIL when one of the valid runs is; INVALID without a valid run; empty
        before the first run."""
        verdicts = {one.ended.verdict for one in self.valid}
        if not verdicts:
            return "INVALID" if self.runs else ""
        return "FAIL" if "FAIL" in verdicts else "PASS"


@dataclass(frozen=True)
class Answer:
    study: Study
    points: tuple[PointAnswer, ...]
    #: Repeats without a valid run.
    missing: int
    #: Repeats that have not been run.
    waiting: int

    @property
    def operations(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(t for one in self.points for t in one.operations))

    @property
    def verdict(self) -> str:
        if self.missing or self.waiting:
            return "INVALID"
        verdicts = {one.verdict for one in self.points}
        return "FAIL" if "FAIL" in verdicts else "PASS"


def is_valid(run: Run) -> bool:
    return run.ended.verdict in ("PASS", "FAIL")


def answer_of(study: Study, points: Sequence[Point], journal: Journal) -> Answer:
    """What the runs of the journal say."""
    answers, missing, waiting = [], 0, 0
    for index, point in enumerate(points):
        runs = []
        for repeat in range(1, study.repeats + 1):
            made = journal.attempts(Turn(index, repeat))
            runs += [_run(study, journal, one) for one in made]
            waiting += not made
            missing += bool(made) and not any(
                one.verdict in ("PASS", "FAIL") for one in made
            )
        answers.append(PointAnswer(point, tuple(runs)))
    return Answer(study, tuple(answers), missing, waiting)


def _run(study: Study, journal: Journal, ended: Ended) -> Run:
    result = journal.result(ended) or {}
    columns = study.table.columns.values() if study.table and result else ()
    readings = readings_of(figures_in(result)).values()
    return Run(
        ended,
        result.get("run_id", ""),
        tuple(result.get("reasons", ())),
        {one.name: one.value for one in readings if one.metric in _METRICS}
        | {text: Column.of(text).read(result) for text in columns},
        tuple(dict.fromkeys(one.title for one in readings if one.part != "*")),
        result.get("manifest", {}).get("finished_utc") or "",
    )


def estimate_of(values: Sequence[float]) -> Mean:
    """Mean with Student's t interval; `values` has one of each run, at least one."""
    found = mean_of(np.array(values), is_ratio=False)
    if found is None:
        return Mean(values[0], None, tuple(values))
    # none of the metrics can be negative
    return Mean(found.value, found._replace(low=max(found.low, 0.0)), tuple(values))


def curve(
    answer: Answer, axis: str
) -> Iterator[tuple[dict[str, Value], list[PointAnswer]]]:
    """The points along an axis, for each combination of the other axes' values."""
    groups: dict[tuple[Any, ...], list[PointAnswer]] = {}
    for one in answer.points:
        rest = tuple((k, v) for k, v in one.point.values.items() if k != axis)
        groups.setdefault(rest, []).append(one)
    for rest, points in groups.items():
        yield dict(rest), points
