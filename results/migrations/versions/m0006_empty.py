# SPDX-License-Identifier: Apache-2.0
"""Searches that returned no entry; of older runs that is not known, and is zero."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.add_column(
        "operation_interval",
        sa.Column("empty", sa.BigInteger, nullable=False, server_default="0"),
    )
