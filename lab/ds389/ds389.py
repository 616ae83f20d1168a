# SPDX-License-Identifier: Apache-2.0
"""A lab's 389-DS servers: files, loading, agreements.

Suppliers, and the hub where there is one, have an agreement with each server that
follows them. Agreements are made once all servers are up: one that finds no consumer
waits before it tries again.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import ClassVar

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    NoEncryption,
    load_pem_private_key,
    pkcs12,
)

from ldapslam.base.errors import ConfigError
from ldapslam.dataset.offline import IsStopping, OfflineResult, ldif2db
from ldapslam.directory.counts import ServerKind
from ldapslam.lab import options
from ldapslam.lab.certificates import KeyPair
from ldapslam.lab.ds389 import programs as ds389_programs
from ldapslam.lab.ds389.configuration import (
    BACKEND_NAME,
    LDBM,
    MANAGER_DN,
    READ_ONLY_ID,
    Replica,
    config_folder,
    dse_ldif,
    make_folders,
    replica_dn,
)
from ldapslam.lab.ds389.data import write_replicated
from ldapslam.lab.server import LabError, Server
from ldapslam.lab.site import Choices, Site

_TOOL_TIMEOUT_S = 60.0


class Ds389Servers:
    """The 389-DS servers of one lab."""

    label: ClassVar[str] = "389-DS"
    kind: ClassVar[ServerKind] = ServerKind.DS389
    #: Agreements and the checkpoint at the end take their time.
    stop_grace_s: ClassVar[float] = 30.0
    backend = ""
    site: Site

    def __init__(self, choices: Choices) -> None:
        if choices.has_delta:
            raise ConfigError(
                "--delta: 389-DS has no delta-syncrepl, it replicates changes anyway",
                hint="leave it out",
            )
        if choices.backend not in (None, "bdb", "mdb"):
            raise ConfigError(
                f"--backend {choices.backend}: expected 'bdb' or 'mdb'",
                hint="leave it out for the server's usual one",
            )
        self._choices = choices
        self._chosen = options.placed(choices.options, options.DS389, self.label)

    def find(self) -> None:
        self.programs = ds389_programs.find_programs(self._choices.binary)
        has = self.programs.backends
        self.backend = self._choices.backend or ("mdb" if has == {"mdb"} else "bdb")
        if has and self.backend not in has:
            raise ConfigError(
                f"{str(self.programs.ns_slapd)!r} has no back end {self.backend}: "
                f"its libback-ldbm has {', '.join(sorted(has))}",
                hint=f"--backend {min(has)}",
            )
        for other in {"bdb", "mdb"} - {self.backend}:
            if foreign := self._chosen.get(f"cn={other},{LDBM}"):
                raise ConfigError(
                    f"--setting {foreign[0][0]}: it is a setting of {other}, the "
                    f"servers' back end is {self.backend}",
                    hint=f"--backend {other}, or leave it out",
                )

    def make_files(self) -> None:
        for server in self.site.servers:
            config = make_folders(server)
            dse = config / "dse.ldif"
            dse.touch(mode=0o600)
            dse.write_text(
                dse_ldif(
                    server,
                    self.programs.template_folder,
                    self._chosen,
                    backend=self.backend,
                    tree=self.site.tree,
                    password=self.site.password,
                    replica=self._replica(server),
                )
            )
            self._make_key_database(config, self.site.key_pairs[server.name])

    def load(self) -> None:
        """ldif2db for all servers at once, of one file that makes them equal."""
        ldif = self.site.folder / "replicated.ldif"
        uris = [f"ldap://localhost:{one.port}" for one in self.site.suppliers]
        write_replicated(self.site.tree.ldif, ldif, uris if self._replicates() else [])
        commands = {one.name: self._import(one, ldif) for one in self.site.servers}
        self.site.finish("ldif2db", commands)
        ldif.unlink()

    def import_offline(
        self, server: Server, ldif: Path, *, is_quick: bool, is_stopping: IsStopping
    ) -> OfflineResult:
        if not is_quick:
            raise ConfigError("ldif2db has one way alone", hint="leave `quick` out")
        return ldif2db(
            ldif,
            config_folder(server),
            program=[str(self.programs.ns_slapd)],
            is_stopping=is_stopping,
        )

    def command(self, server: Server) -> list[str]:
        pid_file = server.folder / "run" / "pid"
        return [*self._ns_slapd(server), "-d", "0", "-i", str(pid_file)]

    def log(self, server: Server) -> Path:
        return server.folder / "ns-slapd.log"

    def connect(self) -> None:
        for provider in self.site.servers:
            consumers = self.site.consumers(provider)
            if not consumers:
                continue
            with self.site.access.bound(provider) as connection:
                for consumer in consumers:
                    dn = self._agreement_dn(consumer)
                    connection.control["add"] += 1
                    entry = self._agreement(consumer)
                    connection.ldap.add_s(dn, list(entry.items()))

    # -- replication -------------------------------------------------------------------

    def _replicates(self) -> bool:
        return len(self.site.servers) > 1

    def _replica(self, server: Server) -> Replica | None:
        if not self._replicates():
            return None
        if server.role != "supplier":
            return Replica(READ_ONLY_ID, is_provider=server.role == "hub")
        return Replica(self.site.suppliers.index(server) + 1, is_provider=True)

    def _agreement_dn(self, consumer: Server) -> str:
        return f"cn=to {consumer.name},{replica_dn(self.site.tree.suffix)}"

    def _agreement(self, consumer: Server) -> dict[str, list[bytes]]:
        values = {
            "cn": f"to {consumer.name}",
            "nsDS5ReplicaHost": "127.0.0.1",
            "nsDS5ReplicaPort": str(consumer.port),
            "nsDS5ReplicaTransportInfo": "TLS" if self._choices.has_tls else "LDAP",
            "nsDS5ReplicaBindMethod": "SIMPLE",
            "nsDS5ReplicaBindDN": MANAGER_DN,
            "nsDS5ReplicaCredentials": self.site.password,
            "nsDS5ReplicaRoot": self.site.tree.suffix,
        }
        entry = {name: [value.encode()] for name, value in values.items()}
        return {"objectClass": [b"top", b"nsds5ReplicationAgreement"], **entry}

    # -- files and tools ---------------------------------------------------------------

    def _ns_slapd(self, server: Server, tool: str | None = None) -> list[str]:
        words = [str(self.programs.ns_slapd), *([] if tool is None else [tool])]
        return [*words, "-D", str(config_folder(server))]

    def _import(self, server: Server, ldif: Path) -> list[str]:
        return [*self._ns_slapd(server, "ldif2db"), "-n", BACKEND_NAME, "-i", str(ldif)]

    def _make_key_database(self, config: Path, pair: KeyPair) -> None:
        """A key database of NSS with a certificate that the lab's CA vouches for."""
        bundle = config / "server.p12"
        bundle.touch(mode=0o600)
        bundle.write_bytes(_pkcs12(pair))
        database = f"sql:{config}"
        certutil, pk12util = str(self.programs.certutil), str(self.programs.pk12util)
        _run(certutil, "-N", "-d", database, "--empty-password")
        authority = ["-n", "CA", "-t", "CT,,", "-i", str(self.site.ca_file)]
        _run(certutil, "-A", "-d", database, *authority)
        _run(pk12util, "-d", database, "-i", str(bundle), "-W", "", "-K", "")
        (config / "pin.txt").write_text("Internal (Software) Token:\n")


def _run(program: str, *arguments: str) -> None:
    try:
        subprocess.run(
            [program, *arguments],
            check=True,
            capture_output=True,
            timeout=_TOOL_TIMEOUT_S,
        )
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip()
        raise LabError(f"{program} ended with {error.returncode}: {said}") from error


def _pkcs12(pair: KeyPair) -> bytes:
    key = load_pem_private_key(pair.key_file.read_bytes(), None)
    certificate = x509.load_pem_x509_certificate(pair.certificate_file.read_bytes())
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return pkcs12.serialize_key_and_certificates(
        b"Server-Cert", key, certificate, None, NoEncryption()
    )
