# SPDX-License-Identifier: Apache-2.0
"""`gate`: an old server against a new one, for a pipeline to stop a regression."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ldapslam.base.errors import ConfigError, ExitCode
from ldapslam.base.fault import Fault
from ldapslam.base.units import format_duration, parse_duration
from ldapslam.cli.console import json_option, say
from ldapslam.cli.measure.local_fleet import one_blas_thread
from ldapslam.cli.measure.run import agents_option
from ldapslam.cli.options import (
    FOLDER,
    RUNS_FOLDER,
    change_options,
    flag,
    job_argument,
    option,
)
from ldapslam.cli.study.study import put_report

if TYPE_CHECKING:
    from ldapslam.cli.study.gate_runs import Runs
    from ldapslam.jobs.model import Job
    from ldapslam.reports.model import Summary
    from ldapslam.studies.gate import Gate, Tolerances

_NS_PER_S = 10**9
#: INVALID runs of a side in a row that end the gate.
_MOST_INVALID = 5
_EXIT_CODES = {
    "PASS": ExitCode.PASS,
    "FAIL": ExitCode.FAIL,
    "INVALID": ExitCode.INVALID,
}


@click.command("gate")
@job_argument
@option(
    "--old CHANGE",
    "What the old side is: PATH, URI or NAME=VALUE, as below; repeatable.",
    multiple=True,
)
@option("--new CHANGE", "What the new side is.", multiple=True)
@option(
    "--lab",
    "Run on throw-away servers of this kind on this host, one set for each side.",
    type=click.Choice(["slapd", "389ds"]),
)
@option("--entries N", "People in each lab.", type=click.IntRange(1), default=1000)
@option(
    "--tolerance tolerances SHARE",
    "How much worse a time or a rate may be, such as 5%; METRIC=SHARE for one metric "
    "alone, such as p99=10%. Errors may be 1 percentage point more. Repeatable.",
    multiple=True,
)
@option(
    "--metric metrics NAME",
    "Judge this metric: throughput, goodput, mean, p50, p95, p99, errors; repeatable. "
    "throughput, p50, p99 and errors when left out.",
    multiple=True,
)
@option(
    "--time limit_ns DURATION",
    "How long the gate may take.",
    parse=parse_duration,
    default="5m",
)
@option(
    "--seed N",
    "Of the order of the sides.",
    type=click.IntRange(0),
    default=1,
)
@flag(
    "--aa is_aa",
    "Take the old side for both, until the time is over, and tell how often this gate "
    "would find which change here.",
)
@flag("--no-restart", "Do not restart the servers of a lab before each pair of runs.")
@agents_option
@change_options
@option(
    "--out DIR",
    f"Folder of the results; {RUNS_FOLDER}/gate-JOB when left out.",
    type=FOLDER,
)
@json_option
def gate_command(
    job_file: Path,
    old: tuple[str, ...],
    new: tuple[str, ...],
    lab: str | None,
    entries: int,
    tolerances: tuple[str, ...],
    metrics: tuple[str, ...],
    limit_ns: int,
    seed: int,
    is_aa: bool,
    no_restart: bool,
    agents: int | None,
    overrides: tuple[str, ...],
    out: Path | None,
    as_json: bool,
) -> ExitCode:
    """Load an old server and a new one with JOB, and stop a regression.

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
    """
    from ldapslam.cli.study.gate_runs import Runs, side_of
    from ldapslam.cli.submission import JobFile
    from ldapslam.studies.gate import NEW, OLD, Gate
    from ldapslam.studies.study_file import StudyLab

    chosen, tolerated = _criteria(metrics, tolerances)
    if agents is not None:
        overrides = (*overrides, f"agents={{count: {agents}}}")
    given = {OLD: old, NEW: old if is_aa else new}
    servers = StudyLab(server=lab, entries=entries) if lab else None  # type: ignore[arg-type]
    with one_blas_thread():  # a job type of the user's may import numpy
        sides = {
            name: side_of(name, changes, JobFile(job_file), overrides, servers)
            for name, changes in given.items()
        }
    if is_aa and new:
        raise ConfigError("--aa has one side alone", hint="leave --new out")
    if sides[OLD].identity == sides[NEW].identity and not is_aa:
        raise ConfigError(
            "the old side and the new one are the same",
            hint="say with --old and --new what differs, or give --aa",
        )
    _check_time(sides[OLD].job, limit_ns)
    name = sides[OLD].job.name
    at = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    folder = out or RUNS_FOLDER / f"gate-{name}-{at}"
    gate = Gate(chosen, tolerated)
    with Runs(sides, folder, agents, restarts=not no_restart) as runs:
        begun_s = time.monotonic()
        until_s = begun_s + limit_ns / _NS_PER_S
        ended = _make_pairs(gate, runs, seed, until_s, may_end=not is_aa)
        pair_s = (time.monotonic() - begun_s) / max(len(gate.pairs), 1)

    from ldapslam.studies.gate_report import (
        REHEARSED,
        GateAnswer,
        gate_document,
        gate_json,
        write_gate,
    )

    answer = GateAnswer(
        job=name,
        sides={side: " ".join(changes) for side, changes in given.items()},
        answer=gate.answer(),
        runs=tuple(runs.made),
        ended=ended,
        seed=seed,
        pair_s=pair_s,
        rehearsed=gate.rehearse(REHEARSED) if is_aa else (),
    )
    files = write_gate(answer, folder)
    put_report(gate_document(answer), gate_json(answer) if as_json else None, files)
    return _EXIT_CODES[answer.verdict]


def _criteria(
    metrics: Sequence[str], tolerances: Sequence[str]
) -> tuple[Sequence[str], Tolerances]:
    from ldapslam.studies.gate import DEFAULT_METRICS, Tolerances, known_metric

    try:
        chosen = tuple(map(known_metric, metrics)) or DEFAULT_METRICS
    except Fault as fault:
        raise ConfigError(f"--metric: {fault}", hint=fault.hint) from fault
    try:
        return chosen, Tolerances.of(tolerances)
    except Fault as fault:
        raise ConfigError(f"--tolerance: {fault}", hint=fault.hint) from fault


def _check_time(job: Job, limit_ns: int) -> None:
    """ConfigError when the time is not enough."""
    from ldapslam.jobs.plan import planned_end_ns
    from ldapslam.reports.comparing.sequential import FIRST_LOOK

    least_ns = 2 * FIRST_LOOK * planned_end_ns(job.run)
    if least_ns > limit_ns:
        raise ConfigError(
            f"{FIRST_LOOK} pairs of runs are the least, and take "
            f"{format_duration(least_ns)}; --time is {format_duration(limit_ns)}",
            hint="make runs shorter, as with --set run.duration=3s, or give it time",
        )


def _make_pairs(
    gate: Gate, runs: Runs, seed: int, until_s: float, *, may_end: bool
) -> str:
    """Runs until the answer is clear, where it `may_end` then. Why the gate ended."""
    from ldapslam.reports.comparing.readings import readings_of
    from ldapslam.reports.comparing.sequential import FIRST_LOOK
    from ldapslam.studies.gate import NEW, OLD, order_of

    begun_s = time.monotonic()
    for order in order_of(seed):
        runs.restart()
        pair: dict[str, Summary] = {}
        for side in order:
            found = _valid_run(runs, side)
            if found is None:
                gate.end()
                return f"{_MOST_INVALID} runs in a row were INVALID"
            pair[side] = found
        gate.add(readings_of(pair[OLD]), readings_of(pair[NEW]))
        made, now_s = len(gate.pairs), time.monotonic()
        each_s = (now_s - begun_s) / made
        if made == FIRST_LOOK - 1:
            gate.plan_for(made + int((until_s - now_s) / each_s))
            _say_plan(gate, each_s)
        if gate.plan and made in gate.plan.sizes:
            say(f"{made} pairs: {gate.answer().answer}")
        if may_end and gate.is_clear:
            return "the answer is clear"
        if gate.plan and (made == gate.plan.sizes[-1] or now_s + each_s > until_s):
            gate.end()
            return "the time was over"
    raise AssertionError("there is always another pair")


def _valid_run(runs: Runs, side: str) -> Summary | None:
    """None: too many in a row were INVALID, which says nothing of the server."""
    for _ in range(_MOST_INVALID):
        summary = runs.run(side)
        if summary.verdict != "INVALID":
            return summary
        say(f"{side}: INVALID, made again: {'; '.join(summary.reasons)}")
    return None


def _say_plan(gate: Gate, each_s: float) -> None:
    """How long it will take, by the spread of the first pairs."""
    assert gate.plan is not None
    most = gate.plan.sizes[-1]
    needed = gate.needed()
    too_many = [
        f"{m.words} of {title}" for (title, m), n in needed.items() if n is None
    ]
    pairs = max((n or most for n in needed.values()), default=most)
    left_ns = round(each_s * max(pairs - len(gate.pairs), 0)) * _NS_PER_S
    say(
        f"a pair of runs takes {each_s:.1f} s; if nothing differs, {pairs} pairs "
        f"should tell ({format_duration(left_ns)} more)"
    )
    if too_many:
        say(
            f"the time is for {most} pairs, which are few for {', '.join(too_many)}: "
            "give more --time, or a larger --tolerance"
        )
