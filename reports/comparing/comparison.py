# SPDX-License-Identifier: Apache-2.0
"""Sides, which are runs or repeats of a run, against the first one of them. Pure.

The sample is the runs where the two sides have three valid ones or more: only they show
what varies from run to run (Treadmill, ISCA 2016). For two single runs, batches
of consecutive intervals are the sample.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from ldapslam.jobs.fields.thresholds import FigureName
from ldapslam.reports.comparing.change import (
    LEVEL,
    Change,
    Measured,
    difference_of_estimates,
    difference_of_means,
    mean_of,
    ratio_of_estimates,
    ratio_of_means,
)
from ldapslam.reports.figures import (
    Figure,
    Readings,
    names_of,
    readings_of,
)
from ldapslam.reports.many_tests import holm
from ldapslam.reports.model import Summary
from ldapslam.reports.uncertainty import Estimate

HIGHER, LOWER = "higher", "lower"
NO_DIFFERENCE, CANNOT_TELL = "no difference seen", "cannot tell"
#: Changes below are shown as 0.00 %.
_FINEST = 0.00005
BY_RUNS, BY_BATCHES = "runs", "batches"

_ABOVE_0 = "values above 0 in every run"


@dataclass(frozen=True, slots=True)
class Side:
    """One run, or several that are repeats of the same."""

    name: str
    runs: tuple[Summary, ...]

    def named(self) -> list[tuple[str, Summary]]:
        """Each run with a short name: A, or A1, A2, A3 of repeats."""
        if len(self.runs) == 1:
            return [(self.name, self.runs[0])]
        return [(f"{self.name}{n}", run) for n, run in enumerate(self.runs, 1)]


@dataclass(frozen=True, slots=True)
class Finding:
    """One figure of one side against the baseline's."""

    name: FigureName
    side: str
    old: Measured
    new: Measured
    #: BY_RUNS or BY_BATCHES.
    sample: str
    #: None where nothing can be said, or where neither side has errors.
    change: Change | None
    #: By Holm, over all findings of the comparison, or of its family.
    adjusted_p: float | None
    #: The change that would have been found in 80 % of cases, at the level that Holm's
    #: method asks of the smallest p; as Change.detectable.
    detectable: float | None
    #: HIGHER, LOWER, NO_DIFFERENCE or CANNOT_TELL; the first two by `adjusted_p`.
    verdict: str
    #: What is needed, where the verdict is CANNOT_TELL.
    needs: str


@dataclass(frozen=True, slots=True)
class Comparison:
    #: The first side is the baseline.
    sides: tuple[Side, ...]
    #: Ids of the runs that are in no statistic: INVALID, altered or not judged.
    excluded: tuple[str, ...]
    findings: tuple[Finding, ...]
    #: p values that were adjusted together: those of the findings, or of a family.
    tests: int
    #: Whether the sides may have servers of their own, so that addresses do not matter.
    without_places: bool = False

    @property
    def without_runs(self) -> tuple[str, ...]:
        """Names of the sides that have no run left to compare."""
        return tuple(
            side.name
            for side in self.sides
            if all(run.run.run_id in self.excluded for run in side.runs)
        )


def compare_sides(
    sides: Sequence[Side],
    *,
    include_invalid: bool = False,
    without_places: bool = False,
) -> Comparison:
    """Every metric of every later side against that of the first."""
    excluded = tuple(
        run.run.run_id
        for side in sides
        for run in side.runs
        if not run.is_judged or (run.verdict == "INVALID" and not include_invalid)
    )
    readings = [
        [
            readings_of(run.figures)
            for run in side.runs
            if run.run.run_id not in excluded
        ]
        for side in sides
    ]
    found = [
        _finding(name, side.name, readings[0], of_side)
        for name in names_of([run for side in readings for run in side])
        for side, of_side in zip(sides[1:], readings[1:], strict=True)
    ]
    return Comparison(tuple(sides), excluded, *_judged(found), without_places)


def as_family(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Comparisons of one answer: p is adjusted over all of them."""
    found, tests = _judged([one for of in comparisons for one in of.findings])
    left = iter(found)
    return [
        replace(one, findings=tuple(islice(left, len(one.findings))), tests=tests)
        for one in comparisons
    ]


def _finding(
    name: FigureName, side: str, old: list[Readings], new: list[Readings]
) -> Finding:
    readings = [[run.get(name) for run in runs] for runs in (old, new)]
    sample = BY_RUNS if len(old) + len(new) > 2 else BY_BATCHES
    values = tuple(_value(name, of_side) for of_side in readings)
    finding = Finding(
        name=name,
        side=side,
        old=values[0],
        new=values[1],
        sample=sample,
        change=None,
        adjusted_p=None,
        detectable=None,
        verdict=CANNOT_TELL,
        needs=_needs_value(readings),
    )
    if finding.needs:
        return finding
    if not name.is_ratio and not any((*values[0].of_runs, *values[1].of_runs)):
        return replace(finding, verdict=NO_DIFFERENCE)
    before, after = ([one for one in side if one is not None] for side in readings)
    judge = _by_runs if sample == BY_RUNS else _by_batches
    found = judge(finding, before, after)
    if found.change and _is_none(found.change):
        # an open loop's rate that both sides held: nothing to test
        return replace(finding, verdict=NO_DIFFERENCE)
    return found


def _is_none(change: Change) -> bool:
    """Whether the whole interval is finer than what is shown."""
    return change.is_ratio and 1 - _FINEST < change.low <= change.high < 1 + _FINEST


def _needs_value(readings: list[list[Figure | None]]) -> str:
    for of_side in readings:
        if not of_side:
            return "a valid run on each side"
        for one in of_side:
            if one is None:
                return "this metric in every run"
            if one.value is None:
                return one.needs
    return ""


def _value(name: FigureName, readings: Sequence[Figure | None]) -> Measured:
    """Return the value of a side; the mean of repeats is geometric where changes are
    ratios."""
    of_runs = tuple(one.value if one else None for one in readings)
    known = np.array([value for value in of_runs if value is not None])
    if len(of_runs) == 1 and readings[0]:
        return Measured(of_runs[0], readings[0].interval, of_runs)
    if not of_runs or len(known) < len(of_runs):
        return Measured(None, None, of_runs)
    if name.is_ratio and known.min() <= 0:
        return Measured(float(known.mean()), None, of_runs)
    found = mean_of(known, is_ratio=name.is_ratio)
    if found is None:
        return Measured(float(known[0]), None, of_runs)
    return Measured(found.value, found, of_runs)


def _by_batches(
    finding: Finding, old: Sequence[Figure], new: Sequence[Figure]
) -> Finding:
    """By the intervals that the runs have of themselves."""
    needs = next((one.needs for one in (*old, *new) if one.interval is None), "")
    if needs:
        return replace(finding, needs=needs)
    is_ratio = finding.name.is_ratio
    freedom = sum(one.batches - 1 for one in (*old, *new))
    before, after = (
        _within([one.interval for one in side if one.interval], is_ratio=is_ratio)
        for side in (old, new)
    )
    change = (
        ratio_of_estimates(before, after, freedom)
        if is_ratio
        else difference_of_estimates(before, after, freedom)
    )
    return replace(finding, change=change, needs="" if change else _ABOVE_0)


def _within(intervals: Sequence[Estimate], *, is_ratio: bool) -> Estimate:
    """The mean of runs, by their own intervals."""
    if len(intervals) == 1:
        return intervals[0]
    ends = np.array(intervals)
    if is_ratio:
        ends = np.log(ends)
    value, low, high = ends.T
    mean = float(value.mean())
    down = float(np.linalg.norm(value - low)) / len(ends)
    up = float(np.linalg.norm(high - value)) / len(ends)
    found = Estimate(mean, mean - down, mean + up)
    return Estimate(*map(math.exp, found)) if is_ratio else found


def _by_runs(
    finding: Finding, before: Sequence[Figure], after: Sequence[Figure]
) -> Finding:
    old, new = (
        np.array([one.value for one in side], np.float64) for side in (before, after)
    )
    is_ratio = finding.name.is_ratio
    if is_ratio and min(old.min(), new.min()) <= 0:
        return replace(finding, needs=_ABOVE_0)
    change = (ratio_of_means if is_ratio else difference_of_means)(old, new)
    if change is None:
        # repeats that are all alike: chance is at least that within the runs
        return _by_batches(finding, before, after)
    return replace(finding, change=change)


def _judged(findings: list[Finding]) -> tuple[tuple[Finding, ...], int]:
    """With verdicts, and the number of tests; others are as they were."""
    tested = [one.change.p for one in findings if one.change]
    adjusted = iter(holm(tested).tolist())
    judged = []
    for one in findings:
        if one.change is not None:
            p = next(adjusted)
            none = 1.0 if one.change.is_ratio else 0.0
            word = HIGHER if one.change.value > none else LOWER
            one = replace(
                one,
                adjusted_p=p,
                detectable=one.change.detectable(LEVEL / len(tested)),
                verdict=word if p < LEVEL else NO_DIFFERENCE,
            )
        judged.append(one)
    return tuple(judged), len(tested)
