# SPDX-License-Identifier: Apache-2.0
"""`study`: a job at many points, several times, and what came out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ldapslam.base.errors import ConfigError, ExitCode
from ldapslam.base.units import format_duration
from ldapslam.cli.command import command
from ldapslam.cli.console import put, say
from ldapslam.cli.options import (
    FILE,
    RUNS_FOLDER,
    flag,
    folder_option,
    option,
    parse_pair,
)
from ldapslam.cli.outcome import EXIT_OF_VERDICT, put_report

if TYPE_CHECKING:
    from ldapslam.jobs.model import Job
    from ldapslam.studies.answer import Answer
    from ldapslam.studies.points import Point
    from ldapslam.studies.runner import Journal, Runner
    from ldapslam.studies.study_file import Study

_NS_PER_S = 10**9

coordinator_option = option(
    "--coordinator HOST:PORT",
    "Have the fleet of this coordinator make the runs; on this host when left out.",
)


@command("study")
@click.argument("file", metavar="FILE", type=FILE)
@option(
    "--var variables NAME=VALUE",
    "Give a variable of the job another value, for all points; repeatable.",
    multiple=True,
    parse=parse_pair,
)
@folder_option(
    "-o --out DIR",
    f"Folder of the study; {RUNS_FOLDER}/study-NAME when left out.",
    "study.json",
)
@option(
    "--set changes PATH=VALUE",
    "Change a value of FILE, such as axes.clients=[1,4]; repeatable.",
    multiple=True,
)
@coordinator_option
@flag(
    "--lab in_lab",
    "Run on throw-away servers on this host, those of the file's `lab`.",
)
@flag("--plan", "Show the points and the order of the runs; run nothing.")
@flag("--restore", "Only put back what a killed study has changed in servers.")
def study_command(
    file: Path,
    variables: tuple[tuple[str, str], ...],
    out: Path | None,
    changes: tuple[str, ...],
    coordinator: str | None,
    in_lab: bool,
    plan: bool,
    restore: bool,
) -> ExitCode:
    """Run a job at every point of FILE, and report what came out.

    What was interrupted goes on where it was when the command is given again. Each run
    has a folder with its own report.
    """
    # runs are forked from here: no threads before them
    from ldapslam.jobs.reading.variables import override_of
    from ldapslam.studies.figures import check_figures
    from ldapslam.studies.points import check_points, load_points, turns_of
    from ldapslam.studies.runner import alone_in
    from ldapslam.studies.study_file import load_study

    command = [*changes, *(override_of(*one) for one in variables)]
    study = load_study(file, command, in_lab=in_lab)
    points = load_points(study, file)
    if in_lab and study.lab is not None:
        from ldapslam.studies.labs import with_users

        points = [with_users(one, file.parent / one.job, study.lab) for one in points]
    jobs = _jobs(file, points, command)
    _check_lab(study, in_lab, coordinator)
    check_points(points, in_lab=in_lab)
    if study.table is not None:
        check_figures(study.table.figures, jobs)
    folder = out or RUNS_FOLDER / f"study-{study.name}"
    if restore:
        return _restore(study, jobs[0], folder)
    if plan:
        for number, turn in enumerate(turns_of(study, points), 1):
            put(f"{number:>4}  {points[turn.point].label}  repeat {turn.repeat}")
        return ExitCode.PASS
    with alone_in(folder):
        runner = _runner(study, file, folder, points, jobs, coordinator, in_lab=in_lab)
        with runner.restored():
            _make_runs(study, file, points, runner)
    return _report(study, points, runner.journal, in_lab=in_lab)


def _check_lab(study: Study, in_lab: bool, coordinator: str | None) -> None:
    if in_lab and coordinator is not None:
        raise ConfigError(
            "--lab and --coordinator exclude each other",
            hint="a lab's servers listen on this host alone",
        )
    if in_lab and study.lab is None:
        raise ConfigError(
            "the study says of no lab what it is to be",
            hint="add lab: {server: slapd, entries: 1000}",
        )


def _jobs(file: Path, points: Sequence[Point], command: Sequence[str]) -> list[Job]:
    """The job of each point: all faults are found before the first run. `command` is
    what the user changes."""
    from ldapslam.jobs.load import load_job

    return [
        load_job(file.parent / point.job, point.overrides, command) for point in points
    ]


def _runner(
    study: Study,
    file: Path,
    folder: Path,
    points: Sequence[Point],
    jobs: Sequence[Job],
    coordinator: str | None,
    *,
    in_lab: bool,
) -> Runner:
    from ldapslam.cli.study.launch import runs_of
    from ldapslam.studies.labs import Labs
    from ldapslam.studies.runner import Journal, Runner

    identity = {
        "file": study.model_dump(
            mode="json", by_alias=True, exclude_none=True, exclude={"table"}
        ),
        "jobs": [one.canonical_hash() for one in jobs],
        "points": [point.label for point in points],
        "lab": in_lab,
        "coordinator": coordinator,
    }
    return Runner(
        Journal(folder, identity),
        runs_of(file.parent, coordinator),
        say,
        jobs=jobs,
        settle_s=study.settle_ns / _NS_PER_S,
        before=study.before,
        after=study.after,
        access=None if in_lab else _access(study, jobs[0]),
        labs=Labs(study.lab, points, say) if in_lab and study.lab else None,
    )


def _access(study: Study, job: Job) -> Any:
    if not study.changes_servers:
        return None
    from ldapslam.jobs.plan import connection_settings

    return connection_settings(job, study.tls, study.bind).resolved()


def _restore(study: Study, job: Job, folder: Path) -> ExitCode:
    from ldapslam.studies.runner import alone_in
    from ldapslam.studies.server_settings import ChangedSettings

    access = _access(study, job)
    with alone_in(folder):
        changed = ChangedSettings(folder)
        if not changed:
            say(f"the study in {folder} has nothing to put back")
            return ExitCode.PASS
        if access is None:
            places = ", ".join(
                f"{one.attribute} of {one.uri}" for one in changed.places
            )
            raise ConfigError(
                f"{places} were changed, and the file changes no server any more",
                hint="take the file as it was when the study ran",
            )
        for place in changed.restore(access):
            say(f"{place.attribute} of {place.uri} is what it was")
    return ExitCode.PASS


def _make_runs(
    study: Study, file: Path, points: Sequence[Point], runner: Runner
) -> None:
    from ldapslam.studies.points import turns_of
    from ldapslam.studies.runner import is_settled

    turns = turns_of(study, points)
    journal = runner.journal
    left = [
        one for one in turns if not is_settled(journal.attempts(one), study.attempts)
    ]
    if len(left) < len(turns):
        say(f"{len(turns) - len(left)} of {len(turns)} runs are there already")
    runner.keep_settings({one.point: points[one.point] for one in left}, file)
    begun_s = time.monotonic()
    for done, turn in enumerate(left):
        point = points[turn.point]
        what = f"{len(turns) - len(left) + done + 1}/{len(turns)} {point.label}"
        while not is_settled(journal.attempts(turn), study.attempts):
            ended = runner.run(turn, point)
            tries = f" (try {ended.attempt} of {study.attempts})"
            again = tries if ended.verdict not in ("PASS", "FAIL") else ""
            verdict = ended.verdict or "no result"
            say(f"{what}: {verdict}{again}{journal.why(ended)}")
        lasted_s = (time.monotonic() - begun_s) / (done + 1)
        if rest := len(left) - done - 1:
            seconds = round(lasted_s * rest)
            say(f"  about {format_duration(seconds * _NS_PER_S)} left")


def _report(
    study: Study,
    points: Sequence[Point],
    journal: Journal,
    *,
    in_lab: bool,
) -> ExitCode:
    from ldapslam.studies.answer import answer_of
    from ldapslam.studies.comparisons import comparisons
    from ldapslam.studies.report import answer_json, study_document, write_study

    answer: Answer = answer_of(study, points, journal)
    compared = comparisons(answer, journal, in_lab=in_lab)
    files = write_study(answer, journal.folder, compared)
    document = study_document(answer, compared)
    shown = document.sections[:-1]  # the reports have every run
    put_report(replace(document, sections=shown), answer_json(answer, compared), files)
    return EXIT_OF_VERDICT[answer.verdict]
