# SPDX-License-Identifier: Apache-2.0
"""A certificate authority of a lab's own, and the server certificates it signs.

Keys are P-256: made in a millisecond. A certificate is for 127.0.0.1, ::1 and localhost
and lives as long as it is told, which may be in the past, for tests of expired ones.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# Clocks of containers and their hosts may differ a little.
_BACKDATE = timedelta(minutes=5)


@dataclass(frozen=True)
class KeyPair:
    """Paths of a certificate and its private key, both PEM."""

    certificate_file: Path
    key_file: Path


class Authority:
    """One self-signed authority; its certificate is in `ca_file`."""

    def __init__(self, folder: Path, lifetime: timedelta = timedelta(days=30)) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("ldapslam lab CA")
        now = datetime.now(UTC)
        certificate = (
            _builder(self._name, self._name, self._key, now - _BACKDATE, now + lifetime)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(sign_certificates=True), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.ca_file = folder / "ca.pem"
        self.ca_file.write_bytes(_pem(certificate))

    def issue(self, name: str, lifetime: timedelta) -> KeyPair:
        """A server certificate for this host; a negative lifetime is an expired one."""
        key = ec.generate_private_key(ec.SECP256R1())
        until = datetime.now(UTC) + lifetime
        since = min(datetime.now(UTC), until) - _BACKDATE
        certificate = (
            _builder(_name(name), self._name, key, since, until)
            .add_extension(
                x509.BasicConstraints(ca=False, path_length=None), critical=True
            )
            .add_extension(_key_usage(sign_certificates=False), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False
            )
            .add_extension(
                x509.SubjectAlternativeName(
                    [
                        x509.DNSName("localhost"),
                        x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
                        x509.IPAddress(ipaddress.ip_address("::1")),
                    ]
                ),
                critical=False,
            )
            .sign(self._key, hashes.SHA256())
        )
        pair = KeyPair(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        pair.certificate_file.write_bytes(_pem(certificate))
        pair.key_file.touch(mode=0o600)
        pair.key_file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return pair


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    since: datetime,
    until: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(since)
        .not_valid_after(until)
    )


def _key_usage(*, sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not sign_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
