# SPDX-License-Identifier: Apache-2.0
"""The points of a study and the order of their runs. Pure."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ldapslam.jobs.reading.variables import override_of
from ldapslam.studies.study_file import AGENTS, Axis, Setting, Study, Value


@dataclass(frozen=True)
class Point:
    """One combination of the axes' values."""

    #: Axis -> value, as the file has it.
    values: Mapping[str, Value]
    #: What `--set` and `--var` change in the job.
    overrides: tuple[str, ...] = ()
    #: Number of agents; None: what the job wants.
    agents: int | None = None
    #: Settings of servers, and the value that each has here.
    settings: tuple[tuple[Setting, str], ...] = ()

    @property
    def label(self) -> str:
        """Such as 'clients=50 variant=new'."""
        return " ".join(f"{name}={value}" for name, value in self.values.items())


@dataclass(frozen=True)
class Turn:
    """One run that the study wants."""

    #: Index of its point.
    point: int
    #: Which repeat of the point, from 1.
    repeat: int


def points_of(study: Study) -> list[Point]:
    """All points, the last axis changing fastest."""
    names = list(study.axes)
    points = []
    for chosen in itertools.product(*(axis.labels() for axis in study.axes.values())):
        values = dict(zip(names, chosen, strict=True))
        if any(one.items() <= values.items() for one in study.leave_out):
            continue
        common = [override_of(name, _text(v)) for name, v in study.vars.items()]
        points.append(_point(study, values, common))
    return points


def _point(study: Study, values: Mapping[str, Value], common: list[str]) -> Point:
    overrides, agents = list(common), None
    settings = []
    for name, value in values.items():
        axis = study.axes[name]
        if axis.setting is not None:
            settings.append((axis.setting, _text(value)))
            continue
        for field, one in _changes(name, axis, value).items():
            if field == AGENTS:
                agents = int(one)
            elif "." in field:
                overrides.append(f"{field}={json.dumps(one)}")
            else:
                overrides.append(override_of(field, _text(one)))
    return Point(values, tuple(overrides), agents, tuple(settings))


def _changes(name: str, axis: Axis, value: Value) -> Mapping[str, Any]:
    if axis.variants is not None:
        return axis.variants[str(value)]
    return {axis.field or name: value}


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def turns_of(study: Study, points: Sequence[Point]) -> list[Turn]:
    """All runs in the order in which they are made, the same for the same seed."""
    rng = random.Random(study.seed)
    indexes = range(len(points))
    repeats = range(1, study.repeats + 1)
    if study.order == "interleaved":
        turns = []
        for repeat in repeats:
            order = list(indexes)
            rng.shuffle(order)
            turns += [Turn(point, repeat) for point in order]
        return turns
    turns = [Turn(point, repeat) for point in indexes for repeat in repeats]
    if study.order == "random":
        rng.shuffle(turns)
    return turns
