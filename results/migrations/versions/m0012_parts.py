# SPDX-License-Identifier: Apache-2.0
"""Which reports an agent's part of a run still takes; older parts take none."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    for name, kind, value in (
        ("epoch", sa.BigInteger(), sa.text("0")),
        ("is_sealed", sa.Boolean(), sa.false()),
        ("room_bytes", sa.BigInteger(), sa.text("0")),
    ):
        column = sa.Column(name, kind, nullable=False, server_default=value)
        op.add_column("run_agent", column)
    op.drop_column("run_agent", "interval_count")
