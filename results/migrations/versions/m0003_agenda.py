# SPDX-License-Identifier: Apache-2.0
"""What a coordinator must not forget: queue, schedules, clocks, who did what."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("run", sa.Column("verdict", sa.String(8)))
    op.add_column(
        "run", sa.Column("priority", sa.Integer, nullable=False, server_default="0")
    )
    op.add_column("run", sa.Column("schedule_id", sa.String(64)))
    op.create_index("run_by_submission", "run", ["submitted_utc", "run_id"])
    op.create_table(
        "run_clock",
        sa.Column("run_id", sa.String(64), primary_key=True),
        sa.Column("agent", sa.String(255), primary_key=True),
        sa.Column("at_ns", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("offset_ns", sa.BigInteger, nullable=False),
        sa.Column("bound_ns", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.run_id"], ondelete="CASCADE"),
    )
    op.create_table(
        "submission",
        sa.Column("run_id", sa.String(64), primary_key=True),
        sa.Column("request", sa.LargeBinary, nullable=False),
        sa.Column("not_before_utc", sa.String(32)),
        sa.Column("after_run", sa.String(64)),
        sa.Column("after_if", sa.String(8)),
        sa.ForeignKeyConstraint(["run_id"], ["run.run_id"], ondelete="CASCADE"),
    )
    op.create_table(
        "schedule",
        sa.Column("schedule_id", sa.String(64), primary_key=True),
        sa.Column("name", sa.String(255), nullable=False, unique=True),
        sa.Column("request", sa.LargeBinary, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("created_utc", sa.String(32), nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("settled_utc", sa.String(32), nullable=False),
    )
    op.create_table(
        "schedule_fire",
        sa.Column("schedule_id", sa.String(64), primary_key=True),
        sa.Column("due_utc", sa.String(32), primary_key=True),
        sa.Column("at_utc", sa.String(32), nullable=False),
        sa.Column("outcome", sa.String(16), nullable=False),
        sa.Column("run_ids", sa.JSON, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
        sa.ForeignKeyConstraint(
            ["schedule_id"], ["schedule.schedule_id"], ondelete="CASCADE"
        ),
    )
    op.create_table(
        "maintenance",
        sa.Column("window_id", sa.String(64), primary_key=True),
        sa.Column("request", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "audit",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("at_utc", sa.String(32), nullable=False),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("peer", sa.Text, nullable=False),
        sa.Column("action", sa.String(32), nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("detail", sa.Text, nullable=False),
    )
