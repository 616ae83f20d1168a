# SPDX-License-Identifier: Apache-2.0
"""The Python job type behind `replication_probe`: how long a change takes to a replica.

Each session writes the next mark into one entry of the first server (`write`) and goes
on; for each replica a Watch waits for that mark, and what it takes is the operation of
that replica. Propagation time is from when the write was handed to libldap until this
host's kernel received the replica's word of it: both on this host's monotonic clock, so
that no other clock matters. The way of that word back to this host is in it.

`examine_target` and `examine_replica` are for `check`.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar

import ldap

from ldapslam.agent.python_jobs.job import Client, PythonJob
from ldapslam.agent.replication import probe_entry
from ldapslam.agent.replication.watch import Watch
from ldapslam.directory.access import connect
from ldapslam.jobs.connection_settings import ConnectionSettings

#: For a new entry to come to all replicas.
_ARRIVAL_LIMIT_S = 20.0
_DRAIN_TURN_S = 0.01
#: What is left is for the tear-down, which the run cuts short with its drain.
_DRAIN_SHARE = 0.8


class ReplicationProbe(PythonJob):
    """`options`: dn, attribute, poll_ns (None: replicas tell of changes), watch (names
    of operations, one for each server of the client's `uris` after the writable ones).

    The entry is added, and deleted afterwards, when it is not there; one that is keeps
    all but the attribute, whose values are put back.
    """

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
        #: None: the entry is ours.
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
        mark = f"{self._word} {self._number}".encode()
        with client.operation("write") as write:
            client.connection.modify_s(
                self._dn, [(ldap.MOD_REPLACE, self._attribute, [mark])]
            )
        for name, watch in self._watches.items():
            watch.expect(self._number, client.observe(name, write.sent_ns))

    def drain(self, client: Client) -> None:
        """Until each mark is seen or overdue, or the run waits no longer."""
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
            # before anything that a silent replica could hold up
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
        values = probe_entry.values_of(connection, uri, self._dn, self._attribute)
        if values is None:
            probe_entry.add(connection, uri, self._dn)
            return
        probe_entry.require_writable(connection, uri, self._dn, self._attribute)
        self._values_before = values

    def examine_target(self, uri: str, access: ConnectionSettings) -> str:
        """Whether the server will let the entry be written, as far as that can be told
        without; TargetError. The DN that replicas should have by now: of the entry, or
        of the one that it is to be added below."""
        connection = connect(uri, access)
        asked = connection, uri, self._dn, self._attribute
        try:
            if probe_entry.values_of(*asked) is None:
                return probe_entry.require_parent(*asked)
            probe_entry.require_writable(*asked)
            return self._dn
        finally:
            with suppress(ldap.LDAPError):
                connection.unbind_s()

    def examine_replica(self, uri: str, access: ConnectionSettings, dn: str) -> str:
        """How the server tells of changes of an entry, as Watch has it; TargetError."""
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
