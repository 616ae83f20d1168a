# SPDX-License-Identifier: Apache-2.0
"""The lab: suppliers and replicas, loaded, in sync, ready, and gone afterwards.

    with Lab(replicas=1, entries=20_000) as lab:
        use(lab.supplier.uri, lab.replicas[0].uri, lab.ca_file)

Everything lives in one temporary folder, which is removed with its servers when this
process ends (lab_folder.py). A server is ready when a bind succeeds. How a kind of
server does all this is in slapd/ and ds389/: a `Product`.
"""

from __future__ import annotations

import os
import secrets
import socket
import tempfile
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Literal, Self
from urllib.parse import quote

from ldapslam.base.errors import ConfigError, TargetUnreachable
from ldapslam.dataset.ldif import entry_count
from ldapslam.dataset.offline import IsStopping, OfflineResult
from ldapslam.directory.replication_state import State, latest, state
from ldapslam.lab import people
from ldapslam.lab.access import Access
from ldapslam.lab.certificates import Authority, KeyPair
from ldapslam.lab.ds389.ds389 import Ds389Servers
from ldapslam.lab.lab_folder import LabFolder
from ldapslam.lab.ldif_lines import suffix_of
from ldapslam.lab.server import (
    SOCKET_NAME,
    LabError,
    Server,
    Topology,
    check_folder,
    reserve_ports,
)
from ldapslam.lab.site import Choices, Site, Tree, last_words
from ldapslam.lab.slapd.openldap import OpenLdap

ServerKind = Literal["slapd", "389ds"]
#: What a lab needs of a kind of server; `site` is set once there is a folder.
Product = OpenLdap | Ds389Servers

_READY_TIMEOUT_S = 60.0
_PROBE_INTERVAL_S = 0.01


class Lab:
    """Suppliers and any number of replicas; also see `up` and `down`."""

    def __init__(
        self,
        *,
        server: ServerKind = "slapd",
        suppliers: int = 1,
        replicas: int = 0,
        has_hub: bool = False,
        entries: int = 1_000,
        ldif: Path | None = None,
        ldif_entries: int | None = None,
        choices: Choices | None = None,
        certificate_lifetime: timedelta = timedelta(days=30),
        base: Path | None = None,
    ) -> None:
        """Nothing is started yet.

        The tree has `entries` people, or is that of the file `ldif`, which is counted
        unless `ldif_entries` says how many it has. A negative `certificate_lifetime`
        makes the servers' certificates expired ones. The lab's folder is made below
        `base`.
        """
        self.kind: ServerKind = server
        self.topology = Topology(suppliers, replicas, has_hub)
        #: People in the tree: user.0 to user.<entries - 1>; 0 with an LDIF.
        self.entries = entries if ldif is None else 0
        self.suffix = people.SUFFIX if ldif is None else suffix_of(ldif)
        self._given_ldif = ldif
        self._ldif_entries = ldif_entries
        choices = choices or Choices()
        self._product: Product = (
            Ds389Servers(choices) if server == "389ds" else OpenLdap(choices)
        )
        self._cpus = choices.cpus
        self._certificate_lifetime = certificate_lifetime
        self._base = base
        self._folder: LabFolder | None = None
        self._servers: list[Server] = []
        self._reserved_ports: list[socket.socket] = []
        self._password = secrets.token_urlsafe(18)
        self._access = Access(self._password)

    def __enter__(self) -> Self:
        self.up()
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    def up(self) -> None:
        """Load and start all servers; returns when they answer and are in sync."""
        self.prepare()
        self.serve()

    def serve(self) -> None:
        """Load and start the servers of a lab that was only prepared, as `up` does."""
        try:
            self._load()
            for server in self._servers:
                self._start(server)
            for server in self._servers:
                self._wait_ready(server)
            self._product.connect()
            self.wait_in_sync(_READY_TIMEOUT_S)
        except BaseException:
            self.down()
            raise

    def find(self) -> None:
        """Find the programs, and see that there can be a folder; nothing is made."""
        self._product.find()
        usable = os.sched_getaffinity(0)
        if missing := sorted((self._cpus or usable) - usable):
            raise ConfigError(
                f"the lab cannot run on CPU {missing[0]}",
                hint=f"there are {', '.join(map(str, sorted(usable)))}",
            )
        base = self._base or Path(tempfile.gettempdir())
        check_folder(base.absolute(), self.topology.roles())

    def prepare(self) -> None:
        """Configure all servers; they have no data, and none is started."""
        self.find()
        self._folder = LabFolder(self._base, self._cpus)
        try:
            self._make_files()
        except BaseException:
            self.down()
            raise

    def import_offline(
        self, ldif: Path, *, is_quick: bool, is_stopping: IsStopping
    ) -> OfflineResult:
        """Load a file into the first supplier of a lab that was only prepared."""
        return self._product.import_offline(
            self.supplier, ldif, is_quick=is_quick, is_stopping=is_stopping
        )

    def down(self) -> None:
        """End all servers and remove the folder; harmless when done before."""
        if self._folder is not None:
            self._folder.close()
        self._let_go()

    def leave(self) -> None:
        """Let the servers run on after this process (standing.py); this object is as if
        the lab were down."""
        self._running.leave()
        self._let_go()

    def start(self, server: Server) -> None:
        """Start one server (again); returns when a bind succeeds."""
        self._start(server)
        self._wait_ready(server)

    def stop(self, server: Server) -> None:
        """Stop one server; its data and its ports stay for `start`."""
        self._running.stop(server.name, self._product.stop_grace_s)

    @property
    def folder(self) -> Path:
        """The lab's temporary folder."""
        return self._running.path

    @property
    def backend(self) -> str:
        """`mdb` or `bdb`."""
        return self._product.backend

    def version(self) -> str:
        """What the servers' program says of itself."""
        return self._product.programs.version

    @property
    def supplier(self) -> Server:
        """The first supplier."""
        return self._started()[0]

    @property
    def suppliers(self) -> Sequence[Server]:
        return self._with_role("supplier")

    @property
    def replicas(self) -> Sequence[Server]:
        return self._with_role("replica")

    @property
    def servers(self) -> Sequence[Server]:
        """Suppliers, the hub, replicas."""
        return self._started()

    @property
    def ca_file(self) -> Path:
        """The certificate of the authority that signed the servers' certificates."""
        return self.folder / "ca.pem"

    @property
    def admin_dn(self) -> str:
        return f"cn=admin,{self.suffix}"

    @property
    def admin_password_file(self) -> Path:
        """The administrator's password alone, without a newline; for its owner only."""
        return self.folder / "admin-password"

    def position(self, server: Server) -> State:
        """The last change that a server has of each supplier."""
        with self._access.bound(server) as connection:
            return state(connection, self._product.kind, self.suffix)

    def wait_in_sync(self, timeout_s: float) -> None:
        """Wait until every server has all changes that a supplier has now."""
        if len(self._started()) == 1:
            return
        wanted = latest(map(self.position, self.suppliers))
        deadline_s = time.monotonic() + timeout_s
        for server in self._servers:
            while not in_sync(found := self.position(server), wanted):
                if time.monotonic() > deadline_s:
                    raise LabError(
                        f"{server.name} is not in sync after {timeout_s:g} s: "
                        f"it has {found}, the suppliers {wanted}",
                        hint=f"{self._product.log(server)} may tell why",
                    )
                time.sleep(_PROBE_INTERVAL_S)

    @property
    def _running(self) -> LabFolder:
        if self._folder is None:
            raise LabError("the lab is not up", hint="use it inside `with Lab(…)`")
        return self._folder

    def _started(self) -> list[Server]:
        self._running  # noqa: B018  raises when the lab is down
        return self._servers

    def _with_role(self, role: str) -> list[Server]:
        return [server for server in self._started() if server.role == role]

    def _let_go(self) -> None:
        for reserved in self._reserved_ports:
            reserved.close()
        self._folder = None
        self._servers = []
        self._reserved_ports = []

    def _make_files(self) -> None:
        """Password, certificates, configurations of all servers."""
        self.admin_password_file.touch(mode=0o600)
        self.admin_password_file.write_text(self._password)
        authority = Authority(self.folder)
        key_pairs: dict[str, KeyPair] = {}
        roles = self.topology.roles()
        self._reserved_ports = reserve_ports(2 * len(roles))
        ports = iter(one.getsockname()[1] for one in self._reserved_ports)
        for name, role in roles.items():
            folder = self.folder / name
            folder.mkdir()
            socket_path = quote(str(folder / SOCKET_NAME), safe="")
            server = Server(
                name=name,
                role=role,
                uri=f"ldap://127.0.0.1:{next(ports)}",
                ldaps_uri=f"ldaps://127.0.0.1:{next(ports)}",
                ldapi_uri=f"ldapi://{socket_path}",
                admin_dn=self.admin_dn,
                admin_password_file=self.admin_password_file,
                folder=folder,
            )
            self._servers.append(server)
            key_pairs[name] = authority.issue(name, self._certificate_lifetime)
        by_name = {server.name: server for server in self._servers}
        providers = {
            name: [by_name[one] for one in self.topology.providers(name)]
            for name in roles
        }
        self._product.site = Site(
            lab_folder=self._running,
            tree=self._tree(),
            admin_dn=self.admin_dn,
            password=self._password,
            ca_file=authority.ca_file,
            access=self._access,
            servers=self._servers,
            providers=providers,
            key_pairs=key_pairs,
        )
        self._product.make_files()

    def _tree(self) -> Tree:
        if self._given_ldif is None:
            ldif = self.folder / "people.ldif"
            return Tree(self.suffix, self.entries, ldif, is_replicated=True)
        entries = self._ldif_entries
        if entries is None:
            entries = entry_count(self._given_ldif)
        return Tree(self.suffix, entries, self._given_ldif, is_replicated=False)

    def _load(self) -> None:
        """Load all servers; our own LDIF is not needed afterwards."""
        tree = self._product.site.tree
        if self._given_ldif is None:
            people.write_ldif(tree.ldif, self.entries)
        self._product.load()
        if self._given_ldif is None:
            tree.ldif.unlink()

    def _start(self, server: Server) -> None:
        argv, log = self._product.command(server), self._product.log(server)
        server.pid = self._running.start(server.name, argv, log).pid
        # The new process counts from zero in its monitor.
        self._access.forget(server)

    def _wait_ready(self, server: Server) -> None:
        """Return when a bind succeeds; raise when the server ends or takes too long."""
        log = self._product.log(server)
        deadline_s = time.monotonic() + _READY_TIMEOUT_S
        while True:
            try:
                with self._access.bound(server):
                    return
            except TargetUnreachable:
                pass
            status = self._running.status(server.name)
            if status is not None:
                raise LabError(f"{server.name} ended with {status}: {last_words(log)}")
            if time.monotonic() > deadline_s:
                raise LabError(
                    f"{server.name} did not answer a bind within "
                    f"{_READY_TIMEOUT_S:g} s: {last_words(log)}"
                )
            time.sleep(_PROBE_INTERVAL_S)


def in_sync(position: State, wanted: State) -> bool:
    """Whether a server at `position` has all changes up to `wanted`."""
    return all(position.get(key, "") >= change for key, change in wanted.items())
