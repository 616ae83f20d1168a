# SPDX-License-Identifier: Apache-2.0
"""Synthetic runs: what agents would have reported, put in through Store.add_interval.

Deterministic: the same `Scenario` gives the same store. Durations are drawn per agent
and interval: readers in a closed loop that slow down for some seconds in the middle,
writers in an open loop at a fixed rate, failures with result codes, a slow warm-up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from google.protobuf.message import Message

from ldapslam.jobs.run_plan import plan_of
from ldapslam.proto.common_pb2 import HostInterval
from ldapslam.reports.model import Summary
from ldapslam.reports.streams import OperationSummary
from ldapslam.reports.summarise import summarise
from ldapslam.results.facts import AgentFacts, Manifest
from ldapslam.results.records import RunRecord
from ldapslam.results.store import Store
from support.histograms import packed_of
from support.intervals import (
    NS_PER_S,
    Interval,
    add_intervals,
    drain_of,
    interval_of,
)
from support.rows import OperationRow, StreamRow, WorkerRow

RUN_ID = "20260301-120000-demo-7f3a"

Values = npt.NDArray[np.int64]
Changed = TypeVar("Changed")

JOB_TEXT = """\
name: directory-mix
description: readers on the replica, rate-limited writers on the supplier
targets:
  supplier: ldap://ds1.example.com
  replica: ldap://ds2.example.com
streams:
  - name: readers
    target: replica
    load: {clients: 24}
    operations:
      - search: {base: "ou=people,dc=example,dc=com", filter: "(uid=user.[0-99999])"}
  - name: writers
    target: supplier
    load: {rate: 150/s, arrivals: poisson, connections: 4}
    operations:
      - modify:
          dn: "uid=user.[0-99999],ou=people,dc=example,dc=com"
          replace: {description: "[random:80]"}
thresholds: ["readers.search.response_time.p99 < 20ms", "writers.*.errors < 1%"]
"""


@dataclass(frozen=True)
class Scenario:
    """A run to make up; the defaults are a healthy one, small enough for unit tests."""

    agents: tuple[str, ...] = ("load1", "load2")
    ramp_up_s: int = 1
    warm_up_s: int = 2
    measure_s: int = 6
    #: Divides the lengths of the phases.
    interval_s: int = 1
    cool_down_s: int = 1
    #: Of each agent.
    searches_per_s: int = 400
    #: Of all agents.
    modifies_per_s: int = 150
    #: Seconds since T0 in which the replica is slow.
    slow_from_s: int = 6
    slow_to_s: int = 7
    #: (agent, index) of intervals that never arrive.
    lost: frozenset[tuple[str, int]] = frozenset()
    #: Share of modifies that fail.
    failing: float = 0.004
    thresholds: tuple[str, ...] = (
        "readers.search.response_time.p99 < 20ms",
        "writers.*.errors < 1%",
    )
    #: Fields of the run that differ, and figures that spoil it.
    run: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    busy_share: float = 0.35
    send_lag_scale_ns: int = 20_000
    dropped: int = 0
    #: Stream -> fields of its plan that differ.
    streams: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: Fields of the plan that differ.
    plan: dict[str, Any] = field(default_factory=dict)
    #: Changes each report before it is stored.
    edit: Callable[[Interval], Interval] = lambda record: record
    #: Searches of each agent in each interval that have no answer.
    timed_out: int = 0
    unresolved: int = 0
    seed: int = 42

    @property
    def phases(self) -> list[dict[str, Any]]:
        spans, start_ns = [], 0
        for name in ("ramp_up", "warm_up", "measure", "cool_down"):
            end_ns = start_ns + getattr(self, f"{name}_s") * NS_PER_S
            if end_ns > start_ns:
                spans.append({"name": name, "start_ns": start_ns, "end_ns": end_ns})
            start_ns = end_ns
        return spans

    @property
    def boundaries_ns(self) -> list[int]:
        last_s = self.phases[-1]["end_ns"] // NS_PER_S
        step_s = self.interval_s
        return [end_s * NS_PER_S for end_s in range(step_s, last_s + 1, step_s)]


#: Fields of a scenario of few requests.
SMALL: dict[str, Any] = {
    "agents": ("load1",),
    "measure_s": 2,
    "searches_per_s": 60,
    "thresholds": (),
}


def summary_of(
    scenario: Scenario,
    records: Iterable[Interval] | None = None,
    *,
    add: Callable[[Store], None] = lambda store: None,
) -> Summary:
    """Return the summary of the run that `fill` makes; `add` puts more into its store
    before."""
    with Store.open("sqlite://") as store:
        run_id = fill(store, scenario, records)
        add(store)
        return summarise(store, run_id)


def fill(
    store: Store, scenario: Scenario, records: Iterable[Interval] | None = None
) -> str:
    """Put the run into the store, with all intervals of the scenario or with `records`
    in their place; return its id."""
    record = run_record(scenario)
    store.create_run(replace(record, state="queued"))
    for number, agent in enumerate(scenario.agents):
        store.put_agent(record.run_id, agent, agent_facts(number, scenario))
    reported = intervals(scenario) if records is None else records
    add_intervals(store, record.run_id, map(scenario.edit, reported))
    store.add_event(record.run_id, "started", "T0 reached", "2026-03-01T12:00:02Z")
    store.set_run_state(record.run_id, record.state, record.state_detail)
    return record.run_id


def changed(message: Changed, **values: Any) -> Changed:
    """A copy of a message, or of a row, with other values of some fields."""
    if not isinstance(message, Message):
        return type(message)(**{**vars(message), **values})
    copy = type(message)()
    copy.CopyFrom(message)
    for name in values:
        copy.ClearField(name)
    copy.MergeFrom(type(message)(**values))
    return copy


def to_server(record: Interval, stream: str, uri: str) -> Interval:
    """A copy in which all of a stream's rows are of one server."""

    def moved(one: Changed) -> Changed:
        return changed(one, server=uri) if vars(one)["stream"] == stream else one

    return replace(
        record,
        operations=[moved(one) for one in record.operations],
        streams=[moved(one) for one in record.streams],
    )


def rule_of(summary: Summary, name: str) -> tuple[bool, str]:
    """Return whether the run follows the rule, and what was observed."""
    (rule,) = (one for one in summary.rules if one.name == name)
    return rule.passed, rule.observed


def operation_of(summary: Summary, title: str) -> OperationSummary:
    return next(one for one in summary.operations if one.title == title)


def run_record(scenario: Scenario) -> RunRecord:
    record = RunRecord(
        run_id=RUN_ID,
        job_name="directory-mix",
        job_text=JOB_TEXT,
        job_hash="sha256:5f1d7a84db00d2fce00b31a7fc73224f",
        seed=7_340_112_905,
        submitted_utc="2026-03-01T12:00:00.000000Z",
        submitted_by="ana@workstation",
        agents=scenario.agents,
        plan=plan_of(
            {
                "phases": scenario.phases,
                "boundaries_ns": scenario.boundaries_ns,
                "streams": [
                    {
                        "name": "readers",
                        "target": "replica",
                        "uris": ["ldap://ds2.example.com"],
                        "model": "closed",
                        "clients": 24,
                        "identity": "anonymous",
                        "tls": "no TLS",
                        "operations": [
                            {
                                "name": "search",
                                "kind": "search",
                                "about": "(uid=user.[0-99999]) at and below "
                                "ou=people,dc=example,dc=com",
                            }
                        ],
                        **scenario.streams.get("readers", {}),
                    },
                    {
                        "name": "writers",
                        "target": "supplier",
                        "uris": ["ldap://ds1.example.com"],
                        "model": "open",
                        "rate_per_s": float(scenario.modifies_per_s),
                        "profile": steady(
                            scenario.modifies_per_s, scenario.boundaries_ns[-1]
                        ),
                        "arrivals": "poisson",
                        "identity": "cn=admin,dc=example,dc=com",
                        "tls": "StartTLS",
                        "operations": [
                            {
                                "name": "modify",
                                "kind": "modify",
                                "about": "uid=user.[0-99999],ou=people,"
                                "dc=example,dc=com: replace description",
                            }
                        ],
                        **scenario.streams.get("writers", {}),
                    },
                ],
                "thresholds": list(scenario.thresholds),
                **scenario.plan,
            }
        ),
        manifest=Manifest.parsed(
            {
                "ldapslam": "0.1.0",
                "coordinator": {"python": "3.11.7"},
                "servers": {
                    f"ldap://{host}.example.com": {
                        "vendor_name": "OpenLDAP",
                        "vendor_version": "2.5.13",
                    }
                    for host in ("ds1", "ds2")
                },
            }
        ),
        state="finished",
        t0_utc="2026-03-01T12:00:02.000000Z",
        started_utc="2026-03-01T12:00:02.000000Z",
        finished_utc="2026-03-01T12:01:23.000000Z",
    )
    fields = dict(scenario.run)
    if isinstance(manifest := fields.get("manifest"), dict):
        fields["manifest"] = Manifest.parsed(manifest)
    return replace(record, **fields)


def steady(rate_per_s: float, length_ns: int) -> list[list[float]]:
    """The profile of a constant rate, as in a run's plan."""
    rate = rate_per_s / NS_PER_S
    return [[length_ns, rate, rate]]


def agent_facts(number: int, scenario: Scenario) -> AgentFacts:
    known = {
        "host": {
            "host_name": f"load{number + 1}.example.com",
            "kernel": "6.1.0-18-amd64",
            "cpu_model": "AMD EPYC 7763",
            "cores": 8,
        },
        "workers": 2,
        "libldap": "OpenLDAP 2.5.13",
        "kernel_stamps": True,
        "realtime": True,
        "start_error_us": 38.0 + 11 * number,
        "clock_offset_us": -112.0 + 90 * number,
        "clock_offset_bound_us": 210.0 + 40 * number,
        **scenario.facts,
    }
    return AgentFacts.parsed(known)


#: Fields of a scenario that its intervals do not depend on.
_BESIDE_INTERVALS = {"thresholds", "run", "facts", "streams", "plan", "edit"}
#: Intervals by the fields that they depend on, as text: many tests share them.
_drawn: dict[str, list[Interval]] = {}


def intervals(scenario: Scenario) -> list[Interval]:
    """What the agents report; `changed` gives messages that differ."""
    key = repr({k: v for k, v in vars(scenario).items() if k not in _BESIDE_INTERVALS})
    if key not in _drawn:
        _drawn[key] = list(_draw(scenario))
    return list(_drawn[key])


def _draw(scenario: Scenario) -> Iterator[Interval]:
    rng = np.random.default_rng(scenario.seed)
    ends = scenario.boundaries_ns
    for index, end_ns in enumerate(ends):
        for number, agent in enumerate(scenario.agents):
            record = _interval(scenario, rng, number, index, end_ns)
            if (agent, index) not in scenario.lost:
                yield record
    for agent in scenario.agents:
        drain = drain_of(agent, len(ends), length_ns=3_000_000)
        yield replace(drain, start_ns=ends[-1], end_ns=ends[-1] + 3_000_000)


def _interval(
    scenario: Scenario,
    rng: np.random.Generator,
    number: int,
    index: int,
    end_ns: int,
) -> Interval:
    start_ns = end_ns - scenario.interval_s * NS_PER_S
    phase = next(
        span["name"]
        for span in scenario.phases
        if span["start_ns"] <= start_ns < span["end_ns"]
    )
    warmth = 1.0 + 1.6 * np.exp(-index / 4)
    if scenario.slow_from_s <= index < scenario.slow_to_s:
        warmth *= 2.6
    pace = scenario.searches_per_s / warmth * (1 - 0.04 * number)
    if phase == "ramp_up":
        pace *= (index + 0.5) / scenario.ramp_up_s
    searches = int(pace * rng.normal(1, 0.02))
    modifies = int(rng.poisson(scenario.modifies_per_s / len(scenario.agents)))
    measured = phase == "measure"
    lag_ns = rng.gamma(1.2, scenario.send_lag_scale_ns, modifies).astype(np.int64)
    return interval_of(
        scenario.agents[number],
        index,
        phase=phase,
        start_ns=start_ns,
        end_ns=end_ns,
        operations=(
            changed(
                _operation(
                    "readers",
                    "search",
                    measured,
                    service_ns=_times(rng, searches, 260_000 * warmth, 0.35, 0.012),
                    lag_ns=rng.gamma(1.5, 3_000, searches).astype(np.int64),
                    failures={},
                ),
                scheduled=searches + scenario.timed_out + scenario.unresolved,
                sent=searches + scenario.timed_out + scenario.unresolved,
                timed_out=scenario.timed_out,
                unresolved=scenario.unresolved,
            ),
            changed(
                _operation(
                    "writers",
                    "modify",
                    measured,
                    service_ns=_times(rng, modifies, 1_900_000, 0.4, 0.02),
                    lag_ns=lag_ns,
                    failures=_failures(rng, modifies, scenario.failing),
                ),
                scheduled=modifies + scenario.dropped,
                dropped=scenario.dropped,
            ),
        ),
        streams=(
            _stream(rng, "readers", 24 // len(scenario.agents), index),
            _stream(rng, "writers", 2, index),
        ),
        workers=(
            _worker(rng, 0, "closed", scenario.busy_share),
            _worker(rng, 1, "open", 0.08),
        ),
        host=HostInterval(
            cpu_utilisation=float(rng.normal(0.31, 0.02)),
            steal_share=float(abs(rng.normal(0, 0.002))),
            throttled_ns=0,
            hiccup_max_ns=140_000 + 2_000_000 * (index == scenario.slow_from_s),
            stalled_ns=2_140_000 * (index == scenario.slow_from_s),
        ),
        clock_step_ns=int(rng.normal(0, 900)),
    )


def _times(
    rng: np.random.Generator, count: int, median_ns: float, spread: float, tail: float
) -> Values:
    """Log-normal with a share `tail` of values some twenty times as long."""
    values = rng.lognormal(np.log(median_ns), spread, count)
    slow = rng.random(count) < tail
    values[slow] *= rng.gamma(6, 2.5, int(slow.sum()))
    return values.astype(np.int64)


def _failures(rng: np.random.Generator, count: int, share: float) -> dict[int, int]:
    failed = int(rng.binomial(count, share))
    busy = int(rng.binomial(failed, 0.3))
    return {code: n for code, n in ((32, failed - busy), (51, busy)) if n}


def _operation(
    stream: str,
    operation: str,
    measured: bool,
    *,
    service_ns: Values,
    lag_ns: Values,
    failures: dict[int, int],
) -> OperationRow:
    completed, failed = len(service_ns), sum(failures.values())
    wait_ns = np.where(service_ns > 8_000_000, service_ns // 3, 0)
    metrics = {
        "response_time": service_ns + lag_ns + wait_ns,
        "service_time": service_ns,
        "send_lag": lag_ns,
        "receive_lag": lag_ns // 2 + 2_000,
        "backlog_wait": wait_ns,
    }
    histograms = {}
    for metric, values in metrics.items():
        if completed > failed:
            packed = packed_of(values[failed:])
            histograms[metric, "succeeded"] = packed
        if failed:
            packed = packed_of(values[:failed])
            histograms[metric, "failed"] = packed
    codes = {0: completed - failed, **failures}
    return OperationRow(
        stream=stream,
        operation=operation,
        measured=measured,
        scheduled=completed,
        sent=completed,
        completed=completed,
        succeeded=completed - failed,
        failed=failed,
        entries=completed - failed if operation == "search" else 0,
        result_codes={code: n for code, n in codes.items() if n},
        histograms=histograms,
    )


def _stream(
    rng: np.random.Generator, name: str, connections: int, index: int
) -> StreamRow:
    last_ns = (index + 1) * NS_PER_S
    times_ns = {
        "last_done_ns": last_ns,
        "silence_after_ns": last_ns - 1,
        "silence_since_ns": last_ns - 1,
        "silence_through_ns": last_ns,
        "silence_until_ns": last_ns,
        "waiting_since_ns": last_ns,
        "heard": -1,
    }
    if index:
        return StreamRow(stream=name, in_flight=connections, **times_ns)
    values = rng.lognormal(np.log(900_000), 0.3, connections).astype(np.int64)
    return StreamRow(
        stream=name,
        connects=connections,
        in_flight=connections,
        **times_ns,
        connect_time=packed_of(values),
    )


def _worker(
    rng: np.random.Generator, number: int, model: str, busy_share: float
) -> WorkerRow:
    busy_ns = int(min(busy_share * rng.normal(1, 0.05), 1.0) * NS_PER_S)
    return WorkerRow(
        worker=number,
        model=model,
        wall_ns=NS_PER_S,
        busy_ns=busy_ns,
        spin_ns=20_000_000 if model == "open" else 0,
        cpu_ns=int(busy_ns * 0.97),
        run_queue_ns=int(abs(rng.normal(0.004, 0.002)) * NS_PER_S),
        loops=busy_ns // 40_000,
    )
