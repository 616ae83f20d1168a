# SPDX-License-Identifier: Apache-2.0
"""The folder of an authority: what it signs, what it refuses, whom it forgets."""

from __future__ import annotations

import logging
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ldapslam.base.errors import AccessRefused, ConfigError
from ldapslam.transport.credentials import (
    TlsFiles,
    _ServerFiles,
    check_client,
    check_server,
)
from ldapslam.transport.pki.authority import Authority, Signed
from ldapslam.transport.pki.certificate import (
    Identity,
    Role,
    build_request,
    hosts_of,
    identity_of,
    new_key,
    read_certificate,
    request_key,
)
from ldapslam.transport.pki.revocation import Revocations
from ldapslam.transport.pki.token import JoinToken, parse_token

DAY = timedelta(days=1)


class Clock:
    def __init__(self) -> None:
        self.now_utc = datetime.now(UTC)

    def __call__(self) -> datetime:
        return self.now_utc


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def authority(tmp_path: Path, clock: Clock) -> Authority:
    return Authority.create(tmp_path / "pki", "fleet", now_utc=clock)


def files_of(folder: Path) -> TlsFiles:
    return TlsFiles(folder / "cert.pem", folder / "key.pem", folder / "ca.pem")


def identity(path: Path) -> Identity:
    return identity_of(read_certificate(path))


def everything_in(folder: Path) -> Iterator[Path]:
    yield folder
    yield from folder.rglob("*")


def test_everything_is_for_its_owner_alone(authority: Authority) -> None:
    authority.issue("olga", Role.OPERATOR)
    authority.token("a1", Role.AGENT, DAY)
    for path in everything_in(authority.folder):
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path


def test_an_authority_is_never_overwritten(authority: Authority) -> None:
    before = (authority.folder / "ca.key").read_bytes()
    with pytest.raises(ConfigError, match="authority already"):
        Authority.create(authority.folder, "other")
    assert (authority.folder / "ca.key").read_bytes() == before


def test_where_there_is_none_the_remedy_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no certificate authority") as caught:
        Authority(tmp_path)
    assert caught.value.hint == "make one: ldapslam fleet pki init"


@pytest.mark.parametrize("role", [Role.AGENT, Role.OPERATOR, Role.VIEWER])
def test_a_client_gets_a_certificate_for_clients(
    authority: Authority, role: Role
) -> None:
    files = files_of(authority.issue("nina", role))
    found = check_client(files, role)
    assert (found.name, found.role) == ("nina", role)
    certificate = read_certificate(files.certificate)
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage)
    assert list(usage.value) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    assert isinstance(certificate.public_key(), ec.EllipticCurvePublicKey)
    certificate.verify_directly_issued_by(authority.certificate)
    with pytest.raises(ConfigError, match="needs one of its own"):
        check_server(files)


def test_a_coordinator_gets_one_for_servers_with_its_hosts(
    authority: Authority,
) -> None:
    hosts = ("load.example.com", "192.0.2.7", "2001:db8::7")
    files = files_of(authority.issue("coordinator", Role.COORDINATOR, hosts))
    assert check_server(files).role is Role.COORDINATOR
    certificate = read_certificate(files.certificate)
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage)
    assert list(usage.value) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert hosts_of(certificate) == list(hosts)
    with pytest.raises(ConfigError, match="this needs one of role agent"):
        check_client(files, Role.AGENT)


@pytest.mark.parametrize(
    ("name", "role", "hosts", "what"),
    [
        ("", Role.AGENT, (), "cannot be used"),
        ("../x", Role.AGENT, (), "cannot be used"),
        ("a b", Role.AGENT, (), "cannot be used"),
        ("x" * 65, Role.AGENT, (), "cannot be used"),
        ("a\n", Role.AGENT, (), "cannot be used"),
        ("c", Role.COORDINATOR, (), "needs the hosts"),
        ("c", Role.COORDINATOR, ("host:7400",), "neither a host name"),
        ("c", Role.COORDINATOR, ("a b",), "neither a host name"),
        ("a1", Role.AGENT, ("host",), "hosts are for a coordinator"),
    ],
)
def test_what_cannot_be_in_a_certificate_is_refused(
    authority: Authority, name: str, role: Role, hosts: tuple[str, ...], what: str
) -> None:
    with pytest.raises(ConfigError, match=what):
        authority.issue(name, role, hosts)
    assert authority.issued() == []


def test_a_name_has_one_holder_at_a_time(authority: Authority, clock: Clock) -> None:
    folder = authority.issue("a1", Role.AGENT, lifetime=DAY)
    key = (folder / "key.pem").read_bytes()
    for attempt in (
        lambda: authority.issue("a1", Role.OPERATOR),
        lambda: authority.token("a1", Role.AGENT, DAY),
    ):
        with pytest.raises(ConfigError, match="has a certificate already"):
            attempt()
    assert (folder / "key.pem").read_bytes() == key
    clock.now_utc += 2 * DAY
    authority.issue("a1", Role.OPERATOR)
    assert identity(folder / "cert.pem").role is Role.OPERATOR


def test_renewal_keeps_key_name_role_and_hosts(
    authority: Authority, clock: Clock
) -> None:
    hosts = ("load.example.com",)
    folder = authority.issue("c1", Role.COORDINATOR, hosts, DAY)
    before = read_certificate(folder / "cert.pem")
    clock.now_utc += 2 * DAY  # expired, even
    path = authority.renew("c1", 5 * DAY)
    after = read_certificate(path)
    assert path == folder / "cert.pem"
    assert after.public_key() == before.public_key()
    assert after.serial_number != before.serial_number
    assert identity_of(after).role is Role.COORDINATOR
    assert hosts_of(after) == list(hosts)
    assert identity_of(after).not_after_utc > clock.now_utc + 4 * DAY
    states = [one.state(clock.now_utc) for one in authority.issued()]
    assert states == ["valid", "expired"]


def test_no_certificate_outlives_its_authority(tmp_path: Path, clock: Clock) -> None:
    authority = Authority.create(tmp_path, "brief", 10 * DAY, clock)
    folder = authority.issue("a1", Role.AGENT)
    until_utc = identity(folder / "cert.pem").not_after_utc
    assert until_utc <= authority.certificate.not_valid_after_utc
    clock.now_utc += 11 * DAY
    with pytest.raises(ConfigError, match="authority itself expired"):
        authority.renew("a1")


def test_the_revoked_stay_revoked_and_their_names_are_free(
    authority: Authority,
) -> None:
    folder = authority.issue("a1", Role.AGENT)
    first = identity(folder / "cert.pem")
    second = identity(authority.renew("a1"))
    assert authority.revoke("a1") == 2
    assert not folder.exists()
    with pytest.raises(ConfigError, match="could be renewed"):
        authority.renew("a1")
    with pytest.raises(ConfigError, match="no valid certificate"):
        authority.revoke("a1")
    third = identity(authority.issue("a1", Role.AGENT) / "cert.pem")
    authority.issue("a2", Role.AGENT)
    authority.revoke("a2")
    revoked = Revocations(authority.revoked_file, lambda: [authority.certificate])
    assert [revoked.has(one) for one in (first, second, third)] == [True, True, False]
    assert identity(authority.renew("a1")).name == "a1"


def test_a_changed_list_is_taken_and_a_bad_one_is_not(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    a1 = identity(authority.issue("a1", Role.AGENT) / "cert.pem")
    revoked = Revocations(authority.revoked_file, lambda: [authority.certificate])
    assert not revoked.has(a1)
    authority.revoke("a1")
    revoked.refresh()
    assert revoked.has(a1)
    other = Authority.create(tmp_path / "other", "fleet")
    caplog.set_level(logging.ERROR)
    for content in (b"", b"-----BEGIN X509 CRL-----", other.revoked_file.read_bytes()):
        authority.revoked_file.write_bytes(content)
        revoked.refresh()
        assert revoked.has(a1)
    authority.revoked_file.unlink()
    revoked.refresh()
    assert revoked.has(a1)
    assert len(caplog.records) == 4


def test_a_list_comes_into_force_with_its_authority(
    authority: Authority, tmp_path: Path
) -> None:
    """Which may come later than the list."""
    other = Authority.create(tmp_path / "other", "the next fleet")
    agent = identity(other.issue("a1", Role.AGENT) / "cert.pem")
    other.revoke("a1")
    listed, known = tmp_path / "crl.pem", [authority.certificate]
    listed.write_bytes(authority.revoked_file.read_bytes())
    revoked = Revocations(listed, lambda: known)
    listed.write_bytes(other.revoked_file.read_bytes())
    revoked.refresh()
    assert not revoked.has(agent)
    known.append(other.certificate)
    revoked.refresh()
    assert revoked.has(agent)


def test_all_lists_of_a_file_count(authority: Authority, tmp_path: Path) -> None:
    other = Authority.create(tmp_path / "other", "the next fleet")
    names = [
        (one, identity(one.issue("a1", Role.AGENT) / "cert.pem"))
        for one in (authority, other)
    ]
    for one, _ in names:
        one.revoke("a1")
    both = tmp_path / "both.pem"
    both.write_bytes(b"".join(one.revoked_file.read_bytes() for one, _ in names))
    revoked = Revocations(both, lambda: [one.certificate for one, _ in names])
    assert all(revoked.has(agent) for _, agent in names)
    content = both.read_bytes()
    both.write_bytes(content[:-30])
    revoked.refresh()
    assert all(revoked.has(agent) for _, agent in names), "the last whole one stays"
    both.write_bytes(content)
    for one, _ in names:  # of the other one nobody knows
        with pytest.raises(ConfigError, match="is not trusted"):
            Revocations(both, partial(list, [one.certificate]))


def test_a_revocation_keeps_the_lists_of_other_authorities(
    authority: Authority, tmp_path: Path
) -> None:
    """Also of one that has the same name."""
    other = Authority.create(tmp_path / "other", "fleet")
    agents = [
        identity(one.issue(name, Role.AGENT) / "cert.pem")
        for one, name in ((authority, "a1"), (authority, "a2"), (other, "b1"))
    ]
    authority.revoke("a1")
    other.revoke("b1")
    lists = [one.revoked_file.read_bytes() for one in (other, authority)]
    authority.revoked_file.write_bytes(b"".join(lists))
    assert authority.revoke("a2") == 1
    known = [authority.certificate, other.certificate]
    revoked = Revocations(authority.revoked_file, lambda: known)
    assert all(map(revoked.has, agents))
    first, rest = authority.revoked_file.read_bytes().split(lists[0])
    assert rest == b""
    authority.revoked_file.write_bytes(first)
    assert Revocations(authority.revoked_file, lambda: known[:1]).has(agents[0])
    authority.revoked_file.write_bytes(lists[0])
    with pytest.raises(ConfigError, match="has no list of this authority"):
        authority.issued()


def test_a_key_of_another_authority_is_refused(
    authority: Authority, tmp_path: Path
) -> None:
    Authority.create(tmp_path / "other", "fleet")
    mine = authority.folder / "ca.pem"
    other = (tmp_path / "other" / "ca.pem").read_bytes()
    mine.write_bytes(mine.read_bytes() + other)
    Authority(authority.folder)
    mine.write_bytes(other)
    with pytest.raises(ConfigError, match=r"ca.key is not the key of ca.pem") as caught:
        Authority(authority.folder)
    assert "from a backup" in str(caught.value.hint)
    (authority.folder / "ca.key").unlink()  # as on a host that signs nothing
    Authority(authority.folder)


def test_a_server_says_which_changed_files_are_in_force(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    folder = authority.issue("c1", Role.COORDINATOR, ["localhost"])
    served = _ServerFiles(files_of(folder), True)
    assert served.changed() is None
    other = Authority.create(tmp_path / "other", "fleet")
    with (folder / "ca.pem").open("ab") as file:
        file.write(other.authority_pem)
    assert served.changed() is not None
    assert served.changed() is None
    said = f"changed, and in force now: {folder / 'ca.pem'}"
    assert [record.getMessage() for record in caplog.records] == [said]


def test_a_coordinator_does_not_start_with_a_list_that_is_none(
    authority: Authority, tmp_path: Path
) -> None:
    other = Authority.create(tmp_path / "other", "fleet")
    with pytest.raises(ConfigError, match="not signed by authority"):
        Revocations(other.revoked_file, lambda: [authority.certificate])
    with pytest.raises(ConfigError, match="cannot be read"):
        Revocations(tmp_path / "missing", lambda: [authority.certificate])
    assert not Revocations(None, list).has(
        identity(authority.issue("x", Role.VIEWER) / "cert.pem")
    )


# Joining.


def request(name: str = "a1") -> bytes:
    return build_request(new_key(), name)


def test_a_token_makes_one_certificate_with_its_own_name_and_role(
    authority: Authority,
) -> None:
    token = authority.token("a1", Role.AGENT, DAY)
    # the request's subject is nobody's business
    signed = authority.enrol(token.proof, request("root"))
    assert (signed.identity.name, signed.identity.role) == ("a1", Role.AGENT)
    assert signed.authority_pem == authority.authority_pem
    with pytest.raises(AccessRefused, match="unknown, used or expired"):
        authority.enrol(token.proof, request())
    assert authority.valid("a1") is not None


def test_of_many_who_use_one_token_at_once_one_gets_in(authority: Authority) -> None:
    token = authority.token("a1", Role.AGENT, DAY)
    requests = [request() for _ in range(16)]

    def attempt(request_pem: bytes) -> Signed | None:
        try:
            return Authority(authority.folder).enrol(token.proof, request_pem)
        except AccessRefused:
            return None

    with ThreadPoolExecutor(16) as executor:
        signed = [one for one in executor.map(attempt, requests) if one is not None]
    assert len(signed) == 1
    assert len(authority.issued()) == 1


def test_a_bad_request_does_not_use_up_the_token(authority: Authority) -> None:
    token = authority.token("a1", Role.AGENT, DAY)
    weak = build_request(ec.generate_private_key(ec.SECP224R1()), "a1")
    good = request()
    middle = len(good) // 2
    damaged = good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1 :]
    for bad in (b"", b"x" * 100, weak, damaged):
        with pytest.raises(AccessRefused):
            authority.enrol(token.proof, bad)
    assert authority.enrol(token.proof, good).identity.name == "a1"


def test_a_token_expires_and_a_wrong_secret_is_none(
    authority: Authority, clock: Clock
) -> None:
    token = authority.token("a1", Role.AGENT, timedelta(hours=1))
    for proof in (
        "",
        ".",
        token.token_id,
        f"{token.token_id}.",
        f"{token.token_id}.{token.secret[:-1]}",
        f"{token.token_id}.{'x' * 10_000}",
        f"{'0' * 16}.{token.secret}",
        f"../tokens/{token.token_id}.{token.secret}",
        f"..{token.secret}",
    ):
        with pytest.raises(AccessRefused, match="unknown, used or expired"):
            authority.enrol(proof, request())
    clock.now_utc += timedelta(hours=2)
    with pytest.raises(AccessRefused, match="unknown, used or expired"):
        authority.enrol(token.proof, request())


def test_a_revoked_name_has_no_token_either(authority: Authority) -> None:
    token = authority.token("a1", Role.AGENT, DAY)
    assert authority.revoke("a1") == 1
    with pytest.raises(AccessRefused):
        authority.enrol(token.proof, request())


def test_the_secret_is_in_no_file_of_the_authority(authority: Authority) -> None:
    token = authority.token("a1", Role.AGENT, DAY)
    authority.enrol(token.proof, request())
    again = authority.token("a2", Role.AGENT, DAY)
    for path in everything_in(authority.folder):
        if path.is_file():
            content = path.read_bytes()
            assert token.secret.encode() not in content
            assert again.secret.encode() not in content
    assert again.secret not in repr(again)


def test_renewal_by_the_wire_ends_with_revocation(authority: Authority) -> None:
    authority.enrol(authority.token("a1", Role.AGENT, DAY).proof, request())
    assert authority.renew_for("a1", Role.AGENT, request()).identity.name == "a1"
    authority.revoke("a1")
    with pytest.raises(AccessRefused, match="was revoked"):
        authority.renew_for("a1", Role.AGENT, request())


def test_a_tokens_text_holds_all_of_it(authority: Authority) -> None:
    token = authority.token("a1", Role.AGENT, DAY, "load.example.com:7401")
    assert parse_token(f" {token.text()}\n", "x") == token
    assert isinstance(token, JoinToken)
    text = token.text()
    for bad in ("", "ldapslam-join-1:", text[:-5], text[1:], text[:40] + "é" + text):
        with pytest.raises(ConfigError, match="is no join token") as caught:
            parse_token(bad, "file.join")
        # a message goes to logs
        assert token.secret not in str(caught.value)


# What a process connects with.


def test_files_that_do_not_belong_together_are_refused(
    authority: Authority, tmp_path: Path
) -> None:
    mine = files_of(authority.issue("a1", Role.AGENT))
    other = files_of(authority.issue("a2", Role.AGENT))
    missing = tmp_path / "missing.pem"
    garbage = tmp_path / "garbage.pem"
    garbage.write_bytes(b"\0" * 100)
    for files, what in (
        (TlsFiles(mine.certificate, other.key, mine.authority), "is not the key of"),
        (TlsFiles(missing, mine.key, mine.authority), "cannot be read"),
        (TlsFiles(mine.certificate, missing, mine.authority), "cannot be read"),
        (TlsFiles(mine.certificate, mine.key, missing), "cannot be read"),
        (TlsFiles(garbage, mine.key, mine.authority), "is no certificate"),
        (TlsFiles(mine.certificate, garbage, mine.authority), "is no private key"),
        (TlsFiles(mine.certificate, mine.key, garbage), "is no certificate"),
        (TlsFiles(mine.authority, mine.key, mine.authority), "is not the key of"),
    ):
        with pytest.raises(ConfigError, match=what):
            files.identity()


def test_an_expired_certificate_is_refused_where_it_is_used(
    tmp_path: Path, clock: Clock
) -> None:
    clock.now_utc -= 30 * DAY
    authority = Authority.create(tmp_path, "fleet", now_utc=clock)
    files = files_of(authority.issue("a1", Role.AGENT, lifetime=DAY))
    with pytest.raises(ConfigError, match="expired at") as caught:
        check_client(files, Role.AGENT)
    assert caught.value.hint == "renew it: ldapslam fleet pki issue --name a1"


def test_an_authority_is_no_caller(authority: Authority) -> None:
    with pytest.raises(AccessRefused, match="names no role"):
        identity_of(Authority.create(authority.folder / "o", "other").certificate)


@pytest.mark.parametrize("bits", [1024, 2047])
def test_a_short_rsa_key_is_signed_by_nobody(bits: int) -> None:
    key = rsa.generate_private_key(65537, bits)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a1")])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject)
    pem = request.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
    with pytest.raises(AccessRefused, match="key is weak"):
        request_key(pem)


def test_a_request_with_somebody_elses_key_is_signed_by_nobody() -> None:
    """Its bytes are in order, but for the signature."""
    ours = x509.load_pem_x509_csr(build_request(new_key(), "a1"))
    der = ours.public_bytes(Encoding.DER)
    body = ours.tbs_certrequest_bytes
    theirs = x509.load_pem_x509_csr(build_request(new_key(), "a1"))
    place = der.index(body)
    forged_body = theirs.tbs_certrequest_bytes
    assert len(forged_body) == len(body)
    forged = der[:place] + forged_body + der[place + len(body) :]
    pem = x509.load_der_x509_csr(forged).public_bytes(Encoding.PEM)
    with pytest.raises(AccessRefused, match="not signed by its key"):
        request_key(pem)


def test_a_certificate_has_one_role() -> None:
    key, now_utc = new_key(), datetime.now(UTC)
    roles = [f"urn:ldapslam:role:{role}" for role in ("agent", "operator")]
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a1")]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a1")]))
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(now_utc - DAY)
        .not_valid_after(now_utc + DAY)
    )

    def with_roles(*names: str) -> x509.Certificate:
        uris = [x509.UniformResourceIdentifier(one) for one in names]
        alternatives = x509.SubjectAlternativeName(uris)
        return builder.add_extension(alternatives, critical=False).sign(
            key, hashes.SHA256()
        )

    assert identity_of(with_roles(roles[0])).role is Role.AGENT
    for several in (roles, roles[::-1], [roles[0], roles[0]]):
        with pytest.raises(AccessRefused, match="names no role"):
            identity_of(with_roles(*several))
