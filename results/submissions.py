# SPDX-License-Identifier: Apache-2.0
"""What was submitted and has not ended: for a coordinator that takes runs up again.

A row goes when its run has ended: it holds the job's files, which may be large.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from ldapslam.results import rows, schema
from ldapslam.results.records import FINAL_STATES, RunRecord, SubmissionRecord
from ldapslam.results.store import Store


@dataclass(frozen=True, slots=True)
class OpenRun:
    """A run that has not ended, as the store knows it."""

    record: RunRecord
    #: None of a run that an older ldapslam began.
    submission: SubmissionRecord | None
    #: Agent -> its facts.
    agents: Mapping[str, Mapping[str, Any]]


def open_runs(store: Store) -> list[OpenRun]:
    """All runs that have not ended, the first submitted first."""
    run, table = schema.run, schema.submission
    query = (
        sa.select(run)
        .where(run.c.state.not_in(FINAL_STATES))
        .order_by(run.c.submitted_utc, run.c.run_id)
    )
    with store.transaction() as connection:
        records = [rows.run_record(row) for row in connection.execute(query)]
        found = {
            row.run_id: row
            for row in connection.execute(
                sa.select(table).where(
                    table.c.run_id.in_([record.run_id for record in records])
                )
            )
        }
    return [
        OpenRun(
            record, _submission(found.get(record.run_id)), store.agents(record.run_id)
        )
        for record in records
    ]


def _submission(row: sa.Row[Any] | None) -> SubmissionRecord | None:
    if row is None:
        return None
    return SubmissionRecord(
        row.request, row.not_before_utc, row.after_run, row.after_if or "any"
    )


def forget(store: Store, run_id: str) -> None:
    """The run has ended."""
    table = schema.submission
    with store.transaction(writes=True) as connection:
        connection.execute(table.delete().where(table.c.run_id == run_id))
