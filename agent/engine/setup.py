# SPDX-License-Identifier: Apache-2.0
"""An agent's plan, handed to the engine.

The engine reads the plan's streams by their names (csrc/python/settings.c); only the
secrets, which plans have by reference, are resolved here. Streams that a Python class
drives are not the engine's and are left out.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ldapslam.jobs.plan import AgentPlan, StreamPlan

if TYPE_CHECKING:
    from ldapslam.agent._engine import Engine


def native_streams(plan: AgentPlan) -> tuple[StreamPlan, ...]:
    """The plan's streams that the engine drives, in the order of its numbers."""
    return tuple(stream for stream in plan.streams if stream.engine == "native")


def add_streams(
    engine: Engine, plan: AgentPlan, *, ledger_folder: Path | None = None
) -> None:
    """Hand the plan's native streams to the engine. What they add to a directory is
    noted in files of `ledger_folder`; without one, in none."""
    folder = str(ledger_folder) if ledger_folder else None
    for stream in native_streams(plan):
        engine.add_stream(
            replace(
                stream,
                connection=stream.connection.resolved(),
                ledger_folder=folder if stream.ledgers else None,
            )
        )
