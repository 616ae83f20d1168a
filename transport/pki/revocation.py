# SPDX-License-Identifier: Apache-2.0
"""Revoked certificates: the authority's list (CRL), read when it changes.

A list that cannot be read, or is not signed by the authority, never replaces a good
one.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from cryptography import x509

from ldapslam.base.errors import ConfigError
from ldapslam.base.files import stamp
from ldapslam.transport.pki.certificate import Identity, read_pem

_log = logging.getLogger(__name__)

_BEGIN = b"-----BEGIN X509 CRL-----"
_BLOCK = re.compile(rb"-----BEGIN X509 CRL-----.*?-----END X509 CRL-----", re.DOTALL)


class Revocations:
    """The revoked certificates of one or more authorities."""

    def __init__(
        self,
        path: Path | None,
        authorities: Callable[[], Sequence[x509.Certificate]],
    ) -> None:
        """`path` None: nothing is revoked. ConfigError when the list cannot be used.
        `authorities` are asked for with each list: there may be a new one."""
        self._path = path
        self._authorities = authorities
        self._stamp: tuple[int, int, int] | None = None
        self._revoked: frozenset[tuple[bytes, int]] = frozenset()
        #: The list that is not in force, and why; None: the newest one is.
        self._problem: tuple[tuple[int, int, int] | None, str] | None = None
        if path is not None:
            self._stamp = stamp(path)
            self._revoked = self._read(path)

    def refresh(self) -> None:
        """Take a changed list; of one that cannot be used, log it and keep the last."""
        if self._path is None:
            return
        found = stamp(self._path)
        if found == self._stamp:
            return
        try:
            self._revoked = self._read(self._path)
        except ConfigError as error:
            # tried again each time: an authority that it lacks may come
            if self._problem != (found, str(error)):
                _log.error("%s; the last one stays in force", error)
            self._problem = found, str(error)
        else:
            self._stamp, self._problem = found, None
            _log.info("%s: %d certificates are revoked", self._path, len(self._revoked))

    def has(self, identity: Identity) -> bool:
        """Whether it is revoked, or a certificate between it and its authority is."""
        own = identity.issuer, identity.serial
        return any(one in self._revoked for one in (own, *identity.between))

    def _read(self, path: Path) -> frozenset[tuple[bytes, int]]:
        """Of all lists in the file: one authority follows another."""
        lists = lists_in(path)
        return frozenset().union(*(self._revoked_by(path, one) for one in lists))

    def _revoked_by(
        self, path: Path, revocations: x509.CertificateRevocationList
    ) -> frozenset[tuple[bytes, int]]:
        if not any(
            is_signed_by(revocations, authority) for authority in self._authorities()
        ):
            raise ConfigError(
                f"{path}: a list of revoked certificates is not signed by authority "
                f"{revocations.issuer.rfc4514_string()!r}, or that is not trusted",
                hint="give the certificates of all authorities in one file, ca.pem, or "
                "behind the coordinator's own in its cert.pem",
            )
        issuer = revocations.issuer.public_bytes()
        return frozenset((issuer, entry.serial_number) for entry in revocations)


def lists_in(path: Path) -> list[x509.CertificateRevocationList]:
    """The lists of a file, one after the other; ConfigError."""
    content = read_pem(path)
    blocks = _BLOCK.findall(content) or [content]
    if content.count(_BEGIN) > len(blocks):
        raise ConfigError(f"{path}: a list of revoked certificates is cut off")
    try:
        return [x509.load_pem_x509_crl(one) for one in blocks]
    except ValueError as error:
        raise ConfigError(
            f"{path}: is no list of revoked certificates: {error}",
            hint="give a CRL as PEM",
        ) from error


def is_signed_by(
    revocations: x509.CertificateRevocationList, authority: x509.Certificate
) -> bool:
    if authority.subject != revocations.issuer:
        return False
    key = authority.public_key()
    try:
        return revocations.is_signature_valid(key)  # type: ignore[arg-type]
    except TypeError:  # a key of a kind that signs no such lists
        return False
