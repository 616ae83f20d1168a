# SPDX-License-Identifier: Apache-2.0
"""What monitors of servers and hosts read."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "monitor_description",
        sa.Column("run_id", sa.String(64), primary_key=True),
        sa.Column("agent", sa.String(255), primary_key=True),
        sa.Column("monitor", sa.Text, primary_key=True),
        sa.Column("metrics", sa.JSON, nullable=False),
        sa.Column("facts", sa.JSON, nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.run_id"], ondelete="CASCADE"),
    )
    op.create_table(
        "monitor_sample",
        sa.Column("run_id", sa.String(64), primary_key=True),
        sa.Column("agent", sa.String(255), primary_key=True),
        sa.Column("monitor", sa.Text, primary_key=True),
        sa.Column("at_ns", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("took_ns", sa.BigInteger, nullable=False),
        sa.Column("packed_values", sa.LargeBinary, nullable=False),
        sa.Column("failure", sa.Text),
        sa.ForeignKeyConstraint(["run_id"], ["run.run_id"], ondelete="CASCADE"),
    )
