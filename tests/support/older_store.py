# SPDX-License-Identifier: Apache-2.0
"""Stores as older versions left them."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.script import ScriptDirectory

from ldapslam.results import migrate


class _Added:
    """Stands for Alembic's `op`: what a migration would add."""

    def __init__(self) -> None:
        self.columns: list[tuple[str, str]] = []

    def add_column(self, table: str, column: sa.Column[Any]) -> None:
        self.columns.append((table, column.name))


def take_back(path: Path, revision: str) -> None:
    """Without what migrations add."""
    added = _Added()
    for script in ScriptDirectory(str(migrate._SCRIPTS)).walk_revisions():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(script.module, "op", added, raising=False)
            script.module.upgrade()
    assert ("stream_interval", "down_ns") in added.columns
    with sqlite3.connect(path) as connection:
        for table, column in added.columns:
            connection.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        connection.execute("UPDATE alembic_version SET version_num = ?", (revision,))
    connection.close()
