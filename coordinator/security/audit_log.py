# SPDX-License-Identifier: Apache-2.0
"""Writes the audit log, with the caller of the current call.

Allowed actions are always written: those that change the store in the transaction of
the change, the others before the reply. Refusals are limited, so that
nobody can fill the disk; how many were left out is written with the next one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime

from ldapslam.coordinator.bounds import Bound, note_exceeded
from ldapslam.coordinator.security.access import Caller, caller
from ldapslam.coordinator.store_writer import StoreWriter
from ldapslam.results import audit
from ldapslam.results.audit import AuditRecord
from ldapslam.results.records import utc_text

_log = logging.getLogger(__name__)

#: Refusals at once, and per minute.
_BURST = 50
_PER_MINUTE = 5
_MAX_LOGGED = 300


class Allowance:
    """A bucket of tokens: `burst` at once, then `per_s` (tokens per second)."""

    def __init__(self, burst: int, per_s: float, now_s: float) -> None:
        self._burst = float(burst)
        self._per_s = per_s
        self._level = float(burst)
        self._at_s = now_s

    def take(self, now_s: float) -> bool:
        gained = max(0.0, now_s - self._at_s) * self._per_s
        self._level = min(self._burst, self._level + gained)
        self._at_s = now_s
        if self._level < 1:
            return False
        self._level -= 1
        return True


class AuditLog:
    """The audit log of one coordinator; on its event loop."""

    def __init__(
        self, writer: StoreWriter, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._writer = writer
        self._now_s = now_s
        self._allowance = Allowance(_BURST, _PER_MINUTE / 60, now_s())
        self._left_out = 0

    async def note(
        self, action: str, subject: str, detail: str = "", *, by: str = ""
    ) -> None:
        """Keep what the current caller did; `by` is the name it gave itself."""
        note = note_of_caller(action, subject, detail, by=by)
        await self._writer.call(audit.add, self._writer.store, note)

    def post(
        self, action: str, subject: str, detail: str = "", *, by: str = ""
    ) -> None:
        """`note`, written as soon as the store takes it, before what is posted next."""
        note = note_of_caller(action, subject, detail, by=by)
        self._writer.post(audit.add, self._writer.store, note)

    def refused(self, who: Caller, subject: str, reason: str) -> None:
        """Keep a refusal, unless there are too many."""
        if not self._allowance.take(self._now_s()):
            self._left_out += 1
            note_exceeded(Bound.AUDIT)
            return
        shown = reason[:_MAX_LOGGED]
        _log.warning("refused %s from %s: %s", subject[:_MAX_LOGGED], who.peer, shown)
        if self._left_out:
            reason += f" (and {self._left_out} refusals before, not written)"
            self._left_out = 0
        record = _record(who, "refuse", subject, reason, "")
        self._writer.post(audit.add, self._writer.store, record)


def note_of_caller(
    action: str, subject: str, detail: str = "", *, by: str = ""
) -> AuditRecord:
    """What the current caller does, to be kept with it (`audit.noted`); `by` is the
    name it gave itself."""
    return _record(caller(), action, subject, detail, by)


def _record(
    who: Caller, action: str, subject: str, detail: str, by: str
) -> AuditRecord:
    return AuditRecord(
        at_utc=utc_text(datetime.now(UTC)),
        who=who.who or by,
        role=who.role,
        peer=who.peer,
        action=action,
        subject=subject,
        detail=detail,
    )
