# SPDX-License-Identifier: Apache-2.0
"""Runs of twelve hours, compressed: memory, store, and a report that can be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.endurance import WARM_UP, Endurance, run_endurance, spikes
from support.fleet import FleetOfProcesses

MB = 1_000_000
HTML_BYTES = 3 * MB


def _check(seen: Endurance) -> None:
    """Nothing was lost, counted twice or averaged away, however long the run."""
    summary = seen.summary
    assert summary is not None
    assert summary.completeness.gaps == ()
    assert summary.measure_s == seen.intervals - WARM_UP
    totals = {one.title: one.totals["sent"] for one in summary.operations}
    assert totals == dict(seen.sent)
    for one in summary.operations:
        assert one.times["response_time"].count == one.counts["succeeded"]
    found = [len(agent.totals.seen) for agent in summary.agents]
    assert found == [seen.intervals] * 4
    rules = {rule.name: rule.passed for rule in summary.rules}
    assert rules["intervals_complete"]
    assert rules["requests_balance"]
    timeline = summary.timeline
    assert len(timeline.start_s) <= 604
    for spike in spikes(seen.intervals):
        (place,) = (
            n
            for n, (start_s, end_s) in enumerate(
                zip(timeline.start_s, timeline.end_s, strict=True)
            )
            if start_s <= spike < end_s
        )
        for series in timeline.operations.values():
            usual = series.max_us[place - 3] or 0
            assert (series.max_us[place] or 0) > 4 * usual
            if timeline.intervals_per_point > 1:
                band = series.envelopes["p50_us"]
                assert (band.high[place] or 0) > 10 * (series.p50_us[place] or 0)
    assert seen.files["report.html"] < HTML_BYTES
    assert seen.most_bytes < 300 * MB


@pytest.mark.long
def test_a_run_of_minutes_goes_through_the_whole_pipeline(
    fleet: FleetOfProcesses, tmp_path: Path
) -> None:
    _check(run_endurance(fleet, 300, tmp_path))


@pytest.mark.accuracy
def test_twelve_hours_leave_memory_flat_and_a_report_in_time(
    fleet: FleetOfProcesses, tmp_path: Path
) -> None:
    seen = run_endurance(fleet, 43_200, tmp_path)
    _check(seen)
    assert seen.slope_bytes < 1 * MB, f"{seen.memory[::10]}"
    assert seen.bytes_per_interval < 9_000
    # reports are kept as they came: quick to take in, and unpacked here
    assert seen.report_s < 45
