# SPDX-License-Identifier: Apache-2.0
"""Stores as older versions left them."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

#: Columns that the oldest version which is brought up to date did not have.
_ADDED = ("digest", "unjudged")


def take_back(path: Path, revision: str) -> None:
    """Makes the store one of that version."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for name in _ADDED:
            connection.execute(f"ALTER TABLE run DROP COLUMN {name}")
        connection.execute("UPDATE alembic_version SET version_num = ?", (revision,))
