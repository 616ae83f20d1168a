# SPDX-License-Identifier: Apache-2.0
"""Entries of an LDIF file into a directory over LDAP: pipelined adds.

One thread drives all connections: each has up to `window` unanswered adds, and
whichever has room takes the next entry that may be sent (add_order.py). A lost
connection is replaced, and its unanswered adds are sent again. An entry that the server
already has is counted and left as it is, so that an interrupted load can be called
again.
"""

from __future__ import annotations

import contextlib
import gzip
import select
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

import ldap

from ldapslam.base.errors import ConfigError, TargetUnreachable
from ldapslam.base.files import private
from ldapslam.dataset.add_order import Add, AddOrder
from ldapslam.dataset.ldif import Record, open_ldif, records
from ldapslam.directory.access import connect, error_text, result_code_of
from ldapslam.directory.entry_digest import Fingerprint, Rules, entry_digest
from ldapslam.jobs.connection_settings import ConnectionSettings
from ldapslam.jobs.fields.result_codes import NAMES

#: The rules of a population's fingerprint: a server may hash passwords.
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

_ALREADY_EXISTS = 68
_ATTEMPTS = 5
_PAUSE_S = 0.2
_PROGRESS_S = 0.25
#: Entries that are read ahead, and that may wait for a parent, for each add that may be
#: unanswered.
_AHEAD = 16


@dataclass(frozen=True, slots=True)
class LoadSettings:
    connections: int = DEFAULT_CONNECTIONS
    #: Unanswered adds on each connection.
    window: int = DEFAULT_WINDOW
    #: Go on after an entry was refused.
    continue_on_error: bool = False
    #: Leave the attributes of MAINTAINED out.
    strip_operational: bool = False
    #: Longest wait for any response.
    timeout_s: float = 60.0


@dataclass(slots=True)
class LoadResult:
    """The result of a load, or its state while it goes on."""

    #: Count and digest of the added entries.
    fingerprint: Fingerprint = field(default_factory=Fingerprint)
    #: Entries that the server already had.
    present: int = 0
    #: Entries in the file of rejects.
    rejected: int = 0
    seconds: float = 0.0
    #: The refused entry that ended the load, and why; None: the whole file was loaded.
    stopped_by: str | None = None

    @property
    def added(self) -> int:
        return self.fingerprint.count


#: Called with the state of the load, and the share of the file that was read, if known.
ShowProgress = Callable[[LoadResult, float | None], None]


def load(
    ldif: Path,
    uri: str,
    access: ConnectionSettings,
    rejects: Path,
    settings: LoadSettings,
    show_progress: ShowProgress = lambda result, share: None,
) -> LoadResult:
    """Add all entries; calls `show_progress` several times a second. Replaces the file
    `rejects`. ConfigError: the file is no LDIF, or the rejects cannot be written.
    TargetError: the server cannot be used."""
    with contextlib.ExitStack() as stack:
        stream = stack.enter_context(open_ldif(ldif))
        size = None if isinstance(stream, gzip.GzipFile) else ldif.stat().st_size
        rejects_file = stack.enter_context(_Rejects(ldif, rejects))
        loader = _Loader(uri, access, rejects_file, settings)
        stack.callback(loader.close)
        loader.connect()
        rejects_file.remove_old()

        def show() -> None:
            share = None if size is None else stream.tell() / max(1, size)
            show_progress(loader.result, share)

        loader.run(records(stream, str(ldif)), show)
    return loader.result


class _Rejects:
    """The file of refused entries, as LDIF with the reasons; made for the first."""

    def __init__(self, ldif: Path, path: Path) -> None:
        if path.exists() and path.samefile(ldif):
            raise ConfigError(
                f"{str(path)!r} has the entries: it cannot take the refused entries",
                hint="name another file with --rejects",
            )
        self._path = path
        self._file: BinaryIO | None = None

    def __enter__(self) -> _Rejects:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def remove_old(self) -> None:
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            raise self._unusable(error) from error

    def write(self, record: Record, reason: str) -> None:
        head = f"# line {record.line}: {' '.join(reason.split())}\n".encode()
        try:
            if self._file is None:
                # private: entries have passwords
                self._file = open(self._path, "xb", opener=private)
            self._file.write(head + record.text.rstrip(b"\r\n") + b"\n\n")
        except OSError as error:
            raise self._unusable(error) from error

    def _unusable(self, error: OSError) -> ConfigError:
        return ConfigError(
            f"refused entries cannot be written to {str(self._path)!r}: "
            f"{error.strerror}",
            hint="name another file with --rejects",
        )


class _Connection:
    """A connection, and its unanswered adds by message id."""

    def __init__(self, uri: str, access: ConnectionSettings) -> None:
        self._uri = uri
        self._access = access
        self._ldap: Any = None
        self.unanswered: dict[int, Add] = {}

    def open(self) -> None:
        self._ldap = connect(self._uri, self._access)

    def open_again(self) -> None:
        """Connect, with several attempts: a server may restart."""
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
        self.unanswered[message_id] = add

    def answers(self) -> Iterator[tuple[Add, int, str]]:
        """Entry, result code and diagnostic message of each response that has arrived.
        ldap.LDAPError: connection lost."""
        while self.unanswered:
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
            add = self.unanswered.pop(message_id, None)
            if add is not None:
                yield add, code, text


class _Loader:
    def __init__(
        self,
        uri: str,
        access: ConnectionSettings,
        rejects: _Rejects,
        settings: LoadSettings,
    ) -> None:
        self._uri = uri
        self._rejects = rejects
        self._settings = settings
        self._order = AddOrder()
        self._connections = [
            _Connection(uri, access) for _ in range(settings.connections)
        ]
        self.result = LoadResult()

    def connect(self) -> None:
        for connection in self._connections:
            connection.open()

    def close(self) -> None:
        for connection in self._connections:
            connection.close()

    def run(self, source: Iterator[Record], show_progress: Callable[[], None]) -> None:
        begun_s = shown_s = time.monotonic()
        while self._send(source):
            self._receive()
            now_s = time.monotonic()
            self.result.seconds = now_s - begun_s
            if now_s - shown_s >= _PROGRESS_S:
                show_progress()
                shown_s = now_s
        self.result.seconds = time.monotonic() - begun_s

    @property
    def _is_stopped(self) -> bool:
        return self.result.stopped_by is not None

    @property
    def _is_waiting(self) -> bool:
        return any(connection.unanswered for connection in self._connections)

    def _send(self, source: Iterator[Record]) -> bool:
        """Fill all windows. False when no response is awaited: the load is over."""
        while not self._is_stopped:
            self._read_ahead(source)
            if not self._order.ready:
                break
            for connection in self._connections:
                self._fill_window(connection)
            if self._is_waiting:
                break
        return self._is_waiting

    def _read_ahead(self, source: Iterator[Record]) -> None:
        """Read entries, so that no window waits for the file. Entries that wait for a
        parent take no room of entries that may be sent."""
        room = self._settings.connections * self._settings.window
        order = self._order
        while len(order.ready) < room and order.unanswered_count < room * _AHEAD:
            record = next(source, None)
            if record is None:
                return
            order.take(record)

    def _fill_window(self, connection: _Connection) -> None:
        while (
            not self._is_stopped and len(connection.unanswered) < self._settings.window
        ):
            add = self._order.next()
            if add is None:
                return
            try:
                connection.send(add, self._attributes(add.record))
            except ValueError as error:
                self._refuse(add, str(error))
            except ldap.LDAPError as error:
                self._replace(connection, error, add)

    def _attributes(self, record: Record) -> list[tuple[str, list[bytes]]]:
        attributes = record.attributes.items()
        if not self._settings.strip_operational:
            return list(attributes)
        return [
            (name, values)
            for name, values in attributes
            if name.lower() not in MAINTAINED
        ]

    def _receive(self) -> None:
        """Wait for responses, and take all that have arrived."""
        poller = select.poll()
        waiting = {}
        for connection in self._connections:
            if connection.unanswered:
                number = connection.fileno()
                waiting[number] = connection
                poller.register(number, select.POLLIN)
        events = poller.poll(self._settings.timeout_s * 1000)
        if not events:
            raise TargetUnreachable(
                self._uri, f"no response within {self._settings.timeout_s:g} s"
            )
        for number, _ in events:
            connection = waiting[number]
            try:
                for add, code, text in connection.answers():
                    self._take_answer(add, code, text)
            except ldap.LDAPError as error:
                self._replace(connection, error)

    def _take_answer(self, add: Add, code: int, text: str) -> None:
        if code == 0 or (code == _ALREADY_EXISTS and add.losses):
            record = add.record
            digest = entry_digest(record.dn, record.attributes, POPULATION)
            self.result.fingerprint.add(digest)
        elif code == _ALREADY_EXISTS:
            self.result.present += 1
        else:
            reason = f"{NAMES.get(code, 'result code')} ({code})"
            self._refuse(add, f"{reason}: {text}" if text else reason)
            return
        self._order.answer(add)

    def _refuse(self, add: Add, reason: str) -> None:
        self._order.answer(add)
        if self._settings.continue_on_error:
            self._rejects.write(add.record, reason)
            self.result.rejected += 1
        elif not self._is_stopped:
            self.result.stopped_by = (
                f"line {add.record.line}: {add.record.dn!r} was refused: {reason}"
            )

    def _replace(
        self, connection: _Connection, error: ldap.LDAPError, sending: Add | None = None
    ) -> None:
        """Connect again, and have the unanswered adds sent again."""
        adds = [*connection.unanswered.values(), *([sending] if sending else [])]
        connection.unanswered.clear()
        for add in reversed(adds):
            self._order.retry(add)
            if add.losses >= _ATTEMPTS:
                raise TargetUnreachable(
                    self._uri,
                    f"{error_text(error)}, {_ATTEMPTS} times while {add.record.dn!r} "
                    "was being added",
                )
        if not self._is_stopped:
            connection.open_again()
