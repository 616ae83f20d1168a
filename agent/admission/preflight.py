# SPDX-License-Identifier: Apache-2.0
"""Checks with python-ldap whether a target is usable, before any load. Blocks.

Connects, starts TLS and binds as the load will, then reads the root DSE and slapd's
monitor. The operations that this costs the server are counted, for the reconciliation
of request counts. Used before each run and by `check`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ldapslam.agent.admission.addresses import Location, reach
from ldapslam.base.errors import (
    ConfigError,
    PopulationMismatch,
    TargetError,
    TlsHandshakeFailed,
)
from ldapslam.base.uri import host_and_port, socket_path
from ldapslam.directory.access import not_connected
from ldapslam.directory.control_connection import (
    ControlConnection,
    Entry,
    noted_in,
    text_of,
    texts_of,
)
from ldapslam.directory.fingerprint import differences
from ldapslam.directory.tls_diagnosis import explain_tls_failure
from ldapslam.directory.tree import DirectoryTree
from ldapslam.jobs.connection_settings import BindSettings, ConnectionSettings
from ldapslam.jobs.fields.population import PopulationRecord
from ldapslam.jobs.plan import AgentPlan, StreamPlan

#: Attribute of the root DSE -> fact; a fact with a prefix of _LISTS is a list.
_ROOT_DSE = {
    "vendorName": "vendor_name",
    "vendorVersion": "vendor_version",
    "namingContexts": "naming_contexts",
    "supportedControl": "supported_control",
    "supportedExtension": "supported_extension",
    "supportedFeatures": "supported_features",
    "supportedLDAPVersion": "supported_ldap_version",
    "supportedSASLMechanisms": "supported_sasl_mechanisms",
    "monitorContext": "monitor_context",
}
_LISTS = ("naming", "supported")

_ANONYMOUS = ConnectionSettings()


@dataclass(frozen=True, slots=True)
class Probe:
    """One server as the load will use it; anonymously where that binds by SASL."""

    uri: str
    connection: ConnectionSettings = _ANONYMOUS
    population: PopulationRecord | None = None


def probes(plan: AgentPlan) -> list[Probe]:
    """Every distinct way in which streams use a server before the run, once. The
    first probe of a server that binds with a password, else its first probe, looks for
    the population."""
    found = dict.fromkeys(
        _probe(stream, uri)
        for stream in plan.streams
        if stream.python is None or stream.python.needs_target
        for uri in stream.uris
    )
    looking: dict[str, Probe] = {}
    for probe in sorted(found, key=lambda one: one.connection.bind.password is None):
        looking.setdefault(probe.uri, probe)
    if unseen := set(plan.population_uris) - looking.keys():
        raise ConfigError(
            f"the population of {min(unseen)!r} cannot be looked for: no stream of the "
            "job connects to it before the run",
            hint="name the roles that do: `population: {targets: […]}`",
        )
    return [
        replace(probe, population=plan.population)
        if probe.uri in plan.population_uris and looking[probe.uri] is probe
        else probe
        for probe in found
    ]


def preflight(probe: Probe, location: Location | None = None) -> dict[str, Any]:
    """Facts of a usable target; TargetError says why it is not usable."""
    uri, location = probe.uri, location or reach(probe.uri)
    settings = replace(probe.connection.resolved(), addresses={uri: location.text})
    operations: Counter[str] = Counter()
    addresses = _addresses(location, settings)
    with _connected(location, settings, operations) as server:
        facts = _identify(server)
        if probe.population is not None:
            facts |= _look_for(probe.population, server)
    return {
        "uri": uri,
        "addresses": addresses,
        "bind_dn": settings.bind.dn,
        "tls": settings.tls.start_tls or uri.startswith("ldaps:"),
        **facts,
        "control_operations": dict(operations),
    }


def control_operations(facts: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """URI -> operation -> number that the preflight of these facts cost that server."""
    totals: dict[str, Counter[str]] = {}
    for target in facts:
        totals.setdefault(target["uri"], Counter()).update(target["control_operations"])
    return {uri: dict(counts) for uri, counts in totals.items()}


def _probe(stream: StreamPlan, uri: str) -> Probe:
    given = stream.connection
    # a SASL password must not be sent by a simple bind
    bind = given.bind if given.bind.mechanism is None else BindSettings()
    tls = replace(given.tls, cert_file=None, key_file=None)
    return Probe(uri, ConnectionSettings(tls, bind, given.connect_timeout_ns))


def _addresses(location: Location, settings: ConnectionSettings) -> list[str]:
    """The server's addresses, or its socket. Connects first to a socket, which libldap
    connects to itself: its errors do not tell why it could not."""
    uri, timeout_s = location.uri, settings.connect_timeout_ns / 1e9
    if not uri.startswith("ldapi:"):
        return list(location.addresses)
    path = socket_path(uri)
    if path == "":
        return []  # libldap's built-in path
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            raise OSError(errno.ENOTSOCK, os.strerror(errno.ENOTSOCK))
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(timeout_s)
            connection.connect(path)
    except OSError as error:
        raise not_connected(uri, repr(path), error, timeout_s) from error
    return [path]


def _connected(
    location: Location, settings: ConnectionSettings, operations: Counter[str]
) -> ControlConnection:
    try:
        return ControlConnection.open(location.uri, settings, operations)
    except TlsHandshakeFailed as failure:
        host, port = host_and_port(location.uri)
        detail, hint = explain_tls_failure(
            host,
            port,
            tls=settings.tls,
            timeout_s=settings.connect_timeout_ns / 1e9,
            address=next(iter(location.addresses), None),
        )
        detail = detail or failure.detail
        raise TlsHandshakeFailed(location.uri, detail, hint=hint) from failure


def _identify(server: ControlConnection) -> dict[str, Any]:
    """Who the server says it is; what it does not tell is missing."""
    facts: dict[str, Any] = {}
    root_dse = _read(server, "", ("objectClass", *_ROOT_DSE))
    for attribute, fact in _ROOT_DSE.items():
        if values := texts_of(root_dse, attribute.lower()):
            facts[fact] = values if fact.startswith(_LISTS) else values[0]
    if monitor := facts.get("monitor_context"):
        entry = _read(server, monitor, ("monitoredInfo",))
        if version := text_of(entry, "monitoredinfo"):
            facts["monitor_version"] = version
    is_slapd = "OpenLDAProotDSE" in texts_of(root_dse, "objectclass")
    if is_slapd and "monitor_version" not in facts:
        facts.setdefault("vendor_name", "OpenLDAP slapd")
    return facts


def _read(
    server: ControlConnection, dn: str, attributes: Sequence[str]
) -> Entry | None:
    """One entry; None where it cannot be read: the load may still be possible."""
    with contextlib.suppress(TargetError):
        return server.read(dn, attributes)
    return None


def _look_for(
    population: PopulationRecord, server: ControlConnection
) -> dict[str, Any]:
    note_request = noted_in(server.control)
    tree = DirectoryTree(
        server.ldap, server.uri, population.base, note_request=note_request
    )
    wrong = list(differences(population, tree))
    sampled = len(population.sample)
    if wrong:
        dn = wrong[0][0]
        missing = sum(not there for _, there in wrong)
        raise PopulationMismatch(
            server.uri,
            f"of {sampled:,} entries that were looked for, {missing:,} are missing "
            f"and {len(wrong) - missing:,} are others, such as {dn!r}",
        )
    return {
        "population": {
            "fingerprint": population.fingerprint,
            "entries": population.entries,
            "base": population.base,
            "sampled": sampled,
        }
    }
