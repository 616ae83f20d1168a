# SPDX-License-Identifier: Apache-2.0
"""The settings of slapd and 389-DS, and who may read their counters. That the counters
agree with what was sent is for test_workload.py."""

from __future__ import annotations

import json
from collections import Counter

import ldap

from ldapslam.directory.control_connection import ControlConnection
from ldapslam.directory.counts import ServerKind, detect, read_counts
from ldapslam.directory.facts import server_facts
from support.lab import Lab
from support.replication import access_of


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
