# SPDX-License-Identifier: Apache-2.0
"""From a certificate to an authority, through others in between (RFC 5280, section 6).

For what is checked without TLS, whose libraries do the same. Names are matched and
signatures verified; a certificate in between must be an authority's, for so many below
it, valid then, and have no critical extension that is not looked at here. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.x509.oid import ExtendedKeyUsageOID, ExtensionOID

#: Between a certificate and an authority.
_MOST_BETWEEN = 5
_LOOKED_AT = (
    ExtensionOID.BASIC_CONSTRAINTS,
    ExtensionOID.KEY_USAGE,
    ExtensionOID.EXTENDED_KEY_USAGE,
)


def leads_to(
    certificates: Sequence[x509.Certificate],
    authorities: Sequence[x509.Certificate],
    at_utc: datetime,
) -> bool:
    """Whether one of the authorities issued the first certificate, itself or through
    some of the others."""
    first, *others = certificates
    return _leads_to(first, others[: 2 * _MOST_BETWEEN], authorities, at_utc, 0)


def _leads_to(
    certificate: x509.Certificate,
    others: Sequence[x509.Certificate],
    authorities: Sequence[x509.Certificate],
    at_utc: datetime,
    below: int,
) -> bool:
    if any(
        _allows(authority, below) and _issued(certificate, authority)
        for authority in authorities
    ):
        return True
    return below < _MOST_BETWEEN and any(
        _may_issue(other, below, at_utc)
        and _issued(certificate, other)
        and _leads_to(other, _without(others, other), authorities, at_utc, below + 1)
        for other in others
    )


def issuers_in(
    certificate: x509.Certificate, others: Sequence[x509.Certificate]
) -> Iterator[x509.Certificate]:
    """Those of the others that it may have been issued through, by their names."""
    wanted, left = {certificate.issuer}, list(others)
    while found := [one for one in left if one.subject in wanted]:
        left = [one for one in left if one not in found]
        wanted = {one.issuer for one in found}
        yield from found


def _without(
    others: Sequence[x509.Certificate], one: x509.Certificate
) -> list[x509.Certificate]:
    return [other for other in others if other != one]


def _issued(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _allows(issuer: x509.Certificate, below: int) -> bool:
    """So many certificates between it and the first one, whatever it says of itself."""
    try:
        found = issuer.extensions.get_extension_for_class(x509.BasicConstraints).value
    except (x509.ExtensionNotFound, ValueError):
        return True
    return found.path_length is None or below <= found.path_length


def _may_issue(issuer: x509.Certificate, below: int, at_utc: datetime) -> bool:
    if not issuer.not_valid_before_utc <= at_utc <= issuer.not_valid_after_utc:
        return False
    try:
        extensions = issuer.extensions
        if any(one.critical and one.oid not in _LOOKED_AT for one in extensions):
            return False
        basic = extensions.get_extension_for_class(x509.BasicConstraints).value
        if not basic.ca or not _allows(issuer, below):
            return False
        usage = extensions.get_extension_for_class(x509.KeyUsage).value
    except (x509.ExtensionNotFound, ValueError):
        return False
    try:
        purposes = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return usage.key_cert_sign
    for_servers = (
        ExtendedKeyUsageOID.SERVER_AUTH,
        ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,
    )
    return usage.key_cert_sign and any(one in purposes for one in for_servers)
