# SPDX-License-Identifier: Apache-2.0
"""What is collected by columns, against the same added up record by record."""

from __future__ import annotations

import functools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from ldapslam.base.errors import StoreError
from ldapslam.coordinator.runs.abort import AbortWatch
from ldapslam.coordinator.runs.interval import totals_of
from ldapslam.coordinator.runs.live import LiveStatistics
from ldapslam.jobs.fields.thresholds import samples_needed
from ldapslam.jobs.fields.validity import Validity
from ldapslam.jobs.run_plan import RunPlan
from ldapslam.proto.common_pb2 import HostInterval
from ldapslam.proto.fields import (
    METRICS,
    OPERATION_COUNTERS,
    OUTCOMES,
    SET_UP_TIMES,
    STREAM_TIMES,
)
from ldapslam.reports.collect import kept as kept_module
from ldapslam.reports.collect import timeline as timeline_module
from ldapslam.reports.collect.collect import Part, collect_run, parts_of_run
from ldapslam.reports.collect.intervals import ServiceSlots
from ldapslam.reports.collect.kept import decoded, encoded
from ldapslam.reports.collect.timeline import IntervalState, Plan, Timeline
from ldapslam.reports.collect.totals import GENERATOR_LAGS, IN_DOUBT, Collected
from ldapslam.results import columns, schema
from ldapslam.results.collected import CollectedPart, keep, kept
from ldapslam.results.digest import reports_part
from ldapslam.results.facts import AgentFacts
from ldapslam.results.histogram import Histogram, Sums, block_of
from ldapslam.results.records import Part as StoredPart
from ldapslam.results.store import Store
from support.by_record import ByRecord, by_record, length_ns_of, point_of
from support.histograms import pack, packed_of, packed_sums
from support.intervals import NS_PER_S, Interval, interval_of
from support.plans import changed_plan
from support.rows import OperationRow, StreamRow, WorkerRow
from support.store import RUN_ID, Scenario, changed, fill, run_record

AGENTS = ("load1", "load2", "load3")
SCENARIO = Scenario(agents=AGENTS, ramp_up_s=1, warm_up_s=2, measure_s=17)
KEYS = (("readers", "search"), ("writers", "modify"))
#: Servers with rows of their own; the empty one is of requests that got to none.
SERVERS = {KEYS[0]: ("", "ldap://a", "ldap://b"), KEYS[1]: ("",)}
WANTED = {KEYS[0]: "succeeded", KEYS[1]: "expected"}
MET, MISSED = IntervalState.MET, IntervalState.MISSED
VALIDITY = Validity.model_validate({"busy_share": "50%", "run_queue_share": "25%"})
STREAMS = {
    "writers": {
        "operations": [{"name": "modify", "kind": "modify", "success_codes": []}]
    }
}


def _histogram(rng: np.random.Generator) -> bytes:
    """Of few or many values, some above one hour."""
    values = rng.lognormal(np.log(10 ** rng.uniform(5, 8)), 0.6, rng.integers(1, 1500))
    over = rng.integers(0, 3) * (rng.random() < 0.1)
    return packed_of([*values.astype(int), *[4_000 * NS_PER_S] * over])


def _operation(
    rng: np.random.Generator, key: tuple[str, str], server: str, measured: bool
) -> Any:
    outcomes = ("succeeded", WANTED[key], *rng.choice(OUTCOMES, rng.integers(0, 3)))
    counts = {name: int(rng.integers(0, 900)) for name in OPERATION_COUNTERS}
    for name in ("timed_out", "unresolved"):
        counts[name] = int(rng.integers(0, 9) * (rng.random() < 0.3))
    stream, operation = key
    codes = [int(code) for code in rng.choice(90, 3)]
    return OperationRow(
        stream=stream,
        operation=operation,
        server=server,
        measured=measured,
        **counts,
        result_codes={code: code + 3 for code in codes},
        diagnostic_messages={
            code: f"{code}: {rng.integers(0, 5)}" for code in codes[:2]
        },
        histograms={
            (metric, outcome): _histogram(rng)
            for metric in METRICS
            for outcome in dict.fromkeys(outcomes)
            if rng.random() < 0.8
        },
    )


def _set_ups(rng: np.random.Generator) -> dict[str, Any]:
    return {
        name: _histogram(rng) if rng.random() < 0.2 else b"" for name in SET_UP_TIMES
    }


def _record(rng: np.random.Generator, agent: str, index: int) -> Interval:
    start_ns = index * NS_PER_S
    phase = next(
        (
            span["name"]
            for span in SCENARIO.phases
            if span["start_ns"] <= start_ns < span["end_ns"]
        ),
        "drain",
    )
    operations = [
        _operation(rng, key, server, measured)
        for key in KEYS
        for server in SERVERS[key]
        for measured in (False, True)
        if rng.random() < 0.8
    ]
    return interval_of(
        agent,
        index,
        phase=phase,
        start_ns=start_ns + int(rng.integers(0, 90_000)),
        end_ns=start_ns + NS_PER_S + int(rng.integers(0, 90_000)),
        final=phase == "drain",
        operations=tuple(operations),
        streams=tuple(
            StreamRow(
                stream=stream,
                server=server,
                connects=int(rng.integers(0, 4)),
                late_responses=int(rng.integers(0, 4)),
                in_flight=int(rng.integers(0, 9)),
                backlog=int(rng.integers(0, 50)),
                **{
                    name: start_ns + int(rng.integers(1, 9))
                    if rng.random() < 0.5
                    else 0
                    for name in STREAM_TIMES
                },
                **_set_ups(rng),
            )
            for stream, operation in KEYS
            for server in SERVERS[stream, operation]
        ),
        workers=tuple(
            WorkerRow(
                worker=number,
                model=model,
                wall_ns=int(rng.choice([NS_PER_S, 30_000, 0])),
                busy_ns=int(rng.integers(0, NS_PER_S)),
                cpu_ns=int(rng.integers(0, NS_PER_S)),
                run_queue_ns=int(rng.integers(0, NS_PER_S // 2)),
            )
            for number, model in ((0, "open"), (0, "closed"), (1, "closed"))
        ),
        host=HostInterval(
            cpu_utilisation=float(rng.random()),
            hiccup_max_ns=index * 7_919_000 % 9_000_000,
            stalled_ns=index * 104_729_000 % 90_000_000,
        ),
        clock_step_ns=int(rng.normal(0, 800_000)),
    )


@functools.cache
def _records(seed: int) -> list[Interval]:
    """Several tests have the same ones."""
    rng = np.random.default_rng(seed)
    return [
        _record(rng, agent, index)
        for index in range(len(SCENARIO.boundaries_ns) + 1)
        for agent in AGENTS
    ]


RUN = replace(SCENARIO, streams=STREAMS, thresholds=("*.*.response_time.p50 < 5ms",))


def _collected(
    records: list[Interval],
    *,
    scenario: Scenario = RUN,
    path: str | Path = "sqlite://",
) -> Collected:
    with Store.open(path) as store:
        if not store.runs():
            fill(store, scenario, records)
        return collect_run(store, _parts(store))


def _parts(store: Store) -> list[Part]:
    run = store.run(RUN_ID)
    run = replace(run, plan=replace(run.plan, validity=VALIDITY))
    return parts_of_run(store, run, store.agents(RUN_ID))


def _make_small_parts(monkeypatch: pytest.MonkeyPatch, intervals: int = 4) -> None:
    monkeypatch.setattr(timeline_module, "_PART_REPORTS", 1)
    monkeypatch.setattr(timeline_module, "_PART_INTERVALS", intervals)


def _expected(records: list[Interval]) -> ByRecord:
    return by_record(records, WANTED, VALIDITY, fragment_ns=NS_PER_S / 10)


@pytest.fixture
def _small_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each report is read by itself."""
    monkeypatch.setattr(columns, "_WINDOW_BYTES", 1)


def _check_totals(collected: Collected, expected: ByRecord) -> None:
    for key in KEYS:
        found = collected.operations[key]
        assert +found.whole == +expected.whole[key]
        assert +found.measured == +expected.measured[key]
        assert found.result_codes == expected.codes[key]
        assert found.diagnostic_messages == {
            code: list(texts)[:3] for code, texts in expected.messages[key].items()
        }
        assert found.unmeasured_overflow == expected.overflow[key]
        assert found.completed_in_measure == expected.in_measure[key, "completed"]
        assert found.succeeded_in_measure == expected.in_measure[key, "succeeded"]
    histograms: dict[tuple[Any, ...], Histogram] = {
        **{
            (key, one): histogram
            for key in KEYS
            for one, histogram in collected.operations[key].histograms.items()
        },
        **{
            ("agent", name, key): histogram
            for name, agent in collected.agents.items()
            for key, histogram in agent.response_times.items()
        },
        **{
            ("set-up", name, time): histogram
            for name, stream in collected.streams.items()
            for time, histogram in stream.set_up.items()
        },
    }
    assert histograms.keys() == expected.histograms.keys()
    for key, histogram in histograms.items():
        assert pack(histogram) == pack(expected.histograms[key]), key


def _check_servers(collected: Collected, records: list[Interval]) -> None:
    for key in KEYS:
        found = collected.operations[key].servers
        assert found.keys() == set(SERVERS[key][1:])
        for server, totals in found.items():
            rows = [
                (record.phase, one)
                for record in records
                for one in record.operations
                if (one.stream, one.operation, one.server) == (*key, server)
            ]
            measured = [one for _, one in rows if one.measured]
            for counter in OPERATION_COUNTERS:
                number = sum(getattr(one, counter) for one in measured)
                assert totals.measured[counter] == number
            assert totals.completed_in_measure == sum(
                one.completed for phase, one in rows if phase == "measure"
            )
            for metric in ("response_time", "service_time"):
                packed = [one.histograms.get((metric, WANTED[key])) for one in measured]
                whole = Histogram.merge(filter(None, packed))
                assert pack(totals.times[metric]) == pack(whole)


@pytest.mark.parametrize("window_bytes", [1, 3 << 20])
def test_columns_add_up_to_what_records_do(
    window_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "_WINDOW_BYTES", window_bytes)
    records = _records(window_bytes)
    collected, expected = _collected(records), _expected(records)
    _check_totals(collected, expected)
    _check_servers(collected, records)
    assert collected.intervals == len(records)
    for name, stream in collected.streams.items():
        assert stream.last_done_ns == expected.last_done_ns[name]
        assert stream.responses == expected.responses[name]
        for counter, number in stream.counters.items():
            assert number == expected.connections[name, counter]
    for place, one in collected.operations.items():
        for counter in IN_DOUBT:
            number = expected.disturbed[".".join(place), counter]
            assert one.disturbed[counter] == number
    assert any(one.disturbed["completed"] for one in collected.operations.values())
    found: Counter[tuple[str, str, int, str]] = Counter()
    for name, agent in collected.agents.items():
        assert agent.seen == expected.seen[name]
        done = expected.of_agents[name, "completed in measure"]
        assert agent.completed_in_measure == done
        for counter in OPERATION_COUNTERS:
            assert agent.measured[counter] == expected.of_agents[name, counter]
        for (model, worker), totals in agent.workers.items():
            key = name, model, worker
            found[*key, "wall"] = totals.wall_ns
            assert totals.highest_busy_share == expected.highest[*key, "busy"]
            assert totals.highest_run_queue_share == expected.highest[*key, "queue"]
        disturbed = {
            "wall": agent.wall_ns,
            **agent.disturbed_ns,
        }
        for what, number in disturbed.items():
            assert number == expected.disturbed[name, what], what
        cpu = (
            n
            for (who, *_, what), n in expected.workers.items()
            if what == "cpu" and who == name
        )
        assert agent.worker_cpu_ns == sum(cpu)
        hosts = [one for one in records if one.agent == name and one.phase == "measure"]
        longest_ns = max(one.host.hiccup_max_ns for one in hosts if one.host)
        assert agent.longest_hiccup_ns == longest_ns
        assert agent.stalled_ns == sum(one.host.stalled_ns for one in hosts if one.host)
        lengths_ns = (one.end_ns - one.start_ns for one in hosts)
        assert agent.stalled_share == agent.stalled_ns / sum(lengths_ns)
    assert +found == +Counter(
        {key: n for key, n in expected.workers.items() if key[-1] != "cpu"}
    )


def _operations(
    records: list[Interval], key: tuple[str, str] | None = None
) -> list[OperationRow]:
    return [
        one
        for record in records
        for one in record.operations
        if key in (None, (one.stream, one.operation))
    ]


def _times(operations: list[OperationRow], metric: str = "response_time") -> Histogram:
    """Return the times of the wanted outcomes of all operations together."""
    whole = Histogram()
    for one in operations:
        wanted = metric, WANTED[one.stream, one.operation]
        if packed := one.histograms.get(wanted):
            whole.add(Histogram.merge([packed]))
        whole.unanswered += one.timed_out + one.unresolved
    return whole


def _percentiles_us(operations: list[OperationRow]) -> list[float | None]:
    found = map(_times(operations).reliable_percentile, (90, 99))
    return [None if ns is None else ns / 1000 for ns in found]


def _check_members(timeline: Timeline, place: int, members: list[Interval]) -> None:
    """Agents and servers at a point; `members` are its records."""
    for agent in AGENTS:
        of_agent = _operations([one for one in members if one.agent == agent])
        found = timeline.agents[agent]
        percentiles = [found.p90_us[place], found.p99_us[place]]
        assert percentiles == _percentiles_us(of_agent)
    for uri in SERVERS[KEYS[0]][1:]:
        of_server = [one for one in _operations(members) if one.server == uri]
        server = timeline.servers[uri]
        percentiles = [server.p90_us[place], server.p99_us[place]]
        assert percentiles == _percentiles_us(of_server)
        every = [one.completed for one in _operations(members, KEYS[0])]
        rate = timeline.operations[KEYS[0]].throughput_per_s[place]
        share = sum(one.completed for one in of_server) / sum(every)
        assert server.throughput_per_s[place] == (rate and pytest.approx(rate * share))


@pytest.mark.parametrize(("points", "window_bytes"), [(600, 3 << 20), (6, 1)])
def test_points_show_what_their_records_say(
    points: int, window_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeline_module, "DISPLAY_POINTS", points)
    monkeypatch.setattr(columns, "_WINDOW_BYTES", window_bytes)
    records = _records(3)
    timeline = _collected(records).timeline
    plan = Plan(run_record(RUN).plan)
    numbers = sorted({plan.point(record.index) for record in records})
    assert len(timeline.start_s) == len(numbers)
    assert all(point.operations for point in timeline.points)
    for place, number in enumerate(numbers):
        members = [one for one in records if plan.point(one.index) == number]
        for key in KEYS:
            figures, singles = point_of(members, key, WANTED[key])
            series = timeline.operations[key]
            for name, value in figures.items():
                assert getattr(series, name)[place] == value, (name, place)
            for name, envelope in series.envelopes.items():
                known = [v for one in singles if (v := one[name]) is not None]
                assert envelope.low[place] == min(known, default=None)
                assert envelope.high[place] == max(known, default=None)
        _check_members(timeline, place, members)
        for stream, _ in KEYS:
            gauges = timeline.streams[stream]
            for name in ("in_flight", "backlog"):
                ends = _gauge(members, stream, name)
                if name == "in_flight":
                    ends = _in_flight(members, stream, ends)
                assert getattr(gauges, name)[place] == sum(ends) / len(ends)
                if plan.intervals_per_point > 1:
                    assert gauges.envelopes[name].low[place] == min(ends)
                    assert gauges.envelopes[name].high[place] == max(ends)
    spread = {"throughput_per_s", "errors_per_s", "p50_us", "p99_us"}
    envelopes = timeline.operations[KEYS[0]].envelopes.keys()
    assert envelopes == (spread if plan.intervals_per_point > 1 else set())


def _is_beyond(
    records: list[Interval], metric: str, p: float, limit_us: float
) -> bool | None:
    """Of the requests of an interval, any operation's; None: too few requests."""
    found = set()
    for key in KEYS:
        times = _times(_operations(records, key), metric)
        if times.sample >= samples_needed(p):
            value_ns = times.percentile(p)
            found.add(value_ns is None or value_ns / 1000 >= limit_us)
    return any(found) if found else None


def test_live_figures_and_aborts_agree_with_the_report() -> None:
    """With dropped arrivals, requests without an answer, expected result codes, several
    servers and agents."""
    expressions = {
        f"{stream}.{operation}.{text} for 1s, abort": (stream, operation)
        for stream, operation in KEYS
        for text in ("errors < 6%", "p50 < 5ms", "p95 < 5s", "throughput > 4k/s")
    }
    scenario = replace(RUN, thresholds=tuple(expressions))
    plan = run_record(scenario).plan
    # of a generator that nothing disturbs
    records = [
        replace(
            one,
            host=None,
            workers=(),
            operations=[_undisturbed(row) for row in one.operations],
        )
        for one in _records(3)
        if one.phase == "measure"
    ]
    timeline = _collected(records, scenario=scenario).timeline
    live = LiveStatistics(AGENTS, plan)
    measured = [m for one in records for m in live.add(one.agent, one.snapshot)]
    seen = set()
    for place, (figures, window) in enumerate(measured):
        for stream in figures.streams:
            for one in stream.operations:
                series = timeline.operations[stream.stream, one.operation]
                length_s = window.length_ns() / NS_PER_S
                shown = one.throughput_per_s, one.errors / length_s
                charted = series.throughput_per_s[place], series.errors_per_s[place]
                assert shown == pytest.approx(charted)
                for name in ("p50_us", "p99_us", "max_us"):
                    us = getattr(one, f"response_time_{name}")
                    is_known = 0 < us < math.inf
                    assert getattr(series, name)[place] == (us if is_known else None)
        totals = totals_of(plan, window)
        for expression, key in expressions.items():
            watch = AbortWatch(changed_plan(plan, thresholds=[expression]))
            state = timeline.states[expression][key][figures.index]
            assert bool(watch.take(window, totals)) is (state == MISSED)
            seen.add((expression.partition(" ")[0].rpartition(".")[2], state))
    assert len(measured) == SCENARIO.measure_s
    figures_seen = "errors", "p50", "p95", "throughput"
    assert seen >= {(one, state) for one in figures_seen for state in (MET, MISSED)}


def _undisturbed(row: OperationRow) -> OperationRow:
    """The row without lags of the generator, and with fewer errors."""
    kept = {
        one: packed
        for one, packed in row.histograms.items()
        if one[0] not in GENERATOR_LAGS
    }
    fewer = {name: getattr(row, name) // 20 for name in ("failed", "dropped")}
    return changed(row, histograms=kept, **fewer)


@pytest.mark.usefixtures("_small_window")
def test_each_interval_meets_a_threshold_on_a_percentile_or_misses_it() -> None:
    limits = {
        "*.*.response_time.p99 < 250ms": ("response_time", 99, 250_000),
        "*.*.service_time.p50 <= 2ms": ("service_time", 50, 2_000),
        "*.*.response_time.p99.99 < 1h": ("response_time", 99.99, 3.6e9),
    }
    others = ("*.*.errors < 1%", "*.*.response_time.max < 1s", "*.*.goodput > 1/s")
    scenario = replace(RUN, thresholds=(*limits, *others))
    # among requests without an answer, so the p99 is above any limit
    records = [
        replace(one, operations=tuple(changed(o, timed_out=90) for o in one.operations))
        if one.index == 9
        else one
        for one in _records(5)
    ]
    collected = _collected(records, scenario=scenario)
    in_measure = [one for one in records if one.phase == "measure"]
    assert collected.timeline.states.keys() == limits.keys()
    for expression, limit in limits.items():
        beyond = [
            _is_beyond([one for one in in_measure if one.index == index], *limit)
            for index in sorted({one.index for one in in_measure})
        ]
        states = collected.timeline.states_of(expression) or b""
        assert [states.count(one) for one in (MET, MISSED)] == [
            sum(one is False for one in beyond),
            sum(one is True for one in beyond),
        ]
    p99 = collected.timeline.states_of("*.*.response_time.p99 < 250ms") or b""
    assert MISSED in p99
    assert MET in p99
    assert not any(collected.timeline.states_of("*.*.response_time.p99.99 < 1h") or b"")
    assert collected.timeline.states_of("*.*.errors < 1%") is None


def _in_flight(
    records: list[Interval], stream: str, at_end: list[float]
) -> list[float]:
    """On average, by interval, of all agents: by Little's law, if it can tell."""
    found = []
    indexes = dict.fromkeys(record.index for record in records)
    for index, number in zip(indexes, at_end, strict=True):
        members = [record for record in records if record.index == index]
        length_ns = length_ns_of(members)
        sums = [
            packed_sums(packed)
            for record in members
            for one in record.operations
            if one.stream == stream
            for (metric, _), packed in one.histograms.items()
            if metric == "service_time"
        ]
        longest_ns = max((one.max_ns for one in sums), default=0)
        total_ns = sum(one.sum_ns for one in sums)
        is_known = 0 < longest_ns <= length_ns
        found.append(total_ns / length_ns if is_known else number)
    return found


@pytest.mark.parametrize(
    ("services_ms", "at_end", "mean"),
    [
        # one of 4 ms every 10 ms, whatever there is when the interval ends
        ([4] * 100, 1, 0.4),
        ([4] * 100, 0, 0.4),
        # nothing ends, or only what began before
        ([], 16, 16),
        ([3000] * 16, 2, 2),
        # all that stood still within the interval is known
        ([500] * 16 + [1] * 500, 0, 8.5),
    ],
)
def test_requests_in_flight_are_a_mean_where_it_is_known(
    services_ms: list[int], at_end: int, mean: float
) -> None:
    sum_ns = np.array([sum(services_ms) * 1e6])
    service = ServiceSlots(sum_ns, np.array([max(services_ms, default=0) * 1e6]))
    ends, lengths_ns = np.array([float(at_end)]), np.array([1e9])
    found = service.mean_in_flight(ends, lengths_ns, np.array([0]))
    assert found.tolist() == [pytest.approx(mean)]


def _gauge(records: list[Interval], stream: str, name: str) -> list[float]:
    """Sums over the agents, by interval."""
    sums: dict[int, float] = defaultdict(float)
    for record in records:
        for one in record.streams:
            sums[record.index] += getattr(one, name) * (one.stream == stream)
    return list(sums.values())


def test_rates_do_not_depend_on_how_late_agents_close_their_intervals() -> None:
    rng = np.random.default_rng(5)
    planned = range(len(SCENARIO.boundaries_ns))
    records = []
    for agent in AGENTS:
        late_ns = np.concatenate([[0], rng.integers(0, 30_000_000, len(planned))])
        for index in planned:
            start_ns = index * NS_PER_S + int(late_ns[index])
            end_ns = (index + 1) * NS_PER_S + int(late_ns[index + 1])
            # one each millisecond
            done = OperationRow(
                stream="readers",
                operation="search",
                completed=(end_ns - start_ns) // 1_000_000,
            )
            fields = {"start_ns": start_ns, "end_ns": end_ns, "operations": (done,)}
            records.append(interval_of(agent, index, **fields))
    rates = _collected(records).timeline.operations[KEYS[0]].throughput_per_s
    assert rates == [pytest.approx(3_000, abs=4)] * len(planned)


def test_a_run_with_all_values_above_one_hour_is_collected() -> None:
    records = _records.__wrapped__(6)  # to be changed
    for one in _operations(records):
        one.histograms = dict.fromkeys(one.histograms, packed_of([4_000 * NS_PER_S]))
    _check_totals(_collected(records), _expected(records))


def test_a_run_collected_in_parts_is_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = _records(4)
    path = tmp_path / "results.sqlite"
    whole = _collected(records, path=path)
    _make_small_parts(monkeypatch)
    in_parts = _collected(records, path=path)
    _check_totals(in_parts, _expected(records))
    assert in_parts.timeline == whole.timeline
    assert in_parts.complete == whole.complete
    assert in_parts.measure_start_ns == whole.measure_start_ns
    assert in_parts.measure_end_ns == whole.measure_end_ns
    assert in_parts.intervals == whole.intervals
    assert in_parts.streams.keys() == whole.streams.keys()
    for name, agent in in_parts.agents.items():
        other = whole.agents[name]
        assert agent.workers == other.workers
        assert agent.seen == other.seen
        assert agent.final_index == other.final_index == len(SCENARIO.boundaries_ns)
        assert agent.clock_steps_ns == other.clock_steps_ns
        assert agent.cpu_utilisation_ns == pytest.approx(other.cpu_utilisation_ns)


@pytest.fixture
def kept_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A run of which the first part is kept; a report of it is not there yet."""
    _make_small_parts(monkeypatch)
    with Store.open("sqlite://") as store:
        fill(store, RUN, [one for one in _records(4) if one is not _late()])
        _set_state(store, "running")
        _keep(store, _parts(store)[0])
        yield store


def _set_state(store: Store, state: str) -> None:
    with store.transaction(writes=True) as connection:
        connection.execute(schema.run.update(), {"state": state})


def _late() -> Interval:
    return next(one for one in _records(4) if one.index == 2)


def plain(value: object) -> object:
    """With all that it consists of."""
    if isinstance(value, Histogram):
        return pack(value), value.unanswered
    if is_dataclass(value):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list | tuple) else value


def _keep(store: Store, part: Part) -> bool:
    span = part.span.start, part.span.stop - 1
    of = reports_part(store, RUN_ID, *span)
    kept_part = CollectedPart(*span, of.rows, of.sha256, part.made_of)
    return keep(store, RUN_ID, kept_part, encoded(part.collect(store)))


def test_what_is_kept_is_what_was_collected(kept_in: Store) -> None:
    parts = _parts(kept_in)
    assert [part.span.start for part in parts[:3]] == [0, 4, 8]
    by_reports = collect_run(kept_in, parts, from_reports=True)
    with kept_in.transaction(writes=True) as connection:  # nobody reads these again
        table = schema.interval_report
        connection.execute(table.delete().where(table.c.interval_index < 4))
    assert plain(collect_run(kept_in, parts)) == plain(by_reports)


@pytest.mark.parametrize(
    "change",
    [
        lambda store: store.add_interval(RUN_ID, _late().record),
        lambda store: store.put_agent(
            RUN_ID, "load1", AgentFacts(), StoredPart(attempt=2, epoch=2)
        ),
    ],
    ids=["a late report", "another attempt"],
)
def test_more_of_its_intervals_is_no_part_of_what_is_kept(
    kept_in: Store, change: Callable[[Store], object]
) -> None:
    assert kept(kept_in, RUN_ID)
    change(kept_in)
    assert not kept(kept_in, RUN_ID)


def test_a_part_is_kept_only_of_the_reports_that_are_there(kept_in: Store) -> None:
    part, of = _parts(kept_in)[1], reports_part(kept_in, RUN_ID, 4, 7)
    with kept_in.transaction(writes=True) as connection:
        table = schema.interval_report
        row = sa.and_(table.c.agent == "load1", table.c.interval_index == 5)
        connection.execute(table.delete().where(row))
    content = CollectedPart(4, 7, of.rows, of.sha256, part.made_of)
    assert not keep(kept_in, RUN_ID, content, b"")
    assert list(kept(kept_in, RUN_ID)) == [0]


def test_nothing_is_kept_of_a_run_that_has_ended(kept_in: Store) -> None:
    _set_state(kept_in, "finished")
    assert not _keep(kept_in, _parts(kept_in)[1])


def test_a_part_that_cannot_be_read_is_collected_from_its_reports(
    kept_in: Store,
) -> None:
    parts = _parts(kept_in)
    by_reports = collect_run(kept_in, parts, from_reports=True)
    with kept_in.transaction(writes=True) as connection:
        connection.execute(schema.collected_part.update(), {"content": b"damaged"})
    assert plain(collect_run(kept_in, parts)) == plain(by_reports)


@pytest.mark.parametrize(
    ("buckets", "counts"),
    [([5, 4], [1, 1]), ([5, 5], [1, 1]), ([5], [1, 1]), ([5], [0]), ([50_000], [1])],
)
def test_a_damaged_histogram_of_a_part_is_found(
    buckets: list[int], counts: list[int]
) -> None:
    packed = kept_module._Histogram(
        np.array(buckets, "<u2").tobytes(),
        np.array(counts, "<i8").tobytes(),
        Sums(2, 0, 1, 1, 1),
        0,
    )
    with pytest.raises(StoreError, match="damaged"):
        kept_module._histogram(packed)


def test_a_part_with_a_number_that_does_not_fit_is_not_kept(kept_in: Store) -> None:
    collected = _parts(kept_in)[0].collect(kept_in)
    next(iter(collected.operations[KEYS[0]].histograms.values())).sum_ns = 1 << 64
    with pytest.raises(StoreError, match="cannot be kept"):
        encoded(collected)


def test_what_is_made_otherwise_is_collected_again(kept_in: Store) -> None:
    parts = _parts(kept_in)
    [known] = kept(kept_in, RUN_ID).values()
    assert parts[0].is_made_as(known)
    plan = replace(parts[0].run.plan, validity=Validity())
    other = replace(parts[0], run=replace(parts[0].run, plan=plan))
    assert not other.is_made_as(known)
    assert not replace(parts[0], ended={"load1": 2}).is_made_as(known)


@pytest.mark.parametrize("damage", [b"", b"1", encoded.__name__.encode() * 9])
def test_damaged_content_is_said(damage: bytes) -> None:
    with pytest.raises(StoreError, match="damaged"):
        decoded(damage)


def test_parts_begin_where_a_point_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline_module, "DISPLAY_POINTS", 6)
    plan, every = Plan(run_record(SCENARIO).plan), len(SCENARIO.boundaries_ns)
    for step in range(1, 9):
        _make_small_parts(monkeypatch, step)
        parts = plan.parts(2)
        edges = [(part.start, part.stop) for part in parts]
        assert edges[0][0] == 0
        assert edges[-1][1] > every
        assert all(before[1] == after[0] for before, after in pairwise(edges))
        assert all(len(part) >= step for part in parts[:-1])
        for before, after in pairwise(parts):
            assert plan.point(before[-1]) != plan.point(after[0])
    assert len(Plan(RunPlan()).parts(2)) == 1


@given(
    sizes=st.lists(st.integers(0, 400), min_size=1, max_size=12),
    seed=st.integers(0, 99),
)
def test_a_block_is_its_histograms(sizes: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    packed = [packed_of(rng.lognormal(14, 2, size).astype(int)) for size in sizes]
    histogram = Histogram()
    histogram.add_block(block_of(packed))
    assert pack(histogram) == pack(Histogram.merge(packed))


@pytest.mark.parametrize("place", [0, 1, 4])
@pytest.mark.parametrize(
    "damage",
    [
        lambda packed: packed[:-1],
        lambda packed: packed + b"\0",
        lambda packed: b"SLH2" + packed[4:],
        lambda packed: b"",
        lambda packed: packed[:8] + b"\x01" + packed[9:],
        lambda packed: packed[:48] + b"\xff\xff" + packed[50:],
    ],
    ids=["cut", "too long", "magic", "empty", "total", "index"],
)
def test_one_damaged_histogram_of_a_block_is_found(place: int, damage: Any) -> None:
    good = packed_of([1000, 5000, 70_000])
    packed = [good] * 5
    packed[place] = damage(good)
    with pytest.raises(StoreError, match="packed histogram"):
        block_of(packed)
