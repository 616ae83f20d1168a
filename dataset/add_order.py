# SPDX-License-Identifier: Apache-2.0
"""Which add may be sent next, and up to where a file is done. Pure.

    order.take(record)      read from the file        -> waits, or may be sent
    order.next()            to be sent now
    order.answer(add, …)    its response is there     -> what waited for it may be sent
    order.again(add)        its connection was lost   -> may be sent once more
    order.settled()         answered, and all before it in the file too
    order.note_ready()      from here on what may be sent may be in the directory

An entry waits for the response of its parent, when that is on its way, and of an
earlier entry with the same DN. What is settled comes in the order of the file, so that
one place in the file says what a load that was interrupted has done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from ldapslam.dataset.ldif import Record
from ldapslam.directory.entry_digest import normalised_dn
from ldapslam.jobs.requests.dn import split_rdn


class Outcome(Enum):
    ADDED = "added"
    #: It was there, of the same load before it was interrupted.
    PRESENT = "present"
    REJECTED = "rejected"


@dataclass(eq=False, slots=True)
class Add:
    """One entry on its way into the directory."""

    record: Record
    key: bytes
    #: An earlier call may have added it.
    may_be_there: bool = False
    #: This call may add it at any time, or has; see note_ready.
    is_noted: bool = False
    #: Connections that were lost before the response: the entry may be there.
    losses: int = 0
    #: None until it is answered.
    outcome: Outcome | None = None
    #: Of a rejected one: what the server said.
    reason: str = ""
    #: What is sent when this one is answered.
    waiting: list[Add] = field(default_factory=list)


class AddOrder:
    def __init__(self) -> None:
        #: Not settled, in the order of the file.
        self.line: deque[Add] = deque()
        #: May be sent.
        self.ready: deque[Add] = deque()
        #: By normalised DN: the last of those that are not answered.
        self._unanswered: dict[bytes, Add] = {}

    @property
    def perhaps_there(self) -> Iterator[Record]:
        """Not settled, and may be in the directory."""
        for add in self.line:
            if add.outcome is not Outcome.REJECTED and (
                add.may_be_there or add.is_noted
            ):
                yield add.record

    def answered(self, outcome: Outcome) -> int:
        """How many that are not settled have this outcome."""
        return sum(add.outcome is outcome for add in self.line)

    def note_ready(self) -> None:
        for add in self.ready:
            add.is_noted = True

    def forget_ready(self) -> None:
        """Nothing more is sent: what never was is not in the directory."""
        for add in self.ready:
            add.is_noted = add.losses > 0

    def take(self, record: Record, *, may_be_there: bool = False) -> None:
        add = Add(record, normalised_dn(record.dn), may_be_there)
        self.line.append(add)
        parent = normalised_dn(split_rdn(record.dn)[1])
        before = self._unanswered.get(add.key) or self._unanswered.get(parent)
        self._unanswered[add.key] = add
        if before is None:
            self.ready.append(add)
        else:
            before.waiting.append(add)

    def next(self) -> Add | None:
        return self.ready.popleft() if self.ready else None

    def again(self, add: Add) -> None:
        add.losses += 1
        self.ready.appendleft(add)

    def answer(self, add: Add, outcome: Outcome, reason: str = "") -> None:
        add.outcome, add.reason = outcome, reason
        self.ready.extend(add.waiting)
        add.waiting.clear()
        if self._unanswered.get(add.key) is add:
            del self._unanswered[add.key]

    def settled(self, *, with_rejected: bool) -> Iterator[Add]:
        """Those that leave the line; rejected ones only `with_rejected`."""
        while self.line:
            outcome = self.line[0].outcome
            if outcome is None or (outcome is Outcome.REJECTED and not with_rejected):
                return
            yield self.line[0]
            self.line.popleft()
