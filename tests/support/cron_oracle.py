# SPDX-License-Identifier: Apache-2.0
"""When a cron rule's times are, by looking at every minute: the oracle of schedules.

Shares nothing with what it judges but the standard library's time zones: no croniter,
no arithmetic with offsets. Every minute in UTC is asked what the zone's clock shows.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo

MINUTE = timedelta(minutes=1)
_RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_NAMES = {
    3: ("jan feb mar apr may jun jul aug sep oct nov dec".split(), 1),
    4: ("sun mon tue wed thu fri sat".split(), 0),
}


def values_of(field: str, number: int) -> frozenset[int]:
    """The values that one field of crontab(5) stands for."""
    low, high = _RANGES[number]
    names, first = _NAMES.get(number, ([], 0))
    found: set[int] = set()
    for part in field.lower().split(","):
        span, _, step = part.partition("/")
        ends = ["*"] if span == "*" else span.split("-")
        ends = [str(names.index(e) + first) if e in names else e for e in ends]
        if ends == ["*"]:
            begin, end = low, high
        else:
            begin, end = int(ends[0]), int(ends[-1])
            if step and len(ends) == 1:
                end = high
        found.update(range(begin, end + 1, int(step or 1)))
    if number == 4:  # Sunday is 0 and 7
        found = {value % 7 for value in found}
    return frozenset(found)


class Expression:
    """A cron expression, which a clock's reading matches or not."""

    def __init__(self, text: str) -> None:
        fields = text.split()
        self._values = [values_of(field, n) for n, field in enumerate(fields)]
        self._is_either = not (fields[2].startswith("*") or fields[4].startswith("*"))

    def matches(self, reading: datetime) -> bool:
        minute, hour, day, month, weekday = self._values
        if reading.minute not in minute or reading.hour not in hour:
            return False
        if reading.month not in month:
            return False
        is_day = reading.day in day
        is_weekday = reading.isoweekday() % 7 in weekday
        if self._is_either:
            return is_day or is_weekday
        return is_day and is_weekday


def readings(
    zone: tzinfo, after: datetime, until: datetime
) -> list[tuple[datetime, datetime]]:
    """Each minute in (after, until], both whole minutes, and what the clock shows; with
    the day before, in which readings may have been shown already."""
    found = []
    moment = after - timedelta(days=1)
    while moment <= until:
        reading = moment.astimezone(zone).replace(tzinfo=None, fold=0)
        found.append((moment, reading))
        moment += MINUTE
    return found


def oracle_times(
    text: str, shown: list[tuple[datetime, datetime]], after: datetime
) -> list[datetime]:
    """The rule's times later than `after`, of the minutes that `readings` gave."""
    expression = Expression(text)
    latest = shown[0][1] - MINUTE
    found = []
    for moment, reading in shown:
        # what the clock shows again has had its time, what it passed over has it now
        is_due = expression.matches(reading) and reading > latest
        skipped = latest + MINUTE
        while skipped < reading:
            is_due = is_due or expression.matches(skipped)
            skipped += MINUTE
        if is_due and moment > after:
            found.append(moment)
        latest = max(latest, reading)
    return found


def changes(zone: tzinfo, begin: datetime, end: datetime) -> list[datetime]:
    """The hours in which the zone's offset changes."""
    found, moment = [], begin
    while moment < end:
        later = moment + timedelta(hours=1)
        if moment.astimezone(zone).utcoffset() != later.astimezone(zone).utcoffset():
            found.append(moment)
        moment = later
    return found


def utc(text: str) -> datetime:
    """An instant, from `2026-03-29 01:00` in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
