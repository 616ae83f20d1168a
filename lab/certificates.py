# SPDX-License-Identifier: Apache-2.0
"""A certificate authority of a lab's own, and the server certificates it signs.

A certificate is for 127.0.0.1, ::1 and localhost and lives as long as it is told, which
may be in the past, to test expired certificates.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.x509.oid import ExtendedKeyUsageOID

from ldapslam.base.files import private
from ldapslam.base.time_zone import utc_now
from ldapslam.transport.pki.certificate import (
    BACKDATE,
    build_authority,
    certificate_builder,
    certificate_pem,
    key_pem,
    new_key,
)

_LIFETIME = timedelta(days=30)


@dataclass(frozen=True)
class KeyPair:
    """Paths of a certificate and its private key, both PEM."""

    certificate_file: Path
    key_file: Path


class Authority:
    """One self-signed authority; its certificate is in `ca_file`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = new_key()
        begin = utc_now() - BACKDATE
        self._certificate = build_authority(
            self._key, "ldapslam lab CA", begin, _LIFETIME
        )
        self.ca_file = folder / "ca.pem"
        self.ca_file.write_bytes(certificate_pem(self._certificate))

    def issue(self, name: str, lifetime: timedelta) -> KeyPair:
        """A server certificate for this host; a negative lifetime is an expired one."""
        key, now = new_key(), utc_now()
        local = [x509.IPAddress(ip_address(one)) for one in ("127.0.0.1", "::1")]
        hosts = x509.SubjectAlternativeName([x509.DNSName("localhost"), *local])
        certificate = (
            certificate_builder(
                name,
                self._certificate,
                key.public_key(),
                min(now, now + lifetime) - BACKDATE,
                now + lifetime,
            )
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False
            )
            .add_extension(hosts, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        pair = KeyPair(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        pair.certificate_file.write_bytes(certificate_pem(certificate))
        with open(pair.key_file, "wb", opener=private) as file:
            file.write(key_pem(key))
        return pair
