# SPDX-License-Identifier: Apache-2.0
"""Signatures of coordinators: who signed what, and when nobody believes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from ldapslam.base.errors import AccessRefused
from ldapslam.transport.credentials import TlsFiles
from ldapslam.transport.pki.certificate import Role, new_key, read_certificates
from ldapslam.transport.pki.signature import check, sign
from support.chains import DAY, NOW, AnyKey, Issuer, root

CONTENT = b'{"run_id":"r1","verdict":"PASS"}'
KEYS: dict[str, Callable[[], AnyKey]] = {
    "EC": new_key,
    "P-384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "RSA": lambda: rsa.generate_private_key(65537, 2048),
    "Ed25519": ed25519.Ed25519PrivateKey.generate,
}


def files_of(
    folder: Path, *, kind: str = "EC", role: Role = Role.COORDINATOR
) -> TlsFiles:
    top = root("fleet")
    return top.files(folder, "c1", role, top, key=KEYS[kind]())


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


def chain(
    folder: Path, *between: Issuer, by: Issuer, top: Issuer
) -> tuple[dict[str, str], list[x509.Certificate]]:
    """The signature by a coordinator, and the root that is trusted."""
    files = by.files(folder, "c1", Role.COORDINATOR, top, *between)
    return signed(CONTENT, files), files.authorities()


def test_a_signature_leads_to_its_root_through_others(tmp_path: Path) -> None:
    top = root()
    middle = top.issuer("middle")
    low = middle.issuer("low", path_length=0)
    # in any order, and with one that has nothing to do with it
    signature, trusted = chain(
        tmp_path / "c1", top.issuer("other"), middle, low, by=low, top=top
    )
    assert check(CONTENT, signature, NOW, trusted).name == "c1"
    assert check(CONTENT, signature, NOW, [middle.certificate]).name == "c1"
    with pytest.raises(AccessRefused, match="of another authority"):
        check(CONTENT, signature, NOW, [root().certificate])
    without, _ = chain(tmp_path / "c2", low, by=low, top=top)
    with pytest.raises(AccessRefused, match=r"of another authority"):
        check(CONTENT, without, NOW, trusted)


def _no_authority(top: Issuer) -> list[Issuer]:
    return [top.issuer("agent", is_authority=False)]


def _expired(top: Issuer) -> list[Issuer]:
    return [top.issuer("old", not_after=-DAY)]


def _too_long(top: Issuer) -> list[Issuer]:
    middle = top.issuer("middle", path_length=0)
    return [middle.issuer("low"), middle]


def _constrained(top: Issuer) -> list[Issuer]:
    names = x509.NameConstraints([x509.DNSName("example.com")], None)
    return [top.issuer("for example.com", None, names)]


def _for_mail(top: Issuer) -> list[Issuer]:
    mail = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.EMAIL_PROTECTION])
    return [top.issuer("mail", None, mail)]


def _circle(top: Issuer) -> list[Issuer]:
    stranger = root("a")
    other = stranger.issuer("b")
    again = other.issuer("a", stranger.key)
    return [other, again, other.issuer("b", other.key)]


@pytest.mark.parametrize(
    "between", [_no_authority, _expired, _too_long, _constrained, _for_mail, _circle]
)
def test_not_everybody_may_stand_between_a_coordinator_and_its_root(
    tmp_path: Path, between: Callable[[Issuer], list[Issuer]]
) -> None:
    top = root()
    issuers = between(top)
    signature, trusted = chain(tmp_path / "c1", *issuers, by=issuers[0], top=top)
    with pytest.raises(AccessRefused, match="of another authority"):
        check(CONTENT, signature, NOW, trusted)
