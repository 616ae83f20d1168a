# SPDX-License-Identifier: Apache-2.0
"""Replication in labs of both servers: followed, paused, broken."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import ldap
import pytest

from ldapslam.lab import Choices, LabError, Server
from ldapslam.lab.people import STRUCTURE_ENTRIES, SUFFIX
from support.lab import FAST, Lab
from support.labs import ds389_trio_is_long
from support.waiting import wait_until

_TIMEOUT_S = 60.0
_LONG = pytest.mark.long


def person(number: int) -> str:
    return f"uid=user.{number},ou=people,{SUFFIX}"


def change(
    lab: Lab, server: Server, act: Callable[[Any], None], *, use_tls: bool = False
) -> None:
    """Something done by a client of one server."""
    connection = ldap.initialize(server.ldaps_uri if use_tls else server.uri)
    connection.set_option(ldap.OPT_X_TLS_CACERTFILE, str(lab.ca_file))
    connection.set_option(ldap.OPT_X_TLS_NEWCTX, 0)
    connection.set_option(ldap.OPT_TIMEOUT, 10)
    connection.set_option(ldap.OPT_REFERRALS, 0)
    connection.simple_bind_s(lab.admin_dn, lab.admin_password_file.read_text())
    try:
        act(connection)
    finally:
        connection.unbind_s()


def describe(lab: Lab, server: Server, number: int, text: str) -> None:
    value = [(ldap.MOD_REPLACE, "description", [text.encode()])]
    change(lab, server, lambda connection: connection.modify_s(person(number), value))


def description(lab: Lab, server: Server, number: int) -> str | None:
    try:
        found = lab.search(server, person(number), ldap.SCOPE_BASE, ["description"])
    except ldap.NO_SUCH_OBJECT:
        return None
    return found[person(number)]["description"][0].decode()


def test_every_server_has_the_tree_and_follows_the_supplier(trio: Lab) -> None:
    first, second = trio.replicas
    for server in trio.servers:
        found = trio.search(server, SUFFIX, ldap.SCOPE_SUBTREE, ["1.1"])
        assert len(found) == trio.entries + STRUCTURE_ENTRIES
    describe(trio, trio.supplier, 1, "followed")
    trio.wait_in_sync(_TIMEOUT_S)
    assert description(trio, first, 1) == description(trio, second, 1) == "followed"
    assert trio.position(first) == trio.position(second) == trio.position(trio.supplier)
    # and sends writers there
    with pytest.raises(ldap.REFERRAL):
        describe(trio, first, 2, "refused")


@ds389_trio_is_long
def test_a_paused_replica_stays_behind_until_it_is_resumed(trio: Lab) -> None:
    first, second = trio.replicas
    pids = [server.pid for server in trio.servers]
    before = description(trio, first, 3)
    trio.pause_replication(first)
    describe(trio, trio.supplier, 3, "while paused")
    wait_until(
        lambda: description(trio, second, 3) == "while paused", "the other replica"
    )
    with pytest.raises(LabError, match="replica1 is not in sync"):
        trio.wait_in_sync(0)
    assert description(trio, first, 3) == before

    trio.resume_replication(first)
    trio.wait_in_sync(_TIMEOUT_S)
    assert description(trio, first, 3) == "while paused"
    assert [server.pid for server in trio.servers] == pids


@pytest.mark.parametrize(
    ("server", "attribute"),
    [
        ("slapd", None),
        ("slapd", "description"),
        pytest.param("ds389", "description", marks=_LONG),
        pytest.param("ds389", None, marks=_LONG),
    ],
)
def test_an_entry_is_broken_on_one_replica_and_nobody_notices(
    server: str, attribute: str | None, request: pytest.FixtureRequest
) -> None:
    lab: Lab = request.getfixturevalue(f"{server}_trio")
    first = lab.replicas[0]
    add_person(lab, 5_000)
    lab.wait_in_sync(_TIMEOUT_S)
    lab.break_entry(first, person(5_000), attribute)

    # What follows is replicated, the broken entry is left alone.
    describe(lab, lab.supplier, 6, "after it")
    lab.wait_in_sync(_TIMEOUT_S)
    assert description(lab, first, 6) == "after it"
    broken = None if attribute is None else "new0"
    found = [description(lab, one, 5_000) for one in lab.servers]
    assert found == ["new", broken, "new"]
    change(lab, lab.supplier, lambda supplier: supplier.delete_s(person(5_000)))
    # 389-DS skips a delete of what is gone: its position follows with the next change
    describe(lab, lab.supplier, 6, "after the delete")
    lab.wait_in_sync(_TIMEOUT_S)
    assert [description(lab, one, 5_000) for one in lab.servers] == [None] * 3


def add_person(lab: Lab, number: int) -> None:
    entry = {
        "objectClass": [b"inetOrgPerson"],
        "cn": [b"new"],
        "sn": [b"new"],
        "description": [b"new"],
    }
    change(
        lab,
        lab.supplier,
        lambda supplier: supplier.add_s(person(number), list(entry.items())),
    )


# -- other topologies ------------------------------------------------------------------


def topology(server: str, **arguments: Any) -> Lab:
    if server == "ds389":
        return Lab(server="389ds", entries=20, **arguments)
    choices = arguments.pop("choices", Choices())
    choices = replace(choices, options=[*choices.options, *FAST.options])
    return Lab(entries=20, choices=choices, **arguments)


@pytest.fixture
def some_lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    server, arguments = request.param
    request.getfixturevalue(f"{server}_installed")
    with topology(server, **arguments) as lab:
        yield lab


_TLS = Choices(has_tls=True)


@pytest.mark.parametrize(
    "some_lab",
    [
        pytest.param(
            ("slapd", {"suppliers": 2, "replicas": 1, "choices": _TLS}),
            id="slapd: two suppliers, TLS",
        ),
        pytest.param(
            ("slapd", {"replicas": 1, "choices": Choices(has_delta=True)}),
            id="slapd: delta-syncrepl",
        ),
        pytest.param(
            ("slapd", {"replicas": 1, "has_hub": True}),
            id="slapd: hub",
        ),
        pytest.param(
            (
                "slapd",
                {"suppliers": 2, "replicas": 1, "choices": Choices(has_delta=True)},
            ),
            id="slapd: two suppliers, delta-syncrepl",
            marks=_LONG,
        ),
        pytest.param(
            (
                "ds389",
                {"suppliers": 2, "replicas": 1, "has_hub": True, "choices": _TLS},
            ),
            id="389-DS: two suppliers, hub, TLS",
            marks=_LONG,
        ),
        pytest.param(
            ("ds389", {"replicas": 1, "choices": Choices(backend="mdb")}),
            id="389-DS: LMDB",
            marks=_LONG,
        ),
    ],
    indirect=True,
)
def test_each_supplier_writes_and_all_servers_follow(some_lab: Lab) -> None:
    lab = some_lab
    if lab.kind == "slapd" and len(lab.suppliers) == 2:
        # it is up when every consumer is connected, though supplier1 looks for
        # supplier2 before that one is started, and again 1 s later
        counts = [lab.monitor_counts(server) for server in lab.servers]
        asked = [(found["bind"], found["search"]) for found in counts]
        assert asked == [(2, 2), (2, 2), (0, 0)]
    for number, supplier in enumerate(lab.suppliers):
        describe(lab, supplier, number, f"by {supplier.name}")
    lab.wait_in_sync(_TIMEOUT_S)
    for number, supplier in enumerate(lab.suppliers):
        for server in lab.servers:
            text = description(lab, server, number)
            assert text == f"by {supplier.name}", server.name
    # each has a certificate of its own
    for server in lab.servers:
        change(lab, server, lambda connection: connection.whoami_s(), use_tls=True)


@_LONG
@pytest.mark.usefixtures("ds389_installed")
def test_settings_reach_389_ds() -> None:
    with topology("ds389", choices=Choices(options=[("cachesize", "64MiB")])) as lab:
        dn = "cn=userRoot,cn=ldbm database,cn=plugins,cn=config"
        found = lab.search(lab.supplier, dn, ldap.SCOPE_BASE, ["nsslapd-cachememsize"])
    assert next(iter(found[dn].values())) == [str(64 << 20).encode()]


def test_bdb_settings_reach_389_ds(ds389_trio: Lab) -> None:
    dn = "cn=bdb,cn=config,cn=ldbm database,cn=plugins,cn=config"
    names = ["nsslapd-dbcachesize", "nsslapd-db-durable-transaction"]
    found = ds389_trio.search(ds389_trio.supplier, dn, ldap.SCOPE_BASE, names)
    assert {key.lower(): value for key, value in found[dn].items()} == {
        "nsslapd-dbcachesize": [str(64 << 20).encode()],
        "nsslapd-db-durable-transaction": [b"off"],
    }


@pytest.mark.parametrize("server", ["slapd", pytest.param("ds389", marks=_LONG)])
def test_an_ldif_of_ones_own_makes_equal_servers(
    server: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    request.getfixturevalue(f"{server}_installed")
    ldif = tmp_path / "own.ldif.gz"
    entries = (
        b"version: 1\n\n# one\ndn: o=own\nobjectClass: organization\no: own\n\n"
        b"dn: uid=one,o=own\nobjectClass: inetOrgPerson\nuid: one\ncn: one\nsn: one\n"
    )
    ldif.write_bytes(gzip.compress(entries))
    with topology(server, replicas=1, ldif=ldif) as lab:
        assert (lab.suffix, lab.admin_dn) == ("o=own", "cn=admin,o=own")
        value = [(ldap.MOD_REPLACE, "sn", [b"changed"])]
        change(lab, lab.supplier, lambda one: one.modify_s("uid=one,o=own", value))
        lab.wait_in_sync(_TIMEOUT_S)
        for one in lab.servers:
            found = lab.search(one, "o=own", ldap.SCOPE_SUBTREE, ["sn", "entryUUID"])
            assert set(found) == {"o=own", "uid=one,o=own"}
            assert found["uid=one,o=own"]["sn"] == [b"changed"]
        replicated = {
            tuple(
                lab.search(one, "uid=one,o=own", ldap.SCOPE_BASE, ["entryUUID"])[
                    "uid=one,o=own"
                ].get("entryUUID", [])
            )
            for one in lab.servers
        }
        assert server == "ds389" or len(replicated) == 1
    assert os.path.exists(ldif)
