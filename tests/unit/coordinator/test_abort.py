# SPDX-License-Identifier: Apache-2.0
"""A run ends when a threshold is missed for as long as its job allows, not before."""

from __future__ import annotations

from typing import Any

import pytest

from ldapslam.coordinator.runs.abort import AbortWatch
from ldapslam.coordinator.runs.interval import totals_of
from ldapslam.coordinator.runs.live import LiveStatistics
from ldapslam.jobs.run_plan import RunPlan, plan_of
from ldapslam.proto import common_pb2 as pb
from ldapslam.results.window import window_of
from support.histograms import packed_of
from support.plans import changed_plan
from support.rows import OperationRow, snapshot_of

S = 1_000_000_000
MS = 1_000_000
P50 = "search.p50 < 5ms for 3s, abort"


def plan(*thresholds: str, **stream: Any) -> RunPlan:
    operations = [{"name": "search"}]
    return plan_of(
        {
            "thresholds": list(thresholds),
            "streams": [{"name": "load", "operations": operations, **stream}],
        }
    )


def snapshot(second: int, times_ms: tuple[float, ...] = (), **counts: Any) -> Any:
    packed = packed_of([int(one * MS) for one in times_ms])
    values = {
        "stream": "load",
        "operation": "search",
        "completed": len(times_ms),
        "histograms": {("response_time", "succeeded"): packed} if times_ms else {},
        **counts,
    }
    phase = values.pop("phase", "measure")
    return interval(second, OperationRow(**values), phase=phase)


def interval(
    second: int, *operations: OperationRow, phase: str = "measure"
) -> pb.Snapshot:
    return snapshot_of(
        operations,
        index=second,
        phase=phase,
        start_ns=second * S,
        end_ns=(second + 1) * S,
    )


def takes(watch: AbortWatch, *snapshots: pb.Snapshot) -> str:
    """Take the snapshots of all agents at once."""
    window = window_of((snapshots[0].index,), snapshots)
    return watch.take(window, totals_of(plan(), window))


FAST, SLOW, FEW = (1.0,) * 30, (9.0,) * 30, (9.0,) * 3


@pytest.mark.parametrize(
    ("seconds", "ends_after"),
    [
        ([FAST] * 9, None),
        ([SLOW, SLOW, SLOW], 2),
        ([SLOW, SLOW, FAST, SLOW, SLOW], None),
        ([SLOW, SLOW, FEW, SLOW, SLOW], None),
        ([SLOW, SLOW, FAST, SLOW, SLOW, SLOW, SLOW], 5),
    ],
)
def test_it_ends_after_so_much_time_at_a_stretch(
    seconds: list[tuple[float, ...]], ends_after: int | None
) -> None:
    watch = AbortWatch(plan(P50))
    reasons = [
        takes(watch, snapshot(second, times)) for second, times in enumerate(seconds)
    ]
    first = next((place for place, one in enumerate(reasons) if one), None)
    assert first == ends_after
    if first is not None:
        assert reasons[first] == f"missed for 3 s by load.search: {P50}"


@pytest.mark.parametrize(
    ("threshold", "counts", "is_missed"),
    [
        ("throughput > 50/s for 1s, abort", {"completed": 49}, True),
        ("throughput > 50/s for 1s, abort", {"completed": 51}, False),
        ("throughput > 50/s for 1s", {"completed": 49}, False),
        ("errors < 10% for 1s, abort", {"completed": 90, "dropped": 10}, True),
        ("errors < 10% for 1s, abort", {"completed": 91, "timed_out": 9}, False),
        ("errors < 10% for 1s, abort", {"completed": 100, "failed": 10}, True),
        (
            "errors < 10% for 1s, abort",
            {"completed": 90, "failed": 9, "abandoned": 10},
            False,
        ),
        ("errors < 10% for 1s, abort", {"completed": 0}, False),
        ("p50 < 5ms for 1s, abort", {"timed_out": 30}, True),
        ("modify.throughput > 50/s for 1s, abort", {"completed": 49}, False),
        ("throughput > 50/s for 1s, abort", {"phase": "warm_up"}, False),
    ],
)
def test_what_is_missed_is_what_reports_say_of_one_interval(
    threshold: str, counts: dict[str, Any], is_missed: bool
) -> None:
    found = takes(AbortWatch(plan(threshold)), snapshot(0, **counts))
    assert bool(found) is is_missed


def test_agents_are_taken_together() -> None:
    watch = AbortWatch(plan("throughput > 50/s for 1s, abort"))
    assert not takes(watch, snapshot(0, completed=30), snapshot(0, completed=30))
    assert takes(watch, snapshot(1, completed=20), snapshot(1, completed=20))


def test_a_stream_that_is_not_at_work_misses_nothing() -> None:
    text = "throughput > 50/s for 1s, abort"
    watch = AbortWatch(plan(text, start_ns=2 * S, end_ns=4 * S))
    found = [bool(takes(watch, snapshot(one, completed=0))) for one in range(6)]
    assert found == [False, False, True, True, False, False]
    assert not takes(AbortWatch(plan(text, count=100)), snapshot(0, completed=0))


def test_a_stream_of_which_nothing_is_reported_misses_its_throughput() -> None:
    watch = AbortWatch(plan("throughput > 50/s for 1s, abort"))
    assert takes(watch, interval(0))


def test_each_operation_has_a_time_of_its_own() -> None:
    watch = AbortWatch(plan("errors < 10% for 2s, abort"))
    fails: dict[str, Any] = {"completed": 10, "failed": 5}
    works: dict[str, Any] = {"completed": 10, "failed": 0}

    def second(number: int, search: dict[str, Any], modify: dict[str, Any]) -> Any:
        rows = (
            OperationRow(stream="load", operation=name, **counts)
            for name, counts in (("search", search), ("modify", modify))
        )
        return interval(number, *rows)

    assert not takes(watch, second(0, fails, works))
    assert not takes(watch, second(1, works, fails))
    assert "by load.modify" in takes(watch, second(2, works, fails))


def test_failures_and_dropped_arrivals_are_above_every_time() -> None:
    watch = AbortWatch(plan("p50 < 5ms for 1s, abort"))
    assert not takes(watch, snapshot(0, FAST, failed=20))
    assert takes(watch, snapshot(1, FAST, failed=20, dropped=20))


def test_time_is_that_of_the_plan_as_the_verdict_counts_it() -> None:
    bounds = [S, 2 * S, 3 * S, 4 * S]
    watch = AbortWatch(
        changed_plan(plan("p50 < 5ms for 3050ms, abort"), boundaries_ns=bounds)
    )
    found = [bool(takes(watch, snapshot(one, SLOW))) for one in range(4)]
    assert found == [False, False, False, True]


def test_an_interval_that_nobody_sees_breaks_it() -> None:
    watch = AbortWatch(plan("p50 < 5ms for 3s, abort"))
    seconds = (0, 1, 3, 4, 5)
    found = [bool(takes(watch, snapshot(one, SLOW))) for one in seconds]
    assert found == [False, False, False, False, True]


def test_a_replay_is_left_to_the_verdict() -> None:
    watch = AbortWatch(plan("throughput > 50/s for 1s, abort", is_replay=True))
    assert not takes(watch, snapshot(0, completed=0))


def test_it_goes_on_with_the_agents_that_are_left() -> None:
    text = "throughput > 50/s for 1s, abort"
    live = LiveStatistics(("a", "b"), plan(text))
    live.add("a", snapshot(0, completed=60))
    live.drop("b")
    assert live.abort_reason == ""
    live.add("a", snapshot(1, completed=10))
    assert live.abort_reason == f"missed for 1 s by load.search: {text}"


def test_without_all_reports_nothing_is_concluded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ldapslam.coordinator.runs.live.MOST_KEPT_BYTES", 1)
    live = LiveStatistics(("a", "b"), plan("throughput > 50/s for 1s, abort"))
    assert live.add("a", snapshot(0, completed=10))
    assert live.abort_reason == ""
