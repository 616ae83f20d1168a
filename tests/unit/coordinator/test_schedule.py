# SPDX-License-Identifier: Apache-2.0
"""What becomes of times that are due, and of runs that wait: tables."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from ldapslam.base.errors import ConfigError
from ldapslam.coordinator.run_queue import WaitingRun
from ldapslam.coordinator.schedules.schedule import (
    Drop,
    Ending,
    Misfire,
    Outcome,
    Overlap,
    Policy,
    Release,
    Wait,
    decide,
    next_step,
    plan_of,
)
from ldapslam.proto import schedule_pb2 as pb
from support.fake_queue import moment

NOON = moment("2026-03-01 12:00")
MINUTE = timedelta(minutes=1)
RUN, MISSED, OVERLAPPED = Outcome.SUBMITTING, Outcome.MISSED, Outcome.OVERLAPPED


def ago(*minutes: float) -> list[datetime]:
    return [NOON - MINUTE * number for number in minutes]


def outcomes(
    policy: Policy,
    due: list[datetime],
    *,
    next_due: datetime | None = None,
    is_busy: bool = False,
) -> list[Outcome]:
    decisions = decide(due, next_due, policy, NOON, is_busy=is_busy)
    assert [decision.due for decision in decisions] == due
    assert all(decision.detail for decision in decisions if decision.outcome is not RUN)
    return [decision.outcome for decision in decisions]


MISFIRES = [
    # policy, how many minutes ago each was due, what becomes of them
    (Misfire.SKIP, [0], [RUN]),
    (Misfire.SKIP, [1], [RUN]),  # the grace is one minute
    (Misfire.SKIP, [1.01], [MISSED]),
    (Misfire.SKIP, [180, 120, 60], [MISSED, MISSED, MISSED]),
    (Misfire.SKIP, [120, 60, 0.5], [MISSED, MISSED, RUN]),
    # a run that is made now is in the way of the next time
    (Misfire.SKIP, [0.9, 0.1], [RUN, OVERLAPPED]),
    (Misfire.RUN_ONCE, [60], [RUN]),
    (Misfire.RUN_ONCE, [180, 120, 60], [MISSED, MISSED, RUN]),
    (Misfire.RUN_ONCE, [120, 60, 0.5], [MISSED, RUN, OVERLAPPED]),
]


@pytest.mark.parametrize(("misfire", "minutes", "expected"), MISFIRES)
def test_times_that_were_missed(
    misfire: Misfire, minutes: list[float], expected: list[Outcome]
) -> None:
    assert outcomes(Policy(misfire), ago(*minutes)) == expected


def test_run_once_waits_for_the_last_of_many_that_were_missed() -> None:
    due = ago(*range(700, 200, -1))
    policy = Policy(Misfire.RUN_ONCE)
    assert set(outcomes(policy, due, next_due=NOON - 200 * MINUTE)) == {MISSED}
    on_time = outcomes(policy, due, next_due=NOON)
    assert on_time == [MISSED] * 499 + [RUN]


OVERLAPS = [
    (Overlap.SKIP, Misfire.SKIP, [0], [OVERLAPPED]),
    (Overlap.QUEUE, Misfire.SKIP, [0], [RUN]),
    (Overlap.REPLACE, Misfire.SKIP, [0], [RUN]),
    (Overlap.SKIP, Misfire.RUN_ONCE, [60], [OVERLAPPED]),
    (Overlap.QUEUE, Misfire.RUN_ONCE, [120, 60, 0], [MISSED, RUN, RUN]),
]


@pytest.mark.parametrize(("overlap", "misfire", "minutes", "expected"), OVERLAPS)
def test_times_while_a_run_has_not_ended(
    overlap: Overlap, misfire: Misfire, minutes: list[float], expected: list[Outcome]
) -> None:
    policy = Policy(misfire, overlap=overlap)
    assert outcomes(policy, ago(*minutes), is_busy=True) == expected


def test_a_run_that_makes_up_for_a_missed_time_begins_later() -> None:
    policy = Policy(Misfire.RUN_ONCE)
    assert policy.begin(NOON, NOON + MINUTE / 2) == NOON
    later = NOON + 60 * MINUTE
    assert policy.begin(NOON, later) == later


def run(**fields: object) -> WaitingRun:
    return WaitingRun("r2", **fields)  # type: ignore[arg-type]


def ended(verdict: str | None, state: str = "finished", **fields: object) -> Ending:
    times = {"t0_utc": "2026-03-01T11:00:00Z", **fields}
    return Ending(state, verdict, **times)  # type: ignore[arg-type]


AFTER = [
    # condition, the end of the other run, what becomes of this one
    ("any", ended("PASS"), Release),
    ("any", ended("FAIL"), Release),
    ("any", ended(None, "cancelled"), Release),
    ("any", ended(None), Release),
    ("any", Ending("running"), Wait),
    ("any", Ending("queued"), Wait),
    ("pass", ended("PASS"), Release),
    ("pass", ended("FAIL"), Drop),
    ("pass", ended("INVALID"), Drop),
    ("pass", Ending("draining"), Wait),
    ("fail", ended("PASS"), Drop),
    ("fail", ended("FAIL"), Release),
    ("fail", ended("INVALID"), Release),
    # its verdict is being found
    ("pass", ended(None), Wait),
    ("fail", ended(None), Wait),
    # there is none
    ("pass", ended(None, is_judged=True), Drop),
    ("fail", ended(None, is_judged=True), Release),
    # it never began
    ("pass", ended(None, "cancelled", t0_utc=None), Drop),
    ("fail", ended(None, "failed", t0_utc=None), Release),
    # there is no such run
    ("any", None, Drop),
]


@pytest.mark.parametrize(("condition", "ending", "step"), AFTER)
def test_a_run_that_follows_another_one(
    condition: str, ending: Ending | None, step: type
) -> None:
    waiting = run(after_run="r1", after_if=condition)
    assert type(next_step(waiting, ending, NOON)) is step


@pytest.mark.parametrize(
    ("not_before", "step"),
    [
        ("2026-03-01T12:00:00Z", Release()),
        ("2026-03-01T11:00:00Z", Release()),
        ("2026-03-01T12:00:01Z", Wait("waits for 2026-03-01 12:00:01 UTC")),
    ],
)
def test_a_run_that_waits_for_a_time(not_before: str, step: object) -> None:
    assert next_step(run(not_before_utc=not_before), None, NOON) == step


def test_a_run_waits_for_both_its_time_and_its_order() -> None:
    both = run(not_before_utc="2026-03-01T13:00:00Z", after_run="r1")
    assert isinstance(next_step(both, Ending("running"), NOON), Wait)
    assert isinstance(next_step(both, ended("PASS"), NOON), Wait)
    later = moment("2026-03-01 13:00")
    assert isinstance(next_step(both, ended("PASS"), later), Release)


RULES = [
    ({}, "either a cron expression or a period"),
    ({"cron": "0 0 * * *", "every_ns": 10**10}, "either"),
    ({"every_ns": 10**8}, "at least a second"),
    ({"every_ns": 10**9 + 1}, "whole microseconds"),
    ({"cron": "0 0 * *"}, "five fields|expected 5 fields"),
    ({"cron": "0 0 * * *", "time_zone": "Berlin"}, "not known"),
    ({"cron": "0 0 * * *", "from_utc": "soon"}, "cannot be read"),
    (
        {
            "cron": "0 0 * * *",
            "from_utc": "2026-03-02T00:00:00Z",
            "until_utc": "2026-03-01T00:00:00Z",
        },
        "ends before it begins",
    ),
    (
        {"cron": "0 0 * * *", "until_utc": "2026-03-01T23:00:00Z"},
        "no time between",
    ),
    ({"cron": "0 0 * * *", "misfire": 17}, "policy is not known"),
    ({"every_ns": 10**18}, "at most 366 days"),
    ({"every_ns": 10**10, "from_utc": "9999-12-31T23:59:59Z"}, "too far away"),
    ({"every_ns": 10**10, "from_utc": "0001-01-01T00:00:00Z"}, "too far away"),
]


@pytest.mark.parametrize(("rule", "reason"), RULES)
def test_a_rule_that_cannot_be_meant_is_refused(
    rule: dict[str, object], reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        plan_of(pb.ScheduleRule(**rule), NOON)  # type: ignore[arg-type]
