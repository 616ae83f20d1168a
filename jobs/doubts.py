# SPDX-License-Identifier: Apache-2.0
"""What a job that has no fault may not have meant: warnings, each with its remedy.
Pure."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from ldapslam.base.units import NS_PER_S, format_duration
from ldapslam.jobs.fields.thresholds import (
    KINDS_WITHOUT_RESPONSE,
    PERCENTILES,
    TIME_METRICS,
    Threshold,
    parse_threshold,
    samples_needed,
)
from ldapslam.jobs.model import Job, Stream
from ldapslam.jobs.operations.sequence import Request, sessions_of
from ldapslam.jobs.plan import measure_span, planned_arrivals

_REFERENCE = re.compile(r"(?<!\$)\$\{\w+\}", re.ASCII)
#: Texts that say which entries are meant.
_FIELDS = ("base", "filter", "dn", "under")
#: Standard deviations of a number of requests, which a proposed length has room for.
_SPREADS = 3.0


def doubts(job: Job) -> Iterator[str]:
    """All that can be said of the job alone."""
    yield from unsupported_thresholds(job)
    yield from _idle_thresholds(job)
    yield from _rates_above_the_load(job)
    for stream in job.streams:
        yield from _references_without_variables(stream)
        yield from _stages(job, stream)
        if change := job.identity_change(stream):
            yield (
                f"stream {stream.name}: {change}: add reconnect_every: 1 "
                "(--reconnect-every 1) or an unbind after the bind, or give binds a "
                "stream of their own"
            )


def _references_without_variables(stream: Stream) -> Iterator[str]:
    """Warn of references to variables that are left after variables were replaced."""
    for request in stream.requests:
        for name in _FIELDS:
            text = getattr(request.step.body, name, None)
            if isinstance(text, str) and (reference := _REFERENCE.search(text)):
                yield (
                    f"{stream.name}.{request.name}: {reference[0]!r} in "
                    f"`{name}: {text}` is sent as it is: a variable needs a default "
                    "in the job's `vars`"
                )


def _stages(job: Job, stream: Stream) -> Iterator[str]:
    """Warn of stages that are longer than the time in which they are measured."""
    load, measure = stream.load, measure_span(job.run)
    if load.stages is None or not load.is_known:
        return
    start_ns = max(measure.start_ns, stream.start_after_ns)
    end_ns = min(measure.end_ns, stream.stop_after_ns or measure.end_ns)
    length_ns = end_ns - start_ns
    if load.stages_ns is not None and load.stages_ns > length_ns > 0:
        takes, there = format_duration(load.stages_ns), format_duration(length_ns)
        remedy = "stop it later"
        if end_ns == measure.end_ns:
            longer_ns = start_ns + load.stages_ns - measure.start_ns
            remedy = f"--set run.duration={format_duration(longer_ns)}"
        yield (
            f"stream {stream.name}: its stages take {takes}, and {there} of them are "
            f"measured; {remedy}, or shorten them"
        )


def _idle_thresholds(job: Job) -> Iterator[str]:
    """Thresholds that no run of this length can miss."""
    measure = measure_span(job.run)
    measured_ns = measure.end_ns - measure.start_ns
    for threshold in map(parse_threshold, job.thresholds):
        if threshold.hold_ns > measured_ns:
            yield (
                f"threshold {threshold.expression!r} cannot be missed: the measure "
                f"phase has {format_duration(measured_ns)}; measure for longer, or "
                "take a shorter time after `for`"
            )


def _rates_above_the_load(job: Job) -> Iterator[str]:
    """Thresholds that ask for as many requests as an open loop offers, or more."""
    measure = measure_span(job.run)
    measured_s = (measure.end_ns - measure.start_ns) / NS_PER_S
    for threshold in map(parse_threshold, job.thresholds):
        if (
            not threshold.is_of_stream
            or threshold.metric not in ("throughput", "goodput")
            or threshold.per
            or threshold.comparison.startswith("<")
        ):
            continue
        for stream in job.streams:
            if stream.load.kind != "open":
                continue
            for name, planned in planned_requests(job, stream).items():
                offered_per_s = planned / measured_s
                is_meant = threshold.matches(stream.name, name)
                if is_meant and threshold.limit >= offered_per_s:
                    yield (
                        f"threshold {threshold.expression!r} asks for all that is "
                        f"offered, or more: {stream.name}.{name} has about "
                        f"{offered_per_s:,.4g}/s; ask for some percent less"
                    )


def unsupported_thresholds(
    job: Job, expected: Mapping[tuple[str, str], float] | None = None
) -> Iterator[str]:
    """A warning for each threshold on a percentile that will have too few values, and
    so fails. The requests of open loops and of counts are known beforehand; with
    `expected`, of stream and operation, those alone are looked at."""
    if expected is None:
        requests = {
            (stream.name, name): most
            for stream in job.streams
            for name, most in planned_requests(job, stream).items()
        }
        comes = "are planned"
    else:
        requests, comes = dict(expected), "are expected by the times of the samples"
    for threshold in percentile_thresholds(job):
        yield from unsupported(job, threshold, requests, comes)


def percentile_thresholds(job: Job) -> Iterator[Threshold]:
    for threshold in map(parse_threshold, job.thresholds):
        if threshold.is_of_stream and threshold.metric in TIME_METRICS:
            if threshold.statistic in PERCENTILES:
                yield threshold


def unsupported(
    job: Job,
    threshold: Threshold,
    requests: Mapping[tuple[str, str], float],
    comes: str,
) -> Iterator[str]:
    """A warning for each of the operations that has too few requests for a threshold on
    a percentile; `comes` says how so many come."""
    p = PERCENTILES[threshold.statistic or ""]
    measure = measure_span(job.run)
    length_ns, field = measure.end_ns - measure.start_ns, "run.duration"
    share = 1.0
    if threshold.hold_ns:
        share = min(1.0, job.run.interval_ns / length_ns)
        length_ns, field = job.run.interval_ns, "run.interval"
        comes = "come in an interval"
    counts = {stream.name for stream in job.streams if stream.count}
    for (stream, name), planned in requests.items():
        most = planned * share
        if not threshold.matches(stream, name) or most >= samples_needed(p):
            continue
        longer_s = math.ceil(length_ns * samples_to_plan(p) / max(most, 1) / NS_PER_S)
        remedy = f"--set {field}={longer_s}s"
        if stream in counts and not threshold.hold_ns:
            remedy = f"a larger `count` of {stream}"
        yield (
            f"threshold {threshold.expression!r} may be uncertain: p{p:g} needs "
            f"{samples_needed(p):,} requests, and about {most:,.0f} of {stream}.{name} "
            f"{comes}; {remedy}, or a lower percentile, helps"
        )


def samples_to_plan(p: float) -> float:
    """More than are needed: where arrivals or operations are drawn, their number
    varies, and some requests may fail."""
    return samples_needed(p) + _SPREADS * math.sqrt(samples_needed(p))


def requests_per_session(stream: Stream) -> dict[str, float]:
    """Operation -> average number of its requests in a session, where it is known."""
    sessions = sessions_of(stream.operations)
    weights = sum(session.weight for session in sessions)
    requests: Counter[str] = Counter()
    unknown = set()
    for session in sessions:
        for one in session.requests:
            requests[one.name] += session.weight * one.repeat
            if one.kind in KINDS_WITHOUT_RESPONSE or one.is_paged:
                unknown.add(one.name)
    return {
        name: weight / weights
        for name, weight in requests.items()
        if name not in unknown
    }


def per_session(stream: Stream, figure: Callable[[Request], int]) -> float:
    """Average over the sessions of a figure that its requests add up."""
    sessions = sessions_of(stream.operations)
    sums = (one.weight * sum(map(figure, one.requests)) for one in sessions)
    return sum(sums) / sum(one.weight for one in sessions)


def requests_of_clients(
    job: Job, stream: Stream, time_ns: Mapping[str, float]
) -> dict[tuple[str, str], float]:
    """Stream and operation -> average number of requests to be measured in a closed
    loop without a count, whose requests take so long; empty where it is not known."""
    load, shares = stream.load, requests_per_session(stream)
    if load.clients is None or stream.count is not None:
        return {}
    if not shares or not shares.keys() <= time_ns.keys():
        return {}
    session_ns = load.think_time_ns + per_session(stream, lambda one: one.pause_ns)
    session_ns += sum(share * time_ns[name] for name, share in shares.items())
    measure = measure_span(job.run)
    start_ns = max(measure.start_ns, stream.start_after_ns)
    end_ns = min(measure.end_ns, stream.stop_after_ns or measure.end_ns)
    sessions = load.clients * max(0, end_ns - start_ns) / session_ns
    return {(stream.name, name): sessions * share for name, share in shares.items()}


def planned_requests(job: Job, stream: Stream) -> Mapping[str, float]:
    """Operation -> average number of requests to be measured, where it is known."""
    arrivals = _arrivals(job, stream)
    if arrivals is None:
        return {}
    if stream.python is not None:
        # a probe sees each write on every replica; what others do is their own
        names = stream.python.operations if stream.python.watches else ()
        return dict.fromkeys(names, arrivals)
    shares = requests_per_session(stream)
    return {name: arrivals * share for name, share in shares.items()}


def _arrivals(job: Job, stream: Stream) -> float | None:
    """The most sessions that begin in the measure phase."""
    load = stream.load
    if load.kind != "open" or not load.is_known:
        return stream.count
    measure = measure_span(job.run)
    due = planned_arrivals(job.run, stream, measure.start_ns, measure.end_ns)
    return due if stream.count is None else min(due, stream.count)
