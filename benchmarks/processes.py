# SPDX-License-Identifier: Apache-2.0
"""The processes that a measurement needs: servers, clients, each on a CPU of its own.

Client and server have a CPU each: else the scheduler's placement decides which of them
pays for waking the other, and the figures jump by half. What a process waits for its
CPU is watched: it shares it with somebody then, and the round does not count.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from bench_jobs import plan_of

from ldapslam.agent import _engine
from ldapslam.agent.engine.setup import (
    add_streams,
    packed_names,
    snapshot_message,
)
from ldapslam.results.histogram import Histogram
from ldapslam.results.window import window_of

Figures = dict[str, float]

#: From the first interval's T0: enough for the workers to be waiting for it.
_START_AHEAD_NS = 50_000_000
_ENGINE_COST = Path(__file__).with_name("engine_cost.py")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


# -- servers ---------------------------------------------------------------------------


@dataclass
class Server:
    """A server process; it answers a line on its stdin with its counts."""

    uri: str
    process: subprocess.Popen[str]
    #: Of its authority, with TLS.
    ca_file: Path | None = None
    #: Of the time that it served, once it has ended.
    waited_share: float = 0.0

    @property
    def address(self) -> str:
        """A port of 127.0.0.1, or the path of a Unix socket."""
        scheme, _, address = self.uri.partition("://")
        return unquote(address) if scheme == "ldapi" else address.rpartition(":")[2]

    def searches(self) -> int:
        """How many it has answered."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())


@contextlib.contextmanager
def server_process(command: Sequence[str], *, pinned: bool) -> Iterator[Server]:
    """A server in a process of its own, which prints its URI first. Pinned: it has the
    first CPU, and what starts meanwhile has the last."""
    cpus = sorted(os.sched_getaffinity(0))
    if pinned:
        os.sched_setaffinity(0, cpus[:1])
    try:
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            if pinned:
                os.sched_setaffinity(0, cpus[-1:])
            try:
                server = Server(process.stdout.readline().strip(), process)
                start_ns, waited_ns = time.monotonic_ns(), run_queue_ns(process.pid)
                yield server
                waited_ns = run_queue_ns(process.pid) - waited_ns
                server.waited_share = waited_ns / (time.monotonic_ns() - start_ns)
            finally:
                process.stdin.close()
    finally:
        os.sched_setaffinity(0, cpus)


def responder(
    *, pinned: bool = True, socket_path: Path | None = None
) -> contextlib.AbstractContextManager[Server]:
    """The engine's own canned server."""
    command = [sys.executable, str(_ENGINE_COST), "--child=responder"]
    command += [] if socket_path is None else [str(socket_path)]
    return server_process(command, pinned=pinned)


def run_queue_ns(pid: int) -> int:
    """What the process's threads have waited for a CPU."""
    files = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(file.read_text().split()[1]) for file in files)


def responder_child(socket_path: str | None) -> None:
    raise_descriptor_limit()
    server = _engine.Responder(socket_path=socket_path)
    server.start()
    print(server.uri, flush=True)
    for _ in sys.stdin:
        print(server.counts()["search"], flush=True)
    server.stop()


# -- clients ---------------------------------------------------------------------------


def cost(operations: int, cpu_ns: int, wall_ns: int, waited_share: float) -> Figures:
    return {
        "operations": operations,
        "cpu_us_per_op": cpu_ns / operations / 1e3,
        "per_s": operations / wall_ns * 1e9,
        "waited_share": waited_share,
    }


def watch(
    command: Sequence[str], server: Server, warm_up_s: float, run_s: float
) -> Figures:
    """What the searches of a client cost that somebody else wrote: counted by the
    server, in a window after its warm-up; its CPU time is that of all its threads."""
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            _wait_for_searches(process, server)
            time.sleep(warm_up_s)
            start = _position(process.pid, server)
            time.sleep(run_s)
            end = _position(process.pid, server)
        finally:
            process.kill()
    operations, cpu_ns, wall_ns = (b - a for a, b in zip(start, end, strict=True))
    if operations == 0:
        raise RuntimeError(f"{command[0]} has stopped searching")
    return cost(operations, cpu_ns, wall_ns, 0.0)


def _wait_for_searches(process: subprocess.Popen[str], server: Server) -> None:
    deadline = time.monotonic() + 30
    while server.searches() < 100:
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            assert process.stderr is not None
            said = process.stderr.read().strip().splitlines()[-1:]
            raise RuntimeError(f"{process.args!r} sends no searches: {said}")
        time.sleep(0.05)


def _position(pid: int, server: Server) -> tuple[int, int, int]:
    """Searches, CPU and wall time in ns, as near to each other as can be."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    cpu_ns = (int(fields[11]) + int(fields[12])) * 1_000_000_000 // _TICKS_PER_S
    return server.searches(), cpu_ns, time.monotonic_ns()


def child(role: str, *arguments: str) -> Any:
    """Runs this benchmark again in a process of its own; its JSON."""
    output = subprocess.run(
        [sys.executable, str(_ENGINE_COST), f"--child={role}", *arguments],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=120,
    ).stdout
    return json.loads(output)


def engine_child(job_text: str, realtime: str) -> None:
    """One run with one worker; figures of the intervals within the measure phase."""
    raise_descriptor_limit()
    plan = plan_of(job_text)
    engine: Any = _engine.Engine(plan, workers=1, realtime=bool(realtime))
    add_streams(engine, plan)
    engine.prepare()
    engine.start(time.monotonic_ns() + _START_AHEAD_NS)
    requests = failed = cpu_ns = wall_ns = waited_ns = 0
    send_lag = Histogram()
    snapshot: dict[str, Any] = {"final": False}
    index = 0
    while not snapshot["final"]:
        snapshot = engine.snapshot(index, 30_000_000_000) or {"final": True}
        index += 1
        if snapshot["final"] or snapshot["start_ns"] < plan.measure_start_ns:
            continue
        wall_ns += snapshot["end_ns"] - snapshot["start_ns"]
        message = snapshot_message(snapshot, packed_names(plan))
        window = window_of((index,), [message])
        cpu_ns += sum(window.workers["cpu_ns"].tolist())
        waited_ns += sum(window.workers["run_queue_ns"].tolist())
        for rows in window.operations.values():
            requests += rows.count("requests")
            failed += rows.count("failed") + rows.count("timed_out")
            for (metric, _), packed in rows.histograms.items():
                if metric == "send_lag":
                    send_lag.add_block(packed.read())
    facts = engine.facts()
    engine.close()
    if failed:
        raise RuntimeError(f"{failed} of {requests} operations failed")
    percentiles = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99_9": 99.9}
    result = {
        "requests": requests,
        "cpu_ns": cpu_ns,
        "wall_ns": wall_ns,
        "waited_ns": waited_ns,
        "realtime": facts["realtime"],
        "send_lag_us": {
            name: (send_lag.percentile(p) or 0.0) / 1e3
            for name, p in percentiles.items()
        },
    }
    print(json.dumps(result))


def run_engine(job_text: str) -> Figures:
    """Requests are what is counted: an abandon has no completion."""
    result = child("engine", job_text, "")
    waited = result["waited_ns"] / result["wall_ns"]
    return cost(result["requests"], result["cpu_ns"], result["wall_ns"], waited)


def raise_descriptor_limit() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
