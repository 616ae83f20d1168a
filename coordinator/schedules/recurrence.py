# SPDX-License-Identifier: Apache-2.0
"""When a rule's times come: cron expressions in a time zone, and fixed periods. Pure.

croniter finds the wall-clock readings that an expression names; from reading to instant
it goes here, because at a change of the clocks croniter repeats times of its own and
moves others. An expression runs once for each reading: one that does not exist, at the
first instant after the gap; one that exists twice, at the first. Several readings in
one gap are one time.

A fixed period knows no clock changes. Instants are aware datetimes in UTC; readings are
naive. Day of month and day of week are combined as crontab(5) has it: either, unless
one of them begins with an asterisk.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from croniter import CroniterBadDateError, CroniterError, croniter

from ldapslam.base.errors import ConfigError
from ldapslam.base.time_zone import first_instant

_FIELDS = 5
_MAX_CHARACTERS = 500
_ALIAS = re.compile(r"@(hourly|daily|midnight|weekly|monthly|yearly|annually)\Z")
#: croniter's random values would not repeat.
_DRAWN = re.compile(r"(?:^|[\s,])[hr](?:[\s,(/]|$)", re.IGNORECASE)
_TICK = timedelta(microseconds=1)
_MAX_YEARS = 10

_UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Rule:
    """Times without end, by `cron` or `every`: one of them is given."""

    cron: str | None = None
    every: timedelta | None = None
    zone: tzinfo = UTC
    #: Origin of `every`.
    anchor: datetime = _UNIX_EPOCH
    #: Inclusive.
    first: datetime | None = None
    last: datetime | None = None


def check_cron(expression: str) -> None:
    """ConfigError when it cannot be read, or never comes."""
    hint = (
        "five fields as in crontab(5): minute, hour, day of month, month, day of "
        "week; such as '30 22 * * mon-fri'"
    )
    if len(expression) > _MAX_CHARACTERS:
        raise ConfigError(f"a cron expression of {len(expression)} characters")
    what = f"cron expression {expression!r}"
    is_alias = _ALIAS.match(expression.lower()) is not None
    if not is_alias and len(expression.split()) != _FIELDS:
        count = len(expression.split())
        raise ConfigError(f"{what}: expected {_FIELDS} fields, got {count}", hint=hint)
    if _DRAWN.search(expression):
        raise ConfigError(f"{what}: H and R draw their values by chance", hint=hint)
    try:
        iterator = _iterator(expression, datetime(2000, 1, 1))
        iterator.get_next(datetime)
    except CroniterBadDateError:
        raise ConfigError(f"{what}: no day is ever like that", hint=hint) from None
    except (CroniterError, ValueError, KeyError, IndexError, TypeError) as error:
        raise ConfigError(f"{what}: {error}", hint=hint) from None


def times(rule: Rule, after: datetime) -> Iterator[datetime]:
    """The rule's times later than `after`, in order; ends with the rule's last one."""
    if rule.first is not None:
        after = max(after, rule.first - _TICK)
    for time in _unlimited(rule, after):
        if rule.last is not None and time > rule.last:
            return
        yield time


def next_time(rule: Rule, after: datetime) -> datetime | None:
    return next(times(rule, after), None)


def _unlimited(rule: Rule, after: datetime) -> Iterator[datetime]:
    if rule.cron is not None:
        return _clock_times(rule.cron, rule.zone, after)
    assert rule.every is not None
    return _periods(rule.anchor, rule.every, after, is_first_due=bool(rule.first))


def _periods(
    anchor: datetime, every: timedelta, after: datetime, *, is_first_due: bool
) -> Iterator[datetime]:
    number = max((after - anchor) // every + 1, 0 if is_first_due else 1)
    while True:
        yield anchor + number * every
        number += 1


def _clock_times(cron: str, zone: tzinfo, after: datetime) -> Iterator[datetime]:
    # Later readings have later instants, and readings up to now's are not after now.
    last = after
    for reading in _readings(cron, after.astimezone(zone).replace(tzinfo=None)):
        instant = first_instant(reading, zone)
        if instant > last:
            yield instant
            last = instant


def _readings(cron: str, after: datetime) -> Iterator[datetime]:
    """Readings after this one, to the minute."""
    iterator = _iterator(cron, after.replace(fold=0))
    try:
        while True:
            yield iterator.get_next(datetime)
    except CroniterBadDateError:
        return


def _iterator(cron: str, after: datetime) -> croniter:
    return croniter(
        cron,
        after,
        max_years_between_matches=_MAX_YEARS,
        implement_cron_bug=True,  # its name for what crontab(5) describes
    )
