# SPDX-License-Identifier: Apache-2.0
"""The order of adds: which entry may be sent next. Pure.

    order.take(record)      read from the file     -> waits, or may be sent
    order.next()            the next entry to send
    order.answer(add)       its response arrived   -> entries that waited may be sent
    order.retry(add)        its connection was lost -> may be sent once more

An entry waits for the response of its parent, when that is not answered yet, and of an
earlier entry with the same DN.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from ldapslam.dataset.ldif import Record
from ldapslam.directory.entry_digest import normalised_dn
from ldapslam.jobs.requests.dn import split_rdn


@dataclass(eq=False, slots=True)
class Add:
    """One entry that is to be added."""

    record: Record
    key: bytes
    #: Connections lost before the response: the entry may be in the directory.
    losses: int = 0
    #: Entries that may be sent when this entry is answered.
    waiting: list[Add] = field(default_factory=list)


class AddOrder:
    def __init__(self) -> None:
        #: May be sent.
        self.ready: deque[Add] = deque()
        #: Waiting, ready and sent entries.
        self.unanswered_count = 0
        #: By normalised DN: the last unanswered entry.
        self._unanswered: dict[bytes, Add] = {}

    def take(self, record: Record) -> None:
        add = Add(record, normalised_dn(record.dn))
        parent = normalised_dn(split_rdn(record.dn)[1])
        before = self._unanswered.get(add.key) or self._unanswered.get(parent)
        self._unanswered[add.key] = add
        self.unanswered_count += 1
        if before is None:
            self.ready.append(add)
        else:
            before.waiting.append(add)

    def next(self) -> Add | None:
        return self.ready.popleft() if self.ready else None

    def retry(self, add: Add) -> None:
        add.losses += 1
        self.ready.appendleft(add)

    def answer(self, add: Add) -> None:
        self.unanswered_count -= 1
        self.ready.extend(add.waiting)
        add.waiting.clear()
        if self._unanswered.get(add.key) is add:
            del self._unanswered[add.key]
