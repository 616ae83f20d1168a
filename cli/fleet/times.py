# SPDX-License-Identifier: Apache-2.0
"""Times of day as options take and commands show them, in a zone of the user's."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta, tzinfo

from ldapslam.base.errors import ConfigError
from ldapslam.base.fault import Fault
from ldapslam.base.time_zone import first_instant, parse_utc, reading_exists, zone_named
from ldapslam.base.units import parse_duration
from ldapslam.cli.options import option, parse_text

_HINT = (
    "write 22:30, 2026-03-01T22:30, 2026-03-01T22:30:00Z or +30m; times without an "
    "offset are in the zone of --tz, which is UTC when left out"
)
_CLOCK = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?\Z", re.ASCII)

time_zone_option = option(
    "--tz time_zone ZONE",
    "Time zone of the times given, such as Europe/Berlin; UTC when left out.",
    default="",
    show_default=False,
)


def positive_duration(value: str) -> int:
    """A duration above zero, in ns."""
    found = parse_duration(value)
    if not found:
        raise Fault(
            f"expected more than nothing, got {value!r}",
            "write a time such as 6h, or leave the option out",
        )
    return found


def parse_cron(value: str) -> str:
    """An expression of five fields, as the coordinator takes it."""
    from ldapslam.coordinator.schedules.recurrence import check_cron

    check_cron(parse_text(value))
    return value


def moment(option: str, text: str, zone_name: str, now: datetime) -> datetime:
    """The instant, in UTC, that a text means; ConfigError."""
    zone = zone_named(zone_name)
    text = text.strip()
    if text == "now":
        return now
    if text.startswith("+"):
        try:
            return now + timedelta(microseconds=parse_duration(text[1:]) // 1000)
        except Fault as fault:
            raise ConfigError(f"{option}: {fault}", hint=_HINT) from None
    clock = _CLOCK.match(text)
    if clock is not None:
        hour, minute, second = (int(part or 0) for part in clock.groups())
        return _next_reading(time(hour, minute, second), zone, now)
    try:
        reading = datetime.fromisoformat(text)
        if reading.tzinfo is not None:
            return reading.astimezone(UTC)
        if reading_exists(reading, zone):
            return first_instant(reading, zone)
    except (ValueError, OverflowError):
        raise ConfigError(
            f"{option}: expected a time of day, got {text!r}", hint=_HINT
        ) from None
    raise ConfigError(
        f"{option}: {text!r} does not exist in {zone_name}: the clocks are put forward "
        "then",
        hint="name a time before or after",
    )


def _next_reading(clock: time, zone: tzinfo, now: datetime) -> datetime:
    """The next instant at which the clock shows this, or the end of the gap that would
    have it."""
    today = now.astimezone(zone).date()
    for days in range(3):
        day = today + timedelta(days=days)
        instant = first_instant(datetime.combine(day, clock), zone)
        if instant > now:
            return instant
    raise AssertionError("a clock reads everything within two days")


def shown(moment_utc: str | datetime, zone_name: str = "") -> str:
    """A time of day for people, with the zone's abbreviation."""
    found = parse_utc(moment_utc) if isinstance(moment_utc, str) else moment_utc
    local = found.astimezone(zone_named(zone_name))
    seconds = ":%S" if local.second else ""
    return local.strftime(f"%a %Y-%m-%d %H:%M{seconds} %Z")


def shown_twice(moment_utc: str | datetime, zone_name: str) -> str:
    """In the zone, and in UTC."""
    in_utc = shown(moment_utc)
    local = shown(moment_utc, zone_name)
    return local if local == in_utc else f"{local} = {in_utc}"
