# SPDX-License-Identifier: Apache-2.0
"""A scene for situations of a run: a fleet that stands ready, a target of each kind,
and what can happen to them while there is load.

    agent a --relay--.
    agent b --relay--+-- coordinator
    agent c (its wall clock can be stepped)
    engines -- the responder of canned answers, slapd, 389-DS, or a Python directory
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from ldapslam.agent._engine import Responder
from ldapslam.cli.outcome import raise_if_never_started
from ldapslam.lab import Server
from ldapslam.reports.model import Summary
from ldapslam.reports.summarise import summarise
from support.fleet import FINAL, FleetOfProcesses, Process
from support.lab import Lab
from support.relay import Relay
from support.rivals import crowded
from support.stepped_clock import with_stepped_clock

#: Of the control groups' first version, where a test may make a group.
_QUOTAS = Path("/sys/fs/cgroup/cpu")


class Scene(FleetOfProcesses):
    """`run_job` begins a run; what follows `mend` may happen meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.relays: dict[str, Relay] = {}
        self.responder = Responder()
        self.server: Server | None = None
        self.lab: Lab | None = None
        self.run_id = ""
        self._is_stepped = self.folder / "stepped"
        self._undo = ExitStack()

    def begin(self) -> None:
        self.prefixes["c"], self._is_stepped = with_stepped_clock(self.folder, 1500)
        self.start("a", "b", "c")

    def start_agent(
        self, name: str, engine: Sequence[str] | None = None, **options: Any
    ) -> Process:
        if name not in self.relays:
            self.relays[name] = Relay(self.address)
        return self._start(
            name,
            role="agent",
            coordinator=self.relays[name].address,
            name=name,
            spool=str(self.folder / "spool" / name),
            engine=engine,
            realtime=True,
            **options,
        )

    def run_job(self, job: dict[str, Any]) -> None:
        """Return when there is load, or the run is over."""
        self.run_id = self.submit(json.dumps(job))
        status = self.wait_for(self.run_id, "running", *FINAL, timeout_s=60)
        if status.state == "running":
            self.wait_for_load(self.run_id)

    def judged(self) -> Summary:
        """Of the run, once it is over. Raises what kept it from starting."""
        status = self.wait_for(self.run_id, *FINAL, timeout_s=120)
        raise_if_never_started(status)
        with self.opened_store() as store:
            # the end is told a moment before it is stored
            self.wait_until(
                lambda: store.run(self.run_id).state in FINAL, "the stored end"
            )
            return summarise(store, self.run_id)

    def mend(self) -> None:
        """Undo what happened, for the next run."""
        self._undo.close()
        for relay in self.relays.values():
            relay.mend()
        if self.processes["coordinator"].poll() is not None:
            self.start_coordinator()
        for name in ("a", "b", "c"):
            if self.processes[name].poll() is not None:
                self.start_agent(name)
        self.wait_for_agents("a", "b", "c", timeout_s=60)

    # -- what may happen --------------------------------------------------------------

    def directory(self) -> psutil.Process:
        assert self.server is not None
        return psutil.Process(self.server.pid)

    def hang(self, for_s: float) -> None:
        """The responder, or the directory, stands still for so long."""
        if self.server is None:
            self.responder.pause()
            time.sleep(for_s)
            self.responder.resume()
        else:
            _stand_still([self.directory()], for_s)

    def die(self) -> None:
        self.responder.stop()

    def restart_directory(self, after_s: float) -> None:
        assert self.lab is not None
        assert self.server is not None
        self.lab.stop(self.server)
        time.sleep(after_s)
        self.lab.start(self.server)

    def stop_generator(self, for_s: float, *agents: str) -> None:
        """All processes of these agents stand still, of a and b if none are named."""
        _stand_still([one for name in agents or "ab" for one in self._all(name)], for_s)

    def kill_engine(self, agent: str) -> None:
        for pid in self.engine_pids(agent):
            psutil.Process(pid).kill()

    def kill_agent(self, agent: str) -> None:
        """With its engine and its fork server, as when its host fails."""
        for process in self._all(agent):
            process.kill()
        self.wait_for_end(agent)

    def restart_coordinator(self) -> None:
        self.end("coordinator", signal.SIGKILL)
        self.start_coordinator()

    def cut(self, agent: str, for_s: float | None = None) -> None:
        """Nothing passes between the agent and its coordinator, for so long or until
        `mend`."""
        self.relays[agent].cut()
        if for_s is not None:
            time.sleep(for_s)
            self.relays[agent].mend()

    def cancel(self) -> None:
        with self.client() as client:
            client.cancel(self.run_id)

    def step_clock(self) -> None:
        """Of agent c, by 1.5 s, until `mend`."""
        self._is_stepped.touch()
        self._undo.callback(self._is_stepped.unlink)

    def crowd(self, agent: str) -> None:
        """The agent's processes get one CPU, and share it with eight others, until
        `mend`."""
        self._undo.enter_context(crowded(self._all(agent), 8))

    def throttle(self, agent: str, percent: int) -> None:
        """A quota of one CPU, for the agent's processes together, until `mend`."""
        if not os.access(_QUOTAS / "cpu.cfs_quota_us", os.W_OK):
            pytest.skip("no control group of the first version can be made here")
        quota = _QUOTAS / f"ldapslam-test-{os.getpid()}"
        quota.mkdir(exist_ok=True)
        self._undo.callback(_lift, quota)
        (quota / "cpu.cfs_quota_us").write_text(str(percent * 1000))
        for process in self._all(agent):
            (quota / "cgroup.procs").write_text(str(process.pid))

    def _all(self, agent: str) -> list[psutil.Process]:
        process = psutil.Process(self.processes[agent].pid)
        return [*process.children(recursive=True), process]

    def close(self) -> None:
        self._undo.close()
        super().close()  # or agents would dial again meanwhile
        for relay in self.relays.values():
            relay.close()


def _stand_still(processes: Sequence[psutil.Process], for_s: float) -> None:
    for process in processes:
        process.suspend()
    time.sleep(for_s)
    for process in processes:
        process.resume()


def _lift(quota: Path) -> None:
    for pid in (quota / "cgroup.procs").read_text().split():
        (_QUOTAS / "cgroup.procs").write_text(pid)
    quota.rmdir()


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with closing(Scene()) as scene:
        scene.begin()
        yield scene
