# SPDX-License-Identifier: Apache-2.0
"""Arrivals that processes share: the schedule, the backlog, the end."""

from __future__ import annotations

import itertools
import math
import os
from typing import Any

import pytest

from ldapslam.agent._engine import SharedRecorder
from ldapslam.jobs.rates.profile import (
    FOREVER_NS,
    Profile,
    arrivals_by,
    hold,
    ramp,
)
from support.shared_recorder import closed, new_recorder

S = 1_000_000_000
#: Two of four connections: 1 and 3.
HALF: dict[str, Any] = {
    "total_connections": 4,
    "first_connection": 1,
    "connection_stride": 2,
    "connections": 2,
}
STEADY = (hold(100 / S, FOREVER_NS),)
#: Later than any clock on this host, so that closing an interval finds no arrival due.
T0 = 1 << 62


def arrivals(end_ns: int = FOREVER_NS, **changes: Any) -> SharedRecorder:
    """Those of four clients, 100/s from T0 until end_ns after it."""
    settings = {"connections": 4, "profile": STEADY, "max_backlog": 10}
    recorder = new_recorder(**{"measure_end_ns": 0, **settings, **changes})
    recorder.set_span(T0, T0 + end_ns, False)
    return recorder


def take(recorder: SharedRecorder, now_ns: int) -> int | None:
    due_ns = recorder.take(T0 + now_ns)
    return None if due_ns is None else due_ns - T0


def taken(recorder: SharedRecorder) -> list[int]:
    """By a client that is always free."""
    times: list[int] = []
    while (due_ns := take(recorder, times[-1] if times else 0)) is not None:
        times.append(due_ns)
    return times


def dropped(recorder: SharedRecorder, *, final: bool = False) -> int:
    counts = closed(recorder, final=final).counts(0, measured=False)
    assert counts.get("scheduled", 0) == counts.get("dropped", 0)
    return counts.get("dropped", 0)


@pytest.mark.parametrize(
    "profile",
    [
        STEADY,
        (ramp(0.0, 200 / S, 2 * S), hold(200 / S, FOREVER_NS)),
        (hold(0.0, S), ramp(300 / S, 20 / S, 3 * S), hold(20 / S, FOREVER_NS)),
    ],
    ids=["steady", "ramp_up", "ramp_down_after_a_rest"],
)
def test_an_arrival_is_due_when_n_of_t_reaches_its_number(profile: Profile) -> None:
    times = taken(arrivals(profile=profile, total_operations=350))
    assert len(times) == 350
    for number, time_ns in enumerate(times):
        assert arrivals_by(profile, time_ns) == pytest.approx(number, abs=1e-4)


def test_after_the_last_arrival_there_is_none() -> None:
    times = taken(arrivals(profile=(hold(10 / S, S),)))
    assert times == [number * S // 10 for number in range(10)]


def test_agents_together_have_every_arrival_once() -> None:
    whole = taken(arrivals(2 * S, connections=7))
    shares = [
        taken(
            arrivals(
                2 * S,
                first_connection=i,
                connection_stride=3,
                connections=n,
                total_connections=7,
            )
        )
        for i, n in ((0, 3), (1, 2), (2, 2))
    ]
    assert sorted(itertools.chain.from_iterable(shares)) == whole
    assert len(whole) == 200


def test_poisson_arrivals_have_the_rate_and_the_spread_of_their_kind() -> None:
    times = taken(arrivals(200 * S, arrivals="poisson", **HALF))
    # half of 100/s for 200 s: 10,000 expected, standard deviation 100
    assert len(times) == pytest.approx(10_000, abs=500)
    gaps = [b - a for a, b in itertools.pairwise(times)]
    mean = sum(gaps) / len(gaps)
    deviation = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / len(gaps))
    assert deviation == pytest.approx(mean, rel=0.1)


def test_uniform_arrivals_keep_to_their_slots() -> None:
    times = taken(arrivals(5 * S, arrivals="uniform"))
    slot_ns = S // 100
    assert [time_ns // slot_ns for time_ns in times] == list(range(500))
    assert len({time_ns % slot_ns for time_ns in times}) > 400


@pytest.mark.parametrize("kind", ["constant", "poisson", "uniform"])
def test_the_run_ends_after_its_number_of_arrivals(kind: str) -> None:
    # numbers 0 to 9 over 4 connections: 1 and 3 have five of them
    assert len(taken(arrivals(arrivals=kind, total_operations=10, **HALF))) == 5


def test_no_arrival_is_taken_at_or_after_the_end() -> None:
    recorder = arrivals(S // 2)
    times = taken(recorder)
    assert len(times) == 50
    assert max(times) < S // 2


def test_a_stop_brings_the_end_forward() -> None:
    recorder = arrivals(S)
    assert take(recorder, 0) == 0
    recorder.set_span(T0, T0 + S // 2, True)
    assert recorder.end_ns() == T0 + S // 2
    assert len(taken(recorder)) == 49


def test_the_oldest_that_waits_comes_first() -> None:
    recorder = arrivals(S)
    assert take(recorder, 25_000_000) == 0
    assert closed(recorder).stream["backlog"] == 2
    assert take(recorder, 26_000_000) == 10_000_000
    assert take(recorder, 26_000_000) == 20_000_000
    # nothing waits: the next one, which is not due yet
    assert take(recorder, 26_000_000) == 30_000_000
    assert dropped(recorder) == 0


def test_arrivals_beyond_the_backlog_are_dropped_and_counted() -> None:
    recorder = arrivals(S, max_backlog=2)
    assert take(recorder, 45_000_000) == 0
    interval = closed(recorder)
    assert interval.counts(0, measured=False) == {"scheduled": 3, "dropped": 3}
    assert interval.stream["backlog"] == 1


def test_what_came_due_while_the_clients_stood_still_is_dropped() -> None:
    recorder = arrivals(10 * S, max_backlog=1000)
    assert [take(recorder, 0) for _ in range(3)] == [0, S // 100, S // 50]

    def wakes(due_ns: int, now_ns: int, *, arrives: bool = True) -> bool:
        return recorder.wake(T0 + due_ns, T0 + now_ns, arrives)

    assert wakes(0, S)
    assert dropped(recorder) == 0
    assert wakes(S // 100, 3 * S // 2)
    # due from 30 ms to 1.5 s, then what another client had taken
    assert dropped(recorder) == 148
    assert not wakes(S // 50, 3 * S // 2)
    assert dropped(recorder) == 1
    wakes(0, 3 * S // 2, arrives=False)
    assert take(recorder, 3 * S // 2) == 151 * S // 100
    assert wakes(151 * S // 100, 151 * S // 100)
    assert dropped(recorder) == 0
    # all clients were at work, and their host tells; the backlog of before stays
    wakes(2 * S, 4 * S, arrives=False)
    assert dropped(recorder) == 201
    assert closed(recorder).stream["backlog"] == 48


def test_a_backlog_that_no_memory_holds_is_refused() -> None:
    with pytest.raises(ValueError, match="max_backlog"):
        arrivals(S, max_backlog=1 << 61)


def test_what_was_due_before_the_end_is_taken_within_the_grace() -> None:
    recorder = arrivals(35_000_000, grace_ns=S)
    assert take(recorder, 0) == 0
    assert take(recorder, 35_000_000) == 10_000_000
    assert take(recorder, S) == 20_000_000
    assert take(recorder, S + 35_000_000) is None
    assert dropped(recorder) == 1
    assert closed(recorder).stream["backlog"] == 0


def test_a_stop_drops_all_that_waits() -> None:
    recorder = arrivals(S, grace_ns=S)
    assert take(recorder, 25_000_000) == 0
    recorder.set_span(T0, T0 + 35_000_000, True)
    assert take(recorder, 34_000_000) == 10_000_000
    assert take(recorder, 35_000_000) is None
    assert dropped(recorder) == 2


def test_at_the_end_of_the_run_all_that_waits_is_dropped() -> None:
    recorder = arrivals(35_000_000, grace_ns=S)
    assert take(recorder, 0) == 0
    assert take(recorder, 35_000_000) == 10_000_000
    assert dropped(recorder, final=True) == 2
    assert take(recorder, 36_000_000) is None


def test_an_arrival_is_dropped_in_the_phase_that_it_was_due_in() -> None:
    recorder = arrivals(S, max_backlog=1, measure_end_ns=25_000_000)
    assert take(recorder, 45_000_000) == 0
    interval = closed(recorder)
    # the first waits; due at 10 and 20 and, after the measure phase, 30 and 40 ms
    assert interval.counts(0)["dropped"] == 2
    assert interval.counts(0, measured=False)["dropped"] == 2


def test_processes_take_each_arrival_once() -> None:
    recorder = arrivals(total_operations=400)
    readers = []
    for _ in range(4):
        read, write = os.pipe()
        if os.fork() == 0:
            os.write(write, " ".join(map(str, taken(recorder))).encode())
            os._exit(0)
        os.close(write)
        readers.append(read)
    times = []
    for read in readers:
        with os.fdopen(read, "rb") as pipe:
            times += [int(word) for word in pipe.read().split()]
        os.wait()
    assert sorted(times) == [number * S // 100 for number in range(400)]
