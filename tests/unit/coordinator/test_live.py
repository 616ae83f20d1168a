# SPDX-License-Identifier: Apache-2.0
"""Live figures: merged over agents, each interval once, in order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from ldapslam.coordinator.runs import live as live_module
from ldapslam.coordinator.runs.live import LiveStatistics
from ldapslam.jobs.run_plan import plan_of
from ldapslam.proto import common_pb2 as pb
from support.bounds import exceeds
from support.histograms import packed_of
from support.rows import OperationRow, StreamRow, WorkerRow, snapshot_of

S = 1_000_000_000


def snapshot(
    index: int,
    completed: int = 10,
    times_ns: tuple[int, ...] = (),
    *,
    operations: Sequence[tuple[str, str]] = (("readers", "search"),),
    search: dict[str, Any] | None = None,
    down_ns: int = 0,
    late_ns: int = 0,
    length_ns: int = S,
    final: bool = False,
) -> pb.Snapshot:
    """One second of some operations; `search` has further counts of them."""
    return snapshot_of(
        index=index,
        phase="measure",
        start_ns=index * S + late_ns,
        end_ns=index * S + late_ns + length_ns,
        operations=[
            OperationRow(
                stream=stream,
                operation=operation,
                histograms={
                    ("response_time", "succeeded"): packed_of(times_ns),
                    # of no interest to who watches
                    ("service_time", "succeeded"): b"not looked at",
                },
                **{
                    "completed": completed,
                    "failed": 1,
                    "timed_out": 2,
                    "unresolved": 3,
                    "dropped": 4,
                    **(search or {}),
                },
            )
            for stream, operation in operations
        ],
        streams=[StreamRow(stream="readers", in_flight=5, backlog=6, down_ns=down_ns)],
        workers=[
            WorkerRow(wall_ns=100, busy_ns=completed, model="closed"),
            WorkerRow(wall_ns=0, busy_ns=0, model="closed"),
        ],
        final=final,
    )


def test_an_interval_is_given_when_all_agents_have_reported_it() -> None:
    live = LiveStatistics(["a", "b"])
    assert live.add("a", snapshot(0, completed=10, times_ns=(1_000_000,) * 600)) == []
    ((figures, _),) = live.add(
        "b", snapshot(0, completed=30, times_ns=(3_000_000,) * 500)
    )
    (stream,) = figures.streams
    assert (figures.agents_reported, figures.agents_planned) == (2, 2)
    assert figures.busy_share == 0.3
    total = stream.total
    assert total.throughput_per_s == 40.0
    assert total.completed == 40
    assert total.errors == 2 * (1 + 2 + 3 + 4)
    assert (total.dropped, stream.in_flight, stream.backlog) == (8, 10, 12)
    assert total.response_time_p50_us == pytest.approx(1000, rel=0.001)
    assert total.response_time_p95_us == pytest.approx(3000, rel=0.001)
    assert total.response_time_max_us == math.inf


def test_a_stream_has_figures_of_each_operation_and_of_its_plan() -> None:
    names = ("search", "search"), ("compare", "compare")
    operations = [{"name": name, "kind": kind} for name, kind in names]
    readers = {"name": "readers", "connections": 8, "clients": 4}
    arrivals = {"name": "arrivals", "connections": 2, "clients": None}
    plan = {"streams": [{**readers, "operations": operations}, arrivals]}
    live = LiveStatistics(["a", "b"], plan_of(plan))
    for agent, times_ns in (("a", (1_000_000,) * 600), ("b", (3_000_000,) * 500)):
        reported = snapshot(
            0,
            completed=10,
            times_ns=times_ns,
            operations=(
                ("readers", "search"),
                ("readers", "compare"),
                ("arrivals", "compare"),
            ),
            search={"entries": 35, "empty": 4, "succeeded": 8},
        )
        measured = live.add(agent, reported)
    ((figures, window),) = measured
    assert window.reports["agent"] == ["a", "b"]
    of_readers, of_arrivals = figures.streams
    assert (of_readers.connections, of_readers.clients) == (8, 4)
    assert (of_arrivals.connections, of_arrivals.HasField("clients")) == (2, False)
    of_search, other = of_readers.operations
    found = of_search.operation, of_search.entries, of_search.errors
    assert found == ("search", 70, 20)
    assert (other.operation, other.entries) == ("compare", 0)
    assert (of_search.completed, of_search.throughput_per_s) == (20, 20.0)
    assert of_search.response_time_p95_us == pytest.approx(3000, rel=0.001)
    # sums of both operations; entries only of searches
    total = of_readers.total
    assert (total.completed, total.errors) == (40, 40)
    assert (total.searches, total.entries, total.empty_share) == (20, 70, 0.5)
    assert total.response_time_p50_us == pytest.approx(1000, rel=0.001)


def test_a_rate_is_over_the_time_of_one_agent_not_from_first_start_to_last_end() -> (
    None
):
    live = LiveStatistics(["a", "b"])
    live.add("a", snapshot(1, completed=100))
    ((figures, _),) = live.add("b", snapshot(1, completed=100, late_ns=S // 10))
    assert figures.streams[0].total.throughput_per_s == 200
    # the drain of one that ended is a part of the others' interval
    live = LiveStatistics(["a", "b"])
    drain = snapshot(1, completed=10, length_ns=S // 20, final=True)
    live.add("a", drain)
    ((figures, _),) = live.add("b", snapshot(1, completed=100))
    assert figures.streams[0].total.throughput_per_s == 110


def test_the_result_code_of_most_failures_is_named() -> None:
    operations = [{"name": "search", "expected_codes": [32]}]
    plan = {"streams": [{"name": "readers", "operations": operations}]}
    live = LiveStatistics(["a"], plan_of(plan))
    codes = {0: 90, 32: 50, 50: 3, 51: 7}
    failing = snapshot(0, search={"result_codes": codes})
    ((figures, _),) = live.add("a", failing)
    assert figures.streams[0].total.error_code == 51
    assert figures.streams[0].operations[0].error_code == 51
    ((figures, _),) = live.add("a", snapshot(1))
    assert not figures.streams[0].total.HasField("error_code")


def test_percentiles_of_too_few_values_are_left_out() -> None:
    live = LiveStatistics(["a"])
    percentiles = ("p50", "p95", "p99")
    shown = {999: ["p50", "p95"], 199: ["p50"], 19: [], 0: []}
    for index, (count, expected) in enumerate(shown.items()):
        answered = {"timed_out": 0, "unresolved": 0}
        times_ns = (1_000_000,) * count
        reported = snapshot(index, times_ns=times_ns, search=answered)
        ((figures, _),) = live.add("a", reported)
        (stream,) = figures.streams
        total = stream.total
        found = [
            one for one in percentiles if total.HasField(f"response_time_{one}_us")
        ]
        assert found == expected
        assert total.response_time_max_us == (1000 if count else 0)


def test_a_stream_that_sends_nothing_without_connections_is_there() -> None:
    live = LiveStatistics(["a"])
    ((figures, _),) = live.add("a", snapshot(0, operations=()))
    assert not figures.streams
    without = snapshot(1, operations=(), down_ns=3 * S)
    ((figures, _),) = live.add("a", without)
    assert [(one.stream, one.connections_down) for one in figures.streams] == [
        ("readers", 3.0)
    ]


@pytest.mark.parametrize(
    ("reported", "given"),
    [
        ([("a", 0), ("a", 1), ("b", 0), ("b", 1)], [[], [], [(0, 2)], [(1, 2)]]),
        # a was told to somebody else, before a restart of the coordinator
        ([("a", 6), ("b", 7), ("a", 7)], [[], [], [(6, 1), (7, 2)]]),
        # a drained: nobody waits for it
        ([("a", 0, True), ("b", 0), ("b", 1)], [[], [(0, 2)], [(1, 1)]]),
    ],
)
def test_intervals_come_in_order(
    reported: list[tuple[Any, ...]], given: list[list[tuple[int, int]]]
) -> None:
    live = LiveStatistics(["a", "b"])
    found = []
    for agent, index, *final in reported:
        measured = live.add(agent, snapshot(index, final=bool(final)))
        found.append(
            [(one.figures.index, one.figures.agents_reported) for one in measured]
        )
    assert found == given


def test_nobody_waits_for_an_agent_that_is_gone() -> None:
    live = LiveStatistics(["a", "b"])
    live.add("a", snapshot(0))
    live.add("a", snapshot(1))
    found = [
        (one.index, one.agents_reported, one.agents_planned)
        for one, _ in live.drop("b")
    ]
    assert found == [(0, 1, 2), (1, 1, 2)]
    # its late report of a shown interval is not shown again
    assert live.add("b", snapshot(0)) == []


def test_an_agent_that_reports_nothing_costs_no_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The oldest intervals are given without it."""
    size = snapshot(1).ByteSize()
    monkeypatch.setattr(live_module, "MOST_KEPT_BYTES", 6 * size)
    live = LiveStatistics(["a", "b", "mute"])

    def add(*indexes: int) -> list[tuple[int, int, int]]:
        return [
            (one.index, one.agents_reported, one.agents_planned)
            for index in indexes
            for agent in ("a", "b")
            for one, _ in live.add(agent, snapshot(index))
        ]

    with exceeds():
        assert add(1, 2, 3) == []
    with exceeds(LIVE_BYTES=17):
        assert add(*range(4, 21)) == [(index, 2, 3) for index in range(1, 18)]
    # what comes too late is not shown a second time
    assert live.add("mute", snapshot(3)) == []
    assert [one.figures.index for one in live.drop("mute")] == [18, 19, 20]
