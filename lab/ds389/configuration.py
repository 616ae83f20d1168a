# SPDX-License-Identifier: Apache-2.0
"""dse.ldif of a 389-DS in a folder of its own: no systemd, no root, no dscreate.

`dscreate` installs for the whole host and asks systemd to start the server. As it does,
dse.ldif is made from the package's templates, but with every path in the server's
folder, and with its part in replication.
"""

from __future__ import annotations

import base64
import hashlib
import os
import pwd
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ldapslam.lab.server import Server
from ldapslam.lab.site import Tree

LDBM: Final = "cn=config,cn=ldbm database,cn=plugins,cn=config"
BACKEND_NAME: Final = "userRoot"
MANAGER_DN: Final = "cn=replication manager,cn=config"

#: The replica id of servers that take no writes of clients.
READ_ONLY_ID: Final = 65_535

_BACKEND: Final = f"cn={BACKEND_NAME},cn=ldbm database,cn=plugins,cn=config"
_FOLDERS = ("lock", "tmp", "ldif", "bak", "run", "log", "db")

# /etc/dirsrv is closed to ordinary users; the server wants these three to be there.
_OWN_FILES = {
    "schema/99user.ldif": "dn: cn=schema\nobjectClass: top\n"
    "objectClass: ldapSubentry\nobjectClass: subschema\ncn: schema\n",
    "slapd-collations.conf": "",
    "certmap.conf": "certmap default default\n",
}


# The cache of an import; the servers of a lab import at the same time.
_IMPORT_BYTES_MIN = 16 << 20
_IMPORT_BYTES_PER_ENTRY = 1 << 10
_IMPORT_BYTES_MAX = 512 << 20


@dataclass(frozen=True)
class Replica:
    """A server's part in replication."""

    #: Its own changes have this id; READ_ONLY_ID where it takes none.
    replica_id: int
    #: It passes changes on, and so keeps a change log.
    is_provider: bool


def config_folder(server: Server) -> Path:
    """The folder of dse.ldif. ns-slapd names a semaphore of the host after it; with the
    name of the lab in it, the keeper can remove one that is left."""
    return server.folder / f"{server.folder.parent.name}-{server.name}"


def make_folders(server: Server) -> Path:
    """Make the folders that ns-slapd needs; that of its configuration, `config` too."""
    for name in _FOLDERS:
        (server.folder / name).mkdir()
    config = config_folder(server)
    (config / "schema").mkdir(parents=True)
    (server.folder / "config").symlink_to(config.name)
    for name, text in _OWN_FILES.items():
        (config / name).write_text(text)
    return config


def dse_ldif(
    server: Server,
    template_folder: Path,
    chosen: Mapping[str, Sequence[tuple[str, str]]],
    *,
    backend: str,
    tree: Tree,
    password: str,
    replica: Replica | None,
) -> str:
    """The configuration; `chosen` are names and values by entry (see options.py)."""
    text = _filled(server, template_folder, backend, tree.suffix, password)
    config = {
        "nsslapd-security": "on",
        "nsslapd-securePort": server.ldaps_uri.rpartition(":")[2],
        "nsslapd-listenhost": "127.0.0.1",
        "nsslapd-securelistenhost": "127.0.0.1",
        "nsslapd-sizelimit": "-1",
        # A bind is to write nothing.
        "nsslapd-enable-upgrade-hash": "off",
    }
    # Sized for a small tree: by itself it takes gigabytes, and seconds to do so.
    database = {
        "nsslapd-cachememsize": str(128 << 20),
        "nsslapd-dncachememsize": str(32 << 20),
    }
    import_bytes = _IMPORT_BYTES_MIN + tree.entries * _IMPORT_BYTES_PER_ENTRY
    fixed_caches = {
        "nsslapd-cache-autosize": "0",
        "nsslapd-import-cache-autosize": "0",
        "nsslapd-import-cachesize": str(min(import_bytes, _IMPORT_BYTES_MAX)),
    }
    ldbm = {**fixed_caches, "nsslapd-lookthroughlimit": "-1"}
    if backend == "bdb":
        # Which has these settings of its own, whatever stands above it.
        own = {**fixed_caches, "nsslapd-dbcachesize": str(64 << 20)}
    else:
        own = {"nsslapd-mdb-max-size": str(tree.map_bytes)}
    text = _extended(text, "cn=config", config, chosen.get("cn=config", ()))
    text = _extended(text, _BACKEND, database, chosen.get("backend", ()))
    text = _extended(text, LDBM, ldbm, chosen.get(LDBM, ()))
    own_dn = f"cn={backend},{LDBM}"
    own_classes = ["top", "extensibleObject"]
    text += _entry(own_dn, {"objectClass": own_classes, "cn": [backend]})
    text = _extended(text, own_dn, own, chosen.get(own_dn, ()))
    if replica is not None:
        text += _replica_entries(tree.suffix, password, replica)
    return text


def hashed(password: str) -> str:
    """{SSHA}: what a bind costs is to be the directory's time, not PBKDF2's."""
    salt = secrets.token_bytes(8)
    digest = hashlib.sha1(password.encode() + salt).digest()
    return "{SSHA}" + base64.b64encode(digest + salt).decode()


def replica_dn(suffix: str) -> str:
    """The entry that makes a server a replica."""
    # as the template has it: the suffix in quotation marks
    return f'cn=replica,cn="{suffix}",cn=mapping tree,cn=config'


def _filled(
    server: Server, template_folder: Path, backend: str, suffix: str, password: str
) -> str:
    """The package's templates with this server's paths and names."""
    folder = server.folder
    values = {
        "schema_dir": config_folder(server) / "schema",
        "cert_dir": config_folder(server),
        "config_dir": config_folder(server),
        "inst_dir": folder,
        "db_home_dir": folder / "db",
        "fqdn": "localhost",
        "ds_port": server.port,
        "ds_user": pwd.getpwuid(os.getuid()).pw_name,
        "rootdn": server.admin_dn,
        "ds_passwd": hashed(password),
        "ldapi_enabled": "on",
        "ldapi": folder / "ldapi",
        "ldapi_autobind": "off",
        "ds_suffix": suffix,
        "ds_bename": BACKEND_NAME,
        "db_lib": backend,
    }

    def fill(match: re.Match[str]) -> str:
        name = match[1]
        return str(values.get(name, folder / name.removesuffix("_dir")))

    text = (template_folder / "template-dse.ldif").read_text().rstrip()
    text += "\n\n" + (template_folder / "template-suffix-db.ldif").read_text()
    return re.sub("%([a-z_]+)%", fill, text).rstrip() + "\n"


def _replica_entries(suffix: str, password: str, replica: Replica) -> str:
    is_supplier = replica.replica_id != READ_ONLY_ID
    manager = {
        "objectClass": ["top", "person"],
        "cn": ["replication manager"],
        "sn": ["replication manager"],
        "userPassword": [hashed(password)],
    }
    own = {
        "objectClass": ["top", "nsDS5Replica", "extensibleObject"],
        "cn": ["replica"],
        "nsDS5ReplicaRoot": [suffix],
        "nsDS5ReplicaType": ["3" if is_supplier else "2"],
        "nsDS5ReplicaId": [str(replica.replica_id)],
        "nsDS5Flags": [str(int(replica.is_provider))],
        "nsDS5ReplicaBindDN": [MANAGER_DN],
        # A consumer that was away is found again at once.
        "nsDS5ReplicaBackoffMin": ["1"],
        "nsDS5ReplicaBackoffMax": ["2"],
    }
    return _entry(MANAGER_DN, manager) + _entry(replica_dn(suffix), own)


def _entry(dn: str, attributes: Mapping[str, Sequence[str]]) -> str:
    lines = [f"{name}: {value}" for name in attributes for value in attributes[name]]
    return "\n" + "".join(f"{line}\n" for line in [f"dn: {dn}", *lines])


def _extended(
    ldif: str, dn: str, usual: Mapping[str, str], chosen: Sequence[tuple[str, str]]
) -> str:
    """The LDIF with more attributes of the entry `dn`; chosen ones replace usual
    ones."""
    head = f"dn: {dn}\n"
    assert ldif.count(head) == 1, dn
    pairs = {name.lower(): value for name, value in [*usual.items(), *chosen]}
    lines = "".join(f"{name}: {value}\n" for name, value in pairs.items())
    return ldif.replace(head, head + lines)
