# SPDX-License-Identifier: Apache-2.0
"""Collects a run: a long one in parts, each in a process of its own.

The parts follow each other in time and begin where a point of the charts does, so that
collecting them apart and adding them up is the same as one pass.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from ldapslam.base.errors import ReportError
from ldapslam.jobs.fields.validity import Validity
from ldapslam.reports.collect.collect import Part
from ldapslam.reports.collect.points import gaps_of
from ldapslam.reports.collect.timeline import Plan
from ldapslam.reports.collect.totals import Collected
from ldapslam.results.columns import Extent, streams_of
from ldapslam.results.records import RunRecord
from ldapslam.results.store import Store

#: Rows of operations in a part, at least: a process takes half a second to start.
PART_ROWS = 50_000
_MOST_PARTS = 4


def collect_run(
    store: Store,
    run: RunRecord,
    plan: Plan,
    found: Extent,
    operations: Sequence[tuple[str, str]],
    validity: Validity,
    *,
    processes: int | None = None,
) -> Collected:
    """Reads a run once, start to end; `processes` None: as many as are worth it.

    `found` is the run's extent, which `plan` knows as well; `operations` are those that
    have their place in the report without any row.
    """
    ended = {
        agent: last
        for agent, last in found.finals.items()
        if last < len(plan.intervals)
        and plan.all_counted(streams_of(store, run.run_id, agent))
    }
    chunks = _chunks(found.indexes, plan, processes or _worth(store, found))
    first, *others = [
        Part(run, plan, validity, operations, ended, chunk, found.rows_per_interval)
        for chunk in chunks or [()]
    ]
    collected = first.collect(store) if not others else _apart(store, first, others)
    due = plan.shown if run.state == "finished" else collected.last_index + 1
    collected.timeline.gaps = gaps_of(plan, collected.complete, due)
    return collected


def _apart(store: Store, first: Part, others: Sequence[Part]) -> Collected:
    # not forked: the caller may have threads
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(len(others), context) as executor:
        later = [executor.submit(_collect_from, store.url, one) for one in others]
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


def _collect_from(url: str, part: Part) -> Collected:
    with Store.open(url, read_only=True) as store:
        return part.collect(store)


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
