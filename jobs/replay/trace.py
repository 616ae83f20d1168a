# SPDX-License-Identifier: Apache-2.0
"""A log as the engine replays it: which request is due when, on which connection.

The log's connections are sessions; those that do not overlap take turns on one
connection of the run, which ends with each and is replaced for the next. Every agent
makes the whole of it and writes its own connections to its trace (csrc/load/trace.h).

    due = start + (time in the log - begin of the log - skip) / speed

As fast as possible, nothing is due: a connection sends when its last answer is there.
`Requests` makes the BER of a request from what the log says of it, or says why not.
"""

from __future__ import annotations

import heapq
import itertools
import random
import string
import struct
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, BinaryIO

from ldapslam.base.fault import Fault
from ldapslam.jobs.operations.add import add_request
from ldapslam.jobs.operations.connection import UNBIND, WHO_AM_I, simple_bind
from ldapslam.jobs.operations.entries import (
    compare_request,
    modify_dn_request,
    modify_request,
)
from ldapslam.jobs.operations.search import search_request
from ldapslam.jobs.replay.log import Log, Operation
from ldapslam.jobs.replay.options import KINDS, Trace
from ldapslam.jobs.requests import ber
from ldapslam.jobs.requests.dn import rdn_values
from ldapslam.jobs.requests.filter import compile_filter
from ldapslam.jobs.requests.template import Node


@dataclass(frozen=True)
class Identity:
    """Whom binds are as, where the job says `as_configured`."""

    dn: str
    password: bytes


class Skipped(Exception):
    """There is no such request: the reason, as the report has it."""


class Requests:
    """Makes the requests of a trace; the same seed makes the same requests."""

    def __init__(self, trace: Trace, seed: int, identity: Identity | None) -> None:
        self._trace = trace
        self._random = random.Random(seed)
        self._identity = identity

    def make(self, operation: Operation) -> bytes:
        """What follows the messageID; Skipped says why there is nothing."""
        if reason := operation.why_unusable:
            raise Skipped(reason)
        make: Callable[[Operation], Node] = getattr(self, f"_{operation.kind}")
        node = make(operation)
        if not isinstance(node, bytes):
            raise Skipped("the request cannot be encoded")
        return node

    def _search(self, operation: Operation) -> Node:
        try:
            matched = _filter(operation.filter)
        except Fault:
            raise Skipped("the filter is cut off or not known to the server") from None
        return search_request(
            (operation.dn.encode(),),
            operation.scope,
            operation.deref,
            matched,
            operation.attributes,
        )

    def _compare(self, operation: Operation) -> Node:
        return compare_request(
            (operation.dn.encode(),),
            "".join(operation.attributes),
            (self._trace.compare_value.encode(),),
        )

    def _bind(self, operation: Operation) -> Node:
        binds = self._trace.binds
        if binds is None:
            raise Skipped("the log has no passwords, and the job no `binds`")
        dn, password = operation.dn, b""
        if dn:
            password = (binds.password or "").encode()
            if binds.as_configured and self._identity is not None:
                dn, password = self._identity.dn, self._identity.password
        return simple_bind((dn.encode(),), (password,))

    def _add(self, operation: Operation) -> Node:
        if self._trace.adds is None:
            raise Skipped("the log has no entries, and the job no `adds`")
        values: dict[str, list[str]] = {}
        for name, value in rdn_values(operation.dn):
            values.setdefault(name.lower(), []).append(value)
        of_rdn = set(values)
        for name, given in self._trace.adds.entry.items():
            listed = values.setdefault(name.lower(), [])
            if name.lower() not in of_rdn:
                listed += [given] if isinstance(given, str) else given
        attributes = (
            ber.attribute(name, [(text.encode(),) for text in texts])
            for name, texts in values.items()
        )
        return add_request((operation.dn.encode(),), attributes)

    def _modify(self, operation: Operation) -> Node:
        modifies = self._trace.modifies
        if modifies is None:
            raise Skipped("the log has no new values, and the job no `modifies`")
        value = "".join(self._random.choices(string.ascii_lowercase, k=modifies.length))
        change = ("replace", modifies.attribute, [(value.encode(),)])
        return modify_request((operation.dn.encode(),), [change])

    def _delete(self, operation: Operation) -> Node:
        if not self._trace.deletes:
            raise Skipped("the job does not say `deletes: true`")
        return ber.tlv(0x4A, operation.dn.encode())

    def _modify_dn(self, operation: Operation) -> Node:
        if not operation.new_rdn:
            raise Skipped("the log does not have the new name")
        if not self._trace.renames:
            raise Skipped("the job does not say `renames: true`")
        superior = operation.new_superior
        return modify_dn_request(
            (operation.dn.encode(),),
            (operation.new_rdn.encode(),),
            operation.delete_old_rdn,
            None if superior is None else (superior.encode(),),
        )

    def _extended(self, operation: Operation) -> Node:
        return ber.tlv(0x77, ber.tlv(0x80, WHO_AM_I.encode()))


@lru_cache(maxsize=65_536)
def _filter(text: str) -> Node:
    return compile_filter(text.replace("[", "[[").replace("]", "]]"))


_HEADER = struct.Struct("<8sQQQ")
_RECORD = struct.Struct("<QQQIIII")
_MAGIC = b"SLT1\0\0\0\0"
_NEVER = (1 << 64) - 1
_NUMBER = {kind: number for number, kind in enumerate(KINDS)}

#: Time for a connection to be replaced before its next session begins.
RECONNECT_NS = 50_000_000


@dataclass(frozen=True)
class Pace:
    """When what the log has is due, in ns since T0."""

    #: Of the first request, and the first time at which none is sent any more.
    start_ns: int
    end_ns: int
    #: How many times as fast as the log; None: as fast as possible.
    speed: float | None = 1.0
    skip_ns: int = 0

    def due_ns(self, log_ns: int) -> int:
        """Of a time since the log's begin; before the start for what is skipped."""
        if self.speed is None:
            return self.start_ns
        return self.start_ns + round((log_ns - self.skip_ns) / self.speed)


@dataclass(slots=True)
class _Request:
    due_ns: int
    number: int
    body: bytes
    #: Of an unbind: when the connection is set up again.
    connect_ns: int = 0


@dataclass
class Schedule:
    """All of a replay."""

    #: Requests of each connection of the run, in order.
    connections: list[list[_Request]] = field(default_factory=list)
    #: Requests by kind, without unbinds.
    requests: Counter[str] = field(default_factory=Counter)
    #: Requests of the log that are not sent: by kind, and why.
    skipped: Counter[tuple[str, str]] = field(default_factory=Counter)
    #: Result codes in the log that are no success, by kind.
    codes: dict[str, set[int]] = field(default_factory=dict)
    sessions: int = 0

    @property
    def total(self) -> int:
        return self.requests.total()

    def facts(self) -> dict[str, object]:
        """For the run's manifest."""
        return {
            "requests": dict(self.requests),
            # with unbinds: the stream ends when all are sent
            "count": sum(map(len, self.connections)),
            "sessions": self.sessions,
            "connections": len(self.connections),
            "expected_codes": {
                kind: sorted(codes) for kind, codes in self.codes.items()
            },
            "skipped": [
                {"operation": kind, "reason": reason, "count": count}
                for (kind, reason), count in sorted(self.skipped.items())
            ],
        }


def schedule(log: Log, pace: Pace, requests: Requests) -> Schedule:
    """What is sent of a log, on as few connections as its sessions need."""
    made = Schedule()
    takers = _Takers(round(RECONNECT_NS * (pace.speed or 1)))
    for session in log.sessions:
        begin_ns = pace.due_ns(session.start_ns - log.first_ns)
        end_ns: int | None = None
        if session.end_ns is not None:
            end_ns = pace.due_ns(session.end_ns - log.first_ns)
        if begin_ns >= pace.end_ns and pace.speed is not None:
            _skip_all(made, session.operations, "after the end of the run")
            continue
        if end_ns is not None and end_ns < pace.start_ns:
            _skip_all(made, session.operations, "in the part that the job skips")
            continue
        sent: list[_Request] = []
        for operation in session.operations:
            if operation.kind == "unbind":
                continue
            due_ns = pace.due_ns(operation.time_ns - log.first_ns)
            try:
                if due_ns < pace.start_ns:
                    raise Skipped("in the part that the job skips")
                if due_ns >= pace.end_ns and pace.speed is not None:
                    raise Skipped("after the end of the run")
                body = requests.make(operation)
            except Skipped as skipped:
                made.skipped[operation.kind, str(skipped)] += 1
                continue
            made.requests[operation.kind] += 1
            sent.append(_Request(due_ns, _NUMBER[operation.kind], body))
            success = KINDS[operation.kind][1]
            if operation.result is not None and operation.result not in success:
                made.codes.setdefault(operation.kind, set()).add(operation.result)
        if end_ns is not None and (end_ns < pace.end_ns or pace.speed is None):
            sent.append(_Request(max(end_ns, pace.start_ns), _NUMBER["unbind"], UNBIND))
        made.sessions += 1
        takers.give(
            session.start_ns, session.end_ns, begin_ns if pace.speed else 0, sent
        )
    made.connections = takers.connections
    return made


def _skip_all(made: Schedule, operations: list[Any], reason: str) -> None:
    for operation in operations:
        if operation.kind != "unbind":
            made.skipped[operation.kind, reason] += 1


class _Takers:
    """The connections of the run. A session goes to the one that has been free longest,
    so that each has the most time to be replaced. Whether sessions overlap is seen
    in the log's own time."""

    def __init__(self, reconnect_ns: int) -> None:
        self._reconnect_ns = reconnect_ns
        self.connections: list[list[_Request]] = []
        self._free: deque[int] = deque()
        self._busy: list[tuple[int, int]] = []

    def give(
        self,
        begin_ns: int,
        end_ns: int | None,
        connect_ns: int,
        sent: list[_Request],
    ) -> None:
        """Assign a session of the log: its begin and end, when its connection is to be
        set up again, and its requests."""
        while self._busy and self._busy[0][0] <= begin_ns:
            self._free.append(heapq.heappop(self._busy)[1])
        if self._free:
            number = self._free.popleft()
            self.connections[number][-1].connect_ns = connect_ns
        else:
            number = len(self.connections)
            self.connections.append([])
        self.connections[number] += sent
        if end_ns is not None and sent and sent[-1].body is UNBIND:
            sent[-1].connect_ns = _NEVER  # until it has a next one
            heapq.heappush(self._busy, (end_ns + self._reconnect_ns, number))


def write_trace(
    made: Schedule, stream: BinaryIO, *, first_connection: int, stride: int
) -> int:
    """Write the trace of the connections first, first + stride, …; returns the number
    of requests, unbinds included."""
    mine = made.connections[first_connection::stride]
    records = sorted(
        (request.due_ns, connection, position, request)
        for connection, requests in enumerate(mine)
        for position, request in enumerate(requests)
    )
    sizes = (_RECORD.size + -(-len(one.body) // 8) * 8 for *_, one in records)
    offsets = list(itertools.accumulate(sizes, initial=_HEADER.size))
    following: dict[int, int] = {}
    nexts = [0] * len(records)
    for index in range(len(records) - 1, -1, -1):
        connection = records[index][1]
        nexts[index] = following.get(connection, 0)
        following[connection] = offsets[index]
    stream.write(_HEADER.pack(_MAGIC, len(records), len(mine), 0))
    for (due_ns, connection, _, request), next_offset in zip(
        records, nexts, strict=True
    ):
        stream.write(
            _RECORD.pack(
                due_ns,
                next_offset,
                request.connect_ns,
                connection,
                request.number,
                len(request.body),
                0,
            )
        )
        stream.write(request.body + b"\0" * (-len(request.body) % 8))
    return len(records)
