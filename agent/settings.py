# SPDX-License-Identifier: Apache-2.0
"""What the operator of an agent decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ldapslam.agent.admission.limits import AgentLimits
from ldapslam.agent.fork_server import ForkServer


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """What the operator of an agent decides."""

    name: str
    spool: Path
    labels: dict[str, str] = field(default_factory=dict)
    #: Runs that it takes at a time.
    max_runs: int = 1
    #: Only for jobs that name it.
    restricted: bool = False
    limits: AgentLimits = field(default_factory=AgentLimits)
    #: Engine threads; None: cores, but one.
    workers: int | None = None
    #: Ask for SCHED_FIFO in open loops.
    realtime: bool = True
    #: Folder of child processes' logs; None: below the spool.
    logs: Path | None = None
    #: Time to deliver the spool when leaving.
    leave_timeout_s: float = 15.0
    #: Starts the processes of runs; None: each is a new program.
    forks: ForkServer | None = None
    #: Another program than our engine process, for tests.
    engine_command: Sequence[str] | None = None

    @property
    def limits_json(self) -> str:
        """For the engine's processes and the coordinator."""
        return replace(self.limits, max_runs=self.max_runs).to_json()

    @property
    def work_folder(self) -> Path:
        """Where the files of live runs are."""
        return self.spool / "work"

    def log_path(self, kind: str, run_id: str) -> Path:
        """The log of a child process (engine, monitor)."""
        folder = self.logs or self.spool / "logs"
        return folder / f"{kind}-{self.name}-{run_id}.log"
