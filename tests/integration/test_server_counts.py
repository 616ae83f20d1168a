# SPDX-License-Identifier: Apache-2.0
"""What slapd and 389-DS say of themselves: counters that agree with what was sent, and
their settings."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import ldap
import pytest

from ldapslam.directory.control_connection import ControlConnection
from ldapslam.directory.counts import KINDS, ServerKind, detect, read_counts
from ldapslam.directory.facts import server_facts
from support.lab import Lab
from support.replication import access_of

PERSON = "uid=user.7,ou=people,dc=example,dc=com"
GUEST = "uid=guest,ou=people,dc=example,dc=com"


def _bind(connection: Any) -> Counter[str]:
    """Every kind of bind counts once: by name, refused, anonymous, without password."""
    connection.simple_bind_s(PERSON, "password")
    with pytest.raises(ldap.INVALID_CREDENTIALS):
        connection.simple_bind_s(PERSON, "wrong")
    connection.simple_bind_s("", "")
    return Counter(bind=3)


def _search(connection: Any) -> Counter[str]:
    connection.search_s(PERSON, ldap.SCOPE_BASE)
    with pytest.raises(ldap.NO_SUCH_OBJECT):
        connection.search_s("uid=none,dc=example,dc=com", ldap.SCOPE_SUBTREE)
    connection.compare_s(PERSON, "sn", b"Allen")
    return Counter(search=2, compare=1)


def _write(connection: Any) -> Counter[str]:
    entry = [
        ("objectClass", [b"inetOrgPerson"]),
        ("cn", [b"Guest"]),
        ("sn", [b"Guest"]),
    ]
    connection.add_s(GUEST, entry)
    connection.modify_s(GUEST, [(ldap.MOD_REPLACE, "sn", [b"Visitor"])])
    connection.rename_s(GUEST, "uid=visitor")
    connection.delete_s(GUEST.replace("guest", "visitor"))
    with pytest.raises(ldap.NO_SUCH_OBJECT):
        connection.delete_s(GUEST)
    return Counter(add=1, modify=1, modify_dn=1, delete=2)


def _other(connection: Any) -> Counter[str]:
    connection.whoami_s()
    connection.abandon(connection.search(PERSON, ldap.SCOPE_BASE))
    return Counter(extended=1, search=1, abandon=1)


@pytest.mark.parametrize("work", [_bind, _search, _write, _other])
def test_a_server_counts_what_it_was_asked_and_the_tally_is_ours(
    trio: Lab, work: Callable[[Any], Counter[str]]
) -> None:
    control: Counter[str] = Counter()
    access, uri = access_of(trio), trio.supplier.uri
    # by another connection, which is there before the first reading
    client = ldap.initialize(uri)
    client.simple_bind_s(access.bind.dn, access.bind.secret.decode())
    with ControlConnection.open(uri, access, control) as connection:
        kind = detect(connection)
        before, asked_before = read_counts(connection, kind), control.copy()
    sent = work(client)
    with ControlConnection.open(uri, access, control) as connection:
        after, asked = read_counts(connection, kind), control - asked_before
    client.unbind_s()
    assert before.started == after.started is not None
    assert sent.keys() <= set(KINDS)
    unknown = {"abandon", "extended", "unbind"} if kind is ServerKind.DS389 else set()
    for name in KINDS:
        counted = after.operations[name]
        if name in unknown:
            assert counted is None
            continue
        first = before.operations[name]
        assert counted is not None
        assert first is not None
        assert counted - first == sent[name] + asked[name], name


def test_a_user_without_rights_reads_no_counters(slapd_trio: Lab) -> None:
    uri = slapd_trio.supplier.uri
    with ControlConnection(uri, ldap.initialize(uri), Counter()) as anonymous:
        kind = detect(anonymous)
        operations = read_counts(anonymous, kind).operations
    assert kind is ServerKind.SLAPD
    assert set(operations.values()) == {None}


def test_settings_are_read_and_no_secret_is_among_them(trio: Lab) -> None:
    control: Counter[str] = Counter()
    access = access_of(trio)
    for server in trio.servers:
        with ControlConnection.open(server.uri, access, control) as connection:
            kind = detect(connection)
            facts = server_facts(connection, kind)
        text = json.dumps(facts)
        assert access.bind.secret
        assert access.bind.secret.decode() not in text
        assert facts["kind"] == str(kind)
        assert facts["version"]
        assert facts["vendor"]
        assert facts["unreadable"] == []
        (database,) = facts["databases"]
        assert facts["backends"]
        # the lab's servers need not wait for the disk, and say so
        assert facts["durability"]
        if kind is ServerKind.SLAPD:
            assert database["olcSuffix"] == "dc=example,dc=com"
            assert "uid" in json.dumps(database["olcDbIndex"])
            assert facts["version"].startswith("OpenLDAP: slapd")
        else:
            assert database["nsslapd-suffix"] == "dc=example,dc=com"
            assert any(one.startswith("uid ") for one in database["indexes"])
            assert facts["settings"]["nsslapd-threadnumber"]
