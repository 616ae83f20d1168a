# SPDX-License-Identifier: Apache-2.0
"""Parts of a run that were collected while it went on.

A part is what was collected of all reports of some intervals (reports/collect), so that
a verdict need not read them again. It goes as soon as another report of its intervals
comes, or an agent begins another attempt.
"""

from __future__ import annotations

from typing import NamedTuple

import sqlalchemy as sa

from ldapslam.results import schema
from ldapslam.results.intervals import forget_collected
from ldapslam.results.records import FINAL_STATES
from ldapslam.results.store import Store

_table = schema.collected_part


class CollectedPart(NamedTuple):
    """The numbers of its intervals, how many reports it is of, with the SHA-256 of
    their rows and of what else it was made of, both in hexadecimal digits."""

    first_index: int
    last_index: int
    reports: int
    reports_sha256: str
    made_of: str


def keep(store: Store, run_id: str, part: CollectedPart, content: bytes) -> bool:
    """Keep a part of a run that goes on, if the store still has its reports."""
    run, report = schema.run.c, schema.interval_report.c
    with store.transaction(writes=True) as connection:
        is_theirs = report.interval_index.between(part.first_index, part.last_index)
        query = sa.select(sa.func.count()).where(report.run_id == run_id, is_theirs)
        state = sa.select(run.state).where(run.run_id == run_id).with_for_update()
        if connection.scalar(state) in FINAL_STATES:
            return False
        if connection.scalar(query) != part.reports:
            return False
        forget_collected(connection, run_id, part.first_index, part.last_index)
        row = {"run_id": run_id, **part._asdict(), "content": content}
        connection.execute(_table.insert(), row)
        return True


def kept(store: Store, run_id: str) -> dict[int, CollectedPart]:
    """The first interval of each part that is kept of a run -> the part."""
    columns = [_table.c[name] for name in CollectedPart._fields]
    query = sa.select(*columns).where(_table.c.run_id == run_id)
    with store.transaction() as connection:
        found = connection.execute(query.order_by(_table.c.first_index)).all()
    return {row.first_index: CollectedPart(*row) for row in found}


def content_of(store: Store, run_id: str, part: CollectedPart) -> bytes | None:
    """None: the part was forgotten meanwhile."""
    query = sa.select(_table.c.content).where(
        _table.c.run_id == run_id,
        *(_table.c[name] == value for name, value in part._asdict().items()),
    )
    with store.transaction() as connection:
        return connection.scalar(query)
