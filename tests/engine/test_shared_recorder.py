# SPDX-License-Identifier: Apache-2.0
"""What clients that are processes count together, in the engine's terms."""

from __future__ import annotations

import os
import signal
import time

import pytest

from ldapslam.agent._engine import SharedRecorder
from ldapslam.agent.python_jobs.job import (
    EXPECTED,
    FAILED,
    SUCCEEDED,
    TIMED_OUT,
    UNRESOLVED,
)
from ldapslam.jobs.rates.profile import FOREVER_NS, hold
from ldapslam.results.histogram import Histogram
from support.shared_recorder import Interval, closed, new_recorder

MS = 1_000_000
NEVER_NS = (1 << 64) - 1


def open_recorder() -> SharedRecorder:
    """Of an open loop whose first arrival is never due."""
    profile = (hold(0.0, FOREVER_NS),)
    return new_recorder(profile=profile)


def begin(
    recorder: SharedRecorder,
    *,
    intended_ms: int = 100,
    slot_free_ms: int = 0,
    sent_ms: int = 101,
    observed: bool = False,
) -> int:
    return recorder.begin(
        0, intended_ms * MS, slot_free_ms * MS, sent_ms * MS, observed
    )


def complete(
    recorder: SharedRecorder,
    handle: int,
    *,
    outcome: int = SUCCEEDED,
    code: int = 0,
    received_ms: int = 130,
    done_ms: int = 130,
) -> bool:
    return recorder.end(handle, outcome, code, received_ms * MS, done_ms * MS)


def give_up(
    recorder: SharedRecorder, handle: int, outcome: int, now_ms: int = 150
) -> bool:
    return recorder.end(handle, outcome, 0, now_ms * MS, now_ms * MS)


def times_ms(interval: Interval, outcome: str = "succeeded") -> dict[str, float]:
    """The only value of each metric."""
    times = {}
    for (metric, recorded_outcome), histogram in interval.histograms().items():
        if recorded_outcome == outcome:
            assert histogram.total == 1
            times[metric] = histogram.sum_ns / MS
    return times


def test_the_times_of_a_request_are_those_of_the_engine() -> None:
    recorder = open_recorder()
    # due at 100, a client was free at 120, sent at 121, answered at 130, done at 132
    handle = begin(recorder, slot_free_ms=120, sent_ms=120)
    recorder.update(handle, 121 * MS, 0, 0, 0, False)
    assert complete(recorder, handle, received_ms=130, done_ms=132)
    interval = closed(recorder)
    assert times_ms(interval) == {
        "response_time": 30,
        "service_time": 9,
        "send_lag": 1,
        "receive_lag": 2,
        "backlog_wait": 20,
    }
    assert interval.stream["last_done_ns"] == 132 * MS
    assert interval.stream["stamps_missing"] == 1


def test_times_are_told_since_the_start() -> None:
    recorder = new_recorder(measure_start_ns=50 * MS, measure_end_ns=100 * MS)
    recorder.set_span(1_000 * MS, NEVER_NS, False)
    for intended_ms in (1_049, 1_050, 1_099, 1_100):
        handle = begin(recorder, intended_ms=intended_ms, sent_ms=intended_ms)
        complete(recorder, handle, received_ms=1_105, done_ms=1_110)
    interval = closed(recorder)
    assert interval.counts()["completed"] == 2
    assert interval.counts(measured=False)["completed"] == 2
    assert interval.stream["last_done_ns"] == 110 * MS
    # in slots of 1 s / 64: the response is in number 7, the request waited in 4 to 6
    assert interval.stream["heard"] == 1 << 7
    assert interval.stream["waited"] == 0b111 << 4


def test_a_closed_loop_has_no_backlog() -> None:
    recorder = new_recorder()
    complete(recorder, begin(recorder))
    assert set(times_ms(closed(recorder))) == {
        "response_time",
        "service_time",
        "send_lag",
        "receive_lag",
    }


@pytest.mark.parametrize(
    ("outcome", "counter"),
    [(SUCCEEDED, "succeeded"), (FAILED, "failed"), (EXPECTED, "expected")],
)
def test_a_response_is_counted_by_outcome_and_code(outcome: int, counter: str) -> None:
    recorder = new_recorder()
    handle = begin(recorder)
    recorder.update(handle, 0, 2, 1, 1, False)
    recorder.update(handle, 0, 0, 2, 0, True)
    complete(recorder, handle, outcome=outcome, code=32)
    interval = closed(recorder)
    assert interval.counts() == {
        "scheduled": 1,
        "sent": 1,
        "completed": 1,
        counter: 1,
        "requests": 2,
        "entries": 3,
        "references": 1,
    }
    assert interval.row()["result_codes"] == {32: 1}


def test_the_message_of_a_failure_is_kept() -> None:
    recorder = new_recorder()
    for outcome, said in ((EXPECTED, b"as meant"), (FAILED, b"no\n"), (FAILED, b"or")):
        recorder.end(begin(recorder), outcome, 53, 130 * MS, 130 * MS, said)
    assert closed(recorder).row()["diagnostic_messages"] == {53: "no"}


@pytest.mark.parametrize(
    ("outcome", "searches", "empty"),
    [
        (SUCCEEDED, [], 0),
        (SUCCEEDED, [0], 1),
        (SUCCEEDED, [0, 0], 1),
        (SUCCEEDED, [0, 2], 0),
        (EXPECTED, [0], 0),
        (FAILED, [0], 0),
        (TIMED_OUT, [0], 0),
    ],
)
def test_only_a_search_that_succeeded_without_an_entry_is_empty(
    outcome: int, searches: list[int], empty: int
) -> None:
    recorder = new_recorder()
    handle = begin(recorder)
    for entries in searches:
        recorder.update(handle, 0, 1, entries, 0, True)
    complete(recorder, handle, outcome=outcome)
    assert closed(recorder).row()["empty"] == empty


@pytest.mark.parametrize(
    ("outcome", "counter"), [(TIMED_OUT, "timed_out"), (UNRESOLVED, "unresolved")]
)
def test_without_a_response_the_times_go_up_to_when_it_was_given_up(
    outcome: int, counter: str
) -> None:
    recorder = open_recorder()
    assert give_up(recorder, begin(recorder), outcome)
    interval = closed(recorder)
    assert interval.counts() == {"scheduled": 1, "sent": 1, counter: 1}
    assert times_ms(interval, counter) == {
        "response_time": 50,
        "service_time": 49,
        "send_lag": 1,
    }


def test_a_response_after_the_request_was_given_up_is_late_and_counts_once() -> None:
    recorder = new_recorder()
    handle = begin(recorder)
    give_up(recorder, handle, UNRESOLVED)
    # the next one has its place, and is not taken for it
    other = begin(recorder)
    assert not complete(recorder, handle)
    assert not give_up(recorder, handle, UNRESOLVED)
    interval = closed(recorder)
    assert interval.counts() == {"scheduled": 2, "sent": 2, "unresolved": 1}
    assert interval.stream["late_responses"] == 1
    assert complete(recorder, other)


def test_an_interval_begins_empty_and_a_request_may_span_two() -> None:
    recorder = new_recorder()
    handle = begin(recorder)
    first = closed(recorder)
    complete(recorder, handle)
    second = closed(recorder)
    assert first.stream["in_flight"] == 1
    assert first.counts() == {"scheduled": 1, "sent": 1}
    assert second.counts()["completed"] == 1
    assert second.stream["in_flight"] == 0
    third = closed(recorder)
    assert not third.operations
    assert first.end_ns < second.end_ns < third.end_ns < time.monotonic_ns()


def test_observations_are_under_way_beside_the_request_and_beside_each_other() -> None:
    recorder = new_recorder()
    first, second, third = (
        begin(recorder, intended_ms=0, sent_ms=0, observed=True) for _ in range(3)
    )
    handle = begin(recorder)
    complete(recorder, second, received_ms=50, done_ms=51)
    complete(recorder, handle)
    interval = closed(recorder)
    assert interval.stream["in_flight"] == 2
    # what the kernel stamped is not counted among responses without a stamp
    assert interval.stream["stamps_missing"] == 1
    assert interval.counts()["sent"] == 4
    assert interval.counts()["succeeded"] == 2
    assert give_up(recorder, first, TIMED_OUT, 90)
    assert not give_up(recorder, first, TIMED_OUT, 90)
    interval = closed(recorder, final=True)
    assert interval.counts() == {"timed_out": 1, "unresolved": 1}
    assert times_ms(interval, "timed_out")["response_time"] == 90
    assert interval.stream["in_flight"] == 0
    assert not complete(recorder, third)
    assert closed(recorder).stream["late_responses"] == 1


def test_an_observation_has_no_send_lag() -> None:
    """It would dilute that of the requests: nothing is sent."""
    recorder = open_recorder()
    complete(recorder, begin(recorder, observed=True), received_ms=150, done_ms=151)
    give_up(recorder, begin(recorder, observed=True), UNRESOLVED, 160)
    assert {metric for metric, _ in closed(recorder).histograms()} == {
        "response_time",
        "service_time",
        "receive_lag",
    }


def test_processes_record_into_the_same_interval() -> None:
    recorder = new_recorder(connections=3)
    children = []
    for received_ms in (110, 130, 150):
        if (pid := os.fork()) == 0:
            recorder.connected(5 * MS)
            recorder.count("binds")
            recorder.count("down_ns", 7)
            complete(recorder, begin(recorder), received_ms=received_ms, done_ms=150)
            os._exit(0)
        children.append(pid)
    for pid in children:
        os.waitpid(pid, 0)
    interval = closed(recorder)
    assert interval.counts()["completed"] == 3
    times = interval.histograms()["response_time", "succeeded"]
    assert (times.total, times.sum_ns) == (3, 90 * MS)
    assert (times.min_ns, times.max_ns) == (10 * MS, 50 * MS)
    counted = [interval.stream[name] for name in ("connects", "binds", "down_ns")]
    assert counted == [3, 3, 21]
    assert Histogram.merge([interval.stream["connect_time"]]).total == 3


def test_processes_that_are_killed_as_they_record_keep_nobody_from_it() -> None:
    """Some die under the lock."""
    recorder = new_recorder()
    for number in range(20):
        if (pid := os.fork()) == 0:
            while True:
                complete(recorder, begin(recorder))
        time.sleep(0.002 + number * 25e-6)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    closed(recorder)
    closed(recorder)
    assert complete(recorder, begin(recorder))
    assert closed(recorder).counts()["completed"] == 1


def test_what_is_not_there_is_refused() -> None:
    recorder = new_recorder()
    with pytest.raises(ValueError, match="no such operation"):
        recorder.begin(2, 0, 0, 0, False)
    with pytest.raises(ValueError, match="no such outcome"):
        recorder.end(1, 5, 0, 0, 0)
    with pytest.raises(ValueError, match="no such counter"):
        recorder.count("mistakes")
    assert not complete(recorder, 1 << 40)
    with pytest.raises(ValueError, match="arrivals"):
        new_recorder(arrivals="even")
    with pytest.raises(ValueError, match="segment 0: its rate"):
        new_recorder(profile=((1, -1.0, 1.0),))
    with pytest.raises(RuntimeError, match="not initialised"):
        SharedRecorder.__new__(SharedRecorder).end_ns()
