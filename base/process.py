# SPDX-License-Identifier: Apache-2.0
"""Child processes: made by fork, and ended with their parent.

A fork shares its parent's imports, so it starts in milliseconds. It is safe only while
the parent has one thread: before gRPC and event loops.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import resource
import select
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

#: Exit status of a process whose parent is gone.
EXIT_ORPHANED = 3
_EXIT_RAISED = 70

_PR_SET_PDEATHSIG = 1
#: First and last address of the arguments, in /proc/PID/stat after the name.
_ARGUMENTS = slice(45, 47)


def end_with_parent(
    parent: int | None = None, number: signal.Signals = signal.SIGKILL
) -> None:
    """Have the kernel send this process a signal when its parent ends; exit when
    `parent` has ended already.

    The signal follows the parent's *thread* that made the process: that must live on.
    """
    parent = os.getppid() if parent is None else parent
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, number) != 0:
        sys.stderr.write(f"no parent-death signal: errno {ctypes.get_errno()}\n")
    if os.getppid() != parent:
        os._exit(EXIT_ORPHANED)


def leave_no_core_dump() -> None:
    """Of this process and its children: their memory has passwords and keys."""
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    # 1 keeps the kernel also from dumping to a program, which 0 does not; see core(5)
    limit = 0 if most == 0 else 1
    resource.setrlimit(resource.RLIMIT_CORE, (limit, limit))


def has_threads() -> bool:
    """Whether this process has more threads than its first, Python's or not."""
    return len(os.listdir("/proc/self/task")) > 1


class Fork:
    """A child of this process that runs a function and exits with what it returns."""

    def __init__(
        self,
        run: Callable[[], int],
        title: Sequence[str],
        descriptors: Sequence[int],
    ) -> None:
        """`title` is what `ps` shows; `descriptors` become stdin, stdout and stderr."""
        if has_threads():
            raise RuntimeError("a process with threads must not fork")
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            _be_child(run, title, descriptors)
        self._pidfd = os.pidfd_open(self.pid)
        self._status: int | None = None

    def poll(self) -> int | None:
        return self.wait(0.0)

    def wait(self, timeout_s: float | None = None) -> int | None:
        if self._status is None and select.select([self._pidfd], [], [], timeout_s)[0]:
            _, status = os.waitpid(self.pid, 0)
            self._status = os.waitstatus_to_exitcode(status)
            os.close(self._pidfd)
        return self._status

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


def _be_child(
    run: Callable[[], int], title: Sequence[str], descriptors: Sequence[int]
) -> NoReturn:
    status = _EXIT_RAISED
    try:
        # moved first: one may have the number of another's target
        for place, one in enumerate(
            [fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 3) for one in descriptors]
        ):
            os.dup2(one, place)
            os.close(one)
        _close_inherited()
        with contextlib.suppress(OSError, ValueError):
            _show_title(title)
        status = run()
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _close_inherited() -> None:
    """Close inherited descriptors that Python did not open itself."""
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if int(name) > 2 and os.get_inheritable(int(name)):
                os.close(int(name))


def _show_title(words: Sequence[str]) -> None:
    """Have `ps` show these arguments, in place of the parent's."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    first, last = map(int, fields[_ARGUMENTS])
    if last > first > 0:
        ctypes.memset(first, 0, last - first)
        text = os.fsencode("\0".join(words))[: last - first - 1]
        ctypes.memmove(first, text, len(text))
