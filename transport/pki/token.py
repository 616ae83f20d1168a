# SPDX-License-Identifier: Apache-2.0
"""A join token: what somebody needs to get a first certificate, as one line of text.

It has the authority, so that the coordinator is known before it is told anything, and a
secret that is good once. The authority keeps only its SHA-256: 256 random bits need no
slower hash.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
import secrets
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509

from ldapslam.base.errors import ConfigError
from ldapslam.base.inert import parse_json
from ldapslam.transport.pki.certificate import Role, read_pem

_PREFIX = "ldapslam-join-1:"
_ID = re.compile(r"[0-9a-f]{16}")
_MAX_TOKEN = 64 * 1024


@dataclass(frozen=True, slots=True)
class JoinToken:
    """What its bearer knows."""

    token_id: str
    secret: str
    name: str
    role: Role
    authority_pem: bytes
    #: HOST:PORT where it is good; empty: the coordinator's host, default port.
    enrol: str = ""

    @property
    def proof(self) -> str:
        """What is sent; only the holder has it."""
        return f"{self.token_id}.{self.secret}"

    def text(self) -> str:
        fields = {
            "id": self.token_id,
            "secret": self.secret,
            "name": self.name,
            "role": str(self.role),
            "ca": self.authority_pem.decode("ascii"),
            "enrol": self.enrol,
        }
        packed = json.dumps(fields, separators=(",", ":")).encode()
        return _PREFIX + base64.urlsafe_b64encode(packed).decode("ascii")

    def __repr__(self) -> str:
        """Without the secret: tracebacks and logs show values."""
        return f"JoinToken({self.token_id!r}, name={self.name!r}, role={self.role!r})"


def new_token(name: str, role: Role, authority_pem: bytes, enrol: str) -> JoinToken:
    return JoinToken(
        secrets.token_hex(8),
        secrets.token_urlsafe(32),
        name,
        role,
        authority_pem,
        enrol,
    )


def hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def matches(secret: str, kept: str) -> bool:
    """In constant time."""
    return hmac.compare_digest(hashed(secret), kept)


def split_proof(proof: str) -> tuple[str, str] | None:
    token_id, dot, secret = proof.partition(".")
    if not dot or not _ID.fullmatch(token_id) or not 0 < len(secret) <= 256:
        return None
    return token_id, secret


def parse_token(text: str, source: str) -> JoinToken:
    """ConfigError, without the text, when it is no token."""
    text = text.strip()
    try:
        if not text.startswith(_PREFIX) or len(text) > _MAX_TOKEN:
            raise ValueError("its beginning")
        fields = parse_json(base64.b64decode(text.removeprefix(_PREFIX), b"-_", True))
        token = JoinToken(
            token_id=str(fields["id"]),
            secret=str(fields["secret"]),
            name=str(fields["name"]),
            role=Role(fields["role"]),
            authority_pem=str(fields["ca"]).encode("ascii"),
            enrol=str(fields["enrol"]),
        )
        x509.load_pem_x509_certificate(token.authority_pem)
    except (ValueError, KeyError, TypeError, binascii.Error) as error:
        raise ConfigError(
            f"{source}: is no join token",
            hint="make one on the coordinator's host: `ldapslam fleet pki token`",
        ) from error
    if split_proof(token.proof) is None:
        raise ConfigError(f"{source}: is no join token: its id or secret is not one")
    return token


def read_token(path: Path) -> JoinToken:
    return parse_token(read_pem(path).decode("utf-8", "replace"), str(path))
