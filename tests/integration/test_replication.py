# SPDX-License-Identifier: Apache-2.0
"""Replication that works is seen to work; what is broken is found and named."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import ldap
import pytest

from ldapslam.base.errors import TargetError
from ldapslam.directory.replication import verify_replication
from ldapslam.jobs.connection_settings import BindSettings
from ldapslam.jobs.fields.monitors import ReplicationCheck
from ldapslam.lab.site import Choices
from support.lab import FAST, Lab
from support.labs import ds389_trio_is_long
from support.replication import access_of, bound_to, mend_entry, servers_of, supplier_of

ENTRIES = 1_002
PERSON = "uid=user.{},ou=people,dc=example,dc=com"
WITHIN_S = 20


def check(within: str = f"{WITHIN_S}s", **options: Any) -> ReplicationCheck:
    return ReplicationCheck.model_validate({"within": within, **options})


def verified(lab: Lab, wanted: ReplicationCheck) -> dict[str, Any]:
    return verify_replication(
        servers_of(lab), wanted, load_ended_s=time.monotonic(), seed=7
    )


def write(lab: Lab, number: int, text: str) -> None:
    with supplier_of(lab) as connection:
        change = (ldap.MOD_REPLACE, "description", [text.encode()])
        connection.modify_s(PERSON.format(number), [change])


def test_what_was_written_comes_to_all_and_is_the_same(trio: Lab) -> None:
    for number in range(20):
        write(trio, number, f"written {number}")
    found = verified(trio, check())
    assert found["converged"]
    assert found["servers"] == [server.uri for server in trio.servers]
    (tree,) = found["trees"]
    assert 0 <= tree["after_s"] < WITHIN_S
    assert tree["suffix"] == "dc=example,dc=com"
    assert tree["behind"] == {}
    content = found["content"]
    assert content["entries"] == {server.uri: ENTRIES for server in trio.servers}
    assert content["compared"] == ENTRIES * len(trio.replicas)
    assert (content["difference_count"], content["differences"]) == (0, [])


def test_every_request_of_a_check_is_in_the_tally(slapd_trio: Lab) -> None:
    servers = servers_of(slapd_trio)
    before = [slapd_trio.monitor_counts(server) for server in slapd_trio.servers]
    verify_replication(servers, check(), load_ended_s=time.monotonic(), seed=7)
    after = [slapd_trio.monitor_counts(server) for server in slapd_trio.servers]
    for server, old, new in zip(servers, before, after, strict=True):
        risen = {kind: new[kind] - old[kind] for kind in new if new[kind] != old[kind]}
        assert risen == dict(server.control)


def test_an_entry_that_a_replica_lost_and_a_value_it_changed_are_named(
    slapd_trio: Lab,
) -> None:
    check_broken_entries(slapd_trio)


@pytest.mark.long  # its replicas are broken in files, and start anew
def test_they_are_on_389_ds_too(ds389_trio: Lab) -> None:
    check_broken_entries(ds389_trio)


def check_broken_entries(trio: Lab) -> None:
    write(trio, 5, "as it was")
    trio.wait_in_sync(WITHIN_S)
    first, second = trio.replicas
    trio.break_entry(first, PERSON.format(4))
    trio.break_entry(second, PERSON.format(5), "description")
    try:
        content = verified(trio, check())["content"]
        assert content["entries"][first.uri] == ENTRIES - 1
        assert content["difference_count"] == 2
        assert content["differences"] == [
            {
                "server": first.uri,
                "dn": PERSON.format(4),
                "difference": "missing",
                "attributes": [],
            },
            {
                "server": second.uri,
                "dn": PERSON.format(5),
                "difference": "different",
                "attributes": ["description"],
            },
        ]
        # a sample has the DNs of all entries
        content = verified(trio, check(sample=1))["content"]
        assert [one["difference"] for one in content["differences"]][:1] == ["missing"]
    finally:
        mend_entry(trio, PERSON.format(4))
        write(trio, 5, "mended")
    found = verified(trio, check())
    assert found["converged"]
    assert not found["content"]["differences"]


@ds389_trio_is_long
def test_a_replica_that_gets_nothing_is_behind_and_its_entries_are_named(
    trio: Lab,
) -> None:
    paused = trio.replicas[1]
    trio.pause_replication(paused)
    try:
        write(trio, 6, f"unheard of {time.monotonic_ns()}")
        found = verified(trio, check(within="2s"))
    finally:
        trio.resume_replication(paused)
    assert not found["converged"]
    assert found["trees"][0]["after_s"] is None
    assert found["trees"][0]["behind"].keys() == {paused.uri}
    assert [
        (one["server"], one["dn"], one["attributes"])
        for one in found["content"]["differences"]
    ] == [(paused.uri, PERSON.format(6), ["description"])]
    trio.wait_in_sync(60)


def test_a_log_of_changes_is_no_tree_to_compare(slapd_installed: None) -> None:
    """Delta-syncrepl: cn=accesslog has a contextCSN, and is each server's own."""
    choices = Choices(has_delta=True, options=FAST.options)
    with Lab(suppliers=2, replicas=1, entries=10, choices=choices) as lab:
        write(lab, 3, "by way of the log")
        found = verified(lab, check())
    assert [tree["suffix"] for tree in found["trees"]] == ["dc=example,dc=com"]
    assert found["skipped"] == ["cn=accesslog"]
    assert found["converged"]
    assert found["content"]["differences"] == []


def test_an_account_that_is_locked_on_the_supplier_alone_is_named(
    ds389_trio: Lab,
) -> None:
    """nsAccountLock is operational: nobody is told of it unasked."""
    paused = ds389_trio.replicas[1]
    ds389_trio.wait_in_sync(60)
    ds389_trio.pause_replication(paused)
    with supplier_of(ds389_trio) as connection:
        lock = (ldap.MOD_REPLACE, "nsAccountLock", [b"true"])
        connection.modify_s(PERSON.format(7), [lock])
        try:
            found = verified(ds389_trio, check(within="1s"))
        finally:
            unlock = (ldap.MOD_DELETE, "nsAccountLock", None)
            connection.modify_s(PERSON.format(7), [unlock])
            ds389_trio.resume_replication(paused)
    assert [
        (one["server"], one["dn"], one["attributes"])
        for one in found["content"]["differences"]
    ] == [(paused.uri, PERSON.format(7), ["nsaccountlock"])]
    ds389_trio.wait_in_sync(60)


def hide_attributes(lab: Lab) -> None:
    """Of all entries but the topmost, from all but the administrator."""
    rules = [
        b'{0}to dn.base="dc=example,dc=com" by * read',
        b"{1}to attrs=entry by * read",
        b"{2}to * by * search",
    ]
    for server in lab.servers:
        with bound_to(lab, server) as connection:
            ((database, _),) = connection.search_s(
                *("cn=config", ldap.SCOPE_ONELEVEL),
                *("(olcSuffix=dc=example,dc=com)", ["1.1"]),
            )
            connection.modify_s(database, [(ldap.MOD_REPLACE, "olcAccess", rules)])


def test_a_user_who_sees_no_attributes_cannot_compare_entries(
    slapd_installed: None,
) -> None:
    """Entries without attributes would all be equal."""
    with Lab(replicas=1, entries=10, choices=FAST) as lab:
        hide_attributes(lab)
        anonymous = replace(access_of(lab), bind=BindSettings())
        servers = [replace(one, access=anonymous) for one in servers_of(lab)]
        for sample in (None, 12):
            with pytest.raises(TargetError, match="does not let the attributes of"):
                verify_replication(
                    servers,
                    check(sample=sample),
                    load_ended_s=time.monotonic(),
                    seed=7,
                )


def test_states_alone_are_compared_when_the_job_says_so(slapd_trio: Lab) -> None:
    found = verified(slapd_trio, check(content=False))
    assert found["converged"]
    assert found["content"] is None


def test_what_cannot_be_checked_is_an_error(slapd_trio: Lab) -> None:
    with pytest.raises(TargetError, match="needs two servers"):
        verify_replication(
            servers_of(slapd_trio)[:1], check(), load_ended_s=0.0, seed=7
        )
    with pytest.raises(TargetError, match="'dc=elsewhere' lies in none of its trees"):
        verified(slapd_trio, check(base="dc=elsewhere"))
