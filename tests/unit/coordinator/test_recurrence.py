# SPDX-License-Identifier: Apache-2.0
"""The times of a rule, and decisions on due times and on runs that wait."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

import pytest

from ldapslam.base.errors import ConfigError
from ldapslam.base.time_zone import parse_utc, zone_named
from ldapslam.coordinator.run_queue import CONDITIONS
from ldapslam.coordinator.schedules.recurrence import Rule, check_cron, next_time, times
from ldapslam.coordinator.schedules.schedule import (
    Drop,
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
from ldapslam.proto.operator_pb2 import SubmitJobRequest
from ldapslam.results.schedule_store import RunEnd
from support.cron_oracle import changes, oracle_times, readings, utc
from support.fake_queue import moment

BERLIN = ZoneInfo(
    "Europe/Berlin"
)  # 2026: 29 March 02:00 -> 03:00, 25 October 03:00 -> 02:00
HOUR = timedelta(hours=1)


def some_times(rule: Rule, after: str, count: int) -> list[str]:
    found = islice(times(rule, utc(after)), count)
    return [f"{time:%m-%d %H:%M}" for time in found]


#: By hand; that of other zones and rules is what looking at every minute finds, below.
CHANGES = [
    # expression, zone, after (UTC), the next times in UTC
    pytest.param(
        *("30 2 * * *", "Europe/Berlin", "2026-03-28 00:00"),
        # 02:30 does not exist on the 29th: 03:00 summer time is 01:00 UTC
        ["03-28 01:30", "03-29 01:00", "03-30 00:30"],
        id="a time in a gap runs at the first instant after it",
    ),
    pytest.param(
        *("30 2 * * *", "Europe/Berlin", "2026-10-24 12:00"),
        ["10-25 00:30", "10-26 01:30"],
        id="a time that exists twice runs at the first",
    ),
    pytest.param(
        *("*/30 * * * *", "Europe/Berlin", "2026-10-24 23:30"),
        ["10-25 00:00", "10-25 00:30", "10-25 02:00"],
        id="each half hour of a fold runs once",
    ),
    pytest.param(
        *("50 * 4 4 *", "America/Santiago", "2026-04-05 02:00"),
        ["04-05 02:50", "04-04 04:50"],
        id="the last hour of a rare day, once",
    ),
    pytest.param(
        *("0 12 30 12 *", "Pacific/Apia", "2011-12-29 12:00"),
        # Samoa went without 30 December 2011
        ["12-30 10:00"],
        id="a day that does not exist",
    ),
]


@pytest.mark.parametrize(("cron", "zone", "after", "expected"), CHANGES)
def test_times_at_a_change_of_the_clocks(
    cron: str, zone: str, after: str, expected: list[str]
) -> None:
    rule = Rule(cron=cron, zone=ZoneInfo(zone))
    assert some_times(rule, after, len(expected)) == expected


EXPRESSIONS = [
    "30 2 * * *",
    "30 2,3 * * *",
    "0 2,3 * * *",
    "*/10 2 * * *",
    "*/15 * * * *",
    "7-59/20 * * * *",
    "5,35 1-3 * * *",
    "*/10 0-5/2 * * mon-fri",
    "59 23 * * *",
    "0 0 * * *",
    "30 */3 * * sun,sat",
]
ZONES = [
    "Europe/Berlin",
    "America/New_York",
    "America/Santiago",
    "Australia/Lord_Howe",
    "Africa/Cairo",
    "Pacific/Chatham",
    "Africa/Casablanca",
]
DAY_EXPRESSIONS = [
    "0 0 1 * *",
    "30 1 13 * fri",
    "15 0 */2 * mon",
    "0 12 * * 7",
    "45 23 28-31 * *",
    "0 6 29 feb *",
    "0 6 29 * */2",
]


def between(rule: Rule, after: datetime, until: datetime) -> list[datetime]:
    return list(takewhile(lambda time: time <= until, times(rule, after)))


@pytest.mark.parametrize("zone_name", ZONES)
def test_times_around_each_change_are_what_looking_at_every_minute_finds(
    zone_name: str,
) -> None:
    zone = ZoneInfo(zone_name)
    found = changes(zone, utc("2026-01-01 00:00"), utc("2027-01-01 00:00"))
    assert len(found) == 2
    for change in found:
        after, until = change - 24 * HOUR, change + 30 * HOUR
        shown = readings(zone, after, until)
        for cron in EXPRESSIONS:
            rule = Rule(cron=cron, zone=zone)
            assert between(rule, after, until) == oracle_times(cron, shown, after), cron


@pytest.mark.parametrize("cron", DAY_EXPRESSIONS)
def test_days_are_those_of_crontab(cron: str) -> None:
    # five weeks with the end of February in a leap year
    after, until = utc("2028-02-10 00:00"), utc("2028-03-16 00:00")
    expected = oracle_times(cron, FIVE_WEEKS, after)
    assert expected
    assert between(Rule(cron=cron), after, until) == expected


FIVE_WEEKS = readings(UTC, utc("2028-02-10 00:00"), utc("2028-03-16 00:00"))


@pytest.mark.parametrize("cron", ["30 2 * * *", "*/20 * * * *", "5,35 1-3 * * *"])
def test_the_times_do_not_depend_on_where_one_begins_to_look(cron: str) -> None:
    rule = Rule(cron=cron, zone=BERLIN)
    for begin in (utc("2026-03-28 20:00"), utc("2026-10-24 20:00")):
        until = begin + 12 * HOUR
        whole = between(rule, begin, until)
        for minute in range(0, 12 * 60, 7):
            after = begin + timedelta(minutes=minute, seconds=minute % 60)
            later = [time for time in whole if time > after]
            assert between(rule, after, until) == later


def test_a_period_keeps_its_length_at_changes_of_the_clocks() -> None:
    anchor = utc("2026-03-28 12:00")
    rule = Rule(every=6 * HOUR, zone=BERLIN, anchor=anchor)
    found = list(islice(times(rule, anchor), 8))
    assert found == [anchor + number * 6 * HOUR for number in range(1, 9)]
    # it begins with its first time if one is given
    rule = Rule(every=HOUR, anchor=anchor, first=anchor)
    assert next_time(rule, utc("2026-03-01 00:00")) == anchor
    assert next_time(rule, anchor) == anchor + HOUR


def test_first_and_last_are_times_themselves() -> None:
    first, last = utc("2026-03-02 06:00"), utc("2026-03-04 06:00")
    rule = Rule(cron="0 6 * * *", first=first, last=last)
    found = list(times(rule, utc("2026-01-01 00:00")))
    assert found == [first, first + 24 * HOUR, last]
    assert next_time(rule, last) is None


BAD_EXPRESSIONS = [
    ("", "got 0"),
    ("* * * *", "expected 5 fields, got 4"),
    ("0 0 * * * *", "got 6"),
    ("60 * * * *", "out of range"),
    ("* 24 * * *", "out of range"),
    ("a * * * *", "not acceptable"),
    ("0 0 30 2 *", "no day is ever like that"),
    ("H * * * *", "by chance"),
    ("R/5 * * * *", "by chance"),
    ("0 h(0-5) * * *", "by chance"),
    ("@reboot", "expected 5 fields"),
    ("*/0 * * * *", "cron expression"),
    ("5-1-2 * * * *", "cron expression"),
    ("0-9999999999 * * * *", "cron expression"),
    ("1," * 300 + "1 * * * *", "cron expression of 609 characters"),
    ("0 0 L-99 * *", "cron expression"),
    ("\x00 * * * *", "cron expression"),
]


@pytest.mark.parametrize(("expression", "reason"), BAD_EXPRESSIONS)
def test_an_expression_that_cannot_be_meant_is_refused(
    expression: str, reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        check_cron(expression)


@pytest.mark.parametrize(
    "expression", ["@daily", "0 0 29 2 *", "*/5 8-18 * jan-mar mon-fri", "0 0 l * *"]
)
def test_a_good_expression_is_taken(expression: str) -> None:
    check_cron(expression)


@pytest.mark.parametrize("name", ["Mars/Olympus", "Europe", "../etc/passwd", "/etc"])
def test_a_zone_that_is_not_known_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="not known"):
        zone_named(name)


@pytest.mark.parametrize("text", ["", "soon", "2026-03-01T22:30", "2026-13-01T00:00Z"])
def test_a_time_without_offset_is_no_instant(text: str) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        parse_utc(text)


# Decisions on times that are due, and on runs that wait: tables.


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


def ended(verdict: str | None, state: str = "finished", **fields: object) -> RunEnd:
    times = {"t0_utc": "2026-03-01T11:00:00Z", **fields}
    return RunEnd(state, verdict, **times)  # type: ignore[arg-type]


NUMBERS = {word: number for number, word in CONDITIONS.items()}
AFTER = [
    # condition, the end of the other run, what becomes of this one
    ("any", ended("PASS"), Release),
    ("any", ended("FAIL"), Release),
    ("any", ended(None, "cancelled"), Release),
    ("any", ended(None), Release),
    ("any", RunEnd("running"), Wait),
    ("any", RunEnd("queued"), Wait),
    ("pass", ended("PASS"), Release),
    ("pass", ended("FAIL"), Drop),
    ("pass", ended("INVALID"), Drop),
    ("pass", RunEnd("draining"), Wait),
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
    condition: str, ending: RunEnd | None, step: type
) -> None:
    waiting = SubmitJobRequest(after_run="r1", after_if=NUMBERS[condition])
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
    waiting = SubmitJobRequest(not_before_utc=not_before)
    assert next_step(waiting, None, NOON) == step


def test_a_run_waits_for_both_its_time_and_its_order() -> None:
    both = SubmitJobRequest(not_before_utc="2026-03-01T13:00:00Z", after_run="r1")
    assert isinstance(next_step(both, RunEnd("running"), NOON), Wait)
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
