# SPDX-License-Identifier: Apache-2.0
"""An authority that signs others, which sign the fleet's certificates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

from ldapslam.transport.credentials import TlsFiles
from ldapslam.transport.pki.certificate import (
    Role,
    build_leaf,
    certificate_pem,
    new_key,
)

NOW = datetime.now(UTC)
DAY = timedelta(days=1)
AnyKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey


@dataclass(frozen=True)
class Issuer:
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> bytes:
        return certificate_pem(self.certificate)

    def issuer(
        self,
        name: str,
        key: ec.EllipticCurvePrivateKey | None = None,
        *extensions: x509.ExtensionType,
        is_authority: bool = True,
        path_length: int | None = None,
        not_after: timedelta = 30 * DAY,
    ) -> Issuer:
        """One that this one signed."""
        key = key or new_key()
        builder = _builder(name, self.certificate.subject, key, not_after)
        basic = x509.BasicConstraints(is_authority, path_length)
        builder = builder.add_extension(basic, critical=True)
        for extension in extensions:
            builder = builder.add_extension(extension, critical=True)
        return Issuer(builder.sign(self.key, hashes.SHA256()), key)

    def files(
        self,
        folder: Path,
        name: str,
        role: Role,
        root: Issuer,
        *between: Issuer,
        hosts: Sequence[str] = (),
        key: AnyKey | None = None,
    ) -> TlsFiles:
        """A certificate with those between it and the root, which alone is trusted."""
        folder.mkdir(parents=True)
        key = key or new_key()
        times = NOW - DAY, NOW + DAY
        leaf = build_leaf(
            self.certificate, self.key, key.public_key(), name, role, hosts, *times
        )
        files = TlsFiles(folder / "cert.pem", folder / "key.pem", folder / "ca.pem")
        files.certificate.write_bytes(
            certificate_pem(leaf) + b"".join(one.pem for one in between)
        )
        files.key.write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        )
        files.authority.write_bytes(root.pem)
        return files

    def revoked(self, *serials: int) -> bytes:
        """Its list, as PEM."""
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self.certificate.subject)
            .last_update(NOW - DAY)
            .next_update(NOW + DAY)
        )
        for serial in serials:
            entry = x509.RevokedCertificateBuilder().serial_number(serial)
            builder = builder.add_revoked_certificate(
                entry.revocation_date(NOW - DAY).build()
            )
        return builder.sign(self.key, hashes.SHA256()).public_bytes(Encoding.PEM)


def root(name: str = "root") -> Issuer:
    key = new_key()
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = _builder(name, subject, key, 30 * DAY)
    builder = builder.add_extension(x509.BasicConstraints(True, None), critical=True)
    return Issuer(builder.sign(key, hashes.SHA256()), key)


def _builder(
    name: str,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    not_after: timedelta,
) -> x509.CertificateBuilder:
    usage = dict.fromkeys(
        (
            "digital_signature",
            "content_commitment",
            "key_encipherment",
            "data_encipherment",
            "key_agreement",
            "encipher_only",
            "decipher_only",
        ),
        False,
    )
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - 2 * DAY)
        .not_valid_after(NOW + not_after)
        .add_extension(
            x509.KeyUsage(key_cert_sign=True, crl_sign=True, **usage), critical=True
        )
    )
