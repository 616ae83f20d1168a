# SPDX-License-Identifier: Apache-2.0
"""Watches one server for the values that the replication probe writes.

A value is a word and a growing number. The server tells of changes by a search that
does not end: Content Synchronization (RFC 4533, slapd with syncprov) or persistent
search (389-DS); else the entry is polled. A server that has number n has all before it:
changes that came together are seen once. A thread waits for each server. What it sees
is timed by the kernel's receive stamp and kept until it is expected.
"""

from __future__ import annotations

import logging
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import ldap
from ldap.controls import LDAPControl
from ldap.controls.psearch import PersistentSearchControl
from ldap.syncrepl import SyncRequestControl

from ldapslam.agent.python_jobs.job import Observation
from ldapslam.base.errors import LdapSlamError, TargetError
from ldapslam.directory.access import connect, error_text, target_error
from ldapslam.jobs.connection_settings import ConnectionSettings

_log = logging.getLogger(__name__)

_SYNC_OID = SyncRequestControl.controlType
_PERSISTENT_OID = PersistentSearchControl.controlType
#: How late the thread ends, and gives up what is overdue.
_TURN_S = 0.05
_RECONNECT_S = 0.5
#: Limits for the refusal of a persistent search, which is silent until something
#: changes, and for the end of a synchronization's refresh stage.
_REFUSAL_S = 0.5
_ANSWER_S = 20.0
_FILTER = "(objectClass=*)"
_NEVER_NS = 2**63

#: How a server tells of changes.
SYNC = "content_synchronization"
PERSISTENT_SEARCH = "persistent_search"
POLL = "poll"


class _SearchEnded(TargetError):
    """The search that does not end has."""


@dataclass(eq=False)
class Watch:
    """`open` first; `expect` and `close` are for the thread that opened it."""

    uri: str
    access: ConnectionSettings
    dn: str
    attribute: str
    word: str
    #: Between readings, for a server that does not tell of changes; None: it does.
    poll_s: float | None = field(kw_only=True)
    timeout_s: float = field(kw_only=True)
    note_request: Callable[[str], None] = field(kw_only=True)

    def __post_init__(self) -> None:
        #: Known once it is open: SYNC, PERSISTENT_SEARCH or POLL.
        self.method = ""
        self._connection: Any = None
        self._stamp: ReceiveStamp | None = None
        self._message = -1
        self._guard = threading.Lock()
        #: Number -> what waits for it; in the order of numbers.
        self._expected: dict[int, Observation] = {}
        #: The last number that was seen, and when.
        self._seen: tuple[int, int] = (-1, 0)
        #: This connection watches from then on; earlier values may have come unseen.
        self._looking_since_ns = 0
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, name=self.uri, daemon=True)

    def open(self, until_s: float) -> None:
        """Connect, and watch once the entry is there, by `until_s` (monotonic).
        TargetError."""
        self._connect()
        try:
            while not self._read():
                if time.monotonic() > until_s:
                    raise TargetError(
                        f"{self.dn!r} did not come to {self.uri}",
                        hint="does it replicate from the stream's target, and may the "
                        "bind DN read the entry?",
                    )
                time.sleep(_TURN_S)
            self._subscribe()
        except ldap.LDAPError as error:
            hint = "may the stream's bind DN read the entry there?"
            what = f"{self.dn!r} be watched"
            raise target_error(self.uri, what, error, hint) from error
        self._thread.start()

    def expect(self, number: int, observation: Observation) -> None:
        """Number `number` was written. It is lost when the server was not watched at
        that time."""
        with self._guard:
            seen, received_ns = self._seen
            is_lost = observation.begun_ns < self._looking_since_ns
            if number > seen and not is_lost:
                self._expected[number] = observation
                return
        if is_lost:
            observation.lost()
        else:
            _tell(observation, received_ns)

    @property
    def is_waiting(self) -> bool:
        return bool(self._expected)

    def give_up(self) -> None:
        with self._guard:
            observations = list(self._expected.values())
            self._expected.clear()
        for observation in observations:
            observation.lost()

    def end(self) -> None:
        """Tell the thread to end, which `close` waits for."""
        self._closing.set()

    def close(self) -> None:
        """End the search and the connection; what is expected is lost."""
        self.end()
        if self._thread.is_alive():
            self._thread.join()
        self.give_up()
        self._disconnect()

    def _connect(self) -> None:
        self._connection = connect(
            self.uri, self.access, note_request=self.note_request
        )
        self._stamp = ReceiveStamp(self._connection.get_option(ldap.OPT_DESC))

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        stamp, self._stamp = self._stamp, None
        if stamp is not None:
            stamp.close()
        if connection is not None:
            self.note_request("unbind")
            with suppress(ldap.LDAPError):
                connection.unbind_s()

    def _subscribe(self) -> None:
        control = self._control()
        if control is None:
            return
        self.note_request("search")
        self._message = self._connection.search_ext(
            self.dn,
            ldap.SCOPE_BASE,
            _FILTER,
            [self.attribute],
            serverctrls=[control],
        )
        must_answer = self.method == SYNC
        until_s = time.monotonic() + (_ANSWER_S if must_answer else _REFUSAL_S)
        try:
            # what wakes us need not be a message yet: TLS has its own
            while self._stamp and (left_s := until_s - time.monotonic()) > 0:
                if self._closing.is_set():
                    return
                received_ns = self._stamp.wait(min(left_s, _TURN_S))
                if received_ns is None:
                    continue
                kinds = self._take_messages(received_ns)
                # an entry alone may be of a common search, which will end
                if ldap.RES_INTERMEDIATE in kinds or (kinds and not must_answer):
                    return
            if must_answer:
                raise self._tells_nothing()
        except (
            # slapd knows the control when the module is loaded
            ldap.UNAVAILABLE_CRITICAL_EXTENSION,
            ldap.UNWILLING_TO_PERFORM,
            _SearchEnded,
        ):
            raise self._tells_nothing() from None

    def _tells_nothing(self) -> TargetError:
        return TargetError(
            f"{self.uri} does not tell of changes: neither by RFC 4533 (slapd: the "
            "overlay syncprov on its database) nor by persistent search",
            hint="set `poll`, such as 20ms: then the entry is read so often, and times "
            "are known no better than that",
        )

    def _control(self) -> LDAPControl | None:
        """The control of the search; None: the server is polled."""
        if self.poll_s is not None:
            self.method = POLL
            return None
        self.note_request("search")
        found = self._connection.search_ext_s(
            "", ldap.SCOPE_BASE, _FILTER, ["supportedControl"]
        )
        known = {oid.decode() for oid in found[0][1].get("supportedControl", ())}
        if _SYNC_OID in known:
            self.method = SYNC
            return SyncRequestControl(criticality=True, mode="refreshAndPersist")
        if _PERSISTENT_OID in known:
            self.method = PERSISTENT_SEARCH
            return PersistentSearchControl(criticality=True, changesOnly=True)
        raise self._tells_nothing()

    def _watch(self) -> None:
        while not self._closing.is_set():
            try:
                if self._connection is None:
                    self._connect()
                    self._subscribe()
                    with self._guard:
                        # earlier values may be there already
                        self._looking_since_ns = time.monotonic_ns()
                if self.poll_s is not None:
                    self._poll(self.poll_s)
                elif self._stamp and (received_ns := self._stamp.wait(_TURN_S)):
                    self._take_messages(received_ns)
            except (ldap.LDAPError, LdapSlamError) as error:
                is_ours = isinstance(error, LdapSlamError)
                why = str(error) if is_ours else error_text(error)
                _log.warning("%s: %s", self.uri, why)
                with self._guard:
                    # from now on arrivals are not seen
                    self._looking_since_ns = _NEVER_NS
                self.give_up()
                self._disconnect()
                self._closing.wait(_RECONNECT_S)
            self._give_up_overdue()

    def _take_messages(self, received_ns: int) -> set[int]:
        """Take all messages that have come; their kinds, as `ldap` names them."""
        kinds: set[int] = set()
        while True:
            kind, messages, _, _ = self._connection.result3(
                self._message, all=0, timeout=0
            )
            if kind is None:
                return kinds
            if kind == ldap.RES_SEARCH_RESULT:
                raise _SearchEnded(f"{self.uri} ended the search for changes")
            kinds.add(kind)
            for message in messages or ():
                if kind == ldap.RES_SEARCH_ENTRY:
                    self._take(message[1], received_ns)

    def _poll(self, poll_s: float) -> None:
        begun_s = time.monotonic()
        self._read()
        self._closing.wait(max(0.0, begun_s + poll_s - time.monotonic()))

    def _read(self) -> bool:
        """Read the entry once; False: it is not there."""
        self.note_request("search")
        try:
            found = self._connection.search_ext_s(
                self.dn, ldap.SCOPE_BASE, _FILTER, [self.attribute]
            )
        except ldap.NO_SUCH_OBJECT:
            return False
        received_ns = time.monotonic_ns()
        for dn, attributes in found:
            if dn is not None:
                self._take(attributes, received_ns)
        return bool(found)

    def _take(self, attributes: dict[str, list[bytes]], received_ns: int) -> None:
        for name, values in attributes.items():
            if name.lower() != self.attribute.lower():
                continue
            prefix = f"{self.word} ".encode()
            for value in values:
                number = value.removeprefix(prefix)
                if number != value and number.isdigit():
                    self._note(int(number), received_ns)

    def _note(self, number: int, received_ns: int) -> None:
        with self._guard:
            if number <= self._seen[0]:
                return
            self._seen = number, received_ns
            there = [one for one in self._expected if one <= number]
            observations = [self._expected.pop(one) for one in there]
        for observation in observations:
            _tell(observation, received_ns)

    def _give_up_overdue(self) -> None:
        limit_ns = time.monotonic_ns() - round(self.timeout_s * 1e9)
        with self._guard:
            overdue = [
                number
                for number, one in self._expected.items()
                if one.begun_ns < limit_ns
            ]
            observations = [self._expected.pop(number) for number in overdue]
        for observation in observations:
            observation.timed_out()


#: Linux, 64 bit: SO_TIMESTAMPNS, and the type of its control message.
_SO_TIMESTAMPNS = 35
_TIMESPEC = struct.Struct("qq")
_PEEKED_BYTES = 65_536
_NS_PER_S = 1_000_000_000


class ReceiveStamp:
    """Of a socket that somebody else reads; for one thread."""

    def __init__(self, descriptor: int) -> None:
        """The descriptor stays its owner's."""
        self._socket = socket.socket(fileno=os.dup(descriptor))
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)

    def wait(self, timeout_s: float) -> int | None:
        """When the next bytes were received; None when nothing came. The time of this
        call's end where the kernel gave no stamp."""
        if not self._poll.poll(timeout_s * 1000):
            return None
        ancillary: list[tuple[int, int, bytes]] = []
        try:
            _, ancillary, _, _ = self._socket.recvmsg(
                _PEEKED_BYTES,
                socket.CMSG_SPACE(_TIMESPEC.size),
                socket.MSG_PEEK | socket.MSG_DONTWAIT,
            )
        except OSError:
            pass  # the reader will find out
        mono_ns, wall_ns = time.monotonic_ns(), time.time_ns()
        for level, kind, content in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS):
                seconds, nanoseconds = _TIMESPEC.unpack(content[: _TIMESPEC.size])
                ago_ns: int = wall_ns - (seconds * _NS_PER_S + nanoseconds)
                if ago_ns >= 0:
                    return mono_ns - ago_ns
        return mono_ns

    def close(self) -> None:
        self._socket.close()


def _tell(observation: Observation, received_ns: int) -> None:
    """What was read together with an earlier message has the stamp of that one, which
    may be from before it was written."""
    if received_ns < observation.begun_ns:
        received_ns = time.monotonic_ns()
    observation.seen(received_ns)
