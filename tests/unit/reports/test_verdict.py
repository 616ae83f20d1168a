# SPDX-License-Identifier: Apache-2.0
"""Every rule and threshold, broken by a run that has just that fault."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from ldapslam.jobs.fields.result_codes import code_name
from ldapslam.jobs.run_plan import plan_document
from ldapslam.reports.formats.text import render_text
from ldapslam.reports.model import Summary
from ldapslam.reports.result import result_of
from ldapslam.reports.rules import verdict
from ldapslam.reports.rules.rules import RULES
from ldapslam.reports.sections.report_document import document
from ldapslam.results.histogram import Histogram
from support.figures import value_of
from support.histograms import packed_of
from support.intervals import Interval
from support.result_schema import valid_result
from support.rows import OperationRow
from support.store import (
    Scenario,
    changed,
    intervals,
    rule_of,
    run_record,
    steady,
    summary_of,
)

HOUR_NS = 3_600_000_000_000
FAST = "readers.search.throughput > 1000000/s"
Edit = Callable[[Interval], Interval]


def broken(summary: Summary) -> dict[str, str]:
    return {rule.name: rule.observed for rule in summary.rules if not rule.passed}


def on_operations(stream: str, change: Callable[[OperationRow], OperationRow]) -> Edit:
    def edit(record: Interval) -> Interval:
        operations = tuple(
            change(one) if one.stream == stream else one for one in record.operations
        )
        return replace(record, operations=operations)

    return edit


def on_workers(**shares: float) -> Edit:
    """Workers whose figures are shares of the interval."""

    def edit(record: Interval) -> Interval:
        changes = {f"{name}_ns": int(v * 1e9) for name, v in shares.items()}
        workers = tuple(changed(worker, **changes) for worker in record.workers)
        return replace(record, workers=workers)

    return edit


def on_host(**values: float) -> Edit:
    def edit(record: Interval) -> Interval:
        host = record.host and changed(record.host, **values)
        return replace(record, host=host)

    return edit


def on_stream(stream: str, **changes: int) -> Edit:
    def edit(record: Interval) -> Interval:
        streams = tuple(
            changed(one, **changes) if one.stream == stream else one
            for one in record.streams
        )
        return replace(record, streams=streams)

    return edit


def count_more(**more: int) -> Callable[[OperationRow], OperationRow]:
    def change(one: OperationRow) -> OperationRow:
        values = {name: getattr(one, name) + n for name, n in more.items()}
        return changed(one, **values)

    return change


def nothing(one: OperationRow) -> OperationRow:
    return OperationRow(
        stream=one.stream, operation=one.operation, measured=one.measured
    )


def with_histogram(
    metric: str, values_ns: list[int]
) -> Callable[[OperationRow], OperationRow]:
    packed = packed_of(values_ns)

    def change(one: OperationRow) -> OperationRow:
        histograms = {**one.histograms, (metric, "succeeded"): packed}
        return changed(one, histograms=histograms)

    return change


def test_a_healthy_run_passes_and_every_rule_has_its_line() -> None:
    summary = summary_of(Scenario())
    assert broken(summary) == {}
    assert (summary.verdict, summary.reasons) == ("PASS", ())
    assert len(summary.rules) == len(RULES)
    assert len({rule.name for rule in summary.rules}) == len(RULES)
    assert all(rule.limit and rule.observed for rule in summary.rules)


@dataclass(frozen=True)
class Case:
    """A run that breaks rules; `relaxed`: limits of the job under which it does not."""

    scenario: Scenario
    observed: dict[str, str | None]
    relaxed: dict[str, str] = field(default_factory=dict)


def late(stream: str, metric: str, *lags_ns: int, **more: int) -> Scenario:
    """A run in which these are the lags of the stream's requests."""
    lag, count = with_histogram(metric, list(lags_ns)), count_more(**more)
    return Scenario(edit=on_operations(stream, lambda one: count(lag(one))))


def counted(stream: str, **more: int) -> Scenario:
    """A run in which the stream's operations count more."""
    return Scenario(edit=on_operations(stream, count_more(**more)))


def disturbed(what: str, agent: str = "load1") -> dict[str, str | None]:
    share = f"100.0% of intervals ({agent}): {what} in 100.0%"
    return {"generator_disturbed": share}


#: A run that load1 and load2 ended after six of ten intervals.
SHORT = frozenset((agent, n) for agent in ("load1", "load2") for n in range(6, 10))

CASES = {
    "cancelled, and what was not reached is not due": Case(
        Scenario(run={"state": "cancelled", "state_detail": "by ana"}, lost=SHORT),
        {"run_completed": "cancelled: by ana"},
    ),
    "an agent never reported": Case(
        Scenario(run={"agents": ("load1", "load2", "load3")}),
        {
            "agents_present": "2 of 3, not load3",
            # the drain among them
            "intervals_complete": "11 of load3; 33.33% of those measured",
            "clock_offset": "unknown of load3",
        },
    ),
    "no agent was planned": Case(
        Scenario(run={"agents": ()}), {"agents_present": "0 of 0"}
    ),
    "intervals lost": Case(
        Scenario(lost=frozenset({("load1", 4), ("load2", 4), ("load2", 7)})),
        {"intervals_complete": "1 of load1, 2 of load2; 25% of those measured"},
        {"missing_intervals": "30%"},
    ),
    "drain never reported": Case(
        Scenario(edit=lambda record: replace(record, final=False)),
        {"intervals_complete": "1 of load1, 1 of load2"},
    ),
    "nothing was sent": Case(
        Scenario(thresholds=(), edit=on_operations("writers", nothing)),
        {
            "data_present": "none: writers.modify",
            "plan_followed": "0 of 900 of writers",
        },
    ),
    "an end before the count": Case(
        Scenario(
            streams={"readers": {"count": 1}, "writers": {"count": 100_000}},
            lost=frozenset({("load1", 9), ("load2", 9)}),
            thresholds=(),
            # the last interval came in place of the tenth that was planned
            edit=lambda record: replace(record, index=9) if record.final else record,
        ),
        {"counts_reached": None},
    ),
    "a host without ports": Case(
        Scenario(
            streams={"readers": {"connections": 24}},
            # of two agents, in the first of them 1.2 % of the time
            edit=on_stream(
                "readers",
                connect_failures=3,
                refused=2,
                no_port=1,
                unable_ns=144_000_000,
            ),
        ),
        {
            "connections_made": "1.2% of readers: 20 no local port was left "
            "(EADDRNOTAVAIL)"
        },
    ),
    "fewer arrivals than planned": Case(
        Scenario(streams={"writers": {"profile": steady(10_000, 10 * 10**9)}}),
        {"plan_followed": "956 of 60,000 of writers"},
        {"plan_deviation": "99%"},
    ),
    "send lag above a tenth of the response time": Case(
        late("writers", "send_lag", *[4_000_000] * 100),
        {"send_lag": "4 ms of writers, limit 3.707 ms"},
        {"send_lag_p99": "5ms"},
    ),
    "send lag of the first stream alone": Case(
        late("readers", "send_lag", *[40_000_000] * 100),
        {"send_lag": "40 ms of readers, limit 1 ms"},
    ),
    "requests without an answer excuse no send lag": Case(
        late(
            "writers",
            "send_lag",
            *[4_000_000] * 100,
            scheduled=50,
            sent=50,
            timed_out=50,
        ),
        {"send_lag": None},
    ),
    "a stall that no percentile shows": Case(
        late("readers", "receive_lag", *[5_000] * 10**5, 300_000_000),
        disturbed("stood still"),
        {"stall": "1s"},
    ),
    "busy workers": Case(
        Scenario(busy_share=0.99),
        disturbed("a worker was busy throughout", "load2"),
        {"busy_share": "100%"},
    ),
    "workers waited for a CPU": Case(
        Scenario(edit=on_workers(run_queue=0.4)),
        disturbed("waited for a CPU"),
        {"run_queue_share": "50%"},
    ),
    "clock offset known too roughly": Case(
        Scenario(facts={"clock_offset_bound_us": 6_000.0}),
        {"clock_offset": "±6 ms (load1)"},
        {"clock_offset": "7ms"},
    ),
    "clocks drifted apart": Case(
        Scenario(facts={"clock_offset_bound_us": 1_000.0, "clock_drift_us": 4_500.0}),
        {"clock_offset": "±5.5 ms (load1)"},
    ),
    "clock offset unknown": Case(
        Scenario(facts={"clock_offset_bound_us": None}),
        {"clock_offset": "unknown of load1, load2"},
    ),
    "clock stepped back": Case(
        Scenario(edit=lambda record: replace(record, clock_step_ns=-2_000_000)),
        {"clock_step": "2 ms (load1)"},
    ),
    "longer than an hour": Case(
        late("readers", "response_time", 1_000_000, 2 * HOUR_NS),
        {"histogram_overflow": "20 of readers.search"},
    ),
    "stolen from": Case(
        Scenario(edit=on_host(steal_share=0.6)), disturbed("CPU time was stolen")
    ),
    "throttled": Case(
        Scenario(edit=on_host(throttled_ns=650_000_000)), disturbed("was throttled")
    ),
    "clients waited for the generator": Case(
        late("readers", "receive_lag", *[20_000_000] * 400), {"loop_share": None}
    ),
    "an arrival unaccounted for": Case(
        counted("writers", scheduled=1), {"arrivals_balance": None}
    ),
    "a request unaccounted for": Case(
        counted("readers", scheduled=1, sent=1), {"requests_balance": None}
    ),
    "a response unaccounted for": Case(
        counted("readers", scheduled=1, sent=1, completed=1),
        {"responses_balance": None},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_fault_breaks_its_rule_and_makes_the_run_invalid(case: Case) -> None:
    summary = summary_of(case.scenario)
    observed = broken(summary)
    assert observed.keys() == case.observed.keys()
    for name, text in case.observed.items():
        assert text is None or observed[name] == text
    assert summary.verdict == "INVALID"
    assert len(summary.reasons) >= len(observed)
    if case.relaxed:
        relaxed = replace(case.scenario, plan={"validity": case.relaxed})
        assert broken(summary_of(relaxed)) == {}


#: Broken in test_reconciliation.py, test_replication.py and test_steady.py.
OF_SERVERS = {"books", "replication", "server_restarted", "steady"}


def test_every_rule_has_a_run_that_breaks_it() -> None:
    names = {name for case in CASES.values() for name in case.observed}
    assert names | OF_SERVERS == {rule.name for rule in summary_of(Scenario()).rules}


@pytest.mark.parametrize(
    ("indexes", "is_broken"),
    [({5, 6}, False), ({5, 6, 7}, True), ({0, 1, 2}, False)],
    ids=["a tenth", "more", "before the measure phase"],
)
def test_some_disturbed_intervals_are_tolerated(
    indexes: set[int], *, is_broken: bool
) -> None:
    """The measure phase has 20 intervals, 3 to 22."""
    busy = on_workers(busy=0.99)
    scenario = Scenario(
        measure_s=20,
        edit=lambda record: busy(record) if record.index in indexes else record,
    )
    assert ("generator_disturbed" in broken(summary_of(scenario))) is is_broken


@pytest.mark.parametrize(
    ("at_least", "undrained", "verdict", "reason"),
    [
        (1_000_000, "", "FAIL", "threshold failed: "),
        (1, "", "INVALID", "a threshold ended the run"),
        # what it had under way is counted nowhere
        (1_000_000, "load1", "INVALID", "intervals are missing"),
    ],
)
def test_a_run_that_a_threshold_ended_is_judged_by_what_was_measured(
    at_least: int, undrained: str, verdict: str, reason: str
) -> None:
    ended = {
        "state": "aborted",
        "manifest": {"ending": {"drained_ns": 6_500_000_000}},
    }
    scenario = Scenario(
        run=ended, thresholds=(f"readers.search.throughput > {at_least}/s",)
    )
    records = [
        record
        for record in intervals(scenario)
        if (record.index < 7 or record.final)
        and not (record.final and record.agent == undrained)
    ]
    summary = summary_of(scenario, records)
    assert "run_completed" not in broken(summary)
    assert ("intervals_complete" in broken(summary)) is bool(undrained)
    assert summary.verdict == verdict
    assert summary.reasons[0].startswith(reason)


def test_rules_of_open_streams_have_nothing_to_check_in_a_closed_loop() -> None:
    def only_readers(record: Interval) -> Interval:
        kept = tuple(one for one in record.operations if one.stream == "readers")
        return replace(record, operations=kept)

    plan = plan_document(run_record(Scenario()).plan)
    readers = [one for one in plan["streams"] if one["name"] == "readers"]
    summary = summary_of(
        Scenario(thresholds=(), plan={"streams": readers}, edit=only_readers)
    )
    assert rule_of(summary, "plan_followed") == (True, "nothing to check")
    assert summary.verdict == "PASS"


def test_a_percentile_below_the_requests_without_an_answer_can_be_met() -> None:
    thresholds = "readers.search.response_time.p50 < 1h", "*.*.errors < 5%"
    summary = summary_of(Scenario(timed_out=12, thresholds=thresholds))
    assert summary.verdict == "PASS"


@pytest.mark.parametrize(
    ("lags_ns", "observed"),
    [
        # some are late, but no p99 says so, and what is supported is on time
        ([0] * 19 + [6_000_000], "0.131 ms of writers (p95), limit 1 ms"),
        ([6_000_000] * 2, "6 ms of writers (p50), limit 1 ms"),
        ([6_000_000], "0.0175 ms of readers, limit 1 ms"),
    ],
)
def test_send_lag_is_judged_by_a_percentile_that_is_supported(
    lags_ns: list[int], observed: str
) -> None:
    summary = summary_of(late("writers", "send_lag", *lags_ns))
    assert rule_of(summary, "send_lag")[1] == observed


@pytest.mark.parametrize(
    ("facts", "capability", "remedy"),
    [
        ({}, "", "find what else runs on its host"),
        (
            {"realtime": False, "shares_host_with_target": True},
            ", CAP_SYS_NICE",
            "the server runs on its host too: move the agent, or lower the load",
        ),
    ],
)
def test_a_remedy_is_not_what_the_agents_have_already(
    facts: dict[str, Any], capability: str, remedy: str
) -> None:
    scenario = replace(
        late("writers", "send_lag", *[4_000_000] * 100),
        facts=facts,
        busy_share=0.99,
        thresholds=(FAST,),
    )
    summary = summary_of(scenario)
    rules = {rule.name: rule.remedy for rule in summary.rules}
    own = "give agents CPUs of their own"
    assert rules["send_lag"] == own + capability.replace(",", ", and")
    assert rules["generator_disturbed"].startswith(remedy)
    assert summary.thresholds[0].reason.endswith(f"{own}{capability}, or more agents)")


def test_what_a_probe_observes_dilutes_no_share_and_its_marks_may_be_late() -> None:
    """Nobody sends an observation, and it is timed from when its mark was sent."""
    is_late = with_histogram("send_lag", [4_000_000] * 100)
    dropped = count_more(scheduled=5, dropped=5)
    at_once = with_histogram("send_lag", [0] * 20_000)

    def observed(modify: OperationRow) -> OperationRow:
        many: Any = {
            counter: 10 * getattr(modify, counter)
            for counter in ("scheduled", "sent", "completed", "succeeded", "failed")
        }
        return changed(at_once(modify), operation="propagation", **many)

    def edit(record: Interval) -> Interval:
        written = [one for one in record.operations if one.stream == "writers"]
        edited = on_operations("writers", lambda one: dropped(is_late(one)))(record)
        operations = (*edited.operations, *map(observed, written))
        return replace(record, operations=operations)

    watching = {"watched": {"propagation": "ldap://ds2.example.com"}}
    summary = summary_of(Scenario(streams={"writers": watching}, edit=edit))
    assert broken(summary) == {}
    assert summary.reasons[0].startswith("threshold failed: writers.*.errors < 1%, was")
    assert "no connection was free: 5." in summary.reasons[0]


def failing(one: OperationRow) -> OperationRow:
    return changed(one, succeeded=0, failed=one.completed, entries=0, empty=0)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (failing, "(needs successful requests)"),
        (nothing, "(needs requests in the measure phase)"),
    ],
)
def test_requests_none_of_which_succeeded_were_sent_all_the_same(
    change: Callable[[OperationRow], OperationRow], reason: str
) -> None:
    """The share of empty answers is a share of the successful ones."""
    thresholds = ("readers.search.empty < 1%",)
    scenario = Scenario(thresholds=thresholds, edit=on_operations("readers", change))
    assert summary_of(scenario).thresholds[0].reason.endswith(reason)


def test_evidence_that_does_not_add_up_outranks_a_missed_threshold() -> None:
    summary = summary_of(replace(counted("writers", scheduled=1), thresholds=(FAST,)))
    assert summary.verdict == "INVALID"
    assert summary.reasons[0].startswith("arrivals are not accounted for")
    assert summary.reasons[-1].startswith("threshold failed")


def test_the_run_is_as_long_as_its_longest_count() -> None:
    def elapsed(**counts: int) -> Any:
        streams = {name: {"count": count} for name, count in counts.items()}
        figures = result_of(summary_of(Scenario(streams=streams)))["figures"]
        return figures["run.elapsed"], figures["writers.*.elapsed"]

    of_run, _ = elapsed()
    assert of_run["value"] == 6e6  # the measure phase
    of_run, of_stream = elapsed(writers=1)
    assert of_run["value"] == of_stream["value"] > 6e6
    of_run, of_stream = elapsed(writers=10**6, readers=1)
    assert (of_run["value"], of_stream["value"]) == (None, None)
    assert of_run["needs"] == of_stream["needs"]


def test_a_generator_at_fault_leaves_rates_open_but_not_result_codes() -> None:
    busy = Scenario(thresholds=(FAST,), busy_share=0.99)
    summary = summary_of(busy)
    assert summary.verdict == "INVALID"
    assert summary.thresholds[0].outcome == "uncertain"
    rate = result_of(summary)["figures"]["run.throughput"]
    assert rate["limited_by"][-1] == "the generator was at fault"
    failing = summary_of(replace(busy, failing=0.9, thresholds=()))
    assert failing.verdict == "FAIL"
    assert "noSuchObject" in failing.reasons[0]
    assert failing.reasons[1].startswith("an agent was disturbed")


@pytest.mark.parametrize(
    ("codes", "remedy"),
    [
        ({50: 3, 51: 1}, "cn=admin,dc=example,dc=com may not do that: change"),
        ({51: 3, 50: 1}, "the server has too much to do"),
        ({49: 3}, "check the bind's `dn`"),
        ({32: 3}, "the entry is not there, or cn=admin,dc=example,dc=com may not see"),
        ({80: 3}, ""),
    ],
)
def test_a_fail_by_result_codes_says_what_to_do_about_the_usual_one(
    codes: dict[int, int], remedy: str
) -> None:
    def all_failed(one: OperationRow) -> OperationRow:
        done, parts = one.completed, sum(codes.values())
        counts = {code: done * part // parts for code, part in codes.items()}
        counts[max(codes, key=codes.__getitem__)] += done - sum(counts.values())
        said = {max(codes, key=codes.__getitem__): "not\u202e you"}
        spoilt = changed(one, succeeded=0, failed=done, result_codes=counts)
        return changed(spoilt, diagnostic_messages=said)

    summary = summary_of(Scenario(failing=0, edit=on_operations("writers", all_failed)))
    reason = next(one for one in summary.reasons if "errors" in one)
    details = reason.partition("(")[2]
    assert remedy in details
    usual = code_name(max(codes, key=codes.__getitem__))
    assert rf'{usual} ("not\u202e you")' in details
    assert (";" in details) is bool(remedy)


def test_a_busy_host_is_a_caution_and_changes_no_verdict() -> None:
    summary = summary_of(
        Scenario(agents=("load1",), edit=on_host(cpu_utilisation=0.99))
    )
    assert summary.verdict == "PASS"
    (caution,) = (one for one in document(summary).cautions if "CPUs" in one)
    assert caution.startswith("The host of agent load1 had its CPUs 99% busy")


@pytest.mark.parametrize(("last_s", "is_noted"), [(3.5, True), (8.5, False)])
def test_a_count_that_was_had_in_a_moment_is_noted(
    last_s: float, is_noted: bool
) -> None:
    """The measure phase begins after 3 s."""
    streams = summary_of(Scenario()).streams
    writers = next(one for one in streams if one.name == "writers")
    sent = sum(one.totals["scheduled"] for one in writers.operations)
    edit = on_stream("writers", last_done_ns=int(last_s * 1e9))
    scenario = Scenario(streams={"writers": {"count": sent}}, thresholds=(), edit=edit)
    notes = summary_of(scenario).notes
    told = "writers was measured for 0.5 s"
    assert is_noted is any(told in note for note in notes)


@pytest.mark.parametrize(("factor", "is_noted"), [(1.2, False), (2.0, True)])
def test_agents_that_disagree_are_noted(factor: float, is_noted: bool) -> None:
    """Their medians, of readers.search; of the writers there are too few requests."""

    def edit(record: Interval) -> Interval:
        ms = 2.0 * (factor if record.agent == "load2" else 1.0)
        times = with_histogram("response_time", [int(ms * 1e6)] * 200)
        return on_operations("readers", times)(record)

    notes = summary_of(Scenario(edit=edit)).notes
    found = [note for note in notes if note.startswith("agents disagree")]
    assert bool(found) is is_noted
    if is_noted:
        assert "readers.search: its response time p50 is at most 2.0" in found[0]
        assert "ms at load1 and at least 4.0" in found[0]


@pytest.mark.parametrize(
    ("others", "found"),
    [
        ({}, "at least 10.0"),
        # neither its fast half nor its slow half hides what the others say
        ({"c": [0.9] * 36 + [40.0] * 34}, "at least 10.0"),
        # more had no answer than had one
        ({"b": [10.0] * 100 + [math.nan] * 200}, "at least 10.0"),
        ({"b": [1.2] * 600}, ""),
        # of few requests no median is known well enough
        ({"b": [1.3] * 30 + [0.9] * 30}, ""),
    ],
)
def test_medians_disagree_where_their_intervals_lie_apart(
    others: dict[str, list[float]], found: str
) -> None:
    sides = {"a": [1.0] * 20_000, "b": [10.0] * 600, **others}
    times = {}
    for name, each_ms in sides.items():
        values = np.array(each_ms)
        answered = values[~np.isnan(values)]
        times[name] = Histogram.merge([packed_of((answered * 1e6).astype(np.int64))])
        times[name].unanswered = int(np.isnan(values).sum())
    told = verdict._disagreement(times)
    assert found in told
    assert bool(told) is bool(found)


def test_servers_of_a_role_have_figures_and_may_disagree() -> None:
    uris = ["ldap://ds2.example.com", "ldap://ds3.example.com"]

    def edit(record: Interval) -> Interval:
        one = next((o for o in record.operations if o.stream == "readers"), None)
        if one is None:
            return record
        rest = [o for o in record.operations if o.stream != "readers"]
        sent = [
            with_histogram("service_time", [ms * 1_000_000] * one.completed)(
                changed(one, server=uri, scheduled=0)
            )
            for uri, ms in zip(uris, (2, 5), strict=True)
        ]
        unsent = OperationRow(
            stream=one.stream,
            operation=one.operation,
            measured=one.measured,
            scheduled=2 * one.scheduled,
        )
        return replace(record, operations=(unsent, *sent, *rest))

    summary = summary_of(Scenario(streams={"readers": {"uris": uris}}, edit=edit))
    assert "intervals_complete" not in broken(summary)
    one = next(one for one in summary.operations if one.stream == "readers")
    assert [server.uri for server in one.servers] == uris
    content = valid_result(summary)
    streams = content["streams"]
    result = streams["readers"]["search"]
    for uri, us in zip(uris, (2_000, 5_000), strict=True):
        found = result["servers"][uri]
        assert found["sent"] * 2 == result["sent"]
        assert found["throughput_per_s"] * 2 == pytest.approx(
            value_of(content, "readers.search.throughput"), abs=0.01
        )
        assert found["service_time_us"]["p50"] == pytest.approx(us, rel=0.001)
    assert "servers" not in streams["writers"]["modify"]
    [note] = [note for note in summary.notes if note.startswith("servers disagree")]
    assert "readers.search: its service time p50 is at most 2.0" in note
    assert "ms at ldap://ds2.example.com and at least 5.0" in note
    assert "readers.search, by server" in render_text(document(summary))
