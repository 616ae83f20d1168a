# SPDX-License-Identifier: Apache-2.0
"""How a stream's connections are made, kept, protected, and which identity they have.

Real credentials stand in a job file only as references, which each agent resolves on
its own host. The passwords of a test population, which the load binds with, are those
of operations/connection.py. SASL mechanisms (RFC 4422, RFC 4513 section 5.2) that are
not listed here are passed on to libsasl.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BeforeValidator, Field

from ldapslam.base.fault import Fault, expected
from ldapslam.base.secrets import SecretRef
from ldapslam.base.units import NS_PER_S
from ldapslam.jobs.fields.sections import (
    CountOrDurationField,
    FileName,
    Flag,
    HostFile,
    Kind,
    PositiveDuration,
    RateField,
    Section,
    Text,
    checked,
    matching,
)
from ldapslam.jobs.requests.dn import check_dn

#: Most connections of a stream, in total over all agents.
MAX_CONNECTIONS = 1_000_000


class Secret(Section):
    """A reference to a password: where the agents find it. Never the password."""

    exactly_one: ClassVar[tuple[str, ...]] = ("env", "file")

    env: Text | None = Field(default=None, min_length=1)
    """name of an environment variable of the agent"""
    file: HostFile | None = None
    """absolute path of a file on the agent's host; its first line end is not part of
    the password"""

    @property
    def ref(self) -> SecretRef:
        return SecretRef(env=self.env, file=self.file)


def _no_literal(value: Any) -> Any:
    if isinstance(value, (str, int, float)):
        # The value itself stays out of the message: it may be a real password.
        variable = re.fullmatch(r"\$\{?(\w+)\}?", str(value), re.ASCII)
        raise Fault(
            "expected a reference to the password, got a literal",
            f"write {{env: {variable[1] if variable else 'NAME'}}} or "
            "{file: /absolute/path}",
        )
    return value


Password = Annotated[Secret, BeforeValidator(_no_literal)]


class Sasl(Section):
    """A SASL bind (RFC 4513 section 5.2), by libsasl."""

    mechanism: Mechanism = Field(examples=["SCRAM-SHA-256"])
    """its registered name; libsasl's plug-ins on the agents and the server must have
    it"""
    authcid: Text | None = Field(default=None, min_length=1)
    """whose password or ticket it is"""
    password: Password | None = None
    """a reference to the password"""
    authzid: Annotated[Text, AfterValidator(check_authzid)] | None = None
    """the identity to act as, 'dn:…' or 'u:…'; without it, the one that is bound"""
    realm: Text | None = Field(default=None, min_length=1)
    """the mechanism's realm"""

    @checked
    def _properties(self) -> None:
        check_properties(self.mechanism, self.authcid, self.password, self.realm)


_Identity = Annotated[Text, Field(min_length=1), AfterValidator(check_dn), Kind("DN")]


class Bind(Section):
    """A simple bind as a DN, or a SASL bind. Without it, connections are anonymous."""

    exactly_one: ClassVar[tuple[str, ...]] = ("dn", "sasl")
    needs: ClassVar[Mapping[str, str]] = {"dn": "password"}

    dn: _Identity | None = Field(default=None, examples=["cn=admin,dc=example,dc=com"])
    """the identity of a simple bind; `password` goes with it"""
    password: Password | None = Field(default=None, examples=["{env: LDAP_PASSWORD}"])
    """a reference to its password"""
    sasl: Sasl | None = None
    """a SASL bind instead"""

    @checked
    def _password_goes_with_dn(self) -> None:
        if self.dn is None and self.sasl and self.password is not None:
            raise Fault(
                "the password of a SASL bind is one of the keys of `sasl`",
                "move `password` into `sasl`",
            )

    @property
    def identity(self) -> str:
        """The DN, or the SASL mechanism and its identities."""
        if self.sasl is None:
            return str(self.dn)
        parts = [f"SASL {self.sasl.mechanism}", self.sasl.authcid, self.sasl.authzid]
        return " ".join(filter(None, parts))

    @property
    def secret(self) -> SecretRef | None:
        """Of either kind of bind; some SASL mechanisms have none."""
        password = self.sasl.password if self.sasl else self.password
        return password.ref if password else None


_SCRAM = re.compile("SCRAM-SHA-[0-9]+(-PLUS)?", re.ASCII)

#: One message from the client and the outcome: a template can be the whole bind.
SINGLE_STEP = ("EXTERNAL", "PLAIN", "ANONYMOUS")
_WITH_PASSWORD = ("PLAIN", "CRAM-MD5", "DIGEST-MD5", "LOGIN")
#: The server, or the ticket cache, knows who it is.
_WITHOUT_PASSWORD = ("EXTERNAL", "GSSAPI", "GSS-SPNEGO", "ANONYMOUS")


Mechanism = Annotated[
    Text,
    matching(
        "[A-Z0-9_-]{1,20}",
        "the name of a SASL mechanism",
        "such as SCRAM-SHA-256, EXTERNAL or GSSAPI, in upper case",
    ),
    Kind("name"),
]


def check_authzid(text: str) -> str:
    """The text, if it is an authzId (RFC 4513 section 5.2.1.8)."""
    if not text.startswith(("dn:", "u:")):
        raise expected("'dn:' and a DN, or 'u:' and a user's name", text)
    return text


def check_properties(mechanism: str, authcid: Any, password: Any, realm: Any) -> None:
    """A Fault where the mechanism lacks what it needs, or has what it cannot use."""
    if mechanism in _WITH_PASSWORD or _SCRAM.fullmatch(mechanism):
        missing = [
            name
            for name, value in (("authcid", authcid), ("password", password))
            if value is None
        ]
        if missing:
            raise Fault(
                f"{mechanism} needs {' and '.join(missing)}",
                "authcid: whose password it is; password: the password",
            )
    if mechanism in _WITHOUT_PASSWORD and password is not None:
        raise Fault(f"{mechanism} has no password", "leave `password` out")
    if mechanism == "EXTERNAL" and (authcid is not None or realm is not None):
        raise Fault(
            "EXTERNAL has neither authcid nor realm",
            "the identity is that of the TLS certificate or of the Unix socket",
        )


class Tls(Section):
    """TLS to the targets. It is always on for ldaps:// URIs."""

    needs: ClassVar[Mapping[str, str]] = {
        "cert_file": "key_file",
        "key_file": "cert_file",
    }

    start_tls: Flag = False
    """StartTLS on ldap:// connections, before the bind"""
    ca_file: FileName | None = None
    """PEM file of the trusted authorities, relative to the job file; sent to the
    agents. Without it, the system's"""
    verify: Flag = True
    """check the server's certificate and host name"""
    cert_file: HostFile | None = None
    """PEM file of the client's certificate, an absolute path on each agent's host; for
    servers that ask for one, and for a bind by SASL EXTERNAL"""
    key_file: HostFile | None = None
    """PEM file of its private key, likewise; never sent anywhere"""


class Connection(Section):
    """How a stream's connections are made. A lost connection is always replaced.
    The times of connecting, TLS and bind are reported by themselves and are in no
    operation's time."""

    connect_timeout_ns: PositiveDuration = 10 * NS_PER_S
    """longest time to connect, start TLS and bind"""
    reconnect_every: CountOrDurationField | None = Field(
        default=None, examples=["1000"]
    )
    """replace a connection after that many requests, or when it is that old; not in
    the middle of a sequence"""
    reconnect_wait_ns: PositiveDuration | None = Field(default=None, examples=["1s"])
    """a client waits about so long after a failed attempt to connect, and twice as long
    after each further one, up to 32 times. Without it, one connection tries every 50 ms
    for all"""
    per_operation: Flag = False
    """a new connection for each request: connect, bind, request, unbind"""
    spacing: RateField | None = Field(default=None, examples=["100/s"])
    """set the run's connections up at this rate, one after the other, instead of all as
    soon as they can"""

    @property
    def reconnect_operations(self) -> int:
        """Requests of one connection; 0: no limit."""
        if self.per_operation:
            return 1
        return (self.reconnect_every.count or 0) if self.reconnect_every else 0

    @property
    def reconnect_ns(self) -> int:
        """Longest life of a connection; 0: no limit."""
        return (self.reconnect_every.duration_ns or 0) if self.reconnect_every else 0

    @property
    def spacing_ns(self) -> int:
        """Distance of set-ups, over all agents; 0: none."""
        return self.spacing.per_ns // self.spacing.events if self.spacing else 0
