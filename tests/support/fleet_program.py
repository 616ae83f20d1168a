# SPDX-License-Identifier: Apache-2.0
"""A coordinator or an agent as a process of its own, with settings only tests need.

python fleet_program.py '{"role": "coordinator", "listen": …, "store": …}'
python fleet_program.py '{"role": "agent", "coordinator": …, "name": …, …}'
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ldapslam.agent import client
from ldapslam.agent.fork_server import ForkServer, fork_server
from ldapslam.agent.limits import AgentLimits
from ldapslam.agent.settings import AgentSettings
from ldapslam.coordinator.agent_calls import AgentCalls
from ldapslam.coordinator.schedule_service import Schedules
from ldapslam.coordinator.server import run_coordinator
from ldapslam.jobs.errors import StoreError
from ldapslam.proto.agent_pb2 import IntervalReport, ReportReply


def _lose_acknowledgements() -> None:
    """Commit every report, but fail to answer the first time it comes."""
    take = AgentCalls.take_interval
    seen: set[tuple[str, int]] = set()

    async def take_and_forget(self: AgentCalls, report: IntervalReport) -> ReportReply:
        reply = await take(self, report)
        key = report.agent, report.sequence
        if key not in seen:
            seen.add(key)
            raise StoreError("the answer is lost, for the test")
        return reply

    AgentCalls.take_interval = take_and_forget  # type: ignore[method-assign]


def _coordinate(options: dict[str, Any]) -> None:
    if options.get("lose_acknowledgements"):
        _lose_acknowledgements()

    def on_ready(addresses: Sequence[str]) -> None:
        sys.stdout.write(f"{addresses[0]}\n")
        sys.stdout.flush()

    run_coordinator(
        [options["listen"], *options.get("also_listen", ())],
        options["store"],
        insecure=options.get("insecure", False),
        leave_runs=options.get("leave_runs", False),
        extensions=[Schedules()] if options.get("schedules") else [],
        on_ready=on_ready,
    )


def _serve(options: dict[str, Any], forks: ForkServer | None) -> None:
    if build := options.get("build"):
        vars(client)["build_version"] = lambda: str(build)
    settings = AgentSettings(
        name=options["name"],
        spool=Path(options["spool"]),
        labels=options.get("labels", {}),
        max_runs=options.get("max_runs", 1),
        workers=1,
        realtime=options.get("realtime", False),
        restricted=options.get("restricted", False),
        limits=AgentLimits.from_json(options.get("limits", '{"targets": ["any"]}')),
        forks=forks,
        engine_command=options.get("engine"),
    )
    client.run_agent(
        options["coordinator"], settings, insecure=options.get("insecure", False)
    )


if __name__ == "__main__":
    chosen = json.loads(sys.argv[1])
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    if chosen["role"] == "coordinator":
        _coordinate(chosen)
    else:
        with fork_server() as server:
            _serve(chosen, server)
