# SPDX-License-Identifier: Apache-2.0
"""Schedules carried out: each time once, whatever crashes, in an injected time."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from ldapslam.base.errors import (
    ConfigError,
    JobErrors,
    StoreBusy,
    StoreError,
    TargetError,
)
from ldapslam.coordinator.schedules.schedule import State
from ldapslam.proto import operator_pb2 as pb
from ldapslam.proto import schedule_pb2
from ldapslam.results import schedule_store
from ldapslam.results.audit import AuditRecord
from ldapslam.results.schedule_store import ScheduleRecord
from support.fake_queue import (
    BEGIN,
    FakeQueue,
    create,
    fires,
    moment,
    outcomes,
    schedule_request,
    states,
    tick_every,
)

NOON = moment("2026-03-01 12:00")
S = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
NS = 1_000_000_000

ONCE = schedule_pb2.MISFIRE_POLICY_RUN_ONCE
QUEUE = schedule_pb2.OVERLAP_POLICY_QUEUE
REPLACE = schedule_pb2.OVERLAP_POLICY_REPLACE


async def test_a_run_begins_at_each_time(queue: FakeQueue) -> None:
    schedule_id = await create(queue, schedule_request("hourly", cron="0 * * * *"))
    await tick_every(queue, 20 * S, 3 * HOUR)
    assert outcomes(queue, schedule_id) == [
        (f"{hour}:00", "submitted") for hour in (12, 13, 14)
    ]
    for number, begun in enumerate(queue.begun.values()):
        assert timedelta() <= begun - NOON - number * HOUR < 20 * S
    assert states(queue) == ["finished"] * 3
    assert {record.schedule_id for record in queue.records()} == {schedule_id}


async def change(queue: FakeQueue, name: str, state: State) -> None:
    schedules = queue.scheduler.schedules
    async with queue.scheduler.settled() as now:
        await schedules.set_state(schedules.find(name), state, now)


async def test_a_time_that_passed_while_nobody_was_there_is_missed_and_reported(
    queue: FakeQueue,
) -> None:
    made = {
        name: await create(
            queue,
            schedule_request(
                name, uri=f"ldap://{name}", cron="0 * * * *", misfire=policy
            ),
        )
        for name, policy in {"skip": 0, "once": ONCE}.items()
    }
    await queue.tick()
    queue.now = moment("2026-03-01 15:30")
    await queue.new_scheduler()
    await tick_every(queue, 30 * S, 50 * MINUTE)
    missed = [("12:00", "missed"), ("13:00", "missed"), ("14:00", "missed")]
    on_time = ("16:00", "submitted")
    assert outcomes(queue, made["skip"]) == [*missed, ("15:00", "missed"), on_time]
    assert outcomes(queue, made["once"]) == [
        *missed,
        ("15:00", "submitted"),
        on_time,
    ]
    assert fires(queue, made["skip"])[0].detail == "3:30:30 late"


async def test_a_clock_that_jumps_back_runs_nothing_twice(queue: FakeQueue) -> None:
    schedule_id = await create(
        queue, schedule_request("quarters", duration="1m", cron="*/15 * * * *")
    )
    await tick_every(queue, 10 * S, HOUR)
    before = outcomes(queue, schedule_id)
    queue.now -= 50 * MINUTE
    await queue.new_scheduler()
    await tick_every(queue, 10 * S, 49 * MINUTE)
    assert outcomes(queue, schedule_id) == before
    await tick_every(queue, 10 * S, 20 * MINUTE)
    assert outcomes(queue, schedule_id) == [*before, ("12:45", "submitted")]


@pytest.mark.parametrize(
    ("overlap", "hourly", "stored"),
    [
        (0, ["submitted", "overlapped"] * 2, ["finished", "running"]),
        (REPLACE, ["submitted"] * 4, ["cancelled"] * 3 + ["running"]),
    ],
    ids=["skip", "replace"],
)
async def test_an_overlap_leaves_the_time_out_or_replaces_the_run_before(
    queue: FakeQueue,
    overlap: schedule_pb2.OverlapPolicy,
    hourly: list[str],
    stored: list[str],
) -> None:
    request = schedule_request(
        "long", duration="90m", cron="0 * * * *", overlap=overlap
    )
    schedule_id = await create(queue, request)
    await tick_every(queue, 30 * S, 3.5 * HOUR)
    assert [outcome for _, outcome in outcomes(queue, schedule_id)] == hourly
    assert states(queue) == stored


async def test_an_overlap_may_wait_for_the_run_before_even_on_shared_targets(
    queue: FakeQueue,
) -> None:
    request = schedule_request("long", duration="90m", cron="0 * * * *", overlap=QUEUE)
    schedule_id = await create(queue, request)
    await queue.tick_at(NOON)
    await queue.tick_at(NOON + HOUR)
    first, second = (fire.run_ids[0] for fire in fires(queue, schedule_id))
    # without the fake coordinator's lock on the target
    run = queue.runs[first]
    run.submission = replace(run.submission, targets=frozenset())
    await queue.tick_at(NOON + 89 * MINUTE)
    assert second not in queue.begun
    assert first in queue.explained[second]
    # a coordinator that starts anew knows it too
    await queue.new_scheduler()
    await queue.tick_at(NOON + 90 * MINUTE)
    assert second not in queue.begun
    await tick_every(queue, 10 * S, 2 * MINUTE)
    assert second in queue.begun


async def test_times_in_a_pause_are_not_made_up_for(queue: FakeQueue) -> None:
    request = schedule_request("h", cron="0 * * * *", misfire=ONCE, paused=True)
    schedule_id = await create(queue, request)
    await queue.tick_at(NOON)
    await change(queue, "h", State.ACTIVE)
    await tick_every(queue, 30 * S, HOUR)
    await change(queue, "h", State.PAUSED)
    # which survives a restart
    await queue.new_scheduler()
    await tick_every(queue, 10 * MINUTE, 2 * HOUR)
    await change(queue, "h", State.ACTIVE)
    await tick_every(queue, 30 * S, HOUR)
    assert outcomes(queue, schedule_id) == [
        ("13:00", "submitted"),
        ("16:00", "submitted"),
    ]


async def test_a_schedule_is_over_when_its_last_time_passed_in_a_pause(
    queue: FakeQueue,
) -> None:
    until_utc = "2026-03-01T13:00:00Z"
    await create(queue, schedule_request("h", cron="0 * * * *", until_utc=until_utc))
    await change(queue, "h", State.PAUSED)
    await queue.tick_at(NOON + 2 * HOUR)
    assert queue.scheduler.schedules.find("h").state is State.PAUSED
    await change(queue, "h", State.ACTIVE)
    await queue.tick()
    assert queue.scheduler.schedules.find("h").state is State.OVER
    assert queue.records() == []


async def test_a_submission_that_fails_is_reported(queue: FakeQueue) -> None:
    schedule_id = await create(queue, schedule_request("h", cron="0 * * * *"))
    queue.error = TargetError("no such directory")
    await queue.tick_at(NOON)
    queue.error = None
    await queue.tick_at(NOON + HOUR)
    assert outcomes(queue, schedule_id) == [
        ("12:00", "failed"),
        ("13:00", "submitted"),
    ]
    assert fires(queue, schedule_id)[0].detail == "no such directory"


@pytest.mark.parametrize(("hours", "outcome"), [(0, "submitted"), (2, "missed")])
async def test_a_submission_is_tried_again_when_the_store_was_busy_not_hours_later(
    queue: FakeQueue, hours: int, outcome: str
) -> None:
    schedule_id = await create(queue, schedule_request("h", cron="0 12 * * *"))
    queue.error = StoreBusy("results.sqlite", 10)
    for second in (0, 1):
        with pytest.raises(StoreBusy):
            await queue.tick_at(NOON + second * S)
    assert outcomes(queue, schedule_id) == [("12:00", "submitting")]
    queue.error, queue.now = None, NOON + 2 * S + hours * HOUR
    if hours:
        # a crash left it
        await queue.new_scheduler()
    await queue.tick()
    assert outcomes(queue, schedule_id) == [("12:00", outcome)]
    assert len(queue.begun) == (outcome == "submitted")


async def test_a_time_that_was_settled_without_an_answer_has_its_run(
    queue: FakeQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule_id = await create(queue, schedule_request("h", cron="0 12 * * *"))
    settle = schedule_store.settle

    def without_answer(*args: Any) -> Any:
        settle(*args)
        raise StoreError("terminating connection")

    with monkeypatch.context() as patch:
        patch.setattr(schedule_store, "settle", without_answer)
        with pytest.raises(StoreError, match="terminating"):
            await queue.tick_at(NOON)
    await queue.tick_at(NOON + S)
    assert outcomes(queue, schedule_id) == [("12:00", "submitted")]
    assert fires(queue, schedule_id)[0].run_ids == tuple(queue.begun)


async def test_a_schedule_that_cannot_go_on_is_not_in_the_way_of_others(
    queue: FakeQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create(queue, schedule_request("a", cron="0 * * * *"))
    schedule_id = await create(queue, schedule_request("b", cron="0 * * * *"))
    queue.error = StoreBusy("results.sqlite", 10)
    submit = queue.submit_scheduled

    async def submit_b(
        request: pb.SubmitJobRequest,
        of_schedule: str,
        run_id: str,
        note: AuditRecord,
    ) -> None:
        queue.error = None if of_schedule == schedule_id else queue.error
        await submit(request, of_schedule, run_id, note)

    monkeypatch.setattr(queue, "submit_scheduled", submit_b)
    with pytest.raises(StoreBusy):
        await queue.tick_at(NOON)
    assert outcomes(queue, schedule_id) == [("12:00", "submitted")]


async def test_a_schedule_is_refused_with_all_faults_of_job_and_rule(
    queue: FakeQueue,
) -> None:
    request = schedule_request("bad", cron="0 0 30 2 *")
    request.job.overrides.append("run.duration=never")
    with pytest.raises(JobErrors) as caught:
        await create(queue, request)
    assert len(caught.value.faults) == 2
    assert schedule_store.schedules(queue.writer.store) == []


async def test_names_are_unique_and_ids_may_be_shortened(queue: FakeQueue) -> None:
    found = queue.scheduler.schedules.find
    schedule_id = await create(queue, schedule_request("h", cron="0 * * * *"))
    with pytest.raises(ConfigError, match="named 'h' already"):
        await create(queue, schedule_request("h", cron="0 * * * *"))
    await create(queue, schedule_request("", cron="0 * * * *"))
    await create(queue, schedule_request("", cron="0 * * * *"))
    assert found("fleet-test").name == "fleet-test"
    assert found("fleet-test-2").name == "fleet-test-2"
    assert found(schedule_id) is found("h") is found(schedule_id[:9])
    for name in ("", "s-", "x", "s-0000000000"):
        with pytest.raises(ConfigError):
            found(name)


async def test_a_removed_schedule_is_gone_with_its_times_and_leaves_its_runs(
    queue: FakeQueue,
) -> None:
    until_utc = "2026-03-01T13:00:00Z"
    request = schedule_request("h", cron="0 * * * *", until_utc=until_utc)
    schedule_id = await create(queue, request)
    await tick_every(queue, MINUTE, 3 * HOUR)
    assert len(queue.begun) == 2
    [record] = schedule_store.schedules(queue.writer.store)
    assert record.state == "over"
    async with queue.scheduler.settled():
        await queue.scheduler.schedules.remove("h", "me")
    await tick_every(queue, 10 * MINUTE, 2 * HOUR)
    await queue.new_scheduler()
    assert fires(queue, schedule_id) == []
    assert states(queue) == ["finished"] * 2


async def test_a_schedule_that_this_version_cannot_read_is_kept_and_may_be_removed(
    queue: FakeQueue,
) -> None:
    request = schedule_request("old", cron="0 * * * *")
    request.job.job_text = b"name: old\nof: another version\n"
    record = ScheduleRecord(
        *("s-1", "old", request.SerializeToString(), "active"),
        *("2026-01-01T00:00:00Z", "ana", "2026-01-01T00:00:00Z"),
    )
    assert schedule_store.create_schedule(queue.writer.store, record)
    await create(queue, schedule_request("new", cron="0 * * * *"))
    scheduler = await queue.new_scheduler()
    await queue.tick_at(NOON)
    assert list(scheduler.schedules.unusable) == ["s-1"]
    assert len(queue.begun) == 1
    await scheduler.schedules.remove("old", "me")
    assert [one.name for one in schedule_store.schedules(queue.writer.store)] == ["new"]


async def test_many_missed_times_are_settled_at_once(queue: FakeQueue) -> None:
    request = schedule_request("m", duration="1s", every_ns=60 * NS, misfire=ONCE)
    schedule_id = await create(queue, request)
    await queue.tick_at(BEGIN + 1300.5 * MINUTE)
    found = schedule_store.fires(queue.writer.store, schedule_id, 10_000)
    assert len(found) == 1300
    made = [fire for fire in found if fire.outcome == "submitted"]
    # the last one that was missed by more than a minute, and then the last
    assert [fire.due_utc[11:16] for fire in made] == ["09:09"]
    assert found[0].outcome == "overlapped"


async def test_a_run_waits_for_a_verdict_though_the_clock_is_set_forward(
    queue: FakeQueue,
) -> None:
    store, first = queue.writer.store, await queue.submit()
    await queue.new_scheduler()
    await queue.tick()
    second = await queue.submit(
        uri="ldap://ds2:389", after_run=first, after_if=pb.RUN_CONDITION_PASS
    )
    queue.judging.add(first)
    await queue.end(first, "finished", None)
    for hours in (0, 1, -1):
        await queue.tick_at(BEGIN + hours * HOUR)
        assert (queue.dropped, second in queue.begun) == ({}, False)
    store.set_verdict(first, "PASS")
    queue.judging.remove(first)
    await queue.tick_at(BEGIN + HOUR)
    assert second in queue.begun


async def test_a_run_waits_for_its_time_and_for_another_run(queue: FakeQueue) -> None:
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


async def test_the_end_of_a_chain_that_was_dropped_is_dropped(queue: FakeQueue) -> None:
    first = await queue.submit()
    passing = pb.RUN_CONDITION_PASS
    second = await queue.submit(after_run=first, after_if=passing)
    third = await queue.submit(after_run=second, after_if=passing)
    queue.verdict = "INVALID"
    await tick_every(queue, 10 * S, 20 * MINUTE)
    assert list(queue.dropped) == [second, third]
    assert "cancelled without a verdict" in queue.dropped[third]
