# SPDX-License-Identifier: Apache-2.0
"""Work on a store as a whole: look, copy, prune, shrink.

Looking, copying and pruning go on beside a coordinator that writes: its commits wait
for one batch of a prune at most. Sizes are bytes; for a SQLite store those of its file
and of the log beside it, for a server's database what the server says.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from ldapslam.base.errors import ConfigError, StoreError
from ldapslam.base.files import sync_folder
from ldapslam.results import audit, schedule_store, schema
from ldapslam.results.audit import AuditRecord
from ldapslam.results.records import FINAL_STATES, RunRecord
from ldapslam.results.store import Store

#: Times that are kept of each schedule, the latest, however old they are.
KEPT_TIMES = 1000
#: Rows that the first transaction of a prune removes, and how long each one may take:
#: the next removes as many as take that long, whatever hangs on a row.
_FIRST_ROWS, _BATCH_S = 500, 0.1
#: After each, for others: SQLite has no queue, and a waiting writer looks every 0.1 s.
_PAUSE_S = 0.15


@dataclass(frozen=True, slots=True)
class StoreInfo:
    url: str
    size_bytes: int
    #: Within it: what pruned runs left, and new runs will use. None: not known.
    free_bytes: int | None
    #: State -> runs.
    runs: dict[str, int]
    intervals: int
    oldest_utc: str | None
    newest_utc: str | None


def info(store: Store) -> StoreInfo:
    table = schema.run.c
    by_state = sa.select(table.state, sa.func.count()).group_by(table.state)
    span = sa.select(sa.func.min(table.submitted_utc), sa.func.max(table.submitted_utc))
    with store.transaction() as connection:
        runs = {state: count for state, count in connection.execute(by_state)}
        oldest_utc, newest_utc = connection.execute(span).one()
        intervals = connection.scalar(
            sa.select(sa.func.count()).select_from(schema.interval_report)
        )
    return StoreInfo(
        url=store.url,
        size_bytes=size_bytes(store),
        free_bytes=_free_bytes(store),
        runs=dict(sorted(runs.items())),
        intervals=intervals or 0,
        oldest_utc=oldest_utc,
        newest_utc=newest_utc,
    )


def size_bytes(store: Store) -> int:
    if store.path is not None:
        return file_bytes(store.path)
    with store.transaction() as connection:
        if connection.dialect.name != "postgresql":
            return 0
        size = sa.func.pg_database_size(sa.func.current_database())
        return int(connection.scalar(sa.select(size)) or 0)


def file_bytes(path: Path) -> int:
    """Of a SQLite store with the log beside it; 0 when it is not there."""
    size = 0
    for part in (path, path.with_name(f"{path.name}-wal")):
        with contextlib.suppress(FileNotFoundError):
            size += part.stat().st_size
    return size


def room_bytes(store: Store) -> int | None:
    """What is left on a SQLite store's disk, and free within it; None of others."""
    if store.path is None:
        return None
    return shutil.disk_usage(store.path.parent).free + (_free_bytes(store) or 0)


def _free_bytes(store: Store) -> int | None:
    if store.path is None:
        return None
    with store.transaction() as connection:
        pages = connection.exec_driver_sql("PRAGMA freelist_count").scalar_one()
        page_bytes = connection.exec_driver_sql("PRAGMA page_size").scalar_one()
    return int(pages) * int(page_bytes)


def check_writable(store: Store) -> None:
    """Commit something that changes nothing; StoreError when the store refuses."""
    with store.transaction(writes=True) as connection:
        number = schema.revision.c.number
        connection.execute(schema.revision.update().values(number=number))


# Copy and shrink: SQLite's own.


def back_up(store: Store, target: Path) -> int:
    """A copy as of now, in one plain file for its owner only; its size.

    The copy appears whole or not at all. ConfigError when the file exists.
    """
    source_path = _path_of(store, "make a copy with pg_dump")
    if target.exists():
        raise ConfigError(
            f"the file {str(target)!r} exists", hint="name another, or remove it"
        )
    aside = target.with_name(f".{target.name}.part")
    try:
        aside.unlink(missing_ok=True)
        os.close(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        _copy(source_path, aside)
        # not `rename`: what came there meanwhile is not overwritten
        os.link(aside, target)
        sync_folder(target.parent)
    except FileExistsError as error:
        raise ConfigError(f"the file {str(target)!r} exists") from error
    except OSError as error:
        raise ConfigError(
            f"the copy {str(target)!r} cannot be written: {error.strerror}"
        ) from error
    except sqlite3.Error as error:
        raise StoreError(f"store {store.url!r}: no copy: {error}") from error
    finally:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)
    return target.stat().st_size


def _copy(source_path: Path, aside: Path) -> None:
    source = sqlite3.connect(f"{source_path.as_uri()}?mode=ro", uri=True, timeout=10)
    copy = sqlite3.connect(aside)
    with contextlib.closing(source), contextlib.closing(copy):
        # all pages in one step: one reading transaction, which no writer disturbs
        source.backup(copy, pages=-1)
        # it has taken WAL over from its source
        copy.execute("PRAGMA journal_mode=DELETE")
        found = copy.execute("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            raise sqlite3.DatabaseError(f"the copy is damaged: {found}")
    with aside.open("rb") as file:
        os.fsync(file.fileno())


def shrink(store: Store) -> None:
    """Give free space back to the file system. Nobody else may write meanwhile."""
    path = _path_of(
        store, "autovacuum lets new runs use the space; VACUUM FULL returns it"
    )
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=10)) as connection:
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error as error:
        raise StoreError(
            f"store {store.url!r}: {error}",
            hint="it takes as much free space as the store has, and no other "
            "process may use the store meanwhile",
        ) from error


def _path_of(store: Store, remedy: str) -> Path:
    if store.path is None:
        raise ConfigError(f"store {store.url!r} is no SQLite file", hint=remedy)
    return store.path


# Prune.


def prunable(
    store: Store, *, ended_before_utc: str | None, keep_runs: int | None
) -> list[RunRecord]:
    """The ended runs that may go, oldest first; what either rule keeps is kept.

    At least one of the rules is given. Runs that have not ended are kept, and those
    whose end another one waits for.
    """
    runs = store.runs()
    spared = {run.run_id for run in runs[:keep_runs]} if keep_runs else set()
    waited_for = sa.select(schema.submission.c.after_run).join(
        schema.run, schema.run.c.run_id == schema.submission.c.run_id
    )
    open_runs = schema.run.c.state.not_in(FINAL_STATES)
    with store.transaction() as connection:
        spared |= set(connection.scalars(waited_for.where(open_runs)))
    return [
        run
        for run in reversed(runs)
        if run.state in FINAL_STATES
        and run.run_id not in spared
        and (
            ended_before_utc is None
            or (run.finished_utc or run.submitted_utc) < ended_before_utc
        )
    ]


def remove_run(store: Store, run_id: str) -> None:
    """Remove an ended run, in transactions short enough for a coordinator beside.

    First it loses its verdict: should this be interrupted, what is left of the run
    says so, and goes with the next prune.
    """
    run = schema.run
    is_run = run.c.run_id == run_id
    removed = {
        "state": "failed",
        "state_detail": "removed by `ldapslam results prune`, not yet entirely",
        "verdict": "INVALID",
        # no start judges it again
        "unjudged": 0,
    }
    with store.transaction(writes=True) as connection:
        found = connection.scalar(sa.select(run.c.state).where(is_run))
        if found is None:
            return
        if found not in FINAL_STATES:
            raise StoreError(f"run {run_id!r} is {found}: it has not ended")
        connection.execute(run.update().where(is_run), removed)
    for table in (schema.monitor_sample, schema.interval_report):
        key = sa.select(*table.primary_key.columns)
        _remove(store, table, key.where(table.c.run_id == run_id))
    with store.transaction(writes=True) as connection:
        connection.execute(run.delete().where(is_run))


def old_audit(store: Store, before_utc: str) -> int:
    """How many entries of the audit log are older."""
    return _count(store, _old_entries(before_utc))


def remove_audit(store: Store, before_utc: str, note: AuditRecord) -> int:
    """Remove them, when there are any; first the log has `note` of it. How many."""
    if old_audit(store, before_utc):
        # before: its number is the highest, so that none is given twice
        audit.add(store, note)
    return _remove(store, schema.audit, _old_entries(before_utc))


def _old_entries(before_utc: str) -> sa.Select[Any]:
    table = schema.audit.c
    return sa.select(table.number).where(table.at_utc < before_utc)


def old_times(store: Store, before_utc: str | None) -> int:
    """How many times of schedules, with their outcomes, are too old to keep."""
    return _count(store, _old_times(before_utc))


def remove_times(store: Store, before_utc: str | None) -> int:
    """Remove them; how many they were. The schedule itself knows what is settled."""
    return _remove(store, schema.schedule_fire, _old_times(before_utc))


def _old_times(before_utc: str | None) -> sa.Select[Any]:
    table = schema.schedule_fire.c
    rank = sa.func.row_number().over(
        partition_by=table.schedule_id, order_by=table.due_utc.desc()
    )
    ranked = sa.select(
        table.schedule_id, table.due_utc, table.outcome, rank.label("rank")
    ).subquery()
    query = sa.select(ranked.c.schedule_id, ranked.c.due_utc).where(
        ranked.c.rank > KEPT_TIMES, ranked.c.outcome != schedule_store.SUBMITTING
    )
    if before_utc is not None:
        query = query.where(ranked.c.due_utc < before_utc)
    return query


def _count(store: Store, rows: sa.Select[Any]) -> int:
    query = sa.select(sa.func.count()).select_from(rows.subquery())
    with store.transaction() as connection:
        return int(connection.scalar(query) or 0)


def _remove(store: Store, table: sa.Table, keys: sa.Select[Any]) -> int:
    """Removes the rows of these keys, and what hangs on them, batch by batch."""
    key = sa.tuple_(*table.primary_key.columns)
    removed, size = 0, _FIRST_ROWS
    while True:
        with store.transaction(writes=True) as connection:
            begun_s = time.monotonic()
            chosen = table.delete().where(key.in_(keys.limit(size)))
            done = connection.execute(chosen).rowcount
        removed += done
        if done < size:
            return removed
        took_s = time.monotonic() - begun_s
        # a slow moment must not be answered by many small batches
        size = max(1, int(size * min(4.0, max(0.25, _BATCH_S / max(took_s, 1e-9)))))
        time.sleep(_PAUSE_S)
