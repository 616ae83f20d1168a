# SPDX-License-Identifier: Apache-2.0
"""What the process of a Python client counts beside its requests."""

from __future__ import annotations

import time

import pytest

from ldapslam.agent.python_jobs.client import ClientProcess
from support.shared_recorder import closed, new_recorder

MS = 1_000_000


def test_an_outage_is_counted_as_it_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ns = 1_000 * MS
    counted_ms: list[float] = []
    recorder = new_recorder()
    process = object.__new__(ClientProcess)
    process._recorder = recorder

    def wait_until(due_ns: int) -> None:
        nonlocal now_ns
        counted_ms.append(closed(recorder).stream["down_ns"] / MS)
        now_ns = due_ns

    monkeypatch.setattr(time, "monotonic_ns", lambda: now_ns)
    monkeypatch.setattr(process, "_wait_until", wait_until)
    # an attempt failed after 30 ms, the next one comes 250 ms later and takes 10 ms
    until_ns = process._tally_down(970 * MS, wait_s=0.25)
    now_ns += 10 * MS
    process._tally_down(until_ns, wait_s=0.0)
    counted_ms.append(closed(recorder).stream["down_ns"] / MS)
    assert counted_ms == [30, 100, 100, 60]
