# SPDX-License-Identifier: Apache-2.0
"""Records to rows of the store's tables, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import sqlalchemy as sa
from google.protobuf.message import Message
from sqlalchemy import Connection, Row, Table

from ldapslam.proto.common_pb2 import HostInterval, OperationInterval, StreamInterval
from ldapslam.proto.fields import (
    OPERATION_COUNTERS,
    SET_UP_TIMES,
    STREAM_COUNTERS,
    WORKER_COUNTERS,
    histograms_of,
)
from ldapslam.results import schema
from ldapslam.results.records import IntervalRecord, RunRecord

_OPERATION_PLAIN = ("stream", "operation", "measured", *OPERATION_COUNTERS)
_STREAM_PLAIN = ("stream", *STREAM_COUNTERS)
_WORKER_PLAIN = ("worker", "model", *WORKER_COUNTERS)
#: What the store has of HostInterval; absent where the host does not tell.
_HOST_PLAIN = tuple(field.name for field in HostInterval.DESCRIPTOR.fields)
_RUN_PLAIN = tuple(
    field.name for field in fields(RunRecord) if field.name not in ("seed", "agents")
)
#: Without what is long: a list of runs must not be slow because the runs hold much.
_BRIEF_PLAIN = tuple(
    name for name in _RUN_PLAIN if name not in ("job_text", "plan", "manifest")
)


def run_row(record: RunRecord) -> dict[str, Any]:
    row = _pick(record, _RUN_PLAIN)
    row["plan"] = dict(record.plan)
    row["manifest"] = dict(record.manifest)
    return {**row, "seed": str(record.seed), "agents": list(record.agents)}


def run_record(row: Row[Any]) -> RunRecord:
    values = row._mapping
    plain = {name: values[name] for name in _RUN_PLAIN}
    return RunRecord(seed=int(values["seed"]), agents=tuple(values["agents"]), **plain)


def brief_columns() -> list[sa.ColumnElement[Any]]:
    """What `brief_record` needs."""
    table = schema.run.c
    return [
        *(table[name] for name in (*_BRIEF_PLAIN, "seed", "agents")),
        table.plan["phases"].label("phases"),
        table.manifest["failure"].label("failure"),
    ]


def brief_record(row: Row[Any]) -> RunRecord:
    values = row._mapping
    return RunRecord(
        **{name: values[name] for name in _BRIEF_PLAIN},
        job_text="",
        seed=int(values["seed"]),
        agents=tuple(values["agents"]),
        plan={"phases": values["phases"]} if values["phases"] else {},
        manifest={"failure": values["failure"]} if values["failure"] else {},
    )


def interval_rows(
    run_id: str, record: IntervalRecord
) -> list[tuple[Table, list[dict[str, Any]]]]:
    """The rows of a report, table by table, the parent first."""
    key = {
        "run_id": run_id,
        "agent": record.agent,
        "epoch": record.epoch,
        "sequence": record.sequence,
        "interval_index": record.index,
    }
    parent = {
        **key,
        "phase": record.phase,
        "start_ns": record.start_ns,
        "end_ns": record.end_ns,
        "final": record.final,
        "clock_step_ns": record.clock_step_ns,
        "has_host": record.host is not None,
        **_given(record.host or HostInterval(), _HOST_PLAIN),
    }
    return [
        (schema.interval, [parent]),
        (
            schema.operation_interval,
            [{**key, **_operation_row(operation)} for operation in record.operations],
        ),
        (
            schema.stream_interval,
            [{**key, **_stream_row(stream)} for stream in record.streams],
        ),
        (
            schema.worker_interval,
            [{**key, **_pick(worker, _WORKER_PLAIN)} for worker in record.workers],
        ),
    ]


def add_interval(connection: Connection, run_id: str, record: IntervalRecord) -> bool:
    """Inserts a report; False when it is there."""
    table = schema.interval
    known = sa.select(table.c.sequence).where(
        table.c.run_id == run_id,
        table.c.agent == record.agent,
        table.c.epoch == record.epoch,
        table.c.sequence == record.sequence,
    )
    if connection.execute(known).first() is not None:
        return False
    for child, values in interval_rows(run_id, record):
        if values:
            connection.execute(child.insert(), values)
    return True


def _operation_row(operation: OperationInterval) -> dict[str, Any]:
    packed = histograms_of(operation)
    histograms = {
        column: packed.get(key) for key, column in schema.HISTOGRAM_COLUMNS.items()
    }
    codes = {str(code): n for code, n in sorted(operation.result_codes.items())}
    return {**_pick(operation, _OPERATION_PLAIN), "result_codes": codes, **histograms}


def _stream_row(stream: StreamInterval) -> dict[str, Any]:
    return {
        **_pick(stream, _STREAM_PLAIN),
        **_given(stream, ("last_done_ns",)),
        **{name: getattr(stream, name) or None for name in SET_UP_TIMES},
    }


def _given(message: Message, names: Sequence[str]) -> dict[str, Any]:
    """Optional fields; None where one is absent."""
    return {
        name: getattr(message, name) if message.HasField(name) else None
        for name in names
    }


def _pick(record: object, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names}
