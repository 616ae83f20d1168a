# SPDX-License-Identifier: Apache-2.0
"""Takes samples of monitors at the times of a grid, each monitor in its own thread.

A server that does not answer delays no one else's samples; the grid's times that have
passed meanwhile have no sample, as nothing was seen then.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ldapslam.agent.monitoring.base import Monitor
from ldapslam.agent.monitoring.server_readings import failure_of
from ldapslam.base.errors import LdapSlamError
from ldapslam.results.records import MonitorDescription, MonitorSample

_log = logging.getLogger(__name__)

#: A server that does not answer is waited for; more of them than that, one by one.
_OPENED_AT_A_TIME = 32
#: What a monitor gets to end the sample that it is at.
_JOIN_S = 5.0


@dataclass(frozen=True, slots=True)
class Watched:
    """A monitor, as it described itself when it was opened."""

    monitor: Monitor
    description: MonitorDescription


class Sampling:
    """Open, start, take, stop: in this order, from one thread."""

    def __init__(self, interval_ns: int) -> None:
        self._interval_ns = interval_ns
        self._watched: list[Watched] = []
        self._threads: list[threading.Thread] = []
        self._over = threading.Event()
        self._taken: queue.SimpleQueue[MonitorSample] = queue.SimpleQueue()

    @property
    def has_monitors(self) -> bool:
        return bool(self._watched)

    def open(self, monitors: Iterable[Monitor]) -> list[Watched]:
        """All of them, at the same time; those that cannot be are in the log, and
        described as what they cannot see."""
        with ThreadPoolExecutor(_OPENED_AT_A_TIME, "monitor") as pool:
            self._watched += pool.map(_opened, monitors)
        return list(self._watched)

    def start(self, t0_mono_ns: int) -> None:
        """The first samples are those of T0; once."""
        if self._threads:
            return
        for one in self._watched:
            thread = threading.Thread(
                target=self._sample, args=(one.monitor, t0_mono_ns), daemon=True
            )
            thread.name = f"monitor {one.monitor.name}"
            thread.start()
            self._threads.append(thread)

    def taken(self) -> list[MonitorSample]:
        """The samples since the last call."""
        samples = []
        while True:
            try:
                samples.append(self._taken.get_nowait())
            except queue.Empty:
                return samples

    def stop(self) -> None:
        """No more samples; one that is under way is awaited for a while."""
        self._over.set()
        until_s = time.monotonic() + _JOIN_S
        stuck: list[str] = []
        for thread in self._threads:
            thread.join(max(0.0, until_s - time.monotonic()))
            if thread.is_alive():
                stuck.append(thread.name)
        for one in self._watched:
            if f"monitor {one.monitor.name}" not in stuck:
                one.monitor.close()
        if stuck:
            _log.warning("left: %s", ", ".join(stuck))

    def _sample(self, monitor: Monitor, t0_mono_ns: int) -> None:
        every_ns = monitor.every_ns or self._interval_ns
        at_ns = 0
        while not self._over.wait(_seconds_until(t0_mono_ns + at_ns)):
            begun_ns = time.monotonic_ns()
            values: Sequence[float] = ()
            failure: str | None = None
            try:
                values = monitor.sample()
            except LdapSlamError as error:
                failure = str(error)
            except Exception as error:
                _log.exception("monitor %s", monitor.name)
                failure = f"{type(error).__name__}: {error}"
            ended_ns = time.monotonic_ns()
            self._taken.put(
                MonitorSample(
                    monitor.name,
                    begun_ns - t0_mono_ns,
                    ended_ns - begun_ns,
                    values,
                    failure,
                )
            )
            passed = (ended_ns - t0_mono_ns) // every_ns + 1
            at_ns = max(at_ns + every_ns, passed * every_ns)


def _opened(monitor: Monitor) -> Watched:
    facts: Mapping[str, object]
    try:
        facts = monitor.open()
    except Exception as error:
        facts = failure_of(f"monitor {monitor.name}", error)
    return Watched(monitor, MonitorDescription(monitor.name, monitor.metrics, facts))


def _seconds_until(mono_ns: int) -> float:
    return max(0.0, (mono_ns - time.monotonic_ns()) / 1e9)
