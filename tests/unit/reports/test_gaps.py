# SPDX-License-Identifier: Apache-2.0
"""Whatever of a run there is, it has a report, and the report says what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ldapslam.reports.formats.render import FILES, render
from ldapslam.reports.formats.text import render_text
from ldapslam.reports.model import Summary
from ldapslam.reports.result import result_of
from ldapslam.reports.sections.report_document import document
from ldapslam.reports.summarise import summarise
from ldapslam.results.facts import EndingFacts, Manifest
from ldapslam.results.records import FINAL_STATES
from ldapslam.results.store import Store
from support.intervals import NS_PER_S, Interval
from support.result_schema import valid_result
from support.store import RUN_ID, Scenario, fill, intervals, run_record, summary_of

SCENARIO = Scenario(
    agents=("load1", "load2", "load3"),
    ramp_up_s=1,
    warm_up_s=1,
    measure_s=6,
    cool_down_s=0,
    searches_per_s=60,
    modifies_per_s=60,
)
PLANNED = len(SCENARIO.boundaries_ns)
RECORDS = {(one.agent, one.index): one for one in intervals(SCENARIO)}
STATES = ("finished", "failed", "cancelled", "running", "draining", "preparing")


def _summary(records: list[Interval], state: str = "finished", **run: Any) -> Summary:
    return summary_of(replace(SCENARIO, run={"state": state, **run}), records)


def _ended_in(
    record: Interval, length_ns: int = 300_000_000
) -> tuple[Interval, Interval]:
    """The interval cut short by an early end, and the drain, as agents report them."""
    end_ns = record.start_ns + length_ns
    drain = replace(
        record,
        sequence=record.sequence + 1,
        index=record.index + 1,
        start_ns=end_ns,
        end_ns=end_ns + 50_000,
        final=True,
        operations=(),
        workers=(),
        host=None,
    )
    return replace(record, end_ns=end_ns), drain


def _until(agent: str, index: int, length_ns: int = 300_000_000) -> list[Interval]:
    """All that an agent reports whose load ends so far into that interval."""
    whole = [RECORDS[agent, earlier] for earlier in range(index)]
    return [*whole, *_ended_in(RECORDS[agent, index], length_ns)]


def _listed(summary: Summary) -> set[tuple[str, int]]:
    return {
        (gap.agent, index)
        for gap in summary.completeness.gaps
        for index in range(gap.first_index, gap.last_index + 1)
    }


def _missing(there: set[tuple[str, int]], state: str) -> set[tuple[str, int]]:
    """Said another way: all that is due, without what is there."""
    due = PLANNED + 1  # the drain
    if state != "finished":
        due = 1 + max((index for _, index in there if index < PLANNED), default=-1)
    owed = {(agent, index) for agent in SCENARIO.agents for index in range(due)}
    return owed - there


@settings(
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    there=st.sets(st.sampled_from(sorted(RECORDS))),
    state=st.sampled_from(STATES),
    has_t0=st.booleans(),
)
def test_gaps_are_the_records_that_are_missing(
    there: set[tuple[str, int]], state: str, has_t0: bool
) -> None:
    times = {} if has_t0 else {"t0_utc": None, "started_utc": None}
    chosen = [RECORDS[key] for key in sorted(there)]
    summary = _summary(chosen, state, **times)
    assert _listed(summary) == _missing(there, state)
    assert sum(gap.count for gap in summary.completeness.gaps) == len(_listed(summary))
    assert summary.completeness.is_live == (state not in FINAL_STATES)
    if summary.completeness.gaps or state != "finished":
        assert summary.verdict == "INVALID"
    # a chart shows the fleet in the intervals that all agents reported, and no others
    complete = {
        index
        for index in range(PLANNED)
        if all((agent, index) in there for agent in SCENARIO.agents)
    }
    timeline = summary.timeline
    shown = {
        round(one.start_s)
        for one in timeline.points
        if one.operations and one.end_s - one.start_s > 0.5
    }
    assert shown == complete
    for start_s, end_s in timeline.gaps:
        assert not complete & set(range(round(start_s), round(end_s)))
    text = render_text(document(summary))
    assert bool(summary.completeness.gaps) == ("Missing intervals" in text)
    valid_result(summary)


@settings(
    max_examples=3,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    there=st.sets(st.sampled_from(sorted(RECORDS))),
    cut=st.sets(st.sampled_from(SCENARIO.agents)),
    state=st.sampled_from(STATES),
)
def test_any_part_of_a_run_has_a_report_in_every_format(
    tmp_path: Path, there: set[tuple[str, int]], cut: set[str], state: str
) -> None:
    lasts = {
        agent: max((i for a, i in there if a == agent), default=-1) for agent in cut
    }
    chosen = [
        record
        for agent, index in sorted(there)
        for record in (
            _ended_in(RECORDS[agent, index])
            if lasts.get(agent) == index < PLANNED
            else (RECORDS[agent, index],)
        )
    ]
    scenario = replace(SCENARIO, run={"state": state})
    with Store.open("sqlite://") as store:
        summary = summarise(store, fill(store, scenario, chosen))
        paths = render(summary, tmp_path, store=store)
    assert [path.name for path in paths] == list(FILES.values())
    assert all(path.stat().st_size for path in paths)
    text = (tmp_path / "report.txt").read_text("utf-8")
    assert text.startswith(summary.verdict)
    html = (tmp_path / "report.html").read_text("utf-8")
    assert bool(summary.completeness.gaps) == ("Missing intervals" in html)


def test_of_a_lost_agent_it_is_said_when_and_why_it_was_lost() -> None:
    chosen = [r for (agent, n), r in RECORDS.items() if agent != "load2" or n < 4]
    chosen.remove(RECORDS["load3", 5])

    def add(store: Store) -> None:
        for second, kind in ((9, "agent_lost"), (11, "agent_failed")):
            text, at_utc = "agent 'load2': it is gone", f"2026-03-01T12:00:{second:02}Z"
            store.add_event(RUN_ID, kind, text, at_utc)

    summary = summary_of(SCENARIO, chosen, add=add)
    lost = "5 of load2 (4–8; lost at +7.0 s: it is gone)"
    reason = f"intervals are missing: {lost}, 1 of load3; 27.78% of those measured"
    assert summary.reasons[0].startswith(reason)
    text = " ".join(render_text(document(summary)).split())
    uncounted = "what was sent after the last interval that arrived of load2."
    assert uncounted in text


def test_an_interval_that_an_agent_cut_short_is_not_drawn_as_if_complete() -> None:
    """An orphaned agent drains by itself; with `on_agent_loss: continue` the others go
    on to the end."""
    kept = [record for (agent, _), record in RECORDS.items() if agent != "load2"]
    kept += _until("load2", 4, 600_000_000)
    summary = _summary(kept)
    timeline = summary.timeline
    has_values = [bool(one.operations) for one in timeline.points]
    assert has_values[:PLANNED] == [True] * 4 + [False] * 4
    assert timeline.gaps == [(4.0, 8.0)]
    for series in timeline.operations.values():
        assert series.throughput_per_s[4:PLANNED] == [None] * 4
    (partial,) = summary.completeness.partials
    assert (partial.agent, partial.index, partial.end_s) == ("load2", 4, 4.6)
    assert _listed(summary) == {("load2", index) for index in (5, 6, 7)}
    reason = "intervals are missing: 3 of load2, a part of 1 of load2; 22.22% of those"
    assert summary.reasons[0].startswith(reason)
    text = " ".join(render_text(document(summary)).split())
    assert "load2 4 4.0 4.600 2026-03-01 12:00:06" in text
    # counted all the same
    (searches, _) = summary.operations
    assert searches.totals["completed"] == sum(
        one.completed
        for record in kept
        for one in record.operations
        if one.stream == "readers"
    )


def test_a_run_that_was_stopped_lists_what_was_cut_short_but_no_gap() -> None:
    chosen = [one for agent in SCENARIO.agents for one in _until(agent, 5)]
    summary = _summary(chosen, "cancelled", state_detail="by ana")
    assert summary.completeness.gaps == ()
    assert len(summary.completeness.partials) == 3
    assert summary.timeline.gaps == [(5.0, 6.0)]
    reason = "the run did not come to its planned end: cancelled: by ana"
    assert summary.reasons[0] == reason
    assert not any("missing" in reason for reason in summary.reasons)
    assert "Intervals cut short" in render_text(document(summary))


@pytest.mark.parametrize(
    ("delivered_later", "missing"),
    [((), {("load2", 3), ("load2", 4)}), (range(3, PLANNED), set())],
    ids=["lost", "heard again"],
)
def test_no_agent_owes_what_another_measured_after_the_run_was_told_to_drain(
    delivered_later: Sequence[int], missing: set[tuple[str, int]]
) -> None:
    """A lost agent goes on for as long as its lease, and may deliver that later."""
    chosen = [one for agent in ("load1", "load3") for one in _until(agent, 5)]
    chosen += [RECORDS["load2", index] for index in (*range(3), *delivered_later)]
    ending = EndingFacts(state="failed", detail="lost", drained_ns=5_200_000_000)
    manifest = run_record(SCENARIO).manifest.updated(Manifest(ending=ending))
    summary = _summary(chosen, "failed", manifest=manifest)
    assert _listed(summary) == missing
    cut = {(one.agent, one.index) for one in summary.completeness.partials}
    assert cut == {("load1", 5), ("load3", 5)}


@pytest.mark.parametrize(
    ("last", "gaps"),
    [
        # stopped at a boundary, one agent is a moment into what another did not begin
        ({"load1": (4, NS_PER_S - 1), "load2": (5, 1000), "load3": (5, 1000)}, None),
        # the planned last interval
        (
            dict.fromkeys(SCENARIO.agents, (PLANNED - 1, 300_000_000)),
            [(PLANNED - 1.0, float(PLANNED))],
        ),
    ],
)
def test_an_interval_cut_short_makes_no_other_agent_owe_it(
    last: dict[str, tuple[int, int]], gaps: list[tuple[float, float]] | None
) -> None:
    chosen = [one for agent, end in last.items() for one in _until(agent, *end)]
    summary = _summary(chosen, "cancelled")
    assert _listed(summary) == set()
    cut = {(one.agent, one.index) for one in summary.completeness.partials}
    assert cut == {(agent, index) for agent, (index, _) in last.items()}
    assert gaps is None or summary.timeline.gaps == gaps


def test_a_live_runs_report_says_that_it_is_not_over() -> None:
    chosen = [
        record
        for (agent, index), record in RECORDS.items()
        if index < 4 and (agent, index) != ("load1", 3)
    ]
    summary = _summary(chosen, "running")
    assert _listed(summary) == {("load1", 3)}
    assert "the run is not over (running): the report shows what had arrived" in (
        summary.notes
    )
    assert "some of them may still arrive" in render_text(document(summary))


@pytest.mark.parametrize("step_s", [1, 2])
def test_many_gaps_are_all_in_the_result_and_some_in_the_report(step_s: int) -> None:
    scenario = replace(SCENARIO, agents=("load1",), measure_s=220, searches_per_s=5)
    scenario = replace(scenario, run={"state": "failed"})
    summary = summary_of(
        scenario,
        [one for one in intervals(scenario) if one.index % (2 * step_s) >= step_s],
    )
    listed = result_of(summary)["gaps"]
    assert len(listed) == len(summary.completeness.gaps) > 50
    text = render_text(document(summary))
    assert f"and {len(listed) - 50} more: result.json has all of them" in text
    assert all(start_s < 222 for start_s, _ in summary.timeline.gaps)
    assert summary.timeline.end_s[-1] * NS_PER_S > 0
