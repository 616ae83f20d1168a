# SPDX-License-Identifier: Apache-2.0
"""Outages: a server's connections were down, or what waited had no response. Pure.

A silence is certain from the first request that waited to the next response, less what
a response usually takes; where connections failed, to the last attempt that did. It is
possible from the last response before it on. How long the generator itself stood still
is not certain either.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from heapq import nlargest
from typing import NamedTuple

import numpy as np

from ldapslam.reports.collect.timeline import NS_PER_S
from ldapslam.reports.collect.totals import Responses
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
#: An interval has this number of them (agent/csrc/core/wait.h).
_SLOTS = 64
#: The longest ones of a server.
_MOST_EVENTS = 100
#: The possible length is shown, too, where it is longer than the certain one by this.
_WIDE = 1.02


class Silence(NamedTuple):
    """Something waited for the directory, and no response came; spans in ns after T0,
    and how much of them is an outage."""

    certain_ns: tuple[int, int]
    possible_ns: tuple[int, int]
    certain_s: float
    possible_s: float
    #: How long the generator stood still meanwhile.
    stalled_s: float


#: An outage's length that is certain and that is possible, and its start, in s.
Length = tuple[float, float, float]
#: The last response before a silence, the first request that waited, how long that is
#: certain, how long something waited, and the next response; in ns after T0.
Times = tuple[int, int, int, int, int]
#: Length of a silence and the span that it is of.
Piece = tuple[float, tuple[int, int]]


def with_outages(evidence: Evidence) -> Evidence:
    """Return it with the outages of all streams."""
    streams = {*evidence.streams, *evidence.collected.streams}
    return replace(
        evidence, outages={name: _outage_of(evidence, name) for name in streams}
    )


def outages_of(evidence: Evidence) -> Iterator[tuple[float, str, str]]:
    """Yield the outages that are certain, as events: start, kind and text."""
    for stream, outage in evidence.outages.items():
        for at_s, text in outage.events:
            yield at_s, "outage", f"{stream}: {text}"


def _outage_of(evidence: Evidence, stream: str) -> Outage:
    """Each figure is the highest of any server."""
    totals = evidence.totals_of(stream)
    responses: defaultdict[str, dict[int, Responses]] = defaultdict(dict)
    for (server, index), one in totals.responses.items():
        responses[server][index] = one
    downs_ns: defaultdict[str, dict[int, int]] = defaultdict(dict)
    for (server, index), down_ns in totals.down_ns.items():
        downs_ns[server][index] = down_ns
    outages = [
        _outage_at(evidence, (stream, server), downs_ns[server], of_server)
        for server, of_server in sorted(responses.items())
    ]
    if not outages:
        return Outage()
    ranges = [(one.longest_s, one.total_s, one.share) for one in outages]
    longest_s, total_s, share = map(tuple, np.max(ranges, axis=0).tolist())
    stalled_s = max(one.stalled_s for one in outages)
    longest = max(outages, key=lambda one: one.longest_s)
    worst = max(outages, key=lambda one: one.total_s)
    events = tuple(event for one in outages for event in one.events)
    at = longest.worst[0], *worst.worst[1:]
    return Outage(longest_s, total_s, share, stalled_s, at, events)


def _outage_at(
    evidence: Evidence,
    place: tuple[str, str],
    downs_ns: Mapping[int, int],
    responses: Mapping[int, Responses],
) -> Outage:
    """Return the outage of a stream's server; both mappings are by interval."""
    stream, server = place
    window_s = evidence.window_of(stream).measure_s
    planned = evidence.run.plan.stream(stream)
    connections = planned.connections
    if server in planned.uris:  # each has its part of them in turn
        first, uris = planned.uris.index(server), len(planned.uris)
        connections = len(range(first, connections, uris))
    if not window_s or not connections:
        return Outage()
    down_s = {
        index: min(down_ns / NS_PER_S / connections, _length_s(evidence, index))
        for index, down_ns in downs_ns.items()
    }
    # nobody knows when the server was back before a client that backs off tried it
    backs_off = bool(planned.reconnect_wait_ns)
    silences = list(_silences(evidence, place, responses))
    outages = [
        (0.0, 0.0, 0.0),
        *_downs(evidence, down_s, math.inf if backs_off else _NOTICED_S),
        *(
            (one.certain_s, one.possible_s, one.certain_ns[0] / NS_PER_S)
            for one in silences
        ),
    ]
    least_s, _, at_s = max(outages)
    certain = ((one.certain_s, one.certain_ns) for one in silences)
    possible = ((one.possible_s, one.possible_ns) for one in silences)
    total_s = (
        _total_s(evidence, {} if backs_off else down_s, certain),
        _total_s(evidence, down_s, possible),
    )
    text = f"unavailable for {_words(max(outages))} from about {at_s:+.3g} s"
    return Outage(
        longest_s=(least_s, max(most for _, most, _ in outages)),
        total_s=total_s,
        share=(min(1.0, total_s[0] / window_s), min(1.0, total_s[1] / window_s)),
        stalled_s=max((one.stalled_s for one in silences), default=0.0),
        worst=((server * (total_s[1] > 0), text if least_s else ""),) * 3,
        events=tuple(_events(server, outages, evidence.plan.interval_s)),
    )


def _words(length_s: Length) -> str:
    least_s, most_s, _ = length_s
    end = f" to {most_s:.3g} s" if most_s > _WIDE * least_s else " s"
    return f"{least_s:.3g}{end}"


def _events(
    server: str, outages: Iterable[Length], interval_s: float
) -> Iterator[tuple[float, str]]:
    """Yield outages that are certain; connections that were down, by interval, and a
    silence may be the same."""
    found: list[Length] = []
    for one in sorted(outages, key=lambda one: one[2]):
        if found and one[2] <= sum(found[-1][1:]) + interval_s:
            found[-1] = max(found[-1], one)
        elif one[0]:
            found.append(one)
    for one in nlargest(_MOST_EVENTS, found):
        yield one[2], f"{server} unavailable for {_words(one)}".lstrip()


def _total_s(
    evidence: Evidence, down_s: Mapping[int, float], silent: Iterable[Piece]
) -> float:
    """Add up outages, where they meet once."""
    out_s: defaultdict[int, float] = defaultdict(float)
    for length_s, (since_ns, until_ns) in silent:
        for index in evidence.plan.touched(since_ns, until_ns):
            start_ns, end_ns = evidence.plan.span_ns(index)
            within_ns = min(end_ns, until_ns) - max(start_ns, since_ns)
            out_s[index] += length_s * max(within_ns, 0) / max(until_ns - since_ns, 1)
    return sum(
        min(max(down_s.get(index, 0.0), out_s[index]), _length_s(evidence, index))
        for index in {*down_s, *out_s}
    )


def _length_s(evidence: Evidence, index: int) -> float:
    start_ns, end_ns = evidence.plan.span_ns(index)
    return (end_ns - start_ns) / NS_PER_S


def _downs(
    evidence: Evidence, down_s: dict[int, float], noticed_s: float
) -> Iterator[Length]:
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


def _silences(
    evidence: Evidence, place: tuple[str, str], responses: Mapping[int, Responses]
) -> Iterator[Silence]:
    """Yield what may be outages: silences of the measure phase that every agent of the
    stream reported."""
    stream, _ = place
    start_ns = evidence.collected.measure_start_ns
    end_ns = evidence.collected.measure_end_ns
    if not responses or start_ns is None or end_ns is None:
        return
    planned = evidence.run.plan.stream(stream)
    start_ns = max(start_ns, planned.start_ns)
    end_ns = min(end_ns, planned.end_ns or end_ns)
    usual_s = evidence.usual_response_s(*place)
    least_s = max(_LEAST_SILENCE_S, evidence.long_response_s(*place))
    found: list[Times] = []
    last_ns = 0
    for _, one in sorted(responses.items()):
        # agents that wait for nothing now may have had responses
        after_ns = max(one.silence_after_ns, last_ns)
        since_ns = max(one.silence_since_ns, after_ns)
        ends_ns = one.silence_through_ns, one.silence_until_ns
        found.append((after_ns or since_ns, since_ns, *ends_ns, ends_ns[1]))
        last_ns = max(last_ns, one.last_ns)
    last = max(responses)
    if waiting_ns := responses[last].waiting_since_ns:
        waiting_ns, now_ns = max(waiting_ns, last_ns), evidence.plan.span_ns(last)[1]
        found.append((last_ns or waiting_ns, waiting_ns, now_ns, now_ns, now_ns))
    for times_ns in [*found, *_by_slots(evidence, responses, found)]:
        after_ns, since_ns, through_ns, waited_ns, until_ns = (
            min(max(time_ns, start_ns), end_ns) for time_ns in times_ns
        )
        certain_s = (through_ns - since_ns) / NS_PER_S - usual_s
        waited_s = (waited_ns - since_ns) / NS_PER_S - usual_s
        possible_s = (until_ns - after_ns) / NS_PER_S
        touched = evidence.plan.touched(after_ns, until_ns)
        outage_s = min(_length_s(evidence, touched[-1]), _SHORTEST_OUTAGE_S)
        shortest_s = max(least_s, min(_LEAST_SHARE * possible_s, outage_s))
        if (
            possible_s > outage_s
            and waited_s > shortest_s
            and _was_seen(evidence, stream, touched)
        ):
            own_s = evidence.stalled_s(stream, touched)
            certain_s -= own_s
            yield Silence(
                certain_ns=(since_ns, through_ns),
                possible_ns=(after_ns, until_ns),
                certain_s=certain_s if certain_s > shortest_s else 0.0,
                possible_s=possible_s,
                stalled_s=own_s,
            )


def _by_slots(
    evidence: Evidence, responses: Mapping[int, Responses], known: list[Times]
) -> Iterator[Times]:
    """Yield the silences that are not known, as workers keep only their longest one of
    an interval: possible from the last slot with a response to the next."""
    intervals = range(min(responses), max(responses) + 1)
    bits = [responses[at][-2:] if at in responses else (0, 0) for at in intervals]
    by_byte = np.array(bits, "<i8").T.copy().view(np.uint8)
    heard, waited = np.unpackbits(by_byte, axis=1, bitorder="little").astype(bool)
    spans_ns = np.array([evidence.plan.span_ns(index) for index in intervals])
    slots_ns = np.diff(spans_ns) // _SLOTS * np.arange(_SLOTS)
    # with a slot of no length at both ends
    starts_ns = np.pad((spans_ns[:, :1] + slots_ns).ravel(), (1, 0), "edge")
    edges_ns = np.append(starts_ns, [spans_ns[-1, 1]] * 2)
    heard, waited = np.pad(heard, 1, constant_values=True), np.pad(waited, 1)
    heard_in, silences = np.flatnonzero(heard), np.array(known)
    longest: dict[int, Times] = {}
    last: Times = (0, 0, 0, 0, 0)
    ends = np.flatnonzero(np.diff(waited & ~heard)) + 1
    for first, end in ends.reshape(-1, 2).tolist():
        at = int(heard_in.searchsorted(first))
        places = heard_in[at - 1] + [0, 1], [first, end - 1, end], heard_in[at] + [0, 1]
        after_ns, from_ns, since_ns, late_ns, end_ns, to_ns, until_ns = edges_ns[
            np.concatenate(places)
        ].tolist()
        if ((silences[:, 0] < to_ns) & (silences[:, 4] > from_ns)).any():
            continue
        # clients that try again soon are certain of the time but in between
        hole_ns = _NOTICED_S * NS_PER_S + end_ns - late_ns
        certain_ns = end_ns - since_ns
        if last[0] == after_ns and since_ns - last[3] <= hole_ns:
            certain_ns, since_ns = certain_ns + last[2] - last[1], last[1]
        last = after_ns, since_ns, since_ns + certain_ns, end_ns, until_ns
        longest[at] = max(longest.get(at, last), last, key=lambda one: one[2] - one[1])
    yield from longest.values()


def _was_seen(evidence: Evidence, stream: str, intervals: range) -> bool:
    """Whether each of its agents reported these intervals, while it was there."""
    return all(
        index in agent.seen
        for agent in evidence.collected.agents.values()
        if stream in agent.streams and agent.seen
        for index in intervals
        if index <= max(agent.seen)
    )
