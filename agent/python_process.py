# SPDX-License-Identifier: Apache-2.0
"""The processes of Python job types as processes: their end, their use of a CPU, and
what to say of an exception that ends them."""

from __future__ import annotations

import ctypes
import time
import traceback
from pathlib import Path

import ldap

from ldapslam.agent.ldap_access import error_text
from ldapslam.agent.python_job import Client
from ldapslam.jobs import process

EXIT_ORPHANED = process.EXIT_ORPHANED
_PR_SET_TIMERSLACK = 29


class Usage:
    """What the process took of its CPUs since the last interval, of programs that it
    ran included."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._last = self._read()

    def _read(self) -> tuple[int, int]:
        cpu_ns = time.process_time_ns() + self._client._child_cpu_ns
        return cpu_ns, run_queue_ns() + self._client._child_run_queue_ns

    def worker_row(self, wall_ns: int) -> dict[str, int]:
        now = self._read()
        cpu_ns, waited_ns = (
            max(0, b - a) for a, b in zip(self._last, now, strict=True)
        )
        self._last = now
        return {
            "wall_ns": wall_ns,
            # a client has one thing to do at a time: what is not this is waiting
            "busy_ns": min(wall_ns, cpu_ns + waited_ns),
            "spin_ns": 0,
            "cpu_ns": cpu_ns,
            "run_queue_ns": min(wall_ns, waited_ns),
            "loops": 0,
        }


def run_queue_ns(pid: int | str = "self") -> int:
    """Time that a process's main thread was runnable but not running; 0: unknown."""
    try:
        text = Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii")
        return int(text.split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def described(error: BaseException) -> str:
    """An exception in one line, with the place in the class where it was raised."""
    if isinstance(error, ldap.LDAPError):
        text = f"{type(error).__name__}: {error_text(error)}"
    else:
        text = f"{type(error).__name__}: {error}".rstrip(": ")
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_LIBRARIES)]
    if own:
        text += f" ({Path(own[-1].filename).name}:{own[-1].lineno})"
    return text


#: Where no class of a user is.
_LIBRARIES = ("<", str(Path(__file__).parent), str(Path(ldap.__file__).parent))


def end_with_parent(parent: int) -> None:
    """Have the kernel end this process with its parent, and wake it on time."""
    process.end_with_parent(parent)
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1)
