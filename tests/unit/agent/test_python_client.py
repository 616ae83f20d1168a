# SPDX-License-Identifier: Apache-2.0
"""What the process of a Python client counts beside its requests."""

from __future__ import annotations

import os
import time
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest

from ldapslam.agent.lease import Lease
from ldapslam.agent.python_jobs.client import ClientProcess
from ldapslam.agent.python_jobs.job import PythonJob
from ldapslam.base.errors import LdapSlamError
from ldapslam.jobs.rates.profile import FOREVER_NS, hold
from support.python_client import Busy, client_of
from support.shared_recorder import closed, new_recorder

MS = 1_000_000
S = 1_000 * MS
T0 = 50 * S


@pytest.mark.parametrize(
    ("pause_ms", "backlog_ms", "lag_ms"),
    [
        # the second could be sent after 12 ms, and was after 32; the third: 24 and 64
        (0, [0, 2, 4], [0, 20, 40]),
        # 17 and 37; 34 and 74
        (5, [0, 7, 14], [0, 20, 40]),
    ],
)
def test_what_a_class_takes_itself_is_send_lag_of_the_next_arrivals(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pause_ms: int,
    backlog_ms: list[int],
    lag_ms: list[int],
) -> None:
    now_ns = T0

    def pass_by(duration_ns: float) -> None:
        nonlocal now_ns
        now_ns += round(duration_ns)

    # arrivals after 0, 10 and 20 ms
    profile = [hold(100 / S, FOREVER_NS)]
    recorder = new_recorder(profile=profile, max_backlog=10, total_operations=3)
    recorder.set_span(T0, T0 + 10 * S, False)
    monkeypatch.setattr(time, "monotonic_ns", lambda: now_ns)
    client = client_of(recorder)
    monkeypatch.setattr(client, "wait", lambda duration_s: pass_by(duration_s * 1e9))
    process = object.__new__(ClientProcess)
    process._recorder, process._client = recorder, client
    process._lease = Lease(tmp_path)
    process._lease.extend(1 << 62)
    process._pid, process._sessions = os.getpid(), 0
    monkeypatch.setattr(process, "_make_usable", lambda: 0)
    process._run_open(Busy({"pass_by": pass_by, "pause_s": pause_ms / 1e3}))
    found = closed(recorder).histograms()
    for name, expected in (("backlog_wait", backlog_ms), ("send_lag", lag_ms)):
        histogram = found[name, "succeeded"]
        assert histogram.total == len(expected)
        assert histogram.mean() == pytest.approx(sum(expected) * MS / len(expected))
        assert histogram.max_ns == max(expected) * MS


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
    until_ns = process._tally("down_ns", 970 * MS, wait_s=0.25)
    now_ns += 10 * MS
    process._tally("down_ns", until_ns, wait_s=0.0)
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
    monkeypatch.setattr(process, "_client", client_of(recorder), raising=False)
    monkeypatch.setattr(process, "_make_usable", lambda: 0)
    monkeypatch.setattr(process, "_session", lambda job, due: sent_ms.append(due / MS))
    monkeypatch.setattr(time, "monotonic_ns", lambda: 1_500 * MS)
    process._run_open(PythonJob({}))
    assert sent_ms == [1_000, 1_010, 1_020, 1_030]


@pytest.mark.parametrize("failures", [0, 2])
@pytest.mark.parametrize("is_lost", [True, False])
def test_a_client_is_free_when_its_next_connection_is_made(
    monkeypatch: pytest.MonkeyPatch, *, is_lost: bool, failures: int
) -> None:
    now_ns = 1_000 * MS
    process = object.__new__(ClientProcess)
    client = SimpleNamespace(_connection=object(), _is_lost=is_lost, random=Random(1))
    policy = SimpleNamespace(reconnect_operations=1, reconnect_ns=0)

    def connect() -> None:
        nonlocal now_ns, failures
        now_ns += 10 * MS
        failures -= 1
        if failures >= 0:
            raise LdapSlamError("refused")
        client._connection, process._connected_ns = object(), now_ns

    for name, value in {
        "_client": client,
        "_plan": SimpleNamespace(connection=policy),
        "_class": PythonJob,
        "_recorder": new_recorder(),
        "_sessions": 1,
        "_connected_ns": 0,
        "_connect": connect,
        "_disconnect": lambda: setattr(client, "_connection", None),
        "_tally": lambda counter, since_ns, wait_s: now_ns,
    }.items():
        monkeypatch.setattr(process, name, value, raising=False)
    monkeypatch.setattr(time, "monotonic_ns", lambda: now_ns)
    attempts = failures + 1
    assert process._make_usable() == 1_000 * MS + attempts * 10 * MS == now_ns
