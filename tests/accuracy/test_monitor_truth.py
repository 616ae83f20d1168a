# SPDX-License-Identifier: Apache-2.0
"""Monitors of processes and hosts against the kernel's other accounts of the same.

CPU time against schedstat, which counts in nanoseconds what stat has in ticks; resident
memory against smaps_rollup, which walks the pages that statm only counts.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.monitored import monitors, opened, sampled

pytestmark = pytest.mark.accuracy

_WINDOW_S = 4.0
_TOLERANCE = 0.02
#: Works for about 6 of 10 ms, and holds 200 MB.
_WORKER = """
import time
held = bytearray(200_000_000)
for place in range(0, len(held), 4096):
    held[place] = 1
print("ready", flush=True)
while True:
    until = time.monotonic() + 0.006
    while time.monotonic() < until:
        pass
    time.sleep(0.004)
"""


@pytest.fixture
def worker() -> Iterator[int]:
    """Its process."""
    command = [sys.executable, "-c", _WORKER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            yield process.pid
        finally:
            process.kill()


def ran_s(pid: int) -> float:
    """CPU time of a process with one thread."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Rss:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("smaps_rollup has no Rss")


def not_idle_s() -> float:
    """CPU time of all kinds but idle ones, of the whole host."""
    words = Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    user, nice, system, _idle, _iowait, *others = (int(word) for word in words)
    return (user + nice + system + sum(others)) / 100


def test_cpu_and_memory_of_a_process_are_those_of_the_kernel(worker: int) -> None:
    wanted = f"[{{host: server, processes: [{Path(sys.executable).name}]}}]"
    (monitor,) = [
        one for one in monitors("ldap://127.0.0.1", wanted) if f"({worker})" in one.name
    ]
    with opened(monitor):
        before, ran_before_s = sampled(monitor), ran_s(worker)
        time.sleep(_WINDOW_S)
        after, ran_after_s = sampled(monitor), ran_s(worker)
        resident = resident_bytes(worker)
    ran = ran_after_s - ran_before_s
    cpu_s = sum(after[name] - before[name] for name in ("cpu_user", "cpu_system"))
    assert ran > _WINDOW_S / 3
    assert cpu_s == pytest.approx(ran, rel=_TOLERANCE)
    assert after["memory_resident"] == pytest.approx(resident, rel=_TOLERANCE)
    assert after["memory_resident"] > 200e6
    assert after["threads"] == 1


def test_cpu_of_the_host_is_that_of_the_kernel(worker: int) -> None:
    (monitor,) = monitors("ldap://127.0.0.1", "[{host: server}]")
    kinds = ("user", "nice", "system", "irq", "softirq", "steal")
    with opened(monitor):
        before, busy_before_s = sampled(monitor), not_idle_s()
        time.sleep(_WINDOW_S)
        after, busy_after_s = sampled(monitor), not_idle_s()
    busy_s = sum(after[f"cpu_{kind}"] - before[f"cpu_{kind}"] for kind in kinds)
    assert busy_s > _WINDOW_S / 3
    assert busy_s == pytest.approx(busy_after_s - busy_before_s, rel=_TOLERANCE)
