# SPDX-License-Identifier: Apache-2.0
"""A server of a lab as its clients see it, and the topology that servers make.

Pure but for the ports: nothing here starts or asks a server.
"""

from __future__ import annotations

import os
import random
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ldapslam.base.errors import ConfigError, TargetError
from ldapslam.jobs.fields.context import LAB_FOLDER


class LabError(TargetError):
    """A temporary directory cannot be made, started, loaded or asked."""


Role = Literal["supplier", "hub", "replica"]

# sun_path of a Unix socket holds 108 bytes, the last of them NUL.
_SOCKET_PATH_MAX = 107
SOCKET_NAME = "ldapi"
# As long as what tempfile.mkdtemp adds to it.
_LAB_FOLDER = f"{LAB_FOLDER}xxxxxxxx"


@dataclass(eq=False)
class Server:
    """One server of a lab, as its clients see it."""

    #: `supplier` (`supplier1`, `supplier2` where there are two), `hub`, `replica1`…
    name: str
    role: Role
    #: Also the one for StartTLS.
    uri: str
    ldaps_uri: str
    ldapi_uri: str
    admin_dn: str
    #: The password alone, without a newline.
    admin_password_file: Path
    #: Configuration, database, logs; gone when the lab is.
    folder: Path
    #: Its process, which every start changes; 0 before the first.
    pid: int = 0

    @property
    def port(self) -> int:
        return int(self.uri.rpartition(":")[2])


@dataclass(frozen=True)
class Topology:
    """Servers and replication: suppliers replicate with each other; replicas get
    changes from all suppliers, or from the hub if there is one."""

    suppliers: int = 1
    replicas: int = 0
    has_hub: bool = False

    def roles(self) -> dict[str, Role]:
        """The servers' names, suppliers first, and their roles."""
        one = self.suppliers == 1
        numbers = range(1, self.suppliers + 1)
        roles: dict[str, Role] = {
            "supplier" if one else f"supplier{n}": "supplier" for n in numbers
        }
        if self.has_hub:
            roles["hub"] = "hub"
        for number in range(1, self.replicas + 1):
            roles[f"replica{number}"] = "replica"
        return roles

    def providers(self, name: str) -> list[str]:
        """The servers that a server gets changes from."""
        roles = self.roles()
        wanted = "hub" if self.has_hub and roles[name] == "replica" else "supplier"
        return [other for other in roles if roles[other] == wanted and other != name]


def is_plain(path: str) -> bool:
    """Whether every server's configuration reads a path as what it is."""
    return re.search(r'[\s"\\]', path) is None


def check_folder(base: Path, names: Iterable[str]) -> None:
    """ConfigError for a path that configurations or Unix sockets refuse."""
    path = str(base)
    if not is_plain(path):
        raise ConfigError(
            f"no server can be in {path!r}: their configurations take no spaces, "
            "quotation marks and backslashes in paths",
            hint="name another folder, or another TMPDIR",
        )
    longest = max(
        len(os.fsencode(base / _LAB_FOLDER / name / SOCKET_NAME)) for name in names
    )
    if longest > _SOCKET_PATH_MAX:
        raise ConfigError(
            f"no server can be in {path!r}: the path of its Unix socket would have "
            f"{longest} bytes, and {_SOCKET_PATH_MAX} at most are possible",
            hint="name a folder with a shorter path, or another TMPDIR",
        )


def reserve_ports(count: int) -> list[socket.socket]:
    """Return sockets bound to ports of 127.0.0.1, which keep the ports for servers.

    Only a socket with SO_REUSEADDR, as servers set it, can be bound to such a port, and
    only while no other socket listens there. The ports lie below those of outgoing
    connections, which could take a stopped server's port.
    """
    first_ephemeral = int(
        Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0]
    )
    candidates = range(10_240, max(first_ephemeral, 11_264))
    reserved: list[socket.socket] = []
    for port in random.sample(candidates, len(candidates)):
        probe = socket.socket()
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            probe.close()
        else:
            # after bind(), so that the port was free, and is not found free again
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            reserved.append(probe)
            if len(reserved) == count:
                return reserved
    for probe in reserved:
        probe.close()
    raise LabError(f"found only {len(reserved)} of {count} free TCP ports")
