# SPDX-License-Identifier: Apache-2.0
"""Outages: a stream's connections were down, or what waited had no response. Pure.

A silence is certain from the first request that waited to the next response, less what
a response usually takes; where connections failed, to the last attempt that did. It is
possible from the last response before it on. How long the generator itself stood still
is not certain either.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from ldapslam.reports.collect.timeline import NS_PER_S
from ldapslam.reports.rules.evidence import Evidence, chains
from ldapslam.reports.streams import Outage

#: Share of an interval without connections from which on it belongs to an outage.
_OUT = 0.3
#: In this time, an agent notices that a server is back (agent/csrc/load/connection.c).
_NOTICED_S = 0.05
#: An outage is longer than this, or than an interval: what is shorter is told by the
#: response times.
_SHORTEST_OUTAGE_S = 0.999
#: What is certain of it is longer than this, than any usual response, and than this
#: share of what is possible, as are 9 of 10 outages that begin between two requests.
_LEAST_SILENCE_S = 0.01
_LEAST_SHARE = 0.1
#: What is possible is said beside what is certain, where it is this much longer.
_WIDE = 1.02


class Silence(NamedTuple):
    """Something waited for the directory, and no response came; ns after T0."""

    certain_ns: tuple[int, int]
    possible_ns: tuple[int, int]
    #: Numbers of the intervals that it touches.
    intervals: range


def outage_of(evidence: Evidence, stream: str) -> Outage:
    window_s = evidence.window_of(stream).measure_s
    connections = evidence.run.plan.stream(stream).connections
    if not window_s or not connections:
        return Outage()
    down_s = {
        index: min(down_ns / NS_PER_S / connections, _length_s(evidence, index))
        for index, down_ns in evidence.totals_of(stream).down_ns.items()
    }
    # of clients that back off, nobody knows when it was back
    backs_off = bool(evidence.run.plan.stream(stream).reconnect_wait_ns)
    noticed_s = math.inf if backs_off else _NOTICED_S
    outages = [(0.0, 0.0, 0.0), *_downs(evidence, down_s, noticed_s)]
    stalls_s = [0.0]
    out_s: tuple[defaultdict[int, float], ...] = defaultdict(float), defaultdict(float)
    for silence in _silences(evidence, stream):
        own_s = evidence.stalled_s(stream, silence.intervals)
        lengths_s = _lengths_s(evidence, stream, silence, own_s)
        if lengths_s[1]:
            stalls_s.append(own_s)
        outages.append((*lengths_s, silence.certain_ns[0] / NS_PER_S))
        spans_ns = silence.certain_ns, silence.possible_ns
        for silent_s, length_s, span_ns in zip(out_s, lengths_s, spans_ns, strict=True):
            for index in silence.intervals:
                share = _within_s(evidence, index, span_ns) * NS_PER_S
                silent_s[index] += length_s * share / max(span_ns[1] - span_ns[0], 1)
    least_s, most_s, at_s = max(outages)
    certain_and_possible = {} if backs_off else down_s, down_s
    total_s = [
        sum(
            min(max(downs_s.get(at, 0.0), silent_s[at]), _length_s(evidence, at))
            for at in {*downs_s, *silent_s}
        )
        for downs_s, silent_s in zip(certain_and_possible, out_s, strict=True)
    ]
    text = ""
    if least_s:
        lengths = f"{least_s:.3g} s"
        if most_s > _WIDE * least_s:
            lengths = f"{least_s:.3g} to {most_s:.3g} s"
        text = f"unavailable for {lengths} from about {at_s:+.3g} s"
    return Outage(
        longest_s=(least_s, max(most for _, most, _ in outages)),
        total_s=(total_s[0], total_s[1]),
        share=(min(1.0, total_s[0] / window_s), min(1.0, total_s[1] / window_s)),
        stalled_s=max(stalls_s),
        text=text,
    )


def _length_s(evidence: Evidence, index: int) -> float:
    start_ns, end_ns = evidence.plan.span_ns(index)
    return (end_ns - start_ns) / NS_PER_S


def _within_s(evidence: Evidence, index: int, span_ns: tuple[int, int]) -> float:
    """How much of a span lies in an interval."""
    start_ns, end_ns = evidence.plan.span_ns(index)
    return max(min(end_ns, span_ns[1]) - max(start_ns, span_ns[0]), 0) / NS_PER_S


def _downs(
    evidence: Evidence, down_s: dict[int, float], noticed_s: float
) -> Iterator[tuple[float, float, float]]:
    """Yield how long connections were down, at least and at most, and when it began."""
    is_out = {
        index
        for index, time_s in down_s.items()
        if time_s >= _OUT * _length_s(evidence, index)
    }
    for first, last in chains(is_out):
        # it may have begun and ended within the neighbours
        length_s = sum(down_s.get(at, 0.0) for at in range(first - 1, last + 2))
        start_ns, _ = evidence.plan.span_ns(first)
        yield max(length_s - noticed_s, 0.0), length_s, start_ns / NS_PER_S


def _lengths_s(
    evidence: Evidence, stream: str, silence: Silence, own_s: float
) -> tuple[float, float]:
    """Return how much of a silence is an outage for certain, and possibly."""
    usual_s, _ = evidence.usual_responses_s(stream)
    since_ns, through_ns = silence.certain_ns
    after_ns, until_ns = silence.possible_ns
    certain_s = (through_ns - since_ns) / NS_PER_S - usual_s
    waited_s = (until_ns - since_ns) / NS_PER_S - usual_s
    most_s = (until_ns - after_ns) / NS_PER_S
    outage_s = min(_length_s(evidence, silence.intervals[-1]), _SHORTEST_OUTAGE_S)
    if most_s <= outage_s:
        return 0.0, 0.0
    shortest_s = max(
        _LEAST_SILENCE_S,
        evidence.long_response_s(stream),
        min(_LEAST_SHARE * most_s, outage_s),
    )
    least_s = certain_s - own_s
    return (
        least_s if least_s > shortest_s else 0.0,
        most_s if waited_s > shortest_s else 0.0,
    )


def _silences(evidence: Evidence, stream: str) -> Iterator[Silence]:
    """Yield what may be outages: silences of the measure phase that every agent of the
    stream reported."""
    responses = evidence.totals_of(stream).responses
    start_ns = evidence.collected.measure_start_ns
    end_ns = evidence.collected.measure_end_ns
    if not responses or start_ns is None or end_ns is None:
        return
    planned = evidence.run.plan.stream(stream)
    start_ns = max(start_ns, planned.start_ns)
    end_ns = min(end_ns, planned.end_ns or end_ns)
    last = max(responses)
    found, last_ns = [], 0
    for index, one in sorted(responses.items()):
        # some of the agents that wait for nothing may have had responses
        after_ns, since_ns = max(one[1], last_ns), max(one[2], last_ns)
        found.append((index, after_ns, since_ns, *one[3:5]))
        last_ns = max(last_ns, one.last_ns)
    if since_ns := responses[last].waiting_since_ns:
        after_ns = max(one.last_ns for one in responses.values())
        since_ns = max(since_ns, after_ns)
        last_ns = evidence.plan.span_ns(last)[1]
        found.append((last, after_ns or since_ns, since_ns, last_ns, last_ns))
    for last, *times_ns in found:
        after_ns, since_ns, through_ns, until_ns = (
            min(max(time_ns, start_ns), end_ns) for time_ns in times_ns
        )
        if (until_ns - since_ns) / NS_PER_S < _LEAST_SILENCE_S:
            continue
        first = last
        while first > 0 and evidence.plan.span_ns(first)[0] > after_ns:
            first -= 1
        if _was_seen(evidence, stream, range(first, last + 1)):
            yield Silence(
                (since_ns, through_ns), (after_ns, until_ns), range(first, last + 1)
            )


def _was_seen(evidence: Evidence, stream: str, intervals: range) -> bool:
    """Whether each of its agents reported these intervals, while it was there."""
    return all(
        index in agent.seen
        for agent in evidence.collected.agents.values()
        if stream in agent.streams and agent.seen
        for index in intervals
        if index <= max(agent.seen)
    )
