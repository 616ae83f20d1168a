# SPDX-License-Identifier: Apache-2.0
"""The temporary folder of a lab, and the programs that this process runs in it.

Programs run in sessions of their own, have no descriptor of this process but their log
and their pid file (pid_files.py), and end with this process: a watcher waits for its
end, and then removes the lab. `leave()` ends the watcher alone.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from ldapslam.base.files import errors_of
from ldapslam.jobs.fields.context import LAB_FOLDER
from ldapslam.lab import pid_files

#: Limit of a program's open files, and so of a server's connections.
OPEN_FILES = 8_192
# The shell keeps its pid when it becomes the program.
_PROGRAM = 'ulimit -S -n "$1" && echo $$ >"$0" && shift && exec "$@"'


class LabFolder:
    """One folder, its watcher and its programs."""

    def __init__(
        self, base: Path | None = None, cpus: frozenset[int] | None = None
    ) -> None:
        """Make the folder below `base`, else below TMPDIR. Its programs run on `cpus`,
        else on those of this process. ConfigError."""
        base = base or Path(tempfile.gettempdir())
        with errors_of(base):
            self.path = Path(tempfile.mkdtemp(prefix=LAB_FOLDER, dir=base))
        self._cpus = cpus
        self._programs: dict[str, subprocess.Popen[bytes]] = {}
        words = [pid_files.__file__, str(os.getpid()), str(self.path)]
        try:
            self._watcher = subprocess.Popen(
                [sys.executable, "-I", "-S", *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )
        except BaseException:
            shutil.rmtree(self.path)
            raise

    def start(
        self, name: str, argv: Sequence[str], log: Path
    ) -> subprocess.Popen[bytes]:
        """Start a program in the background."""
        pid_file = pid_files.pid_file_of(self.path, name)
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        files = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
        with (
            log.open("ab") as output,
            pid_files.locked_pid_file(pid_file) as descriptor,
            _children_on(self._cpus),
        ):
            program = subprocess.Popen(
                ["/bin/sh", "-c", _PROGRAM, str(pid_file), str(files), *argv],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # No ldap.conf or ~/.ldaprc of this machine may reach a lab's slapd.
                env={**os.environ, "LDAPNOINIT": "1"},
                start_new_session=True,
                pass_fds=[descriptor],
            )
        self._programs[name] = program
        return program

    def status(self, name: str) -> int | None:
        """The exit status of a program that has ended, or None while it runs."""
        return self._programs[name].poll()

    def stop(self, name: str, grace_s: float) -> None:
        """Terminate a program, kill it after `grace_s`."""
        pid_files.end([pid_files.pid_file_of(self.path, name)], grace_s)
        self._programs[name].wait()

    def leave(self) -> None:
        """Let the programs run on, and the folder stay, after this process."""
        self._end_watcher()
        for program in self._programs.values():
            # Popen would complain of a child that is not waited for.
            program.returncode = 0

    def close(self) -> None:
        """End all programs and remove the folder; returns when that is done."""
        pid_files.remove_lab(self.path)
        for program in self._programs.values():
            program.wait()
        self._end_watcher()

    def _end_watcher(self) -> None:
        self._watcher.kill()
        self._watcher.wait()


@contextlib.contextmanager
def _children_on(cpus: frozenset[int] | None) -> Iterator[None]:
    """Within, this thread and the children that it starts run on `cpus`."""
    usual = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus or usual)
    try:
        yield
    finally:
        os.sched_setaffinity(0, usual)
