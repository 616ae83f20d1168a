# SPDX-License-Identifier: Apache-2.0
"""slapd and 389-DS behind one interface: a test of both is one test.

Fixtures: `slapd_directory`, `ds389_directory`, and `directory`, which is each of them
in turn. All have the same people and the same administrator; see ldapslam.lab.people.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import cast

import ldap
import pytest

from ldapslam.lab.people import PEOPLE_DN, PERSON_PASSWORD, SUFFIX
from support.lab import FAST, Lab
from support.sasl import set_passwords
from support.waiting import wait_until

#: One entry's attributes, by names in lower case, each attribute's values sorted.
Attributes = Mapping[str, Sequence[bytes]]
Tree = Mapping[str, Attributes]

#: user.0 to user.999; the password of each is `password`.
PEOPLE = 1_000
#: Whose password slapd has in clear, as SASL needs it there.
SASL_USER = "user.999"

# Change with every write below the suffix, whatever it leaves behind.
_OF_THE_DATABASE = ("contextcsn",)

GLOBAL_LINES = (
    "moduleload sssvlv",
    # PLAIN without TLS too, by a person's uid
    "sasl-secprops none",
    f'authz-regexp "uid=([^,]+),cn=[^,]+,cn=auth" "uid=$1,{PEOPLE_DN}"',
)
# slapd keeps every list view until its connection ends, and calls itself busy then.
DATABASE_LINES = (
    "overlay sssvlv",
    "sssvlv-max 100000",
    "sssvlv-maxperconn 2000",
)


#: Where each server says how many are connected.
_CONNECTIONS = {
    "slapd": ("cn=Current,cn=Connections,cn=Monitor", "monitorCounter"),
    "389ds": ("cn=monitor", "currentconnections"),
}


class Directory:
    """The supplier of a lab, its process and its tree for tests to load."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self.kind = lab.kind
        self.uri = lab.supplier.uri
        self.ldaps_uri = lab.supplier.ldaps_uri
        self.ldapi_uri = lab.supplier.ldapi_uri
        self.ca_file = lab.ca_file
        self.admin_dn = lab.admin_dn
        self.admin_password_file = lab.admin_password_file

    def counts(self) -> dict[str, int]:
        """The server's own count of operations by kind since it started, without the
        fixture's own; read once nobody else is connected."""
        wait_until(lambda: self._connections() == 1, "the end of other connections")
        return self._lab.monitor_counts(self._lab.supplier)

    def _connections(self) -> int:
        dn, name = _CONNECTIONS[self.kind]
        found = self._lab.search(self._lab.supplier, dn, ldap.SCOPE_BASE, [name])
        return int(found[dn][name][0])

    def tree(self) -> Tree:
        """Every entry below the suffix with its operational attributes."""
        supplier = self._lab.supplier
        found = self._lab.search(supplier, SUFFIX, ldap.SCOPE_SUBTREE, ["*", "+"])
        return _tree(found)


def _tree(found: Mapping[str, Mapping[str, Sequence[bytes]]]) -> Tree:
    return {
        dn: {
            name.lower(): sorted(values)
            for name, values in attributes.items()
            if name.lower() not in _OF_THE_DATABASE
        }
        for dn, attributes in found.items()
    }


def differences(before: Tree, after: Tree, ignore: Collection[str] = ()) -> list[str]:
    """What is not as it was, entry by entry and attribute by attribute; without the
    attributes named in `ignore`."""
    ignored = {name.lower() for name in ignore}
    lines = [f"{dn}: is gone" for dn in before.keys() - after.keys()]
    lines += [f"{dn}: was left" for dn in after.keys() - before.keys()]
    for dn in before.keys() & after.keys():
        names = before[dn].keys() | after[dn].keys()
        lines += [
            f"{dn}: {name}: {before[dn].get(name)} became {after[dn].get(name)}"
            for name in names - ignored
            if before[dn].get(name) != after[dn].get(name)
        ]
    return sorted(lines)


@pytest.fixture(scope="session")
def slapd_directory(slapd_installed: None) -> Iterator[Directory]:
    """A slapd of its own with sssvlv, proxied authorization and SASL."""
    with Lab(
        entries=PEOPLE,
        choices=FAST,
        global_lines=GLOBAL_LINES,
        database_lines=DATABASE_LINES,
    ) as lab:
        set_passwords(lab, {SASL_USER: PERSON_PASSWORD.encode()})
        yield Directory(lab)


@pytest.fixture(scope="session")
def ds389_directory(ds389: Lab) -> Directory:
    return Directory(ds389)


@pytest.fixture(params=["slapd", "ds389"])
def directory(request: pytest.FixtureRequest) -> Directory:
    """Each server in turn, shared by the session: leave its people as they were."""
    return cast(Directory, request.getfixturevalue(f"{request.param}_directory"))
