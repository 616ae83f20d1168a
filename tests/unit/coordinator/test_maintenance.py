# SPDX-License-Identifier: Apache-2.0
"""When maintenance keeps a run from beginning, and until when."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from ldapslam.base.errors import ConfigError
from ldapslam.coordinator.schedules.maintenance import (
    PREPARATION,
    Hold,
    hold_of,
    window_of,
)
from ldapslam.proto import schedule_pb2 as pb
from support.fake_queue import moment

HOUR = timedelta(hours=1)
DS1, DS2 = frozenset({"ds1"}), frozenset({"ds2"})

ONCE = window_of(
    pb.MaintenanceWindow(
        name="move",
        from_utc="2026-03-02T10:00:00Z",
        until_utc="2026-03-02T12:00:00Z",
        targets=["ldaps://DS1:636"],
    )
)
#: Each night from 01:00 to 03:00 in Berlin; on 29 March 02:00 becomes 03:00 there.
NIGHTLY = window_of(
    pb.MaintenanceWindow(
        name="night",
        cron="0 1 * * *",
        time_zone="Europe/Berlin",
        length_ns=7_200_000_000_000,
    )
)

TABLE = [
    # now, planned length, held until
    ("2026-03-02 07:00", HOUR, None),
    ("2026-03-02 08:57", HOUR, None),  # 08:57 + 1:00 + 0:02 < 10:00
    ("2026-03-02 08:58", HOUR, None),
    ("2026-03-02 08:59", HOUR, "2026-03-02 12:00"),
    ("2026-03-02 10:00", HOUR, "2026-03-02 12:00"),
    ("2026-03-02 11:59", HOUR, "2026-03-02 12:00"),
    ("2026-03-02 12:00", HOUR, None),
    ("2026-03-02 05:00", 5 * HOUR, "2026-03-02 12:00"),
]


@pytest.mark.parametrize(("now", "planned", "until"), TABLE)
def test_no_run_begins_that_would_reach_into_the_window(
    now: str, planned: timedelta, until: str | None
) -> None:
    assert timedelta(minutes=2) == PREPARATION
    expected = Hold("move", moment(until)) if until else None
    assert hold_of([ONCE], DS1, planned, moment(now)) == expected


def test_a_window_for_other_servers_is_no_concern() -> None:
    now = moment("2026-03-02 11:00")
    assert hold_of([ONCE], DS2, HOUR, now) is None
    assert hold_of([ONCE], DS1 | DS2, HOUR, now) is not None


def test_windows_that_follow_each_other_are_one_wait() -> None:
    later = window_of(
        pb.MaintenanceWindow(
            name="later",
            from_utc="2026-03-02T12:30:00Z",
            until_utc="2026-03-02T13:00:00Z",
        )
    )
    now = moment("2026-03-02 11:00")
    held = Hold("later", moment("2026-03-02 13:00"))
    assert hold_of([ONCE, later], DS1, HOUR, now) == held
    short = Hold("move", moment("2026-03-02 12:00"))
    assert hold_of([ONCE, later], DS1, timedelta(minutes=20), now) == short


def test_a_regular_window_follows_its_zones_clock() -> None:
    # 01:00 in Berlin is 00:00 UTC in winter, 23:00 UTC in summer
    winter, summer = moment("2026-03-20 00:30"), moment("2026-04-01 23:30")
    assert hold_of([NIGHTLY], DS1, HOUR, winter) == Hold("night", winter + 1.5 * HOUR)
    assert hold_of([NIGHTLY], DS1, HOUR, summer) == Hold("night", summer + 1.5 * HOUR)
    assert hold_of([NIGHTLY], DS1, HOUR, summer + 2 * HOUR) is None


def test_a_run_that_fits_between_no_two_windows_never_begins() -> None:
    hold = hold_of([NIGHTLY], DS1, 23 * HOUR, moment("2026-03-20 12:00"))
    assert hold == Hold("night", None)
    assert "leaves no room" in str(hold)


def test_what_was_found_for_one_time_is_not_taken_for_another() -> None:
    asked = [moment("2026-03-20 12:00") + HOUR * number for number in range(48)]
    again = [hold_of([NIGHTLY], DS1, HOUR, now) for now in asked]
    fresh = [hold_of([replace(NIGHTLY, _found=[])], DS1, HOUR, now) for now in asked]
    assert again == fresh
    # and a clock that is put back
    assert hold_of([NIGHTLY], DS1, HOUR, asked[12]) == fresh[12]
    held = [hold is not None for hold in fresh[10:15]]
    assert held == [False, True, True, True, False]


BAD = [
    ({}, "a begin and an end"),
    ({"from_utc": "2026-03-02T10:00:00Z"}, "a begin and an end"),
    (
        {
            "from_utc": "2026-03-02T10:00:00Z",
            "until_utc": "2026-03-02T10:00:00Z",
        },
        "ends before it begins",
    ),
    ({"cron": "0 1 * * *"}, "a begin and a length"),
    ({"cron": "0 1 * *", "length_ns": 10**9}, "5 fields"),
    (
        {"cron": "0 1 * * *", "length_ns": 10**9, "from_utc": "2026-03-02T10:00:00Z"},
        "a begin and a length",
    ),
]


@pytest.mark.parametrize(("fields", "reason"), BAD)
def test_a_window_that_cannot_be_meant_is_refused(
    fields: dict[str, object], reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        window_of(pb.MaintenanceWindow(**fields))  # type: ignore[arg-type]
