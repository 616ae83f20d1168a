# SPDX-License-Identifier: Apache-2.0
"""What the kernel says of this host, and of processes on it: psutil and /proc.

Counters of CPU time are in seconds, so that their rate is in cores. Of disks and of
network interfaces, those are watched that had been used when the monitor was opened;
loop and RAM disks are left out, and so are partitions, whose traffic is their disk's.
"""

from __future__ import annotations

import math
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from ldapslam.agent.host import host_facts
from ldapslam.agent.monitoring.base import MISSING, STARTED, Metric
from ldapslam.agent.monitoring.process_table import (
    ProcessId,
    boot_s,
    command_line,
    figures_of,
    identify,
    processes_of,
)
from ldapslam.base.errors import TargetError

_VIRTUAL_DISKS = ("loop", "ram", "zram", "sr", "fd")
_SYS_BLOCK = Path("/sys/block")
_SNMP = Path("/proc/net/snmp")
#: Field of psutil -> metric, unit, and what its values are multiplied with.
_DISK = {
    "read_bytes": ("disk_read", "bytes", 1.0),
    "write_bytes": ("disk_written", "bytes", 1.0),
    "read_count": ("disk_reads", "1", 1.0),
    "write_count": ("disk_writes", "1", 1.0),
    "busy_time": ("disk_busy", "s", 1e-3),
}
_NETWORK = {
    "bytes_sent": ("network_sent", "bytes"),
    "bytes_recv": ("network_received", "bytes"),
    "packets_sent": ("network_packets_sent", "packets"),
    "packets_recv": ("network_packets_received", "packets"),
    "errin": ("network_errors_in", "packets"),
    "errout": ("network_errors_out", "packets"),
    "dropin": ("network_drops_in", "packets"),
    "dropout": ("network_drops_out", "packets"),
}
_MEMORY = ("total", "available", "used", "cached", "buffers")


def host_name() -> str:
    return socket.gethostname()


class HostMonitor:
    """CPU, memory, disks and network of the host that the agent is on."""

    def __init__(self, name: str, every_ns: int) -> None:
        self.name = name
        self.every_ns = every_ns
        self.metrics: tuple[Metric, ...] = ()
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

    def close(self) -> None:
        """Nothing is held."""


_Part = tuple[list[Metric], Callable[[], list[float]]]


def _cpu() -> _Part:
    # guest time is already in user and nice
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

    def read() -> list[float]:
        found = _disk_counters()
        return [
            getattr(found[disk], field) * scale if disk in found else MISSING
            for disk in disks
            for field, (_, _, scale) in _DISK.items()
        ]

    return [
        Metric(f"{name}[{disk}]", unit, "counter")
        for disk in disks
        for name, unit, _ in _DISK.values()
    ], read


def _disk_counters() -> dict[str, Any]:
    """None of a host without disks is an empty mapping."""
    return dict(psutil.disk_io_counters(perdisk=True) or {})


def _network() -> _Part:
    interfaces = [
        interface
        for interface, counters in sorted(psutil.net_io_counters(pernic=True).items())
        if counters.packets_sent + counters.packets_recv
    ]

    def read() -> list[float]:
        found = psutil.net_io_counters(pernic=True)
        return [
            float(getattr(found[interface], field)) if interface in found else MISSING
            for interface in interfaces
            for field in _NETWORK
        ]

    return [
        Metric(f"{name}[{interface}]", unit, "counter")
        for interface in interfaces
        for name, unit in _NETWORK.values()
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


class ProcessMonitor:
    """One process; when it has ended, the one that was started in its place, which has
    the same command line."""

    metrics = _PROCESS_METRICS

    def __init__(self, name: str, every_ns: int, program: str, pid: int | None) -> None:
        self.name = name
        self.every_ns = every_ns
        self._program = program
        self._process = None if pid is None else identify(pid)
        self._command: tuple[str, ...] = () if pid is None else command_line(pid)
        self._boot_s = 0.0

    def open(self) -> Mapping[str, Any]:
        self._boot_s = boot_s()
        process = self._process or self._successor()
        if process is None:
            raise TargetError(
                f"no process of {self._program!r} is running on {host_name()!r}",
                hint="`processes` has names of programs, such as slapd or ns-slapd",
            )
        self._process, self._command = process, command_line(process.pid)
        # no arguments: they may be secrets
        return {"pid": process.pid, "command": "".join(self._command[:1])}

    def sample(self) -> Sequence[float]:
        figures = self._figures()
        if figures is None:
            pid = self._process.pid if self._process else None
            self._process = self._successor() or self._process
            figures = self._figures()
            if figures is None:
                raise TargetError(f"process {pid} of {self._program!r} has ended")
        return [figures.get(metric.name, math.nan) for metric in self.metrics]

    def close(self) -> None:
        """Nothing is held."""

    def _figures(self) -> dict[str, float] | None:
        return figures_of(self._process, self._boot_s) if self._process else None

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
