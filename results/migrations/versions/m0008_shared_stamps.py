# SPDX-License-Identifier: Apache-2.0
"""Responses that share a timestamp; of older runs that is not known, and is zero."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.add_column(
        "stream_interval",
        sa.Column("shared_stamps", sa.BigInteger, nullable=False, server_default="0"),
    )
