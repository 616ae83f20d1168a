# SPDX-License-Identifier: Apache-2.0
"""What `ldapslam data generate` costs, beside other generators of people.

    python benchmarks/generate.py [--rounds 5] [--entries 1000000] [--folder DIR]
                                  [--markdown]

A round runs all of them one after the other, each in a process of its own: ours with
one thread and with two, to /dev/null and to a file of --folder; a plain Python program
that makes entries of the same lines; and what `dsctl ldifgen users` calls, where lib389
is installed. The slow ones make a tenth of the entries. The table has medians over the
rounds; times are those of the generation, without the start of Python.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_NULL = Path("/dev/null")
_SLOW_SHARE = 10
_LIB389 = """
import sys, types
from lib389.dbgen import dbgen_users
paths = types.SimpleNamespace(data_dir="/usr/share")
owner = types.SimpleNamespace(ds_paths=paths, userid="root")
dbgen_users(owner, int(sys.argv[1]), sys.argv[2], "dc=example,dc=com")
"""


@dataclass(frozen=True)
class Cost:
    """Of one generation."""

    entries: int
    size_bytes: int
    wall_s: float
    cpu_s: float
    rss_mib: float


def ours(entries: int, output: Path, threads: int) -> tuple[int, int]:
    """Entries and bytes of a generation."""
    from ldapslam.dataset.generate import Generation, generate

    done = generate(
        Generation("people", output=output, entries=entries, threads=threads)
    )
    return done.entries, done.size_bytes


def plain_python(entries: int, output: Path, _: int) -> tuple[int, int]:
    """The lines of the example template `people`, as one would write them in Python."""
    from ldapslam.dataset.generate import names_file

    first = names_file("first").read_text().split()
    last = names_file("last").read_text().split()
    folder = names_file("first").parent
    cities = (folder / "cities").read_text().splitlines()
    streets = (folder / "streets").read_text().splitlines()
    titles = ["Engineer"] * 5 + ["Analyst"] * 3 + ["Manager"] * 2 + ["Director"]
    rng = random.Random(1)
    digits = rng.randrange
    size = 0
    with output.open("w") as ldif:
        for number in range(entries):
            given, sn = first[number % len(first)], last[number // len(first)]
            lines = [
                f"dn: uid=user.{number},ou=people,dc=example,dc=com\n"
                "objectClass: top\nobjectClass: person\n"
                "objectClass: organizationalPerson\nobjectClass: inetOrgPerson\n"
                f"uid: user.{number}\ngivenName: {given}\nsn: {sn}\ncn: {given} {sn}\n"
                f"initials: {given[0]}{sn[0]}\nemployeeNumber: {number}\n"
                f"mail: user.{number}@example.com\nuserPassword: password\n"
                f"telephoneNumber: +1 {digits(1000):03}-{digits(1000):03}-"
                f"{digits(10000):04}\n"
            ]
            if rng.random() < 0.6:
                lines.append(
                    f"mobile: +1 {digits(1000):03}-{digits(1000):03}-"
                    f"{digits(10000):04}\n"
                )
            lines.append(
                f"title: {rng.choice(titles)}\n"
                f"street: {digits(1, 1000)} {rng.choice(streets)}\n"
                f"l: {rng.choice(cities)}\npostalCode: {digits(100000):05}\n"
                f"description: This is the description for {given} {sn}.\n\n"
            )
            size += ldif.write("".join(lines))
    return entries, size


def dsctl(entries: int, output: Path, _: int) -> tuple[int, int]:
    subprocess.run(
        ["/usr/bin/python3", "-c", _LIB389, str(entries), str(output)], check=True
    )
    return entries, output.stat().st_size


@dataclass(frozen=True)
class Contestant:
    title: str
    make: Callable[[int, Path, int], tuple[int, int]]
    threads: int = 1
    to_file: bool = False
    share: int = 1


CONTESTANTS = {
    "null-1": Contestant("ours, 1 thread, /dev/null", ours),
    "null-2": Contestant("ours, 2 threads, /dev/null", ours, 2),
    "file-1": Contestant("ours, 1 thread, file", ours, to_file=True),
    "file-2": Contestant("ours, 2 threads, file", ours, 2, to_file=True),
    "python": Contestant("plain Python, /dev/null", plain_python, share=_SLOW_SHARE),
    "dsctl": Contestant(
        "dsctl ldifgen users, file", dsctl, to_file=True, share=_SLOW_SHARE
    ),
}


def child(name: str, entries: int, folder: Path) -> None:
    """Make the entries once and print the cost."""
    one = CONTESTANTS[name]
    output = folder / "benchmark.ldif" if one.to_file else _NULL
    before = _cpu_s()
    start_s = time.monotonic()
    made, size_bytes = one.make(entries // one.share, output, one.threads)
    wall_s = time.monotonic() - start_s
    peak_kib = max(
        resource.getrusage(who).ru_maxrss
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    cost = Cost(made, size_bytes, wall_s, _cpu_s() - before, peak_kib / 1024)
    print(json.dumps(vars(cost)))


def _cpu_s() -> float:
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(
            resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        )
    )


def measure(name: str, entries: int, folder: Path) -> Cost:
    output = subprocess.run(
        [
            sys.executable,
            __file__,
            f"--child={name}",
            f"--entries={entries}",
            f"--folder={folder}",
        ],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    (folder / "benchmark.ldif").unlink(missing_ok=True)
    return Cost(**json.loads(output.splitlines()[-1]))


def has_lib389() -> bool:
    found = subprocess.run(
        ["/usr/bin/python3", "-c", "import lib389.dbgen"], capture_output=True
    )
    return found.returncode == 0


def rows(costs: dict[str, list[Cost]]) -> list[tuple[str, ...]]:
    table: list[tuple[str, ...]] = []
    for name, rounds in costs.items():

        def median(
            figure: Callable[[Cost], float], rounds: list[Cost] = rounds
        ) -> float:
            return statistics.median(map(figure, rounds))

        table.append(
            (
                CONTESTANTS[name].title,
                f"{median(lambda one: one.entries / one.wall_s):,.0f}",
                f"{median(lambda one: one.entries / one.cpu_s):,.0f}",
                f"{median(lambda one: one.cpu_s / one.entries * 1e6):.2f}",
                f"{median(lambda one: one.size_bytes / one.entries):.0f}",
                f"{median(lambda one: one.rss_mib):.0f}",
            )
        )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--child", choices=CONTESTANTS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child, arguments.entries, arguments.folder)
        return
    names = [name for name in CONTESTANTS if name != "dsctl" or has_lib389()]
    costs: dict[str, list[Cost]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        for _ in range(arguments.rounds):
            for name in names:
                costs[name].append(measure(name, arguments.entries, Path(folder)))
    head = ("", "entries/s", "per core", "CPU µs/entry", "bytes/entry", "RSS MiB")
    table = rows(costs)
    print(f"{arguments.rounds} rounds, {os.cpu_count()} CPUs\n")
    if arguments.markdown:
        for row in (head, ("---", *["---:"] * (len(head) - 1)), *table):
            print(f"| {' | '.join(row)} |")
        return
    for row in (head, *table):
        print(f"{row[0]:<28}" + "".join(f"{cell:>14}" for cell in row[1:]))


if __name__ == "__main__":
    main()
