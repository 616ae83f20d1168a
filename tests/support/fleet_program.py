# SPDX-License-Identifier: Apache-2.0
"""A coordinator or an agent as a process of its own, with settings only tests need.

python fleet_program.py '{"role": "coordinator", "listen": …, "store": …}'
python fleet_program.py '{"role": "agent", "coordinator": …, "name": …, …}'
python fleet_program.py DESCRIPTOR      a fork server, see fleet_forks.py
"""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ldapslam.agent import client
from ldapslam.agent.admission.limits import AgentLimits
from ldapslam.agent.fork_server import ForkServer, fork_server
from ldapslam.agent.settings import AgentSettings
from ldapslam.base.errors import StoreError
from ldapslam.base.process import Fork
from ldapslam.coordinator.agent_service import AgentService
from ldapslam.coordinator.runs.judge import JudgeProcess
from ldapslam.coordinator.schedules.service import Schedules
from ldapslam.coordinator.security.guard import Context
from ldapslam.coordinator.server import run_coordinator
from ldapslam.proto.agent_pb2 import IntervalReport, ReportReply
from ldapslam.reports.judge import COMMAND

_MAX_REQUEST_BYTES = 65_536


def _lose_acknowledgements() -> None:
    """Commit every report, but fail to answer the first time it comes."""
    take = AgentService.ReportInterval
    seen: set[tuple[str, int]] = set()

    async def take_and_forget(
        self: AgentService, report: IntervalReport, context: Context
    ) -> ReportReply:
        reply = await take(self, report, context)
        key = report.agent, report.sequence
        if key not in seen:
            seen.add(key)
            raise StoreError("the answer is lost, for the test")
        return reply

    AgentService.ReportInterval = take_and_forget  # type: ignore[method-assign]


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
        judge=JudgeProcess(COMMAND, options["store"]) if options.get("judge") else None,
        extensions=[Schedules()] if options.get("schedules") else [],
        on_ready=on_ready,
    )


#: What a test's agent allows unless the test says otherwise.
ALLOWS_ALL = json.dumps({"targets": ["any"], "secrets": ["any"], "classes": ["any"]})


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
        with fork_server() as server:
            _serve(options, server)


def _fork_what_is_asked_for(descriptor: int) -> None:
    """Be the fork server: have a fork run each request's options, until the end."""
    with (
        socket.socket(fileno=descriptor) as control,
        open(os.devnull, "rb") as nothing,
    ):
        control.set_inheritable(False)
        while True:
            request, descriptors, _, _ = socket.recv_fds(control, _MAX_REQUEST_BYTES, 2)
            if not request:
                return
            for one in descriptors:
                os.set_inheritable(one, False)
            places = (nothing.fileno(), *descriptors)
            control.send(str(_fork(control, places, json.loads(request))).encode())
            for one in descriptors:
                os.close(one)


def _fork(
    control: socket.socket, descriptors: tuple[int, ...], options: dict[str, Any]
) -> int:
    """The pid of a process whose parent has exited: the tests are its parent now."""
    answer, told = os.pipe()

    def be_program() -> int:
        for one in (control.fileno(), answer, told, *descriptors):
            os.close(one)
        _run(options)
        return 0

    def be_parent() -> int:
        program = Fork(be_program, ["fleet_program"], descriptors)
        os.write(told, str(program.pid).encode())
        return 0

    between = Fork(be_parent, ["fleet_forks"], (0, 1, 2))
    os.close(told)
    between.wait()
    pid = int(os.read(answer, 64))
    os.close(answer)
    return pid


if __name__ == "__main__":
    if sys.argv[1].isdigit():
        _fork_what_is_asked_for(int(sys.argv[1]))
    else:
        _run(json.loads(sys.argv[1]))
