# SPDX-License-Identifier: Apache-2.0
"""A saturated client is always called INVALID, one that is not never, and a run against
an overloaded server always FAIL: fifty runs each.

Saturated: asked for ten times what a client can send, or sharing its CPU with eight
busy processes while the server waits for requests. Not saturated: a tenth of what it
can do, or less, and half of what the server can. Whether the server waited is seen on
its own thread: where it did not, because others used its CPU, it was the server that
limited the run, which is repeated.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from ldapslam.agent._engine import Responder
from support.command_line import TIMEOUT_S, Running
from support.priority import FIRST, set_session_priority
from support.rivals import Rivals, on_cpu

pytestmark = [pytest.mark.accuracy, pytest.mark.long]

RUNS = 50
_DURATION_S = 2
#: Of one CPU; a server that wanted less waited for the client.
_SERVER_SHARE_MAX = 0.75
#: About one in a hundred of what the machine has meanwhile.
_STOLEN_S = 0.05
#: A starved client's session, against the rivals' FIRST: a tenth of the CPU.
_STARVED = -10
_JOB = """\
name: saturation
targets: {{server: "{uri}"}}
run: {{duration: {duration}s, interval: 200ms, drain: 2s}}
seed: 1
streams:
  - name: load
    target: server
    load: {load}
    operations:
      - search: {{base: "dc=example,dc=com", filter: "(uid=user.[0-999])"}}
"""

FASTEST = "{clients: 64}"
BEYOND = "{rate: 2000k/s, connections: 64, max_backlog: 10000}"
CALM_CLOSED = "{clients: 8}"
#: Eight connections that take one request of 10 ms at a time: half of what they carry,
#: and twice as much.
CALM_OPEN = "{rate: 400/s, arrivals: poisson, connections: 8, in_flight: 1}"
OVERLOAD = "{rate: 1600/s, arrivals: poisson, connections: 8, in_flight: 1}"


@dataclass(frozen=True)
class Ended:
    verdict: str
    #: Name and observed value of the rules that were broken.
    broken: list[tuple[str, object]]
    #: Share of one CPU that the server's thread wanted while there was load.
    server_share: float
    #: What the hypervisor took meanwhile of the machine's CPUs.
    stolen_s: float

    @property
    def names(self) -> set[str]:
        return {name for name, _ in self.broken}


def started(server: Responder, cpus: set[int] | None) -> Callable[[], int]:
    """Start it; how long its threads have been on a CPU or ready for one, in ns."""
    before = set(os.listdir("/proc/self/task"))
    with on_cpu(cpus):
        server.start()
    threads = set(os.listdir("/proc/self/task")) - before
    assert threads

    def runnable_ns() -> int:
        texts = [
            Path(f"/proc/self/task/{one}/schedstat").read_text() for one in threads
        ]
        return sum(int(word) for text in texts for word in text.split()[:2])

    return runnable_ns


def run_once(
    folder: Path, load: str, delay_ns: int = 0, *, is_starved: bool = False
) -> Ended:
    """One run in a new folder. The rivals of a starved client begin with its load."""
    folder.mkdir()
    first, *others = sorted(os.sched_getaffinity(0))
    clients_cpus, servers_cpus = ({first}, set(others)) if is_starved else (None, None)
    server = Responder(delays=[(1, delay_ns)] if delay_ns else [])
    runnable_ns = started(server, servers_cpus)
    job = folder / "job.yaml"
    job.write_text(_JOB.format(uri=server.uri, load=load, duration=_DURATION_S))
    with ExitStack() as stack:
        with on_cpu(clients_cpus):
            run = stack.enter_context(Running("run", job, "--json", cwd=folder))
            if clients_cpus:  # it is forked from a process that has all CPUs
                os.sched_setaffinity(run.process.pid, clients_cpus)
            rivals = stack.enter_context(Rivals(8 if is_starved else 0))
        wait_for_load(server, run, _STARVED if is_starved else FIRST)
        rivals.go()
        before_ns, began_ns = runnable_ns(), time.monotonic_ns()
        before_s = psutil.cpu_times().steal
        time.sleep(0.9 * _DURATION_S)
        server_ns, wall_ns = runnable_ns() - before_ns, time.monotonic_ns() - began_ns
        time.sleep(0.2 * _DURATION_S)
        stolen_s = psutil.cpu_times().steal - before_s
        rivals.end()
        run.wait()
    assert run.stdout, run.stderr
    result = json.loads(run.stdout)
    broken = [
        (rule["name"], rule["observed"])
        for rule in result["rules"]
        if not rule["passed"]
    ]
    return Ended(result["verdict"], broken, server_ns / wall_ns, stolen_s)


def wait_for_load(server: Responder, run: Running, nice: int) -> None:
    """Meanwhile the command's own sessions get their priority."""
    command = psutil.Process(run.process.pid)
    own = os.getsid(0)
    deadline_s = time.monotonic() + TIMEOUT_S
    while server.counts()["search"] < 10:
        assert run.process.poll() is None, run.stderr
        assert time.monotonic() < deadline_s, run.stderr
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            for process in (command, *command.children(recursive=True)):
                if os.getsid(process.pid) != own:
                    set_session_priority(process.pid, nice)
        time.sleep(0.01)


def starved(folder: Path) -> Ended:
    """A run whose client shared a CPU while the server waited for it."""
    tried = []
    for attempt in range(10):
        one = run_once(folder / str(attempt), FASTEST, is_starved=True)
        if one.server_share <= _SERVER_SHARE_MAX:
            return one
        tried.append(one.server_share)
    pytest.fail(f"the server had no CPU of its own; it wanted {tried} of one")


def test_saturated_client_is_always_invalid(tmp_path: Path) -> None:
    can_starve = len(os.sched_getaffinity(0)) > 1
    cause = {"generator_disturbed", "loop_share", "plan_followed", "send_lag"}
    called_good = []
    for number in range(RUNS):
        folder = tmp_path / str(number)
        folder.mkdir()
        is_starved = can_starve and number % 2 == 1
        one = starved(folder) if is_starved else run_once(folder / "0", BEYOND)
        print(number, "starved" if is_starved else "beyond", one, flush=True)
        if one.verdict != "INVALID" or not one.names & cause:
            called_good.append((number, one))
    assert called_good == []


def test_client_that_is_not_saturated_is_never_invalid(tmp_path: Path) -> None:
    """But for one whose CPUs the hypervisor takes: that is repeated."""
    called_bad, stolen = [], 0
    for number in range(RUNS):
        load, delay_ns = (
            (CALM_OPEN, 10_000_000) if number % 2 else (CALM_CLOSED, 5_000_000)
        )
        one = run_once(tmp_path / str(number), load, delay_ns)
        while one.verdict == "INVALID" and one.stolen_s > _STOLEN_S:
            stolen += 1
            assert stolen <= RUNS, "this machine does not have its CPUs to itself"
            one = run_once(tmp_path / f"{number}-{stolen}", load, delay_ns)
        print(number, one, flush=True)
        if one.verdict != "PASS":
            called_bad.append((number, one))
    assert called_bad == []


def test_overloaded_server_always_fails(tmp_path: Path) -> None:
    called_else = []
    for number in range(RUNS):
        one = run_once(tmp_path / str(number), OVERLOAD, 10_000_000)
        print(number, one, flush=True)
        if one.verdict != "FAIL":
            called_else.append((number, one))
    assert called_else == []
