# SPDX-License-Identifier: Apache-2.0
"""Rules for the servers that an agent's operator allows to be loaded. Pure.

    loopback              127.0.0.0/8 and ::1
    10.1.0.0/16           addresses; also 10.1.2.3, 2001:db8::/32
    10.1.0.0/16:389       …, this port alone; also [2001:db8::/32]:636
    ds1.example.com       the server of this name, whatever its address; also with :PORT
    ldapi                 any Unix socket of this host
    ldapi:/run/slapd/ldapi  this socket
    any                   every server

Without a rule, an agent loads only its own host: `loopback` and `ldapi`. Addresses are
compared, not the texts that they were written as: 127.1, 0x7f000001 and a name that
resolves to 127.0.0.1 are one server.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass

from ldapslam.base.errors import ConfigError

_Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_ANY, _LOOPBACK, _SOCKETS = "any", "loopback", "ldapi"
_LOOPBACK_NETWORKS: tuple[_Network, ...] = (
    ipaddress.IPv4Network("127.0.0.0/8"),
    ipaddress.IPv6Network("::1/128"),
)
_BRACKETED = re.compile(r"\[([^\]]+)\](?::(\d{1,5}))?", re.ASCII)
_PORT = re.compile(r"([^:]+):(\d{1,5})", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?", re.ASCII)
_EXPECTED = (
    "write an address or network such as 10.1.0.0/16, a host name, either with :PORT "
    "where one port alone is meant; ldapi or ldapi:PATH for Unix sockets; loopback; any"
)


@dataclass(frozen=True, slots=True)
class TargetRule:
    """One rule; of host, networks, socket and is_any exactly one says which servers."""

    text: str
    host: str | None = None
    networks: tuple[_Network, ...] = ()
    #: Path of a Unix socket; empty: any.
    socket: str | None = None
    is_any: bool = False
    #: None: every port.
    port: int | None = None

    def allows_name(self, host: str, port: int) -> bool:
        """Whether the name is allowed as such, whatever it resolves to."""
        if self.port not in (None, port):
            return False
        return self.is_any or (self.host is not None and self.host == plain_name(host))

    def allows_address(self, address: str, port: int) -> bool:
        if self.is_any:
            return True
        if self.port not in (None, port):
            return False
        own = plain_address(address)
        return any(own in network for network in self.networks)

    def allows_socket(self, path: str) -> bool:
        return self.is_any or (self.socket is not None and self.socket in ("", path))


def plain_name(host: str) -> str:
    return host.lower().removesuffix(".")


def plain_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """An address without its zone; an IPv4-mapped IPv6 address as the IPv4 one."""
    address = ipaddress.ip_address(text.partition("%")[0])
    mapped = address.ipv4_mapped if address.version == 6 else None
    return mapped or address


def parse_rule(text: str) -> TargetRule:
    if text == _ANY:
        return TargetRule(text, is_any=True)
    if text == _LOOPBACK:
        return TargetRule(text, networks=_LOOPBACK_NETWORKS)
    if text == _SOCKETS:
        return TargetRule(text, socket="")
    if text.startswith("ldapi:"):
        path = text.removeprefix("ldapi:")
        if not path.startswith("/"):
            raise _fault(text, "an absolute path belongs behind ldapi:")
        return TargetRule(text, socket=path)
    host, port = _split_port(text)
    try:
        return TargetRule(text, networks=(ipaddress.ip_network(host),), port=port)
    except ValueError as error:
        if "/" in host or ":" in host or re.fullmatch(r"[0-9.]+", host):
            raise _fault(text, str(error)) from None
    if not _HOST.fullmatch(host):
        raise _fault(text, f"{host!r} is no host name")
    return TargetRule(text, host=plain_name(host), port=port)


def _split_port(text: str) -> tuple[str, int | None]:
    match = _BRACKETED.fullmatch(text) or _PORT.fullmatch(text)
    if match is None:
        return text, None
    if match[2] is None:
        return match[1], None
    port = int(match[2])
    if not 1 <= port <= 65535:
        raise _fault(text, f"there is no port {port}")
    return match[1], port


def _fault(text: str, reason: str) -> ConfigError:
    return ConfigError(f"allow-target {text!r}: {reason}", hint=_EXPECTED)


def parse_rules(texts: Iterable[str]) -> tuple[TargetRule, ...]:
    """All rules; without any, those of this host alone."""
    return tuple(map(parse_rule, texts)) or DEFAULT_RULES


DEFAULT_RULES = (parse_rule(_LOOPBACK), parse_rule(_SOCKETS))
