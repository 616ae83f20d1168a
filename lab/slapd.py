# SPDX-License-Identifier: Apache-2.0
"""One slapd of a lab: where the program is, its configuration, its command line.

Nothing here starts a process or waits; lab.py does.
"""

from __future__ import annotations

import random
import shutil
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from ldapslam.lab.certificates import KeyPair
from ldapslam.lab.errors import LabError
from ldapslam.lab.people import ADMIN_DN, SUFFIX

# Where distributions put what we need; Debian's come first.
_PROGRAM_FOLDERS = (
    "/usr/sbin",
    "/usr/libexec",
    "/usr/lib/openldap",
    "/usr/local/libexec",
)
_MODULE_FOLDERS = ("/usr/lib/ldap", "/usr/lib64/openldap", "/usr/lib/openldap")
_SCHEMA_FOLDERS = ("/etc/ldap/schema", "/etc/openldap/schema")
_SCHEMAS = ("core", "cosine", "inetorgperson")

# Ubuntu confines /usr/sbin/slapd, by its path, to the system's own directories.
_APPARMOR_PROFILE = Path("/etc/apparmor.d/usr.sbin.slapd")

# sun_path of a Unix socket holds 108 bytes, the last of them NUL.
_SOCKET_PATH_MAX = 107

# Measured: 1.4 KiB an entry with the indexes below. The file is sparse, so that much
# more costs nothing and leaves room for what a load adds.
_MAP_BYTES_MIN = 1 << 30
_MAP_BYTES_PER_ENTRY = 16 << 10


@dataclass(frozen=True)
class SlapdSettings:
    """What may differ from one slapd of a lab to the next."""

    #: slapd's worker threads (`threads`, olcThreads); None is slapd's own default.
    threads: int | None = None
    #: Limit of open files; slapd takes no more connections than that.
    nofile: int = 8_192
    #: False: `dbnosync`, commits do not wait for the disk.
    durable: bool = True
    #: What slapd.log has (slapd -d): `none` is slapd's name for the messages that are
    #: written at any level, which tell why it ends; `stats` has every operation.
    debug: str = "none"
    #: Lines of slapd.conf for the global part.
    global_lines: Sequence[str] = ()
    #: Lines of slapd.conf for the end of the mdb database's part, overlays included.
    database_lines: Sequence[str] = ()


@dataclass(frozen=True)
class Server:
    """A slapd of a lab, as its clients see it."""

    #: `supplier`, or `replica1` and so on.
    name: str
    #: `supplier` or `replica`.
    role: str
    #: Also the one for StartTLS.
    uri: str
    ldaps_uri: str
    ldapi_uri: str
    admin_dn: str
    #: The password alone, without a newline.
    admin_password_file: Path
    #: Configuration, database, log; gone when the lab is.
    folder: Path


@dataclass(frozen=True)
class Programs:
    """slapd and what it loads, as installed on this machine."""

    slapd: Path
    #: None where the back ends are built in.
    module_folder: Path | None
    schema_folder: Path


def find_programs() -> Programs:
    """Look for slapd; a missing one is an error that names the package."""
    slapd = shutil.which("slapd") or shutil.which(
        "slapd", path=":".join(_PROGRAM_FOLDERS)
    )
    schema_folder = _first_with("core.schema", _SCHEMA_FOLDERS)
    if slapd is None or schema_folder is None:
        missing = "slapd" if slapd is None else "slapd's schema files"
        raise LabError(
            f"{missing} cannot be found on this machine",
            hint="install OpenLDAP's server: `apt-get install slapd ldap-utils` on "
            "Debian and Ubuntu; its service need not run",
        )
    return Programs(
        Path(slapd),
        _first_with("back_mdb.so", _MODULE_FOLDERS),
        schema_folder,
    )


def _first_with(name: str, folders: Sequence[str]) -> Path | None:
    return next((Path(f) for f in folders if (Path(f) / name).exists()), None)


def unconfined(programs: Programs, folder: Path) -> Path:
    """The slapd to run from: a copy in `folder` where AppArmor would confine it.

    The profile is bound to the installed path and allows no temporary folder.
    """
    if not _APPARMOR_PROFILE.exists():
        return programs.slapd
    return Path(shutil.copy(programs.slapd, folder / "slapd"))


def server(
    name: str, role: str, folder: Path, password_file: Path, ports: Sequence[int]
) -> Server:
    """The addresses of a server in `folder` with the ports for ldap and ldaps."""
    socket_path = folder / "ldapi"
    if len(str(socket_path)) > _SOCKET_PATH_MAX:
        raise LabError(
            f"the path of the Unix socket {str(socket_path)!r} is longer than "
            f"{_SOCKET_PATH_MAX} bytes",
            hint="set TMPDIR to a shorter path",
        )
    return Server(
        name=name,
        role=role,
        uri=f"ldap://127.0.0.1:{ports[0]}",
        ldaps_uri=f"ldaps://127.0.0.1:{ports[1]}",
        ldapi_uri=f"ldapi://{quote(str(socket_path), safe='')}",
        admin_dn=ADMIN_DN,
        admin_password_file=password_file,
        folder=folder,
    )


def configuration(
    server: Server,
    programs: Programs,
    settings: SlapdSettings,
    *,
    entries: int,
    password: str,
    ca_file: Path,
    key_pair: KeyPair,
    supplier: Server | None,
) -> str:
    """slapd.conf of one server; with `supplier` it replicates from that one."""
    modules = []
    if programs.module_folder is not None:
        modules = [f"modulepath {programs.module_folder}", "moduleload back_mdb"]
        if supplier is None:
            modules.append("moduleload syncprov")
    map_bytes = max(_MAP_BYTES_MIN, entries * _MAP_BYTES_PER_ENTRY)
    lines = [
        *(f"include {programs.schema_folder}/{name}.schema" for name in _SCHEMAS),
        *modules,
        "loglevel 0",
        # slapadd: one indexer beside the main thread is as fast as it gets.
        "tool-threads 2",
        *([] if settings.threads is None else [f"threads {settings.threads}"]),
        f"TLSCACertificateFile {ca_file}",
        f"TLSCertificateFile {key_pair.certificate_file}",
        f"TLSCertificateKeyFile {key_pair.key_file}",
        *settings.global_lines,
        "",
        "database config",
        f'rootdn "{ADMIN_DN}"',
        "",
        "database mdb",
        f'suffix "{SUFFIX}"',
        f'rootdn "{ADMIN_DN}"',
        f"rootpw {password}",
        f"directory {server.folder / 'db'}",
        f"maxsize {map_bytes}",
        *([] if settings.durable else ["dbnosync"]),
        "index objectClass,uid,entryUUID,entryCSN eq",
        "access to attrs=userPassword by anonymous auth by self write by * none",
        "access to * by * read",
        *(
            _provider_lines()
            if supplier is None
            else _consumer_lines(supplier, password)
        ),
        *settings.database_lines,
        "",
        "database monitor",
        f'access to * by dn.exact="{ADMIN_DN}" read by * none',
    ]
    return "\n".join(lines) + "\n"


def _provider_lines() -> list[str]:
    return ["overlay syncprov", "syncprov-sessionlog 10000"]


def _consumer_lines(supplier: Server, password: str) -> list[str]:
    return [
        f'syncrepl rid=001 provider={supplier.uri} searchbase="{SUFFIX}"'
        " type=refreshAndPersist schemachecking=off"
        f' bindmethod=simple binddn="{ADMIN_DN}" credentials={password}'
        ' retry="1 +" keepalive=60:3:10',
        f"updateref {supplier.uri}",
    ]


def command(slapd: Path, server: Server, settings: SlapdSettings) -> list[str]:
    """Run in the foreground."""
    uris = f"{server.uri}/ {server.ldaps_uri}/ {server.ldapi_uri}/"
    return [str(slapd), "-f", str(_conf(server)), "-h", uris, "-d", settings.debug]


def load_command(slapd: Path, server: Server, ldif: Path) -> list[str]:
    """slapadd, quick: no checks, no transactions; the database is new."""
    database = ["-b", SUFFIX, "-l", str(ldif)]
    return [str(slapd), "-Tadd", "-q", "-f", str(_conf(server)), *database]


def write_configuration(server: Server, text: str) -> None:
    path = _conf(server)
    path.touch(mode=0o600)
    path.write_text(text)


def _conf(server: Server) -> Path:
    return server.folder / "slapd.conf"


def reserve_ports(count: int) -> list[socket.socket]:
    """Bound sockets of 127.0.0.1, each on a TCP port of its own: nobody else gets the
    port before the socket is closed, just ahead of the server that is to have it.

    The ports lie below the range that the kernel takes outgoing connections' ports
    from: a load of thousands of connections cannot take that of a stopped server.
    """
    first_ephemeral = int(
        Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0]
    )
    candidates = range(10_240, max(first_ephemeral, 11_264))
    reserved: list[socket.socket] = []
    for port in random.sample(candidates, len(candidates)):
        if len(reserved) == count:
            break
        probe = socket.socket()
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            probe.close()
        else:
            reserved.append(probe)
    if len(reserved) < count:
        for probe in reserved:
            probe.close()
        raise LabError(f"found only {len(reserved)} of {count} free TCP ports")
    return reserved
