# SPDX-License-Identifier: Apache-2.0
"""OpenLDAP's log with `loglevel stats`, as slapd 2.4 to 2.6 write it.

What comes before `conn=` is one of

    6b0193e0.25f31afd 0x7f00dbffe6c0     logfile, format debug: seconds and nanoseconds
                                         (five digits: microseconds) in hex, thread
    5f3e1a2b                             2.4's debug output: seconds in hex
    Nov  7 09:18:02 ds1 slapd[411]:      syslog, also with a fraction of the second, and
                                         logfile-format syslog-utc, syslog-localtime
    2026-11-07T09:18:02.123456+00:00 ds1 slapd[411]:      syslog with RFC 3339 stamps

A request's time is that of its first line, which slapd writes when a thread begins
with it: after the request has waited in slapd's own queue (qtime).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from ldapslam.jobs.replay.log import (
    NS_PER_S,
    SCOPES,
    Convert,
    Event,
    fields_of,
    fraction_ns,
    iso_time_ns,
)

#: Syslog's stamps have no year; a leap year has every day that they may name.
YEAR_WITHOUT_YEAR = 2000

_DEREF = {0: "never", 1: "searching", 2: "finding", 3: "always"}
_MONTHS = {
    name: number
    for number, name in enumerate(
        "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(), 1
    )
}
_DEBUG = re.compile(r"([0-9a-f]{8})(?:\.([0-9a-f]{8}|[0-9a-f]{5}) 0x[0-9a-f]+)? ")
_SYSLOG = re.compile(
    r"(?:<\d+>)?([A-Z][a-z]{2}) +(\d{1,2}) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))? "
)
_RFC3339 = re.compile(
    r"(?:<\d+>\d* ?)?(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?"
    r" ?(Z|[+-]\d\d:?\d\d)? "
)
_LINE = re.compile(r"conn=(\d+) (?:op=(\d+)|fd=\d+) (.*)", re.DOTALL)
_RESULT = re.compile(r"(?:SEARCH )?RESULT (?:tag=\d+|oid=\S*) err=(\d+)")
_ENTRIES = re.compile(r" nentries=(\d+)")


class Clock:
    """Times of a file's lines; None where a line has none that is known."""

    def __init__(self) -> None:
        #: The last stamp had whole seconds only.
        self.is_coarse = False
        self._year = YEAR_WITHOUT_YEAR
        self._month = 0
        self._days: dict[tuple[int, int], int] = {}

    def begin_next_year(self) -> None:
        """Where the log has no years: another of its files is of the year before."""
        self._year += 1

    def read(self, line: str) -> int | None:
        if match := _DEBUG.match(line):
            seconds, fraction = match.groups()
            scale = 1_000 if fraction and len(fraction) == 5 else 1
            self.is_coarse = fraction is None
            return int(seconds, 16) * NS_PER_S + int(fraction or "0", 16) * scale
        if match := _SYSLOG.match(line):
            return self._syslog(match)
        if match := _RFC3339.match(line):
            day, time, fraction, zone = match.groups()
            self.is_coarse = fraction is None
            return iso_time_ns(day, time, fraction, zone or "+00:00")
        return None

    def _syslog(self, match: re.Match[str]) -> int | None:
        month = _MONTHS.get(match[1])
        if month is None:
            return None
        if month < self._month - 6:
            self._year += 1  # from December to January
        self._month = month
        key = self._year, month * 32 + int(match[2])
        if key not in self._days:
            try:
                moment = datetime(self._year, month, int(match[2]), tzinfo=UTC)
            except ValueError:
                return None
            self._days[key] = int(moment.timestamp())
        seconds = int(match[3]) * 3_600 + int(match[4]) * 60 + int(match[5])
        self.is_coarse = match[6] is None
        return (self._days[key] + seconds) * NS_PER_S + fraction_ns(match[6])


def is_line(line: str) -> bool:
    """Whether a line is one of slapd's about a connection."""
    return Clock().read(line) is not None and _LINE.search(line) is not None


def events(
    lines: Iterable[str], clock: Clock, unusable: Counter[str]
) -> Iterator[Event]:
    """The events of one file's lines; others are counted by their reason."""
    for line in lines:
        time_ns = clock.read(line)
        match = _LINE.search(line)
        if time_ns is None or match is None:
            unusable["lines of another kind"] += bool(line.strip())
            continue
        connection, number, text = int(match[1]), int(match[2] or -1), match[3]
        if match[2] is None:
            if text.startswith(("ACCEPT ", "closed")):
                what = "open" if text.startswith("ACCEPT ") else "close"
                yield Event(time_ns, connection, what)
            continue
        event = _operation_event(text)
        if event is None:
            unusable["lines of another kind"] += 1
            continue
        yield Event(time_ns, connection, event[0], number, event[1])


def _operation_event(text: str) -> tuple[str, dict[str, Any]] | None:
    if match := _RESULT.match(text):
        entries = _ENTRIES.search(text)
        return "result", {
            "result": int(match[1]),
            "entries": int(entries[1]) if entries else 0,
        }
    word = text.split(" ", 1)[0]
    if word in _CONTINUATIONS:
        return "detail", {}
    if text.startswith(("SRCH attr=", "MOD attr=")):
        return "detail", {"attributes": tuple(text.partition("=")[2].split())}
    if word not in _REQUESTS:
        return None
    kind, pattern = _REQUESTS[word]
    match = pattern.match(text)
    if word == "BIND" and match is None:
        # the second line: the identity, the mechanism, or `anonymous`
        if " mech=" in text:
            mechanism = text.rpartition(" mech=")[2].split(" ")[0]
            return "detail", {} if mechanism in _IMPLIED else {"method": mechanism}
        if "authcid=" in text:
            return "detail", {}
    return kind, fields_of(match, _CONVERT)


# Lines that say nothing of the request that its first line has not.
_CONTINUATIONS = frozenset(
    ("PASSMOD", "WHOAMI", "STARTTLS", "ENTRY", "INTERMEDIATE", "PROXYAUTHZ", "CANCEL")
)
_IMPLIED = frozenset(("SIMPLE", "implicit"))
_METHODS = {"128": "simple", "163": "SASL"}
_DN = r'dn="(?P<dn>.*)"'
_ENTRY = rf"[A-Z]+ {_DN}\s*$"
#: By the first word of a line: the operation, and its fields.
_REQUESTS = {
    word: (kind, re.compile(pattern, re.DOTALL))
    for word, kind, pattern in (
        (
            "SRCH",
            "search",
            r'SRCH base="(?P<dn>.*)" scope=(?P<scope>\d) deref=(?P<deref>\d) '
            r'filter="(?P<filter>.*)"\s*$',
        ),
        ("BIND", "bind", rf"BIND {_DN} method=(?P<method>\d+)"),
        ("ADD", "add", _ENTRY),
        ("DEL", "delete", _ENTRY),
        ("MODRDN", "modify_dn", _ENTRY),
        ("MOD", "modify", _ENTRY),
        ("CMP", "compare", rf'CMP {_DN} attr="(?P<attribute>[^"]*)"'),
        ("EXT", "extended", r"EXT oid=(?P<oid>[\d.]+)"),
        ("ABANDON", "abandon", ""),
        ("UNBIND", "unbind", ""),
    )
}
_CONVERT: Convert = {
    "scope": lambda text: SCOPES.get(int(text), "sub"),
    "deref": lambda text: _DEREF.get(int(text), "never"),
    # (?attr=…): slapd marks what its schema does not know
    "filter": lambda text: re.sub(r"\(\?(?=[A-Za-z0-9])", "(", text),
    "method": lambda text: _METHODS.get(text, text),
}
