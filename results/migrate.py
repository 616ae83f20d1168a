# SPDX-License-Identifier: Apache-2.0
"""Brings a store's schema up to date, or refuses one that is too new.

A new store gets the tables of `schema`; an older one the migrations that it lacks,
which are numbered modules in `migrations/versions`, in the transaction of the
connection given. Alembic is imported only for those: the usual open of a store costs
one SELECT.
"""

from __future__ import annotations

import threading
from pathlib import Path

from sqlalchemy import Connection, inspect, text

from ldapslam.base.errors import NoStore, SchemaTooNew, StoreError
from ldapslam.results.schema import metadata

_SCRIPTS = Path(__file__).with_name("migrations")
_REVISIONS = sorted(path.name[1:5] for path in _SCRIPTS.glob("versions/m*.py"))
#: The oldest one that migrations start from, and the newest, which new stores have.
FIRST_REVISION, SCHEMA_REVISION = _REVISIONS[0], _REVISIONS[-1]
#: Alembic's `op` and `context` are the process's: two upgrades at once, as by two
#: exports, would write to each other's stores, and crash when one is closed.
_ALEMBIC = threading.Lock()


def migrate(connection: Connection, url: str, *, may_write: bool) -> None:
    """Leaves the store at SCHEMA_REVISION, or raises; `url` is for the messages."""
    found = _revision(connection)
    if found == SCHEMA_REVISION:
        return
    # revisions are numbers of four digits: older ones compare lower
    if found is not None and not (found.isdigit() and found <= SCHEMA_REVISION):
        raise SchemaTooNew(url, found, SCHEMA_REVISION)
    if found is not None and found < FIRST_REVISION:
        raise NoStore(
            f"store {url!r} has schema {found}, of before the first release",
            hint="keep its reports; a new store is made where there is no file",
        )
    if not may_write:
        if found is None:
            raise NoStore(f"store {url!r} is not a results store")
        raise StoreError(
            f"store {url!r} has schema {found}, expected schema {SCHEMA_REVISION}",
            hint="`ldapslam store vacuum --store` with its file, folder or URL brings "
            "it up to date",
        )
    if found is None:
        _create(connection)
    else:
        _upgrade(connection)


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    row = connection.execute(text("SELECT version_num FROM alembic_version")).first()
    return None if row is None else str(row[0])


def _create(connection: Connection) -> None:
    """As Alembic leaves a store that it has brought up to date."""
    metadata.create_all(connection, checkfirst=False)
    connection.execute(
        text("CREATE TABLE alembic_version (version_num VARCHAR(32) PRIMARY KEY)")
    )
    connection.execute(
        text("INSERT INTO alembic_version VALUES (:revision)"),
        {"revision": SCHEMA_REVISION},
    )


def _upgrade(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    config.set_main_option("path_separator", "newline")
    config.attributes["connection"] = connection
    with _ALEMBIC:
        command.upgrade(config, "head")
