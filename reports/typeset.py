# SPDX-License-Identifier: Apache-2.0
"""Numbers as people read them: grouped by narrow spaces, units left to the headers."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

#: Narrow no-break space: separates thousands without a line break.
THIN = "\u202f"
NOT_AVAILABLE = "n/a"
NOTHING = "–"

_COMMA_GROUP = re.compile(r"(?<=\d),(?=\d{3})")
_THIN_GROUP = re.compile(rf"(?<=\d){THIN}(?=\d{{3}})")


def count(value: int | None) -> str:
    return NOTHING if value is None else f"{value:,}".replace(",", THIN)


def decimal(value: float | None, digits: int = 1) -> str:
    return NOTHING if value is None else f"{value:,.{digits}f}".replace(",", THIN)


def milliseconds(value_us: float | None, missing: str = NOT_AVAILABLE) -> str:
    """A duration in ms to the us, which is what histograms resolve."""
    if value_us is None:
        return missing
    return f"<{THIN}0.001" if 0 < value_us < 1 else decimal(value_us / 1000, 3)


def microseconds(value_us: float | None, missing: str = NOT_AVAILABLE) -> str:
    return missing if value_us is None else decimal(value_us, 1)


def percent(share: float | None, digits: int = 2) -> str:
    return NOTHING if share is None else decimal(share * 100, digits)


def grouped(text: str) -> str:
    """A text with the commas of its numbers made narrow spaces."""
    return _COMMA_GROUP.sub(THIN, text)


def plain(text: str) -> str:
    """For terminals and logs: commas between digits, else ordinary spaces."""
    return _THIN_GROUP.sub(",", text).replace(THIN, " ")


def time_of_day(start_utc: str, after_s: float) -> str:
    """So many seconds after a time of day, to the second."""
    moment = datetime.fromisoformat(start_utc) + timedelta(seconds=after_s)
    return moment.strftime("%Y-%m-%d %H:%M:%S")


def seconds(value: float | None) -> str:
    """A length of time in words: `1 min 30 s`, `60 s`, `12 h 0 min`."""
    if value is None:
        return NOTHING
    if value < 120:
        return f"{value:.3g} s" if value < 10 else f"{value:.0f} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 120:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
