# SPDX-License-Identifier: Apache-2.0
"""LDAP URIs of targets: scheme, host, port; the rest of RFC 4516 is not used."""

from __future__ import annotations

import re
from ipaddress import IPv6Address, ip_address
from urllib.parse import unquote

from ldapslam.base.fault import expected

DEFAULT_PORTS = {"ldap": 389, "ldaps": 636}

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.ASCII | re.DOTALL)
_HOST_PORT = re.compile(
    r"(\[[0-9A-Fa-f:.]+(?:%25[\w.-]+)?\]|[A-Za-z0-9_.-]+)(?::(\d{1,10}))?", re.ASCII
)
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_SOCKET_PATH = re.compile(r"(?:[A-Za-z0-9_.~-]|%[0-9A-Fa-f]{2})*", re.ASCII)


def check_uri(text: str) -> str:
    """The URI without a trailing slash; a Fault says which part is wrong."""
    what = "an LDAP URI such as 'ldap://ds1.example.com:389'"
    match = _URI.fullmatch(text)
    if match is None:
        hint = "schemes: ldap, ldaps, ldapi"
        if _HOST_PORT.fullmatch(text):
            hint = f"write 'ldap://{text}'"
        raise expected(what, text, hint)
    scheme, rest = match[1], match[2].removesuffix("/")
    if scheme not in ("ldap", "ldaps", "ldapi"):
        raise expected(what, text, "schemes: ldap, ldaps, ldapi")
    if scheme == "ldapi":
        if not _SOCKET_PATH.fullmatch(rest):
            raise expected(
                "an ldapi URI", text, f"write 'ldapi://{rest.replace('/', '%2F')}'"
            )
        return f"ldapi://{rest}" if rest else "ldapi:///"
    host_port = _HOST_PORT.fullmatch(rest)
    if host_port is None:
        hint = "host and port, such as ldap://ds1.example.com:389 or ldap://[::1]:389"
        if "://" in rest:
            hint = "give each URI as an argument, or an item of the list, by itself"
        elif "/" in rest or "?" in rest:
            hint = "give host and port only; the base DN belongs to the operation"
        raise expected(what, text, hint)
    if host_port[2] and not 1 <= int(host_port[2]) <= 65535:
        raise expected("a port from 1 to 65535", text, "such as ldap://host:389")
    return f"{scheme}://{rest}"


def server_of(uri: str) -> str:
    """The same text for all URIs of one server by their looks, as names are not looked
    up; both default ports count as one server's."""
    scheme, _, rest = uri.partition("://")
    if scheme == "ldapi":
        return f"ldapi:{socket_path(uri)}"
    found = _HOST_PORT.fullmatch(rest.removesuffix("/"))
    if found is None:
        return uri
    host = host_of(uri)
    port = int(found[2] or DEFAULT_PORTS.get(scheme, 0))
    return host if port in DEFAULT_PORTS.values() else f"{host} port {port}"


def host_of(uri: str) -> str:
    """Return the same text for all URIs with one host by their looks; a Unix socket is
    on localhost. A text that is no URI is returned as it is."""
    scheme, _, rest = uri.partition("://")
    if scheme == "ldapi":
        return "localhost"
    found = _HOST_PORT.fullmatch(rest.removesuffix("/"))
    if found is None:
        return uri
    return canonical_host(unquote(found[1]).strip("[]").lower().removesuffix("."))


def host_and_port(uri: str) -> tuple[str, int]:
    """Host and port of an ldap:// or ldaps:// URI that check_uri accepted."""
    scheme, _, rest = uri.partition("://")
    host, colon, port = rest.rpartition(":")
    if not colon or port.endswith("]"):
        host, port = rest, ""
    name = unquote(host.strip("[]")) or "localhost"
    return name, int(port) if port else DEFAULT_PORTS[scheme]


def socket_path(uri: str) -> str:
    """Of an ldapi:// URI; empty: libldap's built-in one."""
    path = unquote(uri.removeprefix("ldapi://"))
    return "" if path.strip("/") == "" else path


def canonical_host(host: str) -> str:
    """One text for each way to write an address, without brackets, and for loopback."""
    try:
        address = ip_address(host)
    except ValueError:
        pass
    else:
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        host = str(address)
    return "localhost" if host in _LOOPBACK else host
