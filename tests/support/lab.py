# SPDX-License-Identifier: Apache-2.0
"""A lab whose servers tell what they counted, and whose replicas can be made faulty.

Replication is paused where a server can do so by itself, slapd in cn=config, 389-DS in
the agreement: no process restarts, so its counters go on. An entry is broken behind
replication's back.
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ldap

import ldapslam.lab
from ldapslam.directory.control_connection import ControlConnection
from ldapslam.directory.counts import read_counts
from ldapslam.lab import Choices, LabError, Server
from ldapslam.lab.ds389.configuration import BACKEND_NAME, LDBM
from ldapslam.lab.ds389.ds389 import Ds389Servers
from ldapslam.lab.ldif_lines import dn_of, records
from ldapslam.lab.people import PEOPLE_DN
from ldapslam.lab.slapd.openldap import OpenLdap

#: Commits of slapd do not wait for the disk.
FAST = Choices(options=[("dbnosync", "on")])
#: slapd.log has every operation.
LOGGED = Choices(options=[("loglevel", "stats")])

#: Ends the value that `Lab.break_entry` gives one server.
_BROKEN_SUFFIX = b"0"

# Kinds without a counter of their own, in 389-DS's access log. Binds have some, but an
# anonymous one counts in two of them.
_LOGGED = {"BIND": "bind", "UNBIND": "unbind", "ABANDON": "abandon", "EXT": "extended"}
_LOG_LINE = re.compile(r" op=\d+ (BIND|UNBIND|ABANDON|EXT)\b")


class Lab(ldapslam.lab.Lab):
    """`global_lines` and `database_lines` are lines of slapd.conf: for its global part,
    and for the end of the database's part, overlays included."""

    people_dn = PEOPLE_DN

    def __init__(
        self,
        *,
        global_lines: Sequence[str] = (),
        database_lines: Sequence[str] = (),
        choices: Choices | None = None,
        **given: Any,
    ) -> None:
        choices = choices or Choices()
        super().__init__(choices=choices, **given)
        lines = ["", *global_lines], ["", *database_lines]
        self._product = self._faulty = (
            _Ds389Servers(choices)
            if self.kind == "389ds"
            else _OpenLdap(choices, *lines)
        )

    def job(self, template: str, **values: object) -> str:
        """Put the servers, the administrator and these values into a job's text."""
        known = {
            "uri": self.supplier.uri,
            "supplier": self.supplier.uri,
            "replicas": json.dumps([replica.uri for replica in self.replicas]),
            "dn": self.admin_dn,
            "password_file": self.admin_password_file,
            "people": self.people_dn,
        }
        return template.format(**{**known, **values})

    def search(
        self, server: Server, base_dn: str, scope: int, attributes: list[str]
    ) -> dict[str, dict[str, list[bytes]]]:
        """All entries, by DN, as the administrator sees them; one of the lab's own
        operations."""
        with self._access.bound(server) as connection:
            connection.control["search"] += 1
            found = connection.ldap.search_s(base_dn, scope, attrlist=attributes)
        return {dn: entry for dn, entry in found if dn is not None}

    def monitor_counts(self, server: Server) -> dict[str, int]:
        """Operations since the server's start, by name, with replication's, without the
        lab's own."""
        return self._faulty.counts(server)

    def pause_replication(self, replica: Server) -> None:
        """Stop the replication to a replica; no server restarts."""
        self._faulty.pause(replica)

    def resume_replication(self, replica: Server, through: str | None = None) -> None:
        """Resume it; `through` (host:port) is a relay to the supplier (slapd) or the
        replica (389-DS)."""
        self._faulty.resume(replica, through)

    def break_entry(
        self, replica: Server, dn: str, attribute: str | None = None
    ) -> None:
        """Remove an entry on one replica, or change a value of `attribute`, unnoticed
        by replication. A 389-DS restarts."""
        self._faulty.break_entry(self, replica, dn, attribute)


class _OpenLdap(OpenLdap):
    def __init__(
        self, choices: Choices, global_lines: list[str], database_lines: list[str]
    ) -> None:
        super().__init__(choices)
        self._global_lines, self._database_lines = global_lines, database_lines
        # host:port that a server follows its provider through.
        self._relays: dict[str, str | None] = {}

    def configuration(self, server: Server) -> str:
        text = super().configuration(server)
        for end, lines in (
            ("\n\ndatabase config\n", self._global_lines),
            ("\n\ndatabase monitor\n", self._database_lines),
        ):
            assert text.count(end) == 1
            text = text.replace(end, "\n".join(lines) + end)
        return text

    def resume(self, replica: Server, through: str | None) -> None:
        self._relays[replica.name] = through
        self._follow(replica)

    def break_entry(
        self, lab: Lab, replica: Server, dn: str, attribute: str | None
    ) -> None:
        """A server that does not follow takes writes; without CSNs, nobody notices
        them."""
        has_followed = self.pause(replica)
        try:
            with (
                self.site.access.bound(replica) as connection,
                self._without_csns(connection),
            ):
                if attribute is None:
                    _delete(connection, dn)
                else:
                    _break_value(connection, dn, attribute)
        finally:
            if has_followed:
                self._follow(replica)

    def pause(self, replica: Server) -> bool:
        """Have it follow nobody; whether it has followed until now."""
        with self.site.access.bound(replica) as connection:
            dn = self._database(connection)
            try:
                _modify(connection, dn, (ldap.MOD_DELETE, "olcSyncrepl", None))
            except ldap.NO_SUCH_ATTRIBUTE:
                return False
        return True

    @contextmanager
    def _without_csns(self, connection: ControlConnection) -> Iterator[None]:
        """Within, entries keep their CSNs, and syncprov, which looks for the last of
        them when it starts, counts no deletes."""
        database = self._database(connection)
        [(overlay, _)] = connection.search(
            database, ldap.SCOPE_ONELEVEL, ["1.1"], "(olcOverlay=syncprov)"
        )
        switches = [
            (overlay, "olcDisabled", b"TRUE"),
            (database, "olcLastMod", b"FALSE"),
        ]
        for dn, name, value in switches:
            _modify(connection, dn, (ldap.MOD_REPLACE, name, [value]))
        try:
            yield
        finally:
            # syncprov wants lastmod
            for dn, name, value in reversed(switches):
                usual = b"FALSE" if value == b"TRUE" else b"TRUE"
                _modify(connection, dn, (ldap.MOD_REPLACE, name, [usual]))

    def _follow(self, replica: Server) -> None:
        through, lines = self._relays.get(replica.name), self._syncrepl(replica)
        if through is not None:
            lines = [
                re.sub(r"(?<=provider=)\S+", f"ldap://{through}", one) for one in lines
            ]
        values = [line.encode() for line in lines]
        with self.site.access.bound(replica) as connection:
            dn = self._database(connection)
            _modify(connection, dn, (ldap.MOD_REPLACE, "olcSyncrepl", values))

    def _database(self, connection: ControlConnection) -> str:
        """The DN of the tree's database in cn=config."""
        [(dn, _)] = connection.search(
            "cn=config",
            ldap.SCOPE_ONELEVEL,
            ["1.1"],
            f"(&(objectClass=olcMdbConfig)(olcSuffix={self.site.tree.suffix}))",
        )
        return dn


class _Ds389Servers(Ds389Servers):
    """Each line of the access log is written at once, to one file: the counts that only
    the log has are right at any moment. Commits of BDB do not wait for the disk."""

    def find(self) -> None:
        super().find()
        self._chosen.setdefault("cn=config", []).extend(
            [
                ("nsslapd-accesslog-logbuffering", "off"),
                ("nsslapd-accesslog-maxlogsize", "-1"),
            ]
        )
        if self.backend == "bdb":
            not_durable = ("nsslapd-db-durable-transaction", "off")
            self._chosen.setdefault(f"cn=bdb,{LDBM}", []).append(not_durable)

    def counts(self, server: Server) -> dict[str, int]:
        """The monitor's counts; those of the access log for kinds without a counter
        (the monitor's total sometimes counts the end of a TLS connection too).
        Suppliers' operations are in the counts of their consumers."""
        with self.site.access.bound(server) as connection:
            counts = dict(read_counts(connection, self.kind).operations)
            logged = _logged(server.folder / "log" / "access")
            own = connection.control.copy()
        counts |= {kind: logged[kind] for kind in _LOGGED.values()}
        return {kind: (count or 0) - own[kind] for kind, count in counts.items()}

    def pause(self, replica: Server) -> None:
        dn = self._agreement_dn(replica)
        for provider in self.site.providers[replica.name]:
            with self.site.access.bound(provider) as connection:
                off = (ldap.MOD_REPLACE, "nsds5ReplicaEnabled", [b"off"])
                _modify(connection, dn, off)

    def resume(self, replica: Server, through: str | None) -> None:
        """By a new agreement: one whose address is changed finds no server."""
        dn, entry = self._agreement_dn(replica), self._agreement(replica)
        if through is not None:
            host, _, port = through.encode().rpartition(b":")
            entry |= {"nsDS5ReplicaHost": [host], "nsDS5ReplicaPort": [port]}
        for provider in self.site.providers[replica.name]:
            with self.site.access.bound(provider) as connection:
                _delete(connection, dn)
                connection.control["add"] += 1
                connection.ldap.add_s(dn, list(entry.items()))

    def break_entry(
        self, lab: Lab, replica: Server, dn: str, attribute: str | None
    ) -> None:
        """389-DS takes writes here from its suppliers only, so the entry is changed in
        an LDIF; the server restarts with its position unchanged."""
        whole = replica.folder / "ldif" / "whole.ldif"
        broken = replica.folder / "ldif" / "broken.ldif"
        export = [*self._ns_slapd(replica, "db2ldif"), "-n", BACKEND_NAME]
        lab.stop(replica)
        try:
            # With the state of replication.
            self.site.finish(
                "db2ldif", {replica.name: [*export, "-r", "-a", str(whole)]}
            )
            write_broken(whole, broken, dn, attribute)
            self.site.finish("ldif2db", {replica.name: self._import(replica, broken)})
        finally:
            lab.start(replica)


def _modify(
    connection: ControlConnection, dn: str, change: tuple[int, str, Any]
) -> None:
    connection.control["modify"] += 1
    connection.ldap.modify_s(dn, [change])


def _delete(connection: ControlConnection, dn: str) -> None:
    connection.control["delete"] += 1
    connection.ldap.delete_s(dn)


def _break_value(connection: ControlConnection, dn: str, attribute: str) -> None:
    entry = connection.read(dn, [attribute])
    if not entry:
        raise LabError(f"the entry {dn!r} has no {attribute}, or is not there")
    first, *others = next(iter(entry.values()))
    new = [first + _BROKEN_SUFFIX, *others]
    _modify(connection, dn, (ldap.MOD_REPLACE, attribute, new))


def _logged(access_log: Path) -> Counter[str]:
    counts: Counter[str] = Counter()
    with access_log.open(errors="replace") as log:
        for line in log:
            if (match := _LOG_LINE.search(line)) is not None:
                counts[_LOGGED[match[1]]] += 1
    return counts


def write_broken(source: Path, target: Path, dn: str, attribute: str | None) -> None:
    """Copy an LDIF without the entry `dn`, or with another value of its `attribute`."""
    is_found = False
    with target.open("wb", buffering=1 << 20) as output:
        for record in records(source):
            if dn_of(record).lower() == dn.lower():
                is_found = True
                record = [] if attribute is None else _broken(record, attribute)
            output.write(b"".join(line + b"\n" for line in record) + b"\n")
    if not is_found:
        raise LabError(f"there is no entry {dn!r} on this server")


def _broken(record: list[bytes], attribute: str) -> list[bytes]:
    wanted = attribute.lower().encode()
    for index, line in enumerate(record):
        name, _, value = line.partition(b":")
        # Options such as ;vucsn-… are the state of replication.
        description, *state = name.lower().split(b";")
        if description == wanted and b"deleted" not in state:
            old = base64.b64decode(value[1:]) if value[:1] == b":" else value.strip()
            new = base64.b64encode(old + _BROKEN_SUFFIX)
            return [*record[:index], name + b":: " + new, *record[index + 1 :]]
    raise LabError(f"the entry {dn_of(record)!r} has no {attribute}")
