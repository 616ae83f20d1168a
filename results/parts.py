# SPDX-License-Identifier: Apache-2.0
"""The parts that agents have in runs: what each may still add to its run's records.

A part begins with the run's attempt, given to one process of the agent (its epoch). It
is sealed by the agent's last word, that it finished or failed; a lost agent's part
stays open, so that what it measured can come later. Its room bounds what it adds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy import Connection

from ldapslam.results import rows, schema

_table = schema.run_agent
#: Run and agent.
PartKey = tuple[str, str]


class Part(NamedTuple):
    """An agent's part of a run."""

    attempt: int
    epoch: int
    is_sealed: bool = False
    #: What reports may still take.
    room_bytes: int = 0

    def refusal(
        self, attempt: int, size_bytes: int, *, is_monitoring: bool = False
    ) -> str:
        """Why a new report is not taken; empty when it is. `is_monitoring`: it is of a
        monitor, which goes on after the agent's load."""
        if attempt != self.attempt:
            return "it is of another attempt of the run"
        if self.is_sealed and not is_monitoring:
            return "the agent's part has ended"
        if size_bytes > self.room_bytes:
            return "the agent has reported more than the run's plan can need"
        return ""


#: Of an agent that was given none.
NO_PART = Part(attempt=0, epoch=0, is_sealed=True)


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
