# SPDX-License-Identifier: Apache-2.0
"""Runs that wait: for a time, for another run."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from ldapslam.proto import operator_pb2 as pb
from ldapslam.proto import schedule_pb2
from support.fake_queue import (
    FakeQueue,
    in_a_queue,
    moment,
    tick_every,
)

BEGIN = moment("2026-03-01 11:30")
NOON = moment("2026-03-01 12:00")
S = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
NS = 1_000_000_000

ONCE = schedule_pb2.MISFIRE_POLICY_RUN_ONCE


def test_a_run_waits_for_its_time_and_for_another_run(tmp_path: Path) -> None:
    async def test(queue: FakeQueue) -> None:
        first = await queue.submit(not_before_utc="2026-03-01T12:00:00Z")
        after = {
            name: await queue.submit(
                uri=f"ldap://{name}", after_run=first, after_if=condition
            )
            for name, condition in {
                "any": pb.RUN_CONDITION_ANY,
                "pass": pb.RUN_CONDITION_PASS,
                "fail": pb.RUN_CONDITION_FAIL,
            }.items()
        }
        queue.verdict = "FAIL"
        await queue.tick()
        assert queue.explained[first] == "waits for 2026-03-01 12:00:00 UTC"
        assert f"waits for the end of run {first}" in queue.explained[after["pass"]]
        await tick_every(queue, 10 * S, 40 * MINUTE)
        assert queue.begun[first] == NOON
        await queue.new_scheduler()
        await tick_every(queue, 10 * S, 10 * MINUTE)
        assert set(queue.begun) == {first, after["any"], after["fail"]}
        assert "ended as FAIL" in queue.dropped[after["pass"]]

    in_a_queue(tmp_path, BEGIN, test)


def test_the_end_of_a_chain_that_was_dropped_is_dropped(tmp_path: Path) -> None:
    async def test(queue: FakeQueue) -> None:
        first = await queue.submit()
        passing = pb.RUN_CONDITION_PASS
        second = await queue.submit(after_run=first, after_if=passing)
        third = await queue.submit(after_run=second, after_if=passing)
        queue.verdict = "INVALID"
        await tick_every(queue, 10 * S, 20 * MINUTE)
        assert list(queue.dropped) == [second, third]
        assert "cancelled without a verdict" in queue.dropped[third]

    in_a_queue(tmp_path, BEGIN, test)
