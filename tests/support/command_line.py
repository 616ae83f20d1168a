# SPDX-License-Identifier: Apache-2.0
"""`ldapslam` as users call it: a process, its exit code and its two outputs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

COMMAND = (sys.executable, "-m", "ldapslam.cli.main")

# A hung command fails its test, not the whole suite.
TIMEOUT_S = 120


def environment(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """Of a user without settings of their own."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("LDAP", "XDG_"))}
    return {**kept, "LDAPNOINIT": "1", **(variables or {})}


def ldapslam(
    *arguments: str | Path,
    cwd: Path | None = None,
    variables: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> subprocess.CompletedProcess[str]:
    """Run one command to its end."""
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        cwd=cwd,
        env=environment(variables),
        capture_output=True,
        text=True,
        timeout=timeout_s,
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
            self.process = subprocess.Popen(
                [*COMMAND, *map(str, arguments)],
                cwd=cwd,
                env=environment(variables),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

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
