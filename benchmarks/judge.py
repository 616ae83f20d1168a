# SPDX-License-Identifier: Apache-2.0
"""What a verdict costs: CPU time and memory of the judge, with its helpers.

    python benchmarks/judge.py [--agents 500] [--seconds 40] [--long 43200]
                               [--against PYTHON] [--rounds 3]

Runs are put straight into a store: of a fleet, as benchmarks/fleet.py has them, and of
many intervals, as tests/support/endurance.py draws them. Each round judges every run:
with this Python's ldapslam and, with --against, right after it with that of another
virtual environment; the table has medians. A first round, which compiles what Python
imports, does not count. PSS counts a page that processes share once. At last the parts
of each run are collected, as a coordinator has it done while the run goes on ("a part":
the dearest), and the run is judged by them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from base64 import b64decode
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fleet
import psutil
from startup import environment

from ldapslam.cli.client import job_request
from ldapslam.coordinator.runs.submission import load_submission
from ldapslam.proto.common_pb2 import Snapshot
from ldapslam.reports.judge import COMMAND
from ldapslam.results.collected import CollectedPart, keep
from ldapslam.results.facts import AgentFacts
from ldapslam.results.packing import pack
from ldapslam.results.records import IntervalRecord, Part
from ldapslam.results.store import Store
from support import endurance

_ROWS = 500
_LOOKS_S = 0.05
Cost = tuple[float, float, float, float]


def fill(
    store: Store, text: str, agents: Iterable[str], reports: Iterable[IntervalRecord]
) -> str:
    """Puts a run into the store; returns its id."""
    now = datetime(2026, 3, 1, 12, tzinfo=UTC)
    request = job_request(text.encode(), job_file="job.yaml")
    record = load_submission(request, now).record
    at_utc = "2026-03-01T12:00:02.000000Z"
    store.create_run(replace(record, agents=tuple(agents), t0_utc=at_utc))
    for agent in agents:
        store.put_agent(
            record.run_id, agent, AgentFacts(), Part(1, 1, room_bytes=1 << 40)
        )
    rows: list[tuple[str, IntervalRecord]] = []
    for report in reports:
        rows.append((record.run_id, report))
        if len(rows) == _ROWS:
            store.add_intervals(rows)
            rows.clear()
    store.add_intervals(rows)
    store.set_run_state(record.run_id, "finished")
    return record.run_id


def _record(agent: str, index: int, packed: bytes, *, final: bool) -> IntervalRecord:
    end_ns = index * fleet.NS_PER_S + (2_000_000 if final else fleet.NS_PER_S)
    return IntervalRecord(agent, 1, index, index, final, end_ns, packed)


def fleet_reports(agents: list[str], seconds: int) -> Iterator[IntervalRecord]:
    reports = fleet.Reports()
    for index in range(seconds):
        drawn = [reports.of(index, variant) for variant in range(fleet.VARIANTS)]
        for place, agent in enumerate(agents):
            yield _record(agent, index, drawn[place % len(drawn)], final=False)
    for agent in agents:
        yield _record(agent, seconds, reports.drain(seconds), final=True)


def long_reports(intervals: int) -> Iterator[IntervalRecord]:
    snapshots, sent = endurance.Snapshots(intervals), Counter[str]()
    for index in range(intervals + 1):
        for place, agent in enumerate(endurance.AGENTS):
            snapshot: Snapshot = snapshots.of(place, index, sent)
            yield _record(agent, index, pack(snapshot), final=snapshot.final)


def cost(
    python: str, store: Path, run_id: str, variables: dict[str, str], **more: int
) -> tuple[Cost, dict[str, Any]]:
    """CPU and wall time in s, RSS and PSS in MB; and the answer."""
    begun_s, rss, pss = time.monotonic(), 0, 0
    judge = subprocess.Popen(
        [python, *COMMAND[1:]],
        env=variables,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert judge.stdin is not None
    assert judge.stdout is not None
    question = {"store": str(store), "run_id": run_id, "limit_s": 600}
    judge.stdin.write(json.dumps({**question, **more}).encode())
    judge.stdin.close()
    reading = ThreadPoolExecutor(1).submit(judge.stdout.read)
    process = psutil.Process(judge.pid)
    while True:
        pid, status, used = os.wait4(judge.pid, os.WNOHANG)
        if pid:
            break
        with contextlib.suppress(psutil.Error):  # a helper has ended
            found = [process, *process.children(recursive=True)]
            sizes = [one.memory_full_info() for one in found]
            rss = max(rss, sum(one.rss for one in sizes))
            pss = max(pss, sum(one.pss for one in sizes))
        time.sleep(_LOOKS_S)
    judge.returncode = os.waitstatus_to_exitcode(status)
    # a part that is collected would not go into a pipe that nobody reads
    answer = json.loads(reading.result())
    if not answer.get("verdict") and not more:
        sys.exit(f"{python}: no verdict: {answer}")
    cpu_s = used.ru_utime + used.ru_stime
    return (cpu_s, time.monotonic() - begun_s, rss / 1e6, pss / 1e6), answer


def keep_parts(path: Path, run_id: str, variables: dict[str, str]) -> list[Cost]:
    """Collects and keeps all parts of a run but the last; returns the costs."""
    costs: list[Cost] = []
    while True:
        found, answer = cost(
            sys.executable, path, run_id, variables, first_index=0, last_index=1 << 30
        )
        if "part" not in answer:
            return costs
        costs.append(found)
        with Store.open(path) as store:
            content = b64decode(answer["content"])
            assert keep(store, run_id, CollectedPart(**answer["part"]), content)


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--agents", type=int, nargs="*", default=[500])
    parser.add_argument("--seconds", type=int, default=40)
    parser.add_argument("--long", type=int, nargs="*", default=[43_200])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--against", metavar="PYTHON", help="of another environment")
    parser.add_argument("--keep", type=Path, help="folder of the stores, made or there")
    chosen = parser.parse_args()
    pythons = {"here": sys.executable}
    if chosen.against:
        pythons["against"] = chosen.against
    with tempfile.TemporaryDirectory(prefix="ldapslam-judge-") as name:
        variables = environment(Path(name))
        folder = chosen.keep or Path(name)
        folder.mkdir(exist_ok=True)
        stores: dict[str, Path] = {}
        for agents in chosen.agents:
            title = f"{agents} agents, {chosen.seconds} s"
            names = [f"agent{number:04d}" for number in range(agents)]
            text = fleet.job_text(agents, chosen.seconds)
            reports = fleet_reports(names, chosen.seconds)
            stores[title] = _made(folder, title, text, names, reports)
        for intervals in chosen.long:
            title, text = f"4 agents, {intervals} s", endurance.job_text(intervals)
            names, reports = list(endurance.AGENTS), long_reports(intervals)
            stores[title] = _made(folder, title, text, names, reports)
        print(f"{'':22} {'':8} {'CPU s':>7} {'wall s':>7} {'RSS MB':>7} {'PSS MB':>7}")
        for title, path in stores.items():
            with Store.open(path, read_only=True) as store:
                [run] = store.runs()
            costs: dict[str, list[Cost]] = {}
            for number in range(chosen.rounds + 1):
                for label, python in pythons.items():
                    found, _ = cost(python, path, run.run_id, variables)
                    if number:
                        costs.setdefault(label, []).append(found)
            if parts := keep_parts(path, run.run_id, variables):
                costs["a part"] = [max(parts)]
                judged = [
                    cost(sys.executable, path, run.run_id, variables)[0]
                    for _ in range(chosen.rounds)
                ]
                costs["by parts"] = judged
            for label, rows in costs.items():
                medians = map(statistics.median, zip(*rows, strict=True))
                print(f"{title:22} {label:8}", *(f"{one:7.1f}" for one in medians))


def _made(
    folder: Path,
    title: str,
    text: str,
    agents: list[str],
    reports: Iterable[IntervalRecord],
) -> Path:
    path = folder / f"{title.replace(', ', '-').replace(' ', '-')}.sqlite"
    if not path.exists():
        with Store.open(path) as store:
            fill(store, text, agents, reports)
    return path


if __name__ == "__main__":
    main()
