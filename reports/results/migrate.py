# SPDX-License-Identifier: Apache-2.0
"""Brings a store's schema up to date, or refuses one that is too new.

Alembic is imported only when there is something to migrate: the usual open of a store
costs one SELECT, and a new store gets the current schema at once. The migrations are
numbered modules in `migrations/versions`, each run in its own transaction of the
connection given.
"""

from __future__ import annotations

import threading
from pathlib import Path

from sqlalchemy import Column, Connection, MetaData, String, Table, inspect, text
from sqlalchemy import PrimaryKeyConstraint as PrimaryKey

from ldapslam.jobs.errors import NoStore, SchemaTooNew, StoreError
from ldapslam.reports.results.schema import SCHEMA_REVISION, metadata

#: As Alembic makes it.
_REVISION = Table(
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKey("version_num", name="alembic_version_pkc"),
)
_SCRIPTS = Path(__file__).with_name("migrations")
#: Alembic's `op` and `context` are the process's: two upgrades at once, as by two
#: exports, would write to each other's stores, and crash when one is closed.
_ALEMBIC = threading.Lock()


def migrate(connection: Connection, url: str, *, may_write: bool) -> None:
    """Leaves the store at SCHEMA_REVISION, or raises; `url` is for the messages."""
    found = _revision(connection)
    if found == SCHEMA_REVISION:
        return
    if found is not None and not _is_known(found):
        raise SchemaTooNew(url, found, SCHEMA_REVISION)
    if not may_write:
        if found is None:
            raise NoStore(f"store {url!r} is not a results store")
        raise StoreError(
            f"store {url!r} has schema {found}, expected schema {SCHEMA_REVISION}",
            hint="`ldapslam store vacuum --store` with its file, folder or URL brings "
            "it up to date",
        )
    if _has_revision(connection):
        _upgrade(connection)
    else:
        _create(connection)


def _has_revision(connection: Connection) -> bool:
    return inspect(connection).has_table(_REVISION.name)


def _create(connection: Connection) -> None:
    """Make what all migrations together make."""
    metadata.create_all(connection, checkfirst=False)
    _REVISION.create(connection)
    connection.execute(_REVISION.insert(), {"version_num": SCHEMA_REVISION})


def _revision(connection: Connection) -> str | None:
    if not _has_revision(connection):
        return None
    row = connection.execute(text("SELECT version_num FROM alembic_version")).first()
    return None if row is None else str(row[0])


def _is_known(revision: str) -> bool:
    # Revisions are numbers of four digits: older ones compare lower.
    return revision.isdigit() and revision <= SCHEMA_REVISION


def _upgrade(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    config.set_main_option("path_separator", "newline")
    config.attributes["connection"] = connection
    with _ALEMBIC:
        command.upgrade(config, "head")
