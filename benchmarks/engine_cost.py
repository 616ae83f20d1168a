# SPDX-License-Identifier: Apache-2.0
"""What the engine costs, and how well it paces: against canned servers.

    python benchmarks/engine_cost.py [--rounds 5 | --once] [--only SECTION]…
                                     [--markdown] [--json FILE] [--check]

A benchmark, not a test: it compares within one machine and one minute. The sections:

    search       one-entry searches against the floor (a bare client of the same bytes),
                 over 16 connections and over 10,000
    operations   every other operation against the search
    tls          searches over TLS against the floor over the same TLS library
    tools        searches against those of searchrate, ldclt and python-ldap
    pacing       send lag of an open loop, with and without SCHED_FIFO

Each round of a section runs what it compares one after the other, every process on its
own; a round gives ratios, the table their medians. Takes five to ten minutes. Ends with
0, whatever it finds; with --check, with 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import other_tools
from bare_clients import BareClients, Missing
from bench_jobs import OPERATIONS, SEARCH, closed_job, long_job, open_job
from figures import Figures, Round, Rounds, Row, is_quiet, repeat
from processes import (
    Server,
    child,
    engine_child,
    responder,
    responder_child,
    run_engine,
    watch,
)

from ldapslam.agent.host import host_facts

_MANY = 10_000
_RATE_PER_S = 20_000
_TOOLS = ("searchrate", "ldclt", "python_ldap")
_TOOLS_WINDOW_S = 3.0
#: The engine's own run is to outlast warm-up and window.
_TOOLS_ENGINE_S = 8
#: What is downloaded stays here from run to run.
_CACHE = Path(__file__).resolve().parent.parent / "build" / "bench"


@dataclass(frozen=True)
class Section:
    measure: Callable[[], Round]
    rows: Callable[[Rounds], list[Row]]
    #: Rounds are repeated for at most so long.
    limit_s: float


class Benchmark:
    """The sections, over programs built in a folder. What cannot be measured here is
    in `missing` by its name, with the reason."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._bare = BareClients(folder)
        self.missing: dict[str, str] = {}
        self.sections = {
            "search": Section(self._search, self._search_rows, 180),
            "operations": Section(self._operations, self._operations_rows, 180),
            "tls": Section(self._tls, self._tls_rows, 60),
            "tools": Section(self._tools, self._tools_rows, 150),
            "pacing": Section(self._pacing, self._pacing_rows, 60),
        }

    def _why(self, name: str) -> str:
        return self.missing.get(name, "")

    # -- search ------------------------------------------------------------------------

    def _search(self) -> Round:
        figures: Round = {}
        for network in ("tcp", "unix"):
            path = self._folder / "ldapi" if network == "unix" else None
            for count in (16, _MANY):

                def floor(server: Server, count: int = count) -> Figures:
                    return self._bare.run(server, count)

                def engine(server: Server, count: int = count) -> Figures:
                    return run_engine(closed_job(server.uri, count))

                for who, client in (("floor", floor), ("engine", engine)):
                    figures[f"{who} {network} {count}"] = served(
                        responder(socket_path=path), client
                    )
        return figures

    def _search_rows(self, rounds: Rounds) -> list[Row]:
        ratio, median = rounds.ratio, rounds.median
        few, many = "16 connections", f"{_MANY:,} connections"
        rows = []
        for who in ("floor", "engine"):
            what = f"{who}, {few}"
            rows += [
                Row(f"{what}: CPU", median(f"{who} tcp 16"), "us/op"),
                Row(f"{what}: throughput", median(f"{who} tcp 16", "per_s"), "op/s"),
                Row(f"{who}, {many}: CPU", median(f"{who} tcp {_MANY}"), "us/op"),
            ]
        rows += [
            Row(
                f"engine / floor, {few}: CPU",
                ratio("engine tcp 16", "floor tcp 16"),
                target=1.25,
            ),
            Row(
                f"floor / engine, {few}: throughput of a thread",
                ratio("floor tcp 16", "engine tcp 16", "per_s"),
                target=1.2,
            ),
            Row(
                f"engine / floor, {many}: CPU",
                ratio(f"engine tcp {_MANY}", f"floor tcp {_MANY}"),
            ),
        ]
        for network, what in (("tcp", "TCP"), ("unix", "Unix sockets")):
            for who, target in (("engine", 1.3), ("floor", None)):
                pair = (f"{who} {network} {_MANY}", f"{who} {network} 16")
                name = f"{who}, {_MANY:,} / 16 connections, {what}: CPU"
                rows.append(Row(name, ratio(*pair), target=target))
        return rows

    # -- operations --------------------------------------------------------------------

    def _operations(self) -> Round:
        figures: Round = {}
        for name, operations in {"search": SEARCH, **OPERATIONS}.items():

            def engine(server: Server, operations: str = operations) -> Figures:
                return run_engine(closed_job(server.uri, 16, operations))

            figures[name] = served(responder(), engine)
        return figures

    def _operations_rows(self, rounds: Rounds) -> list[Row]:
        return [
            Row("search: CPU", rounds.median("search"), "us/op"),
            *(
                Row(f"{name} / search: CPU", rounds.ratio(name, "search"), target=1.5)
                for name in OPERATIONS
            ),
        ]

    # -- TLS ---------------------------------------------------------------------------

    def _tls(self) -> Round:
        def floor(server: Server) -> Figures:
            return self._bare.run(server, 16, tls=True)

        def engine(server: Server) -> Figures:
            tls = f"tls: {{ca_file: {server.ca_file}}}"
            return run_engine(closed_job(server.uri, 16, settings=tls))

        try:
            return {
                "tls_floor": served(self._bare.tls_server(), floor),
                "tls_engine": served(self._bare.tls_server(), engine),
            }
        except Missing as missing:
            self.missing["tls"] = str(missing)
            return {"tls_floor": None, "tls_engine": None}

    def _tls_rows(self, rounds: Rounds) -> list[Row]:
        floor, engine = rounds.median("tls_floor"), rounds.median("tls_engine")
        ratio, why = rounds.ratio("tls_engine", "tls_floor"), self._why("tls")
        return [
            Row("floor over TLS: CPU", floor, "us/op", reason=why),
            Row("engine over TLS: CPU", engine, "us/op", reason=why),
            Row("engine / floor over TLS: CPU", ratio, target=1.25, reason=why),
        ]

    # -- other tools -------------------------------------------------------------------

    def _tools(self) -> Round:
        def engine(server: Server) -> Figures:
            job = long_job(server.uri, _TOOLS_ENGINE_S)
            command = [sys.executable, __file__, "--child=engine", job, ""]
            return watch(command, server, 1.0, _TOOLS_WINDOW_S)

        figures: Round = {"engine": served(responder(), engine)}
        for tool in _TOOLS:

            def other(server: Server, tool: str = tool) -> Figures:
                command = other_tools.command(tool, server, _CACHE)
                warm_up_s = other_tools.WARM_UP_S[tool]
                return watch(command, server, warm_up_s, _TOOLS_WINDOW_S)

            figures[tool] = None
            if tool not in self.missing:
                try:
                    figures[tool] = served(responder(), other)
                except Missing as missing:
                    self.missing[tool] = str(missing)
        return figures

    def _tools_rows(self, rounds: Rounds) -> list[Row]:
        rows = [Row("engine: CPU of its process", rounds.median("engine"), "us/op")]
        observed = {}
        for tool in _TOOLS:
            median = rounds.median(tool)
            why = self._why(tool)
            rows.append(Row(f"{tool}: CPU", median, "us/op", reason=why))
            if median is not None:
                observed[tool] = median
        if observed:
            cheapest = min(observed, key=lambda tool: observed[tool])
            ratio = rounds.ratio("engine", cheapest)
            rows.append(Row(f"engine / {cheapest}: CPU", ratio, target=0.6))
        return rows

    # -- pacing ------------------------------------------------------------------------

    def _pacing(self) -> Round:
        return {"slack": open_loop(False), "fifo": open_loop(True)}

    def _pacing_rows(self, rounds: Rounds) -> list[Row]:
        targets = {
            ("slack", "p90"): 100.0,
            ("fifo", "p99"): 50.0,
            ("fifo", "p99_9"): 300.0,
        }
        rows = []
        for kind, name in (("slack", "without"), ("fifo", "with")):
            what = f"poisson {_RATE_PER_S:,}/s {name} SCHED_FIFO"
            rows += [
                Row(
                    f"{what}: send lag {key}",
                    rounds.median(kind, key),
                    "us",
                    targets.get((kind, key)),
                )
                for key in ("p50", "p90", "p99", "p99_9")
            ]
            rows.append(Row(f"{what}: CPU", rounds.median(kind, "cpu_share"), "cores"))
        return rows


def served(
    context: AbstractContextManager[Server], measure: Callable[[Server], Figures]
) -> Figures:
    """What a client measured, with what its server waited for a CPU."""
    with context as server:
        figures = measure(server)
    waited_share = max(figures["waited_share"], server.waited_share)
    return {**figures, "waited_share": waited_share}


def open_loop(realtime: bool) -> Figures | None:
    """Send lag percentiles in us; None when SCHED_FIFO is not granted."""
    with responder(pinned=False) as server:
        job = open_job(server.uri, _RATE_PER_S)
        result: dict[str, Any] = child("engine", job, "realtime" if realtime else "")
    if realtime and not result["realtime"]:
        return None
    waited_share = result["waited_ns"] / result["wall_ns"]
    return {
        **result["send_lag_us"],
        "waited_share": max(waited_share, server.waited_share),
        "sent_share": result["requests"] / result["wall_ns"] * 1e9 / _RATE_PER_S,
        "cpu_share": result["cpu_ns"] / result["wall_ns"],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="undisturbed rounds")
    parser.add_argument(
        "--once", action="store_true", help="one round, disturbed or not"
    )
    parser.add_argument("--only", action="append", metavar="SECTION", default=[])
    parser.add_argument("--markdown", action="store_true", help="for documentation")
    parser.add_argument("--json", type=Path, help="write every figure here")
    parser.add_argument("--check", action="store_true", help="fail on a missed target")
    arguments = parser.parse_args()
    _CACHE.mkdir(parents=True, exist_ok=True)
    document: dict[str, Any] = {
        "host": host_facts(),
        "utc": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "sections": {},
    }
    missed = False
    with tempfile.TemporaryDirectory(prefix="ldapslam-bench-") as folder:
        benchmark = Benchmark(Path(folder))
        unknown = set(arguments.only) - set(benchmark.sections)
        if unknown:
            parser.error(f"the sections are {', '.join(benchmark.sections)}")
        for name, section in benchmark.sections.items():
            if arguments.only and name not in arguments.only:
                continue
            limit_s = 0.0 if arguments.once else section.limit_s
            rounds = repeat(section.measure, arguments.rounds, limit_s)
            rows = section.rows(rounds)
            quiet = sum(map(is_quiet, rounds.rounds))
            print(f"{name}: {quiet} of {len(rounds.rounds)} rounds undisturbed\n")
            lines = map(Row.markdown if arguments.markdown else str, rows)
            print("\n".join(lines), end="\n\n", flush=True)
            missed = missed or any(row.passed is False for row in rows)
            document["sections"][name] = {
                "rows": [{**vars(row), "passed": row.passed} for row in rows],
                "rounds": list(rounds.rounds),
            }
    if arguments.json:
        arguments.json.write_text(json.dumps(document, indent=2) + "\n")
    return 1 if missed and arguments.check else 0


if __name__ == "__main__":
    role = sys.argv[1] if len(sys.argv) > 1 else ""
    if role == "--child=responder":
        responder_child(sys.argv[2] if len(sys.argv) > 2 else None)
    elif role == "--child=engine":
        engine_child(sys.argv[2], sys.argv[3])
    elif role == "--child=python-ldap":
        other_tools.python_ldap_child(sys.argv[2])
    else:
        sys.exit(main())
