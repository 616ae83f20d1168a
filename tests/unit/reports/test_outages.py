# SPDX-License-Identifier: Apache-2.0
"""Outages of a directory that is known to have been away: the truth is in the range."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from ldapslam.proto.fields import STREAM_TIMES
from support.intervals import NS_PER_S, Interval
from support.store import Scenario, changed, summary_of

SECONDS = 30
#: How much later than the directory's return its first response may be.
SLACK_S = 0.003
#: An interval has this number of them.
SLOTS = 64

Spans = list[tuple[float, float]]


def _outages(chance: random.Random) -> Spans:
    spans, at_s = [], chance.uniform(0.5, 3)
    while (end_s := at_s + chance.uniform(1.1, 3)) < SECONDS - 1:
        spans.append((at_s, end_s))
        at_s = end_s + chance.uniform(0.3, 4)
    return spans


def _times_ns(
    chance: random.Random, outages: Spans, interval_s: int
) -> list[dict[str, int]]:
    """Return the STREAM_TIMES of a worker by interval, as core/wait.h has them, of
    requests at any time that are answered at once, or when an outage is over."""
    rate, late_s, sent_s, responses_s = (
        chance.choice((2, 5, 20)),
        chance.random(),
        0.0,
        [],
    )
    while (sent_s := sent_s + chance.expovariate(rate)) < SECONDS:
        done_s = sent_s + chance.uniform(0, 0.001)
        for start_s, end_s in outages:
            if sent_s < end_s and done_s > start_s:
                done_s = end_s + chance.uniform(0, SLACK_S)
        responses_s.append((done_s, sent_s))
    # a worker closes its intervals up to 20 ms late
    ends_s = [end_s + 0.02 * late_s for end_s in range(interval_s, 31, interval_s)]
    slot_s = interval_s / SLOTS
    heard = {int(done_s / slot_s) for done_s, _ in responses_s}
    waited: set[int] = set()
    found, last_s = [], 0.0
    for begin_s, end_s in zip([0.0, *ends_s], ends_s, strict=False):
        waits = []
        for done_s in sorted(one for one, _ in responses_s if begin_s < one <= end_s):
            first_s = min(sent for done, sent in responses_s if done >= done_s)
            since_s = max(last_s, first_s)
            waits.append((done_s - since_s, last_s, since_s, done_s))
            waited |= {*range(int(since_s / slot_s) + 1, int(done_s / slot_s))}
            last_s = done_s
        _, after_s, since_s, until_s = max(waits, default=(0.0, 0.0, 0.0, 0.0))
        open_s = [sent for done, sent in responses_s if sent <= end_s < done]
        times_s = (
            *(last_s if waits else 0.0, after_s, since_s, until_s, until_s),
            max(last_s, min(open_s)) if open_s else 0.0,
        )
        found.append([round(one * NS_PER_S) for one in times_s])
    for number, times_ns in enumerate(found):
        for slots in (heard, waited):
            own = [slot - SLOTS * number for slot in slots]
            times_ns.append(sum(1 << slot for slot in own if 0 <= slot < SLOTS))
    return [dict(zip(STREAM_TIMES, times_ns, strict=True)) for times_ns in found]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("interval_s", "workers"), [(1, 4), (10, 2), (10, 4), (10, 8)])
def test_the_range_of_outages_that_several_workers_saw_has_the_truth(
    seed: int, interval_s: int, workers: int
) -> None:
    chance = random.Random(seed)
    outages = _outages(chance)
    names = tuple(f"load{number}" for number in range(workers))
    times_ns = {name: _times_ns(chance, outages, interval_s) for name in names}

    def edit(record: Interval) -> Interval:
        known = times_ns[record.agent][record.index : record.index + 1]
        rows = [changed(row, **times) for row in record.streams for times in known]
        return replace(record, streams=rows)

    scenario = Scenario(
        agents=names,
        ramp_up_s=0,
        warm_up_s=0,
        measure_s=SECONDS,
        cool_down_s=0,
        interval_s=interval_s,
        thresholds=(),
        streams={"readers": {"connections": workers}},
        searches_per_s=60,
        edit=edit,
    )
    outage = summary_of(scenario).streams[0].outage
    lengths_s = [end_s - start_s for start_s, end_s in outages]
    # a slot at each end: the response's, and one that nothing waited all of
    wide_s = 4 * interval_s / SLOTS
    for (proved_s, possible_s), truth_s, number in (
        (outage.longest_s, max(lengths_s), 1),
        (outage.total_s, sum(lengths_s), len(lengths_s)),
    ):
        slack_s = number * SLACK_S
        assert truth_s / 3 < proved_s <= truth_s + slack_s
        assert possible_s >= truth_s - slack_s
        assert possible_s - proved_s < 0.2 * truth_s + number * wide_s
