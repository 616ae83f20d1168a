# SPDX-License-Identifier: Apache-2.0
"""The figures of a run, against the same figures computed another way."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from ldapslam.reports.collect import timeline as timeline_module
from ldapslam.reports.collect.timeline import Plan
from ldapslam.reports.model import Summary
from ldapslam.results.histogram import Histogram
from support.intervals import Interval
from support.store import (
    Scenario,
    changed,
    intervals,
    operation_of,
    run_record,
    summary_of,
)


@pytest.fixture(scope="module")
def healthy() -> Summary:
    return summary_of(Scenario())


def test_percentiles_are_those_of_all_agents_measured_requests(
    healthy: Summary,
) -> None:
    union = Histogram.merge(
        one.histograms["response_time", "succeeded"]
        for record in intervals(Scenario())
        for one in record.operations
        if one.stream == "readers" and one.measured
    )
    times = operation_of(healthy, "readers.search").times["response_time"]
    assert times.count == union.total
    for name, p in (("p50", 50), ("p90", 90), ("p99", 99)):
        value_ns = union.percentile(p)
        assert value_ns is not None
        assert times.percentiles_us[name] == value_ns / 1000
        if interval := times.ci95_us[name]:
            low_us, high_us = interval
            assert high_us is not None
            assert low_us <= value_ns / 1000 <= high_us
    # the searches get faster all the time: six seconds say little of a median
    assert times.ci95_us["p50"] is None
    assert times.ci95_us["p99"] is not None
    assert times.effective["p50"] < 100 < times.effective["p99"] < times.count


def test_a_percentile_with_too_few_values_is_none_never_zero(healthy: Summary) -> None:
    times = operation_of(healthy, "writers.modify").times["response_time"]
    assert 200 <= times.count < 1000
    assert times.percentiles_us["p95"] is not None
    assert times.percentiles_us["p99"] is None
    assert times.ci95_us["p99"] is None
    # nor is there a rate of a short drain
    timeline = healthy.timeline
    assert timeline.end_s[-1] - timeline.start_s[-1] == pytest.approx(0.003)
    for series in timeline.operations.values():
        assert series.throughput_per_s[-1] is None


def test_requests_without_an_answer_rank_above_every_response_time(
    healthy: Summary,
) -> None:
    # 12 of each agent in each of the 6 intervals: some 5 % of all
    summary = summary_of(Scenario(timed_out=8, unresolved=4))
    search = operation_of(summary, "readers.search")
    answered = operation_of(healthy, "readers.search")
    for metric in ("response_time", "service_time"):
        times, before = search.times[metric], answered.times[metric]
        assert (times.count, times.unanswered) == (before.count, 144)
        assert 0.01 < times.unanswered / times.sample < 0.05
        for name in ("p50", "p90", "p95"):
            higher, lower = times.percentiles_us[name], before.percentiles_us[name]
            assert higher is not None
            assert lower is not None
            assert higher > lower
        assert times.percentiles_us["p99"] is None
        assert times.ci95_us["p99"] is None
        assert (times.min_us, times.max_us) == (before.min_us, None)
        assert times.mean_us is None
        assert math.isnan(search.curves[metric].values_us[-1])
    for metric in ("send_lag", "receive_lag", "backlog_wait"):
        assert search.times[metric] == answered.times[metric]
    assert [one.response_times.unanswered for one in summary.agents] == [72, 72]
    assert (
        "144 requests of readers.search had no answer (timed out, or lost with the "
        "connection), which ranks above every response time"
    ) in summary.notes
    series = summary.timeline.operations["readers", "search"]
    assert series.unanswered[4] == 24
    assert series.max_us[4] is None


def test_throughput_is_of_what_completed_in_the_phase_times_of_what_was_due(
    healthy: Summary,
) -> None:
    first = [record for record in intervals(Scenario()) if record.index == 3]
    due_before = sum(record.operations[0].completed for record in first)
    drained = first[0].operations

    def edit(record: Interval) -> Interval:
        if record.index == 3:
            due = [changed(one, measured=False) for one in record.operations]
            return replace(record, operations=tuple(due))
        return replace(record, operations=drained) if record.final else record

    search = operation_of(summary_of(Scenario(edit=edit)), "readers.search")
    before = operation_of(healthy, "readers.search")
    assert search.throughput_per_s == before.throughput_per_s
    more = 2 * drained[0].completed
    completed = before.counts["completed"] - due_before + more
    assert search.counts["completed"] == completed
    assert search.times["response_time"].count == completed
    assert search.totals["completed"] == before.totals["completed"] + more


def test_a_missing_interval_is_a_gap_in_every_series() -> None:
    summary = summary_of(Scenario(lost=frozenset({("load2", 5)})))
    timeline = summary.timeline
    assert [n for n, one in enumerate(timeline.points) if not one.operations] == [5]
    for series in timeline.operations.values():
        assert series.throughput_per_s[5] is None
        assert series.p50_us[5] is None
        assert None not in series.throughput_per_s[:5]
    assert timeline.agents["load1"].throughput_per_s[5] is not None
    assert timeline.agents["load2"].throughput_per_s[5] is None


def test_a_long_run_is_merged_to_what_a_chart_can_show(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(timeline_module, "DISPLAY_POINTS", 12)
    summary = summary_of(Scenario(agents=("load1",), measure_s=26))
    timeline = summary.timeline
    # 1 + 2 + 26 + 1 intervals; points never span two phases; one more for the drain
    assert timeline.intervals_per_point == 3
    assert len(timeline.start_s) == 1 + 1 + 9 + 1 + 1
    assert all(point.operations for point in timeline.points)
    edges = set(timeline.start_s) | set(timeline.end_s)
    assert {phase.start_s for phase in timeline.phases} <= edges
    assert any("3 intervals merged" in note for note in summary.notes)


def test_intervals_belong_to_the_phase_they_lie_in() -> None:
    scenario = Scenario(ramp_up_s=0, warm_up_s=1, measure_s=2, cool_down_s=0)
    plan = Plan(run_record(scenario).plan)
    assert [one.phase for one in plan.intervals] == ["warm_up", "measure", "measure"]
    # the drain has a point of its own after the last
    assert [plan.point(index) for index in range(4)] == [0, 1, 2, 3]
