# SPDX-License-Identifier: Apache-2.0
"""A lab's slapds: slapd.conf, loading, syncrepl, and what they count.

Two suppliers replicate each other (multi-provider); replicas follow by syncrepl
(refreshAndPersist), over the supplier's access log with `has_delta`. All run syncprov:
replicas tell clients of changes too.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Final

from ldapslam.base.errors import ConfigError
from ldapslam.dataset.offline import IsStopping, OfflineResult, slapadd
from ldapslam.directory.counts import ServerKind, read_counts
from ldapslam.lab import options
from ldapslam.lab.ldif_lines import write_plain
from ldapslam.lab.server import LabError, Server
from ldapslam.lab.site import Choices, Site
from ldapslam.lab.slapd import slapd

_SCHEMAS = ("core", "cosine", "nis", "inetorgperson")
_LOG_SUFFIX: Final = "cn=accesslog"

_INDEXED = ("objectClass", "uid", "entryUUID", "entryCSN")

# Consumers try to connect each second.
_CONNECT_TIMEOUT_S = 60.0
_CONNECT_INTERVAL_S = 0.02


class OpenLdap:
    """The slapds of one lab."""

    label: ClassVar[str] = "slapd"
    kind: ClassVar[ServerKind] = ServerKind.SLAPD
    #: How long a server may take to stop before it is killed.
    stop_grace_s: ClassVar[float] = 5.0
    backend = "mdb"
    site: Site

    def __init__(self, choices: Choices) -> None:
        if choices.backend not in (None, "mdb"):
            raise ConfigError(
                f"--backend {choices.backend}: slapd has mdb alone since OpenLDAP 2.5",
                hint="leave it out, or take --server 389ds",
            )
        self._choices = choices
        self._chosen = options.placed(choices.options, options.SLAPD, self.label)

    def find(self) -> None:
        self.programs = slapd.find_programs(self._choices.binary)
        self.programs.modules(["mdb", *self._overlays()])

    def make_files(self) -> None:
        self._program = slapd.unconfined(self.programs, self.site.folder)
        for server in self.site.servers:
            (server.folder / "db").mkdir()
            if self._has_log(server):
                (server.folder / "accesslog").mkdir()
            path = _conf(server)
            path.touch(mode=0o600)
            path.write_text(self.configuration(server))

    def load(self) -> None:
        """slapadd for all servers at once. An LDIF without entryUUID and entryCSN is
        loaded into the first, and its copy into the others."""
        first, *others = self.site.servers
        ldif = self.site.tree.ldif
        if self.site.tree.is_replicated:
            argv = {one.name: self._add(one, ldif) for one in self.site.servers}
            self.site.finish("slapadd", argv)
            return
        copy = self.site.folder / "copy.ldif"
        write_plain(ldif, copy)
        self.site.finish("slapadd", {first.name: [*self._add(first, copy), "-w"]})
        copy.unlink()
        if not others:
            return
        cat = [*self._tool(first, "-Tcat"), "-l", str(copy)]
        self.site.finish("slapcat", {first.name: cat})
        self.site.finish("slapadd", {one.name: self._add(one, copy) for one in others})
        copy.unlink()

    def import_offline(
        self, server: Server, ldif: Path, *, is_quick: bool, is_stopping: IsStopping
    ) -> OfflineResult:
        return slapadd(
            ldif,
            _conf(server),
            is_quick=is_quick,
            program=[str(self._program), "-Tadd"],
            is_stopping=is_stopping,
        )

    def command(self, server: Server) -> list[str]:
        uris = f"{server.uri}/ {server.ldaps_uri}/ {server.ldapi_uri}/"
        # loglevel alone is of syslog
        level = dict(self._chosen.get("global", [])).get("loglevel", "0")
        # `none`: messages of any level, which tell why it ends
        debug = "none" if level == "0" else ",".join(level.split())
        return [str(self._program), "-f", str(_conf(server)), "-h", uris, "-d", debug]

    def log(self, server: Server) -> Path:
        return server.folder / "slapd.log"

    def connect(self) -> None:
        """Wait for a search of each consumer: one that was up before its provider tries
        again a second later."""
        deadline_s = time.monotonic() + _CONNECT_TIMEOUT_S
        for provider in self.site.servers:
            consumers = self.site.consumers(provider)
            while consumers and self.counts(provider)["search"] < len(consumers):
                if time.monotonic() > deadline_s:
                    names = ", ".join(one.name for one in consumers)
                    raise LabError(
                        f"not all of {names} follow {provider.name} "
                        f"{_CONNECT_TIMEOUT_S:g} s after they were started",
                        hint=f"{self.log(consumers[0])} may tell why",
                    )
                time.sleep(_CONNECT_INTERVAL_S)

    def counts(self, server: Server) -> dict[str, int]:
        """A replica's operations count at its supplier: a bind and a search for each
        connection."""
        with self.site.access.bound(server) as connection:
            counts = read_counts(connection, self.kind).operations
            own = connection.control.copy()
        return {kind: (count or 0) - own[kind] for kind, count in counts.items()}

    # -- slapd.conf --------------------------------------------------------------------

    def configuration(self, server: Server) -> str:
        """slapd.conf of one server."""
        site = self.site
        keys = site.key_pairs[server.name]
        suppliers = site.suppliers
        # slapadd: more than one indexer thread makes it no faster
        global_part = {"loglevel": "0", "tool-threads": "2"}
        if len(suppliers) > 1 and server in suppliers:
            global_part["serverID"] = str(suppliers.index(server) + 1)
        lines = [
            *(
                f"include {path}"
                for name in _SCHEMAS
                if (path := self.programs.schema_folder / f"{name}.schema").exists()
            ),
            *self.programs.modules(["mdb", *self._overlays()]),
            *self._lines("global", global_part),
            f"TLSCACertificateFile {site.ca_file}",
            f"TLSCertificateFile {keys.certificate_file}",
            f"TLSCertificateKeyFile {keys.key_file}",
            "",
            "database config",
            f'rootdn "{site.admin_dn}"',
            "",
            *(self._log_database(server) if self._has_log(server) else []),
            *self._database_head(server, site.tree.suffix, "db"),
            f"rootpw {site.password}",
            *self._index(),
            "access to attrs=userPassword by anonymous auth by self write by * none",
            f"access to * by * {'read' if self._choices.is_readable else 'none'}",
            *(f"syncrepl {line}" for line in self._syncrepl(server)),
            *self._reference(server),
            "overlay syncprov",
            *(self._provider_lines(server) if self._is_provider(server) else []),
            "",
            "database monitor",
            f'access to * by dn.exact="{site.admin_dn}" read by * none',
        ]
        return "\n".join(lines) + "\n"

    def _lines(self, place: str, usual: Mapping[str, str]) -> list[str]:
        """The usual directives, without those that the user has set, and the latter."""
        chosen = self._chosen.get(place, [])
        names = {name for name, _ in chosen}
        pairs = [pair for pair in usual.items() if pair[0] not in names] + chosen
        return [f"{name} {value}".rstrip() for name, value in pairs]

    def _index(self) -> list[str]:
        """Indexes for the server's own searches and the usual load, but those that the
        user set."""
        chosen = {
            attribute.strip().lower()
            for name, value in self._chosen.get("database", [])
            if name == "index"
            for attribute in value.partition(" ")[0].split(",")
        }
        usual = [one for one in _INDEXED if one.lower() not in chosen]
        return [f"index {','.join(usual)} eq"] if usual else []

    def _database_head(self, server: Server, suffix: str, folder: str) -> list[str]:
        usual = {"maxsize": str(self.site.tree.map_bytes)}
        return [
            "database mdb",
            f'suffix "{suffix}"',
            f'rootdn "{self.site.admin_dn}"',
            f"directory {server.folder / folder}",
            *self._lines("database", usual),
        ]

    def _log_database(self, server: Server) -> list[str]:
        return [
            *self._database_head(server, _LOG_SUFFIX, "accesslog"),
            "index objectClass,entryCSN,reqStart,reqEnd,reqResult eq",
            "access to * by * none",
            "overlay syncprov",
            "syncprov-nopresent TRUE",
            "syncprov-reloadhint TRUE",
            "",
        ]

    def _provider_lines(self, server: Server) -> list[str]:
        lines = self._lines("provider", {"syncprov-sessionlog": "10000"})
        if self._has_log(server):
            lines += ["overlay accesslog", f"logdb {_LOG_SUFFIX}", "logops writes"]
            lines += ["logsuccess TRUE", "logpurge 1+00:00 01:00"]
        return lines

    def _syncrepl(self, server: Server) -> list[str]:
        """The values of `syncrepl`, one for each provider."""
        site = self.site
        lines = []
        for number, provider in enumerate(site.providers[server.name], 1):
            line = (
                f"rid={number:03} provider={provider.uri}"
                f' searchbase="{site.tree.suffix}"'
                " type=refreshAndPersist schemachecking=off"
                f' bindmethod=simple binddn="{site.admin_dn}"'
                f' credentials={site.password} retry="1 +" keepalive=60:3:10'
            )
            if self._choices.has_delta:
                line += f' syncdata=accesslog logbase="{_LOG_SUFFIX}"'
                line += ' logfilter="(&(objectClass=auditWriteObject)(reqResult=0))"'
            if self._choices.has_tls:
                line += f" starttls=critical tls_cacert={site.ca_file}"
                line += " tls_reqcert=demand"
            lines.append(line)
        return lines

    def _reference(self, server: Server) -> list[str]:
        """Where writes go that a server with providers does not take itself."""
        providers = self.site.providers[server.name]
        if server.role == "supplier":
            return ["multiprovider on"] if providers else []
        return [f"updateref {providers[0].uri}"]

    def _overlays(self) -> list[str]:
        return ["syncprov", *(["accesslog"] if self._choices.has_delta else [])]

    def _is_provider(self, server: Server) -> bool:
        return server.role == "supplier" or self.site.is_provider(server)

    def _has_log(self, server: Server) -> bool:
        return self._choices.has_delta and self._is_provider(server)

    # -- inside ------------------------------------------------------------------------

    def _tool(self, server: Server, name: str) -> list[str]:
        database = ["-b", self.site.tree.suffix, "-f", str(_conf(server))]
        return [str(self._program), name, *database]

    def _add(self, server: Server, ldif: Path) -> list[str]:
        """slapadd, quick: no checks, no transactions; the database is new."""
        return [*self._tool(server, "-Tadd"), "-q", "-l", str(ldif)]


def _conf(server: Server) -> Path:
    return server.folder / "slapd.conf"
