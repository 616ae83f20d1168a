# SPDX-License-Identifier: Apache-2.0
"""The points of a study and the order of their runs. Pure but for `load_points`."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ldapslam.base.errors import ConfigError
from ldapslam.base.fault import did_you_mean
from ldapslam.jobs.load import references_of, variables_of
from ldapslam.jobs.reading.variables import override_of
from ldapslam.studies.study_file import (
    AGENTS,
    JOB,
    LAB,
    Axis,
    Setting,
    Study,
    Value,
)


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
    #: Name of the job's file, as the study has it.
    job: str = ""
    #: Keys of the study's lab that are others here.
    lab: Mapping[str, Value] = field(default_factory=dict)
    #: What its servers were made of, where a lab has them: for the run's manifest.
    made_of: Mapping[str, str] = field(default_factory=dict)

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


def points_of(
    study: Study,
    variables: Mapping[str, Collection[str]],
    used: Collection[str] = (),
) -> list[Point]:
    """All points, the last axis changing fastest.

    `variables` has the names of each job file's variables: the study's go to the jobs
    that have them. ConfigError for one that no job has, unless it is `used` in the
    study's file.
    """
    known = {*used, *(one for names in variables.values() for one in names)}
    names = list(study.labels)
    points = []
    unmatched = [dict(one) for one in study.leave_out]
    for chosen in itertools.product(*study.labels.values()):
        values = dict(zip(names, chosen, strict=True))
        left_out = [one for one in study.leave_out if one.items() <= values.items()]
        if left_out:
            unmatched = [one for one in unmatched if one not in left_out]
            continue
        point, given = _point(study, values, variables)
        for name in given:
            if name not in known:
                hint = did_you_mean(name, known, "variables")
                raise ConfigError(
                    f"no job of the study has a variable {name!r}", hint=hint
                )
        points.append(point)
    if unmatched:
        raise ConfigError(
            f"leave_out has {unmatched[0]}, which is no point",
            hint="values are as the axes have them: 4 is not '4'",
        )
    if not points:
        raise ConfigError("all points are left out", hint="keep one")
    return points


def check_points(points: Sequence[Point], *, in_lab: bool) -> None:
    """ConfigError when two points would be the same run."""
    seen: dict[str, Point] = {}
    for one in points:
        parts = [one.job, one.overrides, one.agents, one.settings]
        same = seen.setdefault(repr([*parts, one.lab if in_lab else None]), one)
        if same is not one:
            hint = "an axis changes what the job does not have"
            if same.lab != one.lab:
                hint = "they differ in the lab alone: give --lab"
            raise ConfigError(
                f"the points {same.label!r} and {one.label!r} are the same run",
                hint=hint,
            )


def load_points(study: Study, path: Path) -> list[Point]:
    """All points of the study of this file; JobErrors when a job file cannot be read,
    and what points_of() raises."""
    names = {one: variables_of(path.parent / one) for one in files_of(study)}
    return points_of(study, names, references_of(path))


def files_of(study: Study) -> list[str]:
    """Names of the study's job files."""
    if study.jobs is None:
        return [study.job or ""]
    return [one.job for one in study.jobs.values()]


def _point(
    study: Study,
    values: Mapping[str, Value],
    variables: Mapping[str, Collection[str]],
) -> tuple[Point, Collection[str]]:
    """The point, and the names of all variables that it gives."""
    given: dict[str, Value] = dict(study.vars)
    job = study.job or ""
    if study.jobs is not None:
        chosen = study.jobs[str(values[JOB])]
        job = chosen.job
        given |= chosen.vars
        for name in chosen.vars:
            if name not in variables[job]:
                raise ConfigError(
                    f"the job {job!r} has no variable {name!r}",
                    hint=did_you_mean(name, variables[job], "variables"),
                )
    fields = [
        f"{name}={json.dumps(value, ensure_ascii=False)}"
        for name, value in study.fields.items()
    ]
    settings: list[tuple[Setting, str]] = []
    lab: dict[str, Value] = {}
    agents = None
    for name, value in values.items():
        axis = study.axes.get(name)
        if axis is None:
            continue  # that of the jobs
        if axis.setting is not None:
            settings.append((axis.setting, _text(value)))
            continue
        for what, one in _changes(name, axis, value).items():
            if what == AGENTS:
                if type(one) is not int or one < 1:
                    raise ConfigError(
                        f"expected a number of agents, got {one!r}",
                        hint="such as agents: [3, 6]",
                    )
                agents = one
            elif what.startswith(LAB):
                lab[what.removeprefix(LAB)] = one
            elif "." in what:
                fields.append(f"{what}={json.dumps(one, ensure_ascii=False)}")
            else:
                given[what] = one
    overrides = [
        override_of(name, _text(value))
        for name, value in given.items()
        if name in variables[job]
    ]
    point = Point(
        values, (*overrides, *fields), agents, tuple(settings), job=job, lab=lab
    )
    return point, given


def _changes(name: str, axis: Axis, value: Value) -> Mapping[str, Value]:
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
