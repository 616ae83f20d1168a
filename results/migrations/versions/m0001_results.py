# SPDX-License-Identifier: Apache-2.0
"""The first schema: runs, their agents and events, and what agents measured."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_COUNTERS = (
    "scheduled",
    "sent",
    "completed",
    "succeeded",
    "failed",
    "dropped",
    "unresolved",
    "timed_out",
    "entries",
    "references",
)
_HISTOGRAMS = (
    "response_time_succeeded",
    "response_time_failed",
    "service_time_succeeded",
    "service_time_failed",
    "send_lag_succeeded",
    "send_lag_failed",
    "receive_lag_succeeded",
    "receive_lag_failed",
    "backlog_wait_succeeded",
    "backlog_wait_failed",
)
_CONNECTION_COUNTERS = (
    "connects",
    "connect_failures",
    "disconnects",
    "protocol_errors",
    "late_responses",
    "unexpected_messages",
    "notices",
    "stamps_missing",
    "in_flight",
    "backlog",
)
_WORKER_FIGURES = (
    "wall_ns",
    "busy_ns",
    "spin_ns",
    "cpu_ns",
    "run_queue_ns",
    "loops",
)
_INTERVAL_KEY = ("run_id", "agent", "epoch", "sequence")
_INTERVAL_TABLES = (
    "interval",
    "operation_interval",
    "stream_interval",
    "worker_interval",
)


def upgrade() -> None:
    op.create_table(
        "run",
        sa.Column("run_id", sa.String(64), primary_key=True),
        sa.Column("job_name", sa.Text, nullable=False),
        sa.Column("job_text", sa.Text, nullable=False),
        sa.Column("job_hash", sa.Text, nullable=False),
        sa.Column("seed", sa.String(20), nullable=False),
        sa.Column("submitted_utc", sa.String(32), nullable=False),
        sa.Column("submitted_by", sa.Text, nullable=False),
        sa.Column("agents", sa.JSON, nullable=False),
        sa.Column("plan", sa.JSON, nullable=False),
        sa.Column("manifest", sa.JSON, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("state_detail", sa.Text, nullable=False),
        sa.Column("t0_utc", sa.String(32)),
        sa.Column("started_utc", sa.String(32)),
        sa.Column("finished_utc", sa.String(32)),
    )
    op.create_table(
        "run_agent",
        sa.Column("run_id", sa.String(64), primary_key=True),
        sa.Column("agent", sa.String(255), primary_key=True),
        sa.Column("facts", sa.JSON, nullable=False),
        _of_run(),
    )
    op.create_table(
        "run_event",
        sa.Column("run_id", sa.String(64), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("at_utc", sa.String(32), nullable=False),
        sa.Column("kind", sa.String(64), nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        _of_run(),
    )
    op.create_table(
        "interval",
        *_interval_key(),
        sa.Column("interval_index", sa.Integer, nullable=False),
        sa.Column("phase", sa.String(16), nullable=False),
        sa.Column("start_ns", sa.BigInteger, nullable=False),
        sa.Column("end_ns", sa.BigInteger, nullable=False),
        sa.Column("final", sa.Boolean, nullable=False),
        sa.Column("clock_step_ns", sa.BigInteger, nullable=False),
        sa.Column("has_host", sa.Boolean, nullable=False),
        sa.Column("cpu_utilisation", sa.Float),
        sa.Column("steal_share", sa.Float),
        sa.Column("throttled_ns", sa.BigInteger),
        _of_run(),
    )
    op.create_table(
        "operation_interval",
        *_interval_key(),
        sa.Column("stream", sa.String(255), primary_key=True),
        sa.Column("operation", sa.String(255), primary_key=True),
        sa.Column("measured", sa.Boolean, primary_key=True),
        sa.Column("interval_index", sa.Integer, nullable=False),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in _COUNTERS),
        sa.Column("result_codes", sa.JSON, nullable=False),
        *(sa.Column(name, sa.LargeBinary) for name in _HISTOGRAMS),
        _of_interval(),
    )
    op.create_table(
        "stream_interval",
        *_interval_key(),
        sa.Column("stream", sa.String(255), primary_key=True),
        sa.Column("interval_index", sa.Integer, nullable=False),
        *(
            sa.Column(name, sa.BigInteger, nullable=False)
            for name in _CONNECTION_COUNTERS
        ),
        sa.Column("connect_time", sa.LargeBinary),
        _of_interval(),
    )
    op.create_table(
        "worker_interval",
        *_interval_key(),
        sa.Column("worker", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("model", sa.String(16), primary_key=True),
        sa.Column("interval_index", sa.Integer, nullable=False),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in _WORKER_FIGURES),
        _of_interval(),
    )
    for table in _INTERVAL_TABLES:
        op.create_index(f"{table}_by_index", table, ["run_id", "interval_index"])


def _interval_key() -> list[sa.Column[object]]:
    columns: list[sa.Column[object]] = [
        sa.Column("run_id", sa.String(64), primary_key=True),
        sa.Column("agent", sa.String(255), primary_key=True),
        sa.Column("epoch", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("sequence", sa.Integer, primary_key=True, autoincrement=False),
    ]
    return columns


def _of_run() -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(["run_id"], ["run.run_id"], ondelete="CASCADE")


def _of_interval() -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        _INTERVAL_KEY,
        [f"interval.{name}" for name in _INTERVAL_KEY],
        ondelete="CASCADE",
    )
