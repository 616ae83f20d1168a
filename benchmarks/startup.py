# SPDX-License-Identifier: Apache-2.0
"""What it costs to start: short commands, and a whole run of one second.

    python benchmarks/startup.py [--rounds 5] [--against PYTHON] [--only run]

A lab is brought up, then each round runs every command once: with this Python's
ldapslam and, with --against, with that of another virtual environment right after it.
CPU is user and system time of the command with all processes that it started; the table
has medians over the rounds. A first round, which compiles what Python imports, does not
count. Other work on the machine makes both figures larger.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from ldapslam.lab import Lab

_NO_COMPILED = "PYTHONDONTWRITEBYTECODE"
_JOB = """\
name: startup
targets:
  directory: {uri}
run: {{duration: 1s}}
streams:
  - name: readers
    target: directory
    load: {{rate: 100/s}}
    operations:
      - search:
          base: ou=people,dc=example,dc=com
          filter: (uid=user.[0-999])
"""


def commands(job: Path) -> dict[str, list[str]]:
    """Name of a measurement -> arguments of `ldapslam`."""
    return {
        "--version": ["--version"],
        "--help": ["--help"],
        "run --help": ["run", "--help"],
        "check": ["check", "--offline", str(job)],
        "run": ["run", str(job), "--out", "OUT"],
    }


def environment(folder: Path) -> dict[str, str]:
    """Of a user, who has compiled modules; they are kept in `folder`."""
    kept = {name: value for name, value in os.environ.items() if name != _NO_COMPILED}
    return {**kept, "PYTHONPYCACHEPREFIX": str(folder / "compiled")}


def cost(python: str, arguments: Sequence[str], folder: Path) -> tuple[float, float]:
    """CPU and wall time of a command, in seconds."""
    out = Path(tempfile.mkdtemp(dir=folder)) / "out"
    given = [str(out) if one == "OUT" else one for one in arguments]
    begun_s = time.monotonic()
    process = subprocess.Popen(
        [python, "-P", "-m", "ldapslam.cli.main", *given],
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    wall_s = time.monotonic() - begun_s
    process.returncode = os.waitstatus_to_exitcode(status)
    # 3: a run of one second may be too short for a verdict
    if process.returncode not in (0, 3):
        sys.exit(f"{' '.join(given)}: status {process.returncode}\n{said.decode()}")
    return used.ru_utime + used.ru_stime, wall_s


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
        job = folder / "job.yaml"
        job.write_text(_JOB.format(uri=lab.supplier.uri))
        chosen = {
            name: arguments
            for name, arguments in commands(job).items()
            if not options.only or name in options.only
        }
        costs: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for number in range(options.rounds + 1):
            for command, arguments in chosen.items():
                for label, python in pythons.items():
                    found = cost(python, arguments, folder)
                    if number:
                        costs.setdefault((command, label), []).append(found)
    print(f"{'command':12} {'':8} {'CPU s':>6} {'wall s':>7}")
    for (command, label), pairs in costs.items():
        cpu_s, wall_s = (statistics.median(one) for one in zip(*pairs, strict=True))
        print(f"{command:12} {label:8} {cpu_s:6.2f} {wall_s:7.2f}")


if __name__ == "__main__":
    main()
