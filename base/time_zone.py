# SPDX-License-Identifier: Apache-2.0
"""Time zones: the instants of what their clocks read. Pure.

Instants are aware datetimes in UTC, readings naive. A change forward skips readings (a
gap), one backward repeats some.
"""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from ldapslam.base.errors import ConfigError


def utc_now() -> datetime:
    return datetime.now(UTC)


def zone_named(name: str) -> tzinfo:
    """The zone of an IANA name, UTC for an empty one; ConfigError."""
    if name in ("", "UTC"):
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ConfigError(
            f"time zone {name!r} is not known",
            hint="name it as the IANA database does, such as Europe/Berlin",
        ) from None


def parse_utc(text: str) -> datetime:
    """An aware time of day in ISO 8601, in UTC; ConfigError."""
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            raise ValueError("it has no offset from UTC")
        return moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ConfigError(
            f"time {text!r} cannot be read: {error}",
            hint="write it in ISO 8601, such as 2026-03-01T22:30:00Z",
        ) from None


def clock_text(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def first_instant(reading: datetime, zone: tzinfo) -> datetime:
    """The first instant at which a zone's clock shows a reading, or the end of its
    gap."""
    instant = reading.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if instant.astimezone(zone).replace(tzinfo=None, fold=0) == reading:
        return instant
    # PEP 495: in a gap, fold 0 reads with the offset before and fold 1 with that after
    before = reading.replace(tzinfo=zone, fold=1).astimezone(UTC)
    return _change(zone, before, instant)


def reading_exists(reading: datetime, zone: tzinfo) -> bool:
    instant = first_instant(reading, zone)
    return instant.astimezone(zone).replace(tzinfo=None, fold=0) == reading


def _change(zone: tzinfo, before: datetime, after: datetime) -> datetime:
    """The first instant with the later offset. Zones change on whole seconds."""
    offset = before.astimezone(zone).utcoffset()
    low, high = int(before.timestamp()), -int(-after.timestamp() // 1)
    while high - low > 1:
        middle = (low + high) // 2
        if datetime.fromtimestamp(middle, zone).utcoffset() == offset:
            low = middle
        else:
            high = middle
    return datetime.fromtimestamp(high, UTC)
