# SPDX-License-Identifier: Apache-2.0
"""Every operation and every control of a job file, answered by a real slapd."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ldap
import pytest

from ldapslam.lab.people import PEOPLE_DN, PERSON_PASSWORD, SUFFIX
from support.lab import FAST, Lab
from support.operations import run_operations

ENTRIES = 100
SESSIONS = 20

USER = f"uid=user.[0-{ENTRIES - 1}],{PEOPLE_DN}"
PEOPLE = {"base": PEOPLE_DN, "scope": "one"}
#: Its schema has no ordering rule for names.
RULE = "caseIgnoreOrderingMatch"
_MODULES = ("moduleload sssvlv", "moduleload ppolicy")
# Each virtual list view leaves a list at the server.
_OVERLAYS = (
    "overlay sssvlv",
    "sssvlv-max 1000",
    "sssvlv-maxperconn 1000",
    "overlay ppolicy",
)


@pytest.fixture(scope="module")
def lab(slapd_installed: None) -> Iterator[Lab]:
    with Lab(
        entries=ENTRIES,
        choices=FAST,
        global_lines=_MODULES,
        database_lines=_OVERLAYS,
    ) as lab:
        yield lab


@pytest.fixture(scope="module")
def directory(lab: Lab) -> Any:
    """A connection of python-ldap, as the administrator."""
    connection = ldap.initialize(lab.supplier.uri)
    password = lab.supplier.admin_password_file.read_text()
    connection.simple_bind_s(lab.supplier.admin_dn, password)
    return connection


def modify(**controls: Any) -> dict[str, Any]:
    return {
        "modify": {"dn": USER, "replace": {"description": "[random:8]"}},
        "controls": [controls],
    }


def search(*controls: Any, **fields: Any) -> dict[str, Any]:
    return {"search": {**PEOPLE, **fields}, "controls": list(controls)}


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        *(
            ({"search": {"base": PEOPLE_DN, "scope": scope, "deref": deref}}, 0)
            for scope, deref in [
                ("base", "never"),
                ("one", "searching"),
                ("sub", "finding"),
                ("children", "always"),
            ]
        ),
        ({"search": {**PEOPLE, "types_only": True, "attributes": ["cn", "+"]}}, 0),
        ({"search": {**PEOPLE, "time_limit": "5s", "attributes": ["1.1"]}}, 0),
        ({"search": {**PEOPLE, "size_limit": 3}, "expect": ["sizeLimitExceeded"]}, 4),
        ({"modify": {"dn": USER, "replace": {"description": ["a", "[random:5]"]}}}, 0),
        ({"compare": {"dn": USER, "attribute": "sn", "value": "Nobody"}}, 5),
        ({"compare": {"dn": USER, "attribute": "objectClass", "value": "person"}}, 6),
        ({"bind": {"dn": USER, "password": PERSON_PASSWORD}}, 0),
        ({"bind": {"anonymous": True}}, 0),
        ({"bind": {"dn": USER, "password": "wrong"}, "expect": [49]}, 49),
        ({"extended": {"who_am_i": True}}, 0),
        ({"extended": {"oid": "1.3.6.1.4.1.4203.1.11.3"}}, 0),
        # password modify, its value by hand: SEQUENCE { [0] user, [2] new }
        (
            {
                "extended": {
                    "oid": "1.3.6.1.4.1.4203.1.11.1",
                    "value": "hex:30 30 80 26"
                    + f"uid=user.2,{PEOPLE_DN}".encode().hex()
                    + "82 06 7365637265 74",
                }
            },
            0,
        ),
        (
            {
                "extended": {
                    "password_modify": {
                        "user": f"uid=user.1,{PEOPLE_DN}",
                        "new": "[random:12]",
                    }
                }
            },
            0,
        ),
    ],
    ids=lambda value: str(value)[:60],
)
def test_operation_has_its_result(
    lab: Lab, operation: dict[str, Any], code: int
) -> None:
    outcome = run_operations(lab.supplier, [operation], sessions=SESSIONS)
    ((_, counts),) = outcome.items()
    assert counts.codes == {code: SESSIONS}
    assert counts.succeeded + counts.expected == SESSIONS


@pytest.mark.parametrize(
    "operation",
    [
        search({"server_side_sort": [f"sn:{RULE}", f"-cn:{RULE}"]}),
        search({"server_side_sort": "createTimestamp"}),
        search(
            {"server_side_sort": f"uid:{RULE}"},
            {"vlv": {"before": 1, "after": 8, "offset": "[2-80]"}},
        ),
        search(
            {"server_side_sort": f"uid:{RULE}"},
            {"vlv": {"after": 5, "value": "user.5"}},
        ),
        search({"matched_values": ["(objectClass=person)", "(uid=user.[0-9])"]}),
        search({"subentries": False}),
        search("manage_dsa_it", "dont_use_copy"),
        search({"proxied_authorization": f"dn:{USER}"}),
        search({"proxied_authorization": ""}),
        search({"assertion": "(ou=people)"}),
        search({"oid": "1.2.3.4.5", "critical": False, "value": "any [0-9]"}),
        modify(assertion="(objectClass=person)"),
        modify(pre_read=["description", "sn"]),
        modify(post_read=["*"]),
        modify(permissive_modify=True),
        modify(proxied_authorization=f"dn:cn=admin,{SUFFIX}"),
        modify(oid="1.2.840.113556.1.4.1413"),
        {
            "bind": {"dn": USER, "password": PERSON_PASSWORD},
            "controls": [
                "password_policy",
                {"authorization_identity": True, "critical": False},
            ],
        },
    ],
    ids=lambda operation: str(operation["controls"])[:60],
)
def test_control_is_understood(lab: Lab, operation: dict[str, Any]) -> None:
    # bind leaves the connection bound as a person: it goes last
    outcome = run_operations(lab.supplier, [operation], sessions=SESSIONS)
    ((_, counts),) = outcome.items()
    assert counts.codes == {0: SESSIONS}


def test_controls_are_understood_by_389_ds(ds389: Lab) -> None:
    searches = [
        search({"server_side_sort": ["sn", "-cn"]}),
        search({"server_side_sort": "uid"}, {"vlv": {"after": 8, "offset": "[2-80]"}}),
        search({"server_side_sort": "uid"}, {"vlv": {"after": 5, "value": "user.5"}}),
        search({"subentries": False}, "manage_dsa_it"),
        search({"proxied_authorization": f"dn:{USER}"}),
    ]
    named = [{"name": f"s{n}", **one} for n, one in enumerate(searches)]
    # in a run of its own: it leaves the connection bound as a person
    bind = {
        "bind": {"dn": USER, "password": PERSON_PASSWORD},
        "controls": ["authorization_identity"],
    }
    for operations in (named, [bind]):
        outcome = run_operations(ds389.supplier, operations, sessions=3 * SESSIONS)
        assert sum(counts.codes[0] for counts in outcome.values()) == 3 * SESSIONS
        for name, counts in outcome.items():
            assert counts.codes.keys() == {0}, name


def test_critical_control_that_slapd_does_not_know_is_refused(lab: Lab) -> None:
    operation = {**search({"oid": "1.2.3.4.5"}), "expect": [12]}
    counts = run_operations(lab.supplier, [operation])["search"]
    assert counts.codes == {12: counts.expected}


def test_failed_assertion_is_a_result(lab: Lab) -> None:
    operation = {**modify(assertion="(sn=Nobody)"), "expect": ["assertionFailed"]}
    counts = run_operations(lab.supplier, [operation])["modify"]
    assert counts.codes == {122: counts.expected}


def test_paged_search_returns_every_entry(lab: Lab) -> None:
    operation = {"search": {**PEOPLE, "page_size": 30, "attributes": ["1.1"]}}
    counts = run_operations(lab.supplier, [operation], sessions=5)["search"]
    # 30 + 30 + 30 + 10
    assert counts.codes == {0: 5 * 4}
    assert counts.entries == 5 * ENTRIES


def test_entry_goes_through_its_life(lab: Lab, directory: Any, tmp_path: Path) -> None:
    dn = f"uid=life.[unique]+cn=a\\2c b,{PEOPLE_DN}"
    classes = ["inetOrgPerson", "posixAccount"]
    posix = {"uidNumber": 1, "gidNumber": 1, "homeDirectory": "/"}
    outcome = run_operations(
        lab.supplier,
        [
            {
                "sequence": [
                    {
                        "name": "add",
                        "add": {
                            "dn": dn,
                            "entry": {"objectClass": classes, "sn": "[uuid]", **posix},
                        },
                    },
                    {
                        "name": "change",
                        "modify": {
                            "of": "add",
                            "add": {"description": ["one", "two"]},
                            "delete": {"description": "one"},
                            "replace": {"mail": "[random:5]@example.com"},
                            "increment": {"uidNumber": 41},
                        },
                    },
                    {
                        "name": "see",
                        "compare": {"of": "add", "attribute": "uidNumber", "value": 42},
                        "expect": ["compareTrue"],
                    },
                    {
                        "name": "rename",
                        "modify_dn": {
                            "of": "add",
                            "new_rdn": "uid=renamed.[unique]",
                            "delete_old_rdn": False,
                        },
                    },
                    {
                        "name": "move",
                        "modrdn": {
                            "of": "add",
                            "new_rdn": "cn=moved.[unique]",
                            "new_superior": SUFFIX,
                        },
                    },
                    {"name": "remove", "delete": {"of": "add"}},
                ]
            }
        ],
        ledgers=tmp_path,
    )
    assert {
        name: counts.succeeded for name, counts in outcome.items()
    } == dict.fromkeys(("add", "change", "see", "rename", "move", "remove"), SESSIONS)
    left = directory.search_s(SUFFIX, ldap.SCOPE_SUBTREE, "(|(uid=life.*)(cn=moved.*))")
    assert left == []


_TEMPLATE = """\
define domain=example.com

branch: ou=people,dc=example,dc=com
subordinateTemplate: person:10

template: base
rdnAttr: uid
objectClass: inetOrgPerson

# the ones that are added
template: person
extends: base
givenName: <first>
sn: <last>, \\<b\\>
cn: {givenName} {sn}
initials: {givenName:1}<random:chars:ABC:1>{sn:1}
employeeNumber: <sequential:1000>
uid: tpl,{employeeNumber}
mail: {employeeNumber}@[domain]
mail: <presence:50>second.{employeeNumber}@[domain]
telephoneNumber: <random:telephone>
mobile: <random:numeric:6>
postalCode: <random:numeric:1:99999:5>
roomNumber: <random:alphanumeric:3:8>
description: <guid> of <parentdn> is <dn>
title: <list:Engineer:3,Manager:1>
l: <presence:40>Berlin
st: <ifpresent:l>BE
street: <ifabsent:sn>never
departmentNumber: <file:departments.txt:sequential>
labeledURI: <base64:hello>
businessCategory: <loop:1:3>
"""


def test_entries_are_made_from_a_template(
    lab: Lab, directory: Any, tmp_path: Path
) -> None:
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "person.template").write_text(_TEMPLATE)
    (tmp_path / "templates" / "departments.txt").write_text("sales\nlab\n")
    add = {
        "template": "templates/person.template",
        "template_name": "person",
        "under": PEOPLE_DN,
        "clean_up": False,
    }
    counts = run_operations(
        lab.supplier, [{"add": add}], sessions=60, clients=3, files=tmp_path
    )["add"]
    assert counts.codes == {0: 60}
    found = directory.search_s(PEOPLE_DN, ldap.SCOPE_ONELEVEL, "(uid=tpl,*)")
    entries = [
        (dn, {name: [v.decode() for v in values] for name, values in entry.items()})
        for dn, entry in found
    ]
    numbers = [int(entry["employeeNumber"][0]) for _, entry in entries]
    assert sorted(numbers) == list(range(1000, 1060))
    for dn, entry in entries:
        number = entry["employeeNumber"][0]
        given, sn = entry["givenName"][0], entry["sn"][0]
        assert dn == f"uid=tpl\\2C{number},{PEOPLE_DN}"
        assert sn.endswith(", <b>")
        assert entry["cn"] == [f"{given} {sn}"]
        initials = entry["initials"][0]
        assert (initials[0], initials[1] in "ABC", initials[2]) == (
            given[0],
            True,
            sn[0],
        )
        assert entry["description"][0].endswith(
            f" of {PEOPLE_DN} is uid=tpl\\,{number},{PEOPLE_DN}"
        )
        assert ("l" in entry) == ("st" in entry)
        assert entry["businessCategory"] == ["1", "2", "3"]
        assert entry["departmentNumber"][0] in ("sales", "lab")
        assert "street" not in entry
        directory.delete_s(dn)
    with_town = sum("l" in entry for _, entry in entries)
    # binomial, 60 draws of 0.4: outside with a probability below 1e-5
    assert 7 < with_town < 41


def test_search_is_abandoned_and_the_connection_ended(lab: Lab) -> None:
    outcome = run_operations(
        lab.supplier,
        [
            {
                "name": "visit",
                "sequence": [
                    {"name": "leave", "abandon": {"of": "list"}},
                    {"name": "end", "unbind": {}},
                ],
            },
            {"name": "list", "search": PEOPLE},
        ],
        sessions=SESSIONS,
    )
    left = outcome["leave"]
    assert left.requests == outcome["end"].requests
    assert outcome["leave-list"].requests == left.requests > 0
