# SPDX-License-Identifier: Apache-2.0
"""Which threads of the engine have real-time priority, and how late one woke up."""

from __future__ import annotations

import os

import pytest

from ldapslam.agent._engine import HiccupMeter, Responder
from support.engine import (
    BUSY_LATER,
    MS,
    collect,
    new_engine,
    open_stream,
    sleep_until,
    start,
    steady,
    stream,
)


def threads() -> set[int]:
    return {int(name) for name in os.listdir("/proc/self/task")}


@pytest.mark.usefixtures("real_time")
def test_workers_of_open_streams_alone_keep_real_time_priority(
    responder: Responder,
) -> None:
    """Closed ones have it when they begin; threads that set connections up never."""
    before = threads()
    engine = new_engine(
        [
            stream(responder.uri, name="closed", think_time_ns=5 * MS),
            open_stream(
                responder.uri,
                100,
                profile=[steady(100), BUSY_LATER],
                name="open",
                reconnect_operations=3,
            ),
        ],
        workers=2,
        duration_ns=600 * MS,
        realtime=True,
    )
    t0_ns = start(engine)
    sleep_until(t0_ns + 200 * MS)
    own = threads() - before
    policies = [os.sched_getscheduler(thread) for thread in own]
    outcome = collect(engine)
    assert outcome.facts["realtime"]
    # two workers of each stream, and at least one that sets connections up
    assert policies.count(os.SCHED_FIFO) == 2
    assert len(policies) >= 5


def test_a_meter_tells_how_late_its_thread_woke_up() -> None:
    meter = HiccupMeter(realtime=False)
    longest_ns, stalled_ns = 0, 0
    while not longest_ns:
        longest_ns, stalled_ns = meter.take()
    assert stalled_ns == 0 or stalled_ns >= 1_000_000
    assert (longest_ns >= 1_000_000) is (stalled_ns > 0)


def test_a_meter_is_closed_once() -> None:
    meter = HiccupMeter(realtime=True)
    meter.close()
    meter.close()
    with pytest.raises(RuntimeError, match="closed"):
        meter.take()
