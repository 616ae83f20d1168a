# SPDX-License-Identifier: Apache-2.0
"""`ldapslam` as users call it: a process, its exit code and its two outputs."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from support.forks import Forked, Forks

COMMAND = (sys.executable, "-m", "ldapslam.cli.main")

# A hung command fails its test, not the whole suite.
TIMEOUT_S = 120

_FORKS = Forks(Path(__file__).with_name("command_program.py"), LDAPNOINIT="1")


def environment(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """Of a user without settings of their own."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("LDAP", "XDG_"))}
    return {**kept, "LDAPNOINIT": "1", **(variables or {})}


def ldapslam(
    *arguments: str | Path,
    cwd: Path | None = None,
    variables: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
    draws: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run one command to its end; a `run` writes HTML and PDF only if it `draws`."""
    words = [*map(str, arguments)]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = _start(words, cwd, variables, out, err, draws=draws)
        try:
            status = process.wait(timeout_s)
        except BaseException:
            process.kill()
            process.wait()
            raise
        texts = [_read(one) for one in (out, err)]
    return subprocess.CompletedProcess(words, status, *texts)


def check_ldapslam(
    *arguments: str | Path, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run one command as `ldapslam` does; it is to end with 0."""
    ended = ldapslam(*arguments, **options)
    assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
    return ended


def _read(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


def _start(
    words: Sequence[str],
    cwd: Path | None,
    variables: Mapping[str, str] | None,
    out: IO[bytes],
    err: IO[bytes],
    *,
    draws: bool = False,
    is_leader: bool = False,
) -> subprocess.Popen[bytes] | Forked:
    """A fork where that is the same. A leader has a session of its own."""
    wanted = environment(variables)
    folder = str(cwd or Path.cwd())
    if _FORKS.can_start(wanted):
        request = {
            "arguments": words,
            "folder": folder,
            "environment": wanted,
            "draws": draws,
            "is_leader": is_leader,
        }
        return _FORKS.start(request, out.fileno(), err.fileno())
    return subprocess.Popen(
        [*COMMAND, *words],
        cwd=folder,
        env=wanted,
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=err,
        start_new_session=is_leader,
    )


class Running:
    """A command in the background, with its outputs in files; a context manager.

    In a process group of its own, as a shell would have it.
    """

    def __init__(
        self,
        *arguments: str | Path,
        cwd: Path,
        name: str = "cli",
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self._stdout, self._stderr = cwd / f"{name}.out", cwd / f"{name}.err"
        with self._stdout.open("wb") as out, self._stderr.open("wb") as err:
            words = [*map(str, arguments)]
            self.process = _start(words, cwd, variables, out, err, is_leader=True)

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    @property
    def stdout(self) -> str:
        return self._stdout.read_text()

    @property
    def stderr(self) -> str:
        return self._stderr.read_text()

    def interrupt(self) -> None:
        """Ctrl-C: SIGINT to the whole process group."""
        os.killpg(self.process.pid, 2)

    def wait(self) -> int:
        return self.process.wait(TIMEOUT_S)

    def wait_for_text(self, text: str) -> None:
        """Until the command has written it to stderr."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while text not in self.stderr:
            assert self.process.poll() is None, f"it has ended: {self.stderr}"
            assert time.monotonic() < deadline_s, f"no {text!r} in: {self.stderr}"
            time.sleep(0.05)
