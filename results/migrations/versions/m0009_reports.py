# SPDX-License-Identifier: Apache-2.0
"""One row for each report, as it came, instead of rows for all that is in it; who owns
the store.

A report of another epoch than the agent's part is kept under a negative attempt, which
no report of the run reads.
"""

from __future__ import annotations

import hashlib
import zlib
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op
from google.protobuf.message import Message

from ldapslam.proto import common_pb2 as pb
from ldapslam.proto.fields import METRICS, OUTCOMES

revision = "0009"
down_revision = "0008"

_CHILDREN = ("operation_interval", "stream_interval", "worker_interval")
#: Reports of an agent in memory.
_TOGETHER = 200

_Key = tuple[str, str, int]


def upgrade() -> None:
    op.create_table(
        "claim",
        sa.Column("store_id", sa.String(32), primary_key=True),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
    )
    column = sa.Column("attempt", sa.BigInteger, nullable=False, server_default="0")
    op.add_column("run_agent", column)
    op.add_column("run_agent", sa.Column("interval_count", sa.Integer))
    reports = op.create_table(
        "interval_report",
        sa.Column("run_id", sa.String(64), nullable=False),
        sa.Column("agent", sa.String(255), nullable=False),
        sa.Column("attempt", sa.BigInteger, nullable=False),
        sa.Column("sequence", sa.Integer, nullable=False),
        sa.Column("interval_index", sa.Integer, nullable=False),
        sa.Column("final", sa.Boolean, nullable=False),
        sa.Column("end_ns", sa.BigInteger, nullable=False),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("packed", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "agent", "attempt", "sequence"),
        sa.ForeignKeyConstraint(["run_id"], ["run.run_id"], ondelete="CASCADE"),
    )
    assert reports is not None, "a table was made"
    place = ["run_id", "interval_index", "agent", "attempt", "final"]
    op.create_index("interval_report_place", "interval_report", place, unique=True)
    bind, metadata = op.get_bind(), sa.MetaData()
    part, parent, *children = (
        sa.Table(name, metadata, autoload_with=bind)
        for name in ("run_agent", "interval", *_CHILDREN)
    )
    for key, attempt in _attempts_of(bind, part, parent):
        # in batches, as the rows of a long run are many
        for found in _batches(bind, key, parent, children):
            rows = [{**one, "attempt": attempt} for one in found]
            bind.execute(reports.insert(), rows)
    for table in (*_CHILDREN, "interval"):
        op.drop_table(table)


def _attempts_of(
    bind: sa.Connection, part: sa.Table, parent: sa.Table
) -> list[tuple[_Key, int]]:
    """Run, agent and epoch of all reports, with the attempt that they are of; the
    agents' parts get theirs."""
    facts = {
        (row.run_id, row.agent): row.facts for row in bind.execute(sa.select(part))
    }
    for (run_id, agent), known in facts.items():
        if "attempt" in known:
            of_agent = (part.c.run_id == run_id) & (part.c.agent == agent)
            row = {"attempt": known["attempt"]}
            bind.execute(part.update().where(of_agent), row)
    keys = sa.select(parent.c.run_id, parent.c.agent, parent.c.epoch).distinct()
    found: list[tuple[_Key, int]] = []
    for run_id, agent, epoch in bind.execute(keys).all():
        if (run_id, agent) not in facts:
            facts[run_id, agent] = {}
            row = {"run_id": run_id, "agent": agent, "facts": {}}
            bind.execute(part.insert(), row)
        known = facts[run_id, agent]
        is_of_part = known.get("epoch", epoch) == epoch
        attempt = int(known.get("attempt", 0)) if is_of_part else -epoch
        found.append(((run_id, agent, epoch), attempt))
    return found


def _batches(
    bind: sa.Connection, key: _Key, parent: sa.Table, children: list[sa.Table]
) -> Iterator[list[dict[str, Any]]]:
    of_part = dict(zip(("run_id", "agent", "epoch"), key, strict=True))
    places: set[tuple[int, bool]] = set()
    highest = -1
    while True:
        query = sa.select(parent).filter_by(**of_part)
        query = query.where(parent.c.sequence > highest)
        query = query.order_by(parent.c.sequence).limit(_TOGETHER)
        found = bind.execute(query).mappings().all()
        if not found:
            return
        lowest, highest = found[0]["sequence"], found[-1]["sequence"]
        parts: list[dict[int, list[Any]]] = []
        for table in children:
            by_sequence: dict[int, list[Any]] = defaultdict(list)
            query = sa.select(table).filter_by(**of_part)
            query = query.where(table.c.sequence.between(lowest, highest))
            for row in bind.execute(query.order_by(*table.primary_key)).mappings():
                by_sequence[row["sequence"]].append(row)
            parts.append(by_sequence)
        rows = []
        for row in found:
            place = row["interval_index"], row["final"]
            if place in places:
                continue  # a report that came under two numbers
            places.add(place)
            snapshot = _snapshot(row, *(part[row["sequence"]] for part in parts))
            packed = zlib.compress(snapshot.SerializeToString(), 1)
            same = ("run_id", "agent", "sequence", "interval_index", "final", "end_ns")
            digest = hashlib.sha256(packed).digest()
            rows.append(
                {
                    **{name: row[name] for name in same},
                    "digest": digest,
                    "packed": packed,
                }
            )
        yield rows


def _snapshot(
    row: Any, operations: list[Any], streams: list[Any], workers: list[Any]
) -> pb.Snapshot:
    return pb.Snapshot(
        index=row["interval_index"],
        phase=row["phase"],
        start_ns=row["start_ns"],
        end_ns=row["end_ns"],
        final=row["final"],
        operations=[_operation(one) for one in operations],
        streams=[_message(pb.StreamInterval, one) for one in streams],
        workers=[_message(pb.WorkerInterval, one) for one in workers],
        host=_message(pb.HostInterval, row) if row["has_host"] else None,
        clock_step_ns=row["clock_step_ns"],
    )


def _operation(row: Any) -> Any:
    return _message(
        pb.OperationInterval,
        {
            **row,
            "result_codes": {int(code): n for code, n in row["result_codes"].items()},
            "histograms": [
                pb.Histogram(
                    metric=f"METRIC_{metric.upper()}",
                    outcome=f"OUTCOME_{outcome.upper()}",
                    packed=row[f"{metric}_{outcome}"],
                )
                for metric in METRICS
                for outcome in OUTCOMES
                if row.get(f"{metric}_{outcome}") is not None
            ],
        },
    )


def _message(kind: type[Message], row: Any) -> Any:
    """Of the columns that are named as fields."""
    names = [field.name for field in kind.DESCRIPTOR.fields]
    return kind(**{name: row[name] for name in names if row.get(name) is not None})
