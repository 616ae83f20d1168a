# SPDX-License-Identifier: Apache-2.0
"""What is shown of runs while they go, its borders of times, and that it is bounded."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldapslam.coordinator.control import Coordinator
from ldapslam.coordinator.observer import JudgedRun
from ldapslam.coordinator.outputs.families import run_families
from ldapslam.coordinator.outputs.metrics import Metrics
from ldapslam.coordinator.outputs.shown_runs import (
    KEPT_S,
    MAX_CODES,
    MAX_OPERATIONS,
    MAX_STREAMS,
    OTHER_CODES,
    ShownRuns,
)
from ldapslam.coordinator.outputs.time_buckets import BORDERS_NS, TimeBuckets
from ldapslam.proto import common_pb2
from ldapslam.proto import operator_pb2 as pb
from ldapslam.results.histogram import BUCKETS, block_of, bucket_range_ns
from ldapslam.results.window import Window, window_of
from support.histograms import packed_of
from support.rows import OperationRow, snapshot_of
from support.store import Scenario, run_record


def status(run_id: str, state: str) -> pb.RunStatus:
    return pb.RunStatus(run_id=run_id, job_name="mix", state=state, agents=["a", "b"])


def figures(index: int, *streams: str) -> pb.IntervalFigures:
    total = pb.OperationFigures(completed=100, errors=2, dropped=1)
    rows = [pb.StreamFigures(stream=name, total=total) for name in streams]
    return pb.IntervalFigures(index=index, streams=rows)


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def running(*run_ids: str, clock: Clock | None = None) -> ShownRuns:
    runs = ShownRuns(clock or Clock())
    for run_id in run_ids:
        runs.run_changed(status(run_id, "running"))
    return runs


def test_totals_add_up_and_gauges_are_those_of_the_last_interval_before_a_drain() -> (
    None
):
    runs = running("r1")
    for index in range(3):
        runs.interval_measured("r1", figures(index, "readers"), window())
    drain = figures(3, "readers")
    drain.phase = "drain"
    drain.streams[0].total.throughput_per_s = 160_000
    runs.interval_measured("r1", drain, window())
    [run] = runs.shown()
    assert run.interval is not None
    assert run.interval.index == 2
    stream = run.streams["readers"]
    assert stream.totals == {"completed": 400, "errors": 8, "dropped": 4}
    assert stream.last.total.throughput_per_s == 0


def test_a_run_without_an_interval_counts_and_has_no_figures() -> None:
    runs = running("r2")
    runs.run_changed(status("r1", "queued"))
    # the end of a run that is not known, and an interval of it
    runs.run_changed(status("r3", "finished"))
    runs.interval_measured("r3", figures(0, "readers"), window())
    assert runs.states() == {"queued": 1, "running": 1}
    assert list(runs.shown()) == []


def test_an_ended_run_is_shown_a_while_and_then_forgotten_though_nobody_looks() -> None:
    clock = Clock()
    runs = running("r1", clock=clock)
    runs.interval_measured("r1", figures(0, "readers"), window())
    runs.run_changed(status("r1", "finished"))
    assert runs.states() == {}
    clock.now_s += KEPT_S
    assert [run.run_id for run in runs.shown()] == ["r1"]
    clock.now_s += 0.1
    assert list(runs.shown()) == []
    for number in range(5):
        runs.run_changed(status(f"r{number}", "running"))
        runs.run_changed(status(f"r{number}", "finished"))
        clock.now_s += KEPT_S + 1
    assert list(runs._runs) == ["r4"]


def test_families_of_runs_are_made_off_the_loop_and_are_of_one_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outputs = "ldapslam.coordinator.outputs.metrics"
    monkeypatch.setattr(f"{outputs}.store_families", lambda store: ())
    runs = running("r1")
    metrics = Metrics(("127.0.0.1", 0), runs)
    coordinator = SimpleNamespace(
        operators=SimpleNamespace(agents=pb.ListAgentsReply),
        writer=SimpleNamespace(store=None),
        bounds={},
    )
    first, later = [
        snapshot_of(operations=[operation("search", (MS,), succeeded=count)])
        for count in (1, 100)
    ]
    runs.interval_measured("r1", figures(0, "readers"), window(first))
    families = metrics._families(cast(Coordinator, coordinator))
    # on the loop only what is few is made; a run goes on meanwhile
    assert not isinstance(families, list)
    runs.interval_measured("r1", figures(1, "readers"), window(later))
    found = {
        (one.name, one.labels.get("outcome"), one.labels.get("le")): one.value
        for family in families
        for one in family.samples
        if "run" in one.labels
    }
    name = "ldapslam_operation_response_time_seconds_bucket"
    assert found["ldapslam_run_interval", None, None] == 0
    assert found["ldapslam_stream_completed_total", None, None] == 100
    assert found["ldapslam_operation_requests_total", "succeeded", None] == 1
    assert found[name, "succeeded", "+Inf"] == 1


@pytest.mark.parametrize(
    ("streams", "shown"),
    [
        # of very many those of the newest runs
        ([MAX_STREAMS // 2] * 3, ["r2", "r1"]),
        # a run of too many is left out
        ([3, MAX_STREAMS + 1, 5], ["r2", "r0"]),
    ],
)
def test_the_streams_shown_are_bounded(streams: list[int], shown: list[str]) -> None:
    runs = running("r0", "r1", "r2")
    for number, count in enumerate(streams):
        names = [f"s{stream}" for stream in range(count)]
        runs.interval_measured(f"r{number}", figures(0, *names), window())
    assert [run.run_id for run in runs.shown()] == shown


def test_ended_runs_are_counted_by_state_and_verdict() -> None:
    """Runs that ended before the coordinator started are not counted, whatever time
    of day they ended at: clocks are set back."""
    runs = running()
    for verdict in ("PASS", "FAIL", "PASS", None):
        for ended_s in (7.0, None):
            ended = {"verdict": verdict, "finished_utc": "2000-01-01T00:00:00Z"}
            record = run_record(Scenario(run=ended))
            runs.run_judged(JudgedRun(record, ended_s=ended_s))
    assert runs.ended == {
        ("finished", "PASS"): 2,
        ("finished", "FAIL"): 1,
        ("finished", "none"): 1,
    }


# Of operations.

MS = 1_000_000


def operation(
    name: str, times_ns: tuple[int, ...] = (), **counters: Any
) -> OperationRow:
    histograms = {("response_time", "succeeded"): packed_of(times_ns)}
    return OperationRow(
        stream="readers", operation=name, histograms=histograms, **counters
    )


def samples_of(runs: ShownRuns) -> dict[tuple[str, frozenset[str]], float]:
    """Name and values of the labels that are not the run's -> value."""
    ours = {"r1", "mix", "readers"}
    return {
        (one.name, frozenset(one.labels.values()) - ours): one.value
        for family in run_families(list(runs.shown()))
        for one in family.samples
    }


def window(*snapshots: common_pb2.Snapshot) -> Window:
    """Of one interval."""
    return window_of((0,), snapshots)


def run_of(*snapshots: common_pb2.Snapshot) -> ShownRuns:
    runs = running("r1")
    for index, snapshot in enumerate(snapshots):
        runs.interval_measured("r1", figures(index, "readers"), window(snapshot))
    return runs


def test_times_are_counted_at_borders_over_agents_and_intervals() -> None:
    one = snapshot_of(operations=[operation("search", (MS - 1, MS))])
    # another agent's, of the next interval; the longest is above every border
    other = snapshot_of(
        operations=[operation("search", (2 * MS, 3_599_000 * MS, 3_700_000 * MS))]
    )
    found = samples_of(run_of(one, other))
    name = "ldapslam_operation_response_time_seconds"

    def up_to(border: str) -> float:
        return found[f"{name}_bucket", frozenset({"search", "succeeded", border})]

    # a border has the values below it: the one at 1 ms is in the next bucket
    assert [up_to(b) for b in ("0.0007", "0.001", "0.0015", "0.003", "30.0")] == [
        0,
        1,
        2,
        3,
        3,
    ]
    assert up_to("+Inf") == found[f"{name}_count", frozenset({"search", "succeeded"})]
    assert up_to("+Inf") == 5
    assert found[f"{name}_sum", frozenset({"search", "succeeded"})] > 3599


def test_requests_are_counted_by_outcome_and_responses_by_result_code() -> None:
    row = operation("add", scheduled=9, succeeded=4, failed=2, timed_out=1, dropped=2)
    row.result_codes = {0: 4, 68: 2}
    found = samples_of(run_of(*[snapshot_of(operations=[row])] * 2))
    expected = {
        ("requests", "succeeded"): 8,
        ("requests", "failed"): 4,
        ("requests", "timed_out"): 2,
        ("requests", "unresolved"): 0,
        ("requests", "dropped"): 4,
        ("responses", "success"): 8,
        ("responses", "entryAlreadyExists"): 4,
    }
    for (name, label), count in expected.items():
        key = f"ldapslam_operation_{name}_total", frozenset({"add", label})
        assert found[key] == count
    assert found["ldapslam_operation_scheduled_total", frozenset({"add"})] == 18


def test_result_codes_that_a_server_makes_up_do_not_become_series_without_end() -> None:
    row = operation("add")
    row.result_codes = dict.fromkeys(range(20_000, 20_000 + 3 * MAX_CODES), 1)
    found = samples_of(run_of(snapshot_of(operations=[row])))
    codes = {
        next(iter(labels - {"add"})): value
        for (name, labels), value in found.items()
        if name == "ldapslam_operation_responses_total"
    }
    assert len(codes) == MAX_CODES + 1
    assert codes[OTHER_CODES] == 2 * MAX_CODES


def test_of_very_many_operations_only_so_many_have_series() -> None:
    rows = [operation(f"o{number}") for number in range(MAX_OPERATIONS + 1)]
    runs = run_of(snapshot_of(operations=rows))
    shown = [of for name, of in samples_of(runs) if name.endswith("scheduled_total")]
    assert len(shown) == MAX_OPERATIONS
    assert runs.operation_count == MAX_OPERATIONS + 1


def test_the_generators_own_delays_are_those_of_the_worst_host() -> None:
    def lag(hiccup_ns: int, *lags_ns: int) -> common_pb2.Snapshot:
        row = operation("search")
        row.histograms = {("send_lag", "succeeded"): packed_of(lags_ns)}
        host = common_pb2.HostInterval(hiccup_max_ns=hiccup_ns)
        return snapshot_of([row], host=host)

    runs = running("r1")
    both = [lag(5 * MS, *[1000] * 970), lag(7 * MS, *[2 * MS] * 30)]
    runs.interval_measured("r1", figures(0, "readers"), window(*both))
    found = samples_of(runs)
    p99_s = found["ldapslam_run_send_lag_p99_seconds", frozenset()]
    assert p99_s == pytest.approx(0.002, rel=0.001)
    assert found["ldapslam_run_hiccup_max_seconds", frozenset()] == 0.007


def test_a_percentile_of_too_few_requests_is_not_shown() -> None:
    runs = running("r1")
    measured = figures(0, "readers")
    measured.streams[0].total.response_time_p50_us = 1000
    measured.streams[0].total.response_time_p95_us = 2000
    runs.interval_measured("r1", measured, window())
    name = "ldapslam_stream_response_time_{}_seconds"
    found = {key[0]: value for key, value in samples_of(runs).items()}
    assert found[name.format("p50")] == 0.001
    assert found[name.format("p95")] == 0.002
    assert name.format("p99") not in found


def test_a_judged_run_shows_its_verdict() -> None:
    runs = run_of(snapshot_of())
    record = run_record(Scenario(run={"run_id": "r1", "verdict": "FAIL"}))
    runs.run_judged(JudgedRun(record, ended_s=7.0))
    assert samples_of(runs)["ldapslam_run_verdict", frozenset({"FAIL"})] == 1


EDGES_NS = np.array([bucket_range_ns(bucket)[0] for bucket in range(BUCKETS)])


def test_a_border_stands_for_an_edge_of_the_engine_or_one_near_it() -> None:
    """Up to 30 ms for itself; above, at most a twentieth of a percent off."""
    for border_ns in BORDERS_NS:
        near_ns = EDGES_NS[np.abs(EDGES_NS - border_ns).argmin()]
        buckets = TimeBuckets()
        buckets.add(block_of([packed_of([near_ns - 1, near_ns])]))
        place = BORDERS_NS.index(border_ns)
        # the first below it, the second not
        assert buckets.counts[place : place + 2] == [1, 1]
        most = 0 if border_ns <= 30 * MS else 0.0005
        assert abs(near_ns - border_ns) / border_ns <= most


@given(st.lists(st.integers(0, 30 * MS), min_size=1, max_size=50))
def test_counts_below_30_ms_are_those_of_the_values_themselves(
    times: list[int],
) -> None:
    buckets = TimeBuckets()
    half = len(times) // 2
    buckets.add(block_of([packed_of(times[:half]), packed_of(times[half:])]))
    below = np.cumsum(buckets.counts)
    for border_ns, count in zip(BORDERS_NS, below, strict=False):
        if border_ns <= 30 * MS:
            assert count == sum(one < border_ns for one in times)
    assert below[-1] == len(times)
    assert buckets.sum_s == sum(times) / 1e9
