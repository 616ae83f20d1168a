# SPDX-License-Identifier: Apache-2.0
"""What it costs to start: short commands, a whole run of one second, and its reports.

    python benchmarks/startup.py [--rounds 5] [--against PYTHON] [--only run]

A lab is brought up, then each round runs every command once: with this Python's
ldapslam and, with --against, with that of another virtual environment right after it.
CPU is user and system time of the command with all processes that it started. The unit
is I, the CPU time that Python takes to import the libraries, in the same round:
machines and their load differ, ratios less. The table has medians over the rounds; a
first round, which compiles what Python imports, does not count. `verdict` is the time
from the end of the load to the first line on stdout.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from ldapslam.lab import Lab
from ldapslam.results.store import Store

_LIBRARIES = "numpy, grpc.aio, pydantic, sqlalchemy, matplotlib.figure, jinja2, typst"
#: The name of its measurement, and of the unit.
_IMPORTS = "I"
_NO_COMPILED = "PYTHONDONTWRITEBYTECODE"
_BASE, _FILTER, _RATE = "ou=people,dc=example,dc=com", "(uid=user.[0-999])", "100/s"
_LOAD_S = 1
_JOB = """\
name: startup
targets:
  directory: {uri}
run: {{duration: {seconds}s}}
streams:
  - name: readers
    target: directory
    load: {{rate: {rate}}}
    operations:
      - search:
          base: {base}
          filter: {filter}
"""
_LDAPSLAM = ("-P", "-m", "ldapslam.cli.main")


class Cost(NamedTuple):
    cpu_s: float
    wall_s: float
    #: From the end of the load; None of a command without.
    verdict_s: float | None = None


def commands(uri: str, job: Path, run: Path) -> Mapping[str, Sequence[str]]:
    """Name of a measurement -> arguments of Python."""
    search = ("-b", _BASE, "-f", _FILTER, "-r", _RATE, "-d", f"{_LOAD_S}s")
    ours: dict[str, Sequence[str]] = {
        "--version": ["--version"],
        "--help": ["--help"],
        "run --help": ["run", "--help"],
        "check": ["check", "--offline", str(job)],
        "run": ["run", str(job), "--out", "OUT"],
        "quick": ["quick", "search", uri, *search, "--out", "OUT"],
        **{
            f"report {name}": ["report", str(run), "--format", name, "--out", str(run)]
            for name in ("text", "html", "pdf")
        },
    }
    measured = {name: (*_LDAPSLAM, *words) for name, words in ours.items()}
    return {_IMPORTS: ("-P", "-c", f"import {_LIBRARIES}"), **measured}


def environment(folder: Path) -> dict[str, str]:
    """Of a user, who has compiled modules; they are kept in `folder`."""
    kept = {name: value for name, value in os.environ.items() if name != _NO_COMPILED}
    return {**kept, "PYTHONPYCACHEPREFIX": str(folder / "compiled")}


def cost(python: str, arguments: Sequence[str], folder: Path) -> Cost:
    out = Path(tempfile.mkdtemp(dir=folder)) / "out"
    words = [str(out) if word == "OUT" else word for word in arguments]
    begun_s = time.monotonic()
    with (folder / "errors").open("w+") as errors:
        process = subprocess.Popen(
            [python, *words],
            env=environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
        assert process.stdout is not None
        process.stdout.readline()
        printed_s = time.time()
        process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        wall_s = time.monotonic() - begun_s
        process.returncode = os.waitstatus_to_exitcode(status)
        # 3: a run of one second may be too short for a verdict
        if process.returncode not in (0, 3):
            errors.seek(0)
            sys.exit(f"{words}: status {process.returncode}\n{errors.read()}")
    verdict_s = printed_s - load_end_s(out) if out.is_dir() else None
    return Cost(used.ru_utime + used.ru_stime, wall_s, verdict_s)


def load_end_s(folder: Path) -> float:
    """The time of day at which the load of the run in `folder` ended."""
    with Store.open(folder, read_only=True) as store:
        [run] = store.runs()
    assert run.t0_utc is not None
    return datetime.fromisoformat(run.t0_utc).timestamp() + _LOAD_S


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--against", metavar="PYTHON", help="of another environment")
    parser.add_argument("--only", action="append", metavar="COMMAND")
    options = parser.parse_args()
    pythons = {"here": sys.executable}
    if options.against:
        pythons["against"] = options.against
    with tempfile.TemporaryDirectory() as name, Lab(entries=1_000) as lab:
        folder = Path(name)
        job, run = folder / "job.yaml", folder / "run"
        uri = lab.supplier.uri
        text = {"base": _BASE, "filter": _FILTER, "rate": _RATE, "seconds": _LOAD_S}
        job.write_text(_JOB.format(uri=uri, **text))
        first = (*_LDAPSLAM, "run", str(job), "--out", str(run))
        cost(sys.executable, first, folder)
        chosen = {
            name: arguments
            for name, arguments in commands(uri, job, run).items()
            if not options.only or name in (_IMPORTS, *options.only)
        }
        costs: dict[tuple[str, str], list[Cost]] = {}
        for number in range(options.rounds + 1):
            for command, arguments in chosen.items():
                for label, python in pythons.items():
                    measured = cost(python, arguments, folder)
                    if number:
                        costs.setdefault((command, label), []).append(measured)
    print(f"{'command':21} {'CPU s':>6} {'CPU/I':>6} {'wall s':>7} {'verdict s':>9}")
    for (command, label), rounds in costs.items():
        units = [one.cpu_s for one in costs[_IMPORTS, label]]
        ratios = [one.cpu_s / unit for one, unit in zip(rounds, units, strict=True)]
        cpu_s, ratio, wall_s = map(
            statistics.median,
            ([one.cpu_s for one in rounds], ratios, [one.wall_s for one in rounds]),
        )
        line = f"{command:12} {label:8} {cpu_s:6.2f} {ratio:6.2f} {wall_s:7.2f}"
        verdicts = [one.verdict_s for one in rounds if one.verdict_s is not None]
        if verdicts:
            line += f" {statistics.median(verdicts):9.2f}"
        print(line)


if __name__ == "__main__":
    main()
