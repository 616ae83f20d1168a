# SPDX-License-Identifier: Apache-2.0
"""Comparisons of the values of an axis with its first value, or of studies with the
first study, by the method of `ldapslam compare`: runs are the sample, and all tests of
an answer are one family.

Where servers of labs were is no difference. What cannot be compared is named: runs of a
fleet are in the coordinator's store, where `compare` finds them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ldapslam.base.inert import parse_json
from ldapslam.reports.comparing.comparison import (
    Comparison,
    Side,
    as_family,
    compare_sides,
)
from ldapslam.reports.model import Summary
from ldapslam.reports.summarise import summarise
from ldapslam.results.store import Store
from ldapslam.studies.answer import Answer, curve
from ldapslam.studies.runner import Ended, Journal, journal_in
from ldapslam.studies.study_file import Value
from ldapslam.studies.study_folder import RUNS

_STORE = "results.sqlite"
_NO_RESULT = "no run with a result"
_NO_VALID = "no valid run"
_ELSEWHERE = (
    "no run in this folder: those of a fleet are in its coordinator's store, and "
    "`ldapslam compare` takes their ids"
)


@dataclass(frozen=True)
class _OfValues:
    """Values of axes: those of a point, or what all sides have in common."""

    values: Mapping[str, Value]

    @property
    def label(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.values.items())


@dataclass(frozen=True)
class Compared(_OfValues):
    comparison: Comparison


@dataclass(frozen=True)
class LeftOut(_OfValues):
    """A point that is in no comparison."""

    why: str


@dataclass(frozen=True)
class Comparisons:
    made: tuple[Compared, ...] = ()
    left_out: tuple[LeftOut, ...] = ()


def comparisons(answer: Answer, journal: Journal, *, in_lab: bool) -> Comparisons:
    """Compare the values of the axis `compare` of the study, if it has one."""
    axis, made, left_out = answer.study.compare, [], list[LeftOut]()
    if axis is None:
        return Comparisons()
    for rest, points in curve(answer, axis):
        sides = []
        for one in points:
            ended = [run.ended for run in one.valid]
            side = _side(str(one.point.values[axis]), ended, journal.runs)
            if isinstance(side, Side):
                sides.append(side)
            else:
                why = side if ended else _NO_VALID
                left_out.append(LeftOut(one.point.values, why))
        if len(sides) > 1:
            made.append(Compared(rest, compare_sides(sides, without_places=in_lab)))
    return Comparisons(_as_family(made), tuple(left_out))


def compared_studies(
    folders: Mapping[str, Path], *, include_invalid: bool = False
) -> Comparisons:
    """Studies by name, point by point, against the first of them: at the points that
    have runs in all of their folders."""
    points: dict[str, dict[str, list[Ended]]] = {}
    in_labs = True
    for name, folder in folders.items():
        identity, ended = journal_in(folder)
        in_labs = in_labs and bool(identity.get("lab"))
        for one in ended:
            values = json.dumps(one.values, sort_keys=True)
            points.setdefault(values, {}).setdefault(name, []).append(one)
    made, left_out = [], []
    for text, by_study in points.items():
        values, sides, reasons = parse_json(text), list[Side](), []
        for name, folder in folders.items():
            side = _side(name, by_study.get(name, ()), folder / RUNS)
            if isinstance(side, Side):
                sides.append(side)
            else:
                why = side if name in by_study else "no such point"
                reasons.append(f"{name} has {why}")
        if reasons:
            left_out.append(LeftOut(values, "; ".join(reasons)))
            continue
        found = compare_sides(
            sides, include_invalid=include_invalid, without_places=in_labs
        )
        made.append(Compared(values, found))
    return Comparisons(_as_family(made), tuple(left_out))


def _as_family(made: Sequence[Compared]) -> tuple[Compared, ...]:
    family = as_family([one.comparison for one in made])
    pairs = zip(made, family, strict=True)
    return tuple(replace(one, comparison=found) for one, found in pairs)


def _side(name: str, ended: Iterable[Ended], runs: Path) -> Side | str:
    """What has no side has a reason."""
    folders = [runs / one.folder for one in ended if one.verdict]
    summaries = tuple(filter(None, map(_summary, folders)))
    if summaries:
        return Side(name, summaries)
    return _ELSEWHERE if folders else _NO_RESULT


def _summary(folder: Path) -> Summary | None:
    """Return the only run in the folder's store; None without a run."""
    if not (folder / _STORE).exists():
        return None
    with Store.open(folder / _STORE, read_only=True) as store:
        records = store.runs(1)
        return summarise(store, records[0].run_id) if records else None
