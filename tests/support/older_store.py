# SPDX-License-Identifier: Apache-2.0
"""Stores as older versions left them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

#: What was added since the oldest version that is brought up to date, and removed.
_ADDED = {
    "run": ("digest", "unjudged"),
    "run_agent": ("epoch", "is_sealed", "room_bytes"),
}
_REMOVED = {"run_agent": "interval_count INTEGER"}


def take_back(path: Path, revision: str) -> None:
    """Makes the store one of that version."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for table, names in _ADDED.items():
            for name in names:
                connection.execute(f"ALTER TABLE {table} DROP COLUMN {name}")
        for table, column in _REMOVED.items():
            connection.execute(f"ALTER TABLE {table} ADD COLUMN {column}")
        connection.execute("UPDATE alembic_version SET version_num = ?", (revision,))
