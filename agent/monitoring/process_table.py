# SPDX-License-Identifier: Apache-2.0
"""A process by /proc: found by its program's name, known again by when it started.

What may not be read (the files and the I/O of another user's process) is missing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import psutil

from ldapslam.base.uri import DEFAULT_PORTS

_PROC = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
#: Of `stat`, behind the name in brackets: proc(5) counts from 3 there.
_MINFLT, _MAJFLT, _UTIME, _STIME, _THREADS, _START = (
    place - 3 for place in (10, 12, 14, 15, 20, 22)
)


@dataclass(frozen=True, slots=True)
class ProcessId:
    """One process: its number is another's one day, with another start."""

    pid: int
    #: In ticks since the host's boot.
    start_ticks: int


def processes_of(program: str) -> list[ProcessId]:
    """Those whose command has this name, by their start."""
    found = []
    for pid in _pids():
        if program in _names(pid) and (one := identify(pid)) is not None:
            found.append(one)
    return sorted(found, key=lambda one: (one.start_ticks, one.pid))


def listening_at(uris: Iterable[str]) -> set[int]:
    """Processes that serve one of the URIs on this host; without those of other users,
    unless this is root's process."""
    ports: set[int] = set()
    paths: set[str] = set()
    for uri in uris:
        scheme, _, place = uri.partition("://")
        if scheme == "ldapi":
            paths.add(unquote(place))
        else:
            port = place.rpartition(":")[2] if ":" in place.rpartition("]")[2] else ""
            ports.add(int(port or DEFAULT_PORTS[scheme]))
    # an address is a pair, a path or nothing: more than the stubs know
    sockets: list[Any] = psutil.net_connections("tcp")
    local: list[Any] = psutil.net_connections("unix") if paths else []
    return {
        one.pid
        for one in sockets
        if one.pid and one.status == psutil.CONN_LISTEN and one.laddr.port in ports
    } | {one.pid for one in local if one.pid and one.laddr in paths}


def identify(pid: int) -> ProcessId | None:
    """None when there is none, or it is a zombie."""
    fields = _stat(pid)
    if fields is None or fields[0] in (b"Z", b"X"):
        return None
    return ProcessId(pid, int(fields[_START]))


def command_line(pid: int) -> tuple[str, ...]:
    """Its arguments; empty when there is no such process."""
    try:
        text = (_PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return ()
    return tuple(os.fsdecode(one) for one in text.split(b"\0") if one)


def boot_s() -> float:
    """When the host began, in s since 1970, to a second."""
    for line in (_PROC / "stat").read_bytes().splitlines():
        if line.startswith(b"btime "):
            return float(line.split()[1])
    return 0.0


def figures_of(process: ProcessId, boot_time_s: float) -> dict[str, float] | None:
    """What the kernel says of it, by metric; None when it has ended."""
    fields = _stat(process.pid)
    if fields is None or fields[0] in (b"Z", b"X"):
        return None
    if int(fields[_START]) != process.start_ticks:
        return None
    figures = {
        "started": boot_time_s + process.start_ticks / _TICKS_PER_S,
        "cpu_user": int(fields[_UTIME]) / _TICKS_PER_S,
        "cpu_system": int(fields[_STIME]) / _TICKS_PER_S,
        "threads": float(fields[_THREADS]),
        "minor_faults": float(fields[_MINFLT]),
        "major_faults": float(fields[_MAJFLT]),
    }
    figures |= _memory(process.pid) | _status(process.pid) | _io(process.pid)
    files = _open_files(process.pid)
    return figures if files is None else {**figures, "open_files": float(files)}


def _pids() -> Iterator[int]:
    for name in os.listdir(_PROC):
        if name.isdigit():
            yield int(name)


def _names(pid: int) -> set[str]:
    """The kernel's (which is cut at 15 characters), and that of the command."""
    names = set()
    try:
        names.add(os.fsdecode((_PROC / str(pid) / "comm").read_bytes().rstrip(b"\n")))
    except OSError:
        return names
    if arguments := command_line(pid):
        names.add(Path(arguments[0]).name)
    return names


def _stat(pid: int) -> list[bytes] | None:
    try:
        text = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    # the name may have spaces and brackets
    return text.rpartition(b")")[2].split() or None


def _memory(pid: int) -> dict[str, float]:
    try:
        pages = (_PROC / str(pid) / "statm").read_bytes().split()
    except OSError:
        return {}
    size, resident, shared = (int(one) * _PAGE_BYTES for one in pages[:3])
    return {
        "memory_virtual": float(size),
        "memory_resident": float(resident),
        "memory_shared": float(shared),
    }


_STATUS_KEYS = {
    b"VmData": ("memory_data", 1024),
    b"VmStk": ("memory_stack", 1024),
    b"VmSwap": ("memory_swapped", 1024),
}


def _status(pid: int) -> dict[str, float]:
    """What `status` alone has."""
    found = {}
    for key, words in _lines(_PROC / str(pid) / "status"):
        if key in _STATUS_KEYS:
            name, scale = _STATUS_KEYS[key]
            found[name] = float(int(words[0]) * scale)
    return found


def _io(pid: int) -> dict[str, float]:
    found = dict(_lines(_PROC / str(pid) / "io"))
    return {
        name: float(found[key][0])
        for key, name in (
            (b"read_bytes", "disk_read"),
            (b"write_bytes", "disk_written"),
            (b"syscr", "reads"),
            (b"syscw", "writes"),
        )
        if key in found
    }


def _lines(path: Path) -> Iterator[tuple[bytes, list[bytes]]]:
    """`key: value` lines; none when the file may not be read."""
    try:
        text = path.read_bytes()
    except OSError:
        return
    for line in text.splitlines():
        key, colon, rest = line.partition(b":")
        if colon and (words := rest.split()):
            yield key, words


def _open_files(pid: int) -> int | None:
    folder = _PROC / str(pid) / "fd"
    try:
        # Linux 6.2 and later have the number there; before, it is zero
        return folder.stat().st_size or len(os.listdir(folder))
    except OSError:
        return None
