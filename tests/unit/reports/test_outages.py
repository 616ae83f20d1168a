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
AGENTS = ("load1", "load2", "load3", "load4")
#: How much later than the directory's return its first response may be.
SLACK_S = 0.003

Spans = list[tuple[float, float]]


def _outages(chance: random.Random) -> Spans:
    spans, at_s = [], chance.uniform(0.5, 3)
    while (end_s := at_s + chance.uniform(1.1, 3)) < SECONDS - 1:
        spans.append((at_s, end_s))
        at_s = end_s + chance.uniform(0.3, 4)
    return spans


def _times_ns(chance: random.Random, outages: Spans) -> list[dict[str, int]]:
    """Return the STREAM_TIMES of an agent by interval, as core/wait.h has them, of
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
    # an agent closes its intervals up to 20 ms late
    ends_s = [second + 1 + 0.02 * late_s for second in range(SECONDS)]
    found, last_s = [], 0.0
    for begin_s, end_s in zip([0.0, *ends_s], ends_s, strict=False):
        waits = []
        for done_s in sorted(one for one, _ in responses_s if begin_s < one <= end_s):
            first_s = min(sent for done, sent in responses_s if done >= done_s)
            waits.append(
                (done_s - max(last_s, first_s), last_s, max(last_s, first_s), done_s)
            )
            last_s = done_s
        _, after_s, since_s, until_s = max(waits, default=(0.0, 0.0, 0.0, 0.0))
        open_s = [sent for done, sent in responses_s if sent <= end_s < done]
        times_s = (
            *(last_s if waits else 0.0, after_s, since_s, until_s, until_s),
            max(last_s, min(open_s)) if open_s else 0.0,
        )
        times_ns = [round(one * NS_PER_S) for one in times_s]
        found.append(dict(zip(STREAM_TIMES, times_ns, strict=True)))
    return found


@pytest.mark.parametrize("seed", range(5))
def test_the_range_of_outages_that_several_agents_saw_has_the_truth(seed: int) -> None:
    chance = random.Random(seed)
    outages = _outages(chance)
    times_ns = {agent: _times_ns(chance, outages) for agent in AGENTS}

    def edit(record: Interval) -> Interval:
        known = times_ns[record.agent][record.index : record.index + 1]
        rows = [changed(row, **times) for row in record.streams for times in known]
        return replace(record, streams=rows)

    scenario = Scenario(
        agents=AGENTS,
        ramp_up_s=0,
        warm_up_s=0,
        measure_s=SECONDS,
        thresholds=(),
        streams={"readers": {"connections": 4}},
        searches_per_s=60,
        edit=edit,
    )
    outage = summary_of(scenario).streams[0].outage
    lengths_s = [end_s - start_s for start_s, end_s in outages]
    for (proved_s, possible_s), truth_s, number in (
        (outage.longest_s, max(lengths_s), 1),
        (outage.total_s, sum(lengths_s), len(lengths_s)),
    ):
        slack_s = number * SLACK_S
        assert truth_s / 2 < proved_s <= truth_s + slack_s
        assert possible_s >= truth_s - slack_s
        assert possible_s - proved_s < 0.2 * truth_s
