# SPDX-License-Identifier: Apache-2.0
"""What a directory's log says, whichever server wrote it: sessions of operations.

The parsers (openldap.py, ds389.py) turn lines into events; `Assembler` puts the events
of one connection together, over all files of a rotated log. Everything that a log has
and that cannot be used is counted by its reason: nothing is left out silently. Pure:
read.py opens the files.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ldapslam.jobs.operations.connection import WHO_AM_I

NS_PER_S = 1_000_000_000

SCOPES = {0: "base", 1: "one", 2: "sub", 3: "children"}
_START_TLS = "1.3.6.1.4.1.1466.20037"


@dataclass(slots=True)
class Event:
    """One line of a log that concerns a connection."""

    #: CLOCK_REALTIME; years may be invented where the log has none.
    time_ns: int
    #: The server's number of the connection, unique until the server restarts.
    connection: int
    #: One of COUNTED_KINDS, or 'open', 'close', 'result', 'detail'.
    what: str
    #: The operation's number in its connection; -1 for open and close.
    number: int = -1
    #: Fields of `Operation`.
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Operation:
    """A request as logged. What the log does not say is empty."""

    time_ns: int
    number: int
    kind: str
    #: The entry; a search's base, a bind's name.
    dn: str = ""
    scope: str = "sub"
    deref: str = "never"
    filter: str = ""
    #: A search's attributes, a modify's, or a compare's one.
    attributes: tuple[str, ...] = ()
    #: 'simple' or a SASL mechanism.
    method: str = "simple"
    oid: str = ""
    new_rdn: str = ""
    new_superior: str | None = None
    delete_old_rdn: bool = True
    #: A persistent search, which has no end.
    is_persistent: bool = False
    #: None: the log does not have the result.
    result: int | None = None
    entries: int = 0
    #: Why the line cannot be used, such as that it is cut off.
    problem: str = ""

    @property
    def why_unusable(self) -> str:
        """Why no request is made of it, whatever the job says; empty: one may be."""
        if self.problem:
            return self.problem
        if self.kind == "abandon":
            return "abandons"
        if self.is_persistent:
            return "persistent searches"
        if self.kind == "bind" and self.method != "simple":
            return f"{self.method} binds"
        if self.kind == "extended" and self.oid == _START_TLS:
            return "StartTLS, which is the set-up's"
        if self.kind == "extended" and self.oid != WHO_AM_I:
            return f"extended operations {self.oid}"
        if "\ufffd" in self.dn or "\ufffd" in self.filter:
            return "lines that are not UTF-8"
        return ""


@dataclass(slots=True)
class Session:
    """What happened on one connection, in the order of the requests."""

    start_ns: int
    #: None: still open when the log ends.
    end_ns: int | None = None
    #: False: it was open when the log began.
    has_start: bool = True
    operations: list[Operation] = field(default_factory=list)


@dataclass
class Log:
    """All that was read."""

    sessions: list[Session] = field(default_factory=list)
    first_ns: int = 0
    last_ns: int = 0
    lines: int = 0
    #: Lines that could not be used, by reason.
    unusable: Counter[str] = field(default_factory=Counter)
    #: Times are whole seconds in the log; they were spread evenly over each second.
    is_coarse: bool = False

    @property
    def duration_ns(self) -> int:
        return self.last_ns - self.first_ns

    def operations(self) -> Iterator[Operation]:
        for session in self.sessions:
            yield from session.operations


MONTHS = {
    name: number
    for number, name in enumerate(
        "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(), 1
    )
}


class Clock:
    """Times of a file's lines; None where a line has none that is known."""

    def __init__(self) -> None:
        #: The last stamp had whole seconds only.
        self.is_coarse = False

    def time_ns(
        self, day: str, time: str, fraction: str | None, zone: str
    ) -> int | None:
        """The time of a stamp in ISO form, with the digits behind its second."""
        try:
            moment = datetime.fromisoformat(f"{day}T{time}{zone}")
        except ValueError:
            return None
        self.is_coarse = fraction is None
        return int(moment.timestamp()) * NS_PER_S + int((fraction or "").ljust(9, "0"))


#: The operation that a line is about, by its first word.
_KINDS = {
    "SRCH": "search",
    "BIND": "bind",
    "AUTOBIND": "bind",
    "ADD": "add",
    "MOD": "modify",
    "DEL": "delete",
    "MODRDN": "modify_dn",
    "CMP": "compare",
    "EXT": "extended",
    "ABANDON": "abandon",
    "UNBIND": "unbind",
}
DN = r'dn="(?P<dn>.*)"'
_SAME_OF_BOTH = {
    "CMP": rf'CMP {DN} attr="(?P<attribute>[^"]*)"',
    "ABANDON": "",
    "UNBIND": "",
}
#: How the text of a field in a log becomes the field; the others are texts.
Convert = Mapping[str, Callable[[Any], Any]]


class RequestLines:
    """The lines of requests in a server's log."""

    def __init__(self, patterns: Mapping[str, str], convert: Convert) -> None:
        """`patterns`: by a line's first word, with the fields of `Operation`."""
        self._patterns = {
            word: re.compile(pattern, re.DOTALL)
            for word, pattern in {**_SAME_OF_BOTH, **patterns}.items()
        }
        self._convert = convert

    def read(self, text: str) -> tuple[str, dict[str, Any]] | None:
        """Kind and fields of the operation; None: it is another line."""
        word = text.split(" ", 1)[0]
        if word not in self._patterns:
            return None
        match = self._patterns[word].match(text)
        return _KINDS[word], fields_of(match, self._convert)


def fields_of(match: re.Match[str] | None, convert: Convert) -> dict[str, Any]:
    """The fields of a line whose pattern names them; `attribute` is the only one."""
    if match is None:
        return {"problem": "the line is cut off"}
    fields = {
        name: convert[name](text) if name in convert else text
        for name, text in match.groupdict().items()
    }
    if "attribute" in fields:
        fields["attributes"] = (fields.pop("attribute"),)
    return fields


class Assembler:
    """Sessions of events that come roughly in the order of time."""

    def __init__(self) -> None:
        self.log = Log()
        self._open: dict[int, Session] = {}
        self._pending: dict[tuple[int, int], Operation] = {}

    def finish(self) -> Log:
        """The log; what still has no result or end stays so."""
        for session in self.log.sessions:
            # Threads write their lines as they get to it: the number is the order in
            # which the client sent them, and no request is earlier than the one before.
            session.operations.sort(key=lambda operation: operation.number)
            before_ns = session.start_ns
            for operation in session.operations:
                operation.time_ns = before_ns = max(before_ns, operation.time_ns)
            if session.end_ns is not None:
                session.end_ns = max(session.end_ns, before_ns)
        self.log.sessions.sort(key=lambda session: session.start_ns)
        return self.log

    def add(self, event: Event) -> None:
        log = self.log
        if log.first_ns == 0 or event.time_ns < log.first_ns:
            log.first_ns = event.time_ns
        log.last_ns = max(log.last_ns, event.time_ns)
        if event.what == "open":
            self._close(event.connection, event.time_ns)  # the server has restarted
            self._begin(event, True)
        elif event.what == "close":
            self._close(event.connection, event.time_ns)
        elif event.what == "result":
            self._complete(event)
        elif event.what == "detail":
            operation = self._pending.get((event.connection, event.number))
            _set(operation, event.fields)
        else:
            self._request(event)

    def _begin(self, event: Event, has_start: bool) -> Session:
        session = Session(event.time_ns, has_start=has_start)
        self._open[event.connection] = session
        self.log.sessions.append(session)
        return session

    def _request(self, event: Event) -> None:
        session = self._open.get(event.connection) or self._begin(event, False)
        operation = Operation(event.time_ns, event.number, event.what)
        _set(operation, event.fields)
        session.operations.append(operation)
        self._pending[event.connection, event.number] = operation

    def _complete(self, event: Event) -> None:
        operation = self._pending.pop((event.connection, event.number), None)
        if operation is not None:
            _set(operation, event.fields)
            return
        session = self._open.get(event.connection)
        if session is None or not session.has_start:
            self.log.unusable["results of requests from before the log began"] += 1
        else:
            self.log.unusable["results of requests that the log does not describe"] += 1

    def _close(self, connection: int, time_ns: int) -> None:
        session = self._open.pop(connection, None)
        if session is None:
            return
        session.end_ns = time_ns
        for operation in session.operations:
            self._pending.pop((connection, operation.number), None)


def _set(operation: Operation | None, fields: dict[str, Any]) -> None:
    for name, value in fields.items() if operation else ():
        setattr(operation, name, value)


#: Lines come in the order of time, but for threads that overtake one another and, in
#: local time, the hour that autumn has twice.
_BACKWARDS_NS = 2 * 3_600 * NS_PER_S
#: After this many lines in a row the clock was set, and no line damaged.
_CLOCK_WAS_SET = 100


def plausible(events: Iterable[Event], unusable: Counter[str]) -> Iterator[Event]:
    """Events without those far after the next one, or far before the last one: their
    time is damaged."""
    before_ns = 0
    held: Event | None = None
    refused = 0
    for event in events:
        if event.time_ns < before_ns - _BACKWARDS_NS and refused < _CLOCK_WAS_SET:
            refused += 1
            unusable[_DAMAGED] += 1
            continue
        if held is not None:
            if event.time_ns < held.time_ns - _BACKWARDS_NS and not refused:
                unusable[_DAMAGED] += 1
            else:
                before_ns = held.time_ns
                yield held
        refused = 0
        held = event
    if held is not None:
        yield held


_DAMAGED = "lines whose time cannot be right"


def spread(events: Iterable[Event]) -> Iterator[Event]:
    """Events whose times are whole seconds, spread evenly over each second in order."""
    second: list[Event] = []
    for event in events:
        if second and event.time_ns != second[0].time_ns:
            yield from _spread_one(second)
            second.clear()
        second.append(event)
    yield from _spread_one(second)


def _spread_one(second: list[Event]) -> Iterator[Event]:
    for index, event in enumerate(second):
        event.time_ns += index * NS_PER_S // len(second)
        yield event
