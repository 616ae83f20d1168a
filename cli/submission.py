# SPDX-License-Identifier: Apache-2.0
"""A job as it is sent to a coordinator: from a file or from a command's options.

It is checked here, and sent with the files that it names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ldapslam.base.errors import ConfigError
from ldapslam.cli.console import say
from ldapslam.jobs.fields.formulas import parse_criterion
from ldapslam.jobs.fields.thresholds import (
    KINDS_WITHOUT_RESPONSE,
    PERCENTILES,
    TIME_METRICS,
    Threshold,
    samples_needed,
)
from ldapslam.jobs.load import load_job
from ldapslam.jobs.model import Job, Stream
from ldapslam.jobs.operations.sequence import sessions_of
from ldapslam.jobs.plan import measure_span, planned_arrivals
from ldapslam.proto import operator_pb2 as pb
from ldapslam.transport.messages import MAX_MESSAGE_BYTES

if TYPE_CHECKING:
    from ldapslam.cli.composed_job import ComposedJob

#: What a message may hold, and room for the job.
_MAX_FILES_BYTES = MAX_MESSAGE_BYTES - (2 << 20)


def checked_request(
    source: JobSource,
    overrides: Sequence[str],
    lab: Mapping[str, str] | None = None,
) -> pb.SubmitJobRequest:
    """The request that has a job run, which is checked here; JobErrors, ConfigError.
    `lab`: what its servers were made of."""
    from ldapslam.cli.client import job_request

    job = source.load(overrides)
    check_size_of_files(job)
    for warning in warnings_of(job):
        say(f"warning: {warning}")
    return job_request(
        source.content(),
        job_file=source.name,
        overrides=overrides,
        files={name: path.read_bytes() for name, path in job.files.items()},
        lab=lab,
    )


def check_size_of_files(job: Job) -> None:
    """ConfigError when the job names more than agents are sent."""
    sizes = {name: path.stat().st_size for name, path in job.files.items()}
    total = sum(sizes.values())
    if total > _MAX_FILES_BYTES:
        largest = max(sizes, key=sizes.__getitem__)
        raise ConfigError(
            f"the job's files have {total:,} bytes, agents are sent at most "
            f"{_MAX_FILES_BYTES:,}: the largest is {largest!r}",
            hint="logs of a replay may be compressed with gzip; feeds may be shorter, "
            "since their lines are used again",
        )


@dataclass(frozen=True)
class JobFile:
    """A job file."""

    path: Path

    @property
    def name(self) -> str:
        return str(self.path)

    def content(self) -> bytes:
        return self.path.read_bytes()

    def load(self, overrides: Sequence[str] = ()) -> Job:
        return load_job(self.path, overrides)


#: A job as it is submitted: its name in the run's manifest, its text, and the same text
#: checked.
JobSource: TypeAlias = "JobFile | ComposedJob"


def warnings_of(job: Job) -> Iterator[str]:
    """What a job may not have meant."""
    yield from unsupported_thresholds(job)
    for stream in job.streams:
        if change := job.identity_change(stream):
            yield (
                f"stream {stream.name}: {change}; give binds a stream of their own, or "
                "end their sequence with an unbind"
            )


def unsupported_thresholds(job: Job) -> Iterator[str]:
    """A warning for each threshold on a percentile that will have too few values, and
    so fails. The requests of closed loops and replays are not known beforehand."""
    for threshold in map(parse_criterion, job.thresholds):
        if not isinstance(threshold, Threshold):
            continue
        p = PERCENTILES.get(threshold.statistic or "")
        if p is None or threshold.metric not in TIME_METRICS:
            continue
        measure = measure_span(job.run)
        measured_ns = measure.end_ns - measure.start_ns
        share = min(1.0, job.run.interval_ns / measured_ns)
        for stream in job.streams:
            for name, most in _most_requests(job, stream).items():
                if threshold.hold_ns:
                    most *= share
                if threshold.matches(stream.name, name) and most < samples_needed(p):
                    yield _text(threshold, f"{stream.name}.{name}", most, p)


def _text(threshold: Threshold, of: str, most: float, p: float) -> str:
    where, remedy = " are planned", "measure for longer"
    if threshold.hold_ns:
        where, remedy = " come in an interval", "make `run.interval` longer"
    return (
        f"threshold {threshold.expression!r} may be uncertain: "
        f"p{p:g} needs {samples_needed(p):,} requests, and about {most:,.0f} of {of}"
        f"{where}; {remedy}, or take a lower percentile"
    )


def _most_requests(job: Job, stream: Stream) -> Mapping[str, float]:
    """Operation -> average number of requests to be measured, where it is known."""
    arrivals = _arrivals(job, stream)
    if arrivals is None:
        return {}
    if stream.python is not None:
        # a probe sees each write on every replica; what others do is their own
        names = stream.python.operations if stream.python.watches else ()
        return dict.fromkeys(names, arrivals)
    sessions = sessions_of(stream.operations)
    weights = sum(session.weight for session in sessions)
    requests: Counter[str] = Counter()
    unknown = set()
    for session in sessions:
        for one in session.requests:
            requests[one.name] += session.weight * one.repeat
    unknown = {
        one.name
        for session in sessions
        for one in session.requests
        if one.kind in KINDS_WITHOUT_RESPONSE or one.is_paged
    }
    return {
        name: arrivals * weight / weights
        for name, weight in requests.items()
        if name not in unknown
    }


def _arrivals(job: Job, stream: Stream) -> float | None:
    """The most sessions that begin in the measure phase."""
    load = stream.load.open
    if load is None or not load.is_known:
        return stream.count
    measure = measure_span(job.run)
    due = planned_arrivals(job.run, stream, measure.start_ns, measure.end_ns)
    return due if stream.count is None else min(due, stream.count)
