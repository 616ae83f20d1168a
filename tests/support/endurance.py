# SPDX-License-Identifier: Apache-2.0
"""A long run in compressed form: four agents' reports through a real coordinator.

The coordinator is a process with its store, the reports come over gRPC, in messages
that each wait for the answer to the last, as agents do it; only that nobody
waits for the end of an interval. What the agents say is drawn beforehand: several
operations with distributions of a busy directory, slow at night, with some intervals
that stand out.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ldapslam.proto import common_pb2
from ldapslam.reports.formats.render import render
from ldapslam.reports.model import Summary
from ldapslam.reports.summarise import summarise
from ldapslam.results.packing import pack
from ldapslam.results.store import Store
from ldapslam.transport.messages import MOST_REPORTS
from support.fleet import FleetOfProcesses
from support.histograms import packed_of
from support.rows import OperationRow, StreamRow, WorkerRow, snapshot_of
from support.store import changed
from support.wire_agent import WireAgent

NS_PER_S = 1_000_000_000
AGENTS = ("load1", "load2", "load3", "load4")
WARM_UP = 60
#: Stream -> operation -> (requests of an agent in an interval, median in ns).
OPERATIONS = {
    "readers": {"search": (300, 280_000), "compare": (100, 150_000)},
    "writers": {"modify": (40, 1_900_000), "bind": (60, 700_000)},
}
#: Snapshots drawn for each operation and kind of interval.
_VARIANTS = 48
_METRICS = {
    "response_time": 1.0,
    "service_time": 0.97,
    "send_lag": 0.02,
    "receive_lag": 0.03,
}
_SAMPLES = 200


def job_text(intervals: int) -> str:
    """So many intervals of 1 s, a minute of them warm-up."""
    operations: dict[str, Any] = {
        "search": {"search": {"base": "dc=example,dc=com", "filter": "(uid=u[0-9])"}},
        "compare": {
            "compare": {
                "dn": "uid=u[0-9],dc=example,dc=com",
                "attribute": "sn",
                "value": "x",
            }
        },
        "modify": {
            "modify": {
                "dn": "uid=u[0-9],dc=example,dc=com",
                "replace": {"description": "[random:9]"},
            }
        },
        "bind": {"bind": {"dn": "uid=u[0-9],dc=example,dc=com", "password": "x"}},
    }
    loads = {
        "readers": {"clients": 64},
        "writers": {"rate": "400/s", "connections": 8},
    }
    return json.dumps(
        {
            "name": "endurance",
            "targets": {"replica": "ldap://127.0.0.1:1"},
            "agents": {"count": len(AGENTS)},
            "run": {
                "warm_up": f"{WARM_UP}s",
                "duration": f"{intervals - WARM_UP}s",
                "interval": "1s",
            },
            "streams": [
                {
                    "name": stream,
                    "target": "replica",
                    "load": loads[stream],
                    "operations": [operations[name] for name in of_stream],
                }
                for stream, of_stream in OPERATIONS.items()
            ],
        }
    )


@dataclass
class Endurance:
    """What was seen."""

    intervals: int
    #: Requests sent, by operation, as the agents count them.
    sent: Counter[str] = field(default_factory=Counter)
    #: (interval, resident bytes of the coordinator).
    memory: list[tuple[int, int]] = field(default_factory=list)
    ingest_s: float = 0.0
    store_bytes: int = 0
    summary_s: float = 0.0
    report_s: float = 0.0
    files: dict[str, int] = field(default_factory=dict)
    summary: Summary | None = None

    @property
    def reports_per_s(self) -> float:
        return self.intervals * len(AGENTS) / self.ingest_s

    @property
    def bytes_per_interval(self) -> float:
        """Of one agent, on disk."""
        return self.store_bytes / self.intervals / len(AGENTS)

    @property
    def slope_bytes(self) -> float:
        """Growth of the coordinator's memory in 10,000 intervals: least squares, after
        a quarter of the run in which its pools fill."""
        at, size = np.array(self.memory[len(self.memory) // 4 :], np.float64).T
        return float(np.polyfit(at, size, 1)[0]) * 10_000

    @property
    def most_bytes(self) -> int:
        return max(size for _, size in self.memory)


def run_endurance(
    fleet: FleetOfProcesses,
    intervals: int,
    out: Path,
    say: Callable[[str], None] = lambda line: None,
) -> Endurance:
    """Pushes a run through a coordinator that `fleet` starts, and makes its report."""
    fleet.start_coordinator()
    pid = fleet.processes["coordinator"].pid
    seen = Endurance(intervals)
    run_id = asyncio.run(_push(fleet, seen, pid, say))
    fleet.end("coordinator")
    seen.store_bytes = os.path.getsize(fleet.store)
    with Store.open(fleet.store, read_only=True) as store:
        before_s = time.monotonic()
        seen.summary = summarise(store, run_id)
        seen.summary_s = time.monotonic() - before_s
        paths = render(seen.summary, out, ("html", "pdf", "text"), store=store)
        seen.report_s = time.monotonic() - before_s
    seen.files = {path.name: path.stat().st_size for path in paths}
    return seen


def resident_bytes(pid: int) -> int:
    """VmRSS of a process."""
    for line in Path(f"/proc/{pid}/status").read_text("ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"process {pid} has no memory")


async def _push(
    fleet: FleetOfProcesses, seen: Endurance, pid: int, say: Callable[[str], None]
) -> str:
    snapshots = Snapshots(seen.intervals)
    async with _agents(fleet.address) as agents:
        run_id = await asyncio.to_thread(fleet.submit, job_text(seen.intervals))
        await asyncio.gather(*(agent.begin() for agent in agents))
        before_s = time.monotonic()
        every = max(1, seen.intervals // _SAMPLES)
        # a hundred intervals apart at most: agents of one fleet are at one time
        for start in range(0, seen.intervals + 1, every):
            chosen = range(start, min(start + every, seen.intervals + 1))
            await asyncio.gather(
                *(
                    _report(agent, run_id, snapshots, chosen, seen.sent)
                    for agent in agents
                )
            )
            seen.memory.append((start, resident_bytes(pid)))
            if start % (20 * every) == 0:
                say(f"{start:,} intervals, {time.monotonic() - before_s:.0f} s")
        seen.ingest_s = time.monotonic() - before_s
        await asyncio.gather(*(agent.finish(run_id) for agent in agents))
    state = (await asyncio.to_thread(fleet.run, run_id)).state
    assert state == "finished", f"{state}: {fleet.logs()}"
    return run_id


async def _report(
    agent: WireAgent,
    run_id: str,
    snapshots: Snapshots,
    indexes: Sequence[int],
    sent: Counter[str],
) -> None:
    """As many in a message as it may have, each when the last is committed."""
    number = AGENTS.index(agent.name)
    for start in range(0, len(indexes), MOST_REPORTS):
        chosen = indexes[start : start + MOST_REPORTS]
        packed = [pack(snapshots.of(number, index, sent)) for index in chosen]
        await agent.report(run_id, *packed)


@asynccontextmanager
async def _agents(address: str) -> AsyncIterator[list[WireAgent]]:
    agents = [WireAgent(name, address) for name in AGENTS]
    tasks: list[asyncio.Task[None]] = []
    try:
        for agent in agents:
            await agent.register()
            tasks += [
                asyncio.create_task(agent.follow()),
                asyncio.create_task(agent.beat()),
            ]
        yield agents
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for agent in agents:
            await agent.channel.close()


class Snapshots:
    """Intervals to send: drawn once, chosen by the time of the run."""

    def __init__(self, intervals: int) -> None:
        self._intervals = intervals
        rng = np.random.default_rng(20_261_121)
        self._drawn = {
            (name, pace): [
                _operation(rng, stream, name, requests, median_ns * pace)
                for _ in range(_VARIANTS)
            ]
            for stream, operations in OPERATIONS.items()
            for name, (requests, median_ns) in operations.items()
            for pace in (1.0, 1.5, 2.2, 25.0)
        }

    def of(self, agent: int, index: int, sent: Counter[str]) -> common_pb2.Snapshot:
        if index == self._intervals:
            return self._drain(index)
        pace = self._pace(index)
        rows = []
        for stream, operations in OPERATIONS.items():
            for name in operations:
                place = (index * 31 + agent * 17) % _VARIANTS
                row = self._drawn[name, pace][place]
                rows.append(changed(row, measured=index >= WARM_UP))
                sent[f"{stream}.{name}"] += row.sent
        return snapshot_of(
            rows,
            index=index,
            phase="warm_up" if index < WARM_UP else "measure",
            start_ns=index * NS_PER_S,
            end_ns=(index + 1) * NS_PER_S,
            streams=[
                StreamRow(
                    stream=stream,
                    connects=16 if index == 0 else 0,
                    in_flight=12,
                    last_done_ns=(index + 1) * NS_PER_S - 1_000_000,
                )
                for stream in OPERATIONS
            ],
            workers=[
                WorkerRow(
                    worker=number,
                    model=model,
                    wall_ns=NS_PER_S,
                    busy_ns=(index * 7919 + number) % 400_000_000,
                    cpu_ns=300_000_000,
                    run_queue_ns=3_000_000,
                )
                for number, model in ((0, "closed"), (1, "open"))
            ],
            host=common_pb2.HostInterval(cpu_utilisation=0.3, steal_share=0.0),
        )

    def _pace(self, index: int) -> float:
        """Slower in the middle of the run; three single intervals stand out."""
        if index in self.spikes():
            return 25.0
        part = index / self._intervals
        return 2.2 if 0.45 < part < 0.5 else 1.5 if 0.3 < part < 0.7 else 1.0

    def spikes(self) -> tuple[int, ...]:
        return spikes(self._intervals)

    def _drain(self, index: int) -> common_pb2.Snapshot:
        start_ns = index * NS_PER_S
        return snapshot_of(
            index=index,
            phase="drain",
            start_ns=start_ns,
            end_ns=start_ns + 2_000_000,
            final=True,
        )


def spikes(intervals: int) -> tuple[int, ...]:
    """The intervals that stand out."""
    return intervals // 5, intervals // 3, intervals * 4 // 5


def _operation(
    rng: np.random.Generator, stream: str, name: str, requests: int, median_ns: float
) -> OperationRow:
    number = int(rng.poisson(requests))
    times = rng.lognormal(np.log(median_ns), 0.35, number)
    metrics = dict(_METRICS)
    if stream == "writers":
        metrics["backlog_wait"] = 0.0001
    return OperationRow(
        stream=stream,
        operation=name,
        scheduled=number,
        sent=number,
        completed=number,
        succeeded=number,
        requests=number,
        entries=number if name == "search" else 0,
        result_codes={0: number},
        histograms={
            (metric, "succeeded"): packed_of((times * part).astype(np.int64))
            for metric, part in metrics.items()
        },
    )
