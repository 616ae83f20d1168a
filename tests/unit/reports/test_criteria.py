# SPDX-License-Identifier: Apache-2.0
"""Thresholds against ranges: what is met, missed, or left open, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ldapslam.proto.common_pb2 import OperationInterval, StreamInterval
from ldapslam.reports.model import Summary
from ldapslam.reports.summarise import summarise
from ldapslam.results.records import RunRecord
from ldapslam.results.store import Store
from support.histograms import histogram_messages, packed_of
from support.intervals import Interval, add_interval
from support.store import NS_PER_S, Scenario, agent_facts, changed, run_record, steady

MS = 1_000_000
SECONDS = 20
#: Of one agent, each second.
REQUESTS = 500

Times = dict[str, Any]


def times(second: int) -> Times:
    """1 ms to 3 ms for each request, another each time; nothing is late."""
    service = np.random.default_rng(second).uniform(1 * MS, 3 * MS, REQUESTS)
    return {"service": service, "lag": np.zeros(REQUESTS)}


def summary_of(
    *thresholds: str,
    change: Callable[[int, Times], Times] = lambda _, found: found,
    stream: dict[str, Any] | None = None,
    lost: frozenset[int] = frozenset(),
    state: dict[int, dict[str, int]] | None = None,
    validity: dict[str, Any] | None = None,
) -> Summary:
    """A run of one search in an open loop; `change` (second, times) gives times in ns,
    and other counters. `state`: second -> gauges of the stream."""
    run = _run(thresholds, stream or {}, validity or {})
    with Store.open("sqlite://") as store:
        store.create_run(run)
        store.put_agent(run.run_id, "load1", agent_facts(0, Scenario()))
        for second in range(SECONDS):
            if second not in lost:
                found = change(second, times(second))
                gauges = (state or {}).get(second, {})
                add_interval(store, run.run_id, _record(second, found, gauges))
        add_interval(store, run.run_id, _drain())
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
    return replace(record, plan=plan)


def _record(second: int, found: Times, gauges: dict[str, int]) -> Interval:
    service, lag = np.asarray(found["service"]), np.asarray(found["lag"])
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
    return Interval(
        agent="load1",
        attempt=1,
        sequence=second,
        index=second,
        phase="measure",
        start_ns=second * NS_PER_S,
        end_ns=(second + 1) * NS_PER_S,
        operations=(
            OperationInterval(
                stream="load",
                operation="search",
                measured=True,
                scheduled=sent + counts["dropped"],
                sent=sent,
                completed=len(service) + counts["failed"],
                succeeded=len(service),
                entries=len(service),
                result_codes={0: len(service), 51: counts["failed"]},
                histograms=histogram_messages(
                    {
                        (metric, "succeeded"): packed_of(values.astype(np.int64))
                        for metric, values in packed.items()
                        if len(values)
                    }
                ),
                **counts,
            ),
        ),
        streams=(changed(StreamInterval(stream="load"), **gauges),),
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
        pytest.param(P99, slow(0.05, 6), "FAIL", "5% above the limit", id="slow"),
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


def test_missing_intervals_are_the_worst_case() -> None:
    lenient = {"missing_intervals": "10%"}
    lost = frozenset({4})
    share = "*.*.outage.share < 10%"
    sure = summary_of("load.search.errors < 10%", share, lost=lost, validity=lenient)
    assert sure.verdict == "PASS"
    unsure = summary_of(P99, lost=lost, validity=lenient)
    assert unsure.verdict == "INVALID"
    assert "5% of the intervals are missing" in unsure.reasons[0]
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


def test_searches_that_return_nothing_fail() -> None:
    summary = summary_of(change=more(empty=REQUESTS))
    assert summary.verdict == "FAIL"
    assert "searches found nothing" in summary.reasons[0]


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


def test_an_outage_while_the_generator_stood_still_is_not_certain() -> None:
    silent = in_seconds(
        {5, 6, 7}, lambda _, found: {"service": np.zeros(0), "lag": np.zeros(0)}
    )
    stopped = in_seconds({8}, more(receive_lag=np.full(1, 3_000 * MS)))
    summary = summary_of(
        change=lambda second, found: stopped(second, silent(second, found)),
        state={second: {"in_flight": 10} for second in (4, 5, 6, 7)},
        stream={"profile": steady(425, SECONDS * NS_PER_S)},
    )
    assert summary.verdict == "INVALID"
    assert "*.*.outage.longest < 2s, was 0.000s" in "".join(summary.reasons)


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
