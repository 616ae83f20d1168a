# SPDX-License-Identifier: Apache-2.0
"""Runs of sessions and counts: outcomes apart, own ends of streams, the books."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from ldapslam.jobs.run_plan import PlannedStream, RunPlan
from ldapslam.reports.charts.chart_data import causes, expected_codes
from ldapslam.reports.charts.charts import draw
from ldapslam.reports.collect.collect import Part
from ldapslam.reports.collect.timeline import Plan
from ldapslam.reports.collect.totals import StreamTotals
from ldapslam.reports.document import NOTHING, Table
from ldapslam.reports.formats.text import render_text
from ldapslam.reports.model import Summary
from ldapslam.reports.result import result_of
from ldapslam.reports.rules.evidence import window_of
from ldapslam.reports.sections.report_document import document
from ldapslam.reports.sections.requests import outcomes
from ldapslam.reports.streams import StreamSummary, Window
from ldapslam.reports.summarise import summarise
from ldapslam.results.facts import AgentFacts
from ldapslam.results.store import Store
from support.figures import table_of, value_in, value_of
from support.golden import Compare
from support.intervals import NS_PER_S, Interval, drain_of
from support.result_schema import valid_result
from support.session_store import (
    AGENTS,
    ENDS,
    STREAMS,
    fill_workload,
    workload_intervals,
)
from support.store import (
    Scenario,
    changed,
    operation_of,
    rule_of,
    run_record,
    summary_of,
    to_server,
)


@pytest.fixture(scope="module")
def summary() -> Summary:
    with Store.open("sqlite://") as store:
        return summarise(store, fill_workload(store))


def stream(summary: Summary, name: str) -> StreamSummary:
    return next(one for one in summary.streams if one.name == name)


# Runs that end with the counts of their streams.


def test_a_run_that_ends_with_its_counts_lacks_nothing(summary: Summary) -> None:
    assert summary.verdict == "PASS"
    assert summary.completeness.gaps == ()
    assert rule_of(summary, "counts_reached") == (True, "all")
    timeline = summary.timeline
    assert all(point.operations for point in timeline.points), (
        "load1 was through before load2"
    )
    # up to the last response of any agent
    end_s = ENDS["load2"][1] / NS_PER_S
    assert summary.measure_s == pytest.approx(end_s - 0.01)
    assert [one.end_s for one in timeline.phases] == [end_s]
    assert timeline.end_s[-1] == end_s


def test_throughput_is_over_the_time_that_the_stream_was_at_work(
    summary: Summary,
) -> None:
    # churn's last response came half a second before load2's end, tools began at 2 s
    assert stream(summary, "tools").window.elapsed_s == pytest.approx(7.39)
    add = operation_of(summary, "churn.add")
    assert add.throughput_per_s == pytest.approx(add.counts["completed"] / 8.9)
    result = result_of(summary)
    assert value_of(result, "churn.*.elapsed") == pytest.approx(8.9e6)
    assert result["connections"]["tools"]["measured_s"] == pytest.approx(7.39)


def _run_with(*records: Interval, **fields: Any) -> Summary:
    scenario = Scenario(agents=("load1",), ramp_up_s=0, warm_up_s=0, **fields)
    return summary_of(scenario, records)


def _through(index: int) -> Interval:
    """An agent's drain."""
    return replace(drain_of("load1", index, length_ns=1), phase="measure")


#: The first of the fleet's 7 intervals is cut short; the drain is there.
_CUT_SHORT = "6 of load1, a part of 1 of load1; 100% of those measured"


@pytest.mark.parametrize(
    ("counted", "passed", "observed"),
    [
        pytest.param(("readers", "writers"), True, "0", id="all streams"),
        pytest.param(("writers",), True, "0", id="those that it drives"),
        pytest.param(("readers",), False, _CUT_SHORT, id="another stream"),
        pytest.param((), False, _CUT_SHORT, id="none"),
    ],
)
def test_an_agent_may_only_end_early_when_its_streams_have_counts(
    counted: tuple[str, ...], passed: bool, observed: str
) -> None:
    # load1 drives the writers only
    full = next(workload_intervals())
    drove = tuple(changed(one, stream="writers") for one in full.streams[:1])
    cut = replace(_through(0), streams=drove, final=False)
    streams = {name: {"count": 1} for name in counted}
    summary = _run_with(cut, _through(1), streams=streams)
    assert rule_of(summary, "intervals_complete") == (passed, observed)


@pytest.mark.parametrize(
    ("sent", "passed", "observed"),
    [(30, True, "all"), (29, False, "29 of 30 of writers")],
)
def test_a_replay_ends_with_the_requests_that_agents_found_in_its_log(
    sent: int, passed: bool, observed: str
) -> None:
    full = next(workload_intervals())
    counts = {"scheduled": sent, "expected": 10, "result_codes": {0: 20, 49: 10}}
    names = {"stream": "writers", "operation": "bind"}
    binds = (changed(full.operations[0], **names, **counts),)
    drove = (changed(full.streams[0], stream="writers"),)
    cut = replace(_through(0), operations=binds, streams=drove, final=False)
    planned = {"is_replay": True, "operations": [{"name": "bind", "kind": "bind"}]}
    log = {"requests": {"bind": 30}, "count": 30, "expected_codes": {"bind": [49]}}
    scenario = Scenario(
        agents=("load1",),
        streams={"writers": planned},
        facts={"replays": {"writers": {**log, "skipped": []}}},
    )
    summary = summary_of(scenario, (cut, _through(1)))
    assert rule_of(summary, "intervals_complete") == (True, "0")
    assert rule_of(summary, "counts_reached") == (passed, observed)
    assert stream(summary, "writers").planned.count == 30
    bind = operation_of(summary, "writers.bind")
    assert bind.expected_codes == frozenset({49})


def test_an_agent_without_a_stream_is_there_though_it_measured_nothing() -> None:
    summary = _run_with(_through(0), streams={})
    assert rule_of(summary, "agents_present") == (True, "1 of 1")
    assert rule_of(summary, "intervals_complete") == (True, "0")


def test_a_stream_that_the_runs_end_finds_short_of_its_count_has_no_total_time() -> (
    None
):
    scenario = Scenario(
        streams={"writers": {"count": 10_000}},
        thresholds=("writers.*.elapsed < 1h",),
    )
    summary = summary_of(scenario)
    sent = operation_of(summary, "writers.modify").totals["scheduled"]
    observed = f"{sent:,} of 10,000 of writers at the run's end"
    assert rule_of(summary, "counts_reached") == (True, observed)
    assert stream(summary, "writers").window == Window(6.0, None)
    assert summary.verdict == "FAIL"


@pytest.mark.parametrize(
    ("stream_plan", "operation_plan", "is_known"),
    [
        ({}, {}, True),
        ({}, {"per_session": 2}, False),
        ({}, {"is_paged": True}, False),
        ({"engine": "python"}, {}, False),
    ],
    ids=["one each", "repeated", "paged", "a class"],
)
def test_a_count_that_may_not_be_reached_leaves_no_total_time(
    stream_plan: dict[str, Any], operation_plan: dict[str, Any], is_known: bool
) -> None:
    """Where a session may have sent more than one of what is counted."""
    sent = operation_of(summary_of(Scenario()), "writers.modify").totals["scheduled"]
    planned = {"name": "modify", "kind": "modify", **operation_plan}
    writers = {"count": sent, "operations": [planned], **stream_plan}
    summary = summary_of(Scenario(streams={"writers": writers}))
    assert (stream(summary, "writers").window.elapsed_s is not None) is is_known
    assert is_known is not any(
        note.startswith("stream writers may not have reached its count")
        for note in summary.notes
    )


def test_an_identity_that_a_bind_changed_is_a_note_and_is_not_to_blame() -> None:
    change = "'modify' runs as the user whose 'bind' was before"
    streams = {"writers": {"identity_change": change}}
    summary = summary_of(Scenario(failing=1.0, streams=streams))
    assert f"stream writers: {change}" in summary.notes
    assert "or the user bound before may not see it" in summary.reasons[0]


def test_a_stream_may_be_through_before_the_measure_phase() -> None:
    def edit(record: Interval) -> Interval:
        if record.index < 2:
            return record
        operations, streams = record.operations[:1], record.streams[:1]
        return replace(record, operations=operations, streams=streams)

    # the measure phase begins after 3 s
    ended = {"writers": {"end_ns": 2 * NS_PER_S}}
    summary = summary_of(Scenario(streams=ended, thresholds=(), edit=edit))
    assert rule_of(summary, "data_present") == (True, "all 1")
    assert operation_of(summary, "writers.modify").throughput_per_s is None
    assert (
        "stream writers ended before the measure phase: it has no statistics there"
        in summary.notes
    )


SECOND = NS_PER_S


@pytest.mark.parametrize(
    ("planned", "last_s", "measure_s", "elapsed_s"),
    [
        # the measure phase is from 3 s to 9 s
        pytest.param({}, 9.5, 6.0, 9.5, id="as long as the run"),
        pytest.param({"count": 5}, 7.25, 4.25, 7.25, id="through with its count"),
        pytest.param({"count": 5}, 9.5, 6.0, 9.5, id="its count ended in the drain"),
        pytest.param({"count": 5}, 2.5, None, 2.5, id="through before the measuring"),
        pytest.param({"end_ns": 5 * SECOND}, 5.125, 2.125, 5.125, id="stopped"),
        pytest.param({"end_ns": 5 * SECOND}, 4.5, 2.0, 4.5, id="idle, then stopped"),
        pytest.param({"start_ns": 4 * SECOND}, 9.0, 5.0, 5.0, id="began later"),
        pytest.param({"count": 5}, None, 6.0, None, id="nothing came back"),
        pytest.param({"count": 5, "short": 1}, 8.5, 6.0, None, id="short of its count"),
    ],
)
def test_a_stream_is_measured_while_it_was_at_work(
    planned: dict[str, Any],
    last_s: float | None,
    measure_s: float | None,
    elapsed_s: float | None,
) -> None:
    run = run_record(Scenario(agents=()))
    with Store.open("sqlite://") as store:
        part = Part(run, Plan(RunPlan()), [], {}, [], 1, range(1))
        collected = part.collect(store)
    collected.measure_start_ns, collected.measure_end_ns = 3 * SECOND, 9 * SECOND
    last_ns = None if last_s is None else int(last_s * SECOND)
    totals = StreamTotals(last_done_ns=last_ns)
    is_short = bool(planned.pop("short", 0))
    stream = PlannedStream(name="stream", **planned)
    window = window_of(stream, totals, collected, is_short=is_short)
    assert window == Window(measure_s, elapsed_s)


# Outcomes.


@pytest.mark.parametrize(
    ("code", "expected", "failed", "shown", "bars"),
    [
        (122, 30, 0, "expected failure", {"assertionFailed (122), expected": 30}),
        # the class expects the code of some of its requests
        (122, 20, 10, "failure, or expected", {"failed": 10, "expected": 20}),
        # counted with all codes above 127
        (4096, 30, 0, "expected failure", {"result code -1, expected": 30}),
    ],
)
def test_a_class_says_which_codes_it_expected(
    code: int, expected: int, failed: int, shown: str, bars: dict[str, int]
) -> None:
    counts = {"expected": expected, "failed": failed, "completed": 130}
    losses = dict.fromkeys(("timed_out", "unresolved", "captures_missing"), 0)
    record = next(workload_intervals())
    write = changed(
        record.operations[0],
        **{"stream": "writers", "operation": "write", "measured": True},
        **{**counts, **losses},
        result_codes={0: 99, 6: 1, code if code < 128 else -1: 30},
    )
    planned = {"name": "write", "kind": "python", "success_codes": [0, 5, 6]}
    scenario = Scenario(
        agents=("load1",),
        streams={"writers": {"engine": "python", "operations": [planned]}},
        facts={"python_expected_codes": {"writers": {"write": [code]}}},
    )
    summary = summary_of(scenario, [replace(record, operations=(write,))])
    one, blocks = operation_of(summary, "writers.write"), outcomes(summary)
    tables = {block.name: block for block in blocks if isinstance(block, Table)}
    found = [row[2].text for row in tables["result-codes"].rows]
    assert sorted(found) == sorted(["success", "success", shown])
    assert dict([*causes(one), *expected_codes(one)]) == bars


def test_what_the_servers_said_stands_beside_its_result_code() -> None:
    said = (f"no \x9b{number}" for number in itertools.count())

    def edit(record: Interval) -> Interval:
        one = changed(
            record.operations[0],
            measured=True,
            result_codes={0: 5, 53: 2},
            diagnostic_messages={53: next(said)},
        )
        return replace(record, operations=(one,))

    summary = summary_of(Scenario(edit=edit), workload_intervals())
    (found,) = (each for each in summary.operations if each.diagnostic_messages)
    streams = valid_result(summary)["streams"]
    messages = streams[found.stream][found.operation]["diagnostic_messages"]
    first = [rf"no \u009b{number}" for number in range(3)]
    assert messages == {"unwillingToPerform": first}
    (codes,) = (
        each
        for each in outcomes(summary)
        if isinstance(each, Table) and each.name == "result-codes"
    )
    assert [row[-1].text for row in codes.rows] == [NOTHING, " / ".join(first)]


def test_each_outcome_has_counts_and_times_of_its_own(summary: Summary) -> None:
    bind = operation_of(summary, "logins.login-bind")
    assert bind.counts["expected"] == 76
    assert bind.error_share == 0
    assert bind.times["response_time"].count == bind.counts["succeeded"]
    assert bind.outcome_times["expected"]["response_time"].count == 76
    slow = operation_of(summary, "churn.slow")
    counts = slow.counts
    assert slow.outcome_times.keys() == {"timed_out", "unresolved"}
    timed_out = slow.outcome_times["timed_out"]["service_time"]
    assert timed_out.count == counts["timed_out"] == 38
    assert timed_out.percentiles_us["p50"] == pytest.approx(1e7, rel=1e-3)
    assert slow.times["response_time"].unanswered == 38 + 19
    # send lag is of every request, whatever became of it
    assert slow.times["send_lag"].count == counts["completed"] + 38 + 19
    shown = result_of(summary)["streams"]["churn"]["slow"]
    assert shown["outcomes"].keys() == {"timed_out", "unresolved"}
    # abandoned requests are sent and are no errors
    assert shown["abandoned"] == 57
    assert counts["sent"] == counts["completed"] + 57 + 57
    assert slow.error_share == 57 / counts["sent"]


def test_searches_that_found_nothing_have_a_column(summary: Summary) -> None:
    found = operation_of(summary, "logins.login-list").counts["empty"]
    assert found == 4 * 19
    assert result_of(summary)["streams"]["logins"]["login-list"]["empty"] == found
    requests = next(one for one in outcomes(summary) if isinstance(one, Table))
    empty = [column.title for column in requests.columns].index("empty")
    assert [row[empty].text for row in requests.rows].count(str(found)) == 1


def test_where_no_success_is_expected_the_times_are_of_what_is(
    summary: Summary,
) -> None:
    gone = operation_of(summary, "churn.gone")
    assert (gone.counts["succeeded"], gone.times_of) == (0, "expected")
    assert gone.times["response_time"].count == gone.counts["expected"]
    assert summary.timeline.operations["churn", "gone"].p50_us[0] is not None
    assert rule_of(summary, "data_present") == (True, "all 9")
    result = result_of(summary)
    assert result["streams"]["churn"]["gone"]["times_of"] == "expected"
    assert value_in(result, "churn.gone.response_time.p50") is not None


# Connections and books.


def test_set_ups_have_times_of_their_own_step_by_step(summary: Summary) -> None:
    logins, churn = stream(summary, "logins"), stream(summary, "churn")
    for name in ("tcp_time", "tls_time", "bind_time", "connect_time"):
        assert logins.set_up[name].count == 1520
    assert churn.set_up["tls_time"].count == 0
    assert (logins.connections["reconnects"], churn.connections["reconnects"]) == (
        1520 - 24,
        0,
    )
    shown = result_of(summary)["figures"]["logins.*.tls_time.p50"]
    assert shown["sample"] == 1520


def test_books_have_all_that_a_server_was_sent(summary: Summary) -> None:
    totals = {one.title: one.totals for one in summary.operations}
    connections = {one.name: one.connections for one in summary.streams}
    books = summary.sent_requests
    assert books["ldap://ds1.example.com"] == {
        "add": totals["churn.add"]["sent"],
        "bind": 24 + 2,
        "delete": totals["churn.delete"]["sent"] + totals["churn.gone"]["sent"] + 31,
        "search": totals["churn.slow"]["sent"] + 4,
        "unbind": connections["churn"]["unbinds"],
    }
    # of tools, a Python class, only what its control operations have
    assert books["ldap://ds2.example.com"]["bind"] == (
        totals["logins.login-bind"]["sent"] + 1520 + 2
    )
    assert (
        value_of(result_of(summary), "server(ldap://ds1.example.com).bind.sent") == 26
    )


def test_each_server_of_a_role_has_requests_of_its_own() -> None:
    """An operation may take several requests; the role has the sum."""
    uris = ["ldap://a.example.com", "ldap://b.example.com"]

    def edit(record: Interval) -> Interval:
        operations = [changed(one, requests=3 * one.sent) for one in record.operations]
        several = replace(record, operations=tuple(operations))
        return to_server(several, "readers", uris[record.index % 2])

    scenario = Scenario(
        streams={"readers": {"uris": uris}, "writers": {"uris": uris[:1]}},
        run={"manifest": {"control_operations": {uris[1]: {"search": 2}}}},
        edit=edit,
        thresholds=(f"server({uris[1]}).search.sent > 100",),
    )
    summary = summary_of(scenario)
    row = table_of(document(summary), "thresholds").rows[0]
    assert row[0].text == scenario.thresholds[0], "as written, without the role"
    totals = operation_of(summary, "readers.search").totals
    a, b = (summary.sent_requests[uri] for uri in uris)
    assert a["search"] + b["search"] == 3 * totals["sent"] + 2
    assert (list(a), list(b)) == (["modify", "search"], ["search"])
    result = result_of(summary)
    for subject, sent in (
        (uris[0], a["search"]),
        (uris[1], b["search"]),
        ("replica", a["search"] + b["search"]),
    ):
        assert value_of(result, f"server({subject}).search.sent") == sent > 0


def test_the_report_of_a_workload_is_as_reviewed(
    summary: Summary, golden: Compare
) -> None:
    golden("report_workload.txt", render_text(document(summary)))


def test_its_result_follows_the_schema_and_its_charts_can_be_drawn(
    summary: Summary,
) -> None:
    valid_result(summary)
    places = document(summary).charts()
    assert draw(summary, places).keys() == {place.name for place in places}
    assert "The first 8 of 9 operations." in places[0].description


# Entries that a lost agent may have left.

LOST = "2026-03-01T12:00:09Z"


@pytest.fixture
def churn(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The adds and deletes of the run: 760 and 551 of both agents."""
    steps = STREAMS["churn"]
    add = replace(steps["add"], plan={"cleans_up": True})
    delete = replace(steps["delete"], per_s=30, plan={"deletes_of": "add"})
    monkeypatch.setitem(steps, "add", add)
    monkeypatch.setitem(steps, "delete", delete)
    return steps


def left_by(*lost: str, cleaned: tuple[str, ...] = ()) -> Summary:
    """A run that lost these agents; they removed nothing, but for `cleaned`."""
    with Store.open("sqlite://") as store:
        run_id = fill_workload(store)
        for agent in lost:
            store.add_event(run_id, "agent_lost", f"agent {agent!r}: gone", LOST)
            if agent not in cleaned:
                store.put_agent(run_id, agent, AgentFacts(clean_up=None))
        return summarise(store, run_id)


def notes_of(run: Summary) -> list[str]:
    return [note for note in run.notes if "entries of load" in note]


@pytest.mark.usefixtures("churn")
def test_the_entries_of_a_lost_agent_are_counted_and_who_removes_them_is_told() -> None:
    run = left_by("load2")
    # without the 31 that load1 had left, and has removed
    (note,) = notes_of(run)
    assert note.startswith("at most 178 entries of load2 are left in the directory")
    assert f"`ldapslam run --cleanup {run.run.run_id}` on its host" in note
    found = document(run)
    assert any("At most 178 entries of load2" in one for one in found.cautions)
    # the figure of load1 alone would look like all of it
    assert "Clean-up" not in dict(found.facts)


@pytest.mark.usefixtures("churn")
def test_all_lost_agents_are_named_with_what_they_left_together() -> None:
    (note,) = notes_of(left_by(*AGENTS))
    assert note.startswith("at most 209 entries of load1, load2 are left")


@pytest.mark.usefixtures("churn")
def test_an_agent_that_was_lost_after_its_clean_up_has_left_nothing() -> None:
    assert notes_of(left_by("load2", cleaned=("load2",))) == []
    assert notes_of(left_by()) == []


@pytest.mark.parametrize(
    ("name", "change", "told"),
    [
        pytest.param(
            *("delete", {"plan": {}}, ["at most 729 entries of load2"]),
            id="deletes take no added entry",
        ),
        pytest.param("add", {"plan": {"keeps_entries": True}}, [], id="kept"),
        # it was killed within its first interval with an add
        pytest.param(
            *("add", {"per_s": 0}, ["at most 0 entries of load2"]), id="no add reported"
        ),
    ],
)
def test_what_is_left_depends_on_the_adds_and_deletes_of_the_job(
    churn: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    change: dict[str, Any],
    told: list[str],
) -> None:
    monkeypatch.setitem(churn, name, replace(churn[name], **change))
    assert [
        note.partition(" are left")[0] for note in notes_of(left_by("load2"))
    ] == told
