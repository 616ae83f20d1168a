# SPDX-License-Identifier: Apache-2.0
"""How to connect to a server: TLS, identity, limits.

One structure for the plan, for python-ldap, and for the engine, which reads it by its
names (agent/csrc/python/settings.c).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ldapslam.base.secrets import SecretRef
from ldapslam.base.units import NS_PER_S
from ldapslam.jobs.fields.connection import Bind


@dataclass(frozen=True)
class TlsSettings:
    """Paths are on this host."""

    start_tls: bool = False
    #: None: the system's authorities.
    ca_file: str | None = None
    verify: bool = True
    cert_file: str | None = None
    key_file: str | None = None


@dataclass(frozen=True)
class BindSettings:
    """Without dn and mechanism: anonymous."""

    dn: str | None = None
    #: Of the simple bind or of the SASL mechanism; plans have a reference.
    password: SecretRef | bytes | None = field(default=None, repr=False)
    #: None: a simple bind.
    mechanism: str | None = None
    authcid: str | None = None
    authzid: str | None = None
    realm: str | None = None

    @classmethod
    def of(cls, bind: Bind | None) -> BindSettings:
        if bind is None:
            return cls()
        if bind.sasl is None:
            return cls(dn=bind.dn, password=bind.secret)
        return cls(**{**dict(bind.sasl), "password": bind.secret})

    @property
    def secret(self) -> bytes:
        """The password itself, empty without one; ConfigError."""
        if isinstance(self.password, SecretRef):
            return self.password.resolve()
        return self.password or b""


@dataclass(frozen=True)
class ConnectionSettings:
    """Once `resolved`, never to be written or sent: it has the password."""

    tls: TlsSettings = TlsSettings()
    bind: BindSettings = BindSettings()
    connect_timeout_ns: int = 10 * NS_PER_S
    #: A connection is replaced after that many requests, or at that age; 0: never.
    reconnect_operations: int = 0
    reconnect_ns: int = 0
    #: A client waits so long, and longer, after failed attempts; 0: one tries for all.
    reconnect_wait_ns: int = 0
    #: Connection n of the run is set up not before n times this.
    connect_spacing_ns: int = 0
    #: URI -> 'ADDRESS/PORT …', where the agent resolved it; else the name is.
    addresses: Mapping[str, str] = field(default_factory=dict, hash=False)

    def resolved(self) -> ConnectionSettings:
        """With the password; ConfigError."""
        return replace(self, bind=replace(self.bind, password=self.bind.secret or None))

    def bound_as(self, bind: Bind) -> ConnectionSettings:
        """With another identity, its password resolved; ConfigError."""
        return replace(self, bind=BindSettings.of(bind)).resolved()
