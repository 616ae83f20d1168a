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
from typing import Any

from ldapslam.jobs.replay import log
from ldapslam.jobs.replay.log import DN, MONTHS, NS_PER_S, SCOPES, Event, RequestLines

#: Syslog's stamps have no year; a leap year has every day that they may name.
YEAR_WITHOUT_YEAR = 2000

_DEREF = {0: "never", 1: "searching", 2: "finding", 3: "always"}
_DEBUG = re.compile(r"([0-9a-f]{8})(?:\.([0-9a-f]{8}|[0-9a-f]{5}) 0x[0-9a-f]+)? ")
_SYSLOG = re.compile(
    r"(?:<\d+>)?([A-Z][a-z]{2}) +(\d{1,2}) (\d\d:\d\d:\d\d)(?:\.(\d{1,9}))? "
)
_RFC3339 = re.compile(
    r"(?:<\d+>\d* ?)?(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?"
    r" ?(Z|[+-]\d\d:?\d\d)? "
)
_LINE = re.compile(r"conn=(\d+) (?:op=(\d+)|fd=\d+) (.*)", re.DOTALL)
_RESULT = re.compile(r"(?:SEARCH )?RESULT (?:tag=\d+|oid=\S*) err=(\d+)")
_ENTRIES = re.compile(r" nentries=(\d+)")


class Clock(log.Clock):
    def __init__(self) -> None:
        super().__init__()
        self._year = YEAR_WITHOUT_YEAR
        self._month = 0

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
            return self.time_ns(day, time, fraction, zone or "+00:00")
        return None

    def _syslog(self, match: re.Match[str]) -> int | None:
        month = MONTHS.get(match[1], 0)
        if month and month < self._month - 6:
            self._year += 1  # from December to January
        self._month = month or self._month
        day = f"{self._year}-{month:02}-{match[2]:0>2}"
        return self.time_ns(day, match[3], match[4], "+00:00")


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
    if word == "BIND" and not _FIRST_OF_BIND.match(text):
        # the second line: the identity, the mechanism, or `anonymous`
        if " mech=" in text:
            mechanism = text.rpartition(" mech=")[2].split(" ")[0]
            return "detail", {} if mechanism in _IMPLIED else {"method": mechanism}
        if "authcid=" in text:
            return "detail", {}
    return _REQUESTS.read(text)


# Lines that say nothing of the request that its first line has not.
_CONTINUATIONS = frozenset(
    ("PASSMOD", "WHOAMI", "STARTTLS", "ENTRY", "INTERMEDIATE", "PROXYAUTHZ", "CANCEL")
)
_IMPLIED = frozenset(("SIMPLE", "implicit"))
_METHODS = {"128": "simple", "163": "SASL"}
_FIRST_OF_BIND = re.compile(rf"BIND {DN} method=(?P<method>\d+)", re.DOTALL)
_ENTRY = rf"[A-Z]+ {DN}\s*$"
_REQUESTS = RequestLines(
    {
        "SRCH": r'SRCH base="(?P<dn>.*)" scope=(?P<scope>\d) deref=(?P<deref>\d) '
        r'filter="(?P<filter>.*)"\s*$',
        "BIND": _FIRST_OF_BIND.pattern,
        **dict.fromkeys(("ADD", "DEL", "MODRDN", "MOD"), _ENTRY),
        "EXT": r"EXT oid=(?P<oid>[\d.]+)",
    },
    {
        "scope": lambda text: SCOPES.get(int(text), "sub"),
        "deref": lambda text: _DEREF.get(int(text), "never"),
        # (?attr=…): slapd marks what its schema does not know
        "filter": lambda text: re.sub(r"\(\?(?=[A-Za-z0-9])", "(", text),
        "method": lambda text: _METHODS.get(text, text),
    },
)
