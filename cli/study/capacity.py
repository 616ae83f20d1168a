# SPDX-License-Identifier: Apache-2.0
"""`capacity`: the highest load that holds an objective."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ldapslam.base.errors import ConfigError, ExitCode
from ldapslam.base.units import parse_duration
from ldapslam.cli.console import json_option, say
from ldapslam.cli.measure.local_fleet import one_blas_thread
from ldapslam.cli.options import (
    FOLDER,
    RUNS_FOLDER,
    change_options,
    job_argument,
    option,
)
from ldapslam.cli.outcome import EXIT_OF_VERDICT, put_report
from ldapslam.cli.study.study import coordinator_option

if TYPE_CHECKING:
    from ldapslam.studies.capacity import Found, Probe, Range
    from ldapslam.studies.runner import Ended, Journal


@click.command("capacity")
@job_argument
@option(
    "--load NAME",
    "The variable or field of the job that is the load, such as clients, or "
    "streams.readers.load.open.rate.",
    required=True,
)
@option(
    "--from lowest N", "The lowest load.", type=click.IntRange(min=1), required=True
)
@option(
    "--to highest N", "The highest load.", type=click.IntRange(min=1), required=True
)
@option(
    "--objective objectives THRESHOLD",
    "What must hold, such as 'search.p99 < 10ms and errors < 1%'; "
    "repeatable. The job's own thresholds when left out.",
    multiple=True,
)
@option(
    "--precision SHARE",
    "Largest gap between what holds and what does not.",
    type=click.FloatRange(min=0, max=1),
    default=0.03,
)
@option(
    "--confirm-for confirm_ns DURATION",
    "Length of the confirming run's measure phase; three times the job's when left "
    "out.",
    parse=parse_duration,
)
@change_options
@option(
    "--out DIR",
    f"Folder of the search; {RUNS_FOLDER}/capacity-JOB when left out.",
    type=FOLDER,
)
@coordinator_option
@json_option
def capacity_command(
    job_file: Path,
    load: str,
    lowest: int,
    highest: int,
    objectives: tuple[str, ...],
    precision: float,
    confirm_ns: int | None,
    overrides: tuple[str, ...],
    out: Path | None,
    coordinator: str | None,
    as_json: bool,
) -> ExitCode:
    """Find the highest load of JOB that holds an objective.

    The load is raised until a run does not hold, the gap is narrowed, and the highest
    load that held is confirmed by a longer run. Every run has a folder with its report.
    Loads are whole numbers.
    """
    # runs are forked from here: no threads before them
    with one_blas_thread():
        from ldapslam.jobs.load import load_job
        from ldapslam.studies.capacity import Range, rates_of
        from ldapslam.studies.runner import alone_in

    if lowest >= highest:
        raise ConfigError(
            f"expected --from below --to, got {lowest} and {highest}",
            hint="such as --from 1 --to 1000",
        )
    if thresholds := [one for text in objectives for one in text.split(" and ")]:
        overrides = (*overrides, f"thresholds={json.dumps(thresholds)}")
    with one_blas_thread():
        job, at_highest = (
            load_job(job_file, (*overrides, _set(load, one)))
            for one in (lowest, highest)
        )
    limits = Range(lowest, highest, precision)
    rates = rates_of(limits, job, at_highest)
    confirm_ns = confirm_ns or 3 * job.run.duration_ns
    folder = out or RUNS_FOLDER / f"capacity-{job.name}"
    with alone_in(folder):
        journal, found, made = _search(
            job_file,
            folder,
            limits,
            rates,
            {"load": load, "overrides": overrides, "confirm_ns": confirm_ns},
            coordinator,
            job.canonical_hash(),
        )
    # statistics have threads: not before the last fork
    from ldapslam.studies.capacity_report import (
        CapacityAnswer,
        Tried,
        capacity_document,
        capacity_json,
        write_capacity,
    )

    runs = [
        Tried(probe, ended.folder, journal.result(ended) or {})
        for probe, ended in zip(made, _with_result(journal), strict=True)
    ]
    answer = CapacityAnswer(job.name, load, job.thresholds, found, runs)
    files = write_capacity(answer, folder)
    put_report(
        capacity_document(answer), capacity_json(answer) if as_json else None, files
    )
    return EXIT_OF_VERDICT[found.verdict]


def _set(load: str, value: float) -> str:
    """The override that sets the load; a rate is a number per second."""
    from ldapslam.jobs.reading.variables import override_of

    number = f"{value:.0f}"
    if "." not in load:
        return override_of(load, number)
    return f"{load}={number}/s" if load.endswith("rate") else f"{load}={number}"


def _search(
    job_file: Path,
    folder: Path,
    limits: Range,
    rates: Mapping[str, float],
    given: dict[str, Any],
    coordinator: str | None,
    job_hash: str,
) -> tuple[Journal, Found, list[Probe]]:
    from ldapslam.cli.study.launch import fleet_runs, local_runs
    from ldapslam.studies.capacity import Found, next_probe
    from ldapslam.studies.points import Point, Turn
    from ldapslam.studies.runner import Journal, Runner

    identity = {**given, "overrides": list(given["overrides"]), "job": job_hash}
    identity |= {"from": limits.lowest, "to": limits.highest}
    identity |= {"coordinator": coordinator}
    journal = Journal(folder, identity)
    launch = (
        local_runs(Path()) if coordinator is None else fleet_runs(Path(), coordinator)
    )
    runner = Runner(journal, launch, say)
    made = [_probe(journal, one, rates) for one in _with_result(journal)]
    while not isinstance(wanted := next_probe(limits, made), Found):
        changes = [*given["overrides"], _set(given["load"], wanted.load)]
        if wanted.is_confirmation:
            changes.append(f"run.duration={given['confirm_ns']}ns")
        values = {"load": wanted.load, "confirms": wanted.is_confirmation}
        point = Point(values, tuple(changes), job=str(job_file))
        ended = runner.run(Turn(len(made), 1), point)
        if not ended.verdict:
            raise ConfigError(
                f"the run at {given['load']}={wanted.load:g} has no result: "
                f"{ended.error}",
                hint=f"see {journal.runs / ended.folder}.log",
            )
        made.append(_probe(journal, ended, rates))
        say(_line(given["load"], made[-1]) + journal.why(ended))
    return journal, wanted, made


def _with_result(journal: Journal) -> list[Ended]:
    """A run without one has ended an earlier search: it says nothing of its load."""
    return [one for one in journal.ended if one.verdict]


def _probe(journal: Journal, ended: Ended, rates: Mapping[str, float]) -> Probe:
    from ldapslam.studies.capacity import Probe, achieved_load

    return Probe(
        ended.values["load"],
        ended.values["confirms"],
        ended.verdict,
        achieved_load(rates, journal.result(ended) or {}),
    )


def _line(load: str, one: Probe) -> str:
    what = "confirmation of " if one.is_confirmation else ""
    achieved = "" if one.achieved is None else f", achieved {one.achieved:,.0f}"
    return f"{what}{load}={one.load:g}: {one.verdict}{achieved}"
