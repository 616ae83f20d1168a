# SPDX-License-Identifier: Apache-2.0
"""Arrivals that processes share: the schedule, the backlog, the end."""

from __future__ import annotations

import itertools
import math
import os
from typing import Any

import pytest

from ldapslam.agent.python_jobs.arrivals import (
    NEVER_NS,
    ArrivalSettings,
    DueTimes,
    SharedArrivals,
)
from ldapslam.jobs.rates.profile import (
    FOREVER_NS,
    Profile,
    arrivals_by,
    hold,
    ramp,
    sine,
)

S = 1_000_000_000
STEADY = (hold(100 / S, FOREVER_NS),)


def settings(**changes: Any) -> ArrivalSettings:
    values: dict[str, Any] = {
        "profile": STEADY,
        "arrivals": "constant",
        "first": 0,
        "stride": 1,
        "count": 4,
        "total": 4,
        "max_backlog": 10,
        "limit": 0,
        "end_ns": NEVER_NS,
        "seed": "a test",
    }
    return ArrivalSettings(**{**values, **changes})


def taken(arrivals: SharedArrivals, until_ns: int) -> list[int]:
    """By a client that is always free."""
    times: list[int] = []
    while (due := arrivals.take(times[-1] if times else 0, until_ns)[0]) is not None:
        times.append(due)
    return times


@pytest.mark.parametrize(
    "profile",
    [
        STEADY,
        (ramp(0.0, 200 / S, 2 * S), hold(200 / S, FOREVER_NS)),
        (hold(0.0, S), ramp(300 / S, 20 / S, 3 * S), hold(20 / S, FOREVER_NS)),
        (sine(100 / S, 80 / S, S, 4 * S), hold(50 / S, FOREVER_NS)),
    ],
    ids=["steady", "ramp_up", "ramp_down_after_a_rest", "sine"],
)
def test_an_arrival_is_due_when_n_of_t_reaches_its_number(profile: Profile) -> None:
    due = DueTimes(profile)
    for number in range(1, 350):
        time_ns = due.due_ns(number)
        assert arrivals_by(profile, time_ns) == pytest.approx(number, abs=1e-4)


def test_after_the_last_arrival_there_is_none() -> None:
    due = DueTimes((hold(10 / S, S),))
    assert due.due_ns(9) == pytest.approx(900_000_000, abs=2)
    assert due.due_ns(10) == NEVER_NS


def test_agents_together_have_every_arrival_once() -> None:
    whole = taken(SharedArrivals(settings(count=7, total=7)), 2 * S)
    shares = [
        taken(SharedArrivals(settings(first=i, stride=3, count=n, total=7)), 2 * S)
        for i, n in ((0, 3), (1, 2), (2, 2))
    ]
    assert sorted(itertools.chain.from_iterable(shares)) == whole
    assert len(whole) == 200


def test_poisson_arrivals_have_the_rate_and_the_spread_of_their_kind() -> None:
    arrivals = settings(arrivals="poisson", first=1, stride=2, count=2)
    times = taken(SharedArrivals(arrivals), 200 * S)
    # half of 100/s for 200 s: 10,000 expected, standard deviation 100
    assert len(times) == pytest.approx(10_000, abs=500)
    gaps = [b - a for a, b in itertools.pairwise(times)]
    mean = sum(gaps) / len(gaps)
    deviation = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / len(gaps))
    assert deviation == pytest.approx(mean, rel=0.1)


def test_uniform_arrivals_keep_to_their_slots() -> None:
    times = taken(SharedArrivals(settings(arrivals="uniform")), 5 * S)
    slot_ns = S // 100
    assert [time_ns // slot_ns for time_ns in times] == list(range(500))
    assert len({time_ns % slot_ns for time_ns in times}) > 400


@pytest.mark.parametrize("arrivals", ["constant", "poisson", "uniform"])
def test_the_run_ends_after_its_number_of_arrivals(arrivals: str) -> None:
    # numbers 0 to 9 over 4 connections: 1 and 3 have five of them
    share = settings(arrivals=arrivals, first=1, stride=2, count=2, limit=10)
    assert share.own_limit == 5
    assert len(taken(SharedArrivals(share), NEVER_NS)) == 5


def test_no_arrival_is_taken_at_or_after_the_end() -> None:
    arrivals = SharedArrivals(settings(end_ns=S // 2))
    times = taken(arrivals, S)
    assert len(times) == 50
    assert max(times) < S // 2


def test_the_oldest_that_waits_comes_first() -> None:
    arrivals = SharedArrivals(settings())
    assert arrivals.take(25_000_000, S) == (0, [])
    assert arrivals.note(25_000_000, S) == (2, [])
    assert arrivals.take(26_000_000, S) == (10_000_000, [])
    assert arrivals.take(26_000_000, S) == (20_000_000, [])
    # nothing waits: the next one, which is not due yet
    assert arrivals.take(26_000_000, S) == (30_000_000, [])


def test_arrivals_beyond_the_backlog_are_dropped_and_said() -> None:
    arrivals = SharedArrivals(settings(max_backlog=2))
    due, dropped = arrivals.take(45_000_000, S)
    assert due == 0
    assert dropped == [20_000_000, 30_000_000, 40_000_000]
    assert arrivals.note(45_000_000, S) == (1, [])


def test_at_the_end_all_that_waits_is_dropped() -> None:
    arrivals = SharedArrivals(settings())
    arrivals.take(0, S)
    assert arrivals.end(35_000_000) == [10_000_000, 20_000_000, 30_000_000]
    assert arrivals.take(36_000_000, S) == (None, [])
    assert arrivals.note(36_000_000, S) == (0, [])


def test_processes_take_each_arrival_once() -> None:
    arrivals = SharedArrivals(settings(limit=400))
    readers = []
    for _ in range(4):
        read, write = os.pipe()
        if os.fork() == 0:
            arrivals.attach()
            times = taken(arrivals, NEVER_NS)
            os.write(write, " ".join(map(str, times)).encode())
            os._exit(0)
        os.close(write)
        readers.append(read)
    times = []
    for read in readers:
        with os.fdopen(read, "rb") as pipe:
            times += [int(word) for word in pipe.read().split()]
        os.wait()
    assert sorted(times) == [number * S // 100 for number in range(400)]
