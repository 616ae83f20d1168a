# SPDX-License-Identifier: Apache-2.0
"""A look at somebody's directory: which suffix it has, and a sample of its entries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ldap
from ldap.dn import is_dn

from ldapslam.base.errors import TargetError
from ldapslam.directory.access import connect, error_text
from ldapslam.jobs.connection_settings import ConnectionSettings

#: Attributes that clients search by, the most usual first.
LOOKED_UP = ("uid", "sAMAccountName", "mail", "cn")
#: Of servers themselves.
_OWN_TREES = ("cn=config", "cn=monitor", "cn=changelog", "cn=accesslog", "cn=schema")
#: Ends of a search that still has entries.
_PARTIAL = (ldap.SIZELIMIT_EXCEEDED, ldap.ADMINLIMIT_EXCEEDED, ldap.TIMELIMIT_EXCEEDED)


@dataclass(frozen=True)
class Sample:
    """Values of one attribute, as they are in entries below `base`."""

    base: str
    attribute: str
    #: Each once, in the order in which they came.
    values: tuple[str, ...]
    #: Entries that were read.
    entries: int
    #: A limit of the server's ended the sample before it had as many as were wanted.
    is_limited: bool = False


def sample_of(
    uri: str, access: ConnectionSettings, base: str | None, most: int
) -> Sample:
    """Reads at most so many entries; without a base, of the server's first suffix that
    has any that may be read. TargetError and those of `connect`."""
    connection = connect(uri, access)
    try:
        bases = [base] if base is not None else list(_suffixes(connection))
        for one in bases:
            try:
                found = _sample(connection, one, most)
            except ldap.INSUFFICIENT_ACCESS:
                if base is not None:
                    raise
                continue
            if found is not None:
                return found
    except ldap.LDAPError as error:
        hint = "it may need an identity: -D DN and -y FILE"
        if isinstance(error, ldap.CONFIDENTIALITY_REQUIRED):
            # a password that is sent now is sent in the clear
            hint = "the server wants TLS first: -Z with --ca-file, or an ldaps:// URI"
        raise TargetError(
            f"server {uri!r} does not answer a search: {error_text(error)}", hint=hint
        ) from error
    finally:
        connection.unbind_s()
    where = f"below {base!r}" if base is not None else f"in {bases or 'any suffix'}"
    names = ", ".join(LOOKED_UP)
    raise TargetError(
        f"no entry with one of {names} can be read {where} of {uri!r}",
        hint="name where they are with --base, and who may read them with -D",
    )


def _suffixes(connection: Any) -> Iterator[str]:
    [(_, root)] = connection.search_s(
        "", ldap.SCOPE_BASE, "(objectClass=*)", ["namingContexts"]
    )
    found = {name.lower(): values for name, values in root.items()}
    for value in found.get("namingcontexts", ()):
        suffix = value.decode("utf-8", "replace")
        if is_dn(suffix) and not suffix.lower().startswith(_OWN_TREES):
            yield suffix


def _sample(connection: Any, base: str, most: int) -> Sample | None:
    present = "".join(f"({name}=*)" for name in LOOKED_UP)
    request = connection.search_ext(
        base, ldap.SCOPE_SUBTREE, f"(|{present})", list(LOOKED_UP), sizelimit=most
    )
    entries: list[Mapping[str, Sequence[bytes]]] = []
    is_limited = False
    try:
        while True:
            kind, found, *_ = connection.result3(request, all=0)
            entries += [attributes for dn, attributes in found if dn is not None]
            if kind == ldap.RES_SEARCH_RESULT:
                break
    except _PARTIAL:
        is_limited = len(entries) < most
    except (ldap.NO_SUCH_OBJECT, ldap.REFERRAL):
        return None
    by_name = [{name.lower(): each for name, each in one.items()} for one in entries]
    samples = []
    for name in LOOKED_UP:
        values = [one[name.lower()][0] for one in by_name if one.get(name.lower())]
        texts = dict.fromkeys(filter(None, map(_text, values)))
        samples.append(Sample(base, name, tuple(texts), len(entries), is_limited))
    # what nearly all of them have; the more usual one of two
    best = max(samples, key=lambda one: len(one.values))
    usual = [one for one in samples if 2 * len(one.values) >= len(best.values)]
    return usual[0] if best.values else None


def _text(value: bytes) -> str:
    """Empty where a line of a file cannot have it."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return ""
    return "" if set(text) & {"\n", "\r", "\0"} else text
