# SPDX-License-Identifier: Apache-2.0
"""The readings of monitors in the store.

They arrive as reports of agents do, again after a lost connection: what is there stays
as it is. Values are packed as little-endian doubles, so that a reading is one row
whatever its number of metrics.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import sqlalchemy as sa

from ldapslam.results import schema
from ldapslam.results.facts import MonitorFacts
from ldapslam.results.parts import parts, use_room
from ldapslam.results.records import (
    NO_PART,
    Metric,
    MonitorDescription,
    MonitorSample,
    MonitorSeries,
)
from ldapslam.results.rows import add_new, note_addition
from ldapslam.results.store import Store

_DOUBLE = "<f8"

_descriptions = schema.monitor_description
_samples = schema.monitor_sample


def add_monitor_report(
    store: Store,
    run_id: str,
    agent: str,
    attempt: int,
    monitors: Sequence[MonitorDescription],
    samples: Sequence[MonitorSample],
    size_bytes: int,
    *,
    is_monitoring: bool,
) -> str:
    """Keep one report, or return why it is refused; `is_monitoring`: the run still
    waits for the agent's monitors."""
    with store.together(), store.transaction(writes=True) as connection:
        key = run_id, agent
        part = parts(connection, [key]).get(key, NO_PART)
        refusal = part.refusal(attempt, size_bytes, is_monitoring=is_monitoring)
        if refusal:
            return refusal
        describe_monitors(store, run_id, agent, monitors)
        query = sa.select(_descriptions.c.monitor)
        described = connection.scalars(query.filter_by(run_id=run_id, agent=agent))
        if {sample.monitor for sample in samples} - set(described):
            return "it has samples of a monitor that the agent has not described"
        add_monitor_samples(store, run_id, agent, samples)
        use_room(connection, {key: size_bytes})
    return ""


def describe_monitors(
    store: Store, run_id: str, agent: str, monitors: Iterable[MonitorDescription]
) -> None:
    """Keep what an agent's monitors are; one that is there stays as it is."""
    rows = [
        {
            "run_id": run_id,
            "agent": agent,
            "monitor": one.name,
            "metrics": [list(metric) for metric in one.metrics],
            "facts": one.facts.document(),
        }
        for one in monitors
    ]
    with store.transaction(writes=True) as connection:
        if add_new(connection, _descriptions, rows):
            note_addition(connection, [run_id])


def add_monitor_samples(
    store: Store, run_id: str, agent: str, samples: Sequence[MonitorSample]
) -> None:
    """Keep readings; one that is there stays as it is."""
    rows = [
        {
            "run_id": run_id,
            "agent": agent,
            "monitor": one.monitor,
            "at_ns": one.at_ns,
            "took_ns": one.took_ns,
            "packed_values": np.array(one.values, _DOUBLE).tobytes(),
            "failure": one.failure,
        }
        for one in samples
    ]
    with store.transaction(writes=True) as connection:
        if add_new(connection, _samples, rows):
            note_addition(connection, [run_id])


def monitor_descriptions(
    store: Store, run_id: str
) -> list[tuple[str, MonitorDescription]]:
    """Agent and monitor, by the monitor's name."""
    table = _descriptions.c
    query = sa.select(table.agent, table.monitor, table.metrics, table.facts)
    query = query.filter_by(run_id=run_id).order_by(table.monitor, table.agent)
    with store.transaction() as connection:
        return [
            (
                agent,
                MonitorDescription(
                    name,
                    tuple(Metric(*one) for one in metrics),
                    MonitorFacts.stored(facts),
                ),
            )
            for agent, name, metrics, facts in connection.execute(query)
        ]


def monitor_series(store: Store, run_id: str) -> Iterator[MonitorSeries]:
    """The readings of every monitor, one monitor in memory at a time."""
    for agent, description in monitor_descriptions(store, run_id):
        yield _series(store, run_id, agent, description)


def _series(
    store: Store, run_id: str, agent: str, description: MonitorDescription
) -> MonitorSeries:
    table, width = _samples.c, len(description.metrics)
    query = sa.select(table.at_ns, table.took_ns, table.packed_values, table.failure)
    query = query.filter_by(run_id=run_id, agent=agent, monitor=description.name)
    with store.transaction() as connection:
        rows = connection.execute(query.order_by(table.at_ns)).all()
    values = np.full((len(rows), width), np.nan)
    for number, row in enumerate(rows):
        found = np.frombuffer(row.packed_values, _DOUBLE)
        if len(found) == width:
            values[number] = found
    return MonitorSeries(
        agent,
        description,
        np.array([row.at_ns for row in rows], np.int64),
        np.array([row.took_ns for row in rows], np.int64),
        values,
        {n: row.failure for n, row in enumerate(rows) if row.failure is not None},
    )
