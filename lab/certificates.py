# SPDX-License-Identifier: Apache-2.0
"""A certificate authority of a lab's own, and the server certificates it signs.

Keys are P-256: made in a millisecond. A certificate is for 127.0.0.1, ::1 and localhost
and lives as long as it is told, which may be in the past, for tests of expired ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# Clocks of containers and their hosts may differ a little.
_BACKDATE = timedelta(minutes=5)
_KEY_USAGES = (
    *("digital_signature", "content_commitment", "key_encipherment", "crl_sign"),
    *("data_encipherment", "key_agreement", "key_cert_sign"),
    *("encipher_only", "decipher_only"),
)


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
        self.ca_file = folder / "ca.pem"
        certificate = self._signed(self._name, self._key, lifetime, is_authority=True)
        self.ca_file.write_bytes(_pem(certificate))

    def issue(self, name: str, lifetime: timedelta) -> KeyPair:
        """A server certificate for this host; a negative lifetime is an expired one."""
        key = ec.generate_private_key(ec.SECP256R1())
        local = [x509.IPAddress(ip_address(one)) for one in ("127.0.0.1", "::1")]
        certificate = self._signed(
            _name(name),
            key,
            lifetime,
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]),
            x509.SubjectAlternativeName([x509.DNSName("localhost"), *local]),
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

    def _signed(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        lifetime: timedelta,
        *extensions: x509.ExtensionType,
        is_authority: bool = False,
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        path_length = 0 if is_authority else None
        constraints = x509.BasicConstraints(is_authority, path_length)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(min(now, now + lifetime) - _BACKDATE)
            .not_valid_after(now + lifetime)
            .add_extension(constraints, critical=True)
            .add_extension(_key_usage(is_authority), critical=True)
        )
        for extension in extensions:
            builder = builder.add_extension(extension, critical=False)
        return builder.sign(self._key, hashes.SHA256())


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _key_usage(is_authority: bool) -> x509.KeyUsage:
    flags = dict.fromkeys(_KEY_USAGES, False)
    used = ("key_cert_sign", "crl_sign") if is_authority else ("digital_signature",)
    return x509.KeyUsage(**flags | dict.fromkeys(used, True))


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
