# SPDX-License-Identifier: Apache-2.0
"""How long the runs of a gate are: as in the job, but no longer than the time allows
for ten pairs, and no shorter than the percentiles need."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from ldapslam.base.errors import ConfigError
from ldapslam.base.units import DURATION_UNITS, NS_PER_S, format_duration
from ldapslam.cli.study.gate_sides import Side
from ldapslam.cli.submission import JobFile
from ldapslam.jobs.fields.thresholds import parse_threshold
from ldapslam.jobs.model import Job
from ldapslam.jobs.plan import planned_end_ns
from ldapslam.reports.comparing.sequential import FIRST_LOOK
from ldapslam.studies.gate import NEW

_FIELD = "run.duration="
#: The granularity of lengths that the gate chooses.
_STEP_NS = DURATION_UNITS["ms"] * 500
#: The set-up and the report of a run.
_OVERHEAD_NS = DURATION_UNITS["ms"] * 500
#: Pairs that the time has to allow, and the shortest measure phase for that.
_PAIRS, _SHORTEST_NS = 10, 3 * NS_PER_S


def fitted(sides: Mapping[str, Side], limit_ns: int) -> tuple[Mapping[str, Side], str]:
    """Return the sides with runs that fit into the time, and a note if these are
    shorter than the job's; ConfigError if even the fewest runs take longer."""
    job, count = sides[NEW].job, len(sides)
    if all(stream.count is not None for stream in job.streams):
        return sides, ""  # nobody knows how long they take
    duration_ns = length_ns = job.run.duration_ns
    overhead_ns = planned_end_ns(job.run) - duration_ns + _OVERHEAD_NS
    if count > 1 and has_free_length(sides.values()):
        allowed_ns = limit_ns // (count * _PAIRS) - overhead_ns
        allowed_ns = allowed_ns // _step_ns(job) * _step_ns(job)
        shortest_ns = max(_SHORTEST_NS, _longest_hold_ns(sides.values()))
        length_ns = min(duration_ns, max(allowed_ns, shortest_ns))
    needed_ns = count * FIRST_LOOK * (length_ns + overhead_ns)
    limit, length, job_length = map(format_duration, (limit_ns, length_ns, duration_ns))
    if needed_ns > limit_ns:
        needed = format_duration(math.ceil(needed_ns / NS_PER_S) * NS_PER_S)
        raise ConfigError(
            f"{FIRST_LOOK} runs of each side, with a measure phase of {length}, take "
            f"{needed}; --time is {limit}",
            hint="give it more --time, or shorter runs",
        )
    if length_ns == duration_ns:
        return sides, ""
    return {name: with_length(side, length_ns) for name, side in sides.items()}, (
        f"The measure phase of runs is {length} long, not {job_length} as in the job: "
        f"{_PAIRS} pairs have to fit into --time {limit}."
    )


def _longest_hold_ns(sides: Collection[Side]) -> int:
    """The longest time after `for` in thresholds that runs as the job has them can
    miss."""
    return max(
        (
            hold_ns
            for side in sides
            for hold_ns in (parse_threshold(one).hold_ns for one in side.job.thresholds)
            if hold_ns <= side.job.run.duration_ns
        ),
        default=0,
    )


def has_free_length(sides: Collection[Side]) -> bool:
    """Whether nothing but the measure phase ends a run: no count, stages or log."""
    for stream in (stream for side in sides for stream in side.job.streams):
        if stream.load.stages or stream.trace or stream.count or stream.stop_after_ns:
            return False
    return True


def longer_ns(job: Job, times: float) -> int:
    """The measure phase multiplied by `times`, rounded up to whole steps."""
    return math.ceil(job.run.duration_ns * times / _step_ns(job)) * _step_ns(job)


def _step_ns(job: Job) -> int:
    return max(job.run.interval_ns, _STEP_NS)


def with_length(side: Side, duration_ns: int) -> Side:
    """The side with this measure phase, as if the command line had given it."""
    others = (one for one in side.point.overrides if not one.startswith(_FIELD))
    overrides = (*others, _FIELD + format_duration(duration_ns))
    return replace(
        side,
        job=JobFile(Path(side.point.job)).load(overrides),
        point=replace(side.point, overrides=overrides),
    )
