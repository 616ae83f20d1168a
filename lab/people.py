# SPDX-License-Identifier: Apache-2.0
"""The lab's data: `uid=user.N,ou=people,<suffix>`, the same entries for the same size.

The LDIF has operational attributes (entryUUID, entryCSN, contextCSN), so that all
servers loaded from it are in sync. Nothing is random; only contextCSN has the time of
writing: it tells how old the newest change is.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

SUFFIX: Final = "dc=example,dc=com"
PEOPLE_DN: Final = f"ou=people,{SUFFIX}"
ADMIN_DN: Final = f"cn=admin,{SUFFIX}"

#: Entries of the tree that are not people: the suffix and ou=people.
STRUCTURE_ENTRIES: Final = 2

#: Every person's password. `{SSHA}` of it with a fixed salt, so that the data stay the
#: same; a lab's data are no secret.
PERSON_PASSWORD: Final = "password"
_PERSON_PASSWORD_HASH: Final = "{SSHA}XG85ysOhCuJV7v/3va73al2+C1xsZGFwc2xhbQ=="

_GENERALIZED_TIME: Final = "20240101000000Z"
# Change number as in RFC draft-chu-ldap-csn: time, count, server id, modification.
_CSN_FORMAT: Final = "%Y%m%d%H%M%S.000000Z#000000#000#000000"
_CSN: Final = "20240101000000.000000Z#000000#000#000000"

_GIVEN_NAMES: Final = (
    "Ada Alan Barbara Claude Donald Edsger Frances Grace Hedy Ivan Jean Ken Leslie "
    "Margaret Niklaus Ole Peter Radia Sophie Tony"
).split()
_SURNAMES: Final = (
    "Allen Backus Codd Dijkstra Engelbart Floyd Gosling Hopper Iverson Johnson Knuth "
    "Lamport McCarthy Naur Ousterhout Perlis Ritchie Shannon Thompson Ullman Vixie "
    "Wirth Yao"
).split()

# Entries a write call; keeps the memory flat at any size.
_BATCH: Final = 5_000


def write_ldif(path: Path, entries: int) -> None:
    """Write the suffix, ou=people and the people user.0 to user.<entries - 1>."""
    with path.open("w", encoding="ascii", newline="\n") as ldif:
        ldif.write(_structure())
        for first in range(0, entries, _BATCH):
            last = min(first + _BATCH, entries)
            ldif.write("".join([_person(number) for number in range(first, last)]))


def _operational(object_class: str, number: int) -> str:
    return f"""\
structuralObjectClass: {object_class}
entryUUID: 10203040-5060-4070-8090-{number:012x}
creatorsName: {ADMIN_DN}
createTimestamp: {_GENERALIZED_TIME}
entryCSN: {_CSN}
modifiersName: {ADMIN_DN}
modifyTimestamp: {_GENERALIZED_TIME}
"""


def _structure() -> str:
    return f"""\
dn: {SUFFIX}
objectClass: organization
objectClass: dcObject
dc: example
o: Example
{_operational("organization", 0)}contextCSN: {time.strftime(_CSN_FORMAT, time.gmtime())}

dn: {PEOPLE_DN}
objectClass: organizationalUnit
ou: people
{_operational("organizationalUnit", 1)}
"""


def _person(number: int) -> str:
    given_name = _GIVEN_NAMES[number % len(_GIVEN_NAMES)]
    surname = _SURNAMES[number // len(_GIVEN_NAMES) % len(_SURNAMES)]
    return f"""\
dn: uid=user.{number},{PEOPLE_DN}
objectClass: inetOrgPerson
uid: user.{number}
cn: {given_name} {surname} {number}
sn: {surname}
givenName: {given_name}
mail: user.{number}@example.com
employeeNumber: {number}
telephoneNumber: +1 555 {number:07d}
description: This is the description of user.{number}
userPassword: {_PERSON_PASSWORD_HASH}
{_operational("inetOrgPerson", number + STRUCTURE_ENTRIES)}
"""
