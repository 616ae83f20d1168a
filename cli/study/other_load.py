# SPDX-License-Identifier: Apache-2.0
"""What a gate's host does beside the gate, whose labs, coordinator and agents are all
descendants of this process."""

from __future__ import annotations

import contextlib

import psutil


class OtherLoad:
    """Measures it from its creation on."""

    def __init__(self) -> None:
        self._every_s, self._used_s, self._own_s = _cpu_seconds()

    @property
    def share(self) -> float | None:
        """Of the CPU time of all cores, what other processes have used; None before the
        clock of that has ticked."""
        every_s, used_s, own_s = _cpu_seconds()
        if every_s <= self._every_s:
            return None
        others_s = (used_s - self._used_s) - (own_s - self._own_s)
        return min(1.0, max(0.0, others_s / (every_s - self._every_s)))


def _cpu_seconds() -> tuple[float, float, float]:
    """CPU time so far: of all cores, used or not; of all processes; of this process and
    its descendants, also of those that have ended."""
    of_host = psutil.cpu_times()
    this, own_s = psutil.Process(), 0.0
    for one in (this, *this.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            own_s += sum(one.cpu_times()[:4])  # with those of children that have ended
    every_s = sum(of_host) - of_host.guest - of_host.guest_nice
    return every_s, of_host.user + of_host.nice + of_host.system, own_s
