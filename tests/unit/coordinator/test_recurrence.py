# SPDX-License-Identifier: Apache-2.0
"""When a rule's times come, at changes of the clocks above all."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

import pytest

from ldapslam.base.errors import ConfigError
from ldapslam.base.time_zone import parse_utc, zone_named
from ldapslam.coordinator.schedules.recurrence import Rule, check_cron, next_time, times
from support.cron_oracle import changes, oracle_times, readings, utc

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
