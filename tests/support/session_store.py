# SPDX-License-Identifier: Apache-2.0
"""A synthetic run with every kind of figure: sessions, counts, expected failures,
time-outs, paged searches, deletes without an entry, streams driven by Python.

Deterministic, and small. Each agent ends when its part of the counts is through: the
second one later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ldapslam.proto.common_pb2 import HostInterval
from ldapslam.proto.fields import SET_UP_TIMES
from ldapslam.results.facts import AgentFacts, CleanUp, Manifest
from ldapslam.results.records import RunRecord
from ldapslam.results.store import Store
from support.histograms import packed_of
from support.intervals import NS_PER_S, Interval, add_intervals, interval_of
from support.rows import OperationRow, StreamRow, WorkerRow
from support.store import Scenario, agent_facts, run_record

AGENTS = ("load1", "load2")
#: Interval and time at which each agent was through.
ENDS = {"load1": (8, 8_250_000_000), "load2": (9, 9_400_000_000)}
PLANNED_S = 60

Values = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Step:
    """One operation: how many each agent sends in an interval, and what becomes of
    them."""

    kind: str
    per_s: int
    median_ns: float
    expected: Mapping[int, float] | None = None
    failed: Mapping[int, float] | None = None
    timed_out: int = 0
    unresolved: int = 0
    abandoned: int = 0
    substituted: int = 0
    captures_missing: int = 0
    empty: int = 0
    #: Requests for each operation.
    requests: int = 1
    plan: Mapping[str, Any] | None = None


STREAMS: dict[str, dict[str, Step]] = {
    "logins": {
        "login-find": Step("search", 90, 400_000, captures_missing=1),
        "login-bind": Step(
            "bind",
            90,
            1_800_000,
            expected={49: 0.05},
            plan={"expected_codes": [49], "is_first": False},
        ),
        "login-list": Step(
            "search",
            30,
            2_500_000,
            empty=4,
            plan={"is_paged": True, "is_first": False},
        ),
        "login-end": Step("unbind", 80, 0, plan={"is_first": False}),
    },
    "churn": {
        "add": Step("add", 40, 3_000_000),
        "delete": Step("delete", 40, 2_600_000, failed={51: 0.02}, substituted=2),
        "gone": Step(
            "delete",
            20,
            700_000,
            expected={32: 1.0},
            plan={"success_codes": [], "expected_codes": [32], "is_first": False},
        ),
        "slow": Step("search", 20, 9_000_000, timed_out=2, unresolved=1, abandoned=3),
    },
    "tools": {"call": Step("search", 5, 45_000_000)},
}


def fill_workload(store: Store) -> str:
    """Put the run into the store; return its id."""
    record = _record()
    store.create_run(replace(record, state="queued"))
    for number, agent in enumerate(AGENTS):
        facts = agent_facts(number, Scenario(agents=AGENTS))
        clean_up = CleanUp(
            entries=31 + number,
            deleted=29,
            already_gone=2,
            left=number,
            seconds=0.125,
            error=None,
        )
        facts = facts.updated(AgentFacts(clean_up=clean_up))
        store.put_agent(record.run_id, agent, facts)
    add_intervals(store, record.run_id, workload_intervals())
    store.set_run_state(record.run_id, "finished", "")
    return record.run_id


def _record() -> RunRecord:
    # of each agent: 9 and 10 intervals
    sessions = {
        name: sum(
            19 * step.per_s
            for step in steps.values()
            if (step.plan or {}).get("is_first", True)
        )
        for name, steps in STREAMS.items()
    }
    plan = {
        "phases": [{"name": "measure", "start_ns": 0, "end_ns": PLANNED_S * NS_PER_S}],
        "boundaries_ns": [second * NS_PER_S for second in range(1, PLANNED_S + 1)],
        "streams": [
            {
                "name": name,
                "target": "supplier" if name == "churn" else "replica",
                "uris": [f"ldap://{'ds1' if name == 'churn' else 'ds2'}.example.com"],
                "model": "closed",
                "clients": 24,
                "rate_per_s": None,
                "connections": 24,
                "count": sessions[name],
                "start_ns": 2 * NS_PER_S if name == "tools" else 0,
                "end_ns": 0,
                "engine": "python" if name == "tools" else "native",
                "operations": [
                    {"name": operation, "kind": step.kind, **(step.plan or {})}
                    for operation, step in steps.items()
                ],
            }
            for name, steps in STREAMS.items()
        ],
        "thresholds": [
            "logins.login-bind.response_time.p95 < 10ms",
            "logins.login-bind.expected < 10%",
            "churn.*.elapsed < 30s",
            "churn.*.errors < 20%",
            "logins.*.errors < 2%",
            "logins.*.tls_time.p95 < 20ms",
        ],
    }
    record = run_record(Scenario(agents=AGENTS, plan=plan))
    operations = {
        "ldap://ds1.example.com": {"bind": 2, "search": 4, "delete": 31},
        "ldap://ds2.example.com": {"bind": 2, "search": 4},
    }
    manifest = record.manifest.updated(Manifest(control_operations=operations))
    return replace(record, job_name="workload", manifest=manifest)


def workload_intervals() -> Iterator[Interval]:
    rng = np.random.default_rng(11)
    for index in range(max(last for last, _ in ENDS.values()) + 1):
        for agent in AGENTS:
            last, through_ns = ENDS[agent]
            if index <= last:
                end_ns = through_ns if index == last else (index + 1) * NS_PER_S
                yield _interval(rng, agent, index, end_ns, index == last)


def _interval(
    rng: np.random.Generator,
    agent: str,
    index: int,
    end_ns: int,
    is_final: bool,
) -> Interval:
    length_ns = end_ns - index * NS_PER_S
    return interval_of(
        agent,
        index,
        end_ns=end_ns,
        final=is_final,
        operations=tuple(
            _operation(rng, stream, name, step)
            for stream, steps in STREAMS.items()
            for name, step in steps.items()
        ),
        streams=tuple(_stream(rng, name, index, end_ns) for name in STREAMS),
        workers=(
            WorkerRow(
                model="closed",
                wall_ns=length_ns,
                busy_ns=int(0.4 * length_ns),
                cpu_ns=1000,
            ),
        ),
        host=HostInterval(cpu_utilisation=0.3, steal_share=0.0, throttled_ns=0),
    )


def _operation(
    rng: np.random.Generator, stream: str, name: str, step: Step
) -> OperationRow:
    done = step.per_s
    expected = {c: int(done * share) for c, share in (step.expected or {}).items()}
    failed = {c: round(done * share) for c, share in (step.failed or {}).items()}
    by_outcome = {
        "expected": sum(expected.values()),
        "failed": sum(failed.values()) + step.captures_missing,
        "timed_out": step.timed_out,
        "unresolved": step.unresolved,
    }
    by_outcome["succeeded"] = done - by_outcome["expected"] - by_outcome["failed"]
    lost = step.timed_out + step.unresolved
    sent = done + lost + step.abandoned
    histograms = {}
    for outcome, amount in by_outcome.items():
        if amount and step.median_ns:  # else there is no response
            is_lost = outcome in ("timed_out", "unresolved")
            median_ns = 10_000_000_000 if is_lost else step.median_ns
            times = _times(rng, amount, median_ns, 0.0 if is_lost else 0.4)
            lag = rng.gamma(1.5, 3_000, amount).astype(np.int64)
            for metric, values in (
                ("response_time", times + lag),
                ("service_time", times),
                ("send_lag", lag),
                ("receive_lag", lag // 2),
            ):
                if not (is_lost and metric == "receive_lag"):
                    packed = packed_of(values)
                    histograms[metric, outcome] = packed
    successes = by_outcome["succeeded"] + step.captures_missing
    codes = {0: successes if step.median_ns else 0, **expected, **failed}
    return OperationRow(
        stream=stream,
        operation=name,
        measured=True,
        scheduled=sent + step.substituted,
        sent=sent,
        completed=done,
        succeeded=by_outcome["succeeded"],
        expected=by_outcome["expected"],
        failed=by_outcome["failed"],
        timed_out=step.timed_out,
        unresolved=step.unresolved,
        abandoned=step.abandoned,
        substituted=step.substituted,
        captures_missing=step.captures_missing,
        requests=sent * step.requests,
        empty=step.empty,
        entries=successes if step.kind == "search" else 0,
        result_codes={code: n for code, n in codes.items() if n},
        histograms=histograms,
    )


def _times(
    rng: np.random.Generator, amount: int, median_ns: float, spread: float
) -> Values:
    return rng.lognormal(np.log(median_ns), spread, amount).astype(np.int64)


def _stream(rng: np.random.Generator, name: str, index: int, end_ns: int) -> StreamRow:
    connects = 80 if name == "logins" else 12 if index == 0 else 0
    times: dict[str, Any] = dict.fromkeys(SET_UP_TIMES, b"")
    if connects:
        tcp, tls, bind = (
            _times(rng, connects, median_ns, 0.3)
            for median_ns in (180_000, 2_400_000, 700_000)
        )
        drawn = {"tcp_time": tcp, "bind_time": bind, "connect_time": tcp + bind}
        if name == "logins":
            drawn |= {"tls_time": tls, "connect_time": tcp + tls + bind}
        for key, values in drawn.items():
            times[key] = packed_of(values)
    return StreamRow(
        stream=name,
        connects=connects,
        binds=connects,
        extended=connects if name == "logins" else 0,
        unbinds=12 if end_ns % NS_PER_S else 0,
        in_flight=12,
        # the last response of the churn was half a second before the end
        last_done_ns=end_ns - (500_000_000 if name == "churn" else 10_000_000),
        **times,
    )
