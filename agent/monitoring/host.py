# SPDX-License-Identifier: Apache-2.0
"""Monitors of this host and its processes: psutil and /proc.

CPU times are counters in seconds, so their rate is in cores. Disks and network
interfaces count when they were in use as the monitor was opened; loop and RAM disks and
partitions do not. What may not be read (another user's files and I/O) is missing.
"""

from __future__ import annotations

import math
import os
import socket
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from ldapslam.agent.host import host_facts
from ldapslam.agent.monitoring.reading import MISSING, Monitor
from ldapslam.base.errors import TargetError
from ldapslam.base.uri import host_and_port, socket_path
from ldapslam.results.records import STARTED, Metric

_VIRTUAL_DISKS = ("loop", "ram", "zram", "sr", "fd")
_SYS_BLOCK = Path("/sys/block")
_SNMP = Path("/proc/net/snmp")
#: psutil field -> metric, unit, scale.
_DISK = {
    "read_bytes": ("disk_read", "bytes", 1.0),
    "write_bytes": ("disk_written", "bytes", 1.0),
    "read_count": ("disk_reads", "1", 1.0),
    "write_count": ("disk_writes", "1", 1.0),
    "busy_time": ("disk_busy", "s", 1e-3),
}
_NETWORK = {
    "bytes_sent": ("network_sent", "bytes", 1.0),
    "bytes_recv": ("network_received", "bytes", 1.0),
    "packets_sent": ("network_packets_sent", "packets", 1.0),
    "packets_recv": ("network_packets_received", "packets", 1.0),
    "errin": ("network_errors_in", "packets", 1.0),
    "errout": ("network_errors_out", "packets", 1.0),
    "dropin": ("network_drops_in", "packets", 1.0),
    "dropout": ("network_drops_out", "packets", 1.0),
}
_MEMORY = ("total", "available", "used", "cached", "buffers")


def host_name() -> str:
    return socket.gethostname()


class HostMonitor(Monitor):
    """CPU, memory, disks and network of the host that the agent is on."""

    def __init__(self, name: str, every_ns: int) -> None:
        super().__init__(name, every_ns)
        self._readers: list[Callable[[], list[float]]] = []

    def open(self) -> Mapping[str, Any]:
        metrics: list[Metric] = []
        self._readers = []
        for name, reader in (_cpu(), _memory(), _disks(), _network(), _system()):
            metrics += name
            self._readers.append(reader)
        self.metrics = tuple(metrics)
        return host_facts()

    def sample(self) -> Sequence[float]:
        return [value for reader in self._readers for value in reader()]


_Part = tuple[list[Metric], Callable[[], list[float]]]


def _cpu() -> _Part:
    # user and nice include guest time
    names = [
        name for name in psutil.cpu_times()._fields if not name.startswith("guest")
    ]

    def read() -> list[float]:
        times = psutil.cpu_times()
        return [getattr(times, name) for name in names]

    return [Metric(f"cpu_{name}", "s", "counter") for name in names], read


def _memory() -> _Part:
    def read() -> list[float]:
        memory, swap = psutil.virtual_memory(), psutil.swap_memory()
        return [*(float(getattr(memory, name)) for name in _MEMORY), float(swap.used)]

    names = [*(f"memory_{name}" for name in _MEMORY), "swap_used"]
    return [Metric(name, "bytes", "gauge") for name in names], read


def _disks() -> _Part:
    wholes = set(os.listdir(_SYS_BLOCK)) if _SYS_BLOCK.is_dir() else set()
    disks = [
        disk
        for disk, counters in sorted(_disk_counters().items())
        if disk in wholes
        and not disk.startswith(_VIRTUAL_DISKS)
        and counters.read_count + counters.write_count
    ]
    return _devices(disks, _disk_counters, _DISK)


def _disk_counters() -> dict[str, Any]:
    """psutil gives None for a host without disks."""
    return dict(psutil.disk_io_counters(perdisk=True) or {})


def _network() -> _Part:
    def counters() -> dict[str, Any]:
        return dict(psutil.net_io_counters(pernic=True))

    interfaces = [
        interface
        for interface, found in sorted(counters().items())
        if found.packets_sent + found.packets_recv
    ]
    return _devices(interfaces, counters, _NETWORK)


def _devices(
    names: Sequence[str],
    counters: Callable[[], Mapping[str, Any]],
    fields: Mapping[str, tuple[str, str, float]],
) -> _Part:
    def read() -> list[float]:
        found = counters()
        return [
            getattr(found[name], field) * scale if name in found else MISSING
            for name in names
            for field, (_, _, scale) in fields.items()
        ]

    return [
        Metric(f"{metric}[{name}]", unit, "counter")
        for name in names
        for metric, unit, _ in fields.values()
    ], read


def _system() -> _Part:
    """The scheduler, and TCP."""

    def read() -> list[float]:
        stats = psutil.cpu_stats()
        return [
            float(stats.ctx_switches),
            float(stats.interrupts),
            os.getloadavg()[0],
            _retransmitted(),
        ]

    return [
        Metric("context_switches", "1", "counter"),
        Metric("interrupts", "1", "counter"),
        Metric("load_1min", "1", "gauge"),
        Metric("tcp_retransmitted", "segments", "counter"),
    ], read


def _retransmitted() -> float:
    try:
        lines = _SNMP.read_text().splitlines()
    except OSError:
        return MISSING
    rows = [line.split() for line in lines if line.startswith("Tcp:")]
    if len(rows) != 2 or "RetransSegs" not in rows[0]:
        return MISSING
    return float(rows[1][rows[0].index("RetransSegs")])


_PROCESS_METRICS = (
    Metric(STARTED, "s since 1970", "gauge"),
    Metric("cpu_user", "s", "counter"),
    Metric("cpu_system", "s", "counter"),
    Metric("memory_resident", "bytes", "gauge"),
    Metric("memory_virtual", "bytes", "gauge"),
    Metric("memory_shared", "bytes", "gauge"),
    Metric("memory_data", "bytes", "gauge"),
    Metric("memory_stack", "bytes", "gauge"),
    Metric("memory_swapped", "bytes", "gauge"),
    Metric("threads", "1", "gauge"),
    Metric("open_files", "1", "gauge"),
    Metric("disk_read", "bytes", "counter"),
    Metric("disk_written", "bytes", "counter"),
    Metric("reads", "1", "counter"),
    Metric("writes", "1", "counter"),
    Metric("minor_faults", "1", "counter"),
    Metric("major_faults", "1", "counter"),
)


class ProcessMonitor(Monitor):
    """One process; when it has ended, the one that was started in its place, which has
    the same command line."""

    metrics = _PROCESS_METRICS

    def __init__(self, name: str, every_ns: int, program: str, pid: int | None) -> None:
        super().__init__(name, every_ns)
        self._program = program
        self._process = None if pid is None else identify(pid)
        self._command: tuple[str, ...] = () if pid is None else command_line(pid)
        self._boot_s = 0.0

    def open(self) -> Mapping[str, Any]:
        self._boot_s = psutil.boot_time()
        process = self._process or self._successor()
        if process is None:
            raise TargetError(
                f"no process of {self._program!r} is running on {host_name()!r}",
                hint="`processes` has names of programs, such as slapd or ns-slapd",
            )
        self._process, self._command = process, command_line(process.pid)
        # without arguments, which may be secrets
        return {"pid": process.pid, "command": "".join(self._command[:1])}

    def sample(self) -> Sequence[float]:
        statistics = self._statistics()
        if statistics is None:
            pid = self._process.pid if self._process else None
            self._process = self._successor() or self._process
            statistics = self._statistics()
            if statistics is None:
                raise TargetError(f"process {pid} of {self._program!r} has ended")
        return [statistics.get(metric.name, math.nan) for metric in self.metrics]

    def _statistics(self) -> dict[str, float] | None:
        return statistics_of(self._process, self._boot_s) if self._process else None

    def _successor(self) -> ProcessId | None:
        """The latest of the program; of the same command line, once that is known."""
        return next(
            (
                one
                for one in reversed(processes_of(self._program))
                if not self._command or command_line(one.pid) == self._command
            ),
            None,
        )


_PROC = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
#: Fields of `stat` after the name; proc(5) counts from 3 there.
_MINFLT, _MAJFLT, _UTIME, _STIME, _THREADS, _START = (
    place - 3 for place in (10, 12, 14, 15, 20, 22)
)


@dataclass(frozen=True, slots=True)
class ProcessId:
    """One process: its number is another's one day, with another start."""

    pid: int
    start_ticks: int


def processes_of(program: str) -> list[ProcessId]:
    found = [identify(pid) for pid in psutil.pids() if program in _names(pid)]
    return sorted(filter(None, found), key=lambda one: (one.start_ticks, one.pid))


def listening_at(uris: Iterable[str]) -> set[int]:
    """Pids that serve one of the URIs here; of other users only when this is root."""
    ports: set[int] = set()
    paths: set[str] = set()
    for uri in uris:
        if uri.startswith("ldapi:"):
            paths.add(socket_path(uri))
        else:
            ports.add(host_and_port(uri)[1])
    # an address is a pair, a path or empty, which the stubs do not know
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
    return None if fields is None else ProcessId(pid, int(fields[_START]))


def command_line(pid: int) -> tuple[str, ...]:
    """Its arguments; empty when there is no such process."""
    try:
        text = (_PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return ()
    return tuple(os.fsdecode(one) for one in text.split(b"\0") if one)


def statistics_of(process: ProcessId, boot_time_s: float) -> dict[str, float] | None:
    """Metrics of a process; None when it has ended."""
    fields = _stat(process.pid)
    if fields is None or int(fields[_START]) != process.start_ticks:
        return None
    statistics = {
        "started": boot_time_s + process.start_ticks / _TICKS_PER_S,
        "cpu_user": int(fields[_UTIME]) / _TICKS_PER_S,
        "cpu_system": int(fields[_STIME]) / _TICKS_PER_S,
        "threads": float(fields[_THREADS]),
        "minor_faults": float(fields[_MINFLT]),
        "major_faults": float(fields[_MAJFLT]),
    }
    statistics |= _memory_of(process.pid) | _io(process.pid)
    files = _open_files(process.pid)
    return statistics if files is None else {**statistics, "open_files": float(files)}


def _names(pid: int) -> set[str]:
    """The kernel's name (cut at 15 characters), and the command's."""
    names = set()
    try:
        names.add(os.fsdecode((_PROC / str(pid) / "comm").read_bytes().rstrip(b"\n")))
    except OSError:
        return names
    if arguments := command_line(pid):
        names.add(Path(arguments[0]).name)
    return names


def _stat(pid: int) -> list[bytes] | None:
    """None when there is no such process, or it is a zombie."""
    try:
        text = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    # the name may have spaces and brackets
    fields = text.rpartition(b")")[2].split()
    return fields if fields and fields[0] not in (b"Z", b"X") else None


#: Lines of `status`, in KiB; those of one metric are added.
_MEMORY_LINES = {
    b"VmSize": "memory_virtual",
    b"VmRSS": "memory_resident",
    b"RssFile": "memory_shared",
    b"RssShmem": "memory_shared",
    b"VmData": "memory_data",
    b"VmStk": "memory_stack",
    b"VmSwap": "memory_swapped",
}


def _memory_of(pid: int) -> dict[str, float]:
    found: Counter[str] = Counter()
    for key, words in _lines(_PROC / str(pid) / "status"):
        if key in _MEMORY_LINES:
            found[_MEMORY_LINES[key]] += int(words[0]) * 1024
    return {name: float(size) for name, size in found.items()}


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
        # Linux 6.2 and later give the number, earlier ones zero
        return folder.stat().st_size or len(os.listdir(folder))
    except OSError:
        return None
