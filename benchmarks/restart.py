# SPDX-License-Identifier: Apache-2.0
"""What many connections do to a slapd that restarts, and how soon it serves again.

python benchmarks/restart.py [--connections 10000] [--away 3]

Each row is a way to reconnect: one connection tries for all, or each client backs off.
Attempts are those of the agent to connect; the times begin when slapd is started again.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from bench_jobs import plan_of
from processes import raise_descriptor_limit

from ldapslam.agent import _engine
from ldapslam.agent.engine.setup import add_streams, packed_names, snapshot_message
from ldapslam.lab import Lab
from ldapslam.results.window import window_of

_INTERVAL_S = 0.1
_BEFORE_S, _AFTER_S = 5.0, 20.0
_JOB = """
name: restart
targets: {{server: "{uri}"}}
run: {{duration: {duration}s, interval: {interval}s}}
streams:
  - name: load
    target: server
    load: {{clients: {clients}, think_time: 2s}}
    connection: {{spacing: 4k/s{settings}}}
    operations: [{{search: {{base: "dc=example,dc=com", scope: base}}}}]
"""


class Interval(NamedTuple):
    end_s: float
    connects: int
    failures: int
    responses: int


def intervals(engine: Any, plan: Any) -> list[Interval]:
    """All of a run, as they end."""
    found: list[Interval] = []
    while True:
        snapshot = engine.snapshot(len(found), 60_000_000_000)
        window = window_of((0,), [snapshot_message(snapshot, packed_names(plan))])
        found.append(
            Interval(
                snapshot["end_ns"] / 1e9,
                int(window.streams["connects"].sum()),
                int(window.streams["connect_failures"].sum()),
                sum(rows.count("completed") for rows in window.operations.values()),
            )
        )
        if snapshot["final"]:
            return found


def row(lab: Lab, clients: int, away_s: float, settings: str) -> str:
    duration_s = _BEFORE_S + away_s + _AFTER_S
    plan = plan_of(
        _JOB.format(
            uri=lab.supplier.uri,
            duration=round(duration_s),
            interval=_INTERVAL_S,
            clients=clients,
            settings=settings,
        )
    )
    engine: Any = _engine.Engine(plan, workers=2, realtime=False)
    add_streams(engine, plan)
    engine.prepare()
    t0_ns = time.monotonic_ns() + 50_000_000
    engine.start(t0_ns)
    started_s = stopped_s = 0.0

    def restart() -> None:
        nonlocal started_s, stopped_s
        time.sleep(_BEFORE_S)
        stopped_s = (time.monotonic_ns() - t0_ns) / 1e9
        lab.stop(lab.supplier)
        time.sleep(away_s)
        started_s = (time.monotonic_ns() - t0_ns) / 1e9
        lab.start(lab.supplier)

    with ThreadPoolExecutor(1) as executor:
        restarted = executor.submit(restart)
        found = intervals(engine, plan)
        restarted.result()
    engine.close()
    away = [one for one in found if stopped_s + 1 < one.end_s <= started_s]
    after = [one for one in found if one.end_s > started_s]
    attempts = [one.connects + one.failures for one in found]
    served_s = next((one.end_s - started_s for one in after if one.responses), None)
    whole_s, connects = None, 0
    for one in after:
        connects += one.connects
        if connects >= clients and whole_s is None:
            whole_s = one.end_s - started_s
    refused = sum(one.connects + one.failures for one in away) / (
        len(away) * _INTERVAL_S
    )
    peak = max(attempts[-len(after) :]) / _INTERVAL_S
    return (
        f"{settings or 'one tries':<26} {refused:>12,.0f} {peak:>14,.0f} "
        f"{_text(served_s):>12} {_text(whole_s):>12}"
    )


def _text(time_s: float | None) -> str:
    return "never" if time_s is None else f"{time_s:.1f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--away", type=float, default=3.0, metavar="SECONDS")
    arguments = parser.parse_args()
    raise_descriptor_limit()
    print(
        f"{'':<26} {'away, /s':>12} {'after, peak /s':>14} {'serves':>12} {'all':>12}"
    )
    with Lab(entries=100) as lab:
        for settings in ("", ", reconnect_wait: 1s"):
            print(row(lab, arguments.connections, arguments.away, settings), flush=True)


if __name__ == "__main__":
    main()
