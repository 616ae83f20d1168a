# SPDX-License-Identifier: Apache-2.0
"""The digest of a judged run; older runs have none."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.add_column("run", sa.Column("digest", sa.JSON))
