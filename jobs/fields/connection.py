# SPDX-License-Identifier: Apache-2.0
"""How a stream's connections are made, kept and protected."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from ldapslam.base.fault import Fault, expected
from ldapslam.base.units import NS_PER_S
from ldapslam.jobs.fields.sections import (
    CountOrDurationField,
    FileName,
    Flag,
    Kind,
    PositiveDuration,
    RateField,
    Section,
    Text,
    checked,
)


def absolute(path: str) -> str:
    if not Path(path).is_absolute():
        raise expected("an absolute path", path, "each agent reads it on its own host")
    return path


HostFile = Annotated[Text, AfterValidator(absolute), Kind("path")]


class Tls(Section):
    """TLS to the targets. It is always on for ldaps:// URIs."""

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

    @checked
    def _certificate_and_key(self) -> None:
        if (self.cert_file is None) != (self.key_file is None):
            missing = "key_file" if self.cert_file else "cert_file"
            raise Fault(
                f"the key {missing!r} is missing",
                "a certificate needs its private key, and the other way round",
            )


class Connection(Section):
    """How a stream's connections are made. A connection that is lost is always made
    anew. The times of connecting, TLS and bind are figures of their own and in no
    operation's time."""

    connect_timeout_ns: PositiveDuration = 10 * NS_PER_S
    """longest time to connect, start TLS and bind"""
    reconnect_every: CountOrDurationField | None = Field(
        default=None, examples=["1000"]
    )
    """make a connection anew after that many requests, or when it is that old; not in
    the middle of a sequence"""
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
