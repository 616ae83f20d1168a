# SPDX-License-Identifier: Apache-2.0
"""What the engine costs, and how well it paces: against the built-in responder.

    python benchmarks/engine_cost.py [--rounds 5] [--json FILE] [--check]

A benchmark, not a test: it compares within one machine and one minute. Each round runs
the floor client (floor.c: the same bytes, no measuring) and the engine one after the
other, every process on its own; a round gives ratios, the table their medians. In the
closed loop, client and responder have a CPU each: else the scheduler's placement
decides which of them pays for waking the other, and the figures jump by half. The open
loop is placed as it comes, with and without SCHED_FIFO.

A process that waits for its CPU shares it with somebody: such rounds are repeated, for
as long as there is time, and the table says how many were left undisturbed. Takes one
to three minutes. Ends with 0, whatever it finds; with --check, with 1 when a target is
missed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ldapslam.agent import _engine
from ldapslam.agent.engine_process import add_streams
from ldapslam.agent.host import host_facts
from ldapslam.jobs.load import load_job_text
from ldapslam.jobs.plan import AgentPlan, agent_plan
from ldapslam.jobs.template import Template
from ldapslam.reports.results.histogram import Histogram

_HERE = Path(__file__).resolve().parent
_FLOOR_WARM_UP_MS = 300
_FLOOR_RUN_MS = 2000
_CLOSED_RUN = "{duration: 2s, warm_up: 500ms, interval: 500ms}"
_OPEN_RUN = "{duration: 4s, warm_up: 500ms, interval: 500ms}"
_CLOSED_LOOP_LIMIT_S = 90
_OPEN_LOOP_LIMIT_S = 45
_WAITED_SHARE_MAX = 0.05
_RATE_PER_S = 20_000
_SEND_LAG = 2
#: A messageID of three bytes, as most of the engine's are.
_MESSAGE_ID = b"\x01\x00\x00"
#: From the first interval's T0: enough for the workers to be waiting for it.
_START_AHEAD_NS = 50_000_000

Figures = dict[str, float]
#: By what was measured; None: SCHED_FIFO was not granted.
Round = dict[str, Figures | None]

_JOB = """
job: engine-cost
targets: {{server: "{uri}"}}
run: {run}
streams:
  - name: load
    target: server
    load: {load}
    operations:
      - search:
          base: "ou=people,dc=example,dc=com"
          scope: sub
          filter: "(uid=user.[100000-999999])"
          attributes: [cn, mail]
"""


@dataclass(frozen=True)
class Row:
    """One line of the table; `target` None: for information."""

    what: str
    observed: float | None
    unit: str
    target: float | None = None

    @property
    def passed(self) -> bool | None:
        if self.target is None or self.observed is None:
            return None
        return self.observed <= self.target


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="undisturbed rounds")
    parser.add_argument("--json", type=Path, help="write every figure here")
    parser.add_argument("--check", action="store_true", help="fail on a missed target")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ldapslam-bench-") as folder:
        floor = build_floor(Path(folder))
        closed = repeat(
            lambda: closed_round(floor), arguments.rounds, _CLOSED_LOOP_LIMIT_S
        )
        paced = repeat(open_round, max(1, arguments.rounds // 2), _OPEN_LOOP_LIMIT_S)
    rows = closed_rows(undisturbed(closed)) + open_rows(undisturbed(paced))
    for row in rows:
        print(line(row))
    for loop, rounds in (("closed", closed), ("open", paced)):
        quiet = sum(map(is_quiet, rounds))
        print(f"{loop} loop: {quiet} of {len(rounds)} rounds undisturbed")
    if arguments.json:
        document = {
            "host": host_facts(),
            "utc": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "rows": [{**vars(row), "passed": row.passed} for row in rows],
            "closed_rounds": closed,
            "open_rounds": paced,
        }
        arguments.json.write_text(json.dumps(document, indent=2) + "\n")
    missed = [row for row in rows if row.passed is False]
    return 1 if missed and arguments.check else 0


def repeat(measure: Callable[[], Round], rounds: int, limit_s: float) -> list[Round]:
    """Rounds until enough of them are undisturbed, or the time is over."""
    deadline = time.monotonic() + limit_s
    done: list[Round] = []
    while sum(map(is_quiet, done)) < rounds and time.monotonic() < deadline:
        done.append(measure())
    return done


def is_quiet(one: Round) -> bool:
    """Whether client and responder had the CPU whenever they wanted it."""
    return all(
        figures["waited_share"] <= _WAITED_SHARE_MAX
        for figures in one.values()
        if figures is not None
    )


def undisturbed(rounds: list[Round]) -> list[Round]:
    """The quiet rounds; all of them where there are none."""
    return [one for one in rounds if is_quiet(one)] or rounds


def line(row: Row) -> str:
    observed = "not granted" if row.observed is None else f"{row.observed:,.2f}"
    verdict = {True: "ok", False: "MISSED", None: ""}[row.passed]
    target = "" if row.target is None else f"<= {row.target:g}"
    return f"{row.what:<56} {observed:>12} {row.unit:<6} {target:<8} {verdict}".rstrip()


# -- closed loop: CPU per operation ----------------------------------------------------


def closed_round(floor: Path) -> Round:
    return {
        "floor_16": run_floor(floor, 16),
        "engine_16": run_closed(16),
        "floor_2000": run_floor(floor, 2000),
        "engine_2000": run_closed(2000),
    }


def closed_rows(rounds: list[Round]) -> list[Row]:
    def values(name: str, figure: str) -> list[float]:
        return [figures[figure] for one in rounds if (figures := one[name])]

    def median(name: str, figure: str) -> float:
        return statistics.median(values(name, figure))

    def ratio(name: str, base: str) -> float:
        pairs = zip(
            values(name, "cpu_us_per_op"), values(base, "cpu_us_per_op"), strict=True
        )
        return statistics.median(one / other for one, other in pairs)

    rows = []
    for name in rounds[0]:
        who, connections = name.split("_")
        what = f"{who}, {connections} connections"
        rows.append(Row(f"{what}: CPU", median(name, "cpu_us_per_op"), "us/op"))
        rows.append(Row(f"{what}: throughput", median(name, "per_s"), "op/s"))
    return [
        *rows,
        Row("engine / floor, 16 connections", ratio("engine_16", "floor_16"), "", 1.4),
        Row("engine / floor, 2000 connections", ratio("engine_2000", "floor_2000"), ""),
        Row("engine, 2000 / 16", ratio("engine_2000", "engine_16"), "", 1.3),
        Row("floor, 2000 / 16", ratio("floor_2000", "floor_16"), ""),
    ]


def build_floor(folder: Path) -> Path:
    compiler = os.environ.get("CC") or shutil.which("cc") or "gcc"
    floor = folder / "floor"
    subprocess.run(
        [compiler, "-std=c11", "-D_GNU_SOURCE", "-O2", "-o", floor, _HERE / "floor.c"],
        check=True,
    )
    return floor


def run_floor(floor: Path, connections: int) -> Figures:
    with responder(pinned=True) as server:
        uri = server.uri
        job = _JOB.format(uri=uri, run=_CLOSED_RUN, load="{closed: {clients: 1}}")
        request = encode(plan_of(job).streams[0].operations[0].template)
        port = uri.rpartition(":")[2]
        # what the responder sends: two messages, with the messageID of the request
        response_bytes = answer_bytes(int(port), request)
        output = subprocess.run(
            [
                floor,
                port,
                str(connections),
                str(_FLOOR_RUN_MS),
                str(_FLOOR_WARM_UP_MS),
                request.hex(),
                str(response_bytes),
            ],
            check=True,
            capture_output=True,
            text=True,
            preexec_fn=raise_descriptor_limit,
        ).stdout
    completed, cpu_ns, wall_ns, wait_ns = map(int, output.split())
    waited = max(wait_ns / wall_ns, server.waited_share)
    return cost(completed, cpu_ns, wall_ns, waited)


def run_closed(connections: int) -> Figures:
    with responder(pinned=True) as server:
        load = f"{{closed: {{clients: {connections}}}}}"
        job = _JOB.format(uri=server.uri, run=_CLOSED_RUN, load=load)
        result = child("engine", job, "")
    waited = max(result["run_queue_ns"] / result["wall_ns"], server.waited_share)
    return cost(result["completed"], result["cpu_ns"], result["wall_ns"], waited)


def cost(completed: int, cpu_ns: int, wall_ns: int, waited: float) -> Figures:
    return {
        "completed": completed,
        "cpu_us_per_op": cpu_ns / completed / 1e3,
        "per_s": completed / wall_ns * 1e9,
        "waited_share": waited,
    }


# -- open loop: send lag ---------------------------------------------------------------


def open_round() -> Round:
    return {"slack": open_loop(False), "fifo": open_loop(True)}


def open_loop(realtime: bool) -> Figures | None:
    """Send lag percentiles in us; None when SCHED_FIFO is not granted."""
    load = (
        f"{{open: {{rate: {_RATE_PER_S}/s, arrivals: poisson, connections: 16,"
        " in_flight: 16}}"
    )
    with responder() as server:
        job = _JOB.format(uri=server.uri, run=_OPEN_RUN, load=load)
        result: dict[str, Any] = child("engine", job, "realtime" if realtime else "")
    if realtime and not result["realtime"]:
        return None
    return {
        **result["send_lag_us"],
        "waited_share": max(
            result["run_queue_ns"] / result["wall_ns"], server.waited_share
        ),
        "sent_share": result["completed"] / result["wall_ns"] * 1e9 / _RATE_PER_S,
        "cpu_share": result["cpu_ns"] / result["wall_ns"],
    }


def open_rows(rounds: list[Round]) -> list[Row]:
    targets = {("slack", "p90"): 100.0, ("fifo", "p99"): 100.0}
    names = {"slack": "without SCHED_FIFO", "fifo": "with SCHED_FIFO"}
    rows = []
    for kind, name in names.items():
        figures = [one[kind] for one in rounds]
        for key in ("p50", "p90", "p99", "p99_9"):
            values = [figure[key] for figure in figures if figure is not None]
            observed = statistics.median(values) if values else None
            what = f"poisson {_RATE_PER_S:,}/s {name}: send lag {key}"
            rows.append(Row(what, observed, "us", targets.get((kind, key))))
        shares = [figure["cpu_share"] for figure in figures if figure is not None]
        what = f"poisson {_RATE_PER_S:,}/s {name}: CPU"
        rows.append(Row(what, statistics.median(shares) if shares else None, "cores"))
    return rows


# -- children --------------------------------------------------------------------------


def child(role: str, *arguments: str) -> Any:
    """Runs this file again in a process of its own; its JSON."""
    output = subprocess.run(
        [sys.executable, __file__, f"--child={role}", *arguments],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout
    return json.loads(output)


@dataclass
class Server:
    uri: str
    #: Of the time that it served, once it has ended.
    waited_share: float = 0.0


@contextlib.contextmanager
def responder(*, pinned: bool = False) -> Iterator[Server]:
    """A responder in a process of its own. Pinned: it has the first CPU, and children
    that start meanwhile have the last."""
    cpus = sorted(os.sched_getaffinity(0))
    if pinned:
        os.sched_setaffinity(0, cpus[:1])
    try:
        with subprocess.Popen(
            [sys.executable, __file__, "--child=responder"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            if pinned:
                os.sched_setaffinity(0, cpus[-1:])
            server = Server(process.stdout.readline().strip())
            start_ns, waited_ns = time.monotonic_ns(), run_queue_ns(process.pid)
            yield server
            waited_ns = run_queue_ns(process.pid) - waited_ns
            server.waited_share = waited_ns / (time.monotonic_ns() - start_ns)
            process.stdin.close()
    finally:
        os.sched_setaffinity(0, cpus)


def run_queue_ns(pid: int) -> int:
    """What the process's threads have waited for a CPU."""
    files = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(file.read_text().split()[1]) for file in files)


def responder_child() -> None:
    raise_descriptor_limit()
    server = _engine.Responder()
    server.start()
    print(server.uri, flush=True)
    sys.stdin.read()
    server.stop()


def engine_child(job_text: str, realtime: str) -> None:
    """One run with one worker; figures of the intervals within the measure phase."""
    raise_descriptor_limit()
    plan = plan_of(job_text)
    engine: Any = _engine.Engine(
        seed=plan.seed,
        workers=1,
        boundaries_ns=plan.boundaries_ns,
        measure_start_ns=plan.measure_start_ns,
        measure_end_ns=plan.measure_end_ns,
        ramp_up_ns=plan.ramp_up_ns,
        grace_ns=plan.grace_ns,
        realtime=bool(realtime),
    )
    add_streams(engine, plan)
    engine.prepare()
    engine.start(time.monotonic_ns() + _START_AHEAD_NS)
    completed = cpu_ns = wall_ns = run_queue_ns = 0
    send_lag = Histogram()
    snapshot: dict[str, Any] = {"final": False}
    index = 0
    while not snapshot["final"]:
        snapshot = engine.snapshot(index, 30_000_000_000) or {"final": True}
        index += 1
        if snapshot["start_ns"] < plan.measure_start_ns or snapshot["final"]:
            continue
        cpu_ns += sum(worker["cpu_ns"] for worker in snapshot["workers"])
        run_queue_ns += sum(worker["run_queue_ns"] for worker in snapshot["workers"])
        wall_ns += snapshot["end_ns"] - snapshot["start_ns"]
        for operation in snapshot["operations"]:
            completed += operation["completed"]
            for metric, _, packed in operation["histograms"]:
                if metric == _SEND_LAG:
                    send_lag.add_packed(packed)
    facts = engine.facts()
    engine.close()
    percentiles = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99_9": 99.9}
    result = {
        "completed": completed,
        "cpu_ns": cpu_ns,
        "wall_ns": wall_ns,
        "run_queue_ns": run_queue_ns,
        "realtime": facts["realtime"],
        "send_lag_us": {
            name: (send_lag.percentile(p) or 0.0) / 1e3
            for name, p in percentiles.items()
        },
    }
    print(json.dumps(result))


def plan_of(job_text: str) -> AgentPlan:
    job = load_job_text(job_text, file="benchmark", base=None)
    return agent_plan(job, 0, 1, seed=1)


def raise_descriptor_limit() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


# -- the floor's bytes -----------------------------------------------------------------


def tlv(tag: int, content: bytes) -> bytes:
    if len(content) < 0x80:
        return bytes([tag, len(content)]) + content
    length = len(content).to_bytes((len(content).bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + content


def encode(template: Template) -> bytes:
    """A request of the template as the engine writes it, each value its lowest."""
    program = template.program
    stack: list[tuple[int, bytearray]] = [(0x30, bytearray(tlv(0x02, _MESSAGE_ID)))]
    at = 0
    while at < len(program):
        code, at = program[at], at + 1
        if code == 1:
            size = int.from_bytes(program[at : at + 4], "little")
            stack[-1][1].extend(program[at + 4 : at + 4 + size])
            at += 4 + size
        elif code == 2:
            source = int.from_bytes(program[at : at + 2], "little")
            stack[-1][1].extend(str(template.values[source].lo).encode())
            at += 2
        elif code == 3:
            stack.append((program[at], bytearray()))
            at += 1
        else:
            tag, content = stack.pop()
            stack[-1][1].extend(tlv(tag, bytes(content)))
    return tlv(stack[0][0], bytes(stack[0][1]))


def answer_bytes(port: int, request: bytes) -> int:
    """The length of the responder's answer to the request."""

    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(request)
        received = b""
        # the last message: searchResDone with a result of seven bytes
        while not received.endswith(b"\x65\x07\x0a\x01\x00\x04\x00\x04\x00"):
            received += connection.recv(65536)
    return len(received)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child=responder"]:
        responder_child()
    elif sys.argv[1:2] == ["--child=engine"]:
        engine_child(sys.argv[2], sys.argv[3])
    else:
        sys.exit(main())
