# SPDX-License-Identifier: Apache-2.0
"""Times of day as options take and commands show them."""

from __future__ import annotations

import pytest

from ldapslam.base.errors import ConfigError
from ldapslam.cli.fleet.times import moment, shown, shown_twice
from support.cron_oracle import utc

#: 18:00 in Berlin; the night before the clocks are put forward.
NOW = utc("2026-03-28 17:00")

TEXTS = [
    ("now", "", "2026-03-28 17:00"),
    ("+90m", "", "2026-03-28 18:30"),
    ("18:30", "", "2026-03-28 18:30"),
    ("17:00", "", "2026-03-29 17:00"),
    ("6:05", "", "2026-03-29 06:05"),
    ("18:30", "Europe/Berlin", "2026-03-28 17:30"),
    ("17:59", "Europe/Berlin", "2026-03-29 15:59"),
    ("02:30", "Europe/Berlin", "2026-03-29 01:00"),
    ("2026-04-01", "Europe/Berlin", "2026-03-31 22:00"),
    ("2026-04-01 22:30", "", "2026-04-01 22:30"),
    ("2026-04-01T22:30", "America/New_York", "2026-04-02 02:30"),
    ("2026-04-01T22:30:00Z", "America/New_York", "2026-04-01 22:30"),
    ("2026-04-01T22:30+02:00", "", "2026-04-01 20:30"),
    ("2026-10-25T02:30", "Europe/Berlin", "2026-10-25 00:30"),
]


@pytest.mark.parametrize(("text", "zone", "expected"), TEXTS)
def test_a_time_of_day_is_an_instant(text: str, zone: str, expected: str) -> None:
    assert moment("--at", text, zone, NOW) == utc(expected)


@pytest.mark.parametrize(
    ("text", "zone", "reason"),
    [
        ("", "", "--at: expected a time of day, got ''"),
        ("25:00", "", "expected a time of day"),
        ("tomorrow", "", "expected a time of day"),
        ("+soon", "", "--at: expected a duration"),
        ("+5", "", "--at: expected a duration"),
        ("2026-03-29T02:30", "Europe/Berlin", "does not exist in Europe/Berlin"),
        ("22:30", "Berlin", "time zone 'Berlin' is not known"),
    ],
)
def test_what_is_no_time_of_day_is_refused(text: str, zone: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        moment("--at", text, zone, NOW)
    assert reason in str(caught.value)
    assert caught.value.hint


def test_a_time_is_shown_in_its_zone_and_in_utc() -> None:
    time = "2026-03-29T01:00:00.000000Z"
    assert shown(time) == "Sun 2026-03-29 01:00 UTC"
    assert shown(utc("2026-03-28 17:00"), "Asia/Kolkata") == "Sat 2026-03-28 22:30 IST"
    both = "Sun 2026-03-29 03:00 CEST = Sun 2026-03-29 01:00 UTC"
    assert shown_twice(time, "Europe/Berlin") == both
    assert shown_twice(time, "") == "Sun 2026-03-29 01:00 UTC"
