# SPDX-License-Identifier: Apache-2.0
"""Live figures: merged over agents, each interval once, in order."""

from __future__ import annotations

import pytest

from ldapslam.coordinator.runs import live as live_module
from ldapslam.coordinator.runs.live import LiveStatistics
from ldapslam.jobs.run_plan import plan_of
from ldapslam.proto import common_pb2 as pb
from support.histograms import packed_of

S = 1_000_000_000


def snapshot(
    index: int,
    completed: int = 10,
    times_ns: tuple[int, ...] = (),
    *,
    final: bool = False,
) -> pb.Snapshot:
    """One second of one stream."""
    packed = packed_of(times_ns)
    return pb.Snapshot(
        index=index,
        phase="measure",
        start_ns=index * S,
        end_ns=(index + 1) * S,
        operations=[
            pb.OperationInterval(
                stream="readers",
                operation="search",
                completed=completed,
                failed=1,
                timed_out=2,
                unresolved=3,
                dropped=4,
                histograms=[
                    pb.Histogram(
                        metric=pb.METRIC_RESPONSE_TIME,
                        outcome=pb.OUTCOME_SUCCEEDED,
                        packed=packed,
                    ),
                    # of no interest to who watches
                    pb.Histogram(
                        metric=pb.METRIC_SERVICE_TIME,
                        outcome=pb.OUTCOME_SUCCEEDED,
                        packed=b"not looked at",
                    ),
                ],
            )
        ],
        streams=[pb.StreamInterval(stream="readers", in_flight=5, backlog=6)],
        workers=[
            pb.WorkerInterval(wall_ns=100, busy_ns=completed, model="closed"),
            pb.WorkerInterval(wall_ns=0, busy_ns=0, model="closed"),
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
    assert stream.throughput_per_s == 40.0
    assert stream.completed == 40
    assert stream.errors == 2 * (1 + 2 + 3)
    assert (stream.dropped, stream.in_flight, stream.backlog) == (8, 10, 12)
    assert stream.response_time_p50_us == pytest.approx(1000, rel=0.001)
    assert stream.response_time_p99_us == pytest.approx(3000, rel=0.001)
    assert stream.response_time_max_us == 3000


def test_what_searches_find_is_told_and_what_others_do_is_not() -> None:
    names = ("search", "search"), ("others", "compare")
    operations = [{"name": name, "kind": kind} for name, kind in names]
    plan = {"streams": [{"name": "readers", "operations": operations}]}
    live = LiveStatistics(["a", "b"], plan_of(plan))
    one = snapshot(0, completed=10)
    one.operations[0].MergeFrom(pb.OperationInterval(entries=30, empty=4))
    other = one.operations.add()
    other.CopyFrom(one.operations[0])
    other.operation = "others"
    live.add("a", one)
    ((figures, _),) = live.add("b", one)
    (stream,) = figures.streams
    assert (stream.searches, stream.entries, stream.empty) == (20, 60, 8)
    assert stream.completed == 40


def test_a_stream_has_figures_of_each_operation_and_of_its_plan() -> None:
    plan = {
        "streams": [
            {
                "name": "readers",
                "connections": 8,
                "clients": 4,
                "operations": [{"name": "search", "kind": "search"}],
            },
            {"name": "arrivals", "connections": 2, "clients": None},
        ]
    }
    live = LiveStatistics(["a", "b"], plan_of(plan))
    for agent, times_ns in (("a", (1_000_000,) * 600), ("b", (3_000_000,) * 500)):
        reported = snapshot(0, completed=10, times_ns=times_ns)
        reported.operations[0].entries = 35
        compare = reported.operations.add()
        compare.CopyFrom(reported.operations[0])
        compare.operation = "compare"
        arrivals = reported.operations.add()
        arrivals.CopyFrom(compare)
        arrivals.stream = "arrivals"
        measured = live.add(agent, reported)
    ((figures, snapshots),) = measured
    assert len(snapshots) == 2
    readers, arrivals_of = figures.streams
    assert (readers.connections, readers.clients) == (8, 4)
    assert (arrivals_of.connections, arrivals_of.HasField("clients")) == (2, False)
    search, other = readers.operations
    assert (search.operation, search.entries, search.errors) == ("search", 70, 12)
    assert (other.operation, other.entries) == ("compare", 0)
    assert (search.completed, search.throughput_per_s) == (20, 20.0)
    assert search.response_time_p99_us == pytest.approx(3000, rel=0.001)
    # of both
    assert (readers.completed, readers.errors) == (40, 24)
    assert readers.response_time_p50_us == pytest.approx(1000, rel=0.001)


def test_a_rate_is_over_the_time_of_one_agent_not_from_first_start_to_last_end() -> (
    None
):
    live = LiveStatistics(["a", "b"])
    early, late = snapshot(1, completed=100), snapshot(1, completed=100)
    late.start_ns += S // 10
    late.end_ns += S // 10
    live.add("a", early)
    ((figures, _),) = live.add("b", late)
    assert figures.streams[0].throughput_per_s == 200
    # the drain of one that ended is a part of the others' interval
    live = LiveStatistics(["a", "b"])
    drain = snapshot(1, completed=10, final=True)
    drain.end_ns = drain.start_ns + S // 20
    live.add("a", drain)
    ((figures, _),) = live.add("b", snapshot(1, completed=100))
    assert figures.streams[0].throughput_per_s == 110


def test_the_result_code_of_most_failures_is_named() -> None:
    operations = [{"name": "search", "expected_codes": [32]}]
    plan = {"streams": [{"name": "readers", "operations": operations}]}
    live = LiveStatistics(["a"], plan_of(plan))
    failing = snapshot(0)
    failing.operations[0].result_codes.update({0: 90, 32: 50, 50: 3, 51: 7})
    ((figures, _),) = live.add("a", failing)
    assert figures.streams[0].error_code == 51
    assert figures.streams[0].operations[0].error_code == 51
    ((figures, _),) = live.add("a", snapshot(1))
    assert not figures.streams[0].HasField("error_code")


def test_percentiles_of_too_few_values_are_left_out() -> None:
    live = LiveStatistics(["a"])
    ((figures, _),) = live.add("a", snapshot(0, times_ns=(1_000_000,) * 999))
    assert figures.streams[0].HasField("response_time_p50_us")
    assert figures.streams[0].response_time_p95_us == pytest.approx(1000, rel=0.001)
    assert not figures.streams[0].HasField("response_time_p99_us")
    ((figures, _),) = live.add("a", snapshot(1, times_ns=(1_000_000,) * 199))
    assert not figures.streams[0].HasField("response_time_p95_us")
    ((figures, _),) = live.add("a", snapshot(2, times_ns=(1_000_000,) * 19))
    assert not figures.streams[0].HasField("response_time_p50_us")
    assert figures.streams[0].response_time_max_us == 1000


def test_a_stream_that_sends_nothing_without_connections_is_there() -> None:
    without = snapshot(0)
    del without.operations[:]
    live = LiveStatistics(["a"])
    ((figures, _),) = live.add("a", without)
    assert not figures.streams
    without.index = 1
    without.streams[0].down_ns = 3 * S
    ((figures, _),) = live.add("a", without)
    assert [(one.stream, one.connections_down) for one in figures.streams] == [
        ("readers", 3.0)
    ]


def test_without_samples_there_are_no_percentiles() -> None:
    ((figures, _),) = LiveStatistics(["a"]).add("a", snapshot(0))
    assert not figures.streams[0].HasField("response_time_p50_us")


def test_intervals_come_in_order() -> None:
    live = LiveStatistics(["a", "b"])
    assert live.add("a", snapshot(0)) == []
    assert live.add("a", snapshot(1)) == []
    assert [one.figures.index for one in live.add("b", snapshot(0))] == [0]
    assert [one.figures.index for one in live.add("b", snapshot(1))] == [1]


def test_an_interval_that_an_agent_told_somebody_else_is_given_without_it() -> None:
    """After a restart of the coordinator: agents report in order."""
    live = LiveStatistics(["a", "b"])
    assert live.add("a", snapshot(6)) == []
    assert live.add("b", snapshot(7)) == []
    given = live.add("a", snapshot(7))
    assert [(one.figures.index, one.figures.agents_reported) for one in given] == [
        (6, 1),
        (7, 2),
    ]


def test_nobody_waits_for_an_agent_that_is_gone() -> None:
    live = LiveStatistics(["a", "b"])
    live.add("a", snapshot(0))
    live.add("a", snapshot(1))
    figures = live.drop("b")
    assert [one.figures.index for one in figures] == [0, 1]
    assert [one.figures.agents_reported for one in figures] == [1, 1]
    assert [one.figures.agents_planned for one in figures] == [2, 2]


def test_a_late_report_of_a_shown_interval_is_not_shown_again() -> None:
    live = LiveStatistics(["a", "b"])
    live.add("a", snapshot(0))
    live.drop("b")
    assert live.add("b", snapshot(0)) == []


def test_an_agent_that_drained_is_not_waited_for() -> None:
    live = LiveStatistics(["a", "b"])
    live.add("a", snapshot(0, final=True))
    live.add("b", snapshot(0))
    assert [one.figures.index for one in live.add("b", snapshot(1))] == [1]


def test_an_agent_that_reports_nothing_costs_no_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The oldest intervals are given without it."""
    size = snapshot(1).ByteSize()
    monkeypatch.setattr(live_module, "MOST_KEPT_BYTES", 6 * size)
    live = LiveStatistics(["a", "b", "mute"])
    given = []
    for index in range(20):
        for agent in ("a", "b"):
            given += live.add(agent, snapshot(index))
    assert [one.figures.index for one in given] == list(range(17))
    assert all(
        (one.figures.agents_reported, one.figures.agents_planned) == (2, 3)
        for one in given
    )
    # what comes too late is not shown a second time
    assert live.add("mute", snapshot(3)) == []
    assert [one.figures.index for one in live.drop("mute")] == [17, 18, 19]
