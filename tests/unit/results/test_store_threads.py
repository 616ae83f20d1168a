# SPDX-License-Identifier: Apache-2.0
"""Stores that are made at the same time do not meet."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

from ldapslam.results.store import Store


def tables(path: Path) -> set[str]:
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        return {name for (name,) in rows}


def test_stores_made_at_once_have_all_their_tables(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.sqlite" for number in range(8)]

    def make(path: Path) -> None:
        Store.open(path).close()

    with ThreadPoolExecutor(4) as executor:
        list(executor.map(make, paths))
    made = [tables(path) for path in paths]
    assert len(made[0]) > 10
    assert made == [made[0]] * len(made)
