# SPDX-License-Identifier: Apache-2.0
"""How often gates are right, and how long they take: against canned servers whose time
for a response is known.

python benchmarks/gate.py [--gates 20] [--slower 0 2 5 10 20] [--time 2m] [--noise]

For each slowdown in %, so many gates of a server against one that is slower by it: how
many call a regression, no regression, or cannot tell, and their time. Beside it what a
plain script would say that runs each side once and compares means: worse by more than
the tolerance, of throughput or p99, or not. With --noise, a process takes a core of
this machine at random times.
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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ldapslam.agent._engine import Responder
from ldapslam.results.store import Store
from ldapslam.studies.answer import operations_of

#: The canned server's time for a response.
_RESPONSE_NS = 400_000
_TOLERANCE = 0.05
#: Longest spells of the noise, on and off.
_SPELL_S = 4.0

JOB = """\
job: gate
targets: {server: "ldap://127.0.0.1:1"}
run: {warm_up: 300ms, duration: 1500ms, interval: 250ms, drain: 1s}
streams:
  - name: readers
    target: server
    load: {closed: {clients: 4}}
    operations: [{search: {base: "dc=example,dc=com"}}]
"""


def gate(
    folder: Path, old: str, new: str, limit: str, seed: int
) -> tuple[Mapping[str, Any], float]:
    """gate.json, and what it took."""
    command = [sys.executable, "-m", "ldapslam.cli.main", "gate", "job.yaml", "--json"]
    command += ["--old", old, "--new", new, "--time", limit, "--seed", str(seed)]
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
    from ldapslam.reports.result import result_of
    from ldapslam.reports.summarise import summarise

    valid = [one for one in found["runs"] if one["counts"]]
    first = {one["side"]: one["run_id"] for one in reversed(valid[:2])}
    with Store.open(folder / "results.sqlite", read_only=True) as store:
        sides = {
            side: next(iter(operations_of(result_of(summarise(store, run))).values()))
            for side, run in first.items()
        }
    old, new = sides["old"], sides["new"]

    def ratio(name: str) -> float:
        before, after = old[name], new[name]
        return after / before if before and after else 1.0

    return (
        ratio("throughput_per_s") < 1 - _TOLERANCE
        or ratio("response_time_p99_us") > 1 + _TOLERANCE
    )


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


def measure(slower: float, gates: int, limit: str) -> dict[str, float]:
    """A column of the table."""
    answers: Counter[str] = Counter()
    took_s, plain = [], 0
    with tempfile.TemporaryDirectory(prefix="slam-gate-") as name:
        folder = Path(name)
        (folder / "job.yaml").write_text(JOB)
        old = Responder(delays=[(1, _RESPONSE_NS)])
        new = Responder(delays=[(1, round(_RESPONSE_NS * (1 + slower / 100)))])
        old.start()
        new.start()
        for seed in range(gates):
            found, lasted_s = gate(folder, old.uri, new.uri, limit, seed)
            answers[found["answer"]] += 1
            took_s.append(lasted_s)
            plain += plain_answer(found, folder / f"gate-{seed}")
        old.stop()
        new.stop()
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
    parser.add_argument("--gates", type=int, default=20)
    parser.add_argument("--slower", type=float, nargs="+", default=[0, 2, 5, 10, 20])
    parser.add_argument("--time", default="2m", help="what each gate may take")
    parser.add_argument("--noise", action="store_true")
    chosen = parser.parse_args()
    with noise(chosen.noise):
        rows = [measure(one, chosen.gates, chosen.time) for one in chosen.slower]
    for name in rows[0]:
        print(f"{name:<26}", *(f"{row[name]:>8,.0f}" for row in rows))


if __name__ == "__main__":
    main()
