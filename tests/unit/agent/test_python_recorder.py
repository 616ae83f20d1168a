# SPDX-License-Identifier: Apache-2.0
"""What a client of a Python job type counts, and how clients and engines add up."""

from __future__ import annotations

import time
from typing import Any

import pytest

from ldapslam.agent.engine.composite import Composite
from ldapslam.agent.python_jobs.host import add_figures
from ldapslam.agent.python_jobs.packed_histogram import add_packed
from ldapslam.agent.python_jobs.recorder import (
    BACKLOG_WAIT,
    EXPECTED,
    FAILED,
    RECEIVE_LAG,
    RESPONSE_TIME,
    SEND_LAG,
    SERVICE_TIME,
    SUCCEEDED,
    TIMED_OUT,
    UNRESOLVED,
    IntervalFigures,
    Outage,
    Recorder,
    Request,
)
from ldapslam.results.histogram import Histogram

MS = 1_000_000


class ListHistogram:
    """The engine's histogram in Python."""

    def __init__(self) -> None:
        self._values: list[int] = []

    def record_ns(self, value_ns: int) -> None:
        self._values.append(value_ns)

    def pack(self) -> bytes:
        values, self._values = self._values, []
        return Histogram.of_values(values).packed()


def recorder(*, is_open: bool = True) -> Recorder:
    return Recorder(ListHistogram, is_open=is_open)


def request(**changes: Any) -> Request:
    values: dict[str, Any] = {
        "operation": 0,
        "measured": True,
        "intended_ns": 100 * MS,
        "slot_free_ns": 0,
        "sent_ns": 101 * MS,
    }
    return Request(**{**values, **changes})


def value_ms(figures: IntervalFigures, metric: int, outcome: int) -> float:
    packed = figures.operations[0, True].histograms[metric, outcome]
    histogram = Histogram.from_packed(packed)
    assert histogram.total == 1
    return histogram.sum_ns / MS


def test_the_times_of_a_request_are_those_of_the_engine() -> None:
    book = recorder()
    # due at 100, a client was free at 120, sent at 121, answered at 130, done at 132
    book.begin(request(slot_free_ns=120 * MS, sent_ns=121 * MS))
    assert book.complete(0, SUCCEEDED, received_ns=130 * MS, done_ns=132 * MS)
    figures = book.close_interval()
    assert value_ms(figures, RESPONSE_TIME, SUCCEEDED) == 30
    assert value_ms(figures, SERVICE_TIME, SUCCEEDED) == 9
    assert value_ms(figures, SEND_LAG, SUCCEEDED) == 1
    assert value_ms(figures, RECEIVE_LAG, SUCCEEDED) == 2
    assert value_ms(figures, BACKLOG_WAIT, SUCCEEDED) == 20
    assert figures.last_done_ns == 132 * MS
    assert figures.stream["stamps_missing"] == 1


def test_a_closed_loop_has_no_backlog() -> None:
    book = recorder(is_open=False)
    book.begin(request())
    book.complete(0, SUCCEEDED, received_ns=130 * MS, done_ns=130 * MS)
    metrics = {
        metric for metric, _ in book.close_interval().operations[0, True].histograms
    }
    assert metrics == {RESPONSE_TIME, SERVICE_TIME, SEND_LAG, RECEIVE_LAG}


@pytest.mark.parametrize(
    ("outcome", "counter"),
    [(SUCCEEDED, "succeeded"), (FAILED, "failed"), (EXPECTED, "expected")],
)
def test_a_response_is_counted_by_outcome_and_code(outcome: int, counter: str) -> None:
    book = recorder()
    book.begin(request(requests=2, entries=3, references=1))
    book.complete(32, outcome, received_ns=130 * MS, done_ns=130 * MS)
    figures = book.close_interval().operations[0, True]
    assert figures.counts == {
        "scheduled": 1,
        "sent": 1,
        "completed": 1,
        counter: 1,
        "requests": 2,
        "entries": 3,
        "references": 1,
    }
    assert figures.result_codes == {32: 1}


@pytest.mark.parametrize(
    ("outcome", "counter"), [(TIMED_OUT, "timed_out"), (UNRESOLVED, "unresolved")]
)
def test_without_a_response_the_times_go_up_to_when_it_was_given_up(
    outcome: int, counter: str
) -> None:
    book = recorder()
    book.begin(request())
    assert book.give_up(outcome, 150 * MS)
    figures = book.close_interval()
    assert figures.operations[0, True].counts[counter] == 1
    assert value_ms(figures, RESPONSE_TIME, outcome) == 50
    assert value_ms(figures, SERVICE_TIME, outcome) == 49
    assert value_ms(figures, SEND_LAG, outcome) == 1


def test_a_response_after_the_request_was_given_up_is_late_and_counts_once() -> None:
    book = recorder()
    book.begin(request())
    book.give_up(UNRESOLVED, 150 * MS)
    assert not book.complete(0, SUCCEEDED, received_ns=160 * MS, done_ns=160 * MS)
    assert not book.give_up(UNRESOLVED, 170 * MS)
    figures = book.close_interval()
    counts = figures.operations[0, True].counts
    assert counts["sent"] == counts["completed"] + counts["unresolved"] == 1
    assert figures.stream["late_responses"] == 1


def test_an_interval_begins_empty_and_a_request_may_span_two() -> None:
    book = recorder()
    book.begin(request())
    first = book.close_interval(backlog=7)
    assert first.stream["in_flight"] == 1
    assert first.stream["backlog"] == 7
    book.complete(0, SUCCEEDED, received_ns=130 * MS, done_ns=130 * MS)
    second = book.close_interval()
    assert first.operations[0, True].counts == {"scheduled": 1, "sent": 1}
    assert second.operations[0, True].counts["completed"] == 1
    assert second.stream["in_flight"] == 0
    assert not book.close_interval().operations


def test_a_dropped_arrival_is_scheduled_too() -> None:
    book = recorder()
    book.drop(1, measured=False)
    figures = book.close_interval()
    assert figures.operations[1, False].counts == {"scheduled": 1, "dropped": 1}


def test_observations_are_under_way_beside_the_request_and_beside_each_other() -> None:
    book = recorder()
    first, second, third = (request(intended_ns=0, sent_ns=0) for _ in range(3))
    for one in (first, second, third):
        book.observe(one)
    book.begin(request())
    book.observed(second, received_ns=50 * MS, done_ns=51 * MS)
    book.complete(0, SUCCEEDED, received_ns=130 * MS, done_ns=130 * MS)
    figures = book.close_interval()
    assert figures.stream["in_flight"] == 2
    # what the kernel stamped is not counted among responses without a stamp
    assert figures.stream["stamps_missing"] == 1
    assert figures.operations[0, True].counts["sent"] == 4
    assert figures.operations[0, True].counts["succeeded"] == 2
    assert book.missed(first, TIMED_OUT, 90 * MS)
    assert not book.missed(first, TIMED_OUT, 90 * MS)
    book.give_up_all(100 * MS)
    assert not book.observed(third, received_ns=110 * MS, done_ns=110 * MS)
    figures = book.close_interval()
    counts = figures.operations[0, True].counts
    assert (counts["timed_out"], counts["unresolved"]) == (1, 1)
    assert (figures.stream["in_flight"], figures.stream["late_responses"]) == (0, 1)
    assert value_ms(figures, RESPONSE_TIME, TIMED_OUT) == 90


def test_an_observation_has_no_send_lag() -> None:
    """It would dilute that of the requests: nothing is sent."""
    book = recorder()
    seen, lost = request(), request()
    book.observe(seen)
    book.observe(lost)
    book.observed(seen, received_ns=150 * MS, done_ns=151 * MS)
    book.missed(lost, UNRESOLVED, 160 * MS)
    histograms = book.close_interval().operations[0, True].histograms
    assert {metric for metric, _ in histograms} == {
        RESPONSE_TIME,
        SERVICE_TIME,
        RECEIVE_LAG,
    }


def test_figures_of_clients_add_up() -> None:
    parts = []
    for received_ms in (110, 130, 150):
        book = recorder()
        book.connected(5 * MS)
        book.begin(request())
        book.complete(0, SUCCEEDED, received_ns=received_ms * MS, done_ns=150 * MS)
        parts.append(book.close_interval())
    total = add_figures(parts)
    operation = total.operations[0, True]
    assert operation.counts["completed"] == 3
    times = Histogram.from_packed(operation.histograms[RESPONSE_TIME, SUCCEEDED])
    assert (times.total, times.sum_ns) == (3, 90 * MS)
    assert (times.min_ns, times.max_ns) == (10 * MS, 50 * MS)
    assert Histogram.from_packed(total.connect_time).total == 3


def test_packed_histograms_add_up_as_those_of_the_reports_do() -> None:
    values = [[5_000, 70 * MS], [], [5_000, 4_000_000 * MS, 9 * MS]]
    parts = [Histogram.of_values(one).packed() for one in values]
    whole = Histogram.of_values([value for one in values for value in one]).packed()
    assert add_packed(parts) == whole
    assert add_packed([]) == b""
    assert add_packed([b"", parts[0]]) == parts[0]
    with pytest.raises(ValueError, match="packed histogram"):
        add_packed([parts[0], b"SLH2" + parts[1][4:]])


class Part:
    """An engine of a fixed story: (final, operations' stream, workers) by interval."""

    def __init__(self, intervals: list[tuple[bool, int, int]], **facts: Any) -> None:
        self._intervals = intervals
        self._facts = {"workers": 1, "connections": 2}
        self._facts |= {"start_error_ns": 5, **facts}
        self.calls: list[str] = []

    def snapshot(self, index: int, timeout_ns: int) -> dict[str, Any] | None:
        final, stream, workers = self._intervals[index]
        self.calls.append(f"snapshot {index}")
        return {
            "index": index,
            "start_ns": index,
            "end_ns": index + 1,
            "final": final,
            "clock_step_ns": 0,
            "operations": [{"stream": stream}],
            "streams": [{"stream": stream}],
            "workers": [{"worker": number} for number in range(workers)],
        }

    def facts(self) -> dict[str, Any]:
        return dict(self._facts)

    def _call(self, name: str) -> None:
        self.calls.append(name)

    def prepare(self) -> None:
        self._call("prepare")

    def start(self, t0_mono_ns: int) -> None:
        self._call("start")

    def stop(self) -> None:
        self._call("stop")

    def close(self) -> None:
        self._call("close")

    def add_stream(self, name: str, **settings: Any) -> int:
        return 0

    def add_operation(self, stream: int, name: str, **settings: Any) -> int:
        return 0

    def add_script(
        self, stream: int, *, weight: int, steps: tuple[tuple[int, int], ...]
    ) -> int:
        return 0


def test_two_engines_are_one_with_the_plans_numbers() -> None:
    native = Part([(False, 0, 2), (True, 0, 2)], kernel_stamps=True)
    python = Part([(False, 1, 3), (True, 1, 3)])
    engine = Composite(native, [4], python)
    snapshot = engine.snapshot(0, 1)
    assert snapshot is not None
    assert sorted(row["stream"] for row in snapshot["streams"]) == [1, 4]
    assert sorted(row["worker"] for row in snapshot["workers"]) == [0, 1, 2, 3, 4]
    assert not snapshot["final"]
    assert engine.facts() == {
        "kernel_stamps": True,
        "workers": 2,
        "connections": 4,
        "start_error_ns": 5,
    }


def test_an_engine_that_ended_has_no_share_in_what_follows() -> None:
    native = Part([(True, 0, 2)])
    python = Part([(False, 1, 1), (False, 1, 1), (True, 1, 1)])
    engine = Composite(native, [0], python)
    finals, streams, workers = [], [], []
    for index in range(3):
        snapshot = engine.snapshot(index, 1)
        assert snapshot is not None
        finals.append(snapshot["final"])
        streams.append(len(snapshot["streams"]))
        workers.append([row["worker"] for row in snapshot["workers"]])
    assert finals == [False, False, True]
    assert streams == [2, 1, 1]
    # numbers stay what they were
    assert [numbers[0] for numbers in workers[1:]] == [2, 2]


def test_python_alone_is_an_engine_too() -> None:
    engine = Composite(None, [], Part([(True, 0, 1)], start_error_ns=None))
    snapshot = engine.snapshot(0, 1)
    assert snapshot is not None
    assert snapshot["final"]
    assert engine.facts()["start_error_ns"] is None
    with pytest.raises(ValueError, match="no stream for the native engine"):
        engine.add_stream("x")


def test_an_outage_is_told_as_it_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ns = 1_000 * MS
    monkeypatch.setattr(time, "monotonic_ns", lambda: now_ns)
    book = recorder()
    replaced = Outage(book, is_down=False)
    lost = Outage(book, is_down=True)
    now_ns += 30 * MS
    replaced.tally()
    lost.tally()
    assert book.close_interval().stream["down_ns"] == 30 * MS
    # the attempt to replace it failed
    replaced.is_down = True
    now_ns += 10 * MS
    replaced.tally()
    lost.tally()
    assert book.close_interval().stream["down_ns"] == (40 + 10) * MS
