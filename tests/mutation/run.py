# SPDX-License-Identifier: Apache-2.0
"""Can the tests fail? Puts small bugs in, one at a time, and runs the tests nearest.

    python tests/mutation/run.py [FILE-OR-PROMISE …]

mutants.toml has them: a file, the text that is there once, what it becomes, and the
tests that are to notice. Works in this checkout, which must be clean, and leaves it as
it was; a mutant of C is built. Exit code 1 when one survives that is not known to. A
mutant whose text is not there any more is an error: the code has changed, and it must
follow.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("mutants.toml")
#: A mutant that hangs is noticed.
_LIMIT_S = 900.0


@dataclass(frozen=True)
class Mutant:
    promise: str
    file: str
    was: str
    becomes: str
    tests: tuple[str, ...]
    #: Why no test can notice it; empty: one is to.
    survives: str = ""

    @property
    def path(self) -> Path:
        return ROOT / self.file

    @property
    def is_c(self) -> bool:
        return self.path.suffix in (".c", ".h")

    @property
    def title(self) -> str:
        line = self.path.read_text().partition(self.was)[0].count("\n") + 1
        first = self.becomes.strip().partition("\n")[0] or "(nothing)"
        return f"{self.file}:{line} {first}"


def mutants(chosen: Sequence[str]) -> list[Mutant]:
    """Those of the files or promises that begin so; all without any."""
    with LIST.open("rb") as file:
        found = [
            Mutant(**{**one, "promise": promise, "tests": tuple(one["tests"])})
            for promise, ones in tomllib.load(file).items()
            for one in ones
        ]
    for one in found:
        if (number := one.path.read_text().count(one.was)) != 1:
            raise SystemExit(f"{one.file}: {number} times there: {one.was!r}")
    return [
        one
        for one in found
        if not chosen or (one.file.startswith(tuple(chosen)) or one.promise in chosen)
    ]


@contextmanager
def mutated(mutant: Mutant) -> Iterator[None]:
    """Within, the bug is in. Builds and Python's caches notice by the file's time."""
    before = mutant.path.read_text()
    try:
        mutant.path.write_text(before.replace(mutant.was, mutant.becomes))
        yield
    finally:
        mutant.path.write_text(before)


def _build() -> bool:
    command = (sys.executable, "-m", "pip", "install", "-q", "--no-deps")
    return _passes((*command, "--no-build-isolation", "--editable", "."))


def _passes(command: Sequence[str], failed: int = 1) -> bool:
    """False: it ended with this status, or hangs. SystemExit for any other status."""
    try:
        ended = subprocess.run(
            command, cwd=ROOT, capture_output=True, timeout=_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    if ended.returncode not in (0, failed):
        raise SystemExit(f"{' '.join(command)}: exit status {ended.returncode}")
    return ended.returncode == 0


def noticed(tests: Sequence[str]) -> bool:
    pytest = (sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider")
    return not _passes((*pytest, "-m", "not accuracy and not long", *tests))


def survives(mutant: Mutant) -> bool:
    try:
        with mutated(mutant):
            if mutant.is_c and not _build():
                raise SystemExit(f"{mutant.title}: does not compile")
            return not noticed(mutant.tests)
    finally:
        if mutant.is_c and not _build():
            raise SystemExit(f"{mutant.file}: does not build without the mutant")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("chosen", nargs="*")
    chosen = mutants(parser.parse_args().chosen)
    if not _passes(("git", "diff", "--quiet", "HEAD")):
        raise SystemExit("the checkout has changes: commit them first")
    unknown = known = 0
    began_s = time.monotonic()
    if noticed(sorted({test for one in chosen for test in one.tests})):
        raise SystemExit("the tests fail without any mutant")
    for mutant in chosen:
        is_alive = survives(mutant)
        is_known = bool(mutant.survives)
        word = "killed"
        if is_alive:
            word = "known to survive" if is_known else "SURVIVES"
        print(f"{word:16} {mutant.promise}: {mutant.title}", flush=True)
        unknown += is_alive and not is_known
        known += is_alive and is_known
    killed = len(chosen) - unknown - known
    print(
        f"{killed} of {len(chosen)} killed, {known} known to survive, {unknown} not, "
        f"in {time.monotonic() - began_s:.0f} s"
    )
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
