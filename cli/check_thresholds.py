# SPDX-License-Identifier: Apache-2.0
"""Thresholds on percentiles for which a job plans too few requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from ldapslam.jobs.model import Job, Stream
from ldapslam.jobs.phases import measure_span
from ldapslam.jobs.plan import planned_arrivals
from ldapslam.jobs.sequence import Request, sessions_of
from ldapslam.jobs.thresholds import (
    KINDS_WITHOUT_RESPONSE,
    PERCENTILES,
    TIME_METRICS,
    Threshold,
    parse_threshold,
    samples_needed,
)


def unsupported_thresholds(job: Job) -> Iterator[str]:
    """What to say of each threshold on a percentile that will have too few values: it
    has no figure then, and is not met. How many requests closed loops and replays will
    send is not known, and of those nothing is said."""
    for threshold in map(parse_threshold, job.thresholds):
        p = PERCENTILES.get(threshold.statistic or "")
        if p is None or threshold.metric not in TIME_METRICS:
            continue
        for stream in job.streams:
            for name, most in _most_requests(job, stream).items():
                if threshold.matches(stream.name, name) and most < samples_needed(p):
                    yield _text(threshold, f"{stream.name}.{name}", most, p)


def _text(threshold: Threshold, of: str, most: float, p: float) -> str:
    return (
        f"threshold {threshold.expression!r} may have no figure, and not be met: "
        f"p{p:g} needs {samples_needed(p):,} requests, and about {most:,.0f} of {of} "
        "are planned; measure for longer, or take a lower percentile"
    )


def _most_requests(job: Job, stream: Stream) -> Mapping[str, float]:
    """Operation -> requests to be measured, on average; without those of which that is
    not known."""
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
    for session in sessions:
        for one in session.requests:
            requests[one.name] += session.weight * one.repeat
    unknown = {
        one.name
        for session in sessions
        for one in session.requests
        if one.kind in KINDS_WITHOUT_RESPONSE or _is_paged(one)
    }
    return {
        name: arrivals * weight / weights
        for name, weight in requests.items()
        if name not in unknown
    }


def _arrivals(job: Job, stream: Stream) -> float | None:
    """At most so many sessions begin in the measure phase."""
    load = stream.load.open
    if load is None or not load.is_known:
        return stream.count
    measure = measure_span(job.run)
    due = planned_arrivals(job.run, stream, measure.start_ns, measure.end_ns)
    return due if stream.count is None else min(due, stream.count)


def _is_paged(request: Request) -> bool:
    return getattr(request.step.body, "page_size", None) is not None
