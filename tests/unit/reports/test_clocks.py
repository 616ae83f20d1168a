# SPDX-License-Identifier: Apache-2.0
"""Agents' clocks: what their samples say, and what reports make of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldapslam.reports.charts.chart_data import event_marks
from ldapslam.reports.collect.clocks import DRIFT_LIMIT, clock_of, clocks_of
from ldapslam.reports.formats.text import render_text
from ldapslam.reports.model import Summary
from ldapslam.reports.sections.report_document import document
from ldapslam.results.facts import AgentFacts, Manifest
from ldapslam.results.records import ClockSample
from ldapslam.results.store import Store
from support.intervals import NS_PER_S, Interval
from support.result_schema import valid_result
from support.store import RUN_ID, Scenario, summary_of

#: Monotonic clocks start when their hosts do: days apart.
TOLD_NS = 3 * 86_400 * NS_PER_S + 7
US = 1_000


def samples(
    deviations_us: list[float], bound_us: float = 50, every_s: int = 10
) -> list[ClockSample]:
    return [
        ClockSample(
            "load1",
            number * every_s * NS_PER_S,
            TOLD_NS + round(deviation * US),
            round(bound_us * US),
        )
        for number, deviation in enumerate(deviations_us)
    ]


def test_a_steady_drift_is_no_step() -> None:
    # 12 ppm: 120 us in 10 s, exactly
    clock = clock_of(samples([120.0 * n for n in range(100)]), TOLD_NS)
    assert (clock.largest.ns, clock.largest.at_s) == (99 * 120 * US, 990)
    assert clock.largest.at_most_ns == (99 * 120 + 50) * US
    assert clock.steps == ()


@given(
    errors=st.lists(st.floats(-1, 1), min_size=3, max_size=60),
    bounds_us=st.lists(st.floats(5, 5000), min_size=60, max_size=60),
    ppm=st.floats(-40, 40),
)
def test_the_true_deviation_is_always_within_the_bound(
    errors: list[float], bounds_us: list[float], ppm: float
) -> None:
    deviations_us = [
        ppm * 10 * number + error * bound
        for number, (error, bound) in enumerate(zip(errors, bounds_us, strict=False))
    ]
    found = [
        one._replace(bound_ns=round(bound * US))
        for one, bound in zip(samples(deviations_us), bounds_us, strict=False)
    ]
    clock = clock_of(found, TOLD_NS)
    # no sample is further off than its bound says
    for number, one in enumerate(clock.deviations):
        assert abs(one.ns - ppm * 10 * number * US) <= one.bound_ns + 2
    assert clock.steps == ()


@pytest.mark.parametrize(
    ("jump_us", "is_step"),
    [(1_099, False), (1_101, True), (-1_101, True)],
)
def test_a_step_is_what_bounds_and_drift_do_not_allow(
    jump_us: int, is_step: bool
) -> None:
    # 2 * 50 us of bounds, and 1,000 us that 100 ppm are in 10 s
    assert pytest.approx(1e-4) == DRIFT_LIMIT
    clock = clock_of(samples([0, 0, 0, jump_us, jump_us]), TOLD_NS)
    assert clock.step_count == is_step
    for step in clock.steps:
        assert (step.at_s, step.ns) == (30, jump_us * US)


def test_an_exchange_that_was_held_up_says_no_more_than_its_neighbours() -> None:
    found = samples([0, 0, 4_000, 0, 0])
    found[2] = found[2]._replace(bound_ns=5_000 * US)
    clock = clock_of(found, TOLD_NS)
    assert clock.step_count == 0
    # 100 ppm of 10 s above the bound beside it
    assert clock.largest.at_most_ns == (50 + 1_000) * US


def test_over_a_link_that_turned_slow_what_was_known_at_t0_still_holds() -> None:
    slow = [one._replace(bound_ns=200_000 * US) for one in samples([0, 0, 0])]
    told = AgentFacts(clock_offset_us=TOLD_NS / 1000, clock_offset_bound_us=80)
    facts = {"load1": told}
    clock = clocks_of({"load1": slow}, facts)["load1"]
    assert len(clock.deviations) == 3
    # 100 ppm of the 20 s since T0 above the bound then
    assert clock.largest.at_most_ns == (80 + 2_000) * US
    assert clocks_of({"load1": slow}, {})["load1"].largest.at_most_ns > 100_000 * US


def test_deviations_count_from_the_offset_that_t0_was_told_by() -> None:
    found = samples([40, 40, 40])
    facts = {"load1": AgentFacts(clock_offset_us=TOLD_NS / 1000)}
    assert clocks_of({"load1": found}, facts)["load1"].largest.ns == 40 * US
    # unknown: from the first sample
    assert clocks_of({"load1": found}, {})["load1"].largest.ns == 0
    assert clocks_of({"load1": []}, {}) == {}


def summary_with(
    deviations_us: list[float], steps_ns: dict[int, int] | None = None, **plan: Any
) -> Summary:
    """A run of ten intervals; samples of both agents' clocks, every second."""

    def edit(record: Interval) -> Interval:
        step_ns = (steps_ns or {}).get(record.index)
        return record if step_ns is None else replace(record, clock_step_ns=step_ns)

    def add(store: Store) -> None:
        rows = samples(deviations_us, every_s=1)
        for agent in scenario.agents:
            of_agent = [one._replace(agent=agent) for one in rows]
            store.add_clock_samples(RUN_ID, of_agent)

    facts = {"clock_offset_us": TOLD_NS / 1000, "clock_drift_us": 9e9}
    scenario = Scenario(facts=facts, plan=plan, edit=edit)
    return summary_of(scenario, add=add)


def rule(summary: Summary) -> tuple[bool, str, str]:
    (found,) = (one for one in summary.rules if one.name == "clock_offset")
    return found.passed, found.limit, found.observed


def test_clocks_that_part_slowly_are_judged_by_how_far_they_went() -> None:
    # of intervals of 1 s: a tenth is 100 ms
    limit = "within ±5 ms at the start, 100 ms apart later"
    start = "±0.25 ms (load2) at the start"
    near = rule(summary_with([11_000.0 * n for n in range(10)]))
    assert near == (True, limit, f"{start}, 99.05 ms (load1) later")
    far = rule(summary_with([11_200.0 * n for n in range(10)]))
    assert far == (False, limit, f"{start}, 100.8 ms (load1) later")


def test_the_job_sets_how_far_clocks_may_go() -> None:
    steps_us = [11_200.0 * n for n in range(10)]
    summary = summary_with(steps_us, validity={"clock_deviation": "20%"})
    assert rule(summary)[0]
    assert "200 ms apart later" in rule(summary)[1]


def test_the_report_shows_clocks_over_the_run_and_their_steps() -> None:
    summary = summary_with([0, 0, 0, 5_000, 5_000], steps_ns={4: 2_500_000, 6: 400})
    content = document(summary)
    text = render_text(content)
    assert "Agents' clocks against the coordinator's, all through the run" in text
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "load1 monotonic 5.000 3.0 2026-03-01 12:00:05" in lines
    assert "load1 wall 2.500 5.0 2026-03-01 12:00:07" in lines
    assert any("coordinator's: 1, the first by 5.000 ms" in n for n in summary.notes)
    figures = valid_result(summary)["figures"]
    names = ("clock_samples", "clock_steps", "clock_deviation")
    values = [figures[f"agent(load1).{name}"]["value"] for name in names]
    assert values == [5, 1, 5_000]


def test_a_run_that_was_not_sampled_is_judged_as_it_was() -> None:
    summary = summary_of(Scenario())
    assert rule(summary) == (True, "within ±5 ms", "±0.25 ms (load2)")
    assert "all through the run" not in render_text(document(summary))
    assert summary.clocks == {}


def test_restarts_and_silences_are_on_the_axis_and_in_the_log() -> None:
    def add(store: Store) -> None:
        for second, kind in (
            (4.5, "agent_silent"),
            (7, "agent_heard"),
            (7.1, "coordinator_restarted"),
        ):
            at_utc = f"2026-03-01T12:00:{second + 2:04.1f}00000Z"
            store.add_event(RUN_ID, kind, "for the test", at_utc)
        adopted = Manifest(adopted=("2026-03-01T12:00:09Z",))
        store.set_manifest(RUN_ID, adopted)

    summary = summary_of(Scenario(), add=add)
    # the first event is T0; the last two are too near to be told apart
    assert [(mark, round(at_s, 1)) for mark, at_s in event_marks(summary)] == [
        ("2", 4.5),
        ("3–4", 7.0),
    ]
    events = valid_result(summary)["events"]
    assert [(one["kind"], one["at_s"]) for one in events] == [
        ("started", 0.0),
        ("agent_silent", 4.5),
        ("agent_heard", 7.0),
        ("coordinator_restarted", 7.1),
    ]
    text = render_text(document(summary))
    assert "4.5  agent_silent" in text
    assert any("restarted once during the run" in note for note in summary.notes)
