# SPDX-License-Identifier: Apache-2.0
"""What a fleet costs its coordinator: agents in name, the real protocol, an interval of
1 s of six operations.

python benchmarks/fleet.py [--agents 10 100 1000] [--seconds 40] [--store URL] [--plain]

Over TCP with certificates, or with --plain over a Unix socket without. The coordinator
has one CPU for itself, the agents the others. CPU is that of its processes, from the
first interval to the commit of the last; `ready` is how long before T0 the last
agent had its order, and `committed` the time from an interval's end to the answer that
it is in the store. The judge is the process that finds the verdict, and its helpers.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil

# the agents are the tests'
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from ldapslam.cli.client import Client, job_request
from ldapslam.proto import common_pb2 as pb
from ldapslam.reports.judge import COMMAND
from ldapslam.results.packing import pack
from ldapslam.transport.messages import MOST_REPORTS
from ldapslam.transport.pki.authority import Authority
from ldapslam.transport.pki.certificate import Role
from support.endurance import resident_bytes
from support.histograms import packed_of
from support.rows import OperationRow, StreamRow, WorkerRow, snapshot_of
from support.wire_agent import WireAgent

NS_PER_S = 1_000_000_000
_OPERATIONS = ("search", "compare", "modify", "bind", "add", "delete")
_METRICS = (
    "response_time",
    "service_time",
    "send_lag",
    "receive_lag",
)
#: Reports drawn for an interval, and agents of one process.
VARIANTS = 8
_PER_PROCESS = 250
#: Requests of an operation in an interval: some 700 buckets, 28 kB in all unpacked.
_REQUESTS = 320


def job_text(agents: int, seconds: int) -> str:
    base = "dc=example,dc=com"
    dn = f"uid=u[0-9],{base}"
    operations: dict[str, Any] = {
        "search": {"base": base, "filter": "(uid=u[0-9])"},
        "compare": {"dn": dn, "attribute": "sn", "value": "x"},
        "modify": {"dn": dn, "replace": {"description": "[random:9]"}},
        "bind": {"dn": dn, "password": "x"},
        "add": {"dn": f"uid=n[0-9],{base}", "entry": {"objectClass": "account"}},
        "delete": {"dn": dn},
    }
    return json.dumps(
        {
            "name": "fleet",
            "targets": {"replica": "ldap://127.0.0.1:1"},
            "agents": {"count": agents, "wait": "2m"},
            "run": {"duration": f"{seconds}s", "interval": "1s"},
            "streams": [
                {
                    "name": "mix",
                    "target": "replica",
                    "load": {"clients": 4 * agents},
                    "operations": [{name: operations[name]} for name in _OPERATIONS],
                }
            ],
        }
    )


class Reports:
    """What agents say of an interval: the same for every eighth of them."""

    def __init__(self) -> None:
        rng = np.random.default_rng(20_261_123)
        self._drawn = [
            [_operation(rng, name) for name in _OPERATIONS] for _ in range(VARIANTS)
        ]

    def of(self, index: int, variant: int) -> bytes:
        end_ns = (index + 1) * NS_PER_S
        snapshot = snapshot_of(
            index=index,
            phase="measure",
            start_ns=index * NS_PER_S,
            end_ns=end_ns,
            operations=self._drawn[(index + variant) % VARIANTS],
            streams=[StreamRow(stream="mix", in_flight=4, last_done_ns=end_ns)],
            workers=[WorkerRow(model="closed", wall_ns=NS_PER_S, busy_ns=7)],
            host=pb.HostInterval(cpu_utilisation=0.3, steal_share=0.0),
        )
        return pack(snapshot)

    @staticmethod
    def drain(index: int) -> bytes:
        start_ns = index * NS_PER_S
        return pack(
            snapshot_of(
                index=index,
                phase="drain",
                start_ns=start_ns,
                end_ns=start_ns + 2_000_000,
                final=True,
            )
        )


def _operation(rng: np.random.Generator, name: str) -> OperationRow:
    medians_ns = (900_000, 880_000, 20_000, 30_000)
    counts: dict[str, Any] = dict.fromkeys(
        ("scheduled", "sent", "completed", "succeeded", "requests"), _REQUESTS
    )
    return OperationRow(
        stream="mix",
        operation=name,
        measured=True,
        result_codes={0: _REQUESTS},
        histograms={
            (metric, "succeeded"): packed_of(
                rng.lognormal(np.log(ns), 0.6, _REQUESTS).astype(np.int64)
            )
            for metric, ns in zip(_METRICS, medians_ns, strict=True)
        },
        **counts,
    )


def serve_agents(*arguments: Any) -> None:
    """A process of agents; tells when all are there, and at the end what they saw."""
    asyncio.run(_serve_agents(*arguments))


async def _serve_agents(
    address: str,
    tls: Sequence[Path | None],
    names: Sequence[str],
    seconds: int,
    spread_s: float,
    pipe: Any,
) -> None:
    reports = Reports()
    agents = [
        WireAgent(*one) for one in zip(names, [address] * len(names), tls, strict=True)
    ]
    places = np.arange(len(agents)) / len(agents)
    tasks = []
    for agent, delay in zip(agents, places, strict=True):
        await agent.register()
        # at once: an agent that is silent for 4 s is lost
        tasks.append(asyncio.create_task(agent.follow()))
        tasks.append(asyncio.create_task(_beat(agent, delay)))
    pipe.send("there")
    run_id = await asyncio.to_thread(pipe.recv)
    await asyncio.gather(*(agent.begin() for agent in agents))
    took_s: list[float] = []
    delays = spread_s * places

    async def report(agent: WireAgent, place: int) -> None:
        index = 0
        while index < seconds:
            end_ns = agent.t0_ns + (index + 1) * NS_PER_S
            late_s = (time.monotonic_ns() - end_ns) / 1e9 - delays[place]
            if late_s < 0:
                await asyncio.sleep(-late_s)
            # what waits goes together
            count = min(1 + int(max(0, late_s)), MOST_REPORTS, seconds - index)
            ended = range(index, index + count)
            variant = place % VARIANTS
            await agent.report(run_id, *(packed[one, variant] for one in ended))
            now_ns = time.monotonic_ns()
            took_s.extend((now_ns - end_ns) / 1e9 - one for one in range(count))
            index += count
        await agent.report(run_id, reports.drain(seconds))
        await agent.finish(run_id)

    packed = {
        (index, variant): reports.of(index, variant)
        for index in range(seconds)
        for variant in range(VARIANTS)
    }
    await asyncio.gather(*(report(agent, n) for n, agent in enumerate(agents)))
    leads_s = [(agent.t0_ns - agent.told_ns) / 1e9 for agent in agents]
    pipe.send((took_s, min(leads_s)))
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for agent in agents:
        await agent.channel.close()


async def _beat(agent: WireAgent, delay_s: float) -> None:
    await asyncio.sleep(delay_s)
    await agent.beat()


def cpu_s(pid: int) -> float:
    process = psutil.Process(pid)
    each = [one.cpu_times() for one in (process, *process.children(recursive=True))]
    # with the children that have ended
    return sum(sum(times[:4]) for times in each)


def measure(
    agents: int, seconds: int, store: str | None, *, plain: bool
) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="slam-fleet-") as folder:
        file = Path(folder) / "results.sqlite"
        names = [f"agent{number:04d}" for number in range(agents)]
        command = [sys.executable, "-m", "ldapslam.cli.main", "coordinator"]
        command += ["--store", store or str(file)]
        tls: list[Path | None] = [None] * agents
        operator: Path | None = None
        if plain:
            address = f"unix:{folder}/coordinator"
        else:
            address = "127.0.0.1:0"
            pki = Authority.create(Path(folder) / "pki", "fleet")
            pki.issue("coordinator", Role.COORDINATOR, ["127.0.0.1"])
            operator = pki.issue("operator", Role.OPERATOR)
            command += ["--pki", str(pki.folder)]
            tls = [pki.issue(name, Role.AGENT) for name in names]
        command += ["--listen", address]
        log = Path(folder) / "log"
        with log.open("w") as errors:
            os.environ.pop("LDAPSLAM_TLS", None)  # of the operator before
            coordinator = subprocess.Popen(command, stderr=errors)
        try:
            os.sched_setaffinity(coordinator.pid, {0})
            address = _address_in(log)
            if operator is not None:
                os.environ["LDAPSLAM_TLS"] = str(operator)
            row, run_id = _measure(names, tls, seconds, address, coordinator.pid, file)
        finally:
            coordinator.terminate()
            coordinator.wait()
        return row | _judge(store or str(file), run_id)


def _judge(store: str, run_id: str) -> dict[str, float]:
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    begun_s, most = time.monotonic(), 0
    judge = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert judge.stdin is not None
    question = {"store": store, "run_id": run_id, "limit_s": "600", "looks_only": ""}
    with judge.stdin as pipe:
        pipe.write(json.dumps(question).encode())
    while judge.poll() is None:
        children = Path(f"/proc/{judge.pid}/task/{judge.pid}/children")
        with contextlib.suppress(OSError, AssertionError):  # one has ended
            pids = [judge.pid, *map(int, children.read_text().split())]
            most = max(most, sum(map(resident_bytes, pids)))
        time.sleep(0.05)
    return {"judge s": time.monotonic() - begun_s, "judge RSS MB": most / 1e6}


def _measure(
    names: Sequence[str],
    tls: Sequence[Path | None],
    seconds: int,
    address: str,
    pid: int,
    file: Path,
) -> tuple[dict[str, float], str]:
    others = os.sched_getaffinity(0) - {0} or {0}
    os.sched_setaffinity(0, others)
    agents = len(names)
    # as agents do
    spread_s = min(0.001 * agents, 0.5)
    context = multiprocessing.get_context("spawn")
    processes, pipes = [], []
    for start in range(0, agents, _PER_PROCESS):
        ours, theirs = context.Pipe()
        chosen = slice(start, start + _PER_PROCESS)
        arguments = (address, tls[chosen], names[chosen], seconds, spread_s, theirs)
        process = context.Process(target=serve_agents, args=arguments)
        process.start()
        processes.append(process)
        pipes.append(ours)
    for pipe in pipes:
        assert pipe.recv() == "there"
    with Client(address) as client:
        text = job_text(agents, seconds).encode()
        run_id = client.submit(job_request(text, job_file="job.yaml"))
        for pipe in pipes:
            pipe.send(run_id)
        before_s, begun_s, most = cpu_s(pid), time.monotonic(), 0
        while not all(pipe.poll(0) for pipe in pipes):
            most = max(most, resident_bytes(pid))
            time.sleep(0.2)
        used_s, lasted_s = cpu_s(pid) - before_s, time.monotonic() - begun_s
        found = [pipe.recv() for pipe in pipes]
        state = client.run(run_id).state
    for process in processes:
        process.join()
    took_s = np.concatenate([took for took, _ in found])
    row = {
        "agents": agents,
        "finished": float(state == "finished"),
        "CPU ms per agent-interval": 1000 * used_s / (agents * seconds),
        "core": used_s / lasted_s,
        "committed p50 ms": 1000 * float(np.percentile(took_s, 50)),
        "committed p99 ms": 1000 * float(np.percentile(took_s, 99)),
        "committed max ms": 1000 * float(took_s.max()),
        "ready s before T0": min(lead for _, lead in found),
        "RSS MB": most / 1e6,
        "store kB per agent-interval": (
            file.stat().st_size / 1000 / (agents * seconds) if file.exists() else 0.0
        ),
    }
    return row, run_id


def _address_in(log: Path) -> str:
    until_s = time.monotonic() + 60
    while not (
        found := re.search("^coordinator on (.*), store", log.read_text(), re.M)
    ):
        if time.monotonic() > until_s:
            raise SystemExit(f"the coordinator did not start: {log.read_text()}")
        time.sleep(0.05)
    return found[1]


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--agents", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--seconds", type=int, default=40)
    parser.add_argument("--store", help="URL of an empty store; else a file")
    parser.add_argument("--plain", action="store_true", help="no certificates")
    chosen = parser.parse_args()
    rows = [
        measure(one, chosen.seconds, chosen.store, plain=chosen.plain)
        for one in chosen.agents
    ]
    for name in rows[0]:
        print(f"{name:<30}", *(f"{row[name]:>10,.2f}" for row in rows))


if __name__ == "__main__":
    main()
