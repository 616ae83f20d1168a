# SPDX-License-Identifier: Apache-2.0
"""The folder of a fleet's own certificate authority, and what is done with it.

    ca.pem, ca.key       the authority; who has the key can be anybody
    crl.pem              who is revoked
    certificates/        everything ever signed, by serial number
    issued/NAME/         cert.pem, key.pem, ca.pem of NAME, to be taken to its host
    tokens/              join tokens that were not used yet, their secrets hashed

All of it is for its owner alone. A name has one holder at a time: it cannot be issued
again before it is revoked or expired. Every change is made under a lock, and files are
replaced whole, so that a coordinator may read them at any time.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding

from ldapslam.base.errors import AccessRefused, ConfigError
from ldapslam.base.files import errors_of, locked, make_private_folder, write_private
from ldapslam.base.inert import parse_json
from ldapslam.base.time_zone import clock_text, utc_now
from ldapslam.transport.pki import token as tokens
from ldapslam.transport.pki.certificate import (
    AUTHORITY_FILE,
    BACKDATE,
    CERTIFICATE_FILE,
    KEY_FILE,
    Identity,
    Role,
    build_authority,
    build_leaf,
    certificate_pem,
    check_name,
    hosts_of,
    identity_of,
    key_pem,
    new_key,
    public_key_bytes,
    read_certificate,
    read_key,
    request_key,
)
from ldapslam.transport.pki.revocation import is_signed_by, lists_in
from ldapslam.transport.pki.token import JoinToken

AUTHORITY_LIFETIME = timedelta(days=3650)
LEAF_LIFETIME = timedelta(days=365)
#: Agents with a join token renew by themselves.
JOINED_LIFETIME = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Signed:
    """A certificate that was just made."""

    identity: Identity
    certificate_pem: bytes
    authority_pem: bytes


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate of the register."""

    identity: Identity
    hosts: Sequence[str]
    is_revoked: bool

    def state(self, now_utc: datetime) -> str:
        if self.is_revoked:
            return "revoked"
        return "expired" if now_utc > self.identity.not_after_utc else "valid"


class Authority:
    """An authority that is there; `create` makes one."""

    def __init__(self, folder: Path, now_utc: Callable[[], datetime] = utc_now) -> None:
        """ConfigError when there is none, or its files cannot be used."""
        self.folder = folder
        self._now_utc = now_utc
        if not (folder / AUTHORITY_FILE).exists():
            raise ConfigError(
                f"{folder}: there is no certificate authority",
                hint="make one: ldapslam fleet pki init",
            )
        self.certificate = read_certificate(folder / AUTHORITY_FILE)
        self._check_key()
        self.authority_pem = certificate_pem(self.certificate)

    def _check_key(self) -> None:
        """The key may be elsewhere: only who signs needs it."""
        path = self.folder / "ca.key"
        if not path.exists():
            return
        ours, theirs = read_key(path).public_key(), self.certificate.public_key()
        if public_key_bytes(ours) != public_key_bytes(theirs):
            raise ConfigError(
                f"{self.folder}: ca.key is not the key of {AUTHORITY_FILE}",
                hint=f"put the authority's own {AUTHORITY_FILE} back, from a backup; "
                "a file with the certificates of several authorities belongs beside "
                "the certificates issued by them, not in this folder",
            )

    @classmethod
    def create(
        cls,
        folder: Path,
        name: str,
        lifetime: timedelta = AUTHORITY_LIFETIME,
        now_utc: Callable[[], datetime] = utc_now,
    ) -> Authority:
        """Make the folder; ConfigError when there is an authority in it already."""
        if not 0 < len(name) <= 64:
            raise ConfigError(f"name {name[:80]!r}: expected 1 to 64 characters")
        make_private_folder(folder)
        with locked(folder):
            for file in (AUTHORITY_FILE, "ca.key"):
                if (folder / file).exists():
                    raise ConfigError(
                        f"{folder}: there is a certificate authority already",
                        hint="give another --pki, or remove the folder: all its "
                        "certificates are worthless then",
                    )
            for inner in ("certificates", "issued", "tokens"):
                make_private_folder(folder / inner)
            key = new_key()
            certificate = build_authority(key, name, now_utc(), lifetime)
            write_private(folder / "ca.key", key_pem(key))
            write_private(folder / AUTHORITY_FILE, certificate_pem(certificate))
            authority = cls(folder, now_utc)
            authority._write_revoked([])
        return authority

    @property
    def revoked_file(self) -> Path:
        return self.folder / "crl.pem"

    def bundle(self, name: str) -> Path:
        return self.folder / "issued" / name

    def issued(self) -> list[Issued]:
        """All certificates, by name; of each first the unrevoked ones, the newest
        first."""
        revoked = {entry.serial_number for entry in self._revoked()}
        found = []
        for path in sorted((self.folder / "certificates").glob("*.pem")):
            certificate = read_certificate(path)
            identity = identity_of(certificate)
            is_revoked = identity.serial in revoked
            found.append(Issued(identity, hosts_of(certificate), is_revoked))
        found.sort(key=lambda one: one.identity.not_before_utc, reverse=True)
        return sorted(found, key=lambda one: (one.identity.name, one.is_revoked))

    def valid(self, name: str) -> Issued | None:
        now_utc = self._now_utc()
        for one in self.issued():
            if one.identity.name == name and one.state(now_utc) == "valid":
                return one
        return None

    def unrevoked(self, name: str) -> Issued | None:
        """The newest certificate of this name that is not revoked; it may be over."""
        for one in self.issued():
            if one.identity.name == name and not one.is_revoked:
                return one
        return None

    def issue(
        self,
        name: str,
        role: Role,
        hosts: Sequence[str] = (),
        lifetime: timedelta = LEAF_LIFETIME,
    ) -> Path:
        """A new key and certificate; the folder that has them."""
        self._check_new(name, role, hosts)
        key = new_key()
        with locked(self.folder):
            self._check_free(name)
            signed = self._sign(key.public_key(), name, role, hosts, lifetime)
            folder = self.bundle(name)
            shutil.rmtree(folder, ignore_errors=True)
            make_private_folder(folder)
            write_private(folder / KEY_FILE, key_pem(key))
            write_private(folder / CERTIFICATE_FILE, signed.certificate_pem)
            write_private(folder / AUTHORITY_FILE, self.authority_pem)
        return folder

    def renew(self, name: str, lifetime: timedelta = LEAF_LIFETIME) -> Path:
        """A new certificate for NAME's key, role and hosts; the file. A revoked one
        needs a new key."""
        with locked(self.folder):
            last = self.unrevoked(name)
            if last is None:
                raise ConfigError(
                    f"{name!r} has no certificate that could be renewed",
                    hint="issue a new one: ldapslam fleet pki issue",
                )
            certificate = read_certificate(self._register_path(last.identity.serial))
            signed = self._sign(
                certificate.public_key(), name, last.identity.role, last.hosts, lifetime
            )
            make_private_folder(self.bundle(name))
            path = self.bundle(name) / CERTIFICATE_FILE
            write_private(path, signed.certificate_pem)
            write_private(self.bundle(name) / AUTHORITY_FILE, self.authority_pem)
        return path

    def revoke(self, name: str) -> int:
        """Revoke all of NAME's certificates and tokens and remove its files; how many
        were valid."""
        now_utc = self._now_utc()
        with locked(self.folder):
            serials = [
                one.identity.serial
                for one in self.issued()
                if one.identity.name == name and one.state(now_utc) == "valid"
            ]
            unused = [path for path in self._tokens() if _holder(path) == name]
            if not serials and not unused:
                raise ConfigError(
                    f"{name!r} has no valid certificate, and no token",
                    hint="`ldapslam fleet pki list` shows who has",
                )
            entries = list(self._revoked())
            for serial in serials:
                entry = x509.RevokedCertificateBuilder().serial_number(serial)
                entries.append(entry.revocation_date(now_utc).build())
            self._write_revoked(entries)
            with errors_of(self.folder / "tokens"):
                for path in unused:
                    path.unlink()
            shutil.rmtree(self.bundle(name), ignore_errors=True)
        return len(serials) + len(unused)

    def token(
        self, name: str, role: Role, lifetime: timedelta, enrol: str = ""
    ) -> JoinToken:
        self._check_new(name, role, ())
        made = tokens.new_token(name, role, self.authority_pem, enrol)
        until_utc = self._now_utc() + lifetime
        kept = {
            "name": name,
            "role": str(role),
            "secret_sha256": tokens.hashed(made.secret),
            "until_utc": until_utc.isoformat(),
        }
        with locked(self.folder):
            self._check_free(name)
            path = self.folder / "tokens" / made.token_id
            write_private(path, json.dumps(kept).encode())
        return made

    def enrol(self, proof: str, request_pem: bytes) -> Signed:
        """The first certificate of a token's holder; AccessRefused. A request that
        cannot be signed does not use the token up."""
        # first: a stranger's request is not worth the work
        self._claimed(proof)
        public_key = request_key(request_pem)
        with locked(self.folder):
            name, role, path = self._claimed(proof)
            try:
                self._check_free(name)
            except ConfigError as error:
                raise AccessRefused(str(error), hint=error.hint) from error
            # before signing: a failure loses the token, never allows it twice
            with errors_of(path):
                path.unlink()
            return self._sign(public_key, name, role, (), JOINED_LIFETIME)

    def renew_for(self, name: str, role: Role, request_pem: bytes) -> Signed:
        """A new certificate for the holder of the old one; AccessRefused."""
        public_key = request_key(request_pem)
        with locked(self.folder):
            if self.valid(name) is None:  # revoked a moment ago
                raise AccessRefused(f"the certificate of {name!r} was revoked")
            return self._sign(public_key, name, role, (), JOINED_LIFETIME)

    def _tokens(self) -> list[Path]:
        return [
            path
            for path in (self.folder / "tokens").iterdir()
            if not path.name.startswith(".")
        ]

    def _claimed(self, proof: str) -> tuple[str, Role, Path]:
        """The name, role and file of the token; AccessRefused when it is not good."""
        refusal = AccessRefused(
            "the join token is not good: unknown, used or expired",
            hint="make a new token on the coordinator's host: "
            "ldapslam fleet pki token --name …",
        )
        parts = tokens.split_proof(proof)
        if parts is None:
            raise refusal
        token_id, secret = parts
        path = self.folder / "tokens" / token_id
        try:
            kept = parse_json(path.read_bytes())
            until_utc = datetime.fromisoformat(kept["until_utc"])
            is_match = tokens.matches(secret, kept["secret_sha256"])
            name, role = str(kept["name"]), Role(kept["role"])
        except (OSError, ValueError, KeyError, TypeError):
            tokens.matches(secret, "")
            raise refusal from None
        if not is_match or self._now_utc() > until_utc:
            raise refusal
        return name, role, path

    def _register_path(self, serial: int) -> Path:
        return self.folder / "certificates" / f"{serial:040x}.pem"

    def _sign(
        self,
        public_key: CertificatePublicKeyTypes,
        name: str,
        role: Role,
        hosts: Sequence[str],
        lifetime: timedelta,
    ) -> Signed:
        now_utc = self._now_utc()
        if now_utc > self.certificate.not_valid_after_utc:
            raise ConfigError(
                f"{self.folder}: the authority itself expired at "
                f"{clock_text(self.certificate.not_valid_after_utc)}",
                hint="make a new one, in another folder: ldapslam fleet pki init",
            )
        certificate = build_leaf(
            self.certificate,
            read_key(self.folder / "ca.key"),
            public_key,
            name,
            role,
            hosts,
            now_utc - BACKDATE,
            min(now_utc + lifetime, self.certificate.not_valid_after_utc),
        )
        identity = identity_of(certificate)
        content = certificate_pem(certificate)
        # first the register: others cannot be revoked
        write_private(self._register_path(identity.serial), content)
        return Signed(identity, content, self.authority_pem)

    def _check_new(self, name: str, role: Role, hosts: Sequence[str]) -> None:
        check_name(name)
        if role is Role.COORDINATOR and not hosts:
            raise ConfigError(
                "a coordinator's certificate needs the hosts by which it is reached",
                hint="give --host NAME or --host ADDRESS, each that agents use",
            )
        if role is not Role.COORDINATOR and hosts:
            raise ConfigError(
                f"hosts are for a coordinator's certificate, not for {role}'s",
                hint="leave out --host",
            )

    def _check_free(self, name: str) -> None:
        holder = self.valid(name)
        if holder is not None:
            raise ConfigError(
                f"{name!r} has a certificate already, valid until "
                f"{clock_text(holder.identity.not_after_utc)}",
                hint=f"ldapslam fleet pki issue --name {name} renews it; or revoke it",
            )

    def _revoked(self) -> list[x509.RevokedCertificate]:
        """What the authority's own list has; ConfigError when that is not there."""
        for one in lists_in(self.revoked_file):
            if is_signed_by(one, self.certificate):
                return list(one)
        raise ConfigError(
            f"{self.revoked_file}: has no list of this authority",
            hint="put its own list back, from a backup, before those of others",
        )

    def _others_lists(self) -> list[x509.CertificateRevocationList]:
        if not self.revoked_file.exists():
            return []
        found = lists_in(self.revoked_file)
        return [one for one in found if not is_signed_by(one, self.certificate)]

    def _write_revoked(self, entries: Sequence[x509.RevokedCertificate]) -> None:
        now_utc = self._now_utc()
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self.certificate.subject)
            .last_update(now_utc - BACKDATE)
            # it is renewed with each change
            .next_update(self.certificate.not_valid_after_utc)
        )
        for entry in entries:
            builder = builder.add_revoked_certificate(entry)
        signed = builder.sign(read_key(self.folder / "ca.key"), hashes.SHA256())
        lists = [signed, *self._others_lists()]
        content = b"".join(one.public_bytes(Encoding.PEM) for one in lists)
        write_private(self.revoked_file, content)


def _holder(token_path: Path) -> str | None:
    """The name in a token's file, or None."""
    try:
        return str(parse_json(token_path.read_bytes())["name"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
