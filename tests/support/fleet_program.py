# SPDX-License-Identifier: Apache-2.0
"""A coordinator or an agent as a process of its own, with settings only tests need.

python fleet_program.py '{"role": "coordinator", "listen": …, "store": …}'
python fleet_program.py '{"role": "agent", "coordinator": …, "name": …, …}'
python fleet_program.py DESCRIPTOR      a fork server, see forks.py
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ldapslam.agent import client
from ldapslam.agent.admission.limits import AgentLimits
from ldapslam.agent.children import EngineChild
from ldapslam.agent.fork_server import ForkServer, fork_server
from ldapslam.agent.settings import AgentSettings
from ldapslam.base.errors import StoreError
from ldapslam.base.process import has_threads
from ldapslam.coordinator import part_collector
from ldapslam.coordinator.agent_service import AgentService
from ldapslam.coordinator.extension import Extension
from ldapslam.coordinator.part_collector import PartCollector
from ldapslam.coordinator.runs.judge import JudgeProcess
from ldapslam.coordinator.schedules.service import Schedules
from ldapslam.coordinator.server import run_coordinator
from ldapslam.proto.agent_pb2 import IntervalReplies, IntervalReports
from ldapslam.reports.judge import COMMAND

sys.path[0] = str(Path(__file__).parents[1])

from support.fake_engine import module_of  # noqa: E402
from support.forks import serve  # noqa: E402


def _lose_acknowledgements() -> None:
    """Commit every report, but fail to answer the first time it comes."""
    take = AgentService.take_intervals
    seen: set[tuple[str, int]] = set()

    async def take_and_forget(
        self: AgentService, request: IntervalReports
    ) -> IntervalReplies:
        replies = await take(self, request)
        keys = {(report.agent, report.sequence) for report in request.reports}
        if not keys <= seen:
            seen.update(keys)
            raise StoreError("the answer is lost, for the test")
        return replies

    AgentService.take_intervals = take_and_forget  # type: ignore[method-assign]


#: Judges runs, and collects them in parts of a number of intervals.
_SMALL_PARTS = """
from ldapslam.reports import judge
from ldapslam.reports.collect import timeline
timeline._PART_REPORTS, timeline._PART_INTERVALS = 1, {}
judge.answer(judge.judge)
"""


def _coordinate(options: dict[str, Any]) -> None:
    if options.get("lose_acknowledgements"):
        _lose_acknowledgements()

    def on_ready(addresses: Sequence[str]) -> None:
        sys.stdout.write(f"{addresses[0]}\n")
        sys.stdout.flush()

    extensions: list[Extension] = [Schedules()] if options.get("schedules") else []
    judge = JudgeProcess(COMMAND, options["store"])
    if intervals := options.get("part_intervals"):
        vars(part_collector)["_FIRST_REPORTS"] = 1
        command = sys.executable, "-P", "-c", _SMALL_PARTS.format(intervals)
        judge = JudgeProcess(command, options["store"])
        extensions.append(PartCollector(judge.collect))
    run_coordinator(
        [options["listen"], *options.get("also_listen", ())],
        options["store"],
        insecure=options.get("insecure", False),
        leave_runs=options.get("leave_runs", False),
        judge=judge if options.get("judge") else None,
        extensions=extensions,
        on_ready=on_ready,
    )


_FAKE_ENGINE = str(Path(__file__).with_name("fake_engine.py"))
#: What a test's agent allows unless the test says otherwise.
ALLOWS_ALL = json.dumps({"targets": ["any"], "secrets": ["any"], "classes": ["any"]})


def _serve(options: dict[str, Any], forks: ForkServer | None) -> None:
    if build := options.get("build"):
        vars(client)["__version__"] = str(build)
    # an agent of a user waits for two seconds when the store is busy
    vars(client)["_STORE_PAUSE_S"] = 0.2
    settings = AgentSettings(
        name=options["name"],
        spool=Path(options["spool"]),
        labels=options.get("labels", {}),
        max_runs=options.get("max_runs", 1),
        workers=1,
        realtime=options.get("realtime", False),
        restricted=options.get("restricted", False),
        limits=AgentLimits.from_json(options.get("limits", ALLOWS_ALL)),
        forks=forks,
        engine_command=options.get("engine"),
    )
    client.run_agent(
        options["coordinator"], settings, insecure=options.get("insecure", False)
    )


def _run(options: dict[str, Any]) -> None:
    logging.basicConfig(
        level=logging.INFO,
        stream=sys.stderr,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    if options["role"] == "coordinator":
        _coordinate(options)
    else:
        if _FAKE_ENGINE in (options.get("engine") or ()) and not has_threads():
            # forked like a real one, not started as a program that imports everything
            EngineChild._module = module_of(options.pop("engine")[-1])
        with fork_server() as server:
            _serve(options, server)


if __name__ == "__main__":
    told = sys.argv[1]
    _run(serve(int(told)) if told.isdigit() else json.loads(told))
