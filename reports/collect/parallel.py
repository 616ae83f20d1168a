# SPDX-License-Identifier: Apache-2.0
"""Collects a run: a long one in parts, each in a process of its own.

The parts follow each other in time and begin where a point of the charts does, so that
collecting them apart and adding them up is the same as one pass.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass

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
class _Part:
    """What to collect, without the store: it goes to another process."""

    run: RunRecord
    #: Plan.extent.
    extent: tuple[int, int]
    indexes: Sequence[int]
    rows_per_interval: int
    operations: Sequence[tuple[str, str]]
    through: Mapping[str, int]
    busy_share_limit: float
    run_queue_share_limit: float

    def collect(self, store: Store) -> Collected:
        return collect(
            windows(store, self.run.run_id, self.indexes, self.rows_per_interval),
            Plan(self.run.plan, self.extent),
            self.run.agents,
            self.operations,
            through=self.through,
            busy_share_limit=self.busy_share_limit,
            run_queue_share_limit=self.run_queue_share_limit,
        )

    def collect_from(self, url: str) -> Collected:
        with Store.open(url, read_only=True) as store:
            return self.collect(store)


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
    first, *others = [
        _Part(
            run=run,
            extent=plan.extent,
            indexes=chunk,
            rows_per_interval=found.rows_per_interval,
            operations=operations,
            through=through,
            busy_share_limit=busy_share_limit,
            run_queue_share_limit=run_queue_share_limit,
        )
        for chunk in _chunks(found.indexes, plan, processes or _worth(store, found))
        or [()]
    ]
    if others:
        collected = _collect_apart(store, first, others)
    else:
        collected = first.collect(store)
    due = plan.shown if run.state == "finished" else collected.last_index + 1
    collected.timeline.gaps = gaps_of(plan, collected.complete, due)
    return collected


def _collect_apart(store: Store, first: _Part, others: Sequence[_Part]) -> Collected:
    # not forked: the caller may have threads
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(len(others), context) as executor:
        later = [executor.submit(one.collect_from, store.url) for one in others]
        collected = first.collect(store)
        try:
            for future in later:
                collected.add(future.result())
        except BrokenProcessPool as error:
            raise ReportError(
                "a process that read the run ended before its time",
                hint="what it wrote on stderr says why",
            ) from error
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
