# SPDX-License-Identifier: Apache-2.0
"""Collects a run: a long one in parts, each in a process of its own.

The parts follow each other in time and begin where a point of the charts does, so that
collecting them apart and adding them up is the same as one pass. A part's process is
this module run as a program: it takes its order on stdin, opens the store for itself
and gives what it collected on stdout.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ldapslam.base.errors import ReportError
from ldapslam.reports.collect.collect import collect
from ldapslam.reports.collect.points import gaps_of
from ldapslam.reports.collect.timeline import Plan
from ldapslam.reports.collect.totals import Collected
from ldapslam.results.columns import Extent, streams_of, windows
from ldapslam.results.records import RunRecord
from ldapslam.results.store import Store

#: Rows of operations in a part, at least: a process takes half a second to start.
PART_ROWS = 50_000
_MOST_PARTS = 4


@dataclass(frozen=True, slots=True)
class _Order:
    """What a part's process is to collect; plain data."""

    store: str
    run_id: str
    #: Plan.extent.
    extent: tuple[int, int]
    indexes: Sequence[int]
    rows_per_interval: int
    operations: Sequence[tuple[str, str]]
    through: Mapping[str, int]
    busy_share_limit: float
    run_queue_share_limit: float


def collect_run(
    store: Store,
    run: RunRecord,
    plan: Plan,
    found: Extent,
    operations: Sequence[tuple[str, str]],
    *,
    busy_share_limit: float,
    run_queue_share_limit: float,
    processes: int | None = None,
) -> Collected:
    """Reads a run once, start to end; on so many processes, or as many as are worth it.

    `found` is the run's extent, which `plan` knows as well; `operations` are those that
    have their place in the report without any row.
    """
    through = {
        agent: last
        for agent, last in found.finals.items()
        if last < len(plan.intervals)
        and plan.all_counted(streams_of(store, run.run_id, agent))
    }
    wanted = processes or _worth(store, found)
    chunks = _chunks(found.indexes, plan, wanted)
    limits = {
        "busy_share_limit": busy_share_limit,
        "run_queue_share_limit": run_queue_share_limit,
    }
    orders = [
        _Order(
            store=store.url,
            run_id=run.run_id,
            extent=plan.extent,
            indexes=chunk,
            rows_per_interval=found.rows_per_interval,
            operations=operations,
            through=through,
            **limits,
        )
        for chunk in chunks[1:]
    ]
    started: list[subprocess.Popen[bytes]] = []
    try:
        for order in orders:
            started.append(_start(order))
        collected = collect(
            windows(
                store,
                run.run_id,
                chunks[0] if chunks else (),
                found.rows_per_interval,
            ),
            plan,
            run.agents,
            operations,
            through=through,
            **limits,
        )
        for process in started:
            collected.add(_result(process))
    finally:
        for process in started:
            _end(process)
    due = plan.shown if run.state == "finished" else collected.last_index + 1
    collected.timeline.gaps = gaps_of(plan, collected.complete, due)
    return collected


def _worth(store: Store, found: Extent) -> int:
    """A store in memory, or with a password in its URL, is nobody else's."""
    if store.path is None:
        return 1
    rows = found.rows_per_interval * len(found.indexes)
    return max(1, min(_MOST_PARTS, os.cpu_count() or 1, rows // PART_ROWS))


def _chunks(indexes: Sequence[int], plan: Plan, wanted: int) -> list[Sequence[int]]:
    """The intervals in parts that begin where a point does."""
    chunks: list[Sequence[int]] = []
    start = 0
    for number in range(1, wanted + 1):
        end = max(start, len(indexes) * number // wanted)
        while 0 < end < len(indexes) and plan.point(indexes[end]) == plan.point(
            indexes[end - 1]
        ):
            end += 1
        if end > start:
            chunks.append(indexes[start:end])
            start = end
    return chunks


def _start(order: _Order) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        # -P: the current folder is not a place to import from
        [sys.executable, "-P", "-m", "ldapslam.reports.collect.parts"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(asdict(order)).encode())
    process.stdin.close()
    return process


def _result(process: subprocess.Popen[bytes]) -> Collected:
    assert process.stdout is not None
    content = process.stdout.read()
    if process.wait() != 0:
        raise ReportError(
            f"a process that read the run ended with status {process.returncode}",
            hint="what it wrote on stderr says why",
        )
    # of our own process: nobody else's data are unpickled
    collected: Collected = pickle.loads(content)
    return collected


def _end(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    if process.poll() is None:
        process.kill()
    process.wait()


def _collect_part(content: Mapping[str, Any]) -> Collected:
    order = _Order(**content)
    with Store.open(order.store, read_only=True) as store:
        run = store.run(order.run_id)
        return collect(
            windows(store, run.run_id, order.indexes, order.rows_per_interval),
            Plan(run.plan, (order.extent[0], order.extent[1])),
            run.agents,
            [(stream, operation) for stream, operation in order.operations],
            through=order.through,
            busy_share_limit=order.busy_share_limit,
            run_queue_share_limit=order.run_queue_share_limit,
        )


def main() -> None:
    """The program of a part's process."""
    collected = _collect_part(json.load(sys.stdin))
    sys.stdout.buffer.write(pickle.dumps(collected, pickle.HIGHEST_PROTOCOL))


if __name__ == "__main__":
    main()
