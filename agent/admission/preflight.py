# SPDX-License-Identifier: Apache-2.0
"""Checks with python-ldap whether a target is usable, before any load. Blocks.

Connects, starts TLS and binds as the load will, then reads the root DSE and slapd's
monitor. The operations that this costs the server are counted, for the reconciliation
of request counts. Used before each run and by `check`.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import ldap

from ldapslam.agent.admission.addresses import Location, host_and_port, reach
from ldapslam.base.errors import (
    BindRejected,
    ConfigError,
    PopulationMismatch,
    TargetUnreachable,
    TlsHandshakeFailed,
)
from ldapslam.base.uri import socket_path
from ldapslam.directory.access import connect
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
_BIND_HINTS = {
    ldap.INVALID_CREDENTIALS: "check `bind.dn` and the password that `bind.password` "
    "names; servers answer so for an unknown DN too",
    ldap.CONFIDENTIALITY_REQUIRED: "the server wants TLS before a bind: use ldaps:// "
    "or `tls: {start_tls: true}`",
    ldap.STRONG_AUTH_REQUIRED: "the server wants a stronger bind, or TLS before it: "
    "try `tls: {start_tls: true}`",
    ldap.INAPPROPRIATE_AUTH: "the server refuses this kind of bind: without `bind` in "
    "the job it is anonymous",
    ldap.UNWILLING_TO_PERFORM: "the server does not allow this bind; is anonymous "
    "access disabled, or the account locked?",
    ldap.NO_SUCH_OBJECT: "the entry of `bind.dn` does not exist",
    ldap.INVALID_DN_SYNTAX: "`bind.dn` is not a DN to this server",
}


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
    attempt = _Attempt(probe, location or reach(probe.uri))
    addresses = attempt.reach()
    connection = attempt.connect()
    try:
        server = attempt.identify(connection)
        if probe.population is not None:
            server |= attempt.look_for(probe.population, connection)
    finally:
        connection.unbind_s()
        attempt.operations["unbind"] += 1
    return {
        "uri": probe.uri,
        "addresses": addresses,
        "bind_dn": probe.connection.bind.dn,
        "tls": probe.connection.tls.start_tls or probe.uri.startswith("ldaps:"),
        **server,
        "control_operations": dict(attempt.operations),
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


class _Attempt:
    def __init__(self, probe: Probe, location: Location) -> None:
        self.probe = probe
        self.location = location
        self.settings = probe.connection.resolved()
        self.timeout_s = probe.connection.connect_timeout_ns / 1e9
        #: Requests so far, counted when sent.
        self.operations: Counter[str] = Counter()

    def reach(self) -> list[str]:
        """Connect by hand: libldap's errors do not tell why it could not."""
        if self.probe.uri.startswith("ldapi:"):
            return self._reach_socket(socket_path(self.probe.uri))
        addresses = list(self.location.addresses)
        self._connect_any(addresses, self.location.port)
        return addresses

    def _connect_any(self, addresses: list[str], port: int) -> None:
        for address in addresses:
            try:
                socket.create_connection((address, port), self.timeout_s).close()
            except OSError as error:
                last, failed_at = error, address
            else:
                return
        raise TargetUnreachable(
            self.probe.uri,
            f"connect to {failed_at} port {port}: {self._reason(last)}",
            hint=_connect_hint(last),
        ) from last

    def _reach_socket(self, path: str) -> list[str]:
        if path == "":
            return []  # libldap's built-in path
        try:
            if not stat.S_ISSOCK(os.stat(path).st_mode):
                raise OSError(errno.ENOTSOCK, os.strerror(errno.ENOTSOCK))
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(self.timeout_s)
                connection.connect(path)
        except OSError as error:
            raise TargetUnreachable(
                self.probe.uri,
                f"connect to {path!r}: {self._reason(error)}",
                hint=_connect_hint(error),
            ) from error
        return [path]

    def _reason(self, error: OSError) -> str:
        if isinstance(error, TimeoutError):
            return f"no answer within {self.timeout_s:g} s"
        return (error.strerror or str(error)).lower()

    def connect(self) -> Any:
        uri = self.probe.uri
        settings = replace(self.settings, addresses={uri: self.location.text})
        try:
            return connect(uri, settings, note_request=self._note)
        except (BindRejected, TargetUnreachable, TlsHandshakeFailed) as failure:
            error = failure.__cause__
            if isinstance(failure, TlsHandshakeFailed) and error is not None:
                raise self._tls_failed(error) from error
            if isinstance(error, ldap.LDAPError):
                raise self._bind_failed(error) from error
            raise

    def _bind_failed(
        self, error: ldap.LDAPError
    ) -> BindRejected | TargetUnreachable | TlsHandshakeFailed:
        uri = self.probe.uri
        code, text = _result(error)
        if code > 0:
            hint = _BIND_HINTS.get(type(error))
            return BindRejected(uri, self.settings.bind.dn, code, text, hint=hint)
        if uri.startswith("ldaps:"):
            return self._tls_failed(error)
        if isinstance(error, ldap.TIMEOUT):
            text = f"the bind was not answered within {self.timeout_s:g} s"
        tls_uri = uri.replace("ldap://", "ldaps://")
        return TargetUnreachable(
            uri,
            text or "the server closed the connection during the bind",
            hint="is it an LDAP server that listens there? If the port is for TLS, "
            f"write {tls_uri}",
        )

    def _tls_failed(self, error: BaseException) -> TlsHandshakeFailed:
        probe = self.probe
        code, text = _result(error)
        if code > 0:
            return TlsHandshakeFailed(
                probe.uri,
                f"StartTLS was refused with result code {code}: {text}",
                hint="the server has no TLS set up, or offers it as ldaps:// only",
            )
        host, port = host_and_port(probe.uri)
        detail, hint = explain_tls_failure(
            host,
            port,
            tls=self.settings.tls,
            timeout_s=self.timeout_s,
            address=next(iter(self.location.addresses), None),
        )
        return TlsHandshakeFailed(probe.uri, detail or text, hint=hint)

    def identify(self, connection: Any) -> dict[str, Any]:
        """Who the server says it is; what it does not tell is missing."""
        facts: dict[str, Any] = {}
        entry = self._read(connection, "", ("objectClass", *_ROOT_DSE))
        folded = {name.lower(): values for name, values in entry.items()}
        for attribute, fact in _ROOT_DSE.items():
            if values := folded.get(attribute.lower()):
                facts[fact] = values if fact.startswith(_LISTS) else values[0]
        if monitor := facts.get("monitor_context"):
            entry = self._read(connection, monitor, ("monitoredInfo",))
            for values in entry.values():
                facts["monitor_version"] = values[0]
        is_slapd = "OpenLDAProotDSE" in folded.get("objectclass", ())
        if is_slapd and "monitor_version" not in facts:
            facts.setdefault("vendor_name", "OpenLDAP slapd")
        return facts

    def look_for(self, population: PopulationRecord, connection: Any) -> dict[str, Any]:
        tree = DirectoryTree(
            connection, self.probe.uri, population.base, note_request=self._note
        )
        wrong = list(differences(population, tree))
        sampled = len(population.sample)
        if wrong:
            dn = wrong[0][0]
            missing = sum(not there for _, there in wrong)
            raise PopulationMismatch(
                self.probe.uri,
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

    def _note(self, kind: str) -> None:
        self.operations[kind] += 1

    def _read(
        self, connection: Any, dn: str, attributes: tuple[str, ...]
    ) -> dict[str, list[str]]:
        self.operations["search"] += 1
        try:
            found = connection.search_ext_s(
                dn, ldap.SCOPE_BASE, "(objectClass=*)", attributes
            )
        except ldap.LDAPError:
            return {}  # not readable for this identity: the load may still be
        entry = found[0][1] if found else {}
        return {
            name: [value.decode("utf-8", "replace") for value in values]
            for name, values in entry.items()
        }


def _connect_hint(error: OSError) -> str:
    hints = {
        errno.ECONNREFUSED: "is the directory running, and does it listen on the port "
        "in `targets`?",
        errno.ENOENT: "no such socket: is slapd running with this ldapi:// URI in -h?",
        errno.EACCES: "the agent's user may not use this socket",
        errno.ENOTSOCK: "the path is not a socket; write / as %2F in an ldapi:// URI",
        errno.EHOSTUNREACH: "no route from the agent's host",
        errno.ENETUNREACH: "no route from the agent's host",
    }
    if isinstance(error, TimeoutError):
        return "is a firewall between the agent's host and the directory?"
    return hints.get(error.errno or 0, "is the host and port in `targets` right?")


def _result(error: BaseException) -> tuple[int, str]:
    """Result code (0: none, libldap's own failure) and the text that came with it."""
    details = error.args[0] if error.args and isinstance(error.args[0], dict) else {}
    code = details.get("result", 0)
    text = details.get("info") or (details.get("desc", "") if code <= 0 else "")
    return max(0, code), str(text)
