# SPDX-License-Identifier: Apache-2.0
"""How long connections were down; of older runs that is not known, and is zero."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.add_column(
        "stream_interval",
        sa.Column("down_ns", sa.BigInteger, nullable=False, server_default="0"),
    )
