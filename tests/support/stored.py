# SPDX-License-Identifier: Apache-2.0
"""A run's intervals out of a store as records, equal to those that were added.

Reports read columns (results/columns.py); tests compare what was written with this.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy import RowMapping

from ldapslam.proto.common_pb2 import (
    HostInterval,
    OperationInterval,
    StreamInterval,
    WorkerInterval,
)
from ldapslam.proto.fields import (
    OPERATION_COUNTERS,
    SET_UP_TIMES,
    STREAM_COUNTERS,
    WORKER_COUNTERS,
)
from ldapslam.results import schema
from ldapslam.results.records import IntervalRecord
from ldapslam.results.store import Store
from support.histograms import histogram_messages

_TABLES = (
    schema.interval,
    schema.operation_interval,
    schema.stream_interval,
    schema.worker_interval,
)
_OPERATION_PLAIN = ("stream", "operation", "measured", *OPERATION_COUNTERS)
_STREAM = ("stream", *STREAM_COUNTERS, "last_done_ns", *SET_UP_TIMES)
_WORKER_PLAIN = ("worker", "model", *WORKER_COUNTERS)
_HOST_PLAIN = tuple(field.name for field in HostInterval.DESCRIPTOR.fields)

_Key = tuple[str, int, int]


def stored_intervals(store: Store, run_id: str) -> list[IntervalRecord]:
    """The run's reports by interval, then agent."""
    found = {}
    with store.transaction() as connection:
        for table in _TABLES:
            query = sa.select(table).where(table.c.run_id == run_id)
            found[table.name] = connection.execute(query).mappings().all()
    return _records(found)


def _records(
    found: Mapping[str, Sequence[RowMapping]],
) -> list[IntervalRecord]:
    """Table name -> its rows, of some intervals; records by index, then agent."""
    operations: dict[_Key, list[OperationInterval]] = defaultdict(list)
    for row in found[schema.operation_interval.name]:
        operations[_key(row)].append(_operation_record(row))
    streams: dict[_Key, list[StreamInterval]] = defaultdict(list)
    for row in found[schema.stream_interval.name]:
        streams[_key(row)].append(_stream_record(row))
    workers: dict[_Key, list[WorkerInterval]] = defaultdict(list)
    for row in found[schema.worker_interval.name]:
        values = {name: row[name] for name in _WORKER_PLAIN}
        workers[_key(row)].append(WorkerInterval(**values))
    records = [
        IntervalRecord(
            agent=row["agent"],
            epoch=row["epoch"],
            sequence=row["sequence"],
            index=row["interval_index"],
            phase=row["phase"],
            start_ns=row["start_ns"],
            end_ns=row["end_ns"],
            final=row["final"],
            operations=tuple(
                sorted(
                    operations[_key(row)],
                    key=lambda one: (one.stream, one.operation, one.measured),
                )
            ),
            streams=tuple(sorted(streams[_key(row)], key=lambda one: one.stream)),
            workers=tuple(
                sorted(workers[_key(row)], key=lambda one: (one.model, one.worker))
            ),
            host=_host_record(row),
            clock_step_ns=row["clock_step_ns"],
        )
        for row in found[schema.interval.name]
    ]
    return sorted(records, key=lambda one: (one.index, one.agent, one.epoch))


def _operation_record(row: RowMapping) -> OperationInterval:
    plain = {name: row[name] for name in _OPERATION_PLAIN}
    return OperationInterval(
        **plain,
        result_codes={int(code): n for code, n in row["result_codes"].items()},
        histograms=histogram_messages(
            {
                key: row[column]
                for key, column in schema.HISTOGRAM_COLUMNS.items()
                if row[column] is not None
            }
        ),
    )


def _stream_record(row: RowMapping) -> StreamInterval:
    # protobuf takes None for absent
    return StreamInterval(**{name: row[name] for name in _STREAM})


def _host_record(row: RowMapping) -> HostInterval | None:
    if not row["has_host"]:
        return None
    return HostInterval(**{name: row[name] for name in _HOST_PLAIN})


def _key(row: RowMapping) -> _Key:
    return row["agent"], row["epoch"], row["sequence"]
