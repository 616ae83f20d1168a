# SPDX-License-Identifier: Apache-2.0
"""The agent's host: facts, and its load. Reads /proc, /sys and the cgroup.

What a host does not have is None or left out. The sampler runs in the engine's process,
for its intervals; the meter in the agent's.
"""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import os
import platform
import shutil
import socket
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import ldap
import psutil

from ldapslam.agent.spool import Spool
from ldapslam.base.clock_id import boot_id
from ldapslam.proto.agent_pb2 import HostLoad
from ldapslam.proto.common_pb2 import HostInterval

_CLOCK_SOURCE = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
_MACHINE_ID = Path("/etc/machine-id")
_CGROUP_ROOT = Path("/sys/fs/cgroup")


def usable_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0))


def host_facts() -> dict[str, Any]:
    """Facts that do not change while the agent runs."""
    api = ldap.get_option(ldap.OPT_API_INFO)
    major, minor = divmod(api["vendor_version"], 10000)
    return {
        "host_name": socket.gethostname(),
        "boot_id": boot_id() or None,
        "cpu_model": _cpu_model(),
        "cores": psutil.cpu_count(logical=True),
        "cores_usable": usable_cores(),
        "cgroup_cpu_max": _text(_cgroup() / "cpu.max"),
        "memory_bytes": psutil.virtual_memory().total,
        "kernel": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "clock_source": _text(_CLOCK_SOURCE),
        "python": platform.python_version(),
        "libldap": f"{api['vendor_name']} {major}.{minor // 100}.{minor % 100}",
        "python_ldap": ldap.__version__,
    }


def host_id() -> str:
    """The same text for all agents of one host, containers included.

    The kernel's boot id: containers share it, while /etc/machine-id is copied with
    images. Hashed, because systemd asks that machine ids not be shown.
    """
    own = boot_id() or _text(_MACHINE_ID) or socket.gethostname()
    return hashlib.sha256(f"ldapslam {own}".encode()).hexdigest()[:16]


def shares_host(addresses: Iterable[str]) -> bool:
    """True when one of these addresses, or socket paths, is this host's own."""
    own = {
        address.address.partition("%")[0]
        for interface in psutil.net_if_addrs().values()
        for address in interface
    }
    return any(
        address.startswith("/")
        or address in own
        or ipaddress.ip_address(address.partition("%")[0]).is_loopback
        for address in addresses
    )


class HostMeter:
    """How busy the host of an agent is, asked about once a second."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._cpu = psutil.cpu_times()

    def load(self) -> HostLoad:
        """The load since the last call. May block where the spool's file system
        hangs."""
        cpu = psutil.cpu_times()
        before, self._cpu = self._cpu, cpu
        load = HostLoad(
            memory_available_bytes=psutil.virtual_memory().available,
            spool_bytes=self._spool.size_bytes,
            spool_reports=len(self._spool),
        )
        utilisation, _ = _cpu_shares(before, cpu)
        if utilisation is not None:
            load.cpu_utilisation = utilisation
        with contextlib.suppress(OSError):
            load.spool_free_bytes = shutil.disk_usage(self._spool.folder).free
        return load


class HostSampler:
    """The load since the last sample, or since its creation; `hiccups` tells the
    longest and the sum of the stalls since its last call."""

    def __init__(self, hiccups: Callable[[], tuple[int, int]] | None = None) -> None:
        self._hiccups = hiccups
        if hiccups is not None:
            hiccups()
        self._cpu = psutil.cpu_times()
        self._throttled_ns = _throttled_ns()

    def sample(self) -> HostInterval:
        cpu, throttled_ns = psutil.cpu_times(), _throttled_ns()
        interval = HostInterval()
        utilisation, steal = _cpu_shares(self._cpu, cpu)
        if utilisation is not None:
            interval.cpu_utilisation = utilisation
        if steal is not None:
            interval.steal_share = steal
        if throttled_ns is not None and self._throttled_ns is not None:
            interval.throttled_ns = max(0, throttled_ns - self._throttled_ns)
        if self._hiccups is not None:
            interval.hiccup_max_ns, interval.stalled_ns = self._hiccups()
        self._cpu, self._throttled_ns = cpu, throttled_ns
        return interval


def _cpu_shares(before: Any, after: Any) -> tuple[float | None, float | None]:
    """Ratios of all cores' time between two psutil.cpu_times: not idle, and stolen."""
    # user and nice include guest time
    names = [name for name in after._fields if not name.startswith("guest")]
    spent = {name: getattr(after, name) - getattr(before, name) for name in names}
    total = sum(spent.values())
    if total <= 0:
        return None, None
    idle = spent["idle"] + spent.get("iowait", 0.0)
    steal = _share(spent["steal"] / total) if "steal" in spent else None
    return _share(1 - idle / total), steal


def _share(value: float) -> float:
    # counters in ticks may step back by one
    return min(1.0, max(0.0, value))


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def _cpu_model() -> str | None:
    for line in (_text(Path("/proc/cpuinfo")) or "").splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("model name", "Model", "cpu model"):
            return value.strip()
    return platform.processor() or None


def _cgroup() -> Path:
    """Folder of this process's cgroup: v2, else v1's cpu controller."""
    for line in (_text(Path("/proc/self/cgroup")) or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            return _CGROUP_ROOT / path.lstrip("/")
        if "cpu" in controllers.split(","):
            return _CGROUP_ROOT / "cpu" / path.lstrip("/")
    return _CGROUP_ROOT


def _throttled_ns() -> int | None:
    for line in (_text(_cgroup() / "cpu.stat") or "").splitlines():
        key, _, value = line.partition(" ")
        if key == "throttled_usec":
            return int(value) * 1000
        if key == "throttled_time":
            return int(value)
    return None
