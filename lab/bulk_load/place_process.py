# SPDX-License-Identifier: Apache-2.0
"""The process that has an operator's program prepare a place, and gives it back.

    python -I place_process.py PROGRAM [ARGUMENT…]

Runs `PROGRAM prepare ARGUMENT…`, whose last line is a folder, and answers {"folder":
path} or {"error": text} on standard output. When standard input ends, as it does with
its parent, it runs `PROGRAM release ARGUMENT… FOLDER` and answers {} or {"error":
text}. Nothing of ldapslam is imported.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO

#: A program may make a file system.
TIMEOUT_S = 600.0
#: A lab whose user was killed removes itself; the place is its own until then.
_EMPTY_S = 40.0
_LOOK_S = 0.1
_SAID_CHARACTERS = 500
IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE)


class HookFailed(Exception):
    """A sentence about what the program did."""


def run_hook(program: str, step: str, *arguments: str) -> str:
    """What the program printed; HookFailed."""
    # files: what it leaves running may hold a pipe for ever
    with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as complaints:
        try:
            done = subprocess.run(
                [program, step, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=complaints,
                timeout=TIMEOUT_S,
                preexec_fn=default_signals,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise HookFailed(
                f"{program!r} could not {step} a place: {error}"
            ) from error
        if done.returncode != 0:
            said = text_of(complaints).strip()[-_SAID_CHARACTERS:]
            raise HookFailed(
                f"{program!r} ended with {done.returncode} when it was to {step} a "
                f"place: {said or 'it said nothing'}"
            )
        return text_of(printed)


def text_of(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def default_signals() -> None:
    """What is ignored here is not in the program."""
    for number in IGNORED:
        signal.signal(number, signal.SIG_DFL)


def prepared(program: str, arguments: list[str]) -> str:
    lines = run_hook(program, "prepare", *arguments).strip().splitlines()
    place = lines[-1].strip() if lines else ""
    if not (place.startswith("/") and Path(place).is_dir()):
        raise HookFailed(
            f"{program!r} prepared no place: its last line is no folder: {place!r}"
        )
    return place


def wait_until_empty(place: Path) -> None:
    """Of labs; others' files are none of ours."""
    deadline_s = time.monotonic() + _EMPTY_S
    while time.monotonic() < deadline_s:
        with contextlib.suppress(OSError):
            if not any(place.glob("ldapslam-lab-*")):
                return
        time.sleep(_LOOK_S)


def answer(**content: str) -> None:
    # the parent may be gone
    with contextlib.suppress(OSError):
        os.write(1, json.dumps(content).encode() + b"\n")


def main() -> int:
    # the end of standard input is the only word to go
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    program, *arguments = sys.argv[1:]
    try:
        place = prepared(program, arguments)
    except HookFailed as error:
        answer(error=str(error))
        return 1
    answer(folder=place)
    while os.read(0, 4096):
        pass
    wait_until_empty(Path(place))
    try:
        run_hook(program, "release", *arguments, place)
    except HookFailed as error:
        answer(error=str(error))
        return 1
    answer()
    return 0


if __name__ == "__main__":
    sys.exit(main())
