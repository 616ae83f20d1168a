# SPDX-License-Identifier: Apache-2.0
"""The Python job type behind `replication_probe`: how long a change takes to a replica.

Each session writes the next probe value into one entry of the first server (`write`);
for each replica a Watch waits for it. Propagation time is from the write's hand-over to
libldap until this host's kernel received the replica's message, so no other clock
matters. `examine_target` and `examine_replica` are for `check`: whether the entry may
be written is asked with a delete of a value that no entry has.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar

import ldap
from ldap.dn import str2dn

from ldapslam.agent.python_jobs.job import Client, PythonJob
from ldapslam.agent.replication.watch import Watch
from ldapslam.base.errors import TargetError
from ldapslam.directory.access import connect, target_error
from ldapslam.jobs.connection_settings import ConnectionSettings
from ldapslam.jobs.requests.dn import split_rdn

#: For a new entry to reach all replicas.
_ARRIVAL_LIMIT_S = 20.0
_DRAIN_TURN_S = 0.01
#: The rest is for the tear-down, within the run's drain.
_DRAIN_SHARE = 0.8


class ReplicationProbe(PythonJob):
    """`options`: dn, attribute, poll_ns (None: replicas tell of changes), watch
    (operations, one for each of the last `uris`). A missing entry is added, and deleted
    afterwards; of an existing one the attribute's values are restored."""

    operations: ClassVar[tuple[str, ...]] = ("write",)

    @classmethod
    def operations_of(cls, options: Mapping[str, Any]) -> Collection[str]:
        return (*cls.operations, *options["watch"])

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(options)
        self._dn = str(options["dn"])
        self._attribute = str(options["attribute"])
        self._names = tuple(options["watch"])
        poll_ns = options.get("poll_ns")
        self._poll_s = None if poll_ns is None else poll_ns / 1e9
        self._word = ""
        self._number = 0
        self._watches: dict[str, Watch] = {}
        #: None: the probe added the entry.
        self._values_before: list[bytes] | None = None

    def set_up(self, client: Client) -> None:
        self._word = f"ldapslam-{client.random.getrandbits(64):016x}"
        self._prepare_entry(client)
        try:
            self._open_watches(client)
        except BaseException:
            self.tear_down(client)
            raise

    def _open_watches(self, client: Client) -> None:
        until_s = time.monotonic() + _ARRIVAL_LIMIT_S
        watched = client.uris[len(client.uris) - len(self._names) :]
        for name, uri in zip(self._names, watched, strict=True):
            watch = Watch(
                uri,
                client.access,
                self._dn,
                self._attribute,
                self._word,
                poll_s=self._poll_s,
                timeout_s=client.request_timeout_s,
                note_request=partial(client.count_request, uri=uri),
            )
            watch.open(until_s)
            self._watches[name] = watch
            client.note(
                "probes",
                {
                    "operation": name,
                    "server": uri,
                    "method": watch.method,
                    "poll_s": self._poll_s,
                },
            )

    def run(self, client: Client) -> None:
        self._number += 1
        value = f"{self._word} {self._number}".encode()
        with client.operation("write") as write:
            client.connection.modify_s(
                self._dn, [(ldap.MOD_REPLACE, self._attribute, [value])]
            )
        for name, watch in self._watches.items():
            watch.expect(self._number, client.observe(name, write.sent_ns))

    def drain(self, client: Client) -> None:
        """Wait until each number is seen or overdue, or the drain is nearly over."""
        until_s = time.monotonic() + client.drain_s * _DRAIN_SHARE
        watches = self._watches.values()
        while any(one.is_waiting for one in watches) and time.monotonic() < until_s:
            time.sleep(_DRAIN_TURN_S)
        for watch in watches:
            watch.give_up()

    def tear_down(self, client: Client) -> None:
        for watch in self._watches.values():
            watch.end()
        try:
            # before a silent replica can delay it
            self._restore_entry(client)
        finally:
            for watch in self._watches.values():
                watch.close()

    def _restore_entry(self, client: Client) -> None:
        if self._values_before is None:
            client.connection.delete_s(self._dn)
        else:
            change = (ldap.MOD_REPLACE, self._attribute, self._values_before or None)
            client.connection.modify_s(self._dn, [change])

    def _prepare_entry(self, client: Client) -> None:
        connection, uri = client.connection, client.uri
        values = values_of(connection, uri, self._dn, self._attribute)
        if values is None:
            add_entry(connection, uri, self._dn)
            return
        require_writable(connection, uri, self._dn, self._attribute)
        self._values_before = values

    def examine_target(self, uri: str, access: ConnectionSettings) -> str:
        """The DN that replicas should have by now: of the entry, or of its future
        parent. TargetError when the entry surely cannot be written."""
        connection = connect(uri, access)
        asked = connection, uri, self._dn, self._attribute
        try:
            if values_of(*asked) is None:
                return require_parent(*asked)
            require_writable(*asked)
            return self._dn
        finally:
            with suppress(ldap.LDAPError):
                connection.unbind_s()

    def examine_replica(self, uri: str, access: ConnectionSettings, dn: str) -> str:
        """The method by which the server tells of changes; TargetError."""
        watch = Watch(
            uri,
            access,
            dn,
            self._attribute,
            "",
            poll_s=self._poll_s,
            timeout_s=0,
            note_request=lambda kind: None,
        )
        try:
            watch.open(time.monotonic())
        finally:
            watch.close()
        return watch.method


#: These errors may concern the parent only.
_OF_ONE_ENTRY = (ldap.INSUFFICIENT_ACCESS, ldap.OBJECT_CLASS_VIOLATION)
_HINTS = {
    ldap.REFERRAL: "it takes no writes: the probe's target is the supplier",
    ldap.NO_SUCH_OBJECT: "the entry above it is not there",
}


def values_of(connection: Any, uri: str, dn: str, attribute: str) -> list[bytes] | None:
    """The attribute's values; None where there is no such entry. TargetError."""
    try:
        found = connection.search_s(dn, ldap.SCOPE_BASE, "(objectClass=*)", [attribute])
    except ldap.NO_SUCH_OBJECT:
        return None
    except ldap.LDAPError as error:
        raise _refused(uri, f"{dn!r} be read", error) from error
    return [
        value
        for found_dn, attributes in found
        if found_dn is not None
        for name, values in attributes.items()
        if name.lower() == attribute.lower()
        for value in values
    ]


def require_writable(connection: Any, uri: str, dn: str, attribute: str) -> None:
    if (error := _write_error(connection, dn, attribute)) is not None:
        raise _refused(uri, f"{attribute} of {dn!r} be written", error) from error


def add_entry(connection: Any, uri: str, dn: str) -> None:
    """Add a device, named by its cn; TargetError."""
    name, value, _ = str2dn(dn)[0][0]
    try:
        connection.add_s(dn, [("objectClass", [b"device"]), (name, [value.encode()])])
    except ldap.LDAPError as error:
        raise _refused(uri, f"{dn!r} be added", error) from error


def require_parent(connection: Any, uri: str, dn: str, attribute: str) -> str:
    """The parent DN; TargetError when the entry surely cannot be added below it."""
    parent = split_rdn(dn)[1]
    if values_of(connection, uri, parent, attribute) is None:
        raise TargetError(
            f"{uri} has no {parent!r}, below which the probe adds its entry {dn!r}",
            hint="the options' `dn` is an entry of the tree that is replicated",
        )
    error = _write_error(connection, parent, attribute)
    if error is not None and not isinstance(error, _OF_ONE_ENTRY):
        raise _refused(uri, f"{dn!r} be added", error) from error
    return parent


def _refused(uri: str, what: str, error: ldap.LDAPError) -> TargetError:
    hint = _HINTS.get(type(error), "may the stream's bind DN do that?")
    return target_error(uri, what, error, hint)


def _write_error(connection: Any, dn: str, attribute: str) -> ldap.LDAPError | None:
    nobodys = f"ldapslam-check-{uuid.uuid4()}".encode()
    try:
        connection.modify_s(dn, [(ldap.MOD_DELETE, attribute, [nobodys])])
    except ldap.NO_SUCH_ATTRIBUTE:
        return None
    except ldap.LDAPError as error:
        return error
    return None
