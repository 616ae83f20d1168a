# SPDX-License-Identifier: Apache-2.0
"""Hiccups of agents' hosts; of older runs they are not known."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    for name in ("hiccup_max_ns", "stalled_ns"):
        op.add_column("interval", sa.Column(name, sa.BigInteger))
