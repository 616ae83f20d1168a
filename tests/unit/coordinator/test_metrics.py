# SPDX-License-Identifier: Apache-2.0
"""What is shown of runs while they go, and that it stays bounded."""

from __future__ import annotations

from ldapslam.coordinator.outputs import metrics
from ldapslam.coordinator.outputs.metrics import KEPT_S, Metrics
from ldapslam.proto import operator_pb2 as pb
from support.store import Scenario, run_record

PLACE = ("127.0.0.1", 0)


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def status(run_id: str, state: str) -> pb.RunStatus:
    return pb.RunStatus(run_id=run_id, job_name="mix", state=state, agents=["a", "b"])


def figures(index: int, *streams: str) -> pb.IntervalFigures:
    rows = [
        pb.StreamFigures(stream=name, completed=100, errors=2, dropped=1)
        for name in streams
    ]
    return pb.IntervalFigures(index=index, streams=rows)


def new_metrics() -> tuple[Metrics, Clock]:
    clock = Clock()
    return Metrics(PLACE, clock), clock


def test_totals_add_up_over_intervals_and_gauges_are_those_of_the_last() -> None:
    runs, _ = new_metrics()
    runs.run_changed(status("r1", "running"))
    for index in range(3):
        runs.interval_measured("r1", figures(index, "readers"))
    [run] = runs.shown()
    assert run.interval is not None
    assert run.interval.index == 2
    stream = run.streams["readers"]
    assert (stream.completed, stream.errors, stream.dropped) == (300, 6, 3)


def test_rates_of_a_drain_are_not_shown_and_its_requests_are_counted() -> None:
    runs, _ = new_metrics()
    runs.run_changed(status("r1", "running"))
    runs.interval_measured("r1", figures(4, "readers"))
    drain = figures(5, "readers")
    drain.phase = "drain"
    drain.streams[0].throughput_per_s = 160_000
    runs.interval_measured("r1", drain)
    [run] = runs.shown()
    assert run.interval is not None
    assert run.interval.index == 4
    assert run.streams["readers"].last.throughput_per_s == 0
    assert run.streams["readers"].completed == 200


def test_a_run_without_an_interval_counts_and_has_no_figures() -> None:
    runs, _ = new_metrics()
    runs.run_changed(status("r1", "queued"))
    runs.run_changed(status("r2", "running"))
    assert runs.states() == {"queued": 1, "running": 1}
    assert list(runs.shown()) == []


def test_an_ended_run_is_shown_a_while_and_then_forgotten() -> None:
    runs, clock = new_metrics()
    runs.run_changed(status("r1", "running"))
    runs.interval_measured("r1", figures(0, "readers"))
    runs.run_changed(status("r1", "finished"))
    assert runs.states() == {}
    clock.now_s += KEPT_S
    assert [run.run_id for run in runs.shown()] == ["r1"]
    clock.now_s += 0.1
    assert list(runs.shown()) == []
    assert runs._runs == {}


def test_intervals_of_a_run_that_nobody_told_of_are_ignored() -> None:
    runs, _ = new_metrics()
    runs.run_changed(status("r1", "finished"))
    runs.interval_measured("r1", figures(0, "readers"))
    assert list(runs.shown()) == []


def test_of_very_many_streams_those_of_the_newest_runs_are_shown() -> None:
    runs, _ = new_metrics()
    names = [f"s{number}" for number in range(metrics.MAX_STREAMS // 2)]
    for run_id in ("r1", "r2", "r3"):
        runs.run_changed(status(run_id, "running"))
        runs.interval_measured(run_id, figures(0, *names))
    assert [run.run_id for run in runs.shown()] == ["r3", "r2"]


def test_ended_runs_are_counted_by_state_and_verdict() -> None:
    runs, _ = new_metrics()
    for verdict in ("PASS", "FAIL", "PASS", None):
        runs.run_judged(run_record(Scenario(run={"verdict": verdict})), (), 7.0)
    assert runs.ended == {
        ("finished", "PASS"): 2,
        ("finished", "FAIL"): 1,
        ("finished", "none"): 1,
    }


def test_a_run_that_ended_before_the_start_is_not_counted_when_it_is_judged() -> None:
    """Whatever the times of day say: clocks are set back."""
    runs, _ = new_metrics()
    for run_id, ended_s in (("old", None), ("new", 7.0)):
        ended = {"run_id": run_id, "finished_utc": "2000-01-01T00:00:00Z"}
        runs.run_judged(run_record(Scenario(run=ended)), (), ended_s)
    assert runs.ended == {("finished", "none"): 1}
