# SPDX-License-Identifier: Apache-2.0
"""Signatures of coordinators: who signed what, and when nobody believes it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from ldapslam.base.errors import AccessRefused
from ldapslam.transport.credentials import TlsFiles
from ldapslam.transport.pki.certificate import (
    Role,
    build_authority,
    build_leaf,
    certificate_pem,
    new_key,
    read_certificates,
)
from ldapslam.transport.pki.signature import check, sign

NOW = datetime.now(UTC)
DAY = timedelta(days=1)
CONTENT = b'{"run_id":"r1","verdict":"PASS"}'
_Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey
KEYS: dict[str, Callable[[], _Key]] = {
    "EC": new_key,
    "P-384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "RSA": lambda: rsa.generate_private_key(65537, 2048),
    "Ed25519": ed25519.Ed25519PrivateKey.generate,
}


def files_of(
    folder: Path, *, kind: str = "EC", role: Role = Role.COORDINATOR
) -> TlsFiles:
    folder.mkdir()
    authority_key, key = new_key(), KEYS[kind]()
    authority = build_authority(authority_key, "fleet", NOW - DAY, 30 * DAY)
    certificate = build_leaf(
        authority, authority_key, key.public_key(), "c1", role, [], NOW - DAY, NOW + DAY
    )
    files = TlsFiles(folder / "cert.pem", folder / "key.pem", folder / "ca.pem")
    files.certificate.write_bytes(certificate_pem(certificate))
    files.authority.write_bytes(certificate_pem(authority))
    files.key.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    return files


def signed(content: bytes, files: TlsFiles) -> dict[str, str]:
    return sign(content, files.certificate, files.key)


@pytest.mark.parametrize("kind", KEYS)
def test_what_was_signed_is_known_and_nothing_else(tmp_path: Path, kind: str) -> None:
    files = files_of(tmp_path / "c1", kind=kind)
    signature = signed(CONTENT, files)
    assert signature["signer"] == "c1"
    authorities = files.authorities()
    assert check(CONTENT, signature, NOW, authorities).name == "c1"
    assert check(CONTENT, signature, NOW, ()).name == "c1"
    with pytest.raises(AccessRefused, match="not one of this content"):
        check(CONTENT.replace(b"PASS", b"FAIL"), signature, NOW, authorities)
    other = signed(CONTENT + b" ", files)
    with pytest.raises(AccessRefused, match="not one of this content"):
        check(CONTENT, other, NOW, authorities)


def test_an_agent_signs_no_results(tmp_path: Path) -> None:
    files = files_of(tmp_path / "a1", role=Role.AGENT)
    with pytest.raises(AccessRefused, match="of agent 'c1', no coordinator's"):
        check(CONTENT, signed(CONTENT, files), NOW, files.authorities())


def test_a_coordinator_of_another_authority_is_none_of_ours(tmp_path: Path) -> None:
    """Its name and that of its authority are the same."""
    ours, theirs = files_of(tmp_path / "ours"), files_of(tmp_path / "theirs")
    with pytest.raises(AccessRefused, match="of another authority"):
        check(CONTENT, signed(CONTENT, theirs), NOW, ours.authorities())
    both = [*ours.authorities(), *read_certificates(theirs.authority)]
    assert check(CONTENT, signed(CONTENT, theirs), NOW, both).name == "c1"


@pytest.mark.parametrize("days", [-2, 2])
def test_a_certificate_signs_while_it_is_valid(tmp_path: Path, days: int) -> None:
    files = files_of(tmp_path / "c1")
    with pytest.raises(AccessRefused, match=r"expired|not valid before"):
        check(CONTENT, signed(CONTENT, files), NOW + days * DAY, files.authorities())


@pytest.mark.parametrize(
    "broken",
    [
        {"signature": "%%%"},
        {"signature": ""},
        {"signature": None},
        {"certificate": ""},
        {"certificate": "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----"},
    ],
)
def test_a_signature_that_is_none_is_refused(
    tmp_path: Path, broken: dict[str, str | None]
) -> None:
    files = files_of(tmp_path / "c1")
    with pytest.raises(AccessRefused):
        check(CONTENT, {**signed(CONTENT, files), **broken}, NOW, files.authorities())
