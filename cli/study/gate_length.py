# SPDX-License-Identifier: Apache-2.0
"""How long the runs of a gate are: as the job has it, or what the time is for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from ldapslam.base.errors import ConfigError
from ldapslam.base.units import DURATION_UNITS, NS_PER_S, format_duration
from ldapslam.cli.study.gate_sides import Side
from ldapslam.cli.submission import JobFile
from ldapslam.jobs.fields.thresholds import parse_criterion
from ldapslam.jobs.model import Job
from ldapslam.jobs.plan import planned_end_ns
from ldapslam.reports.comparing.sequential import FIRST_LOOK
from ldapslam.studies.gate import NEW

_FIELD = "run.duration="
#: Of durations that are chosen.
_STEP_NS = DURATION_UNITS["ms"] * 500
#: What a run takes beside its load.
_BESIDE_NS = DURATION_UNITS["ms"] * 500
#: Pairs that runs are made shorter for, and the shortest measure phase then.
PAIRS, _SHORTEST_NS = 10, 3 * NS_PER_S
#: Of a time that is proposed, beyond what is known.
_ROOM = 1.1


def fitted(sides: Mapping[str, Side], limit_ns: int) -> tuple[Mapping[str, Side], str]:
    """The sides with runs that are short enough for the time, and a sentence on that
    where they were made shorter; ConfigError when the time is not enough."""
    job, count = sides[NEW].job, len(sides)
    if all(one.count is not None for one in job.streams):
        return sides, ""  # it ends when they have done so much
    load_ns, was_ns = planned_end_ns(job.run), job.run.duration_ns
    if count * FIRST_LOOK * (load_ns + _BESIDE_NS) <= limit_ns:
        return sides, ""
    limit = format_duration(limit_ns)
    needed = time_text(count * PAIRS * (load_ns + _BESIDE_NS) / NS_PER_S)
    beside_ns = _BESIDE_NS + load_ns - was_ns
    each_ns = limit_ns // (count * PAIRS) - beside_ns
    shorter_ns = each_ns // _step_ns(job) * _step_ns(job)
    is_free = (
        count > 1
        and not any(map(_says_length, sides.values()))
        and has_free_length(sides.values())
    )
    shortest_ns = max(_SHORTEST_NS, _longest_hold_ns(sides.values()))
    if is_free and shorter_ns >= shortest_ns:
        was, shorter = format_duration(was_ns), format_duration(shorter_ns)
        return {name: with_length(one, shorter_ns) for name, one in sides.items()}, (
            f"{PAIRS} pairs of runs of {was} take longer than {limit}: the measure "
            f"phase was made {shorter} long (--set {_FIELD}{shorter}); --time {needed} "
            "is enough for runs as the job has them."
        )
    if count * FIRST_LOOK * load_ns <= limit_ns:
        return sides, ""
    enough = f"--time {needed} is enough for {PAIRS}"
    if is_free and shortest_ns < was_ns:
        # in whole steps
        least_ns = math.ceil(shortest_ns / _step_ns(job)) * _step_ns(job)
        least = time_text(count * PAIRS * (least_ns + beside_ns) / NS_PER_S)
        enough = (
            f"--time {least} is enough for {PAIRS} pairs of shorter runs, --time "
            f"{needed} for runs as the job has them"
        )
    raise ConfigError(
        f"{FIRST_LOOK} runs of a side are the least, and all of them take "
        f"{format_duration(count * FIRST_LOOK * load_ns)}; --time is {limit}",
        hint=f"give it time: {enough}",
    )


def _says_length(side: Side) -> bool:
    """Whether the command line has said how long its runs are."""
    given = {one.partition("=")[0].strip() for one in side.point.overrides}
    return not given.isdisjoint({"run", "run.duration"})


def _longest_hold_ns(sides: Iterable[Side]) -> int:
    """The longest time after `for` in thresholds that runs as the job has them can
    miss."""
    return max(
        (
            hold_ns
            for side in sides
            for hold_ns in (parse_criterion(one).hold_ns for one in side.job.thresholds)
            if hold_ns <= side.job.run.duration_ns
        ),
        default=0,
    )


def has_free_length(sides: Iterable[Side]) -> bool:
    """Whether nothing else says how long runs are: a count, stages, a log."""
    for stream in (each for one in sides for each in one.job.streams):
        stages = stream.load.open and stream.load.open.stages
        if stages or stream.replay or stream.count or stream.stop_after_ns:
            return False
    return True


def longer_ns(job: Job, times: float) -> int:
    """That many times the measure phase, in whole steps."""
    return math.ceil(job.run.duration_ns * times / _step_ns(job)) * _step_ns(job)


def _step_ns(job: Job) -> int:
    return max(job.run.interval_ns, _STEP_NS)


def with_length(side: Side, duration_ns: int) -> Side:
    """With a measure phase so long, as if it had been given so."""
    others = (one for one in side.point.overrides if not one.startswith(_FIELD))
    overrides = (*others, _FIELD + format_duration(duration_ns))
    return replace(
        side,
        job=JobFile(Path(side.point.job)).load(overrides),
        point=replace(side.point, overrides=overrides),
    )


def length_option(side: Side) -> str:
    """The option that makes its runs so long; empty where the job has it."""
    given = [one for one in side.point.overrides if one.startswith(_FIELD)]
    return f"--set {given[-1]}" if given else ""


def time_text(needed_s: float) -> str:
    """For --time, with some room: in steps of 10 s, above 5 min of 1 min."""
    step_s = 10 if needed_s < 300 else 60
    steps = math.ceil(needed_s * _ROOM / step_s)
    return format_duration(steps * step_s * NS_PER_S)
