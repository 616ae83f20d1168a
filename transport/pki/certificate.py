# SPDX-License-Identifier: Apache-2.0
"""A certificate as the fleet reads it: a name (its CN) and a role.

The role is a URI among the subject's alternative names, `urn:ldapslam:role:agent`, and
not an OU: an authority that signs for other purposes too writes OUs of its own, and
nobody is an operator by accident. A coordinator's certificate is for servers, the
others' are for clients, so that no agent can pose as a coordinator. Pure but for
`read_certificate` and `read_key`.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import (
    CertificatePublicKeyTypes,
    PrivateKeyTypes,
    PublicKeyTypes,
)
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ldapslam.base.errors import AccessRefused, ConfigError
from ldapslam.base.time_zone import clock_text

#: Files of `ldapslam fleet pki issue`.
CERTIFICATE_FILE, KEY_FILE, AUTHORITY_FILE = "cert.pem", "key.pem", "ca.pem"
_ROLE_PREFIX = "urn:ldapslam:role:"
#: Used in file names, log lines and host names.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}", re.ASCII)
_MAX_PEM_BYTES = 1 << 20
_MIN_RSA_BITS = 2048
# clocks of the fleet's hosts differ a little
BACKDATE = timedelta(minutes=5)


class Role(StrEnum):
    AGENT = "agent"
    OPERATOR = "operator"
    VIEWER = "viewer"
    COORDINATOR = "coordinator"


@dataclass(frozen=True, slots=True)
class Identity:
    """What a certificate says."""

    name: str
    role: Role
    #: DER; unique with the serial number.
    issuer: bytes
    serial: int
    not_before_utc: datetime
    not_after_utc: datetime
    #: Issuer and serial number of those that lie between it and an authority.
    between: tuple[tuple[bytes, int], ...] = ()

    def check_time(self, now_utc: datetime) -> None:
        """AccessRefused when the certificate is not valid at this time."""
        if now_utc > self.not_after_utc:
            raise AccessRefused(
                f"the certificate of {self.role} {self.name!r} expired at "
                f"{clock_text(self.not_after_utc)}",
                hint=f"renew it: ldapslam fleet pki issue --name {self.name}",
            )
        if now_utc < self.not_before_utc:
            raise AccessRefused(
                f"the certificate of {self.role} {self.name!r} is not valid before "
                f"{clock_text(self.not_before_utc)}",
                hint="are the clocks of both hosts right?",
            )


def check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"name {name[:80]!r} cannot be used",
            hint="take 1 to 64 of a-z A-Z 0-9 . _ @ -, first a letter or digit",
        )


def identity_of(
    certificate: x509.Certificate, between: Iterable[x509.Certificate] = ()
) -> Identity:
    """Name and role; AccessRefused when the certificate is not one of a fleet."""
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    name = str(names[0].value) if len(names) == 1 else ""
    if not _NAME.fullmatch(name):
        raise AccessRefused(
            f"the certificate's common name {name[:80]!r} is no name in a fleet",
            hint="make certificates with `ldapslam fleet pki`",
        )
    roles = [
        uri.removeprefix(_ROLE_PREFIX)
        for uri in _alternatives(certificate, x509.UniformResourceIdentifier)
        if uri.startswith(_ROLE_PREFIX)
    ]
    if len(roles) != 1 or roles[0] not in list(Role):
        raise AccessRefused(
            f"the certificate of {name!r} names no role",
            hint=f"it needs one alternative name such as {_ROLE_PREFIX}agent; make it "
            "with `ldapslam fleet pki`",
        )
    return Identity(
        name=name,
        role=Role(roles[0]),
        issuer=certificate.issuer.public_bytes(),
        serial=certificate.serial_number,
        not_before_utc=certificate.not_valid_before_utc,
        not_after_utc=certificate.not_valid_after_utc,
        between=tuple(
            (one.issuer.public_bytes(), one.serial_number) for one in between
        ),
    )


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def certificate_pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)


def build_authority(
    key: ec.EllipticCurvePrivateKey, name: str, now_utc: datetime, lifetime: timedelta
) -> x509.Certificate:
    """A self-signed authority that signs leaves only."""
    public_key = key.public_key()
    end_utc = now_utc + lifetime
    return (
        certificate_builder(name, None, public_key, now_utc, end_utc)
        .add_extension(
            x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False
        )
        .sign(key, hashes.SHA256())
    )


def build_leaf(
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    public_key: CertificatePublicKeyTypes,
    name: str,
    role: Role,
    hosts: Sequence[str],
    not_before_utc: datetime,
    not_after_utc: datetime,
) -> x509.Certificate:
    """A certificate of a fleet; `hosts` are the names and addresses of a server."""
    usage = ExtendedKeyUsageOID.CLIENT_AUTH
    if role is Role.COORDINATOR:
        usage = ExtendedKeyUsageOID.SERVER_AUTH
    alternatives: list[x509.GeneralName] = [_host_name(host) for host in hosts]
    alternatives.append(x509.UniformResourceIdentifier(_ROLE_PREFIX + role))
    return (
        certificate_builder(name, authority, public_key, not_before_utc, not_after_utc)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=True)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(
                authority_key.public_key()
            ),
            critical=False,
        )
        .sign(authority_key, hashes.SHA256())
    )


def hosts_of(certificate: x509.Certificate) -> list[str]:
    return [
        *_alternatives(certificate, x509.DNSName),
        *map(str, _alternatives(certificate, x509.IPAddress)),
    ]


def _alternatives(certificate: x509.Certificate, kind: Any) -> list[Any]:
    """The subject's alternative names of a kind; none where they cannot be read."""
    try:
        names = certificate.extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        ).value
    except (x509.ExtensionNotFound, ValueError):
        return []
    return list(names.get_values_for_type(kind))


def build_request(key: ec.EllipticCurvePrivateKey, name: str) -> bytes:
    request = x509.CertificateSigningRequestBuilder().subject_name(_subject(name))
    return request.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


def request_key(request_pem: bytes) -> CertificatePublicKeyTypes:
    """The public key of a request that proves its private one; AccessRefused when it
    does not, or the key is weak."""
    try:
        request = x509.load_pem_x509_csr(request_pem)
        key = request.public_key()
        is_signed = request.is_signature_valid
    except Exception as error:  # whatever the parser makes of a stranger's bytes
        raise AccessRefused("the certificate request cannot be read") from error
    is_strong = (
        isinstance(key, ec.EllipticCurvePublicKey)
        and isinstance(key.curve, ec.SECP256R1 | ec.SECP384R1)
    ) or (isinstance(key, rsa.RSAPublicKey) and key.key_size >= _MIN_RSA_BITS)
    if not is_signed or not is_strong:
        raise AccessRefused(
            "the certificate request is not signed by its key, or the key is weak",
            hint="take a key on the curve P-256",
        )
    return key


def public_key_bytes(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def read_pem(path: Path) -> bytes:
    """A small file's content; ConfigError with the reason."""
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_PEM_BYTES + 1)
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read: {error.strerror}",
            hint="`ldapslam fleet pki issue` makes one with cert.pem, key.pem, ca.pem",
        ) from error
    if len(content) > _MAX_PEM_BYTES:
        raise ConfigError(f"{path}: is too large for a certificate or key")
    return content


def read_certificates(path: Path) -> list[x509.Certificate]:
    """All certificates of a PEM file, at least one."""
    content = read_pem(path)
    try:
        certificates = x509.load_pem_x509_certificates(content)
    except ValueError as error:
        raise ConfigError(
            f"{path}: is no certificate: {error}", hint="give a PEM file"
        ) from error
    return certificates


def read_certificate(path: Path) -> x509.Certificate:
    """The first certificate of a PEM file."""
    return read_certificates(path)[0]


def read_any_key(path: Path) -> PrivateKeyTypes:
    """A private key; ConfigError when it is none."""
    try:
        return load_pem_private_key(read_pem(path), None)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{path}: is no private key without passphrase") from error


def read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """An own key; ConfigError when it is none, or not on a curve."""
    key = read_any_key(path)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ConfigError(f"{path}: is no key on an elliptic curve")
    return key


def _host_name(host: str) -> x509.DNSName | x509.IPAddress:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    labels = host.removeprefix("*.").split(".")
    if not all(
        re.fullmatch(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?", label)
        for label in labels
    ):
        raise ConfigError(
            f"host {host!r} is neither a host name nor an address",
            hint="write it without a port, such as load.example.com or 192.0.2.7",
        )
    return x509.DNSName(host)


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def certificate_builder(
    name: str,
    authority: x509.Certificate | None,
    public_key: CertificatePublicKeyTypes,
    not_before_utc: datetime,
    not_after_utc: datetime,
) -> x509.CertificateBuilder:
    """What all certificates have; without an authority, it is one itself."""
    is_authority = authority is None
    return (
        x509.CertificateBuilder()
        .subject_name(_subject(name))
        .issuer_name(_subject(name) if authority is None else authority.subject)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(not_before_utc.astimezone(UTC))
        .not_valid_after(not_after_utc.astimezone(UTC))
        .add_extension(
            x509.BasicConstraints(is_authority, 0 if is_authority else None),
            critical=True,
        )
        .add_extension(
            x509.KeyUsage(
                digital_signature=not is_authority,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                key_cert_sign=is_authority,
                crl_sign=is_authority,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
    )
