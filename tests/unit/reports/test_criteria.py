# SPDX-License-Identifier: Apache-2.0
"""Thresholds against ranges: what is met, missed, or left open, and why."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from ldapslam.base.units import parse_duration
from ldapslam.jobs.run_plan import plan_of
from ldapslam.proto.common_pb2 import OperationInterval, StreamInterval
from ldapslam.reports.model import Summary
from ldapslam.reports.result import result_of
from ldapslam.reports.rules.criteria import ThresholdResult
from ldapslam.reports.rules.operation_range import Outcome
from ldapslam.reports.summarise import summarise
from ldapslam.results.monitor_rows import add_monitor_samples, describe_monitors
from ldapslam.results.records import (
    Metric,
    MonitorDescription,
    MonitorSample,
    RunRecord,
)
from ldapslam.results.store import Store
from support.histograms import histogram_messages, packed_of
from support.intervals import Interval, add_intervals
from support.plans import changed_plan
from support.result_schema import result_schema
from support.store import (
    NS_PER_S,
    RUN_ID,
    Scenario,
    agent_facts,
    changed,
    run_record,
    steady,
)

MS = 1_000_000
SECONDS = 20
#: Of one agent, each second.
REQUESTS = 500

Times = dict[str, Any]


def times(second: int) -> Times:
    """1 ms to 3 ms for each request, another each time; nothing is late."""
    service = np.random.default_rng(second).uniform(1 * MS, 3 * MS, REQUESTS)
    return {"service": service, "lag": np.zeros(REQUESTS)}


def nothing_else(store: Store) -> None:
    pass


def summary_of(
    *thresholds: str,
    change: Callable[[int, Times], Times] = lambda _, found: found,
    stream: dict[str, Any] | None = None,
    lost: frozenset[int] = frozenset(),
    state: dict[int, dict[str, int]] | None = None,
    validity: dict[str, Any] | None = None,
    plan: dict[str, Any] | None = None,
    manifest: dict[str, Any] | None = None,
    add: Callable[[Store], None] = nothing_else,
) -> Summary:
    """A run of one search in an open loop; `change` (second, times) gives times in ns,
    and other counters. `state`: second -> gauges of the stream; `add` adds more."""
    run = _run(thresholds, stream or {}, validity or {})
    run = replace(
        run,
        plan=changed_plan(run.plan, **(plan or {})),
        manifest={**run.manifest, **(manifest or {})},
    )
    with Store.open("sqlite://") as store:
        store.create_run(run)
        store.put_agent(run.run_id, "load1", agent_facts(0, Scenario()))
        records = [
            _record(
                second, change(second, times(second)), (state or {}).get(second, {})
            )
            for second in range(SECONDS)
            if second not in lost
        ]
        add_intervals(store, run.run_id, [*records, _drain()])
        add(store)
        return summarise(store, run.run_id)


def _run(
    thresholds: tuple[str, ...], stream: dict[str, Any], validity: dict[str, Any]
) -> RunRecord:
    record = run_record(Scenario(agents=("load1",)))
    planned = {
        "name": "load",
        "target": "replica",
        "model": "open",
        "profile": steady(REQUESTS, SECONDS * NS_PER_S),
        "connections": 10,
        "operations": [{"name": "search", "kind": "search"}],
        **stream,
    }
    phase = {"name": "measure", "start_ns": 0, "end_ns": SECONDS * NS_PER_S}
    plan = {
        "phases": [phase],
        "boundaries_ns": [n * NS_PER_S for n in range(1, SECONDS + 1)],
        "streams": [planned],
        "validity": validity,
        "thresholds": list(thresholds),
    }
    return replace(record, plan=plan_of(plan))


def _record(second: int, found: Times, gauges: dict[str, int]) -> Interval:
    service, lag = np.asarray(found["service"]), np.asarray(found["lag"])
    # server -> its share of the requests, slower by a factor
    servers: dict[str, tuple[float, float]] = found.get("servers", {"": (1.0, 1.0)})
    operations, begin = [], 0
    for server, (share, factor) in servers.items():
        end = begin + round(share * len(service))
        operations.append(
            _operation(found, service[begin:end] * factor, lag[begin:end], server)
        )
        begin = end
    if other := found.get("rare"):
        operations.append(_operation(other, other["service"], other["lag"], "", "rare"))
    return Interval(
        agent="load1",
        attempt=1,
        sequence=second,
        index=second,
        phase="measure",
        start_ns=second * NS_PER_S,
        end_ns=(second + 1) * NS_PER_S,
        operations=tuple(operations),
        streams=(changed(StreamInterval(stream="load"), **gauges),),
    )


def _operation(
    found: Times, service: Any, lag: Any, server: str, name: str = "search"
) -> OperationInterval:
    counts: dict[str, Any] = {
        name: int(found.get(name, 0))
        for name in ("failed", "dropped", "timed_out", "unresolved", "empty")
    }
    sent = len(service) + sum(
        counts[name] for name in ("failed", "timed_out", "unresolved")
    )
    packed = {
        "response_time": service + lag,
        "service_time": service,
        "send_lag": lag,
        "receive_lag": found.get("receive_lag", np.zeros(1)),
    }
    return OperationInterval(
        stream="load",
        operation=name,
        server=server,
        measured=True,
        scheduled=sent + counts["dropped"],
        sent=sent,
        completed=len(service) + counts["failed"],
        succeeded=len(service),
        entries=len(service),
        result_codes={0: len(service), found.get("code", 51): counts["failed"]},
        histograms=histogram_messages(
            {
                (metric, "succeeded"): packed_of(values.astype(np.int64))
                for metric, values in packed.items()
                if len(values)
            }
        ),
        **counts,
    )


def _drain() -> Interval:
    return Interval(
        agent="load1",
        attempt=1,
        sequence=SECONDS,
        index=SECONDS,
        phase="drain",
        start_ns=SECONDS * NS_PER_S,
        end_ns=SECONDS * NS_PER_S + MS,
        final=True,
    )


def late(share: float, by_ms: float) -> Callable[[int, Times], Times]:
    def change(_: int, found: Times) -> Times:
        lag = np.zeros(REQUESTS)
        lag[: round(share * REQUESTS)] = by_ms * MS
        return {**found, "lag": lag}

    return change


def more(**counts: Any) -> Callable[[int, Times], Times]:
    return lambda _, found: {**found, **counts}


def instead(**counts: int) -> Callable[[int, Times], Times]:
    """Of the requests, not beside them."""

    def change(_: int, found: Times) -> Times:
        kept = found["service"][sum(counts.values()) :]
        return {"service": kept, "lag": np.zeros(len(kept)), **counts}

    return change


def slow(share: float, to_ms: float) -> Callable[[int, Times], Times]:
    def change(_: int, found: Times) -> Times:
        service = found["service"].copy()
        service[: round(share * REQUESTS)] = to_ms * MS
        return {**found, "service": service}

    return change


def in_seconds(
    seconds: set[int], change: Callable[[int, Times], Times]
) -> Callable[[int, Times], Times]:
    return lambda second, found: change(second, found) if second in seconds else found


NOTHING = {"service": np.zeros(0), "lag": np.zeros(0)}
P99, P999 = (
    "load.search.response_time.p99 < 5ms",
    "load.search.response_time.p99.9 < 5ms",
)


@pytest.mark.parametrize(
    ("threshold", "change", "verdict", "says"),
    [
        pytest.param(P99, None, "PASS", "", id="healthy"),
        pytest.param(P99, slow(0.05, 6), "FAIL", "5% of requests ≥ 5ms", id="slow"),
        pytest.param(P99, slow(0.01, 6), "INVALID", "a longer run", id="on the edge"),
        # what the generator did
        pytest.param(P999, late(0.008, 150), "INVALID", "were sent late", id="late"),
        pytest.param(P99, late(0.008, 150), "PASS", "", id="late, but few"),
        pytest.param(P99, late(1.0, 0.5), "PASS", "", id="all a little late"),
        pytest.param(
            "load.search.response_time.p99 < 3ms",
            late(1.0, 0.5),
            "INVALID",
            "were sent late",
            id="late by what matters",
        ),
        pytest.param(
            P99,
            in_seconds({3}, more(receive_lag=np.full(1, 300 * MS))),
            "PASS",
            "",
            id="stood still, which cannot matter",
        ),
        pytest.param(
            P99,
            in_seconds(
                {3},
                lambda second, found: {
                    **slow(0.3, 8)(second, found),
                    "receive_lag": np.full(1, 300 * MS),
                },
            ),
            "INVALID",
            "while the generator was disturbed",
            id="slow only when it stood still",
        ),
        # what the directory did
        pytest.param(
            P99, instead(failed=10), "FAIL", "200 busy", id="failures are not fast"
        ),
        pytest.param(
            P99, instead(dropped=50), "FAIL", "overloaded: 10%", id="overload"
        ),
        pytest.param(P99, instead(timed_out=25), "FAIL", "timed out", id="time-outs"),
        pytest.param(
            "load.search.response_time.mean < 5ms",
            instead(timed_out=25),
            "FAIL",
            "n/a",
            id="mean of time-outs",
        ),
        # other figures
        pytest.param("load.search.throughput > 490/s", None, "PASS", "", id="rate"),
        pytest.param(
            "load.search.throughput > 510/s", None, "FAIL", "was 500", id="slow"
        ),
        pytest.param(
            "load.search.response_time.mean < 2.5ms", None, "PASS", "", id="mean"
        ),
        pytest.param(
            "load.search.response_time.mean < 1.5ms", None, "FAIL", "2.00", id="mean"
        ),
        pytest.param(
            "load.search.response_time.mean < 2ms",
            None,
            "INVALID",
            "a longer run",
            id="mean on the edge",
        ),
        pytest.param(
            "load.search.errors <= 0%", None, "PASS", "", id="no error at all"
        ),
        pytest.param(
            "load.search.errors <= 0%",
            in_seconds({3}, more(failed=1)),
            "FAIL",
            "1 busy",
            id="one error",
        ),
    ],
)
def test_a_threshold_is_judged_over_its_range(
    threshold: str,
    change: Callable[[int, Times], Times] | None,
    verdict: str,
    says: str,
) -> None:
    summary = summary_of(threshold, change=change or (lambda _, found: found))
    assert summary.verdict == verdict, summary.reasons
    assert says in "; ".join(summary.reasons)


@pytest.mark.parametrize(
    ("threshold", "of", "unit", "comparison", "limit"),
    [
        (P99, "load.search", "us", "<", 5000),
        ("p99 <= 5ms", "load.search", "us", "<=", 5000),
        ("search.p99 < 5ms for 2s", "load.search", "s", "<", 2),
        ("throughput > 1/s", "load.search", "per_s", ">", 1),
        ("errors < 1%", "load.search", "share", "<", 0.01),
        ("outage.total >= 0s", "load", "us", ">=", 0),
        ("server.search.per_sent < 2", "", "1", "<", 2),
        ("replication.after < 1s", "", "s", "<", 1),
        ("directory(db).reads < 1k/s", "", "per_s", "<", 1000),
    ],
)
def test_programs_find_what_a_threshold_compares(
    threshold: str, of: str, unit: str, comparison: str, limit: float
) -> None:
    found = result_of(summary_of(threshold))
    assert not list(Draft202012Validator(result_schema()).iter_errors(found))
    first = found["thresholds"][0]
    names = ("of", "unit", "comparison", "limit")
    assert tuple(first[name] for name in names) == (of, unit, comparison, limit)


def test_missing_intervals_are_the_worst_case() -> None:
    lenient = {"missing_intervals": "10%"}
    lost = frozenset({4})
    share = "*.*.outage.share < 10%"
    sure = summary_of("load.search.errors < 10%", share, lost=lost, validity=lenient)
    assert sure.verdict == "PASS"
    unsure = summary_of(P99, lost=lost, validity=lenient)
    assert unsure.verdict == "INVALID"
    assert "5% of the intervals are missing" in unsure.reasons[0]
    outcomes = {one.expression: one.outcome for one in unsure.thresholds}
    assert outcomes[P99] is outcomes["*.*.errors < 1%"] is Outcome.UNCERTAIN
    missed = summary_of(P99, lost=lost, validity=lenient, change=slow(0.5, 9))
    assert missed.verdict == "FAIL"


def test_the_jobs_own_thresholds_stand_instead_of_the_default_ones() -> None:
    failing = more(failed=20)
    assert summary_of(change=failing).verdict == "FAIL"
    own = summary_of("load.*.errors < 10%", change=failing)
    assert own.verdict == "PASS"
    assert [one.expression for one in own.thresholds if "errors" in one.expression] == [
        "load.*.errors < 10%"
    ]


def test_a_reason_names_every_operation_that_misses_the_limit() -> None:
    def change(second: int, found: Times) -> Times:
        rare = {"service": np.zeros(0), "lag": np.zeros(0), "failed": 6, "code": 50}
        return {**instead(failed=REQUESTS)(second, found), "rare": rare}

    operations = [{"name": one, "kind": "search"} for one in ("search", "rare")]
    summary = summary_of(stream={"operations": operations}, change=change)
    reason = next(one for one in summary.reasons if "errors < 1%" in one)
    number = f"{6 * SECONDS:,} insufficientAccessRights"
    assert reason.endswith(f", and 1 more: load.rare ({number})")
    (judged,) = [one for one in summary.thresholds if "errors" in one.expression]
    assert judged.shown == "100% of load.search, and 1 more"
    met = summary_of(stream={"operations": operations})
    assert not any("more" in one.shown for one in met.thresholds)


def test_searches_that_return_nothing_fail() -> None:
    summary = summary_of(change=more(empty=REQUESTS))
    assert summary.verdict == "FAIL"
    assert "searches found nothing" in summary.reasons[0]
    assert "may its identity search each attribute" in summary.reasons[0]
    assert "leading zeros" not in summary.reasons[0]
    asked = {"name": "search", "kind": "search", "about": "(uid=user.[1-5000]) at dc=x"}
    summary = summary_of(stream={"operations": [asked]}, change=more(empty=REQUESTS))
    assert "'[1-5000]' writes no leading zeros" in summary.reasons[0]


@pytest.mark.parametrize(
    ("state", "change", "longest_s", "verdict"),
    [
        # connections are down for 10 x 0.4 s, 1 s, 0.5 s
        pytest.param(
            {3: 0.4, 4: 1.0, 5: 0.5}, None, 1.9, "FAIL", id="down for 1.9 s of 20"
        ),
        pytest.param(
            {3: 0.2, 4: 1.0, 5: 0.25},
            None,
            1.45,
            "FAIL",
            id="begins before, ends after",
        ),
        pytest.param({3: 0.1}, None, 0.0, "PASS", id="one of ten reconnects"),
    ],
)
def test_an_outage_of_connections(
    state: dict[int, float], change: Any, longest_s: float, verdict: str
) -> None:
    gauges = {
        second: {"down_ns": int(10 * share * NS_PER_S)}
        for second, share in state.items()
    }
    summary = summary_of(state=gauges)
    assert summary.streams[0].outage.longest_s == pytest.approx(longest_s)
    assert summary.verdict == verdict


def test_a_silence_while_requests_wait_is_an_outage() -> None:
    silent = in_seconds(
        {5, 6, 7}, lambda _, found: {"service": np.zeros(0), "lag": np.zeros(0)}
    )
    waiting = {second: {"in_flight": 10} for second in (4, 5, 6, 7)}
    plan = {"profile": steady(425, SECONDS * NS_PER_S)}
    summary = summary_of(change=silent, state=waiting, stream=plan)
    assert summary.verdict == "FAIL"
    assert "unavailable for 3 s from about +5 s" in summary.reasons[0]
    stopped = in_seconds({8}, more(receive_lag=np.full(1, 3_000 * MS)))
    own = summary_of(
        change=lambda second, found: stopped(second, silent(second, found)),
        state=waiting,
        stream=plan,
    )
    # the generator stood still, and says so in second 8: the server may have, too
    assert own.verdict == "INVALID"
    assert "unavailable" not in own.reasons[0]
    nearly = in_seconds({8}, more(receive_lag=np.full(1, 2_990 * MS)))
    rest = summary_of(
        change=lambda second, found: nearly(second, silent(second, found)),
        state=waiting,
        stream=plan,
    )
    # what is left is no longer than its usual responses
    assert rest.streams[0].outage.total_s == 0
    idle = summary_of(change=silent, stream=plan)  # nothing waits: there was no load
    assert idle.verdict == "PASS"


def test_lags_of_the_generator_leave_a_closed_loops_rate_open() -> None:
    closed = {"model": "closed", "clients": 10, "profile": []}
    lag = more(receive_lag=np.full(500, 8 * MS))  # 4 of 10 s of the clients
    assert summary_of("load.search.throughput > 510/s", stream=closed).verdict == "FAIL"
    unsure = summary_of("load.search.throughput > 510/s", stream=closed, change=lag)
    assert unsure.verdict == "INVALID"
    assert "lags of the generator were 40% of the clients' time" in unsure.reasons[0]


@pytest.mark.parametrize(
    ("waiting", "verdict"),
    [({19: 110}, "PASS"), ({19: 200}, "FAIL"), ({3: 9_000, 18: 9_000}, "PASS")],
)
def test_arrivals_that_wait_when_the_phase_ends_are_an_overload(
    waiting: dict[int, int], verdict: str
) -> None:
    """Beyond 1 % of 10,000 and chance; those that have waited before are in the
    response times."""
    gauges = {second: {"backlog": number} for second, number in waiting.items()}
    summary = summary_of(state=gauges)
    assert summary.verdict == verdict
    assert ("overloaded: " in "".join(summary.reasons)) == (verdict == "FAIL")
    assert summary.streams[0].unsent == waiting.get(19, 0) / (SECONDS * REQUESTS)


@pytest.mark.parametrize(("number", "share"), [(50, 0.0), (51, 0.0051)])
def test_what_chance_leaves_waiting_is_no_overload(number: int, share: float) -> None:
    """As many as a queue has by chance, where responses are slow; beyond that, their
    times have grown with the queue."""
    slow = more(service=np.full(REQUESTS, 1000.0 * MS))
    summary = summary_of(change=slow, state={19: {"backlog": number}})
    assert summary.streams[0].unsent == share


def test_arrivals_wait_also_for_a_generator_that_does_not_read() -> None:
    summary = summary_of(change=late(1, 500), state={19: {"backlog": 5_000}})
    assert summary.verdict == "INVALID"
    assert any("*.*.unsent" in reason for reason in summary.reasons)


def test_a_closed_stream_has_no_arrivals_that_wait() -> None:
    closed = {"model": "closed", "clients": 10, "profile": []}
    assert summary_of(stream=closed).streams[0].unsent is None


def test_a_silence_of_most_of_the_run_is_an_outage() -> None:
    """Then most of the responses have waited for its end."""
    silent = in_seconds(
        set(range(2, 15)),
        lambda _, found: {"service": np.zeros(0), "lag": np.zeros(0)},
    )
    burst = in_seconds(
        {15},
        lambda _, found: {"service": np.linspace(1, 13, 6500) * NS_PER_S},
    )

    def change(second: int, found: Times) -> Times:
        return {"lag": np.zeros(6500), **burst(second, silent(second, found))}

    waiting = {second: {"in_flight": 6500} for second in range(2, 15)}
    summary = summary_of(change=change, state=waiting)
    assert summary.verdict == "FAIL"
    assert any("unavailable for 13 s" in reason for reason in summary.reasons)


def stood_still(second: int) -> Callable[[int, Times], Times]:
    """The generator, for 0.9 s: ten requests are late by that."""

    def change(now: int, found: Times) -> Times:
        lag = np.zeros(REQUESTS)
        lag[:10] = 900 * MS if now == second else 0
        return {**found, "lag": lag}

    return change


def test_drops_of_a_stall_of_the_generator_are_not_the_directorys() -> None:
    still = stood_still(5)

    def change(second: int, found: Times) -> Times:
        return {**still(second, found), "dropped": 150 if second == 5 else 0}

    summary = summary_of(change=change)
    assert summary.verdict == "INVALID"
    assert "while the generator was disturbed" in "".join(summary.reasons)


def test_what_completes_in_disturbed_intervals_is_in_doubt_for_each_operation() -> None:
    """A fifth of the run, and nothing slow but there."""

    def change(second: int, found: Times) -> Times:
        slow = 100 * MS if second in (5, 6) else 0
        return {
            **stood_still(second if second in (5, 6) else -1)(second, found),
            "service": found["service"] + slow,
        }

    limit = {"disturbed_intervals": "50%", "send_lag_p99": "1s"}
    summary = summary_of("load.search.response_time.p95 < 50ms", change=change)
    assert summary.verdict == "INVALID"
    lenient = summary_of(
        "load.search.response_time.p95 < 50ms", change=change, validity=limit
    )
    assert lenient.verdict == "INVALID"
    assert "completed while the generator was disturbed" in "".join(lenient.reasons)


def test_times_are_in_doubt_as_a_whole_where_the_generator_was_disturbed() -> None:
    """In a quarter of the run; and all of it is slow."""

    def change(second: int, found: Times) -> Times:
        still = stood_still(-1 if second % 4 else second)(second, found)
        return {**still, "service": found["service"] + 100 * MS}

    threshold = "load.search.response_time.p95 < 50ms"
    summary = summary_of(threshold, change=change)
    assert summary.verdict == "INVALID"
    assert f"not certain: {threshold}" in "".join(summary.reasons)


@pytest.mark.parametrize("lost", [frozenset[int](), frozenset({10, 11, 12})])
def test_an_outage_may_lie_in_intervals_that_nobody_reported(
    lost: frozenset[int],
) -> None:
    limits = {"missing_intervals": "50%"}
    summary = summary_of(lost=lost, validity=limits)
    assert summary.verdict == ("INVALID" if lost else "PASS")


def test_an_open_loop_has_no_more_completions_than_arrivals() -> None:
    """However late they were sent."""
    late_ones = late(0.5, 20)
    summary = summary_of("load.search.throughput > 600/s", change=late_ones)
    assert "send_lag" in {rule.name for rule in summary.rules if not rule.passed}
    assert summary.verdict == "FAIL"


@pytest.mark.parametrize(
    ("limit", "verdict"), [("2ms", "INVALID"), ("10ms", "PASS"), ("200us", "FAIL")]
)
def test_fewer_than_five_intervals_tell_what_is_far_from_the_limit(
    limit: str, verdict: str
) -> None:
    ends_ns = 4 * NS_PER_S
    summary = summary_of(
        f"load.search.response_time.p50 < {limit}",
        change=in_seconds(set(range(4, SECONDS)), lambda *_: NOTHING),
        stream={"profile": steady(REQUESTS, ends_ns), "end_ns": ends_ns},
    )
    threshold = summary.thresholds[0]
    wanted = {"PASS": "met", "FAIL": "missed", "INVALID": "uncertain"}[verdict]
    assert threshold.outcome == wanted


def test_a_percentile_of_too_few_values_is_not_certain() -> None:
    """Of times that are not judged by the share of requests above the limit."""

    def few(second: int, found: Times) -> Times:
        return {**found, "lag": np.full(REQUESTS, 0.01 * MS)}

    [met, open_] = summary_of(
        "load.search.send_lag.p99 < 1ms",
        "load.search.send_lag.p99.99 < 1ms",
        change=few,
    ).thresholds[:2]
    assert met.outcome == "met"
    assert open_.outcome == "uncertain"
    assert "p99_99 needs 100,000 values, there are 10,000" in open_.reason
    assert "a longer run narrows it" in open_.reason


@pytest.mark.parametrize(
    ("stream", "helps"),
    [
        ({}, "a longer run narrows it, such as --set run.duration=420s)"),
        ({"count": 10**6}, "a longer run narrows it)"),
    ],
)
def test_a_longer_run_that_would_tell_is_proposed(
    stream: dict[str, Any], helps: str
) -> None:
    """Of 10,000 requests, 0.9 % are too slow: what they are of the whole is open."""
    slow_ones = in_seconds(set(range(0, SECONDS, 2)), slow(0.018, 9))
    summary = summary_of(
        "load.search.response_time.p99 < 5ms", change=slow_ones, stream=stream
    )
    told = summary.thresholds[0].reason
    assert told.endswith(f"≥ 5ms, 1% allowed (0.9% in this run; {helps}")


FOR_5S = "load.search.response_time.p50 < 5ms for 5s"


@pytest.mark.parametrize(
    ("threshold", "change", "verdict", "says"),
    [
        pytest.param(FOR_5S, None, "PASS", "", id="healthy"),
        pytest.param(
            FOR_5S, in_seconds(set(range(3, 7)), slow(1, 9)), "PASS", "", id="for 4 s"
        ),
        pytest.param(
            FOR_5S,
            in_seconds({3, 4, 5, 7, 8, 9}, slow(1, 9)),
            "PASS",
            "",
            id="for 3 s, twice",
        ),
        pytest.param(
            FOR_5S,
            in_seconds(set(range(3, 8)), slow(1, 9)),
            "FAIL",
            "was missed for 5 s at a stretch",
            id="for 5 s",
        ),
        pytest.param(
            FOR_5S,
            in_seconds(set(range(15, 20)), slow(1, 9)),
            "FAIL",
            "was missed for 5 s",
            id="up to the end",
        ),
        pytest.param(
            FOR_5S,
            in_seconds(
                set(range(3, 8)),
                lambda second, found: {
                    **slow(1, 9)(second, found),
                    **({"receive_lag": np.full(1, 300 * MS)} if second == 5 else {}),
                },
            ),
            "INVALID",
            "was missed for 2 s at a stretch, may be up to 5 s",
            id="the generator stood still in one of them",
        ),
        pytest.param(
            FOR_5S,
            in_seconds(set(range(3, 8)), late(0.9, 6)),
            "INVALID",
            "may be up to 5 s",
            id="sent late",
        ),
        pytest.param(
            "load.search.response_time.p99 < 5ms for 5s",
            None,
            "INVALID",
            "was disturbed; p99 needs 1,000 requests in each: --set run.interval=2s",
            id="too few requests in an interval",
        ),
        pytest.param(
            "load.search.throughput > 450/s for 5s",
            in_seconds(set(range(3, 8)), instead(dropped=100)),
            "FAIL",
            "was missed for 5 s",
            id="rate",
        ),
        pytest.param(
            "load.search.errors < 10% for 5s",
            in_seconds(set(range(3, 8)), instead(failed=100)),
            "FAIL",
            "was missed for 5 s",
            id="errors",
        ),
        pytest.param(
            "load.search.errors < 30% for 5s",
            in_seconds(set(range(3, 8)), instead(dropped=100)),
            "PASS",
            "",
            id="dropped arrivals are errors, of what was due",
        ),
    ],
)
def test_a_threshold_with_a_time_is_judged_by_intervals(
    threshold: str,
    change: Callable[[int, Times], Times] | None,
    verdict: str,
    says: str,
) -> None:
    lenient = "load.search.errors < 50%"
    summary = summary_of(threshold, lenient, change=change or (lambda _, found: found))
    assert summary.verdict == verdict, summary.reasons
    assert says in "; ".join(summary.reasons)


def test_a_threshold_with_a_time_leaves_the_default_one() -> None:
    summary = summary_of("load.search.errors < 50% for 5s", change=more(failed=20))
    assert summary.verdict == "FAIL"
    assert "*.*.errors < 1%" in summary.reasons[0]


def test_intervals_without_load_of_their_stream_are_not_missed() -> None:
    none = in_seconds({0, 1, 2, 3, 4, 5}, lambda *_: dict(NOTHING))
    begun = {"start_ns": 6 * NS_PER_S}
    rate = "load.search.throughput > 450/s for 5s"
    assert summary_of(rate, change=none, stream=begun).verdict == "PASS"
    silent = summary_of(rate, change=none)
    assert any("was missed for 6 s" in one for one in silent.reasons)


def test_a_lost_interval_may_have_missed_it() -> None:
    lenient = {"missing_intervals": "10%"}
    slow_s = in_seconds({3, 5, 6, 7}, slow(1, 9))
    outage = "*.*.outage.share < 10%"
    found = summary_of(
        FOR_5S, outage, change=slow_s, lost=frozenset({4}), validity=lenient
    )
    assert found.verdict == "INVALID"
    assert "was missed for 3 s at a stretch, may be up to 5 s" in found.reasons[0]


PER_SERVER = "load.search.response_time.p99 per server < 5ms"
TWO = {"uris": ["ldap://a", "ldap://b"]}


@pytest.mark.parametrize(
    ("threshold", "servers", "verdict", "says"),
    [
        (PER_SERVER, {"ldap://a": (0.5, 1), "ldap://b": (0.5, 1)}, "PASS", ""),
        (
            PER_SERVER,
            {"ldap://a": (0.9, 1), "ldap://b": (0.1, 4)},
            "FAIL",
            "of load.search at ldap://b",
        ),
        (
            "search.throughput per server > 200/s",
            {"ldap://a": (0.5, 1), "ldap://b": (0.5, 1)},
            "PASS",
            "",
        ),
        (
            "search.throughput per server > 200/s",
            {"ldap://a": (0.8, 1), "ldap://b": (0.2, 1)},
            "FAIL",
            "was 100.0/s of load.search at ldap://b",
        ),
    ],
)
def test_each_server_of_a_role_can_be_judged_by_itself(
    threshold: str, servers: dict[str, tuple[float, float]], verdict: str, says: str
) -> None:
    found = summary_of(threshold, change=more(servers=servers), stream=TWO)
    assert found.verdict == verdict, found.reasons
    assert says in "; ".join(found.reasons)
    # all together hide it
    assert summary_of(
        "search.p90 < 5ms", change=more(servers=servers), stream=TWO
    ).verdict in ("PASS", "INVALID")


def test_what_is_asked_per_server_of_one_server_is_the_whole() -> None:
    assert summary_of(PER_SERVER).verdict == "PASS"
    found = summary_of(PER_SERVER, change=slow(0.5, 9))
    assert found.verdict == "FAIL"
    assert " at " not in found.reasons[0]


def of_monitors(
    *found: tuple[str, str, tuple[Metric, ...], list[tuple[float, ...]]],
) -> Callable[[Store], None]:
    """Kind, URI of the role 'db', metrics, and a reading a second."""

    def add(store: Store) -> None:
        for number, (kind, uri, metrics, rows) in enumerate(found):
            name = f"{kind} {number}"
            facts = {"kind": kind, "serves": {"db": [uri]}}
            one = MonitorDescription(name, metrics, facts)
            describe_monitors(store, RUN_ID, "load1", [one])
            readings = [
                MonitorSample(name, second * NS_PER_S, 1_000, row)
                for second, row in enumerate(rows)
            ]
            add_monitor_samples(store, RUN_ID, "load1", readings)

    return add


CPU = tuple(
    Metric(f"cpu_{name}", "s", "counter") for name in ("user", "system", "idle")
)
THREADS = (Metric("threads", "1", "gauge"),)


def cpu(user: float, system: float, idle: float) -> list[tuple[float, ...]]:
    """In cores."""
    return [(user * s, system * s, idle * s) for s in range(SECONDS + 1)]


def threads(*values: float) -> list[tuple[float, ...]]:
    return [(values[s % len(values)],) for s in range(SECONDS + 1)]


BUSY = ("host", "ldap://a", CPU, cpu(1, 0.5, 2.5))
IDLE = ("host", "ldap://b", CPU, cpu(0.2, 0.2, 3.6))
PROCESS = ("process", "ldap://a", CPU[:2], [row[:2] for row in cpu(0.3, 0.2, 0)])


@pytest.mark.parametrize(
    ("threshold", "monitors", "verdict", "says"),
    [
        # 37.5 % and 10 %
        ("host(db).cpu < 40%", (BUSY, IDLE), "PASS", ""),
        ("host(db).cpu < 30%", (BUSY, IDLE), "FAIL", "was 37.5% of ldap://a"),
        ("host(db).cpu > 20%", (BUSY, IDLE), "FAIL", "was 10% of ldap://b"),
        ("host(db).cpu < 40%", (), "INVALID", "nothing was read of the host of db"),
        ("host(db).cpu_user < 5ms", (BUSY,), "INVALID", "it is a number or a share"),
        # 0.5 cores for 500 requests a second
        ("process(db).cpu_per_operation < 1.2ms", (PROCESS,), "PASS", ""),
        ("process(db).cpu_per_operation < 0.9ms", (PROCESS,), "FAIL", "was 1.000ms"),
        ("host(db).cpu_per_operation < 3.1ms", (BUSY,), "PASS", ""),
        ("host(db).cpu_per_operation < 9ms", (IDLE,), "INVALID", "no CPU time per"),
        ("process(db).cpu_user < 0.31", (PROCESS,), "PASS", ""),
        (
            "directory(db).threads.max <= 12",
            (("directory", "ldap://a", THREADS, threads(3, 12, 5)),),
            "PASS",
            "",
        ),
        (
            "directory(db).threads.max < 12",
            (("directory", "ldap://a", THREADS, threads(3, 12, 5)),),
            "FAIL",
            "was 12 of ldap://a",
        ),
        (
            "directory(db).threads < 5",
            (("directory", "ldap://a", THREADS, threads(4, 6)),),
            "INVALID",
            "a longer run",
        ),
        (
            "directory(db).reads < 5",
            (("directory", "ldap://a", THREADS, threads(4, 6)),),
            "INVALID",
            "has no reads",
        ),
    ],
)
def test_a_figure_of_servers_is_judged_over_its_range(
    threshold: str, monitors: Any, verdict: str, says: str
) -> None:
    on_a = {"uris": ["ldap://a"]}
    found = summary_of(threshold, add=of_monitors(*monitors), stream=on_a)
    assert found.verdict == verdict, (found.reasons, found.thresholds[0])
    assert says in "; ".join(found.reasons)


def in_spans(*spans: tuple[int, int], high: float = 12, low: float = 3) -> list[float]:
    """A value a second: high from one second to another."""
    return [
        high if any(first <= second <= last for first, last in spans) else low
        for second in range(SECONDS + 1)
    ]


def pooled(values: Sequence[float]) -> tuple[Any, ...]:
    return "directory", "ldap://a", THREADS, [(value,) for value in values]


def used(cores: Sequence[float]) -> tuple[Any, ...]:
    """A host of four cores, so many of which were used up to each reading."""
    busy = np.cumsum(cores)
    rows = [(user, 0.0, 4.0 * at - user) for at, user in enumerate(busy)]
    return "host", "ldap://a", CPU, rows


UNREAD = pooled([math.nan if second == 7 else 12 for second in range(SECONDS + 1)])


@pytest.mark.parametrize(
    ("threshold", "monitor", "verdict", "says"),
    [
        ("directory(db).threads < 9 for 4s", pooled(in_spans((4, 5))), "PASS", ""),
        (
            "directory(db).threads < 9 for 4s",
            pooled(in_spans((4, 8))),
            "FAIL",
            "was missed for 4 s at a stretch of ldap://a",
        ),
        # between the last that meets it, and the next one: up to 5 s
        (
            "directory(db).threads < 9 for 4s",
            pooled(in_spans((4, 7))),
            "INVALID",
            "5 s",
        ),
        (
            "directory(db).threads < 9 for 6s",
            pooled(in_spans((4, 7), (9, 12))),
            "PASS",
            "",
        ),
        ("directory(db).threads > 9 for 9s", pooled(in_spans((4, 7))), "FAIL", "11 s"),
        # a reading that failed may have been any; to the end, and to the phase's start
        ("directory(db).threads < 9 for 14s", UNREAD, "INVALID", "up to 20 s"),
        ("directory(db).threads < 9 for 11s", UNREAD, "FAIL", "for 11 s"),
        # of a counter's rate, the time before its reading is known
        ("host(db).cpu < 80% for 5s", used(in_spans((4, 7), high=3.9)), "PASS", ""),
        ("host(db).cpu < 80% for 4s", used(in_spans((4, 7), high=3.9)), "FAIL", "4 s"),
        ("process(db).cpu < 2 for 4s", PROCESS, "PASS", ""),
        ("process(db).cpu < 0.4 for 20s", PROCESS, "FAIL", "for 20 s"),
        ("process(db).cpu_user < 4s for 4s", PROCESS, "INVALID", "a number or a share"),
        ("process(db).cpu_user < 0.2 for 4s", PROCESS, "FAIL", "for 20 s"),
        ("host(db).cpu < 80% for 4s", PROCESS, "INVALID", "nothing was read of the"),
        ("directory(db).reads < 9 for 4s", pooled(in_spans()), "INVALID", "no reads"),
        (
            "directory(db).threads < 9 for 4s",
            pooled([math.nan] * SECONDS),
            "INVALID",
            "threads was not read in the measure phase",
        ),
    ],
)
def test_a_reading_is_missed_while_one_after_another_misses_it(
    threshold: str, monitor: Any, verdict: str, says: str
) -> None:
    found = summary_of(threshold, add=of_monitors(monitor))
    assert found.verdict == verdict, (found.reasons, found.thresholds[0])
    assert says in "; ".join(found.reasons)
    if verdict == "FAIL":
        assert found.thresholds[0].unit == "s"
        assert found.thresholds[0].limit == parse_duration(threshold.split()[-1]) / 1e9


def test_the_generator_is_not_to_blame_for_what_monitors_read() -> None:
    """But for the operations that it completed."""
    stopped = more(receive_lag=np.full(1, 300 * MS))
    on_a = {"uris": ["ldap://a"]}
    for threshold, outcome in (
        ("host(db).cpu_per_operation < 9ms", Outcome.UNCERTAIN),
        ("host(db).cpu_per_operation > 9ms", Outcome.UNCERTAIN),
        ("host(db).cpu < 30%", Outcome.MISSED),
    ):
        found = summary_of(
            threshold, change=stopped, add=of_monitors(BUSY), stream=on_a
        )
        assert found.thresholds[0].outcome is outcome


def test_cpu_per_operation_is_of_the_operations_at_a_monitors_servers() -> None:
    """0.5 cores for a fifth of 500 requests a second, at one of two servers."""
    found = summary_of(
        change=more(servers={"ldap://a": (0.2, 1), "ldap://b": (0.8, 1)}),
        add=of_monitors(PROCESS, BUSY),
        stream={"uris": ["ldap://a", "ldap://b"]},
    )
    monitors = {one.facts["kind"]: one for one in found.monitors}
    estimate = monitors["process"].cpu_per_operation_us
    assert estimate == pytest.approx((5000, 5000, 5000))
    shown = result_of(found)["monitors"]
    assert shown["process 0"]["cpu_per_operation_us"]["value"] == 5000
    assert shown["host 1"]["cpu_per_operation_us"]["value"] == 15000


def test_cpu_per_operation_of_a_host_is_of_all_servers_on_it() -> None:
    """1.5 cores for 500 requests a second, at the monitor's server and at another."""
    found = summary_of(
        change=more(servers={"ldap://a": (0.2, 1), "ldap://a:1389": (0.8, 1)}),
        add=of_monitors(BUSY),
        stream={"uris": ["ldap://a", "ldap://a:1389"]},
    )
    assert found.monitors[0].cpu_per_operation_us == pytest.approx((3000, 3000, 3000))


def test_cpu_per_operation_has_the_range_of_its_operations() -> None:
    def fewer(second: int, found: Times) -> Times:
        kept = slice(500 - 100 * (second % 3))
        return {name: values[kept] for name, values in found.items()}

    def estimate(**changes: Any) -> Any:
        on_a = {"uris": ["ldap://a"]}
        found = summary_of(add=of_monitors(PROCESS), stream=on_a, **changes)
        return found.monitors[0].cpu_per_operation_us

    value, low, high = estimate(change=fewer)
    assert 0.8 * value < low < value < high < 1.2 * value
    value, low, high = estimate(lost=frozenset({5, 6}))
    assert value == pytest.approx(1000 / 0.9)
    assert low < 1000


@pytest.mark.parametrize(
    ("server", "outcome"),
    [(10_100, Outcome.MET), (10_101, Outcome.MISSED), (None, Outcome.UNCERTAIN)],
)
def test_what_servers_counted_for_each_request_can_have_a_limit(
    server: int | None, outcome: Outcome
) -> None:
    counted = {
        "before": {"operations": {"search": 0, "bind": 0}},
        "after": {"operations": {"search": server, "bind": 0}},
    }
    found = summary_of(
        "server.search.per_sent <= 1.01",
        stream={"uris": ["ldap://a"]},
        manifest={"observations": {"ldap://a": counted}},
    )
    assert found.thresholds[0].outcome is outcome
    per_sent = result_of(found)["books"]["ldap://a"]["search"]["per_sent"]
    assert per_sent == (None if server is None else server / 10_000)


@pytest.mark.parametrize(
    ("after_s", "verdict"), [(2.5, "PASS"), (3.5, "FAIL"), (None, "FAIL")]
)
def test_the_time_until_servers_are_equal_can_have_a_limit(
    after_s: float | None, verdict: str
) -> None:
    checked = {
        "within_s": 60.0,
        "converged": after_s is not None,
        "after_s": after_s,
        "trees": [],
        "servers": ["ldap://a"],
        "content": None,
    }
    found = summary_of(
        "replication.after < 3s",
        plan={"verify": {"replication": {"within": "60s"}}},
        manifest={"replication": checked},
    )
    assert found.thresholds[0].outcome == ("met" if verdict == "PASS" else "missed")


def rare(number: int, ms: float, **counts: int) -> Times:
    """So many requests of another operation, all of this time."""
    return {"service": np.full(number, ms * MS), "lag": np.zeros(number), **counts}


BOTH = {"operations": [{"name": one, "kind": "search"} for one in ("search", "rare")]}


def test_an_operation_of_which_nothing_is_known_is_not_hidden_by_another() -> None:
    found = summary_of(
        "*.*.response_time.p90 < 5ms for 5s",
        change=more(rare=rare(5, 900)),
        stream=BOTH,
    )
    assert found.thresholds[0].outcome is Outcome.UNCERTAIN
    assert "load.rare" in found.thresholds[0].shown


def test_times_of_different_operations_are_no_stretch() -> None:
    failing = in_seconds({3, 4, 5}, more(failed=900))

    def change(second: int, found: Times) -> Times:
        other = rare(50, 1, failed=90 if second in (6, 7, 8) else 0)
        return {**failing(second, found), "rare": other}

    found = summary_of("*.*.errors < 50% for 5s", change=change, stream=BOTH)
    assert found.thresholds[0].outcome is Outcome.MET
    assert found.thresholds[0].value == 3


@pytest.mark.parametrize("counter", ["failed", "dropped", "timed_out"])
def test_what_did_not_succeed_is_above_every_time_in_intervals_too(
    counter: str,
) -> None:
    change = in_seconds(set(range(3, 9)), instead(**{counter: 240}))
    found = summary_of("load.search.p95 < 5ms for 5s", change=change)
    assert found.thresholds[0].outcome is Outcome.MISSED


def per_server_of(
    threshold: str, servers: dict[str, tuple[float, float]]
) -> ThresholdResult:
    found = summary_of(
        threshold,
        change=more(servers=servers),
        stream={"uris": ["ldap://a", "ldap://b"]},
    )
    return found.thresholds[0]


@pytest.mark.parametrize(
    "threshold",
    [
        "search.throughput per server > 200/s",
        "search.errors per server < 5%",
        "search.p99 per server < 5ms",
    ],
)
@pytest.mark.parametrize("servers", [{"ldap://a": (1, 1)}, {"ldap://b": (1, 1)}])
def test_a_server_to_which_nothing_was_sent_misses_it(
    threshold: str, servers: dict[str, tuple[float, float]]
) -> None:
    found = per_server_of(threshold, servers)
    assert found.outcome is Outcome.MISSED
    [other] = {"ldap://a", "ldap://b"} - servers.keys()
    assert f"at {other}" in found.shown


def test_the_operation_that_missed_it_for_longest_is_named() -> None:
    slow_s = in_seconds({3, 4, 5, 6, 7, 8}, instead(dropped=400))
    found = summary_of(
        "*.*.throughput > 30/s for 5s",
        change=lambda second, one: {**slow_s(second, one), "rare": rare(20, 1)},
        stream=BOTH,
    )
    assert found.thresholds[0].value == 20
    assert "load.rare" in found.thresholds[0].shown


def test_what_is_of_no_server_stays_with_the_default() -> None:
    servers = {"ldap://a": (0.5, 1), "ldap://b": (0.5, 1)}
    found = summary_of(
        "errors per server < 50%",
        change=more(servers=servers, failed=20),
        stream={"uris": ["ldap://a", "ldap://b"]},
    )
    assert "*.*.errors < 1%" in found.reasons[0]
