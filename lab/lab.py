# SPDX-License-Identifier: Apache-2.0
"""The lab: a supplier and its replicas, loaded, in sync, ready, and gone afterwards.

    with Lab(replicas=1, entries=20_000) as lab:
        use(lab.supplier.uri, lab.replicas[0].uri, lab.ca_file)

Everything lives in one temporary folder that the keeper process owns, with the servers
(keeper_process.py). A server is ready when a bind succeeds.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import ldap

from ldapslam.lab import people, slapd
from ldapslam.lab.certificates import Authority
from ldapslam.lab.errors import LabError
from ldapslam.lab.keeper import Keeper
from ldapslam.lab.slapd import Server, SlapdSettings

_READY_TIMEOUT_S = 30.0
_LOAD_TIMEOUT_S = 600.0
_PROBE_INTERVAL_S = 0.01
_CLOSE_TIMEOUT_S = 5.0

# cn=monitor's names where they differ from the RFC's.
_OPERATION_NAMES = {"modrdn": "modify_dn"}


class Lab:
    """A supplier and any number of replicas; also see `up` and `down`."""

    def __init__(
        self,
        *,
        replicas: int = 0,
        entries: int = 1_000,
        settings: SlapdSettings | None = None,
        server_settings: Mapping[str, SlapdSettings] | None = None,
        certificate_lifetime: timedelta = timedelta(days=30),
        base: Path | None = None,
    ) -> None:
        """Nothing is started yet.

        `settings` are for all servers, `server_settings` for single ones by their name
        (`supplier`, `replica1`…). A negative `certificate_lifetime` makes the servers'
        certificates expired ones. The lab's folder is made below `base`.
        """
        self._replica_count = replicas
        #: People in the tree: user.0 to user.<entries - 1>.
        self.entries = entries
        self._settings = settings or SlapdSettings()
        self._server_settings = dict(server_settings or {})
        self._certificate_lifetime = certificate_lifetime
        self._base = base
        self._keeper: Keeper | None = None
        self._servers: list[Server] = []
        self._pids: dict[str, int] = {}
        self._own_operations: dict[str, Counter[str]] = {}
        # Held until the server that is to have them starts.
        self._reserved_ports: dict[str, list[socket.socket]] = {}
        self._password = secrets.token_urlsafe(18)

    def __enter__(self) -> Self:
        self.up()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.down()

    # -- life -------------------------------------------------------------------------

    def up(self) -> None:
        """Load and start all servers; returns when they answer and are in sync."""
        programs = slapd.find_programs()
        self._keeper = Keeper(self._base)
        try:
            self._program = slapd.unconfined(programs, self.folder)
            self._make_files(programs)
            self._load()
            for server in self._servers:
                self.start(server)
            self.wait_in_sync(_READY_TIMEOUT_S)
        except BaseException:
            self.down()
            raise

    def down(self) -> None:
        """End all servers and remove the folder; harmless when done before."""
        if self._keeper is not None:
            self._keeper.close()
        for reserved in self._reserved_ports.values():
            for port in reserved:
                port.close()
        self._keeper = None
        self._servers = []
        self._reserved_ports = {}

    def start(self, server: Server) -> None:
        """Start one server (again); returns when a bind succeeds."""
        log = server.folder / "slapd.log"
        settings = self._settings_of(server.name)
        argv = slapd.command(self._program, server, settings)
        for reserved in self._reserved_ports.pop(server.name, ()):
            reserved.close()
        self._pids[server.name] = self._running.start(
            server.name, argv, log, settings.nofile
        )
        # The new process counts from nought in its monitor.
        self._own_operations[server.name] = Counter()
        self._wait_ready(server, log)

    def stop(self, server: Server) -> None:
        """Stop one server; its data and its ports stay for `start`."""
        self._running.stop(server.name)

    def pid(self, server: Server) -> int:
        """The process of one server."""
        return self._pids[server.name]

    # -- what is there ----------------------------------------------------------------

    @property
    def folder(self) -> Path:
        """The lab's temporary folder."""
        return self._running.folder

    @property
    def supplier(self) -> Server:
        return self._started()[0]

    @property
    def replicas(self) -> Sequence[Server]:
        return self._started()[1:]

    @property
    def servers(self) -> Sequence[Server]:
        """The supplier, then the replicas."""
        return self._started()

    @property
    def ca_file(self) -> Path:
        """The certificate of the authority that signed the servers' certificates."""
        return self.folder / "ca.pem"

    @property
    def admin_dn(self) -> str:
        return people.ADMIN_DN

    @property
    def admin_password_file(self) -> Path:
        """The rootdn's password alone, without a newline; for its owner only."""
        return self.folder / "admin-password"

    @property
    def people_dn(self) -> str:
        return people.PEOPLE_DN

    # -- asking -----------------------------------------------------------------------

    def monitor_counts(self, server: Server) -> dict[str, int]:
        """Operations begun since the server started, by name, from cn=monitor.

        Begun ones, as slapd counts an operation as completed a moment after its client
        has the response. The lab's own operations are not in the figures. A replica's
        are in those of its supplier: a bind and a search each time it connected.
        """
        with self._bound(server) as connection:
            entries = self._search(
                connection,
                server,
                "cn=Operations,cn=Monitor",
                ldap.SCOPE_ONELEVEL,
                ["cn", "monitorOpInitiated"],
            )
            own = self._own_operations[server.name].copy()
        counts = {}
        for attributes in entries.values():
            name = attributes["cn"][0].decode().lower()
            name = _OPERATION_NAMES.get(name, name)
            counts[name] = int(attributes["monitorOpInitiated"][0]) - own[name]
        return counts

    def search(
        self, server: Server, base_dn: str, scope: int, attributes: list[str]
    ) -> dict[str, dict[str, list[bytes]]]:
        """All entries there, by their DN, as the rootdn sees them; the lab's own
        operations, as `monitor_counts` has it."""
        with self._bound(server) as connection:
            return self._search(connection, server, base_dn, scope, attributes)

    def context_csn(self, server: Server) -> frozenset[str]:
        """The change number up to which a server has all changes."""
        with self._bound(server) as connection:
            entries = self._search(
                connection, server, people.SUFFIX, ldap.SCOPE_BASE, ["contextCSN"]
            )
        values = entries[people.SUFFIX].get("contextCSN", [])
        return frozenset(value.decode() for value in values)

    def wait_in_sync(self, timeout_s: float) -> None:
        """Wait until every replica has all changes that the supplier has now."""
        wanted = self.context_csn(self.supplier)
        deadline_s = time.monotonic() + timeout_s
        for replica in self.replicas:
            while (found := self.context_csn(replica)) != wanted:
                if time.monotonic() > deadline_s:
                    raise LabError(
                        f"{replica.name} is not in sync after {timeout_s:g} s: "
                        f"contextCSN {sorted(found)}, supplier {sorted(wanted)}",
                        hint=f"{replica.folder / 'slapd.log'} may tell why",
                    )
                time.sleep(_PROBE_INTERVAL_S)

    # -- inside -----------------------------------------------------------------------

    @property
    def _running(self) -> Keeper:
        if self._keeper is None:
            raise LabError("the lab is not up", hint="use it inside `with Lab(…)`")
        return self._keeper

    def _started(self) -> list[Server]:
        self._running  # noqa: B018  raises when the lab is down
        return self._servers

    def _settings_of(self, name: str) -> SlapdSettings:
        return self._server_settings.get(name, self._settings)

    def _make_files(self, programs: slapd.Programs) -> None:
        """Password, certificates, configurations and data of all servers."""
        self.admin_password_file.touch(mode=0o600)
        self.admin_password_file.write_text(self._password)
        authority = Authority(self.folder)
        names = ["supplier", *(f"replica{n + 1}" for n in range(self._replica_count))]
        unknown = sorted(set(self._server_settings) - set(names))
        if unknown:
            raise LabError(f"server_settings for {unknown}, the servers are {names}")
        sockets = slapd.reserve_ports(2 * len(names))
        for index, name in enumerate(names):
            folder = self.folder / name
            (folder / "db").mkdir(parents=True)
            reserved = sockets[2 * index : 2 * index + 2]
            self._reserved_ports[name] = reserved
            server = slapd.server(
                name,
                "replica" if index else "supplier",
                folder,
                self.admin_password_file,
                [port.getsockname()[1] for port in reserved],
            )
            self._servers.append(server)
            configuration = slapd.configuration(
                server,
                programs,
                self._settings_of(name),
                entries=self.entries,
                password=self._password,
                ca_file=authority.ca_file,
                key_pair=authority.issue(name, self._certificate_lifetime),
                supplier=self._servers[0] if index else None,
            )
            slapd.write_configuration(server, configuration)
        people.write_ldif(self._ldif, self.entries)

    @property
    def _ldif(self) -> Path:
        return self.folder / "people.ldif"

    def _load(self) -> None:
        """slapadd for all servers at once; the LDIF is not needed afterwards."""
        loading = []
        for server in self._servers:
            log = server.folder / "slapadd.log"
            argv = slapd.load_command(self._program, server, self._ldif)
            nofile = self._settings_of(server.name).nofile
            name = f"{server.name} slapadd"
            pid = self._running.start(name, argv, log, nofile)
            loading.append((name, pid, log))
        for name, pid, log in loading:
            status = self._running.wait(name, pid, _LOAD_TIMEOUT_S)
            if status != 0:
                outcome = "did not end" if status is None else f"ended with {status}"
                raise LabError(
                    f"{name} {outcome}: {_last_lines(log)}",
                    hint="is there room on the disk of the temporary folder?",
                )
        self._ldif.unlink()

    def _wait_ready(self, server: Server, log: Path) -> None:
        """Return when a bind succeeds; raise when slapd ends or takes too long."""
        deadline_s = time.monotonic() + _READY_TIMEOUT_S
        while True:
            try:
                with self._bound(server):
                    return
            except ldap.SERVER_DOWN:
                pass
            status = self._running.status(server.name)
            if status is not None:
                raise LabError(f"{server.name} ended with {status}: {_last_lines(log)}")
            if time.monotonic() > deadline_s:
                raise LabError(
                    f"{server.name} did not answer a bind within "
                    f"{_READY_TIMEOUT_S:g} s: {_last_lines(log)}"
                )
            time.sleep(_PROBE_INTERVAL_S)

    @contextmanager
    def _bound(self, server: Server) -> Iterator[Any]:
        """A connection bound as the rootdn; its operations are tallied, and counted by
        the server when this returns."""
        connection = ldap.initialize(server.uri)
        connection.set_option(ldap.OPT_NETWORK_TIMEOUT, 5)
        connection.set_option(ldap.OPT_TIMEOUT, 30)
        connection.set_option(ldap.OPT_REFERRALS, 0)
        own = self._own_operations[server.name]
        try:
            connection.simple_bind_s(people.ADMIN_DN, self._password)
        except ldap.LDAPError:
            connection.unbind_s()
            raise
        own["bind"] += 1
        try:
            yield connection
        finally:
            own["unbind"] += 1
            with _open_socket(connection) as stream:
                connection.unbind_s()
                _read_to_end(stream)

    def _search(
        self,
        connection: Any,
        server: Server,
        base_dn: str,
        scope: int,
        attributes: list[str],
    ) -> dict[str, dict[str, list[bytes]]]:
        found = connection.search_s(base_dn, scope, "(objectClass=*)", attributes)
        self._own_operations[server.name]["search"] += 1
        return dict(found)


def _open_socket(connection: Any) -> socket.socket:
    """The connection's socket, which outlives the connection."""
    stream = socket.socket(fileno=os.dup(connection.get_option(ldap.OPT_DESC)))
    stream.settimeout(_CLOSE_TIMEOUT_S)
    return stream


def _read_to_end(stream: socket.socket) -> None:
    """Wait until the server has closed it, as it does after an unbind."""
    with suppress(OSError):
        while stream.recv(4096):
            pass


def _last_lines(log: Path, lines: int = 5) -> str:
    try:
        text = log.read_text(errors="replace")
    except FileNotFoundError:
        text = ""
    return " | ".join(text.splitlines()[-lines:]) or "it said nothing"
