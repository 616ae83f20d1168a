# SPDX-License-Identifier: Apache-2.0
"""A saturated client is always called INVALID, one that is not never: fifty runs each.

Saturated: asked for ten times what a client can send, or sharing its CPU with eight
busy processes while the server has one for itself. Not saturated: a tenth of what it
can do, or less.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from ldapslam.agent._engine import Responder
from support.command_line import ldapslam

pytestmark = [pytest.mark.accuracy, pytest.mark.long]

RUNS = 50
_JOB = """\
job: saturation
targets: {{server: "{uri}"}}
run: {{duration: 1s, interval: 100ms, drain: 2s}}
seed: {seed}
streams:
  - name: load
    target: server
    load: {load}
    operations:
      - search: {{base: "dc=example,dc=com", filter: "(uid=user.[0-999])"}}
"""

FASTEST = "{closed: {clients: 64}}"
BEYOND = "{open: {rate: 2000k/s, connections: 64, max_backlog: 10000}}"
CALM_CLOSED = "{closed: {clients: 8}}"
CALM_OPEN = "{open: {rate: 500/s, arrivals: poisson, connections: 32}}"


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Processes that take all the CPU they get, until their standard input ends."""
    program = (
        "import os, threading\n"
        "threading.Thread(target=lambda: (os.read(0, 1), os._exit(0))).start()\n"
        "while True: pass"
    )
    with ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(
                subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE)
            )
        yield


@contextmanager
def on_cpu(cpus: set[int] | None) -> Iterator[None]:
    """What is started meanwhile by this thread stays on these CPUs."""
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, own if cpus is None else cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, own)


def verdict_of(
    folder: Path,
    load: str,
    delay_ns: int,
    seed: int,
    cpus: tuple[set[int] | None, set[int] | None] = (None, None),
) -> tuple[str, Any]:
    """The verdict of one run, and the rules that it broke; `cpus` are the client's and
    the server's."""
    server = Responder(delays=[(1, delay_ns)] if delay_ns else [])
    with on_cpu(cpus[1]):
        server.start()
    job = folder / "job.yaml"
    job.write_text(_JOB.format(uri=server.uri, load=load, seed=seed))
    out = folder / f"run{seed}"
    with on_cpu(cpus[0]):
        ended = ldapslam("run", job, "--json", "--out", out, cwd=folder)
    assert ended.stdout, ended.stderr
    result = json.loads(ended.stdout)
    broken = [
        (rule["name"], rule.get("value"))
        for rule in result["rules"]
        if not rule["passed"]
    ]
    return result["verdict"], broken


def test_saturated_client_is_always_invalid(tmp_path: Path) -> None:
    first, *others = sorted(os.sched_getaffinity(0))
    called_good = []
    for seed in range(RUNS):
        is_starved = bool(others) and seed % 2 == 1
        if is_starved:
            with on_cpu({first}), busy_processes(8):
                pair = {first}, set(others)
                verdict, broken = verdict_of(tmp_path, FASTEST, 0, seed, pair)
        else:
            verdict, broken = verdict_of(tmp_path, BEYOND, 0, seed)
        names = {name for name, _ in broken}
        print(seed, "starved" if is_starved else "beyond", verdict, sorted(names))
        cause = {"generator_saturated", "sent_share", "dropped_arrivals", "send_lag"}
        if verdict != "INVALID" or not names & cause:
            called_good.append((seed, verdict, broken))
    assert called_good == []


def test_client_that_is_not_saturated_is_never_invalid(tmp_path: Path) -> None:
    called_bad = []
    for seed in range(RUNS):
        load, delay_ns = (
            (CALM_OPEN, 1_000_000) if seed % 2 else (CALM_CLOSED, 5_000_000)
        )
        verdict, broken = verdict_of(tmp_path, load, delay_ns, seed)
        if verdict != "PASS":
            called_bad.append((seed, verdict, broken))
    print(*called_bad, sep="\n")
    assert called_bad == []
