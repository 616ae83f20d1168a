# SPDX-License-Identifier: Apache-2.0
"""What a study found: for each point, what its valid runs have in common.

A point's figure is the mean over its valid runs; its 95 % interval is Student's t over
the same runs, so that it includes the variation between runs. A single run has none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from scipy import special

from ldapslam.jobs.fields.thresholds import STATISTICS
from ldapslam.reports.comparing.readings import Metric, metric_of
from ldapslam.reports.figures import figures_in
from ldapslam.studies.points import Point, Turn
from ldapslam.studies.runner import Ended, Journal
from ldapslam.studies.study_file import Study, Value

LEVEL = 0.95

#: Name in study.json, of an operation -> its metric.
METRICS: Mapping[str, Metric] = {
    "throughput_per_s": metric_of("throughput"),
    **{f"response_time_{one}_us": metric_of(one) for one in STATISTICS},
    "error_share": metric_of("errors"),
}


@dataclass(frozen=True)
class Estimate:
    """A mean over runs."""

    mean: float
    #: The 95 % interval; None of a single run.
    low: float | None
    high: float | None
    #: Each run's value.
    values: tuple[float, ...]


@dataclass(frozen=True)
class Run:
    """A run of a point."""

    ended: Ended
    run_id: str
    reasons: tuple[str, ...]
    #: Operation -> metric -> value, None where the run cannot say it.
    operations: Mapping[str, Mapping[str, float | None]]
    #: Empty without a result.
    ended_utc: str = ""
    #: Column of the study's table -> its figure.
    figures: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True)
class PointAnswer:
    point: Point
    #: In the order in which they were made.
    runs: tuple[Run, ...]
    #: Operation -> metric -> over the valid runs.
    operations: Mapping[str, Mapping[str, Estimate]]
    #: Column of the study's table -> over the valid runs.
    figures: Mapping[str, Estimate] = field(default_factory=dict)

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
        found = PointAnswer(point, tuple(runs), {})
        figures = _over_runs([one.figures for one in found.valid])
        operations = _estimates(found.valid)
        answers.append(replace(found, operations=operations, figures=figures))
    return Answer(study, tuple(answers), missing, waiting)


def _run(study: Study, journal: Journal, ended: Ended) -> Run:
    result = journal.result(ended) or {}
    figures = study.table.figures if study.table and result else {}
    return Run(
        ended,
        result.get("run_id", ""),
        tuple(result.get("reasons", ())),
        operations_of(result),
        result.get("manifest", {}).get("finished_utc") or "",
        {name: one.read(result) for name, one in figures.items()},
    )


def operations_of(result: Mapping[str, Any]) -> dict[str, dict[str, float | None]]:
    """METRICS of each operation of a run, by its title."""
    values = {
        (f"{one.stream}.{one.operation}", one.metric, one.statistic): one.value
        for one in figures_in(result)
        if one.operation != "*"
    }
    return {
        title: {
            name: values.get((title, metric.metric, metric.statistic))
            for name, metric in METRICS.items()
        }
        for title in dict.fromkeys(title for title, *_ in values)
    }


def _estimates(runs: Sequence[Run]) -> dict[str, dict[str, Estimate]]:
    titles = dict.fromkeys(title for run in runs for title in run.operations)
    found = {t: _over_runs([run.operations.get(t, {}) for run in runs]) for t in titles}
    return {title: one for title, one in found.items() if one}


def _over_runs(runs: Sequence[Mapping[str, float | None]]) -> dict[str, Estimate]:
    """Return name -> estimate of the values that all runs have: a mean over some of the
    runs would be biased."""
    names = dict.fromkeys(name for run in runs for name in run)
    estimates = {}
    for name in names:
        known = [one for run in runs if (one := run.get(name)) is not None]
        if len(known) == len(runs):
            estimates[name] = estimate_of(known)
    return estimates


def estimate_of(values: Sequence[float]) -> Estimate:
    """Mean with Student's t interval; `values` has one of each run, at least one."""
    n, mean = len(values), math.fsum(values) / len(values)
    if n < 2:
        return Estimate(mean, None, None, tuple(values))
    spread = math.sqrt(math.fsum((one - mean) ** 2 for one in values) / (n - 1))
    half = float(special.stdtrit(n - 1, (1 + LEVEL) / 2)) * spread / math.sqrt(n)
    # none of the metrics can be negative
    return Estimate(mean, max(mean - half, 0.0), mean + half, tuple(values))


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
