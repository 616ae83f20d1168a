# SPDX-License-Identifier: Apache-2.0
"""Pid files of a lab's programs, and the end of all that runs in a lab's folder.

A program's process holds a lock on its pid file (flock(2)) until it ends, however it
ends, and writes its pid before the program begins. A locked file thus has the pid of a
running process: a later process with the same pid gets no signal.

    locked ──> pid written ──> the program runs ──> unlocked: it has ended

Run as a script, this file is a lab's watcher: `python -I -S pid_files.py PARENT FOLDER`
waits for the end of the process that made the lab, then removes the lab. It imports
nothing of ldapslam, so it starts in milliseconds.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

_LOOK_S = 0.001
_SUFFIX = ".pid"


def pid_file_of(folder: Path, program: str) -> Path:
    """The pid file of a program of the lab in `folder`."""
    return folder / f"{program}{_SUFFIX}"


@contextlib.contextmanager
def locked_pid_file(path: Path) -> Iterator[int]:
    """The descriptor of an empty pid file, which stays locked while this process or one
    that inherits it has it open. BlockingIOError when the program runs."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.truncate(descriptor, 0)
        yield descriptor
    finally:
        os.close(descriptor)


def running_pid(pid_file: Path) -> int | None:
    """The pid of a program; None when it has ended or was never started."""
    with contextlib.suppress(FileNotFoundError), pid_file.open() as file:
        while _is_locked(file.fileno()):
            if text := file.read():
                return int(text)
            time.sleep(_LOOK_S)  # it is about to write its pid
    return None


def end(pid_files: Iterable[Path], grace_s: float) -> None:
    """Terminate programs, and kill them after `grace_s`; return when all have ended."""
    opened = map(_open_process, pid_files)
    processes = [process for process in opened if process is not None]
    for process in processes:
        _send(process, signal.SIGTERM)
        # A process that somebody has stopped would never see the SIGTERM.
        _send(process, signal.SIGCONT)
    deadline_s = time.monotonic() + grace_s
    for process in processes:
        left_s = max(deadline_s - time.monotonic(), 0)
        if not _has_ended(process, left_s):
            _send(process, signal.SIGKILL)
            _has_ended(process)
        os.close(process)


def _has_ended(process: int, timeout_s: float | None = None) -> bool:
    """Wait for it. Unlike select(), poll() takes descriptors above 1023, too."""
    poll = select.poll()
    poll.register(process, select.POLLIN)
    return bool(poll.poll(None if timeout_s is None else timeout_s * 1000))


def remove_lab(folder: Path) -> None:
    """Kill all programs of the lab in `folder` and remove the folder.

    A 389-DS that ends by itself takes seconds to save data that are removed then.
    """
    end(folder.glob(f"*{_SUFFIX}"), grace_s=0.0)
    shutil.rmtree(folder, ignore_errors=True)
    # Semaphores of servers that were killed: their names contain the folder's.
    for semaphore in Path("/dev/shm").glob(f"*{folder.name}*"):
        semaphore.unlink(missing_ok=True)


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _open_process(pid_file: Path) -> int | None:
    """A descriptor of a program's process (pidfd_open(2)); None when it has ended."""
    pid = running_pid(pid_file)
    if pid is None:
        return None
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    # The file is still locked: the pid has not been taken by a later process.
    if running_pid(pid_file) == pid:
        return process
    os.close(process)
    return None


def _send(process: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(process, number)


def main() -> None:
    parent, folder = int(sys.argv[1]), Path(sys.argv[2])
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(ProcessLookupError):
        process = os.pidfd_open(parent)
        if os.getppid() == parent:  # else it has ended, and its pid was taken
            _has_ended(process)
    remove_lab(folder)


if __name__ == "__main__":
    main()
