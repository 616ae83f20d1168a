# SPDX-License-Identifier: Apache-2.0
"""What the process of a Python client counts beside its requests."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from ldapslam.agent.python_jobs.client import ClientProcess
from ldapslam.agent.python_jobs.job import PythonJob
from ldapslam.jobs.rates.profile import FOREVER_NS, hold
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


def test_arrivals_of_the_load_are_sent_after_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    profile = (hold(100 / 10**9, FOREVER_NS),)
    recorder = new_recorder(profile=profile, max_backlog=10, grace_ns=1_000 * MS)
    recorder.set_span(1_000 * MS, 1_035 * MS, False)
    sent_ms: list[float] = []
    process = object.__new__(ClientProcess)
    process._recorder = recorder
    monkeypatch.setattr(process, "_client", SimpleNamespace(), raising=False)
    monkeypatch.setattr(process, "_make_usable", lambda: 0)
    monkeypatch.setattr(process, "_session", lambda job, due: sent_ms.append(due / MS))
    monkeypatch.setattr(time, "monotonic_ns", lambda: 1_500 * MS)
    process._run_open(PythonJob({}))
    assert sent_ms == [1_000, 1_010, 1_020, 1_030]
