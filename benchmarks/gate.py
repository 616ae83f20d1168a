# SPDX-License-Identifier: Apache-2.0
"""How often gates are right, and how long they take: servers of known differences.

python benchmarks/gate.py [--server canned] [--gates 20] [--slower 0 2 5 10 20]
                          [--time 2m] [--noise] [--metric p99]

For each slowdown in %, so many gates of a server against one that is slower by it: how
many call a regression, no regression, or cannot tell, and their time. Beside it what a
plain script would say that runs each side once and compares means: worse by more than
the tolerance, of throughput or p99, or not. With --noise, a process takes a core of
this machine at random times. With --metric, that figure alone is judged: without it, a
gate ends with the first figure that tells.

Servers: `canned` answers after a fixed time; `slapd` gets half a core by a control
group, the slower one so much less (as root); `index` is a slapd whose slower side has
lost the index that its searches need, whatever --slower says.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ldapslam.agent._engine import Responder
from ldapslam.reports.figures import METRICS, readings_of
from ldapslam.results.store import Store

#: The canned server's time for a response.
_RESPONSE_NS = 400_000
_TOLERANCE = 0.05
#: Longest spells of the noise, on and off.
_SPELL_S = 4.0
#: slapd's share of a core, granted every so often.
_CPU, _PERIOD_US = 0.5, 10_000
_ENTRIES = "2000"
_INDEXED = "lab.settings.index=mail eq"

_TITLE = "readers.search"
JOB = """\
name: gate
targets: {server: "ldap://127.0.0.1:1"}
run: {warm_up: 200ms, duration: 800ms, interval: 200ms, drain: 1s}
streams:
  - name: readers
    target: server
    load: {clients: 4}
    operations: [{search: {base: "ou=people,dc=example,dc=com",
                           filter: "(mail=user.[0-1999]@example.com)"}}]
"""


@contextmanager
def canned(slower: float, folder: Path) -> Iterator[list[str]]:
    """Servers that answer after a fixed time."""
    times_ns = (_RESPONSE_NS, round(_RESPONSE_NS * (1 + slower / 100)))
    old, new = (Responder(delays=[(1, time_ns)]) for time_ns in times_ns)
    old.start()
    new.start()
    yield ["--old", old.uri, "--new", new.uri]
    old.stop()
    new.stop()


@contextmanager
def slapd(slower: float, folder: Path) -> Iterator[list[str]]:
    """Two slapds each with its share of a core."""
    arguments = ["--lab", "slapd", "--entries", _ENTRIES]
    groups = []
    for side, cpu in (("--old", _CPU), ("--new", _CPU / (1 + slower / 100))):
        group = control_group(f"ldapslam-gate{side}", cpu)
        groups.append(group)
        program = program_within(group, folder / side.strip("-"))
        arguments += [side, str(program), side, _INDEXED]
    try:
        yield arguments
    finally:
        for group in groups:
            group.rmdir()


def control_group(name: str, cpu: float) -> Path:
    """A new one with so many cores, before other work, of version 1 or 2."""
    root = Path("/sys/fs/cgroup")
    quota_us = round(cpu * _PERIOD_US)
    if (root / "cgroup.subtree_control").exists():
        (root / "cgroup.subtree_control").write_text("+cpu")
        group = root / name
        group.mkdir()
        (group / "cpu.max").write_text(f"{quota_us} {_PERIOD_US}")
        (group / "cpu.weight").write_text("10000")
    else:
        group = root / "cpu" / name
        group.mkdir()
        (group / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
        (group / "cpu.cfs_quota_us").write_text(str(quota_us))
        (group / "cpu.shares").write_text("262144")
    return group


def program_within(group: Path, prefix: Path) -> Path:
    """A folder with a slapd that runs in this group, and what belongs to Debian's."""
    for name, owner in (("etc", "/etc/ldap"), ("lib", "/usr/lib/ldap")):
        (prefix / name).mkdir(parents=True)
        (prefix / name / "ldap").symlink_to(owner)
    program = prefix / "sbin" / "slapd"
    program.parent.mkdir()
    program.write_text(
        # Real-time processes have no quota; on two CPUs it comes in uneven parts.
        "#!/bin/sh\nchrt --other --pid 0 $$\n"
        f"echo $$ > {group}/cgroup.procs\n"
        'exec taskset -c 0 /usr/sbin/slapd "$@"\n'
    )
    program.chmod(0o755)
    return prefix


@contextmanager
def index(slower: float, folder: Path) -> Iterator[list[str]]:
    """Two slapds, of which only the old one has an index for what is searched."""
    yield [
        *("--lab", "slapd", "--entries", _ENTRIES),
        *("--old", "lab.cpus=0", "--new", "lab.cpus=0", "--old", _INDEXED),
    ]


SERVERS = {"canned": canned, "slapd": slapd, "index": index}


def gate(
    folder: Path, sides: Sequence[str], limit: str, seed: int
) -> tuple[Mapping[str, Any], float]:
    """gate.json, and what it took."""
    command = [sys.executable, "-m", "ldapslam.cli.main", "gate", "job.yaml", "--json"]
    command += [*sides, "--time", limit, "--seed", str(seed)]
    begun_s = time.monotonic()
    ended = subprocess.run(
        [*command, "--out", f"gate-{seed}"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    if ended.returncode not in (0, 1, 3):
        raise SystemExit(f"{' '.join(command)}: exit status {ended.returncode}")
    return json.loads(ended.stdout), time.monotonic() - begun_s


def plain_answer(found: Mapping[str, Any], folder: Path) -> bool:
    """Whether a script would call it a regression that has run each side once: the
    gate's first pair."""
    from ldapslam.reports.summarise import summarise

    first = {one["side"]: one["run_id"] for one in found["runs"][:2]}
    with Store.open(folder / "results.sqlite", read_only=True) as store:
        sides = {
            side: readings_of(summarise(store, run).figures)
            for side, run in first.items()
        }
    old, new = sides["old"], sides["new"]

    def ratio(name: str) -> float:
        key = METRICS[name].of(_TITLE)
        before, after = (one[key].value if key in one else None for one in (old, new))
        return after / before if before and after else 1.0

    return ratio("throughput") < 1 - _TOLERANCE or ratio("p99") > 1 + _TOLERANCE


def _burn(seed: int) -> None:
    rng = random.Random(seed)
    while True:
        time.sleep(rng.uniform(0, _SPELL_S))
        until_s = time.monotonic() + rng.uniform(0, _SPELL_S)
        while time.monotonic() < until_s:
            pass


@contextmanager
def noise(wanted: bool) -> Iterator[None]:
    process = multiprocessing.get_context("spawn").Process(target=_burn, args=(1,))
    if wanted:
        process.start()
    try:
        yield
    finally:
        if wanted:
            process.terminate()
            process.join()


def measure(
    server: str, slower: float, gates: int, limit: str, metrics: Sequence[str]
) -> dict[str, float]:
    """A column of the table; each gate is a line of JSON on stderr."""
    answers: Counter[str] = Counter()
    took_s, plain = [], 0
    with tempfile.TemporaryDirectory(prefix="slam-gate-") as name:
        folder = Path(name)
        (folder / "job.yaml").write_text(JOB)
        with SERVERS[server](slower, folder) as sides:
            sides += metrics
            for seed in range(gates):
                found, lasted_s = gate(folder, sides, limit, seed)
                answers[found["answer"]] += 1
                took_s.append(lasted_s)
                plain += plain_answer(found, folder / f"gate-{seed}")
                line = {"slower": slower, "seed": seed, "answer": found["answer"]}
                line |= {one["metric"]: one["answer"] for one in found["figures"]}
                print(json.dumps(line), file=sys.stderr, flush=True)
    return {
        "slower by %": slower,
        "gates": gates,
        "regression": answers["regression"],
        "no regression": answers["no regression"],
        "cannot tell": answers["cannot tell"],
        "time s, median": statistics.median(took_s),
        "time s, longest": max(took_s),
        "run each once: regression": plain,
    }


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--server", choices=SERVERS, default="canned")
    parser.add_argument("--gates", type=int, default=20)
    parser.add_argument("--slower", type=float, nargs="+", default=[0, 2, 5, 10, 20])
    parser.add_argument("--time", default="2m", help="what each gate may take")
    parser.add_argument("--noise", action="store_true")
    parser.add_argument("--metric", action="append", default=[])
    chosen = parser.parse_args()
    metrics = [text for one in chosen.metric for text in ("--metric", one)]
    with noise(chosen.noise):
        rows = [
            measure(chosen.server, one, chosen.gates, chosen.time, metrics)
            for one in chosen.slower
        ]
    for name in rows[0]:
        print(f"{name:<26}", *(f"{row[name]:>8,.0f}" for row in rows))


if __name__ == "__main__":
    main()
