# SPDX-License-Identifier: Apache-2.0
"""A coordinator and agents on this host, for the length of one command.

They run the commands of a fleet's machines, as forks of this process, which has
imported what they need, over a Unix socket in a temporary folder. They are in sessions
of their own, so that Ctrl-C reaches only this process, and get SIGTERM from the kernel
when it is killed.
"""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from ldapslam.agent.ledgers.folder import FOLDER as LEDGERS
from ldapslam.base.errors import FleetError
from ldapslam.base.process import Fork, has_threads
from ldapslam.cli.client import Client
from ldapslam.cli.measure.fork import fork_command
from ldapslam.cli.options import SOCKET_NAME
from ldapslam.cli.scratch import scratch_folder
from ldapslam.jobs.model import Agents

#: Folder of the agents' spools within that of the results.
SPOOLS = "spool"

_START_TIMEOUT_S = 30.0
# Longer than a coordinator drains (60 s) and an agent (its job's grace, 20 s on top,
# and 15 s to deliver): only what hangs is killed, and a run's final state is written.
_END_GRACE_S = 75.0
_PROBE_INTERVAL_S = 0.01
_LOG_LINES = 8


class LocalFleet:
    """The children and the address of their coordinator."""

    def __init__(self, address: str, logs: Path) -> None:
        self.address = address
        self.logs = logs
        self._children: list[tuple[str, Fork]] = []

    def start(self, name: str, arguments: Sequence[str]) -> None:
        """Start `ldapslam ARGUMENTS…` with its output in logs/NAME.log; FleetError once
        this process has threads, as gRPC starts some."""
        if has_threads():
            raise FleetError(
                "a local fleet is forked, and this process has threads already",
                hint="a job type or a debugger that was imported has started them; "
                "start `ldapslam coordinator` and `ldapslam agent` by themselves",
            )
        with (self.logs / f"{name}.log").open("ab") as log:
            self._children.append((name, fork_command(arguments, log, log)))

    def wait_for_coordinator(self) -> None:
        """Return when the coordinator's socket takes connections."""
        path = self.address.removeprefix("unix:")

        def missing() -> str:
            with socket.socket(socket.AF_UNIX) as probe:
                error = probe.connect_ex(path)
            return os.strerror(error) if error else ""

        self._wait(missing)

    def wait_for_agents(self, count: int) -> None:
        """Return when `count` agents are registered."""
        with Client(self.address) as client:

            def missing() -> str:
                self.check()
                try:
                    found = len(client.agents())
                except FleetError as error:
                    return str(error)
                return f"{found} of {count} agents registered" * (found < count)

            self._wait(missing)

    def _wait(self, missing: Callable[[], str]) -> None:
        """Return when nothing is missing."""
        deadline_s = time.monotonic() + _START_TIMEOUT_S
        while reason := missing():
            self.check()
            if time.monotonic() > deadline_s:
                raise FleetError(
                    f"the local fleet was not ready within {_START_TIMEOUT_S:g} s: "
                    f"{reason}",
                    hint=f"see {self.logs}",
                )
            time.sleep(_PROBE_INTERVAL_S)

    def check(self) -> None:
        """Raise when a child has ended."""
        for name, child in self._children:
            status = child.poll()
            if status is not None:
                tail = _last_lines(self.logs / f"{name}.log")
                raise FleetError(
                    f"the local {name} ended with status {status}: {tail}",
                    hint=f"see {self.logs / name}.log",
                )

    def stop(self) -> None:
        """End the agents, then the coordinator, which has heard their last by then."""
        children = [child for _, child in self._children]
        _end(children[1:])
        _end(children[:1])


def agent_names(agents: Agents, count: int | None) -> Sequence[str]:
    """Names of the local agents that satisfy a job's `agents`."""
    if agents.names and count is None:
        return agents.names
    return [f"local-{number + 1}" for number in range(count or agents.count or 1)]


@contextlib.contextmanager
def local_fleet(
    names: Sequence[str],
    labels: Mapping[str, str],
    store: Path,
    folder: Path,
    outputs: Sequence[str] = (),
) -> Iterator[LocalFleet]:
    """A coordinator that writes to `store` and an agent of each name, all ready. Logs
    and spools are in `folder`; spools are removed at an orderly end. `outputs` are
    options of the coordinator for its figures."""
    logs, spools = folder / "logs", folder / SPOOLS
    logs.mkdir(parents=True, exist_ok=True)
    with scratch_folder() as scratch, _socket_named(scratch / "coordinator", folder):
        address = f"unix:{scratch}/coordinator"
        fleet = LocalFleet(address, logs)
        try:
            _import_coordinator()
            where = ["--listen", address, "--store", str(store)]
            where += ["--scratch", str(scratch)]
            fleet.start("coordinator", ["coordinator", *where, *outputs])
            _import_agent()  # while the coordinator starts
            # An agent that dials too early waits before it dials again.
            fleet.wait_for_coordinator()
            for name in names:
                arguments = ["--coordinator", address, "--name", name]
                arguments += ["--spool", str(spools / name)]
                # the user who names the targets is this agent's operator, too
                for kind in ("target", "log", "import", "secret", "class"):
                    arguments += [f"--allow-{kind}", "any"]
                for key, value in labels.items():
                    arguments += ["--label", f"{key}={value}"]
                fleet.start(name, ["agent", *arguments])
            _import_reports()  # while the agents start
            fleet.wait_for_agents(len(names))
            yield fleet
        finally:
            fleet.stop()
            _remove(spools)


@contextlib.contextmanager
def _socket_named(path: Path, folder: Path) -> Iterator[None]:
    """Within, others find the coordinator of the run in `folder`."""
    link = folder / SOCKET_NAME
    link.unlink(missing_ok=True)  # of a run that was killed
    link.symlink_to(path)
    try:
        yield
    finally:
        link.unlink(missing_ok=True)


def _import_coordinator() -> None:
    """What the coordinator needs, and this process for the verdict."""
    import numpy  # noqa: F401
    import sqlalchemy.dialects.sqlite  # noqa: F401

    import ldapslam.cli.serve.serve
    import ldapslam.coordinator.server  # noqa: F401

    gc.freeze()


def _import_agent() -> None:
    """What each agent and its engine's process would import for themselves."""
    import ldapslam.agent.client
    import ldapslam.agent.engine.process  # noqa: F401

    gc.freeze()


def _import_reports() -> None:
    """What this process needs for the verdict, which then comes sooner."""
    import ldapslam.reports.formats.render
    import ldapslam.reports.summarise  # noqa: F401


def _remove(spools: Path) -> None:
    """But not the ledgers of entries that were not removed."""
    if not any(spools.glob(f"*/{LEDGERS}/*")):
        shutil.rmtree(spools, ignore_errors=True)


def _end(children: Sequence[Fork]) -> None:
    """Ask all of them to end; kill those that have not in time."""
    for child in children:
        child.send_signal(signal.SIGTERM)
    deadline_s = time.monotonic() + _END_GRACE_S
    for child in children:
        if child.wait(max(0.0, deadline_s - time.monotonic())) is None:
            child.send_signal(signal.SIGKILL)
            child.wait()


def _last_lines(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    return " | ".join(lines[-_LOG_LINES:]) or "it said nothing"
