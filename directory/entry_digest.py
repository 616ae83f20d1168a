# SPDX-License-Identifier: Apache-2.0
"""What a directory holds, in a form that can be compared: digests of entries. Pure.

    entry_digest(dn, attributes)    16 bytes, equal for entries that are equal
    Fingerprint                     of a population: count and digests, in any order

Two entries are equal when their DNs are and each attribute has the same set of values.
Names of attributes count without case, by one of their names (`surname` is `sn`), and
without `;binary`. Values are compared octet by octet, which is stricter than most
matching rules. Exceptions are what servers rewrite:

- DNs (of entries, and as values of DN_ATTRIBUTES): case, spaces around `,` `+` `=`,
  runs of spaces, escapes and the order within an RDN do not count;
- objectClass: case, `top` and superior classes that another one implies do not count
  (389-DS adds them);
- operational attributes but nsAccountLock, and memberOf, are left out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b, sha256
from typing import Final

import ldap
from ldap.dn import escape_dn_chars, str2dn

#: An entry's attributes by name, as python-ldap has them.
Attributes = Mapping[str, Sequence[bytes]]

DIGEST_BYTES: Final = 16
_DIGEST_RANGE = 1 << (8 * DIGEST_BYTES)

#: Attributes whose values are DNs (RFC 4519, RFC 4524, RFC 2798), in lower case.
DN_ATTRIBUTES: Final = frozenset(
    "aliasedobjectname associatedname distinguishedname documentauthor manager member "
    "owner roleoccupant secretary seealso uniquemember".split()
)

#: The server's own attributes, in lower case. Searches do not return most of
#: them unasked, LDIF files of slapcat and db2ldif have them. What policies and replicas
#: are set to (pwdMaxAge, nsds5ReplicaId) is none of them, nor is nsAccountLock.
OPERATIONAL: Final = frozenset(
    "aci altserver authtimestamp contextcsn copiedfrom copyingfrom createtimestamp "
    "creatorsname dncomp entrycsn entrydn entryid entryuuid governingstructurerule "
    "hassubordinates memberof modifiersname modifytimestamp nsrole nsroledn nsuniqueid "
    "numsubordinates parentid structuralobjectclass subschemasubentry "
    "tombstonenumsubordinates "
    # replication's: nsds50ruv is each server's own
    "nscpentrydn nscpentrywsi nsds50ruv nsds5agmtmaxcsn nsds5replconflict "
    "nsruvreplicalastmodified "
    # of each account, kept by password policies
    "pwdaccountlockedtime pwdaccounttmplockoutend pwdchangedtime pwdendtime "
    "pwdfailuretime pwdgraceusetime pwdhistory pwdlastsuccess pwdpolicysubentry "
    "pwdreset pwdstarttime pwdtprexpireat pwdtprreset pwdtprusecount pwdtprvalidfrom "
    "pwdupdatetime".split()
)

# The other names of RFC 4519, RFC 4524 and RFC 2798 -> the one that servers answer.
_ALIASES: Final = dict(
    pair.split("=")
    for pair in "commonname=cn countryname=c domaincomponent=dc favouritedrink=drink "
    "fax=facsimiletelephonenumber gn=givenname hometelephonenumber=homephone "
    "localityname=l mobiletelephonenumber=mobile organizationalunitname=ou "
    "organizationname=o pagertelephonenumber=pager rfc822mailbox=mail "
    "stateorprovincename=st streetaddress=street surname=sn userid=uid".split()
)
# Class -> the superiors that it implies, apart from `top`.
_SUPERIORS = {
    b"inetorgperson": (b"organizationalperson", b"person"),
    b"organizationalperson": (b"person",),
    b"residentialperson": (b"person",),
}

_PASSWORD = "userpassword"

# A DN's part in which nothing is escaped, quoted, doubled or in need of it.
_PLAIN_RDN = re.compile(r'\s*([A-Za-z][A-Za-z0-9-]*)\s*=\s*([^\\"+,;<>=#]*)')
_PARENTS = 65_536
_NAMES = 4_096
# Parts of a DN, above which it is left to libldap: each is a call deeper.
_PLAIN_PARTS = 64


@dataclass(frozen=True)
class Rules:
    """What takes part in a comparison; see also the module's docstring."""

    #: userPassword as it is stored; servers that hash it each have another value.
    passwords: bool = True
    #: Names of further attributes to leave out.
    ignored: frozenset[str] = frozenset()


EVERYTHING: Final = Rules()


@dataclass(frozen=True, slots=True)
class AttributeDifference:
    """An attribute of two entries, with the values that only one of them has."""

    #: In lower case.
    attribute: str
    only_expected: tuple[bytes, ...]
    only_found: tuple[bytes, ...]


@dataclass(slots=True)
class Fingerprint:
    """The fingerprint of a set of entries in any order; equal sets have equal texts."""

    count: int = 0
    #: Sum of the entries' digests as integers, modulo 2^128.
    total: int = 0

    def add(self, digest: bytes) -> None:
        self.count += 1
        self.total = (self.total + int.from_bytes(digest, "big")) % _DIGEST_RANGE

    def __str__(self) -> str:
        total = self.total.to_bytes(DIGEST_BYTES, "big").hex()
        return sha256(f"{self.count} {total}".encode()).hexdigest()


def fingerprint(entries: Iterable[tuple[str, Attributes]], rules: Rules) -> Fingerprint:
    """That of a population: sha256 of the number of entries and the sum of digests."""
    result = Fingerprint()
    for dn, attributes in entries:
        result.add(entry_digest(dn, attributes, rules))
    return result


def entry_digest(dn: str, attributes: Attributes, rules: Rules = EVERYTHING) -> bytes:
    """DIGEST_BYTES octets: equal for equal entries, otherwise different."""
    return content_digest(normalised_dn(dn), normalised(attributes, rules))


def content_digest(key: bytes, content: Mapping[str, Collection[bytes]]) -> bytes:
    """The digest of an entry that is normalised already."""
    # Each length is written down: no entry's octets can pass for another's.
    parts = [b"%d:" % len(key), key]
    for name in sorted(content):
        values = content[name]
        parts.append(b"%d %b " % (len(values), name.encode()))
        for value in sorted(values):
            parts.append(b"%d:" % len(value))
            parts.append(value)
    return blake2b(b"".join(parts), digest_size=DIGEST_BYTES).digest()


def normalised(
    attributes: Attributes, rules: Rules = EVERYTHING
) -> dict[str, frozenset[bytes]]:
    """The attributes that take part, by their one name, with the values that count."""
    found: dict[str, frozenset[bytes]] = {}
    names = _names(rules)
    for given, values in attributes.items():
        name = names[given]
        if not name or not values:
            continue
        content = frozenset(values)
        if name in DN_ATTRIBUTES:
            content = frozenset(map(_dn_value, content))
        elif name == "objectclass":
            content = _own_classes(content)
        found[name] = found[name] | content if name in found else content
    return found


def differing_attributes(
    expected: Attributes, found: Attributes, rules: Rules = EVERYTHING
) -> list[AttributeDifference]:
    """In what two entries differ, by name of attribute; empty when they are equal."""
    left, right = normalised(expected, rules), normalised(found, rules)
    none: frozenset[bytes] = frozenset()
    pairs = (
        (name, left.get(name, none), right.get(name, none))
        for name in sorted(left.keys() | right.keys())
    )
    return [
        AttributeDifference(name, tuple(sorted(a - b)), tuple(sorted(b - a)))
        for name, a, b in pairs
        if a != b
    ]


def normalised_dn(dn: str) -> bytes:
    """Octets that all spellings of a DN share; of a text that is no DN, its lower
    case."""
    rdn, comma, parent = dn.partition(",")
    match = _PLAIN_RDN.fullmatch(rdn)
    if match is None or parent.count(",") > _PLAIN_PARTS:
        return _parsed_dn(dn)
    name = match[1].lower()
    text = f"{_ALIASES.get(name, name)}={' '.join(match[2].lower().split())}"
    return text.encode() + b"," + _normalised_parent(parent) if comma else text.encode()


def is_below(dn: str, base: str) -> bool:
    """Whether it is `base` or below it; all DNs are below the empty one."""
    if not base:
        return True
    key, above = normalised_dn(dn), _normalised_parent(base)
    return key == above or key.endswith(b"," + above)


@lru_cache(_PARENTS)
def _normalised_parent(dn: str) -> bytes:
    return normalised_dn(dn)


def _parsed_dn(dn: str) -> bytes:
    try:
        rdns = str2dn(dn)
    except ldap.DECODING_ERROR:
        return dn.lower().encode(errors="surrogateescape")
    return ",".join(
        "+".join(sorted(_ava(name.lower(), value) for name, value, _ in rdn))
        for rdn in rdns
    ).encode(errors="surrogateescape")


def _ava(name: str, value: str) -> str:
    text = escape_dn_chars(" ".join(value.lower().split()))
    return f"{_ALIASES.get(name, name)}={text}"


def _dn_value(value: bytes) -> bytes:
    try:
        return normalised_dn(value.decode())
    except UnicodeDecodeError:
        return value


def _own_classes(values: Iterable[bytes]) -> frozenset[bytes]:
    classes = {value.lower() for value in values}
    implied = {above for one in classes for above in _SUPERIORS.get(one, ())}
    return frozenset(classes - implied - {b"top"})


class _Names(dict[str, str]):
    """Attribute as written -> its one name; empty for those left out."""

    def __init__(self, rules: Rules) -> None:
        self._passwords = rules.passwords
        given = {name.lower() for name in rules.ignored}
        self._ignored = {_ALIASES.get(name, name) for name in given}

    def __missing__(self, given: str) -> str:
        if len(self) >= _NAMES:
            self.clear()
        self[given] = self._name(given)
        return self[given]

    def _name(self, given: str) -> str:
        name = given.lower().removesuffix(";binary")
        bare, semicolon, options = name.partition(";")
        bare = _ALIASES.get(bare, bare)
        if bare in OPERATIONAL:
            return ""
        if bare == _PASSWORD and not self._passwords:
            return ""
        name = bare + semicolon + options
        return "" if {name, bare} & self._ignored else name


@lru_cache(64)
def _names(rules: Rules) -> _Names:
    return _Names(rules)
