# SPDX-License-Identifier: Apache-2.0
"""The parts that agents have in runs: what each may still add to its run's records.

A part begins with the run's attempt, given to one process of the agent (its epoch). It
is sealed by the agent's last word, that it finished or failed; a lost agent's part
stays open, so that what it measured can come later. Its room bounds what it adds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

import sqlalchemy as sa
from sqlalchemy import Connection

from ldapslam.results import rows, schema
from ldapslam.results.records import Part

_table = schema.run_agent
#: Run and agent.
PartKey = tuple[str, str]


def parts(connection: Connection, keys: Iterable[PartKey]) -> dict[PartKey, Part]:
    """The parts with these keys. RunNotFound when a run has none and does not exist."""
    agents: dict[str, set[str]] = defaultdict(set)
    for run_id, agent in keys:
        agents[run_id].add(agent)
    columns = [_table.c[name] for name in Part._fields]
    stored: dict[PartKey, Part] = {}
    for run_id, names in agents.items():
        query = sa.select(_table.c.agent, *columns)
        query = query.where(_table.c.run_id == run_id, _table.c.agent.in_(names))
        known = connection.execute(query).all()
        if not known:
            rows.require_run(connection, run_id)
        stored |= {(run_id, agent): Part(*part) for agent, *part in known}
    return stored


def use_room(connection: Connection, sizes_bytes: Mapping[PartKey, int]) -> None:
    """Take stored reports off their parts' room."""
    if not sizes_bytes:
        return
    run_id, agent, room = (_table.c[name] for name in ("run_id", "agent", "room_bytes"))
    query = _table.update().where(
        run_id == sa.bindparam("of_run"), agent == sa.bindparam("of_agent")
    )
    connection.execute(
        query.values(room_bytes=room - sa.bindparam("size")),
        [
            {"of_run": run, "of_agent": name, "size": size}
            for (run, name), size in sizes_bytes.items()
        ],
    )
