# SPDX-License-Identifier: Apache-2.0
"""The runs of a store without what is long in them: job text, plan, manifest.

A list of runs must not grow slow with what the runs hold: of ten thousand of them only
the rows that are shown are read, by an index, and of their documents only what a list
has.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields
from typing import Any

import sqlalchemy as sa

from ldapslam.results import schema
from ldapslam.results.records import RunRecord
from ldapslam.results.store import Store

_LONG = ("job_text", "plan", "manifest")
_PLAIN = tuple(
    field.name
    for field in fields(RunRecord)
    if field.name not in (*_LONG, "seed", "agents")
)


def brief_runs(
    store: Store, limit: int = 0, *, states: Collection[str] | None = None
) -> list[RunRecord]:
    """The newest runs, the latest submitted first; 0 is all; of these states, if given.

    Their job's text is empty; their plan has its phases, their manifest its failure.
    """
    table = schema.run.c
    columns: list[sa.ColumnElement[Any]] = [
        table[name] for name in (*_PLAIN, "seed", "agents")
    ]
    columns += [
        table.plan["phases"].label("phases"),
        table.manifest["failure"].label("failure"),
    ]
    query = sa.select(*columns).order_by(
        table.submitted_utc.desc(), table.run_id.desc()
    )
    if states is not None:
        query = query.where(table.state.in_(list(states)))
    if limit:
        query = query.limit(limit)
    with store.transaction() as connection:
        return [_brief(row) for row in connection.execute(query)]


def _brief(row: sa.Row[Any]) -> RunRecord:
    values = row._mapping
    return RunRecord(
        **{name: values[name] for name in _PLAIN},
        job_text="",
        seed=int(values["seed"]),
        agents=tuple(values["agents"]),
        plan={"phases": values["phases"]} if values["phases"] else {},
        manifest={"failure": values["failure"]} if values["failure"] else {},
    )
