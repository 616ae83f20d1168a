# SPDX-License-Identifier: Apache-2.0
"""Runs that wait: for maintenance, a time, another run."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from ldapslam.base.errors import ConfigError
from ldapslam.proto import operator_pb2 as pb
from ldapslam.proto import schedule_pb2
from support.fake_queue import (
    FakeQueue,
    create,
    fires,
    in_a_queue,
    moment,
    outcomes,
    schedule_request,
    tick_every,
)

BEGIN = moment("2026-03-01 11:30")
NOON = moment("2026-03-01 12:00")
S = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
NS = 1_000_000_000

ONCE = schedule_pb2.MISFIRE_POLICY_RUN_ONCE


def window(**fields: object) -> schedule_pb2.MaintenanceWindow:
    times = {"from_utc": "2026-03-01T12:05:00Z", "until_utc": "2026-03-01T14:00:00Z"}
    return schedule_pb2.MaintenanceWindow(**{"name": "move", **times, **fields})  # type: ignore[arg-type]


def test_a_window_that_is_over_is_refused_and_one_that_is_open_is_kept(
    tmp_path: Path,
) -> None:
    async def test(queue: FakeQueue) -> None:
        assert queue.scheduler is not None
        schedules = queue.scheduler.schedules
        over = window(from_utc="2026-03-01T09:00:00Z", until_utc="2026-03-01T11:30:00Z")
        with pytest.raises(ConfigError, match="over at 2026-03-01 11:30:00 UTC"):
            await schedules.add_window(over, queue.now)
        assert not schedules.windows
        open_now = window(from_utc="2026-03-01T09:00:00Z")
        await schedules.add_window(open_now, queue.now)
        assert len(schedules.windows) == 1

    in_a_queue(tmp_path, BEGIN, test)


def test_no_run_begins_in_maintenance_or_reaches_into_it(tmp_path: Path) -> None:
    async def test(queue: FakeQueue) -> None:
        assert queue.scheduler is not None
        await queue.scheduler.schedules.add_window(window(), queue.now)
        once = await create(
            queue, schedule_request("once", cron="0 12 * * *", misfire=ONCE)
        )
        skip = await create(
            queue, schedule_request("skip", uri="ldap://ds2", cron="0 12 * * *")
        )
        by_hand = await queue.submit(uri="ldap://ds3", duration="40m")
        await queue.tick()
        await queue.advance()
        # 11:30 and forty minutes
        assert by_hand not in queue.begun
        short = await queue.submit(uri="ldap://ds4", duration="20m")
        await queue.advance()
        assert short in queue.begun
        await tick_every(queue, 30 * S, HOUR)
        assert outcomes(queue, skip) == [("12:00", "missed")]
        assert outcomes(queue, once) == [("12:00", "submitted")]
        [run_id] = fires(queue, once)[0].run_ids
        assert "maintenance window 'move'" in queue.explained[run_id]
        await queue.new_scheduler()
        await tick_every(queue, 30 * S, 2 * HOUR)
        assert queue.begun[run_id] == queue.begun[by_hand] == moment("2026-03-01 14:00")

    in_a_queue(tmp_path, BEGIN, test)


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
