# SPDX-License-Identifier: Apache-2.0
"""Runs of sessions and counts: outcomes apart, own ends of streams, the books."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ldapslam.jobs.fields.validity import Validity
from ldapslam.jobs.run_plan import PlannedStream, RunPlan
from ldapslam.reports.charts.chart_data import causes, expected_codes
from ldapslam.reports.charts.charts import draw
from ldapslam.reports.collect.collect import Part, collect_run
from ldapslam.reports.collect.timeline import Plan
from ldapslam.reports.collect.totals import StreamTotals
from ldapslam.reports.document import Table
from ldapslam.reports.formats.text import render_text
from ldapslam.reports.model import OperationSummary, StreamSummary, Summary
from ldapslam.reports.result import result_of
from ldapslam.reports.rules.evidence import Window, window_of
from ldapslam.reports.rules.reconciliation import sent_requests
from ldapslam.reports.sections.report_document import document
from ldapslam.reports.sections.requests import outcomes
from ldapslam.reports.summarise import summarise
from ldapslam.reports.typeset import NOTHING
from ldapslam.results.columns import extent
from ldapslam.results.records import RunRecord
from ldapslam.results.store import Store
from support.golden import Compare
from support.intervals import Interval, add_interval, add_intervals
from support.result_schema import result_schema
from support.session_store import ENDS, fill_workload, workload_intervals
from support.store import (
    NS_PER_S,
    RUN_ID,
    Scenario,
    agent_facts,
    changed,
    fill,
    intervals,
    run_record,
)


@pytest.fixture(scope="module")
def summary() -> Summary:
    with Store.open("sqlite://") as store:
        return summarise(store, fill_workload(store))


def operation(summary: Summary, title: str) -> OperationSummary:
    return next(one for one in summary.operations if one.title == title)


def stream(summary: Summary, name: str) -> StreamSummary:
    return next(one for one in summary.streams if one.name == name)


def rule(summary: Summary, name: str) -> tuple[bool, str]:
    (found,) = (one for one in summary.rules if one.name == name)
    return found.passed, found.observed


# Runs that end with the counts of their streams.


def test_a_run_that_ends_with_its_counts_lacks_nothing(summary: Summary) -> None:
    assert summary.verdict == "PASS"
    assert summary.completeness.gaps == ()
    assert rule(summary, "counts_reached") == (True, "all")
    assert not any(summary.timeline.is_gap), "load1 was through before load2"


def test_it_is_measured_up_to_the_last_response_of_any_agent(summary: Summary) -> None:
    last_s = ENDS["load2"][1] / NS_PER_S - 0.01
    assert summary.measure_s == pytest.approx(last_s)


def test_its_charts_end_with_it_not_with_its_plan(summary: Summary) -> None:
    assert [one.end_s for one in summary.timeline.phases] == [9.4]
    assert summary.timeline.end_s[-1] == ENDS["load2"][1] / NS_PER_S


def test_throughput_is_over_the_time_that_the_stream_was_at_work(
    summary: Summary,
) -> None:
    # churn's last response came half a second before load2's end, tools began at 2 s
    assert stream(summary, "churn").window.elapsed_s == pytest.approx(8.9)
    assert stream(summary, "tools").window.elapsed_s == pytest.approx(7.39)
    add = operation(summary, "churn.add")
    assert add.throughput_per_s == pytest.approx(add.counts["completed"] / 8.9)
    connections = result_of(summary)["connections"]
    assert connections["churn"]["elapsed_s"] == pytest.approx(8.9)
    assert connections["tools"]["measured_s"] == pytest.approx(7.39)


def _run_with(
    *records: Interval, streams: dict[str, dict[str, Any]], **fields: Any
) -> Summary:
    scenario = Scenario(agents=("load1",), ramp_up_s=0, warm_up_s=0, streams=streams)
    record = run_record(scenario)
    with Store.open("sqlite://") as store:
        store.create_run(replace(record, **fields))
        add_intervals(store, record.run_id, records)
        return summarise(store, record.run_id)


def _through(index: int) -> Interval:
    """An agent's drain."""
    start_ns = index * NS_PER_S
    return Interval(
        "load1", 1, index, index, "measure", start_ns, start_ns + 1, final=True
    )


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
    assert rule(summary, "intervals_complete") == (passed, observed)


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
    with Store.open("sqlite://") as store:
        store.create_run(run_record(scenario))
        store.put_agent(RUN_ID, "load1", agent_facts(0, scenario))
        add_intervals(store, RUN_ID, (cut, _through(1)))
        summary = summarise(store, RUN_ID)
    assert rule(summary, "intervals_complete") == (True, "0")
    assert rule(summary, "counts_reached") == (passed, observed)
    assert stream(summary, "writers").count == 30
    bind = operation(summary, "writers.bind")
    assert bind.expected_codes == frozenset({49})


def test_an_agent_without_a_stream_is_there_though_it_measured_nothing() -> None:
    summary = _run_with(_through(0), streams={})
    assert rule(summary, "agents_present") == (True, "1 of 1")
    assert rule(summary, "intervals_complete") == (True, "0")


def test_a_stream_that_the_runs_end_finds_short_of_its_count_has_no_total_time() -> (
    None
):
    scenario = Scenario(
        streams={"writers": {"count": 10_000}},
        thresholds=("writers.*.elapsed < 1h",),
    )
    with Store.open("sqlite://") as store:
        summary = summarise(store, fill(store, scenario))
    sent = operation(summary, "writers.modify").totals["scheduled"]
    observed = f"{sent:,} of 10,000 of writers at the run's end"
    assert rule(summary, "counts_reached") == (True, observed)
    assert stream(summary, "writers").window == Window(6.0, None)
    assert summary.verdict == "FAIL"
    assert (
        "stream writers did not reach its count: its total time is not known"
        in summary.notes
    )


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
    with Store.open("sqlite://") as store:
        summary = summarise(store, fill(store, Scenario()))
    sent = operation(summary, "writers.modify").totals["scheduled"]
    planned = {"name": "modify", "kind": "modify", **operation_plan}
    writers = {"count": sent, "operations": [planned], **stream_plan}
    with Store.open("sqlite://") as store:
        summary = summarise(store, fill(store, Scenario(streams={"writers": writers})))
    assert (stream(summary, "writers").window.elapsed_s is not None) is is_known
    assert is_known is not any(
        note.startswith("stream writers may not have reached its count")
        for note in summary.notes
    )


def test_requests_as_somebody_else_are_a_note() -> None:
    change = "'search' runs as the user whose 'bind' was before"
    with Store.open("sqlite://") as store:
        scenario = Scenario(streams={"readers": {"identity_change": change}})
        assert (
            f"stream readers: {change}" in summarise(store, fill(store, scenario)).notes
        )


def test_a_failure_is_not_put_down_to_an_identity_that_a_bind_changed() -> None:
    scenario = Scenario(failing=1.0, streams={"writers": {"identity_change": "binds"}})
    with Store.open("sqlite://") as store:
        (reason,) = summarise(store, fill(store, scenario)).reasons
    assert "the entry is not there, or the user bound before may not see it" in reason


def test_a_stream_may_be_through_before_the_measure_phase() -> None:
    # the measure phase begins after 3 s
    scenario = Scenario(streams={"writers": {"end_ns": 2 * NS_PER_S}}, thresholds=())
    with Store.open("sqlite://") as store:
        store.create_run(run_record(scenario))
        for number, agent in enumerate(scenario.agents):
            store.put_agent(RUN_ID, agent, agent_facts(number, scenario))
        for record in intervals(scenario):
            if record.index >= 2:
                record = replace(
                    record,
                    operations=record.operations[:1],
                    streams=record.streams[:1],
                )
            add_interval(store, RUN_ID, record)
        summary = summarise(store, RUN_ID)
    assert rule(summary, "data_present") == (True, "all 1")
    assert operation(summary, "writers.modify").throughput_per_s is None
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
        part = Part(run, Plan(RunPlan()), Validity(), [], {}, [], 1)
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
    codes = {0: 99, 6: 1, code if code < 128 else -1: 30}
    record = next(one for one in workload_intervals() if one.agent == "load1")
    write = changed(
        record.operations[0],
        **{"stream": "writers", "operation": "write", "measured": True},
        **{
            **counts,
            "result_codes": codes,
            "timed_out": 0,
            "unresolved": 0,
            "captures_missing": 0,
        },
    )
    planned = {"name": "write", "kind": "python", "success_codes": [0, 5, 6]}
    scenario = Scenario(
        agents=("load1",),
        streams={"writers": {"engine": "python", "operations": [planned]}},
        facts={"python_expected_codes": {"writers": {"write": [code]}}},
    )
    with Store.open("sqlite://") as store:
        store.create_run(run_record(scenario))
        store.put_agent(RUN_ID, "load1", agent_facts(0, scenario))
        add_interval(store, RUN_ID, replace(record, operations=(write,)))
        one = operation(summarise(store, RUN_ID), "writers.write")
        blocks = outcomes(summarise(store, RUN_ID))
    tables = {block.name: block for block in blocks if isinstance(block, Table)}
    found = [row[2].text for row in tables["result-codes"].rows]
    assert sorted(found) == sorted(["success", "success", shown])
    assert dict([*causes(one), *expected_codes(one)]) == bars


def test_what_the_servers_said_stands_beside_its_result_code() -> None:
    records = workload_intervals()
    said = (f"no \x9b{number}" for number in itertools.count())
    scenario = Scenario()
    with Store.open("sqlite://") as store:
        store.create_run(run_record(scenario))
        for agent in scenario.agents:
            store.put_agent(RUN_ID, agent, agent_facts(0, scenario))
        for record in records:
            one = changed(
                record.operations[0],
                measured=True,
                result_codes={0: 5, 53: 2},
                diagnostic_messages={53: next(said)},
            )
            add_interval(store, RUN_ID, replace(record, operations=(one,)))
        summary = summarise(store, RUN_ID)
    (found,) = (each for each in summary.operations if each.diagnostic_messages)
    shown = result_of(summary)
    Draft202012Validator(result_schema()).validate(shown)
    messages = shown["streams"][found.stream][found.operation]["diagnostic_messages"]
    first = [rf"no \u009b{number}" for number in range(3)]
    assert messages == {"unwillingToPerform": first}
    (codes,) = (
        each
        for each in outcomes(summary)
        if isinstance(each, Table) and each.name == "result-codes"
    )
    assert [row[-1].text for row in codes.rows] == [NOTHING, " / ".join(first)]


def test_each_outcome_has_counts_and_times_of_its_own(summary: Summary) -> None:
    bind = operation(summary, "logins.login-bind")
    assert bind.counts["expected"] == 76
    assert bind.error_share == 0
    assert bind.times["response_time"].count == bind.counts["succeeded"]
    assert bind.outcome_times["expected"]["response_time"].count == 76
    slow = operation(summary, "churn.slow")
    assert slow.outcome_times.keys() == {"timed_out", "unresolved"}
    timed_out = slow.outcome_times["timed_out"]["service_time"]
    assert timed_out.count == slow.counts["timed_out"] == 38
    assert timed_out.percentiles_us["p50"] == pytest.approx(1e7, rel=1e-3)
    assert slow.times["response_time"].unanswered == 38 + 19
    shown = result_of(summary)["streams"]["churn"]["slow"]
    assert shown["outcomes"].keys() == {"timed_out", "unresolved"}
    assert shown["abandoned"] == 57


def test_abandoned_requests_are_sent_and_are_no_errors(summary: Summary) -> None:
    slow = operation(summary, "churn.slow")
    assert slow.error_share == 57 / slow.counts["sent"]
    assert slow.counts["sent"] == slow.counts["completed"] + 57 + 57


def test_searches_that_found_nothing_have_a_column(summary: Summary) -> None:
    found = operation(summary, "logins.login-list").counts["empty"]
    assert found == 4 * 19
    assert result_of(summary)["streams"]["logins"]["login-list"]["empty"] == found
    requests = next(one for one in outcomes(summary) if isinstance(one, Table))
    empty = [column.title for column in requests.columns].index("empty")
    assert [row[empty].text for row in requests.rows].count(str(found)) == 1


def test_send_lag_is_of_every_request_whatever_became_of_it(summary: Summary) -> None:
    slow = operation(summary, "churn.slow")
    times = slow.times["send_lag"].count
    assert times == slow.counts["completed"] + slow.counts["timed_out"] + 19


def test_where_no_success_is_expected_the_times_are_of_what_is(
    summary: Summary,
) -> None:
    gone = operation(summary, "churn.gone")
    assert (gone.counts["succeeded"], gone.times_of) == (0, "expected")
    assert gone.times["response_time"].count == gone.counts["expected"]
    assert summary.timeline.operations["churn", "gone"].p50_us[0] is not None
    assert rule(summary, "data_present") == (True, "all 9")
    result = result_of(summary)["streams"]["churn"]["gone"]
    assert result["times_of"] == "expected"
    assert result["response_time_us"]["p50"] is not None


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
    shown = result_of(summary)["connections"]["logins"]
    assert shown["tls_time_us"]["count"] == 1520


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
    # logins and tools share a server
    assert books["ldap://ds2.example.com"]["bind"] == (
        totals["logins.login-bind"]["sent"] + 1520 + 24 + 2
    )
    assert result_of(summary)["books"]["ldap://ds1.example.com"]["bind"] == {
        "agents": 26
    }


def test_books_count_requests_where_an_operation_takes_several() -> None:
    summary = _books_of(
        [
            changed(one, requests=3 * one.sent)
            for one in next(workload_intervals()).operations
            if one.operation == "login-bind"
        ]
    )
    assert summary["ldap://ds2.example.com"]["bind"] == 3 * 90 + 4


def _books_of(operations: list[Any]) -> dict[str, dict[str, int]]:
    with Store.open("sqlite://") as store:
        record: RunRecord = store.run(fill_workload(store))
    interval = replace(_through(0), operations=tuple(operations), streams=())
    with Store.open("sqlite://") as store:
        store.create_run(record)
        add_interval(store, record.run_id, interval)
        collected = collect_run(
            store,
            record,
            Plan(record.plan),
            extent(store, record.run_id),
            [],
            Validity(),
        )
    manifest = {"control_operations": {"ldap://ds2.example.com": {"bind": 4}}}
    books = sent_requests(replace(record, manifest=manifest), collected)
    return {account: dict(book) for account, book in books.items()}


def test_the_servers_of_a_role_are_one_account() -> None:
    uris = ["ldap://a.example.com", "ldap://b.example.com"]
    scenario = Scenario(
        streams={"readers": {"uris": uris}, "writers": {"uris": uris[:1]}},
        run={"manifest": {"control_operations": {uris[1]: {"search": 2}}}},
    )
    with Store.open("sqlite://") as store:
        summary = summarise(store, fill(store, scenario))
    searches = operation(summary, "readers.search").totals["sent"]
    assert summary.sent_requests["replica"] == {"search": searches + 2}
    assert summary.sent_requests[uris[0]].keys() == {"modify"}


def test_the_report_of_a_workload_is_as_reviewed(
    summary: Summary, golden: Compare
) -> None:
    golden("report_workload.txt", render_text(document(summary)))


def test_its_result_follows_the_schema_and_its_charts_can_be_drawn(
    summary: Summary,
) -> None:
    Draft202012Validator(result_schema()).validate(result_of(summary))
    places = document(summary).charts()
    assert draw(summary, places).keys() == {place.name for place in places}
    assert "The first 8 of 9 operations." in places[0].description


def test_what_has_no_response_is_not_said_to_expect_no_success(
    summary: Summary,
) -> None:
    streams = tuple(
        replace(
            stream,
            operations=tuple(
                replace(one, kind="unbind") if one.times_of == "expected" else one
                for one in stream.operations
            ),
        )
        for stream in summary.streams
    )
    said = render_text(document(replace(summary, streams=streams)))
    assert "no success is expected" in render_text(document(summary))
    assert "no success is expected" not in said
