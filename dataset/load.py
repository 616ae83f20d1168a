# SPDX-License-Identifier: Apache-2.0
"""Entries of an LDIF file into a directory over LDAP: adds, pipelined, resumable.

One thread drives all connections: each has up to `window` adds under way, and whichever
has room takes the next one that may be sent (add_order.py). A lost connection is made
again and what was under way on it is sent again. What is answered is kept beside the
file (load_state.py), so that a load that was interrupted goes on where it was.
"""

from __future__ import annotations

import contextlib
import gzip
import select
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import ldap

from ldapslam.base.errors import TargetUnreachable
from ldapslam.dataset.add_order import Add, AddOrder, Outcome
from ldapslam.dataset.ldif import Record, open_ldif, records
from ldapslam.dataset.load_state import LoadState, Progress
from ldapslam.directory.access import connect, error_text, result_code_of
from ldapslam.directory.entry_digest import Rules, entry_digest
from ldapslam.jobs.connection_settings import ConnectionSettings
from ldapslam.jobs.fields.result_codes import NAMES

#: What a population's fingerprint is of: a server may hash passwords.
POPULATION: Final = Rules(passwords=False)

#: What servers maintain themselves and refuse in an add (NO-USER-MODIFICATION), in
#: lower case; files of slapcat and db2ldif have them.
MAINTAINED: Final = frozenset(
    "contextcsn createtimestamp creatorsname entrycsn entrydn entryid entryuuid "
    "hassubordinates modifiersname modifytimestamp nsuniqueid numsubordinates parentid "
    "structuralobjectclass subschemasubentry".split()
)

DEFAULT_CONNECTIONS: Final = 4
DEFAULT_WINDOW: Final = 64

ALREADY_EXISTS = 68
_ATTEMPTS = 5
_PAUSE_S = 0.2
_SAVE_S = 1.0
_TELL_S = 0.25
#: Least entries to read ahead: the state is written once for this many.
_READ_AHEAD = 256
#: Entries that may wait to be settled, for each that may be under way: how far others
#: may run ahead of a slow one.
_AHEAD = 16


@dataclass(frozen=True, slots=True)
class LoadSettings:
    connections: int = DEFAULT_CONNECTIONS
    #: Adds under way on each connection.
    window: int = DEFAULT_WINDOW
    #: Go on after an entry was refused.
    continue_on_error: bool = False
    #: Leave the attributes of MAINTAINED out.
    strip_operational: bool = False
    #: Forget what an earlier call did.
    restart: bool = False
    #: Longest wait for any response.
    timeout_s: float = 60.0


@dataclass(frozen=True, slots=True)
class LoadResult:
    """`added` and `present` are also of what follows a refused entry that ended it."""

    progress: Progress
    added: int
    present: int
    #: An earlier call had begun.
    is_resumed: bool
    #: The refused entry that ended the load, and why; None: it came to its end.
    stopped_by: str | None
    #: The server's result code for it; None: it was not sent.
    stopped_code: int | None = None
    #: Where the rejects of an earlier load are now that had the same name.
    kept_rejects: Path | None = None


#: Hears how far the load is, and which part of the file that is; None: not known.
Tell = Callable[[Progress, float | None], None]


def load(
    ldif: Path,
    uri: str,
    access: ConnectionSettings,
    rejects: Path,
    settings: LoadSettings,
    tell: Tell = lambda progress, share: None,
) -> LoadResult:
    """Add all entries; calls `tell` several times a second. ConfigError: the file is no
    LDIF, or the state cannot be kept. TargetError: the server cannot be used. After
    either, and after an interrupt, another call resumes."""
    state = LoadState(ldif, uri, rejects, restart=settings.restart)
    with contextlib.ExitStack() as stack:
        stream = stack.enter_context(open_ldif(ldif))
        size = None if isinstance(stream, gzip.GzipFile) else ldif.stat().st_size
        loader = _Loader(uri, access, state, settings)
        stack.callback(loader.close)
        loader.connect()
        stack.enter_context(state)
        place = state.progress
        stream.seek(place.offset_bytes)
        source = records(
            stream, str(ldif), line=place.line, offset_bytes=place.offset_bytes
        )

        def tell_progress() -> None:
            done_bytes = state.progress.offset_bytes
            tell(state.progress, None if size is None else done_bytes / max(1, size))

        loader.run(source, tell_progress)
    progress = state.progress
    return LoadResult(
        progress,
        progress.added + loader.order.answered(Outcome.ADDED),
        progress.present + loader.order.answered(Outcome.PRESENT),
        state.is_resumed,
        loader.stopped_by,
        loader.stopped_code,
        state.kept,
    )


class _Connection:
    """A connection, and the adds under way on it by message id."""

    def __init__(self, uri: str, access: ConnectionSettings) -> None:
        self._uri = uri
        self._access = access
        self._ldap: Any = None
        self.under_way: dict[int, Add] = {}

    def open(self) -> None:
        self._ldap = connect(self._uri, self._access)

    def open_again(self) -> None:
        """With patience: a server may restart."""
        self.close()
        for attempt in range(_ATTEMPTS):
            try:
                return self.open()
            except TargetUnreachable:
                if attempt == _ATTEMPTS - 1:
                    raise
                time.sleep(_PAUSE_S * 2**attempt)

    def close(self) -> None:
        if self._ldap is not None:
            with contextlib.suppress(ldap.LDAPError):
                self._ldap.unbind_s()
        self._ldap = None

    def fileno(self) -> int:
        return int(self._ldap.fileno())

    def send(self, add: Add, attributes: list[tuple[str, list[bytes]]]) -> None:
        """ldap.LDAPError: connection lost. ValueError: the entry cannot be encoded."""
        message_id = self._ldap.add_ext(add.record.dn, attributes)
        self.under_way[message_id] = add

    def answers(self) -> Iterator[tuple[Add, int, str]]:
        """Entry, result code and diagnostic message of each response that has arrived.
        ldap.LDAPError: connection lost."""
        while self.under_way:
            code, text = 0, ""
            try:
                _, _, message_id, _ = self._ldap.result3(ldap.RES_ANY, 0, 0)
            except ldap.LDAPError as error:
                code = result_code_of(error)
                if code < 0:
                    raise
                text, message_id = (error.args[0].get(k, "") for k in ("info", "msgid"))
            if message_id is None:
                return
            add = self.under_way.pop(message_id, None)
            if add is not None:
                yield add, code, text


class _Loader:
    def __init__(
        self,
        uri: str,
        access: ConnectionSettings,
        state: LoadState,
        settings: LoadSettings,
    ) -> None:
        self._uri = uri
        self._state = state
        self._settings = settings
        self.order = AddOrder()
        #: To its end.
        self._is_read = False
        self._connections = [
            _Connection(uri, access) for _ in range(settings.connections)
        ]
        self.stopped_by: str | None = None
        self.stopped_code: int | None = None

    def connect(self) -> None:
        for connection in self._connections:
            connection.open()

    def close(self) -> None:
        for connection in self._connections:
            connection.close()

    def run(self, source: Iterator[Record], tell: Callable[[], None]) -> None:
        self._begun_s = time.monotonic() - self._state.progress.seconds
        self._saved_s = told_s = time.monotonic()
        is_done = False
        try:
            while self._send(source):
                if self._is_under_way:
                    self._receive()
                self._settle()
                now_s = time.monotonic()
                if now_s - self._saved_s >= _SAVE_S:
                    self._save()
                if now_s - told_s >= _TELL_S:
                    tell()
                    told_s = now_s
            self._settle()
            is_done = self.stopped_by is None
        finally:
            if is_done:
                self._state.finish(time.monotonic() - self._begun_s)
            else:
                self.order.forget_ready()
                self._save()

    def _save(self) -> None:
        self._saved_s = time.monotonic()
        self._state.save(self._saved_s - self._begun_s, self.order.perhaps_there)

    def _send(self, source: Iterator[Record]) -> bool:
        """Fill all windows. False when nothing is left to do."""
        if self.stopped_by is None:
            self._fill(source)
            for connection in self._connections:
                self._fill_window(connection)
        if self._is_under_way:
            return True
        is_at_end = self._is_read and not self.order.ready
        return self.stopped_by is None and not is_at_end

    @property
    def _is_under_way(self) -> bool:
        return any(connection.under_way for connection in self._connections)

    def _fill(self, source: Iterator[Record]) -> None:
        """Read ahead, so that no window waits for the file. Adds that wait for a parent
        take none of the room."""
        room = max(self._settings.connections * self._settings.window, _READ_AHEAD)
        while len(self.order.ready) < room and len(self.order.line) < room * _AHEAD:
            record = next(source, None)
            if record is None:
                self._is_read = True
                return
            may_be_there = self._state.take_sent(record)
            self.order.take(record, may_be_there=may_be_there)

    def _fill_window(self, connection: _Connection) -> None:
        while (
            self.stopped_by is None
            and len(connection.under_way) < self._settings.window
        ):
            add = self.order.next()
            if add is None:
                return
            if not add.is_noted:
                add.is_noted = True
                self.order.note_ready()
                self._save()
            try:
                connection.send(add, self._attributes(add.record))
            except ValueError as error:
                self._answer(add, Outcome.REJECTED, str(error))
            except ldap.LDAPError as error:
                self._lost(connection, error, add)

    def _attributes(self, record: Record) -> list[tuple[str, list[bytes]]]:
        attributes = record.attributes.items()
        if not self._settings.strip_operational:
            return list(attributes)
        return [one for one in attributes if one[0].lower() not in MAINTAINED]

    def _receive(self) -> None:
        """Wait for responses, and take all that are there."""
        poller = select.poll()
        waited = {}
        for connection in self._connections:
            if connection.under_way:
                number = connection.fileno()
                waited[number] = connection
                poller.register(number, select.POLLIN)
        events = poller.poll(self._settings.timeout_s * 1000)
        if not events:
            raise TargetUnreachable(
                self._uri, f"no response within {self._settings.timeout_s:g} s"
            )
        for number, _ in events:
            connection = waited[number]
            try:
                for add, code, text in connection.answers():
                    self._take_answer(add, code, text)
            except ldap.LDAPError as error:
                self._lost(connection, error)

    def _take_answer(self, add: Add, code: int, text: str) -> None:
        if code == 0 or (code == ALREADY_EXISTS and add.losses):
            self._answer(add, Outcome.ADDED)
        elif code == ALREADY_EXISTS and add.may_be_there:
            self._answer(add, Outcome.PRESENT)
        else:
            reason = f"{NAMES.get(code, 'result code')} ({code})"
            reason = f"{reason}: {text}" if text else reason
            self._answer(add, Outcome.REJECTED, reason, code)

    def _answer(
        self, add: Add, outcome: Outcome, reason: str = "", code: int | None = None
    ) -> None:
        self.order.answer(add, outcome, reason)
        is_end = outcome is Outcome.REJECTED and not self._settings.continue_on_error
        if is_end and self.stopped_by is None:
            self.stopped_by = (
                f"line {add.record.line}: {add.record.dn!r} was refused: {reason}"
            )
            self.stopped_code = code

    def _lost(
        self, connection: _Connection, error: ldap.LDAPError, sending: Add | None = None
    ) -> None:
        """Send again, on a new connection, what was under way on this one."""
        adds = [*connection.under_way.values(), *([sending] if sending else [])]
        connection.under_way.clear()
        for add in reversed(adds):
            self.order.again(add)
            if add.losses >= _ATTEMPTS:
                raise TargetUnreachable(
                    self._uri,
                    f"{error_text(error)}, {_ATTEMPTS} times while {add.record.dn!r} "
                    "was being added",
                )
        if self.stopped_by is None:
            connection.open_again()

    def _settle(self) -> None:
        """Take the answered adds off the front of the line, up to the refused entry
        that ends the load, which is tried again."""
        for add in self.order.settled(with_rejected=self._settings.continue_on_error):
            digest = entry_digest(add.record.dn, add.record.attributes, POPULATION)
            self._state.settle(add, digest)
