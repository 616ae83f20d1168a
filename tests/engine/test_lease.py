# SPDX-License-Identifier: Apache-2.0
"""Load ends with its lease, and no burst follows a stop of the generator."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ldapslam.agent._engine import Responder
from ldapslam.agent.lease import Lease
from support.engine import S, in_process, open_stream, run, stream
from support.waiting import wait_until

RATE_PER_S = 200


def open_load(uri: str) -> dict[str, Any]:
    return open_stream(uri, RATE_PER_S)


def thinking(uri: str) -> dict[str, Any]:
    return stream(uri, think_time_ns=S // 100)


LOADS = pytest.mark.parametrize("load", [open_load, stream, thinking])
Load = Callable[[str], dict[str, Any]]


def extended(folder: Path, by_s: float) -> Lease:
    lease = Lease(folder)
    lease.extend(time.monotonic_ns() + round(by_s * S))
    return lease


@LOADS
def test_the_load_ends_with_its_lease_and_goes_on_while_that_is_extended(
    responder: Responder, tmp_path: Path, load: Load
) -> None:
    lease = extended(tmp_path, 0.5)

    def extend(_engine: object, t0_ns: int) -> None:
        time.sleep(0.2)
        lease.extend(t0_ns + S)

    outcome = run(
        load(responder.uri), duration_ns=20 * S, lease=tmp_path, during=extend
    )
    outcome.assert_balanced()
    assert 0.9 * S < outcome.snapshots[-1]["end_ns"] < 5 * S
    before = responder.counts()["search"]
    time.sleep(0.1)
    assert responder.counts()["search"] == before == outcome.count("sent")


@LOADS
def test_an_engine_that_stood_still_past_its_lease_sends_nothing_more(
    responder: Responder, tmp_path: Path, load: Load
) -> None:
    lease = extended(tmp_path, 30)
    with in_process(load(responder.uri), duration_ns=20 * S, lease=tmp_path) as (
        pid,
        future,
    ):
        wait_until(lambda: responder.counts()["search"] > 20, "load")
        os.kill(pid, signal.SIGSTOP)
        lease.extend(time.monotonic_ns())
        time.sleep(1.2)
        before = responder.counts()["search"]
        os.kill(pid, signal.SIGCONT)
        outcome = future.result(20)
    # of the turn that it stopped in, a request of each connection
    assert before <= responder.counts()["search"] <= before + 4
    outcome.assert_balanced()


def test_arrivals_of_a_time_that_the_generator_stood_still_are_dropped(
    responder: Responder, tmp_path: Path
) -> None:
    with in_process(open_load(responder.uri), duration_ns=3 * S) as (pid, future):
        wait_until(lambda: responder.counts()["search"] > 20, "load")
        os.kill(pid, signal.SIGSTOP)
        time.sleep(1.5)
        before = responder.counts()["search"]
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.1)
        assert responder.counts()["search"] - before < RATE_PER_S
        outcome = future.result(20)
    outcome.assert_balanced()
    assert 1.4 * RATE_PER_S < outcome.count("dropped") < 2.5 * RATE_PER_S


@pytest.mark.parametrize("until_ns", [-(1 << 63), -1, 0, 1 << 63, (1 << 64) - 1])
def test_a_lease_may_be_extended_to_any_time(tmp_path: Path, until_ns: int) -> None:
    lease = Lease(tmp_path)
    lease.extend(until_ns)
    assert lease.is_over is (until_ns <= 0)
