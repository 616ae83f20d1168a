# SPDX-License-Identifier: Apache-2.0
"""The audit log: who did what, such as submit, cancel, enrol; and who was refused.

Entries are never changed. They live as long as the store, unless whoever has the store
removes old ones (`upkeep`), of which an entry tells.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TypeVar

import sqlalchemy as sa

from ldapslam.base.inert import one_line
from ldapslam.results import schema
from ldapslam.results.store import Store

#: Characters of a text that a caller chose; the rest is cut off.
_MAX_TEXT = 500

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One action, or one refusal."""

    at_utc: str
    #: Name in the certificate; without one, what the caller said.
    who: str
    #: agent, operator, viewer; `local` without a certificate, `none` of a stranger.
    role: str
    #: Where the call came from.
    peer: str
    #: submit, cancel, schedule, enrol, refuse and the like.
    action: str
    #: Id of the run or schedule, name of the agent, method.
    subject: str
    detail: str = ""
    #: Given by the store, from 1.
    number: int = 0


def add(store: Store, record: AuditRecord) -> None:
    """Keep a record; its number is the store's."""
    values = {name: _cut(value) for name, value in asdict(record).items()}
    del values["number"]
    with store.transaction(writes=True) as connection:
        connection.execute(schema.audit.insert(), values)


def noted(store: Store, note: AuditRecord, change: Callable[[], T]) -> T:
    """A change and its note: both are kept, or neither. One that answers False has
    changed nothing, and is not noted."""
    with store.together():
        answer = change()
        if answer is not False:
            add(store, note)
    return answer


def newest(store: Store, limit: int = 0) -> list[AuditRecord]:
    """The newest records, newest first; 0 is all."""
    query = sa.select(schema.audit).order_by(schema.audit.c.number.desc())
    if limit:
        query = query.limit(limit)
    with store.transaction(writes=False) as connection:
        return [AuditRecord(**row) for row in connection.execute(query).mappings()]


def _cut(value: object) -> object:
    if not isinstance(value, str):
        return value
    text = one_line(value)
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}…"
