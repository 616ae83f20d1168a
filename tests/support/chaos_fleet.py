# SPDX-License-Identifier: Apache-2.0
"""A fleet whose every link has a relay, whose engines keep a tally, and whose directory
counts: what a test needs to break things and then to check the books (books.py).

    agent a --relay a--.
    agent b --relay b--+-- [report relay] -- coordinator (Unix socket)
                       |
    engines ----- counting directory
"""

from __future__ import annotations

import itertools
import json
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest

from ldapslam.base.errors import LdapSlamError
from ldapslam.cli.client import Client
from ldapslam.proto import operator_pb2 as pb
from ldapslam.results.store import Store
from support.counting_ldap import CountingLdap
from support.fleet import FleetOfProcesses, Process
from support.processes import processes_below
from support.relay import Relay
from support.report_relay import ReportRelay
from support.tallied_engine import tallied_engine

T = TypeVar("T")

INTERVAL_S = 0.2
#: The agents of most tests.
AGENTS = ("a", "b")

_PATIENCE = 6
#: The coordinator waits 30 s for agents that do not end.
_HEAL_S = 40.0
_ENGINE_SCRIPT = "tallied_engine.py"


class ChaosFleet(FleetOfProcesses):
    """`begin` has the usual parts running; `close` ends all."""

    def __init__(self, postgresql: str | None = None) -> None:
        """`postgresql`: the URL of the coordinator's store, if that is to be one."""
        super().__init__()
        #: Of the processes, by key: what the next start of it gets.
        self.options: dict[str, dict[str, Any]] = {}
        self.postgresql = postgresql
        if postgresql is not None:
            self.options["coordinator"] = {"store": postgresql}
        self.directory = CountingLdap(self.folder)
        self.relays: dict[str, Relay] = {}
        self._report_relay: ReportRelay | None = None
        self._run_numbers = itertools.count(1)
        #: Run id -> the number in its searches.
        self.numbers: dict[str, int] = {}
        #: Whether the coordinator sees a file system of its own.
        self.has_own_files = False

    def begin(self, *names: str) -> None:
        """A directory, a coordinator and these agents, idle."""
        self.directory.start()
        self.start_coordinator()
        for name in names:
            self.start_agent(name)
        self.wait_for_agents(*names)

    def start_agent(
        self, name: str, engine: Sequence[str] | None = None, **options: Any
    ) -> Process:
        """Behind its relay, unless `coordinator` says otherwise; with the options that
        it was started with before, when none are given."""
        options = self.options.setdefault(name, options)
        if name not in self.relays and "coordinator" not in options:
            self.relays[name] = Relay(self.address)
        relay = self.relays.get(name)
        return self._start(
            name,
            **{
                "role": "agent",
                "coordinator": relay.address if relay else "",
                "name": name,
                "spool": str(self.folder / "spool" / name),
                "engine": engine or tallied_engine(self.tally(name)),
                **options,
            },
        )

    def start_coordinator(self, **options: Any) -> None:
        """With the options that it was started with before, when none are given."""
        options = self.options.setdefault("coordinator", options)
        super().start_coordinator(**options)

    def opened_store(self) -> Store:
        """A copy, where the coordinator alone sees it; it stands still meanwhile."""
        if self.postgresql is not None:
            return Store.open(self.postgresql, read_only=True)
        if not self.has_own_files:
            return super().opened_store()
        root = Path(f"/proc/{self.processes['coordinator'].pid}/root")
        folder = self.folder / "copy"
        folder.mkdir(exist_ok=True)
        self.send_signal("coordinator", signal.SIGSTOP)
        try:
            for path in (root / self.store.parent.relative_to("/")).iterdir():
                if path.name.endswith((".sqlite", "-wal")):
                    shutil.copy(path, folder / path.name)
        finally:
            self.send_signal("coordinator", signal.SIGCONT)
        (folder / f"{self.store.name}-shm").unlink(missing_ok=True)
        return Store.open(folder / self.store.name)

    def _start(self, key: str, **options: Any) -> Process:
        before = self.processes.get(key)
        if before is not None and before.stdout is not None:
            before.stdout.close()
        return super()._start(key, **options)

    def wait_until(
        self, holds: Callable[[], bool], what: str, timeout_s: float = 20.0
    ) -> None:
        """A coordinator that is away is no error; what is promised of times is looked
        at elsewhere, a busy machine has more."""

        def holds_now() -> bool:
            try:
                return holds()
            except LdapSlamError:
                return False

        super().wait_until(holds_now, what, _PATIENCE * timeout_s)

    def start_second(self, key: str, address: str, store: Path | str) -> Process:
        """One more coordinator, by mistake."""
        return self._start(key, role="coordinator", listen=address, store=str(store))

    def tally(self, agent: str) -> Path:
        return self.folder / f"{agent}.tally"

    def engine(self, agent: str) -> psutil.Process | None:
        """The agent's engine process, if it has one."""
        engines = processes_below(self.processes[agent].pid, _ENGINE_SCRIPT)
        return engines[0] if engines else None

    def submit_load(self, **fields: Any) -> str:
        """A run of `load_text`."""
        number = next(self._run_numbers)
        run_id = self.submit(load_text(self.directory.uri, number, **fields))
        self.numbers[run_id] = number
        return run_id

    def t0_s(self, run_id: str, timeout_s: float = 20.0) -> float | None:
        """T0 as this host's monotonic time; None when the run ended without one."""
        status = pb.RunStatus()

        def is_decided() -> bool:
            nonlocal status
            status = self.run(run_id)
            return bool(status.t0_utc or status.finished_utc)

        self.wait_until(is_decided, "T0", timeout_s)
        if not status.t0_utc:
            return None
        t0 = datetime.fromisoformat(status.t0_utc).timestamp()
        return time.monotonic() + t0 - time.time()

    def run(self, run_id: str) -> pb.RunStatus:
        return self._asked(lambda client: client.run(run_id))

    def agents(self) -> dict[str, pb.AgentStatus]:
        found = self._asked(lambda client: client.agents())
        return {agent.name: agent for agent in found}

    def _asked(self, question: Callable[[Client], T]) -> T:
        """Over a connection that lasts for as long as it works: a broken one would wait
        before it finds the next coordinator."""
        try:
            return question(self._lasting_client())
        except LdapSlamError:
            super()._drop_client()
            raise

    def _drop_client(self) -> None:
        """Not by who starts a coordinator, in another thread than who asks."""

    def use_report_relay(self, seed: int, faults: Sequence[str]) -> None:
        """Have the agents' calls go through a relay with these faults; without any,
        directly again. Connections are made anew."""
        if self._report_relay is None and not faults:
            return
        if self._report_relay is not None:
            self._report_relay.close()
            self._report_relay = None
        upstream = self.address
        if faults:
            log = self.folder / "report-relay.log"
            self._report_relay = ReportRelay(self.address, seed, faults, log)
            upstream = self._report_relay.address
        for relay in self.relays.values():
            relay.upstream = upstream
            relay.reset()

    def send_signal(self, key: str, number: signal.Signals) -> None:
        """To a process that may be gone."""
        process = self.processes[key]
        if process.poll() is None:
            process.send_signal(number)

    def kill(self, key: str) -> None:
        """With SIGKILL; it is gone afterwards."""
        self.send_signal(key, signal.SIGCONT)
        self.send_signal(key, signal.SIGKILL)
        self.wait_for_end(key)

    def heal(self, *agents: str) -> None:
        """Whatever was broken works again, agents are idle, spools delivered."""
        for relay in self.relays.values():
            relay.delay_s = 0.0
            relay.mend()
        for key in self.processes:
            self.send_signal(key, signal.SIGCONT)
        begin_s = time.monotonic()

        def are_well() -> bool:
            # it may notice late that the store is another one's
            if self.processes["coordinator"].poll() is not None:
                self.start_coordinator()
            for agent in agents:
                # one that was to leave may take its time
                if self.processes[agent].poll() is not None:
                    self.start_agent(agent)
            known = self.agents()
            waited_ns = (time.monotonic() - begin_s) * 1e9
            return all(
                agent in known
                and known[agent].state == "idle"
                # not the process that was killed a moment ago
                and known[agent].silent_ns < waited_ns
                and not self.undelivered(agent)
                for agent in agents
            )

        self.wait_until(are_well, "idle agents, empty spools", _HEAL_S)

    def close(self) -> None:
        for key in self.processes:
            self.send_signal(key, signal.SIGCONT)
        super()._drop_client()
        super().close()
        if self._report_relay is not None:
            self._report_relay.close()
        for relay in self.relays.values():
            relay.close()
        self.directory.kill()


def load_text(
    uri: str,
    number: int,
    *,
    duration: str = "2s",
    rate: str = "200/s",
    connections: int = 6,
    **fields: Any,
) -> str:
    """An open loop of searches that tell run, connection and order (counting_ldap).

    The number of connections is one that 2 and 3 agents divide: then the numbers modulo
    the number of agents tell the agent.
    """
    load = {"rate": rate, "connections": connections}
    search = {"base": "dc=example,dc=com", "filter": f"(uid={number}.[0:99999999])"}
    stream = {
        "name": "readers",
        "target": "replica",
        "load": load,
        "operations": [{"search": search}],
    }
    run = {"duration": duration, "interval": "200ms", "drain": "1s"}
    job = {"name": "chaos", "targets": {"replica": uri}, "run": run}
    return json.dumps({**job, "streams": [stream], **fields})


@pytest.fixture
def chaos() -> Iterator[ChaosFleet]:
    """Nothing is running in it yet."""
    with closing(ChaosFleet()) as fleet:
        yield fleet
