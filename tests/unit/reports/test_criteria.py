# SPDX-License-Identifier: Apache-2.0
"""Thresholds against ranges: what is met, missed, or left open, and why."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import pytest

from ldapslam.jobs.fields.thresholds import parse_name
from ldapslam.reports.figures import matching
from ldapslam.reports.formats.text import render_text
from ldapslam.reports.model import Summary
from ldapslam.reports.result import result_of
from ldapslam.reports.rules.operation_range import Outcome
from ldapslam.reports.sections.report_document import document
from ldapslam.results.facts import Manifest, MonitorFacts, Observation, Reading
from ldapslam.results.monitor_rows import add_monitor_samples, describe_monitors
from ldapslam.results.records import Metric, MonitorDescription, MonitorSample
from ldapslam.results.store import Store
from support.figures import value_in, value_of
from support.histograms import packed_of
from support.intervals import NS_PER_S, Interval, drain_of, interval_of
from support.result_schema import valid_result
from support.rows import OperationRow, StreamRow
from support.store import RUN_ID, Scenario, steady
from support.store import summary_of as summary_of_run

MS = 1_000_000
SECONDS = 20
#: Of one agent, each second.
REQUESTS = 500

Times = dict[str, Any]


def times(second: int) -> Times:
    """1 ms to 3 ms for each request, another each time; nothing is late."""
    service = np.random.default_rng(second).uniform(1 * MS, 3 * MS, REQUESTS)
    return {"service": service, "lag": np.zeros(REQUESTS)}


Change = Callable[[int, Times], Times]


def summary_of(
    *thresholds: str,
    change: Change = lambda _, counts: counts,
    stream: dict[str, Any] | None = None,
    lost: Collection[int] = (),
    state: dict[int, dict[str, int]] | None = None,
    manifest: dict[str, Any] | None = None,
    add: Callable[[Store], None] = lambda store: None,
    **plan: Any,
) -> Summary:
    """A run of one search in an open loop; `change` (second, times) gives times in ns,
    and other counters. `state`: second -> gauges of the stream; `add` adds more."""
    planned = {
        "name": "load",
        "target": "replica",
        "model": "open",
        "profile": steady(REQUESTS, SECONDS * NS_PER_S),
        "connections": 10,
        "operations": [{"name": "search", "kind": "search"}],
        **(stream or {}),
    }
    scenario = Scenario(
        agents=("load1",),
        ramp_up_s=0,
        warm_up_s=0,
        measure_s=SECONDS,
        cool_down_s=0,
        thresholds=thresholds,
        plan={"streams": [planned], **plan},
        run={"manifest": Manifest.parsed(manifest or {})},
    )
    records = [
        _record(second, change(second, times(second)), (state or {}).get(second, {}))
        for second in range(SECONDS)
        if second not in lost
    ]
    drain = drain_of("load1", SECONDS)
    return summary_of_run(scenario, [*records, drain], add=add)


def _record(second: int, found: Times, gauges: dict[str, int]) -> Interval:
    service, lag = np.asarray(found["service"]), np.asarray(found["lag"])
    # server -> its share of the requests, slower by a factor; gauges are of the last
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
    start_ns, end_ns = second * NS_PER_S, (second + 1) * NS_PER_S
    times_ns: dict[str, int] = {}
    if len(service):
        times_ns = {
            "last_done_ns": end_ns,
            "silence_after_ns": start_ns,
            "silence_since_ns": start_ns,
            "silence_through_ns": start_ns + 1,
            "silence_until_ns": start_ns + 1,
        }
    if gauges.keys() & {"in_flight", "backlog", "connecting"}:
        times_ns["waiting_since_ns"] = end_ns if len(service) else start_ns + 1
    return interval_of(
        "load1",
        second,
        operations=tuple(operations),
        streams=tuple(
            StreamRow(
                stream="load",
                server=server,
                **{**times_ns, **(gauges if server == [*servers][-1] else {})},
            )
            for server in servers
        ),
    )


def _operation(
    found: Times, service: Any, lag: Any, server: str, name: str = "search"
) -> OperationRow:
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
    return OperationRow(
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
        histograms={
            (metric, "succeeded"): packed_of(values.astype(np.int64))
            for metric, values in packed.items()
            if len(values)
        },
        **counts,
    )


def late(share: float, by_ms: float) -> Change:
    def change(_: int, found: Times) -> Times:
        lag = np.zeros(REQUESTS)
        lag[: round(share * REQUESTS)] = by_ms * MS
        return {**found, "lag": lag}

    return change


def more(**counts: Any) -> Change:
    return lambda _, found: {**found, **counts}


def instead(**counts: int) -> Change:
    """Of the requests, not beside them."""

    def change(_: int, found: Times) -> Times:
        kept = found["service"][sum(counts.values()) :]
        return {"service": kept, "lag": np.zeros(len(kept)), **counts}

    return change


def slow(share: float, to_ms: float) -> Change:
    def change(_: int, found: Times) -> Times:
        service = found["service"].copy()
        service[: round(share * REQUESTS)] = to_ms * MS
        return {**found, "service": service}

    return change


def in_seconds(seconds: Collection[int], *changes: Change) -> Change:
    """Apply the changes, one after the other, in these seconds only."""

    def change(second: int, counts: Times) -> Times:
        for one in changes if second in seconds else ():
            counts = one(second, counts)
        return counts

    return change


EVER = range(SECONDS)


def waited(
    since_ms: int, until_ms: int, *, after_ms: int = 0, through_ms: int = 0
) -> dict[int, dict[str, int]]:
    """A silence; without `after_ms`, a request was under way when it began, and without
    `through_ms`, it ended when a connection was there."""
    after_ms = after_ms or since_ms
    first, last = after_ms // 1000, until_ms // 1000
    state = {second: {"last_done_ns": 0} for second in range(first, last)}
    if first < last:
        state[first] = {"last_done_ns": after_ms * MS}
    state[last] = {
        "silence_after_ns": after_ms * MS,
        "silence_since_ns": since_ms * MS,
        "silence_through_ns": (through_ms or until_ms) * MS,
        "silence_until_ns": until_ms * MS,
    }
    return state


def silent(*_: Any) -> Times:
    return {"service": np.zeros(0), "lag": np.zeros(0)}


def stood_still(ms: float) -> Change:
    return more(receive_lag=np.full(1, ms * MS))


def sent_late(_: int, counts: Times) -> Times:
    """Send ten requests late by 0.9 s."""
    return {**counts, "lag": np.repeat([900.0 * MS, 0.0], [10, REQUESTS - 10])}


def slower(_: int, counts: Times) -> Times:
    return {**counts, "service": counts["service"] + 100 * MS}


def slower_and_slower(second: int, counts: Times) -> Times:
    return {**counts, "service": counts["service"] * (1 + second / SECONDS)}


def burst(*_: Any) -> Times:
    """Answer all requests of 13 s in one second."""
    return {"service": np.linspace(1, 13, 6500) * NS_PER_S, "lag": np.zeros(6500)}


def fewer(second: int, counts: Times) -> Times:
    kept = slice(500 - 100 * (second % 3))
    return {name: values[kept] for name, values in counts.items()}


def rare(number: int, ms: float, **counts: int) -> Times:
    """So many requests of another operation, all of this time."""
    return {"service": np.full(number, ms * MS), "lag": np.zeros(number), **counts}


BOTH = {"operations": [{"name": one, "kind": "search"} for one in ("search", "rare")]}


def of_monitors(
    *found: tuple[str, str, tuple[Metric, ...], list[tuple[float, ...]]],
) -> Callable[[Store], None]:
    """Kind, URI of the role 'db', metrics, and a reading a second."""

    def add(store: Store) -> None:
        for number, (kind, uri, metrics, rows) in enumerate(found):
            name = f"{kind} {number}"
            facts = MonitorFacts(kind=kind, serves={"db": (uri,)})
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


def in_spans(*spans: tuple[int, int], high: float = 12, low: float = 3) -> list[float]:
    """A value a second: high from one second to another."""
    return [
        high if any(first <= second <= last for first, last in spans) else low
        for second in range(SECONDS + 1)
    ]


def pooled(values: Sequence[float]) -> tuple[Any, ...]:
    return "directory", "ldap://a", THREADS, [(value,) for value in values]


def used(cores: Sequence[float]) -> tuple[Any, ...]:
    """A host of four cores; `cores`: how many were in use before each reading."""
    busy = np.cumsum(cores)
    rows = [(user, 0.0, 4.0 * at - user) for at, user in enumerate(busy)]
    return "host", "ldap://a", CPU, rows


UNREAD = pooled([math.nan if second == 7 else 12 for second in range(SECONDS + 1)])


def replicated(after_s: float | None) -> dict[str, Any]:
    tree = {"suffix": "", "converged": after_s is not None, "after_s": after_s}
    checked = {
        "within_s": 60.0,
        "converged": after_s is not None,
        "trees": [{**tree, "states": {}, "behind": {}}],
        "servers": ["ldap://a"],
        "content": None,
    }
    return {
        "verify": {"replication": {"within": "60s"}},
        "manifest": {"replication": checked},
    }


P99, P999 = (
    "load.search.response_time.p99 < 5ms",
    "load.search.response_time.p99.9 < 5ms",
)
P95_50MS = "load.search.response_time.p95 < 50ms"
MEAN = "load.search.response_time.mean"
RATE = "load.search.throughput"
LENIENT = "load.*.errors < 50%"
SHARE = "*.*.outage.share < 10%"
AGE = "directory(db).age.max < 5"
FOR_5S = "load.search.response_time.p50 < 5ms for 5s"
CLOSED = {"model": "closed", "clients": 10, "profile": []}
AT_425 = {"profile": steady(425, SECONDS * NS_PER_S)}
FOR_4S = {"profile": steady(REQUESTS, 4 * NS_PER_S), "end_ns": 4 * NS_PER_S}
MISSING: dict[str, Any] = {"lost": {4}, "validity": {"missing_intervals": "10%"}}
#: Requests wait while nothing is answered from 5 s to 8 s.
WAITING: dict[str, Any] = {
    "state": {
        **{second: {"in_flight": 10} for second in (4, 5, 6, 7)},
        **waited(5_000, 8_000),
    },
    "stream": AT_425,
}
SILENCE = in_seconds({5, 6, 7}, silent)
SOME = "*.*.outage.share < 20%"
STOPPED: dict[str, Any] = {"state": waited(5_210, 6_900)}
LAGS = more(receive_lag=np.full(500, 8 * MS))  # 4 of 10 s of the clients
PER_SERVER = "load.search.response_time.p99 per server < 5ms"
TWO = {"uris": ["ldap://a", "ldap://b"]}
ON_A = {"uris": ["ldap://a"]}
ALIKE = more(servers={"ldap://a": (0.5, 1), "ldap://b": (0.5, 1)})
AGES = (
    *("directory", "ldap://a", tuple(Metric(f"age[{x}]", "1", "gauge") for x in "ab")),
    [(1.0, 9.0)] * (SECONDS + 1),
)
POOL = "directory", "ldap://a", THREADS
LONGER = "a longer run narrows it"


def case(name: str, verdict: str, says: str, *thresholds: str, **run: Any) -> Any:
    """A run, its verdict, and words of a reason for it."""
    return pytest.param(verdict, says, thresholds, run, id=name)


def of_a(name: str, verdict: str, says: str, threshold: str, *monitors: Any) -> Any:
    """A run with monitors and requests to one server."""
    return case(name, verdict, says, threshold, add=of_monitors(*monitors), stream=ON_A)


OPERATIONS = [
    case("healthy", "PASS", "", P99),
    case("slow", "FAIL", "5% of requests ≥ 5ms", P99, change=slow(0.05, 6)),
    case("on the edge", "INVALID", "a longer run", P99, change=slow(0.01, 6)),
    case(
        "slower and slower",
        "INVALID",
        "a steady run tells",
        *("load.search.response_time.p99 < 6ms",),
        stream=CLOSED,
        change=slower_and_slower,
    ),
    # what the generator did
    case("late", "INVALID", "were sent late", P999, change=late(0.008, 150)),
    case("late, but few", "PASS", "", P99, change=late(0.008, 150)),
    case("all a little late", "PASS", "", P99, change=late(1.0, 0.5)),
    case(
        *("late by what matters", "INVALID", "were sent late"),
        "load.search.response_time.p99 < 3ms",
        change=late(1.0, 0.5),
    ),
    case(
        *("stood still, which cannot matter", "PASS", "", P99),
        change=in_seconds({3}, stood_still(300)),
    ),
    case(
        "slow only when it stood still",
        *("INVALID", "while the generator was disturbed", P99),
        change=in_seconds({3}, slow(0.3, 8), stood_still(300)),
    ),
    case(
        "slow where it stood still, for a fifth of the run",
        *("INVALID", "completed while the generator was disturbed", P95_50MS),
        change=in_seconds({5, 6}, sent_late, slower),
        validity={"disturbed_intervals": "50%", "send_lag_p99": "1s"},
    ),
    case(
        "all slow, and it stood still in a quarter",
        *("INVALID", f"not certain: {P95_50MS}", P95_50MS),
        change=in_seconds(EVER, slower, in_seconds(EVER[::4], sent_late)),
    ),
    case(
        "dropped where it stood still",
        *("INVALID", "while the generator was disturbed"),
        change=in_seconds({5}, sent_late, more(dropped=150)),
    ),
    case(
        "no more completions than arrivals, however late",
        *("FAIL", "threshold failed: load.search.throughput", f"{RATE} > 600/s"),
        change=late(0.5, 20),
    ),
    case("closed", "FAIL", "was 500", f"{RATE} > 510/s", stream=CLOSED),
    case(
        "closed, and the clients waited for it",
        *("INVALID", "lags of the generator were 40% of the clients' time"),
        f"{RATE} > 510/s",
        stream=CLOSED,
        change=LAGS,
    ),
    # what the directory did
    *(
        case(
            *(f"{counter} is not fast", "FAIL", says, P99, LENIENT),
            change=instead(**{counter: number}),
        )
        for counter, number, says in (
            ("failed", 10, "200 busy"),
            ("dropped", 50, "no connection was free: 10%"),
            ("timed_out", 25, "timed out"),
        )
    ),
    *(
        case(
            *(f"{statistic} of time-outs", "FAIL", "n/a"),
            f"load.search.response_time.{statistic} < 1h",
            change=instead(timed_out=25),
        )
        for statistic in ("mean", "max")
    ),
    case(
        *("nothing found", "FAIL", "may its identity search each attribute"),
        change=more(empty=REQUESTS),
    ),
    case(
        *("nothing found by number", "FAIL", "'[1-5000]' writes no leading zeros"),
        change=more(empty=REQUESTS),
        stream={
            "operations": [
                {
                    **{"name": "search", "kind": "search"},
                    "about": "(uid=user.[1-5000]) at dc=x",
                }
            ]
        },
    ),
    case(
        *("silent", "FAIL", "unavailable for 3 s from about +5 s"),
        change=SILENCE,
        **WAITING,
    ),
    case(
        *("silent over an interval's end", "FAIL", "for 1.69 s from about +5.21 s"),
        "*.*.outage.longest < 1.6s",
        **STOPPED,
    ),
    *(
        case(
            *(f"one of two servers, {name}", "FAIL", says),
            change=ALIKE,
            state=state,
            stream=TWO,
        )
        for name, says, state in (
            ("silent", "at ldap://b (unavailable for 3 s", waited(5_000, 8_000)),
            (
                *("down", "at ldap://b (unavailable for 2.95 s"),
                {second: {"down_ns": 5 * NS_PER_S} for second in (5, 6, 7)},
            ),
        )
    ),
    case(
        *("one of two servers, slower than the other", "PASS", ""),
        "*.*.outage.longest < 1s",
        change=more(servers={"ldap://a": (0.9, 1), "ldap://b": (0.1, 1_000)}),
        state=waited(5_000, 6_200),
        stream=TWO,
    ),
    case("silent for half a second", "PASS", "", state=waited(5_210, 5_710)),
    case(
        *("silent between two requests", "INVALID", "send requests more often"),
        *("*.*.outage.longest < 2s", SOME),
        state=waited(6_000, 6_990, after_ms=4_090),
    ),
    case(
        *("slow once, and seldom asked", "PASS", ""),
        "*.*.outage.longest < 2s",
        state=waited(6_000, 6_200, after_ms=4_000),
    ),
    case(
        *("nobody tried after a failed attempt", "INVALID", "to 4 s"),
        *("*.*.outage.longest < 2s", "*.*.outage.share < 30%"),
        state=waited(5_000, 9_000, through_ms=5_250),
    ),
    case(
        *("others had responses meanwhile", "PASS", ""),
        state={**waited(5_000, 8_000), 6: {}, 7: {}},
    ),
    case(
        *("back before it was noticed", "INVALID", "to 2.05 s"),
        *("*.*.outage.longest < 2.02s", SOME),
        state=waited(5_000, 7_050, through_ms=7_000),
    ),
    case(
        *("not certain, with an outage", "FAIL", "a run without that tells"),
        P99,
        change=in_seconds(EVER, slow(0.009, 6), SILENCE),
        **WAITING,
    ),
    case(
        *("silent for three seconds", "FAIL", "for 3 s"),
        change=SILENCE,
        state=waited(5_000, 8_000),
        stream=AT_425,
    ),
    case(
        "silent, as the generator may have been",
        *("INVALID", ""),
        change=in_seconds(EVER, SILENCE, in_seconds({8}, stood_still(3_000))),
        **WAITING,
    ),
    case(
        *("silent without load", "PASS", ""),
        change=SILENCE,
        stream=AT_425,
    ),
    # then most of the responses have waited for its end
    case(
        *("silent for most of the run", "FAIL", "unavailable for 13 s"),
        change=in_seconds(
            range(2, 16), in_seconds({15}, burst), in_seconds(range(2, 15), silent)
        ),
        state=waited(2_000, 15_000),
    ),
    case(
        *("arrivals wait for the generator", "INVALID", "*.*.unsent"),
        change=late(1, 500),
        state={19: {"backlog": 5_000}},
    ),
    # what is not known
    case(
        *("missing, and sure", "PASS", "", "load.search.errors < 10%", SHARE),
        **MISSING,
    ),
    case(
        "missing, and unsure of times",
        *("INVALID", f"not certain: {P99}", P99, SHARE, "load.*.errors < 10%"),
        **MISSING,
    ),
    case(
        "missing, and unsure of errors",
        *("INVALID", "not certain: *.*.errors < 1%", SHARE),
        **MISSING,
    ),
    case(
        *("missing, and missed", "FAIL", f"failed: {P99}", P99),
        change=slow(0.5, 9),
        **MISSING,
    ),
    case(
        *("an outage may be in what is missing", "INVALID", ""),
        lost={10, 11, 12},
        validity={"missing_intervals": "50%"},
    ),
    # four intervals are enough where the figure is far from the limit
    *(
        case(
            f"four intervals, {limit}",
            *(verdict, "", f"load.search.response_time.p50 < {limit}"),
            change=in_seconds(EVER[4:], silent),
            stream=FOR_4S,
        )
        for limit, verdict in (("2ms", "INVALID"), ("10ms", "PASS"), ("200us", "FAIL"))
    ),
    case(
        *("enough values", "PASS", "", "load.search.send_lag.p99 < 1ms"),
        change=late(1.0, 0.01),
    ),
    case(
        *("too few values", "INVALID"),
        "needs 100,000 values (it has 10,000)",
        "load.search.send_lag.p99.99 < 1ms",
        change=late(1.0, 0.01),
    ),
    # 0.9 % are too slow: what they are of the whole is open
    *(
        case(
            *(f"a longer run, {stream}", "INVALID"),
            f"≥ 5ms, 1% allowed (0.9% in this run; {LONGER}{duration})",
            P99,
            change=in_seconds(EVER[::2], slow(0.018, 9)),
            stream=stream,
        )
        for stream, duration in (
            ({}, ", such as --set run.duration=420s"),
            ({"count": 10**6}, ""),
        )
    ),
    # other figures
    case("rate", "PASS", "", f"{RATE} > 490/s"),
    case("low rate", "FAIL", "was 500", f"{RATE} > 510/s"),
    case("rate of the run", "PASS", "", "run.throughput > 490/s"),
    case("low rate of the run", "FAIL", "was 500", "run.throughput > 510/s"),
    case("mean", "PASS", "", f"{MEAN} < 2.5ms"),
    case("high mean", "FAIL", "2.00", f"{MEAN} < 1.5ms"),
    case("mean on the edge", "INVALID", "a longer run", f"{MEAN} < 2ms"),
    case("no error at all", "PASS", "", "load.search.errors <= 0%"),
    case(
        *("one error", "FAIL", "1 busy", "load.search.errors <= 0%"),
        change=in_seconds({3}, more(failed=1)),
    ),
    # default thresholds, and the job's own in their place
    case("default", "FAIL", "*.*.errors < 1%", change=more(failed=20)),
    case("own", "PASS", "", "load.*.errors < 10%", change=more(failed=20)),
    case(
        "default and a threshold with a time",
        *("FAIL", "*.*.errors < 1%", "load.search.errors < 50% for 5s"),
        change=more(failed=20),
    ),
    case(
        "default and a threshold per server",
        *("FAIL", "*.*.errors < 1%", "errors per server < 50%"),
        change=in_seconds(EVER, ALIKE, more(failed=20)),
        stream=TWO,
    ),
]

WITH_A_TIME = [
    case("healthy for 5 s", "PASS", "", FOR_5S),
    *(
        case(
            f"slow in {name}",
            verdict,
            says,
            FOR_5S,
            change=in_seconds(seconds, *changes),
        )
        for name, verdict, says, seconds, changes in (
            ("4 s", "PASS", "", range(3, 7), [slow(1, 9)]),
            ("3 s, twice", "PASS", "", {3, 4, 5, 7, 8, 9}, [slow(1, 9)]),
            (
                "5 s",
                "FAIL",
                "was missed for 5 s at a stretch",
                range(3, 8),
                [slow(1, 9)],
            ),
            ("the last 5 s", "FAIL", "was missed for 5 s", range(15, 20), [slow(1, 9)]),
            (
                *("5 s, in one of which the generator stood still", "INVALID"),
                "was missed for 2 s at a stretch, may be up to 5 s",
                range(3, 8),
                [slow(1, 9), in_seconds({5}, stood_still(300))],
            ),
            ("5 s, late", "INVALID", "may be up to 5 s", range(3, 8), [late(0.9, 6)]),
        )
    ),
    case(
        "too few requests in an interval",
        "INVALID",
        "was disturbed; p99 needs 1,000 requests in each: --set run.interval=2s",
        "load.search.response_time.p99 < 5ms for 5s",
    ),
    *(
        case(
            *(f"{counter}, {threshold}", verdict, says, f"{threshold} for 5s", LENIENT),
            change=in_seconds(range(3, 8), instead(**{counter: 100})),
        )
        for counter, verdict, says, threshold in (
            ("dropped", "FAIL", "was missed for 5 s", f"{RATE} > 450/s"),
            ("failed", "FAIL", "was missed for 5 s", "load.search.errors < 10%"),
            # dropped arrivals are errors, of what was due
            ("dropped", "PASS", "", "load.search.errors < 30%"),
        )
    ),
    *(
        case(
            f"{counter} is above every time",
            *("FAIL", "failed: load.search.p95 < 5ms", "load.search.p95 < 5ms for 5s"),
            change=in_seconds(range(3, 9), instead(**{counter: 240})),
        )
        for counter in ("failed", "dropped", "timed_out")
    ),
    case(
        *("before the stream begins", "PASS", "", f"{RATE} > 450/s for 5s"),
        change=in_seconds(range(6), silent),
        stream={"start_ns": 6 * NS_PER_S},
    ),
    case(
        *(
            "silent first",
            "INVALID",
            "was missed for 6 s",
            f"{RATE} > 450/s for 5s",
        ),
        change=in_seconds(range(6), silent),
    ),
    case(
        *("missing within", "INVALID"),
        "was missed for 3 s at a stretch, may be up to 5 s",
        *(FOR_5S, SHARE),
        change=in_seconds({3, 5, 6, 7}, slow(1, 9)),
        **MISSING,
    ),
    case(
        "an operation of which nothing is known is not hidden by another",
        *("INVALID", "load.rare", "*.*.response_time.p90 < 5ms for 5s"),
        change=more(rare=rare(5, 900)),
        stream=BOTH,
    ),
    case(
        "of different operations, which is no stretch",
        *("PASS", "", "*.*.errors < 50% for 5s", "*.*.errors < 90%"),
        change=in_seconds(
            EVER,
            more(rare=rare(50, 1)),
            in_seconds({3, 4, 5}, more(failed=900)),
            in_seconds({6, 7, 8}, more(rare=rare(50, 1, failed=90))),
        ),
        stream=BOTH,
    ),
    case(
        "the operation that missed it for longest is named",
        *("FAIL", "load.rare", "*.*.throughput > 30/s for 5s", LENIENT),
        change=in_seconds(
            EVER,
            in_seconds(range(3, 9), instead(dropped=400)),
            more(rare=rare(20, 1)),
        ),
        stream=BOTH,
    ),
]

SERVERS = [
    case("servers alike", "PASS", "", PER_SERVER, change=ALIKE, stream=TWO),
    case(
        *("a slow server", "FAIL", "of load.search at ldap://b", PER_SERVER),
        change=more(servers={"ldap://a": (0.9, 1), "ldap://b": (0.1, 4)}),
        stream=TWO,
    ),
    case(
        *("rates alike", "PASS", "", "search.throughput per server > 200/s"),
        change=ALIKE,
        stream=TWO,
    ),
    case(
        *("a low rate", "FAIL", "was 100/s of load.search at ldap://b"),
        "search.throughput per server > 200/s",
        change=more(servers={"ldap://a": (0.8, 1), "ldap://b": (0.2, 1)}),
        stream=TWO,
    ),
    case("one server", "PASS", "", PER_SERVER),
    case("one slow server", "FAIL", "≥ 5ms", PER_SERVER, change=slow(0.5, 9)),
    *(
        case(
            *(f"nothing to {idle}, {figure}", "FAIL", f"at {idle}"),
            f"search.{figure.replace(' ', ' per server ', 1)}",
            change=more(servers={loaded: (1, 1)}),
            stream=TWO,
        )
        for loaded, idle in (("ldap://a", "ldap://b"), ("ldap://b", "ldap://a"))
        for figure in ("throughput > 200/s", "errors < 5%", "p99 < 5ms")
    ),
    case("soon equal", "PASS", "", "replication.after < 3s", **replicated(2.5)),
    case("late equal", "FAIL", "3.5", "replication.after < 3s", **replicated(3.5)),
    case(
        "never equal",
        "FAIL",
        "failed: repl",
        "replication.after < 3s",
        **replicated(None),
    ),
]

MONITORS = [
    # 37.5 % and 10 %
    of_a("cpu", "PASS", "", "host(db).cpu < 40%", BUSY, IDLE),
    of_a("high cpu", "FAIL", "was 37.5% of ldap://a", "host(db).cpu < 30%", BUSY, IDLE),
    of_a("low cpu", "FAIL", "was 10% of ldap://b", "host(db).cpu > 20%", BUSY, IDLE),
    of_a(
        "unread",
        "INVALID",
        "needs readings of cpu of the host of db",
        "host(db).cpu < 1%",
    ),
    of_a("unit", "INVALID", "a number or a share", "host(db).cpu_user < 5ms", BUSY),
    # 0.5 cores for 500 requests a second
    of_a("each", "PASS", "", "process(db).cpu_per_operation < 1.2ms", PROCESS),
    of_a(
        *("much for each", "FAIL", "was 1 ms"),
        *("process(db).cpu_per_operation < 0.9ms", PROCESS),
    ),
    of_a("each of a host", "PASS", "", "host(db).cpu_per_operation < 3.1ms", BUSY),
    of_a(
        *("each of nothing", "INVALID", "needs CPU times, and operations"),
        *("host(db).cpu_per_operation < 9ms", IDLE),
    ),
    # of both suffixes, the worst
    of_a("all in brackets", "FAIL", "was 9 of ldap://a age[b]", AGE, AGES),
    of_a("one in brackets", "PASS", "", "directory(db).age[a].max < 5", AGES),
    of_a(
        "for",
        "FAIL",
        "for 19 s at a stretch of ldap://a age[b]",
        "directory.age < 5 for 9s",
        AGES,
    ),
    of_a("cores", "PASS", "", "process(db).cpu_user < 0.31", PROCESS),
    *(
        of_a(f"threads {values}", verdict, says, threshold, (*POOL, threads(*values)))
        for verdict, says, threshold, values in (
            ("PASS", "", "directory(db).threads.max <= 12", (3, 12, 5)),
            ("FAIL", "12 of ldap://a", "directory(db).threads.max < 12", (3, 12, 5)),
            ("INVALID", "a longer run", "directory(db).threads < 5", (4, 6)),
            ("INVALID", "needs readings of reads", "directory(db).reads < 5", (4, 6)),
        )
    ),
    # while one reading after another misses it
    *(
        of_a(f"{threshold}, {says}", verdict, says, threshold, monitor)
        for threshold, monitor, verdict, says in (
            ("directory(db).threads < 9 for 4s", pooled(in_spans((4, 5))), "PASS", ""),
            (
                *("directory(db).threads < 9 for 4s", pooled(in_spans((4, 8)))),
                *("FAIL", "was missed for 4 s at a stretch of ldap://a"),
            ),
            # between the last that meets it, and the next one: up to 5 s
            (
                *("directory(db).threads < 9 for 4s", pooled(in_spans((4, 7)))),
                *("INVALID", "5 s"),
            ),
            (
                "directory(db).threads < 9 for 6s",
                *(pooled(in_spans((4, 7), (9, 12))), "PASS", ""),
            ),
            (
                *("directory(db).threads > 9 for 9s", pooled(in_spans((4, 7)))),
                *("FAIL", "11 s"),
            ),
            # a reading that failed may have been any; to the end, and to the phase's
            # start
            ("directory(db).threads < 9 for 14s", UNREAD, "INVALID", "up to 20 s"),
            ("directory(db).threads < 9 for 11s", UNREAD, "FAIL", "for 11 s"),
            # of a counter's rate, the time before its reading is known
            ("host(db).cpu < 80% for 5s", used(in_spans((4, 7), high=3.9)), "PASS", ""),
            (
                *("host(db).cpu < 80% for 4s", used(in_spans((4, 7), high=3.9))),
                *("FAIL", "4 s"),
            ),
            ("process(db).cpu < 2 for 4s", PROCESS, "PASS", ""),
            ("process(db).cpu < 0.4 for 20s", PROCESS, "FAIL", "for 20 s"),
            ("process(db).cpu_user < 4s for 4s", PROCESS, "INVALID", "or a share"),
            ("process(db).cpu_user < 0.2 for 4s", PROCESS, "FAIL", "for 20 s"),
            ("host(db).cpu < 80% for 4s", PROCESS, "INVALID", "needs readings of cpu"),
            (
                *("directory(db).reads < 9 for 4s", pooled(in_spans())),
                *("INVALID", "needs readings of reads"),
            ),
            (
                *("directory(db).threads < 9 for 4s", pooled([math.nan] * SECONDS)),
                *("INVALID", "readings of threads in the measure phase"),
            ),
        )
    ),
]


@pytest.mark.parametrize(
    ("verdict", "says", "thresholds", "run"),
    [*OPERATIONS, *WITH_A_TIME, *SERVERS, *MONITORS],
)
def test_a_threshold_is_judged_over_its_range(
    verdict: str, says: str, thresholds: tuple[str, ...], run: dict[str, Any]
) -> None:
    summary = summary_of(*thresholds, **run)
    assert summary.verdict == verdict, (summary.reasons, summary.thresholds)
    assert says in "; ".join(summary.reasons)


def test_each_outage_that_is_certain_is_an_event() -> None:
    downs = {second: {"down_ns": 5 * NS_PER_S} for second in (5, 6)}
    state = {**downs, **waited(12_000, 15_000)}
    summary = summary_of(change=ALIKE, state=state, stream=TWO)
    down, silent = (one for one in summary.events if one.kind == "outage")
    assert summary.since_start_s(down.at_utc) == 5
    assert summary.since_start_s(silent.at_utc) == 12
    assert "ldap://b unavailable for 3 s" in silent.text


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
        ("replication.after < 1s", "", "us", "<", 1e6),
        ("directory(db).reads < 1k/s", "", "per_s", "<", 1000),
        ("directory(db).reads < 1k/s for 2s", "", "s", "<", 2),
    ],
)
def test_programs_find_what_a_threshold_compares(
    threshold: str, of: str, unit: str, comparison: str, limit: float
) -> None:
    first = valid_result(summary_of(threshold))["thresholds"][0]
    names = ("of", "unit", "comparison", "limit")
    assert tuple(first[name] for name in names) == (of, unit, comparison, limit)


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
    assert (judged.shown, judged.where) == ("100%", "load.search, and 1 more")
    met = summary_of(stream={"operations": operations})
    assert not any("more" in one.where for one in met.thresholds)


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
    assert summary.streams[0].outage.longest_s == pytest.approx(
        (max(0, longest_s - 0.05), longest_s)
    )
    assert summary.verdict == verdict


def test_a_silence_that_is_the_generators_is_no_outage() -> None:
    """What is left of it is no longer than its usual responses; but it may be one."""
    summary = summary_of(
        change=in_seconds(EVER, SILENCE, in_seconds({8}, stood_still(2_990))),
        **WAITING,
    )
    assert summary.streams[0].outage.total_s == (0.0, 3.0)


SLOW = more(service=np.full(REQUESTS, 1000.0 * MS))


@pytest.mark.parametrize(
    ("waiting", "unsent", "run"),
    [
        # beyond 1 % of 10,000 and chance
        ({19: 110}, 0.011, {}),
        ({19: 200}, 0.02, {}),
        # arrivals that waited earlier are in the response times
        ({3: 9_000, 18: 9_000}, 0.0, {}),
        # chance makes a queue of this length where responses are slow; a longer
        # queue shows in their times
        ({19: 50}, 0.0, {"change": SLOW}),
        ({19: 51}, 0.0051, {"change": SLOW}),
        ({}, None, {"stream": CLOSED}),
    ],
)
def test_arrivals_that_wait_when_the_phase_ends_are_an_overload(
    waiting: dict[int, int], unsent: float | None, run: dict[str, Any]
) -> None:
    gauges = {second: {"backlog": number} for second, number in waiting.items()}
    summary = summary_of(state=gauges, **run)
    assert summary.streams[0].unsent == unsent
    assert ("no connection was free" in "".join(summary.reasons)) == (unsent == 0.02)


def test_the_generator_is_not_to_blame_for_what_monitors_read() -> None:
    """But for the operations that it completed."""
    for threshold, outcome in (
        ("host(db).cpu_per_operation < 9ms", Outcome.UNCERTAIN),
        ("host(db).cpu_per_operation > 9ms", Outcome.UNCERTAIN),
        ("host(db).cpu < 30%", Outcome.MISSED),
    ):
        found = summary_of(
            threshold, change=stood_still(300), add=of_monitors(BUSY), stream=ON_A
        )
        assert found.thresholds[0].outcome is outcome


def test_figures_that_no_double_holds_are_missing() -> None:
    pool = ("process", "ldap://a", THREADS, threads(1e308, -1e308))
    result = valid_result(summary_of(add=of_monitors(pool, pool), stream=ON_A))
    json.dumps(result, allow_nan=False)
    assert value_in(result, "process(ldap://a).threads.max") is None


@pytest.mark.parametrize(
    ("names", "subject"),
    [
        (["host(db).cpu"], "ldap://a"),
        (["host.cpu", "host(ldap://a).cpu"], "ldap://a"),
        (["server(db).search.sent", "server.search.sent"], "ldap://a.search"),
        (["agent(*).response_time.p50", "agent(load1).response_time.p50"], "load1"),
    ],
)
def test_a_threshold_names_a_role_a_server_an_agent_or_all(
    names: list[str], subject: str
) -> None:
    limits = {"host": "99%", "server": "99999", "agent": "1s"}
    thresholds = [f"{one} < {limits[re.split('[.(]', one)[0]]}" for one in names]
    summary = summary_of(
        *thresholds,
        stream={**ON_A, "target": "db"},
        add=of_monitors(BUSY, pooled(in_spans())),
    )
    found = summary.thresholds[: len(names)]
    assert [(one.of, one.outcome) for one in found] == [
        (subject, Outcome.MET) for _ in names
    ]


def test_a_figure_of_an_agent_that_it_did_not_report_is_uncertain() -> None:
    (found, *_) = summary_of("agent.busy_share < 90%").thresholds
    assert found.outcome is Outcome.UNCERTAIN
    assert found.reason.endswith("(needs the agent to report it)")


def test_every_server_of_a_role_must_have_what_a_threshold_is_about() -> None:
    """The host of ldap://b was not read."""
    pool = ("directory", "ldap://b", THREADS, threads(3))
    summary = summary_of("host(db).cpu < 90%", add=of_monitors(BUSY, pool))
    assert (summary.thresholds[0].of, summary.verdict) == ("ldap://b", "INVALID")


@pytest.mark.parametrize(
    ("servers", "process_us", "host_us"),
    [
        # 0.5 and 1.5 cores for a fifth of 500 requests a second, at one of two servers
        (("ldap://a", "ldap://b"), 5000, 15000),
        # a host has both servers
        (("ldap://a", "ldap://a:1389"), 5000, 3000),
    ],
)
def test_cpu_per_operation_is_of_the_operations_at_a_monitors_servers(
    servers: tuple[str, str], process_us: float, host_us: float
) -> None:
    shares = dict(zip(servers, ((0.2, 1), (0.8, 1)), strict=True))
    summary = summary_of(
        change=more(servers=shares),
        add=of_monitors(PROCESS, BUSY),
        stream={"uris": list(servers)},
    )
    for kind, value_us in (("process", process_us), ("host", host_us)):
        name = f"{kind}(ldap://a).cpu_per_operation"
        assert value_of(result_of(summary), name) == value_us
        text = render_text(document(summary))
        assert f"CPU time per operation: {value_us:,.1f} µs" in text


def test_cpu_per_operation_has_the_range_of_its_operations() -> None:
    def estimate(**changes: Any) -> Any:
        found = summary_of(add=of_monitors(PROCESS), stream=ON_A, **changes)
        (cpu,) = matching(parse_name("process.cpu_per_operation"), found.figures)
        return cpu.interval

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
    counted = Observation(
        before=Reading(operations={"search": 0, "bind": 0}),
        after=Reading(operations={"search": server, "bind": 0}),
    )
    found = summary_of(
        "server.search.per_sent <= 1.01",
        stream=ON_A,
        manifest={"observations": {"ldap://a": counted.document()}},
    )
    assert found.thresholds[0].outcome is outcome
    per_sent = value_in(result_of(found), "server(ldap://a).search.per_sent")
    assert per_sent == (None if server is None else server / 10_000)
