# SPDX-License-Identifier: Apache-2.0
"""Counts what is added to a run after its end, until its verdict is of that too."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.add_column(
        "run", sa.Column("unjudged", sa.Integer, nullable=False, server_default="0")
    )
