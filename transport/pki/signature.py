# SPDX-License-Identifier: Apache-2.0
"""Signatures of a coordinator over documents, and their check without it.

The keys are those of its certificate: ECDSA with SHA-256, RSA-PSS with SHA-256 and a
salt as long, or Ed25519. Pure but for `sign`, which reads its files.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa

from ldapslam.base.errors import AccessRefused, ConfigError
from ldapslam.transport.pki.certificate import (
    Identity,
    Role,
    certificate_pem,
    identity_of,
    read_any_key,
    read_certificates,
)
from ldapslam.transport.pki.chain import leads_to

_PSS = padding.PSS(padding.MGF1(hashes.SHA256()), hashes.SHA256.digest_size)
_MAKE_ANEW = "it was not made by a coordinator of this fleet, or changed since"


def sign(content: bytes, certificate_file: Path, key_file: Path) -> dict[str, str]:
    """The signature as a document: `signer` (a name), `certificate` (PEM, followed by
    those between it and the authority) and `signature` (base64)."""
    key = read_any_key(key_file)
    if isinstance(key, ec.EllipticCurvePrivateKey):
        signature = key.sign(content, ec.ECDSA(hashes.SHA256()))
    elif isinstance(key, rsa.RSAPrivateKey):
        signature = key.sign(content, _PSS, hashes.SHA256())
    elif isinstance(key, ed25519.Ed25519PrivateKey):
        signature = key.sign(content)
    else:
        raise ConfigError(
            f"{key_file}: this kind of key signs no results",
            hint="take one on the curve P-256, as `ldapslam fleet pki issue` makes it",
        )
    certificates = read_certificates(certificate_file)
    return {
        "signer": identity_of(certificates[0]).name,
        "certificate": b"".join(map(certificate_pem, certificates)).decode(),
        "signature": base64.b64encode(signature).decode(),
    }


def check(
    content: bytes,
    signature: Mapping[str, Any],
    signed_utc: datetime,
    authorities: Sequence[x509.Certificate],
) -> Identity:
    """Who signed the content, then; AccessRefused when it was nobody who may. Without
    authorities it is not checked who issued the certificate."""
    certificates = _certificates(signature)
    certificate = certificates[0]
    identity = identity_of(certificate)
    if identity.role is not Role.COORDINATOR:
        raise AccessRefused(
            f"the signature is of {identity.role} {identity.name!r}, no coordinator's",
            hint=_MAKE_ANEW,
        )
    identity.check_time(signed_utc)
    if authorities and not leads_to(certificates, authorities, signed_utc):
        raise AccessRefused(
            f"the certificate of {identity.name!r} is of another authority",
            hint="give the ca.pem of the authority that issued it; where others are in "
            "between, they belong behind it in the coordinator's cert.pem",
        )
    if not _is_valid(content, signature, certificate):
        raise AccessRefused("the signature is not one of this content", hint=_MAKE_ANEW)
    return identity


def _certificates(signature: Mapping[str, Any]) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(str(signature["certificate"]).encode())
    except (KeyError, TypeError, ValueError) as error:
        raise AccessRefused(f"the signature has no certificate: {error}") from error


def _is_valid(
    content: bytes, signature: Mapping[str, Any], certificate: x509.Certificate
) -> bool:
    key = certificate.public_key()
    try:
        found = base64.b64decode(str(signature.get("signature")), validate=True)
        if isinstance(key, ec.EllipticCurvePublicKey):
            key.verify(found, content, ec.ECDSA(hashes.SHA256()))
        elif isinstance(key, rsa.RSAPublicKey):
            key.verify(found, content, _PSS, hashes.SHA256())
        elif isinstance(key, ed25519.Ed25519PublicKey):
            key.verify(found, content)
        else:
            return False
    except (InvalidSignature, UnsupportedAlgorithm, binascii.Error, ValueError):
        return False
    return True
