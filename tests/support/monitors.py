# SPDX-License-Identifier: Apache-2.0
"""Readings of monitors, made up: a slapd, a host, a process of it.

The slapd does 100 searches/s and 10 modifies/s from T0 on; its process uses 0.3 cores
and has 64 MiB. `restart_s` is when both are gone for a second and begin anew.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from ldapslam.results.facts import MonitorFacts
from ldapslam.results.monitor_rows import add_monitor_samples, describe_monitors
from ldapslam.results.records import STARTED, Metric, MonitorDescription, MonitorSample
from ldapslam.results.store import Store

NS_PER_S = 1_000_000_000
SERVER = "supplier ldap://ds1.example.com"
_SERVES = {"supplier": ("ldap://ds1.example.com",)}
PROCESS = "slapd(411) on ds1"
SEARCHES_PER_S = 100
MODIFIES_PER_S = 10
CORES = 0.3
RESIDENT_BYTES = 64 << 20
_BEGAN_S = 1_772_366_400.0

_SERVER_METRICS = (
    Metric(STARTED, "s since 1970", "gauge"),
    Metric("search_initiated", "operations", "counter"),
    Metric("modify_initiated", "operations", "counter"),
    Metric("abandon_initiated", "operations", "counter"),
    Metric("connections", "1", "gauge"),
    Metric("bytes_sent", "bytes", "counter"),
    Metric("not_indexed[dc=example,dc=com]", "1", "counter"),
)
_PROCESS_METRICS = (
    Metric(STARTED, "s since 1970", "gauge"),
    Metric("cpu_user", "s", "counter"),
    Metric("memory_resident", "bytes", "gauge"),
)


def descriptions() -> list[MonitorDescription]:
    return [
        MonitorDescription(
            SERVER,
            _SERVER_METRICS,
            MonitorFacts(
                kind="directory",
                serves=_SERVES,
                server="slapd",
                version="OpenLDAP 2.6.9",
            ),
        ),
        MonitorDescription(
            PROCESS,
            _PROCESS_METRICS,
            MonitorFacts.parsed({"kind": "process", "serves": _SERVES, "pid": 411}),
        ),
    ]


def samples(
    last_s: int,
    *,
    restart_s: int | None = None,
    failing_s: frozenset[int] = frozenset(),
) -> Iterator[MonitorSample]:
    """A reading a second, from T0 to last_s, both included."""
    for second in range(last_s + 1):
        since_s, began_s = second, _BEGAN_S
        if restart_s is not None and second >= restart_s:
            since_s, began_s = second - restart_s, _BEGAN_S + restart_s
        at_ns = second * NS_PER_S
        if second in failing_s or second == restart_s:
            failure = "target 'ldap://ds1.example.com' cannot be reached: no answer"
            yield MonitorSample(SERVER, at_ns, 4_000_000, (), failure)
        else:
            values = (
                began_s,
                1_000.0 + SEARCHES_PER_S * since_s,
                50.0 + MODIFIES_PER_S * since_s,
                0.0,
                17.0 + second % 3,
                1e6 * since_s,
                math.nan,
            )
            yield MonitorSample(SERVER, at_ns, 3_000_000, values)
        process = (began_s, 4.0 + CORES * since_s, float(RESIDENT_BYTES))
        yield MonitorSample(PROCESS, at_ns, 200_000, process)


def add_monitors(
    store: Store,
    run_id: str,
    last_s: int,
    *,
    agent: str = "load1",
    restart_s: int | None = None,
    failing_s: frozenset[int] = frozenset(),
) -> None:
    """Into a run that is in the store."""
    describe_monitors(store, run_id, agent, descriptions())
    found = list(samples(last_s, restart_s=restart_s, failing_s=failing_s))
    add_monitor_samples(store, run_id, agent, found)
