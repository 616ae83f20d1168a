# SPDX-License-Identifier: Apache-2.0
"""Resolves each server's name once and checks the addresses found. Blocks.

A run connects to these addresses, whatever the name resolves to later; TLS and SASL
still know a server by its name.

python-ldap cannot do ldaps:// over a given socket, and `client: process` runs another
program: both resolve the name themselves, and the certificate says who is there. Where
it is not verified and only the addresses are allowed, the target is refused.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from ldapslam.agent.admission.limits import AgentLimits
from ldapslam.agent.admission.target_rules import plain_address
from ldapslam.base.errors import TargetNotAllowed, TargetUnreachable
from ldapslam.base.uri import host_and_port, socket_path
from ldapslam.jobs.plan import AgentPlan, StreamPlan
from ldapslam.jobs.types.built_in import Burst

#: Numeric addresses of a host.
Resolver = Callable[[str, int], list[str]]


@dataclass(frozen=True, slots=True)
class Location:
    """Where a server is."""

    uri: str
    #: Numeric; empty for a Unix socket, and for an allowed name that does not resolve
    #: yet.
    addresses: tuple[str, ...]
    port: int
    #: Whether the name is allowed, or is an address itself.
    is_name_safe: bool

    @property
    def text(self) -> str:
        """For the engine (transport.h)."""
        return " ".join(f"{address}/{self.port}" for address in self.addresses)


def resolve(host: str, port: int) -> list[str]:
    """Numeric addresses of the host, each once; OSError when there are none."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(info[4][0]) for info in found))


def reach(uri: str, resolver: Resolver = resolve) -> Location:
    """A URI's location; TargetUnreachable when its name does not resolve."""
    if uri.startswith("ldapi:"):
        return Location(uri, (), 0, is_name_safe=True)
    host, port = host_and_port(uri)
    try:
        addresses = resolver(host, port)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise TargetUnreachable(
            uri,
            f"name {host!r} does not resolve: {reason}",
            hint="check the host name in `targets`, and DNS or /etc/hosts on the "
            "agent's host",
        ) from error
    return Location(uri, tuple(addresses), port, is_name_safe=_is_numeric(host))


def _is_numeric(host: str) -> bool:
    try:
        plain_address(host)
    except ValueError:
        return False
    return True


def with_locations(
    plan: AgentPlan, limits: AgentLimits, agent: str, resolver: Resolver = resolve
) -> tuple[AgentPlan, dict[str, Location]]:
    """The plan with the addresses of all its servers, and these by URI.
    TargetNotAllowed, or TargetUnreachable when a server that must be there does not
    resolve."""
    locations: dict[str, Location] = {}
    streams: list[StreamPlan] = []
    # servers that must be there come first
    for stream in sorted(plan.streams, key=_may_be_absent):
        for uri in stream.uris:
            if uri not in locations:
                locations[uri] = allowed(
                    *(uri, limits, agent, resolver),
                    may_be_absent=_may_be_absent(stream),
                )
            _check_name(stream, locations[uri], agent)
    for stream in plan.streams:
        texts = {uri: locations[uri].text for uri in stream.uris}
        connection = replace(stream.connection, addresses=texts)
        streams.append(replace(stream, connection=connection))
    return replace(plan, streams=tuple(streams)), locations


def _may_be_absent(stream: StreamPlan) -> bool:
    return stream.python is not None and not stream.python.needs_target


def allowed(
    uri: str,
    limits: AgentLimits,
    agent: str,
    resolver: Resolver,
    *,
    may_be_absent: bool = False,
) -> Location:
    """The location of the server, with its allowed addresses; TargetNotAllowed, or
    TargetUnreachable when its name does not resolve. It has no address if it may be
    absent and its name is allowed."""
    rules = limits.targets
    if uri.startswith("ldapi:"):
        path = socket_path(uri)
        if any(rule.allows_socket(path) for rule in rules):
            return reach(uri)
        raise _refusal(uri, agent, limits, f"ldapi:{path}" if path else "ldapi", ())
    host, port = host_and_port(uri)
    is_name_allowed = any(rule.allows_name(host, port) for rule in rules)
    try:
        location = reach(uri, resolver)
    except TargetUnreachable:
        if not (is_name_allowed and may_be_absent):
            raise
        location = Location(uri, (), port, is_name_safe=True)
    if is_name_allowed:
        return replace(location, is_name_safe=True)
    addresses = tuple(
        address
        for address in location.addresses
        if any(rule.allows_address(address, port) for rule in rules)
    )
    if not addresses:
        raise _refusal(uri, agent, limits, f"{host}:{port}", location.addresses)
    return replace(location, addresses=addresses)


def _refusal(
    uri: str, agent: str, limits: AgentLimits, remedy: str, addresses: Iterable[str]
) -> TargetNotAllowed:
    shown = ", ".join(addresses)
    where = f"it is at {shown}; " if shown else ""
    rules = " ".join(rule.text for rule in limits.targets)
    return TargetNotAllowed(
        uri,
        agent,
        f"{where}allowed are {rules}",
        hint=f"if the agent's operator agrees: `--allow-target {remedy}` (in its "
        "settings `allow-target`), in addition to the present rules",
    )


def _check_name(stream: StreamPlan, location: Location, agent: str) -> None:
    """TargetNotAllowed when a name that is resolved again has nobody to vouch for
    it."""
    if (
        location.is_name_safe
        or not goes_by_name(stream, location.uri)
        or stream.connection.tls.verify
    ):
        return
    host, port = host_and_port(location.uri)
    raise TargetNotAllowed(
        location.uri,
        agent,
        "its addresses are allowed, its name is not; with `tls: {verify: false}` "
        "nothing says that the name still stands for them when it is connected to",
        hint=f"allow the name (`--allow-target {host}:{port}`), verify the "
        "certificate, or write the address in `targets`",
    )


def goes_by_name(stream: StreamPlan, uri: str) -> bool:
    """Whether python-ldap or a program resolves the name of this server again."""
    if uri.startswith("ldaps:"):
        return True  # the questions before the run, at least
    is_program = (
        stream.python is not None and stream.python.class_path == Burst.python_class()
    )
    return is_program and stream.connection.tls.start_tls
