# SPDX-License-Identifier: Apache-2.0
"""When did the host leave the tests alone?

A virtual machine stands still while its host runs others: for milliseconds, many times
a second on a busy one. What is received then says nothing of who sent it. So meters of
their own, one on each CPU with real-time priority, say when nothing was in the way, and
a test looks at those moments only. They know nothing of what is tested.
"""

from __future__ import annotations

import os
import threading
import time

import numpy as np
import numpy.typing as npt
import pytest

from ldapslam.agent._engine import HiccupMeter

Times = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_WINDOW_S = 0.02
#: Longest that a meter may wake up late.
_LIMIT_NS = 200_000
#: What was held up is sent by then.
_AFTER_S = 0.005
_LEAST_SHARE = 0.2


class QuietMoments:
    """A context manager, around what is tested."""

    def __init__(self) -> None:
        self._meters: list[HiccupMeter] = []
        #: Ends of the windows (CLOCK_MONOTONIC, s), and whether each was quiet.
        self._ends_s: list[float] = []
        self._quiet: list[bool] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> QuietMoments:
        own = os.sched_getaffinity(0)
        try:
            for cpu in sorted(own):
                os.sched_setaffinity(0, {cpu})
                self._meters.append(HiccupMeter(realtime=True))
        finally:
            os.sched_setaffinity(0, own)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        for meter in self._meters:
            meter.close()

    def _watch(self) -> None:
        while not self._is_over.wait(_WINDOW_S):
            worst_ns = max(meter.take()[0] for meter in self._meters)
            self._ends_s.append(time.monotonic_ns() / 1e9)
            self._quiet.append(worst_ns <= _LIMIT_NS)

    def since(self, start_s: float, end_s: float) -> tuple[Times, Times]:
        """Beginnings and ends of the quiet spans between two times, in s after the
        first. Skips the test where they are too little of it."""
        begins, ends = [], []
        for i in range(1, len(self._ends_s)):
            begin_s = self._ends_s[i - 1] + (0 if self._quiet[i - 1] else _AFTER_S)
            begin_s, last_s = max(begin_s, start_s), min(self._ends_s[i], end_s)
            if self._quiet[i] and last_s > begin_s:
                begins.append(begin_s - start_s)
                ends.append(last_s - start_s)
        share = (sum(ends) - sum(begins)) / (end_s - start_s)
        print(f"the host was quiet for {share:.0%} of {end_s - start_s:.0f} s")
        if share < _LEAST_SHARE:
            pytest.skip(f"the host left this machine alone for {share:.0%} of the time")
        return np.array(begins), np.array(ends)


def within(times: Times, begins: Times, ends: Times) -> Flags:
    """Which of the times lie in one of the spans."""
    span = np.searchsorted(begins, times, "right") - 1
    inside: Flags = (span >= 0) & (times <= ends[np.maximum(span, 0)])
    return inside


def on_quiet_time(times: Times, begins: Times, ends: Times) -> Times:
    """The times that lie in a span, on an axis of the spans alone, end to end. What is
    a Poisson process stays one."""
    span = np.searchsorted(begins, times, "right") - 1
    inside = within(times, begins, ends)
    before = np.concatenate(([0.0], np.cumsum(ends - begins)))
    moved: Times = (before[span] + times - begins[span])[inside]
    return moved
