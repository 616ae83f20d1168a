# SPDX-License-Identifier: Apache-2.0
"""Reports of intervals as tests make and compare them: unpacked, field by field."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from ldapslam.proto.common_pb2 import HostInterval, Snapshot
from ldapslam.results import schema
from ldapslam.results.facts import AgentFacts
from ldapslam.results.packing import pack, unpack
from ldapslam.results.records import IntervalRecord, Part, Taken
from ldapslam.results.store import Store
from support.rows import (
    OperationRow,
    StreamRow,
    WorkerRow,
    operation_rows,
    snapshot_of,
    stream_rows,
    worker_rows,
)

NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Interval:
    """One agent's report of one interval."""

    agent: str
    attempt: int
    sequence: int
    index: int
    phase: str
    start_ns: int
    end_ns: int
    final: bool = False
    operations: Sequence[OperationRow] = ()
    streams: Sequence[StreamRow] = ()
    workers: Sequence[WorkerRow] = ()
    host: HostInterval | None = None
    clock_step_ns: int = 0

    @property
    def snapshot(self) -> Snapshot:
        rows = self.operations, self.streams, self.workers
        return snapshot_of(*rows, **{name: getattr(self, name) for name in _FIELDS})

    @property
    def record(self) -> IntervalRecord:
        """As the store takes it."""
        return IntervalRecord(
            self.agent,
            self.attempt,
            self.sequence,
            self.index,
            self.final,
            self.end_ns,
            pack(self.snapshot),
        )

    @classmethod
    def of(
        cls, agent: str, attempt: int, sequence: int, snapshot: Snapshot
    ) -> Interval:
        values = {name: getattr(snapshot, name) for name in _FIELDS}
        if not snapshot.HasField("host"):
            values["host"] = None
        return cls(
            agent,
            attempt,
            sequence,
            operations=tuple(operation_rows(snapshot)),
            streams=tuple(stream_rows(snapshot)),
            workers=tuple(worker_rows(snapshot)),
            **values,
        )


#: Fields of a snapshot without its rows.
_FIELDS = ("index", "phase", "start_ns", "end_ns", "final", "host", "clock_step_ns")


def interval_of(agent: str, index: int, **fields: Any) -> Interval:
    """Return a report of second `index`, of the measure phase but for `fields`."""
    start_ns = index * NS_PER_S
    end_ns = start_ns + NS_PER_S
    whole = Interval(agent, 1, index, index, "measure", start_ns, end_ns)
    return replace(whole, **fields)


def drain_of(agent: str, index: int, length_ns: int = 1_000_000) -> Interval:
    """Return the report of an agent's drain after `index` intervals of a second."""
    end_ns = index * NS_PER_S + length_ns
    return interval_of(agent, index, phase="drain", end_ns=end_ns, final=True)


def add_interval(store: Store, run_id: str, interval: Interval) -> Taken:
    """The agent's part is of the interval's attempt from then on."""
    return add_intervals(store, run_id, [interval])[0]


def add_intervals(
    store: Store, run_id: str, intervals: Iterable[Interval]
) -> list[Taken]:
    """Add intervals in one transaction; those of an agent have one attempt."""
    records = [interval.record for interval in intervals]
    for agent, attempt in {one.agent: one.attempt for one in records}.items():
        if store.part(run_id, agent).attempt != attempt:
            store.put_agent(run_id, agent, AgentFacts(), open_part(attempt))
    return store.add_intervals([(run_id, one) for one in records])


def open_part(attempt: int) -> Part:
    """A part with room for whatever a test reports."""
    return Part(attempt, epoch=1, room_bytes=1 << 40)


def stored_intervals(store: Store, run_id: str) -> list[Interval]:
    """The run's reports by interval, then agent, equal to those that were added."""
    table = schema.interval_report
    order = (table.c.interval_index, table.c.agent, table.c.attempt, table.c.final)
    query = sa.select(table).where(table.c.run_id == run_id).order_by(*order)
    with store.transaction() as connection:
        rows = connection.execute(query).all()
    found = []
    for row in rows:
        one = Interval.of(row.agent, row.attempt, row.sequence, unpack(row.packed))
        beside = (row.interval_index, row.final, row.end_ns)
        assert beside == (one.index, one.final, one.end_ns)
        found.append(one)
    return found
