# SPDX-License-Identifier: Apache-2.0
"""A look at somebody's directory: which suffix it has, and a sample of its entries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ldap
from ldap.dn import is_dn, str2dn

from ldapslam.base.errors import TargetError
from ldapslam.directory.access import connect, error_text
from ldapslam.jobs.connection_settings import ConnectionSettings

#: Attributes that clients search by, the most usual first.
LOOKED_UP = ("uid", "sAMAccountName", "mail", "cn")
#: Of servers themselves.
_OWN_TREES = ("cn=config", "cn=monitor", "cn=changelog", "cn=accesslog", "cn=schema")
#: Ends of a search that still has entries, and what the server calls its limit.
_PARTIAL = {
    ldap.SIZELIMIT_EXCEEDED: "size limit",
    ldap.ADMINLIMIT_EXCEEDED: "administrative limit",
    ldap.TIMELIMIT_EXCEEDED: "time limit",
}
#: The most entries that were wanted.
SAMPLE = "sample"


@dataclass(frozen=True)
class Sample:
    """Values of one attribute, as they are in entries below `base`."""

    base: str
    attribute: str
    #: Each once, in the order in which they came.
    values: tuple[str, ...]
    #: Entries that have one.
    entries: int
    #: What ended it before all were read: `SAMPLE`, or a limit of the server's by name.
    ended_by: str | None = None


def sample_of(
    uri: str,
    access: ConnectionSettings,
    base: str | None,
    attribute: str | None,
    most: int,
) -> Sample:
    """Reads at most so many entries; without a base, of the server's first suffix that
    has any that may be read; without an attribute, by what most of them have: one of
    LOOKED_UP, or that of their RDNs. TargetError and those of `connect`."""
    connection = connect(uri, access)
    bind = access.bind
    who = bind.dn or bind.authcid or bind.mechanism or "anonymous"
    try:
        bases = [base] if base is not None else list(_suffixes(connection, who))
        for one in bases:
            try:
                found = _sample(connection, one, attribute, most)
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
    where = f"below {base!r}" if base is not None else "in any suffix"
    if base is None and bases:
        where = f"below {', '.join(map(repr, bases))}"
    what = "no entry" if attribute is None else f"no entry with {attribute!r}"
    raise TargetError(
        f"{what} can be read {where} of {uri!r}",
        hint="name where entries are with --base, who may read and search them with "
        "-D, and an attribute that they have with --attribute",
    )


def _suffixes(connection: Any, who: str) -> Iterator[str]:
    wanted = ("", ldap.SCOPE_BASE, "(objectClass=*)", ["namingContexts"])
    try:
        root = connection.search_s(*wanted)
    except (ldap.INSUFFICIENT_ACCESS, ldap.NO_SUCH_OBJECT):
        root = []
    if not root:  # access control hides it
        raise TargetError(
            f"{who} may not read the root DSE, which names the suffixes",
            hint="give -D DN -y FILE of one who may, or -b BASE",
        )
    found = {name.lower(): values for name, values in root[0][1].items()}
    for value in found.get("namingcontexts", ()):
        suffix = value.decode("utf-8", "replace")
        if is_dn(suffix) and not suffix.lower().startswith(_OWN_TREES):
            yield suffix


def _sample(
    connection: Any, base: str, attribute: str | None, most: int
) -> Sample | None:
    names = LOOKED_UP if attribute is None else (attribute,)
    present = "".join(f"({name}=*)" for name in names)
    found, ended_by = _read(connection, base, f"(|{present})", names, most)
    entries = [
        {name.lower(): _text(each[0]) for name, each in attributes.items() if each}
        for _, attributes in found
    ]
    samples = [
        _of_values(base, name, [one.get(name.lower(), "") for one in entries])
        for name in names
    ]
    if attribute is None and len(found) < most and not (found and ended_by):
        # all that have one of them: perhaps an administrator, and none of the people
        named, ended_by = _read(connection, base, "(objectClass=*)", ("1.1",), most)
        samples += [
            _of_values(base, name, values)
            for name, values in _rdns(base, [dn for dn, _ in named]).items()
        ]
    # what nearly all of them have; the more usual one of two
    best = max(samples, key=lambda one: len(one.values))
    usual = [one for one in samples if 2 * len(one.values) >= len(best.values)]
    return replace(usual[0], ended_by=ended_by) if best.values else None


def _of_values(base: str, attribute: str, values: Sequence[str]) -> Sample:
    """Of a value for each entry, empty where it has none that can be used."""
    usable = [value for value in values if value]
    return Sample(base, attribute, tuple(dict.fromkeys(usable)), len(usable))


def _rdns(base: str, dns: Sequence[str]) -> dict[str, list[str]]:
    """Attribute -> its values in the RDNs of entries below `base`."""
    found: dict[str, list[str]] = {}
    top = str2dn(base.lower())
    for dn in dns:
        if str2dn(dn.lower()) != top:
            for name, value, _ in str2dn(dn)[0]:
                found.setdefault(name, []).append(_text(value.encode()))
    return found


_Entry = tuple[str, Mapping[str, Sequence[bytes]]]


def _read(
    connection: Any, base: str, filter: str, attributes: Sequence[str], most: int
) -> tuple[list[_Entry], str | None]:
    """Entries, and what ended them if there are more; none where the base is not
    there."""
    request = connection.search_ext(
        base, ldap.SCOPE_SUBTREE, filter, list(attributes), sizelimit=most
    )
    entries: list[_Entry] = []
    try:
        while True:
            kind, found, *_ = connection.result3(request, all=0)
            entries += [(dn, each) for dn, each in found if dn is not None]
            if kind == ldap.RES_SEARCH_RESULT:
                return entries, None
    except tuple(_PARTIAL) as error:
        return entries, SAMPLE if len(entries) >= most else _PARTIAL[type(error)]
    except (ldap.NO_SUCH_OBJECT, ldap.REFERRAL):
        return [], None


def _text(value: bytes) -> str:
    """Empty where a line of a file cannot have it."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return ""
    return "" if set(text) & {"\n", "\r", "\0"} else text
