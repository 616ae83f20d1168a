# SPDX-License-Identifier: Apache-2.0
"""Maintenance windows: times without runs. Pure.

A run waits when a window is open, or would open before the run's planned end. Windows
have one begin and end, or a cron rule and a length.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from operator import itemgetter

from ldapslam.base.errors import ConfigError
from ldapslam.base.time_zone import clock_text, parse_utc, zone_named
from ldapslam.base.uri import server_of
from ldapslam.coordinator.schedules.recurrence import Rule, check_cron, times
from ldapslam.proto import schedule_pb2 as pb

#: Longest time from the queue to T0.
PREPARATION = timedelta(minutes=2)
#: For regular windows.
_LONGEST = timedelta(days=31)
#: A run without room between that many windows has none.
_MOST_SPANS = 400
_KEPT = 512


@dataclass(frozen=True, slots=True)
class Hold:
    """No run may begin."""

    window: str
    #: None: there is no room between the windows.
    until: datetime | None

    def __str__(self) -> str:
        if self.until is None:
            return f"maintenance window {self.window!r} leaves no room for the run"
        return f"maintenance window {self.window!r}, until {clock_text(self.until)}"


@dataclass(frozen=True, slots=True)
class Window:
    window_id: str
    name: str
    #: A rule without end, or one time.
    begins: Rule | datetime
    length: timedelta
    #: Servers (`server_of`); empty: all.
    targets: frozenset[str] = frozenset()
    #: Spans found, by the times asked, in their order.
    _found: list[tuple[datetime, tuple[datetime, datetime]]] = field(
        default_factory=list, compare=False, repr=False
    )

    def concerns(self, targets: frozenset[str]) -> bool:
        return not self.targets or bool(self.targets & targets)

    def first_span(self, now: datetime) -> tuple[datetime, datetime] | None:
        """Begin and end of the first window that is not over."""
        # asked each second for each waiting run, and as far ahead as there is no room
        place = bisect(self._found, now, key=itemgetter(0))
        if place and now < self._found[place - 1][1][1]:
            return self._found[place - 1][1]
        first = next(self.spans(now), None)
        if first is not None:
            self._found.insert(place, (now, first))
            del self._found[:-_KEPT]
        return first

    def spans(self, now: datetime) -> Iterator[tuple[datetime, datetime]]:
        """Begin and end of each that is not over, in order."""
        if isinstance(self.begins, datetime):
            begins: Iterable[datetime] = [self.begins]
        else:
            begins = times(self.begins, now - self.length)
        for begin in begins:
            if begin + self.length > now:
                yield begin, begin + self.length


def window_of(message: pb.MaintenanceWindow) -> Window:
    """The window that an operator gave; ConfigError for its first fault."""
    hint = "give --from and --until, or --cron and --for"
    begins: Rule | datetime
    if message.cron:
        if message.from_utc or message.until_utc or not message.length_ns:
            raise ConfigError("a maintenance rule has a begin and a length", hint=hint)
        zone = zone_named(message.time_zone)
        check_cron(message.cron)
        begins = Rule(cron=message.cron, zone=zone)
        length = timedelta(microseconds=message.length_ns // 1000)
        if length > _LONGEST:
            raise ConfigError(f"a regular window is at most {_LONGEST.days} days long")
    else:
        if not message.from_utc or not message.until_utc:
            raise ConfigError("a maintenance window has a begin and an end", hint=hint)
        begins = parse_utc(message.from_utc)
        length = parse_utc(message.until_utc) - begins
    if length <= timedelta():
        raise ConfigError("the maintenance window ends before it begins", hint=hint)
    return Window(
        message.window_id,
        message.name,
        begins,
        length,
        frozenset(server_of(target) for target in message.targets),
    )


def hold_of(
    windows: Iterable[Window],
    targets: frozenset[str],
    planned: timedelta,
    now: datetime,
) -> Hold | None:
    """Why a run of this length may not begin now; None: it may."""
    concerned = [window for window in windows if window.concerns(targets)]
    needed = planned + PREPARATION
    begin, holder = now, None
    for _ in range(_MOST_SPANS):
        found = _in_the_way(concerned, begin, needed)
        if found is None:
            return None if holder is None else Hold(holder.name, begin)
        holder, begin = found
    assert holder is not None, "nothing else goes on"
    return Hold(holder.name, None)


def _in_the_way(
    windows: Sequence[Window], begin: datetime, needed: timedelta
) -> tuple[Window, datetime] | None:
    """A window that meets [begin, begin + needed), and its end."""
    for window in windows:
        span = window.first_span(begin)
        if span is not None and span[0] < begin + needed:
            return window, span[1]
    return None
