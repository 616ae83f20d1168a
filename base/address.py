# SPDX-License-Identifier: Apache-2.0
"""Addresses of a coordinator: HOST:PORT, [IPv6]:PORT, unix:/PATH.

Whoever reaches a port without mutual TLS can start load: plain text needs a local
address, unless the operator allows it.
"""

from __future__ import annotations

import ipaddress

from ldapslam.base.errors import ConfigError

DEFAULT_PORT = 7400

#: sun_path of sockaddr_un is 108 bytes, the last of them zero.
_MAX_SOCKET_PATH_BYTES = 107


def grpc_target(address: str) -> str:
    """The address in gRPC's notation; ConfigError when it is none."""
    if is_unix(address):
        path = address.removeprefix("unix:")
        if not path.startswith("/"):
            raise ConfigError(
                f"address {address!r}: expected an absolute path",
                hint="write unix:/PATH",
            )
        if len(path.encode()) > _MAX_SOCKET_PATH_BYTES:
            raise ConfigError(
                f"address {address!r}: the path has {len(path.encode())} bytes, a "
                f"socket's may have {_MAX_SOCKET_PATH_BYTES}",
                hint="use a shorter path, such as one below /tmp",
            )
        return address
    host, port = split_host_port(address)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split_host_port(address: str) -> tuple[str, int]:
    """Host without brackets, and port; the default port may be left out."""
    if "://" in address:
        bare = address.partition("://")[2].rstrip("/")
        raise ConfigError(
            f"address {address!r}: expected HOST:PORT or unix:/PATH",
            hint=f"write {bare}: it is no URL",
        )
    host, colon, port = address.rpartition(":")
    if not colon or port.endswith("]") or (":" in host and not host.endswith("]")):
        host, port = address, str(DEFAULT_PORT)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ConfigError(
            f"address {address!r}: expected HOST:PORT or unix:/PATH",
            hint=f"for example 127.0.0.1:{DEFAULT_PORT}",
        )
    return host, int(port)


def is_unix(address: str) -> bool:
    """True: a Unix socket, which only its owner can open."""
    return address.startswith("unix:")


def is_local(address: str) -> bool:
    """True: nobody but this host's users can reach it."""
    if is_unix(address):
        return True
    host, _ = split_host_port(address)
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_plaintext(address: str, *, insecure: bool) -> None:
    """Refuse an address that others can reach, unless that is wanted."""
    grpc_target(address)
    if not insecure and not is_local(address):
        raise ConfigError(
            f"address {address!r} is not a loopback address or a Unix socket, and the "
            "connection would be neither encrypted nor authenticated",
            hint="make certificates with `ldapslam fleet pki`, or give --insecure on a "
            "network that you trust",
        )
