# SPDX-License-Identifier: Apache-2.0
"""A fleet of real processes on this host: one coordinator, any number of agents.

Everything it starts is ended, and its folder removed, when the test is over. What the
processes logged is part of the message when something does not happen in time.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ldapslam import __version__
from ldapslam.cli.client import Client, job_request
from ldapslam.proto import agent_pb2
from ldapslam.proto import operator_pb2 as pb
from ldapslam.results.records import FINAL_STATES
from ldapslam.results.store import Store
from ldapslam.transport.messages import PROTOCOL_VERSION
from support.forks import Forked, Forks
from support.intervals import stored_intervals

_HERE = Path(__file__).parent
_PROGRAM = _HERE / "fleet_program.py"
_TIMEOUT_S = 20.0
_LOOK_EVERY_S = 0.05
_LOG_CHARACTERS = 4000

Process = subprocess.Popen[bytes] | Forked
_FORKS = Forks(_PROGRAM, "-W", "error")

FINAL = tuple(sorted(FINAL_STATES))


def fake_engine(behaviour: str = "run") -> list[str]:
    """The command of an engine process that needs no server (fake_engine.py)."""
    return [sys.executable, str(_HERE / "fake_engine.py"), behaviour]


def job_text(
    uri: str = "ldap://127.0.0.1:1",
    *,
    duration: str = "1s",
    clients: int = 4,
    **fields: Any,
) -> str:
    """A job that searches; more fields of the job as keywords."""
    return json.dumps(
        {
            "name": "fleet-test",
            "targets": {"replica": uri},
            "run": {"duration": duration, "interval": "200ms", "drain": "1s"},
            "streams": [
                {
                    "name": "readers",
                    "target": "replica",
                    "load": {"clients": clients},
                    "operations": [
                        {
                            "search": {
                                "base": "dc=example,dc=com",
                                "filter": "(uid=user.[0-99])",
                            }
                        }
                    ],
                }
            ],
            **fields,
        }
    )


def submission(text: str, **fields: Any) -> pb.SubmitJobRequest:
    """The request to run this job; more fields of the request as keywords."""
    fields = {
        "protocol_version": PROTOCOL_VERSION,
        "build": __version__,
        "job_file": "job.json",
        "submitted_by": "ana@workstation",
        **fields,
    }
    return pb.SubmitJobRequest(job_text=text.encode(), **fields)


def registration(name: str, **fields: Any) -> agent_pb2.RegisterRequest:
    """The request of an agent to register; more fields of the request as keywords."""
    known = {"instance_id": f"{name}-1", "host_facts_json": "{}", **fields}
    return agent_pb2.RegisterRequest(
        protocol_version=PROTOCOL_VERSION, build=__version__, name=name, **known
    )


class FleetOfProcesses:
    """Start what the test needs; `close` ends it all."""

    def __init__(self) -> None:
        # not pytest's tmp_path: a Unix socket's path is short
        self.folder = Path(tempfile.mkdtemp(prefix="ldapslam-test-"))
        self.address = f"unix:{self.folder}/coordinator"
        self.store = self.folder / "results.sqlite"
        self.processes: dict[str, Process] = {}
        #: Of a process, by key: what to put before its command; it has to exec it.
        self.prefixes: dict[str, Sequence[str]] = {}
        self._client: Client | None = None

    def start_coordinator(self, **options: Any) -> None:
        """On the same address and store each time."""
        chosen = {"listen": self.address, "store": str(self.store), **options}
        process = self._start("coordinator", role="coordinator", **chosen)
        assert process.stdout is not None
        address = process.stdout.readline().decode().strip()
        assert address, self.logs()
        self.address = address
        self._drop_client()

    def start_agent(
        self, name: str, engine: Sequence[str] | None = None, **options: Any
    ) -> Process:
        """An agent; the same name has the same spool."""
        return self._start(
            name,
            role="agent",
            coordinator=self.address,
            name=name,
            spool=str(self.folder / "spool" / name),
            engine=engine,
            **options,
        )

    def _start(self, key: str, **options: Any) -> Process:
        prefix = self.prefixes.get(key, ())
        with (self.folder / f"{key}.log").open("ab") as log:
            process: Process
            if prefix or not _FORKS.can_start():
                process = subprocess.Popen(
                    [
                        *prefix,
                        sys.executable,
                        "-W",
                        "error",
                        str(_PROGRAM),
                        json.dumps(options),
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=log,
                )
            else:
                process = _FORKS.start(options, None, log.fileno())
        self.processes[key] = process
        return process

    def start(
        self, *names: str, engine: Sequence[str] | None = None, **options: Any
    ) -> None:
        """A coordinator and these agents, registered and idle."""
        self.start_coordinator()
        for name in names:
            self.start_agent(name, engine, **options)
        self.wait_for_agents(*names)

    def end(self, key: str, number: signal.Signals = signal.SIGTERM) -> int:
        """Signal a process and wait for its end; its status."""
        process = self.processes[key]
        process.send_signal(number)
        return self.wait_for_end(key)

    def wait_for_end(self, key: str, timeout_s: float = _TIMEOUT_S) -> int:
        process = self.processes[key]
        try:
            status = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            pytest.fail(f"{key} did not end within {timeout_s} s\n{self.logs()}")
        if process.stdout is not None:
            process.stdout.close()
        return status

    def client(self) -> Client:
        return Client(self.address)

    def submit(
        self, text: str, *, priority: int = 0, files: Mapping[str, bytes] | None = None
    ) -> str:
        request = job_request(text.encode(), job_file="job.json", files=files)
        request.priority = priority
        with self.client() as client:
            return client.submit(request)

    def run(self, run_id: str) -> pb.RunStatus:
        return self._lasting_client().run(run_id)

    def events(self, run_id: str) -> list[str]:
        """Return the kinds of the run's events, in order."""
        return [event.kind for event in self.run(run_id).events]

    def agents(self) -> dict[str, pb.AgentStatus]:
        return {agent.name: agent for agent in self._lasting_client().agents()}

    def _lasting_client(self) -> Client:
        """One for all the asking while a test waits."""
        if self._client is None:
            self._client = self.client()
        return self._client

    def _drop_client(self) -> None:
        if self._client is not None:
            self._client.__exit__(None, None, None)
            self._client = None

    def wait_for_agents(
        self, *names: str, state: str = "idle", timeout_s: float = _TIMEOUT_S
    ) -> None:
        def are_there() -> bool:
            agents = self.agents()
            return all(name in agents and agents[name].state == state for name in names)

        self.wait_until(are_there, f"agents {names} {state}", timeout_s)

    def wait_for(
        self, run_id: str, *states: str, timeout_s: float = _TIMEOUT_S
    ) -> pb.RunStatus:
        """The run's status once it is in one of these states."""
        status = self.run(run_id)

        def is_there() -> bool:
            nonlocal status
            status = self.run(run_id)
            return status.state in states

        self.wait_until(is_there, f"run in {states}", timeout_s)
        return status

    def wait_for_load(self, run_id: str) -> None:
        """Return when each agent of the run has an interval in the store."""
        agents = set(self.wait_for(run_id, "running").agents)
        self.wait_until(
            lambda: self.reported(run_id).keys() >= agents, "an interval of each agent"
        )

    def undelivered(self, agent: str) -> int:
        """Reports in the agent's spool."""
        return len(list((self.folder / "spool" / agent).glob("*.report")))

    def wait_for_delivery(self, *agents: str) -> None:
        self.wait_until(
            lambda: not any(self.undelivered(agent) for agent in agents), "delivery"
        )

    def wait_until(
        self, holds: Callable[[], bool], what: str, timeout_s: float = _TIMEOUT_S
    ) -> None:
        deadline_s = time.monotonic() + timeout_s
        while not holds():
            if time.monotonic() > deadline_s:
                pytest.fail(f"not within {timeout_s} s: {what}\n{self.logs()}")
            time.sleep(_LOOK_EVERY_S)

    def engine_pids(self, agent: str) -> list[int]:
        """Engine processes that this agent is the parent of."""
        pid = self.processes[agent].pid
        children = [
            child
            for task in Path(f"/proc/{pid}/task").glob("*/children")
            for child in task.read_text().split()
        ]
        return [
            int(child)
            for child in children
            if b"fork_server" not in Path(f"/proc/{child}/cmdline").read_bytes()
        ]

    def opened_store(self) -> Store:
        """The results, read beside the coordinator or after it."""
        return Store.open(self.store)

    def reported(self, run_id: str) -> dict[str, list[int]]:
        """Agent -> indexes of its intervals in the store."""
        found: dict[str, list[int]] = {}
        with self.opened_store() as store:
            for record in stored_intervals(store, run_id):
                found.setdefault(record.agent, []).append(record.index)
        return found

    def logs(self) -> str:
        parts = []
        for path in sorted(self.folder.rglob("*.log")):
            parts.append(f"--- {path.name}\n{path.read_text()[-_LOG_CHARACTERS:]}")
        return "\n".join(parts)

    def close(self) -> None:
        self._drop_client()
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture(scope="module")
def lasting_fleet() -> Iterator[FleetOfProcesses]:
    """Agents a and b with fake engines, for all tests of a module: leave them idle."""
    with closing(FleetOfProcesses()) as fleet:
        fleet.start("a", "b", engine=fake_engine())
        yield fleet


@pytest.fixture
def fleet() -> Iterator[FleetOfProcesses]:
    """Nothing is running in it yet."""
    with closing(FleetOfProcesses()) as fleet:
        yield fleet
