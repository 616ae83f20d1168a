# SPDX-License-Identifier: Apache-2.0
"""`capacity`: the highest load that holds an objective."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ldapslam.base.errors import ConfigError, ExitCode
from ldapslam.base.fault import Fault, expected, unknown
from ldapslam.base.units import NS_PER_S, parse_rate
from ldapslam.cli.command import command
from ldapslam.cli.console import say
from ldapslam.cli.options import (
    RUNS_FOLDER,
    change_options,
    folder_option,
    job_argument,
    option,
)
from ldapslam.cli.outcome import EXIT_OF_VERDICT, put_report
from ldapslam.cli.study.study import coordinator_option

if TYPE_CHECKING:
    from ldapslam.studies.capacity import Found, Probe, Range
    from ldapslam.studies.runner import Ended, Journal

#: Load -> what a job without it has, and what to do.
_OTHER_LOOP = {
    "clients": (
        "an open loop, which has a rate",
        "raise --load rate, or give the stream load: {clients: 1}",
    ),
    "rate": (
        "a closed loop, which has clients",
        "raise --load clients, or give the stream load: {rate: 50/s}",
    ),
}
#: A longer run is so many times as long.
_LONGER = 3


def _thresholds(text: str) -> list[str]:
    """Those that `and` joins; Fault."""
    from ldapslam.jobs.fields.thresholds import parse_threshold

    found = text.split(" and ")
    for one in found:
        parse_threshold(one.strip())
    return found


@command("capacity")
@job_argument
@option(
    "--load NAME",
    "The variable or field of the job that is the load, such as "
    "streams.readers.load.rate; rate or clients is that of the job's only stream "
    "with such a load.",
    required=True,
)
@option("--from lowest N|RATE", "The lowest load: 16, or 50/s.", required=True)
@option("--to highest N|RATE", "The highest load.", required=True)
@option(
    "--objective objectives THRESHOLD",
    "What must hold, such as 'search.p99 < 10ms and errors < 1%'; "
    "repeatable. The job's own thresholds when left out.",
    multiple=True,
    parse=_thresholds,
)
@option(
    "--precision SHARE",
    "Largest gap between what holds and what does not.",
    type=click.FloatRange(min=0, max=1),
    default=0.03,
)
@change_options
@folder_option(
    "-o --out DIR",
    f"Folder of the search; {RUNS_FOLDER}/capacity-JOB when left out.",
    "capacity.json",
)
@coordinator_option
def capacity_command(
    job_file: Path,
    load: str,
    lowest: str,
    highest: str,
    objectives: tuple[list[str], ...],
    precision: float,
    overrides: tuple[str, ...],
    out: Path | None,
    coordinator: str | None,
) -> ExitCode:
    """Find the highest load at which JOB still meets an objective.

    The load is raised until a run does not hold, the gap is narrowed, and the highest
    load that held is confirmed by a longer run. Every run has a folder with its report.
    Loads are whole numbers, those of rates per second.
    """
    # runs are forked from here: no threads before them
    from ldapslam.jobs.doubts import doubts
    from ldapslam.jobs.load import load_job
    from ldapslam.studies.capacity import Range, rates_of, short_runs
    from ldapslam.studies.runner import alone_in

    if thresholds := [one for joined in objectives for one in joined]:
        overrides = (*overrides, f"thresholds={json.dumps(thresholds)}")
    raised = _load(load, job_file, overrides)
    bounds = _bounds(raised, {"--from": lowest, "--to": highest})
    job, at_highest = (
        load_job(job_file, (*overrides, raised.override(one))) for one in bounds
    )
    limits = Range(*bounds, precision)
    rates = rates_of(limits, job, at_highest)
    for doubt in (*doubts(job), *short_runs(job)):
        say(f"warning: at {raised.name}={bounds[0]}: {doubt}")
    confirm_ns = _LONGER * job.run.duration_ns
    folder = out or RUNS_FOLDER / f"capacity-{job.name}"
    with alone_in(folder):
        journal, found, made = _search(
            job_file,
            folder,
            limits,
            rates,
            {"load": raised.name, "overrides": overrides, "confirm_ns": confirm_ns},
            raised,
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
        Tried(probe, ended.folder, journal.result(ended) or {}, coordinator is None)
        for probe, ended in zip(made, _with_result(journal), strict=True)
    ]
    unit = "/s" if raised.is_rate else ""
    answer = CapacityAnswer(job.name, raised.name, job.thresholds, found, runs, unit)
    files = write_capacity(answer, folder)
    put_report(capacity_document(answer), capacity_json(answer), files)
    return EXIT_OF_VERDICT[found.verdict]


@dataclass(frozen=True)
class _Load:
    """What of the job is raised: a variable, or the path of a field."""

    name: str
    #: Its value is a rate with its unit, not a number.
    is_rate: bool

    def override(self, value: float) -> str:
        from ldapslam.jobs.reading.variables import override_of

        text = f"{value:.0f}/s" if self.is_rate else f"{value:.0f}"
        return (
            f"{self.name}={text}" if "." in self.name else override_of(self.name, text)
        )


def _load(name: str, job_file: Path, overrides: Sequence[str]) -> _Load:
    """What --load names: a field, a variable, or the load of the only stream."""
    from ldapslam.jobs.load import load_job, variable_values

    if "." in name:
        return _Load(name, name.endswith(("rate", "ramp_to")))
    values = variable_values(job_file, overrides)
    if name in values:
        return _Load(name, "/" in str(values[name]))
    streams = load_job(job_file, overrides).streams
    fields = {
        key: [
            f"streams.{stream.name}.load.{key}"
            for stream in streams
            if getattr(stream.load, key) is not None
        ]
        for key in ("rate", "clients")
    }
    if len(found := fields.get(name, [])) == 1:
        return _Load(found[0], name == "rate")
    if found:
        raise ConfigError(
            f"--load {name}: {len(found)} streams have one",
            hint=f"name one: {', '.join(found)}; or all by a variable of `vars`",
        )
    if name in fields:  # the other one's
        loop, remedy = _OTHER_LOOP[name]
        raise ConfigError(f"--load {name}: the load is {loop}", hint=remedy)
    fault = unknown("variable", name, [*values, *(k for k in fields if fields[k])])
    raise ConfigError(f"--load: {fault}", hint=fault.hint)


def _bounds(load: _Load, given: Mapping[str, str]) -> tuple[int, int]:
    """The ends of the range; a rate has its unit."""
    found = []
    for option_name, text in given.items():
        try:
            found.append(_bound(load, text))
        except Fault as fault:
            raise ConfigError(f"{option_name}: {fault}", hint=fault.hint) from fault
    lowest, highest = found
    if lowest >= highest:
        raise ConfigError(
            f"expected --from below --to, got {' and '.join(given.values())}",
            hint="such as --from 1 --to 1000",
        )
    return lowest, highest


def _bound(load: _Load, text: str) -> int:
    if load.is_rate:
        rate = parse_rate(text)
        if rate.events * NS_PER_S % rate.per_ns:
            raise expected("a whole number per second", text, "such as 50/s")
        return rate.events * NS_PER_S // rate.per_ns
    if not re.fullmatch("[1-9][0-9]{0,8}", text):
        hint = "such as 16; a variable for a rate has its unit in the job, such as 50/s"
        raise expected("a whole number above zero", text, hint)
    return int(text)


def _search(
    job_file: Path,
    folder: Path,
    limits: Range,
    rates: Mapping[str, float],
    given: dict[str, Any],
    raised: _Load,
    coordinator: str | None,
    job_hash: str,
) -> tuple[Journal, Found, list[Probe]]:
    from ldapslam.cli.study.launch import runs_of
    from ldapslam.studies.capacity import Found, next_probe
    from ldapslam.studies.points import Point, Turn
    from ldapslam.studies.runner import Journal, Runner

    identity = {**given, "overrides": list(given["overrides"]), "job": job_hash}
    identity |= {"from": limits.lowest, "to": limits.highest}
    identity |= {"coordinator": coordinator}
    journal = Journal(folder, identity, "capacity search")
    runner = Runner(journal, runs_of(Path(), coordinator), say)
    made = [_probe(journal, one, rates) for one in _with_result(journal)]
    while not isinstance(wanted := next_probe(limits, made), Found):
        changes = [*given["overrides"], raised.override(wanted.load)]
        if wanted.is_confirmation or wanted.is_longer:
            times = _LONGER if wanted.is_confirmation and wanted.is_longer else 1
            changes.append(f"run.duration={times * given['confirm_ns']}ns")
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
    from ldapslam.studies.capacity import Probe, achieved_load, is_uncertain

    result = journal.result(ended) or {}
    return Probe(
        ended.values["load"],
        ended.values["confirms"],
        ended.verdict,
        achieved_load(rates, result),
        is_uncertain=is_uncertain(result),
    )


def _line(load: str, one: Probe) -> str:
    what = "confirmation of " if one.is_confirmation else ""
    achieved = "" if one.achieved is None else f", achieved {one.achieved:,.0f}"
    return f"{what}{load}={one.load:g}: {one.verdict}{achieved}"
