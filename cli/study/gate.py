# SPDX-License-Identifier: Apache-2.0
"""`gate`: an old server against a new one, for a pipeline to stop a regression."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ldapslam.base.errors import ConfigError, ExitCode, LdapSlamError
from ldapslam.base.fault import Fault
from ldapslam.base.units import NS_PER_S, parse_duration
from ldapslam.cli.command import command
from ldapslam.cli.console import say
from ldapslam.cli.measure.run import agents_option
from ldapslam.cli.options import (
    FILE,
    RUNS_FOLDER,
    change_options,
    flag,
    folder_option,
    grouped,
    job_argument,
    option,
)
from ldapslam.cli.outcome import EXIT_OF_VERDICT, put_report

if TYPE_CHECKING:
    from ldapslam.cli.study.gate_sides import Side
    from ldapslam.jobs.fields.thresholds import FigureName
    from ldapslam.jobs.model import Job
    from ldapslam.studies.baseline import Baseline
    from ldapslam.studies.gate import Tolerances


@command("gate")
@job_argument
@grouped(
    "Sides",
    option(
        "--old CHANGE",
        "What the old side is: PATH, URI or NAME=VALUE, as below; repeatable.",
        multiple=True,
    ),
    option("--new CHANGE", "What the new side is.", multiple=True),
    option(
        "--baseline FILE",
        "Take the runs of this file for the old side (`ldapslam results baseline`).",
        type=FILE,
    ),
    flag(
        "--allow-differences",
        "Compare with a baseline that was made in another way; the report says how.",
    ),
    option(
        "--lab",
        "Run on throw-away servers of this kind on this host, one set for each side.",
        type=click.Choice(["slapd", "389ds"]),
    ),
    option(
        "--entries N",
        "People in each lab, and the value of the job's variable `users`. That of the "
        "variable when left out; 1000 without one.",
        type=click.IntRange(1),
    ),
)
@grouped(
    "Judgement",
    option(
        "--tolerance tolerances SHARE",
        "How much worse a time or a rate may be, such as 5%; METRIC=SHARE for one "
        "metric alone, such as p99=10%. Errors may be 1 percentage point more. "
        "Repeatable.",
        multiple=True,
    ),
    option(
        "--metric metrics NAME",
        "Judge this metric of all operations, named as in thresholds, such as "
        "service_time.p99; repeatable. throughput, p50, p99 and errors when left out.",
        multiple=True,
    ),
    option(
        "--time limit_ns DURATION",
        "How long the gate may take.",
        parse=parse_duration,
        default="5m",
    ),
    option(
        "--seed N",
        "Of the order of the sides.",
        type=click.IntRange(0),
        default=1,
    ),
    flag(
        "--aa is_aa",
        "Take the old side for both, until the time is over, and tell how often this "
        "gate would find which change here.",
    ),
)
@grouped(
    "Run and output",
    agents_option,
    change_options,
    folder_option(
        "-o --out DIR",
        f"Folder of the results; {RUNS_FOLDER}/gate-JOB-TIME when left out.",
        "gate.json",
    ),
)
def gate_command(
    job_file: Path,
    old: tuple[str, ...],
    new: tuple[str, ...],
    baseline: Path | None,
    allow_differences: bool,
    lab: str | None,
    entries: int | None,
    tolerances: tuple[str, ...],
    metrics: tuple[str, ...],
    limit_ns: int,
    seed: int,
    is_aa: bool,
    agents: int | None,
    overrides: tuple[str, ...],
    out: Path | None,
) -> ExitCode:
    """Compare an old and a new server under JOB; fail on a regression.

    Runs of both sides alternate until it is clear whether the new side is worse by more
    than the tolerance, or the time is over. Exit code 0: no regression; 1: a
    regression; 3: it could not be told, and the report has what would have been seen.

    \b
    A side is JOB with changes, each of which is
      PATH               the server's program, or the folder that it is installed in
      URI                ldap://… : the server, of a job with one target
      lab.KEY=VALUE      of its lab, such as lab.settings.threads=8
      NAME=VALUE         a variable or a field of JOB

    \b
      ldapslam gate search.yaml --old /opt/2.6.7 --new /opt/2.6.8 --lab slapd
      ldapslam gate search.yaml --old ldap://old --new ldap://new
      ldapslam gate search.yaml --baseline search.baseline.json
    """
    if baseline is not None and not baseline.exists():
        say(
            f"there is no baseline {str(baseline)!r}\n"
            "hint: `ldapslam results baseline` makes one of runs that were good"
        )
        return ExitCode.NO_BASELINE
    from ldapslam.cli.study.gate_length import fitted
    from ldapslam.studies.baseline import load_baseline
    from ldapslam.studies.gate import LEAVABLE_METRICS, NEW, OLD, Gate
    from ldapslam.studies.labs import check_lab

    chosen, tolerated = _criteria(metrics, tolerances)
    leavable = () if metrics else LEAVABLE_METRICS
    given = _given(old, new, is_aa=is_aa, has_baseline=baseline is not None)
    if agents is not None:
        overrides = (*overrides, f"agents={{count: {agents}}}")
    sides = _sides(given, job_file, overrides, lab, entries)
    if len(sides) == 2 and not is_aa and sides[OLD].identity == sides[NEW].identity:
        raise ConfigError(
            "the old side and the new one are the same",
            hint="say with --old and --new what differs, or give --aa or --baseline",
        )
    job = sides[NEW].job
    _check_metrics(job, chosen)
    sides, shortened = fitted(sides, limit_ns)
    notes = [shortened] if shortened else []
    for one in sides.values():
        if one.lab is not None:
            check_lab(one.lab, one.point, one.job)
    kept = None if baseline is None else load_baseline(baseline)
    left_out: Sequence[FigureName] = ()
    if kept is not None:
        missing = list(kept.missing(chosen))
        left_out = [one for one in missing if one.short in leavable]
        _check_missing([one for one in missing if one not in left_out], chosen)
        if not allow_differences:
            _check_baseline(kept, sides[NEW])
    notes += [
        f"{one.words} of {one.title} is not judged: not all runs of the baseline "
        "have it."
        for one in left_out
    ]
    for note in notes:
        say(note)
    # slow to load: after all that can be refused
    from ldapslam.cli.study.gate_making import AGAINST_ITSELF, NO_REHEARSAL, Making
    from ldapslam.cli.study.gate_runs import Runs
    from ldapslam.results.records import utc_text
    from ldapslam.studies.gate_report import (
        REHEARSED,
        TO_TELL,
        GateAnswer,
        gate_document,
        gate_json,
        write_gate,
    )

    begun_utc = datetime.now(UTC)
    at = begun_utc.strftime("%Y%m%dT%H%M%S")
    folder = out or RUNS_FOLDER / f"gate-{job.name}-{at}"
    gate = Gate(chosen, tolerated)
    if kept is not None:
        readings = [one.readings for one in kept.runs]
        others = [one.other_cpu_share for one in kept.runs]
        gate = Gate(chosen, tolerated, readings, kept.days, others, kept.failed)
    gate.leave_out(left_out)
    problem: LdapSlamError | None = None
    begun_s = time.monotonic()
    with Runs(sides, folder, agents) as runs:
        making = Making(
            gate,
            runs,
            begun_s,
            limit_ns / NS_PER_S,
            may_end=not is_aa,
            leavable=leavable,
        )
        try:
            if kept is None:
                ended = making.pairs(seed)
            else:
                ended = making.against(kept, allow_differences=allow_differences)
        except ConfigError:
            raise
        except LdapSlamError as error:  # such as a server that has died
            gate.end(str(error))
            problem, ended = error, "an error ended it"
        each_s = making.each_s
    found = gate.answer()
    rehearsed = gate.rehearse(REHEARSED, held=_held(job)) if is_aa else ()
    if is_aa:
        notes.append(AGAINST_ITSELF)
    if is_aa and not rehearsed:
        notes.append(NO_REHEARSAL)
    advice = TO_TELL if found.is_open else ""
    if problem is not None:
        advice = problem.hint or ""
    answer = GateAnswer(
        job=job.name,
        sides={side: " ".join(changes) for side, changes in given.items()},
        answer=found,
        runs=tuple(runs.made),
        ended=ended,
        advice=advice,
        notes=(*notes, *making.cautions),
        seed=seed,
        each_s=each_s,
        rehearsed=rehearsed,
        baseline=kept,
        differences=tuple(making.differences),
        unknown=making.unknown,
        begun_utc=utc_text(begun_utc),
        took_s=time.monotonic() - begun_s,
        about=runs.about,
    )
    files = write_gate(answer, folder)
    put_report(gate_document(answer), gate_json(answer), files)
    if problem is not None:
        raise problem
    return EXIT_OF_VERDICT[answer.verdict]


def _criteria(
    metrics: Sequence[str], tolerances: Sequence[str]
) -> tuple[Sequence[str], Tolerances]:
    from ldapslam.reports.figures import metric_of
    from ldapslam.studies.gate import DEFAULT_METRICS, Tolerances

    try:
        chosen = tuple(metric_of(one).name for one in metrics) or DEFAULT_METRICS
    except Fault as fault:
        raise ConfigError(f"--metric: {fault}", hint=fault.hint) from fault
    try:
        return chosen, Tolerances.of(tolerances)
    except Fault as fault:
        raise ConfigError(f"--tolerance: {fault}", hint=fault.hint) from fault


def _given(
    old: Sequence[str], new: Sequence[str], *, is_aa: bool, has_baseline: bool
) -> Mapping[str, Sequence[str]]:
    """The sides that are run -> their changes."""
    from ldapslam.studies.gate import NEW, OLD

    if is_aa and has_baseline:
        raise ConfigError(
            "--aa and --baseline exclude each other", hint="leave one out"
        )
    if is_aa and new:
        raise ConfigError("--aa has one side alone", hint="leave --new out")
    if has_baseline and old:
        raise ConfigError("--baseline is the old side already", hint="leave --old out")
    return {NEW: new} if has_baseline else {OLD: old, NEW: old if is_aa else new}


def _sides(
    given: Mapping[str, Sequence[str]],
    job_file: Path,
    overrides: Sequence[str],
    lab: str | None,
    entries: int | None,
) -> Mapping[str, Side]:
    from ldapslam.cli.study.gate_sides import side_of
    from ldapslam.cli.submission import JobFile
    from ldapslam.studies.study_file import StudyLab

    servers = None
    if lab is not None:
        people = {} if entries is None else {"entries": entries}
        servers = StudyLab.model_validate({"server": lab, **people})
    return {
        name: side_of(name, changes, JobFile(job_file), overrides, servers)
        for name, changes in given.items()
    }


def _held(job: Job) -> frozenset[str]:
    """Operations of open loops, whose rate is their schedule's."""
    return frozenset(
        f"{stream.name}.{name}"
        for stream in job.streams
        if stream.load.kind == "open"
        for name, _ in stream.request_names
    )


def _check_metrics(job: Job, metrics: Sequence[str]) -> None:
    """ConfigError for a metric that no operation of the job can have."""
    from ldapslam.jobs.fields.thresholds import KINDS_WITHOUT_RESPONSE, STREAM_METRICS
    from ldapslam.reports.figures import metric_of

    kinds = {kind for one in job.streams for _, kind in one.request_names}
    has_times = bool(kinds - set(KINDS_WITHOUT_RESPONSE))
    for metric in map(metric_of, metrics):
        is_there = has_times or metric.unit != "us"
        if metric.metric == "elapsed":
            is_there = any(one.count is not None for one in job.streams)
        elif metric.metric in STREAM_METRICS:
            is_there = False
        if not is_there:
            raise ConfigError(
                f"no operation of the job has the metric {metric.name!r}",
                hint="choose others with --metric",
            )


def _check_missing(missing: Sequence[FigureName], metrics: Sequence[str]) -> None:
    """ConfigError where not all runs of the baseline have a figure."""
    for name in missing:
        others = [f"--metric {one}" for one in metrics if one != name.short]
        raise ConfigError(
            f"not all runs of the baseline have the {name.short} of {name.title}",
            hint="save one of longer runs, or judge " + (" ".join(others) or "others"),
        )


def _check_baseline(kept: Baseline, side: Side) -> None:
    """ConfigError where the baseline cannot be that of the gate, as far as this can be
    told before a run."""
    from ldapslam.cli.submission import connections_of_traces
    from ldapslam.jobs.load import job_text
    from ldapslam.reports.comparing.making import facts_before
    from ldapslam.studies.baseline import refusal
    from ldapslam.studies.labs import planned_facts

    lab = {} if side.lab is None else planned_facts(side.lab, side.point)
    text = job_text(Path(side.point.job))
    overrides = [*side.point.overrides, *connections_of_traces(side.job)]
    planned = facts_before(text, overrides, lab)
    if found := list(kept.differences_before(planned, in_lab=bool(lab))):
        raise refusal(found)
