# SPDX-License-Identifier: Apache-2.0
"""Sends the operations of a job file to a server, and says what became of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Protocol

from ldapslam.agent import _engine
from ldapslam.agent.engine.setup import add_streams
from ldapslam.jobs.load import load_job_text
from ldapslam.jobs.plan import agent_plan
from support.engine import Result, collect, start


class Server(Protocol):
    """A directory and its administrator."""

    @property
    def uri(self) -> str: ...

    @property
    def admin_dn(self) -> str: ...

    @property
    def admin_password_file(self) -> Path: ...


def run_operations(
    server: Server,
    operations: list[dict[str, Any]],
    *,
    sessions: int = 20,
    clients: int = 1,
    files: Path | None = None,
    bind: dict[str, Any] | None = None,
    ledgers: Path | None = None,
) -> dict[str, Counts]:
    """What became of each operation by its name. Bound as the administrator, unless
    `bind` says otherwise."""
    password = {"file": str(server.admin_password_file)}
    job = {
        "name": "operations",
        "targets": {"directory": server.uri},
        "run": {"duration": "20s", "interval": "100ms"},
        "bind": bind or {"dn": server.admin_dn, "password": password},
        "streams": [
            {
                "name": "load",
                "target": "directory",
                "load": {"clients": clients},
                "count": sessions,
                "operations": operations,
            }
        ],
    }
    text = json.dumps(job)
    plan = agent_plan(load_job_text(text, file="job", base=files), 0, 1, seed=7)
    engine: Any = _engine.Engine(plan, workers=1, realtime=False)
    add_streams(engine, plan, ledger_folder=ledgers)
    start(engine)
    result = collect(engine)
    result.assert_balanced()
    return {
        operation.name: Counts(result, number)
        for number, operation in enumerate(plan.streams[0].operations)
    }


class Counts:
    """The counters of one operation over a whole run."""

    def __init__(self, result: Result, operation: int) -> None:
        self._result = result
        self._operation = operation
        self.codes = result.result_codes(operation=operation)

    def __getattr__(self, counter: str) -> int:
        return self._result.count(counter, operation=self._operation)
