# SPDX-License-Identifier: Apache-2.0
"""Every operation, control and kind of value, as a job file has them.

What they add is deleted again, what they modify gets the value that it has: `writes`
by the run's clean-up, the others by themselves.
"""

from __future__ import annotations

from typing import Any

from support.directory import SASL_USER, Directory

PEOPLE_DN = "ou=people,dc=example,dc=com"
#: People from this number on are read and never written.
WRITTEN_PEOPLE = 500

Operation = dict[str, Any]


def person(pattern: str) -> str:
    return f"uid=user.{pattern},{PEOPLE_DN}"


def search(filter_text: str, **more: Any) -> Operation:
    return {"search": {"base": PEOPLE_DN, "filter": filter_text, **more}}


def new_entry(name: str) -> Operation:
    return {
        "add": {
            "dn": f"uid={name}.[unique],{PEOPLE_DN}",
            "entry": {
                "objectClass": ["top", "inetOrgPerson"],
                "cn": "[random:8:alphabet]",
                "sn": "[random:12:alphabet]",
                "employeeNumber": "[1-99999]",
                "description": ["[uuid]", "made at [timestamp]"],
            },
        }
    }


def restored(change: str) -> Operation:
    """A modify that gives a person the description that it has."""
    described = {"description": "This is the description of user.[n]"}
    return {
        "let": {"n": f"[0-{WRITTEN_PEOPLE - 1}]"},
        "modify": {"dn": person("[n]"), change: described},
    }


def reads() -> list[Operation]:
    """Every kind of value and every argument of a search."""
    return [
        {"name": "uniform", "weight": 4, **search("(uid=user.[0-999])")},
        {"name": "sequential", **search("(uid=user.[0:999])")},
        {"name": "stepped", **search("(uid=user.[0:990x10])")},
        {"name": "downwards", **search("(uid=user.[999:0])")},
        {"name": "padded", **search("(telephoneNumber=+1 555 [0-999%0000000])")},
        {"name": "zipf", **search("(uid=user.[zipf:0-999:1.1])")},
        {"name": "gauss", **search("(uid=user.[gauss:0-999])")},
        {"name": "hot", **search("(uid=user.[hot:0-999:5%:90%])")},
        {"name": "of_file", **search("(uid=[file:names.txt])")},
        {"name": "file_in_turn", **search("(uid=[sequentialfile:names.txt])")},
        {"name": "random", **search("(uid=[random:12:alphanumeric])")},
        {"name": "unique", **search("(uid=nobody.[unique])")},
        {"name": "uuid", **search("(uid=[uuid])")},
        {
            "name": "again",
            "let": {"n": "[0-999]"},
            **search("(&(uid=user.[n])(employeeNumber=[n]))"),
        },
        {"name": "timestamp", **search("(uid=[timestamp])")},
        {
            "name": "time_between",
            **search(
                "(uid=[timestamp:min=20200101000000Z:max=20201231235959.999Z"
                ":format=milliseconds])"
            ),
        },
        {"name": "bracket", **search("(uid=[[0-9]])")},
        {
            "name": "let",
            "let": {"user": "user.[0-999]"},
            **search("(&(uid=[user])(mail=[user]@example.com))"),
        },
        {
            "name": "parent",
            "let": {"dn": person("[0-999]")},
            "search": {"base": "[parent:dn]", "filter": "(uid=user.[0-999])"},
        },
        {
            "name": "base",
            "search": {
                "base": person("[0-999]"),
                "scope": "base",
                "filter": "(objectClass=*)",
                "attributes": ["cn", "mail", "entryUUID"],
                "deref": "searching",
            },
        },
        {
            "name": "types",
            **search("(uid=user.[0-999])", types_only=True, deref="finding"),
        },
        {
            "name": "one_level",
            **search(
                "(|(uid=user.[0-499])(uid=user.[500-999]))",
                scope="one",
                deref="always",
                time_limit="10s",
            ),
        },
        {
            "name": "limited",
            "expect": ["sizeLimitExceeded"],
            **search("(objectClass=inetOrgPerson)", size_limit=5, attributes=["1.1"]),
        },
        {
            "name": "nowhere",
            "expect": ["noSuchObject"],
            "search": {"base": f"ou=no.[0-99],{PEOPLE_DN}", "filter": "(cn=a)"},
        },
    ]


def missing_at_times(directory: Directory) -> list[str]:
    """389-DS 2.3.1 now and then answers noSuchObject to writes whose entries are there,
    when another one is about to replace the same parent in its cache. For the same
    reason it dies of a move to another parent (SIGSEGV in ldbm_back_modrdn), so that
    its moves have a job with one client that writes: `one_writer_job`."""
    return ["noSuchObject"] if directory.kind == "389ds" else []


def writes(directory: Directory) -> list[Operation]:
    """Adds, and what is done to what was added."""
    missing = missing_at_times(directory)
    success = ["success", *missing]
    return [
        {"weight": 4, "expect": success, **new_entry("new")},
        {
            "weight": 3,
            "modify": {
                "of": "add",
                "replace": {"sn": "[random:8:alphabet]"},
                "add": {"title": ["[random:9:alphabet]", "[random:10:alphabet]"]},
                "delete": {"employeeNumber": []},
            },
            # a second turn finds no number to delete, and a title more than it allows
            "expect": [*success, "noSuchAttribute", "attributeOrValueExists"],
        },
        {
            "weight": 2,
            "expect": success,
            "modify_dn": {"of": "add", "new_rdn": "uid=renamed.[unique]"},
        },
        {
            "expect": ["compareTrue", "compareFalse", *missing],
            "compare": {"of": "add", "attribute": "sn", "value": "[random:3]"},
        },
        {
            "weight": 2,
            "expect": success,
            "delete": {"of": "add", "order": "random"},
        },
    ]


def restoring_writes() -> list[Operation]:
    return [
        restored("replace"),
        {
            "name": "compare",
            "let": {"n": "[0-999]"},
            "compare": {
                "dn": person("[n]"),
                "attribute": "employeeNumber",
                "value": "[n]",
            },
            "expect": ["compareTrue"],
        },
        {
            "name": "compare_false",
            "compare": {"dn": person("[0-999]"), "attribute": "sn", "value": "Nobody"},
            "expect": ["compareFalse"],
        },
        {
            "name": "delete_nothing",
            "delete": {"dn": f"uid=nobody.[unique],{PEOPLE_DN}"},
            "expect": ["noSuchObject"],
        },
    ]


def binds(directory: Directory) -> list[Operation]:
    return [
        {"weight": 6, "bind": {"dn": person("[0-999]"), "password": "password"}},
        {"name": "anonymous", "weight": 2, "bind": {"anonymous": True}},
        {
            "name": "refused",
            "weight": 2,
            "bind": {"dn": person("[0-999]"), "password": "wrong.[random:4]"},
            "expect": ["invalidCredentials"],
        },
        {
            "name": "identified",
            "controls": [{"authorization_identity": True, "critical": False}],
            "bind": {"dn": person("[0-999]"), "password": "password"},
        },
        *_sasl_binds(directory),
    ]


def _sasl_binds(directory: Directory) -> list[Operation]:
    """389-DS takes PLAIN by DN, and has no password in clear, as SCRAM needs it."""

    def bind(mechanism: str, authcid: str) -> Operation:
        sasl = {"mechanism": mechanism, "authcid": authcid, "password": "password"}
        return {"name": mechanism.lower(), "bind": {"sasl": sasl}}

    if directory.kind == "slapd":
        scram = bind("SCRAM-SHA-256", SASL_USER)
        return [{"weight": 2, **bind("PLAIN", SASL_USER)}, scram]
    return [{"weight": 2, **bind("PLAIN", f"dn:{person('[0-999]')}")}]


def sessions() -> list[Operation]:
    """Sequences: what one step finds, the next one uses."""
    return [
        {
            "name": "login",
            "sequence": [
                {**search("(uid=user.[0-999])", attributes=["1.1"]), "capture": "dn"},
                {"bind": {"dn": "[dn]", "password": "password"}},
                {"think": "1ms"},
                {"name": "reads", **search("(uid=user.[0-999])"), "repeat": 3},
                {"name": "unbind", "unbind": {}},
            ],
        },
    ]


def moves() -> list[Operation]:
    """To another parent, and back again."""
    return [
        {
            "name": "moved",
            "sequence": [
                {
                    "let": {"n": "[unique]"},
                    "add": {
                        "dn": f"uid=moved.[n],{PEOPLE_DN}",
                        "entry": {
                            "objectClass": ["top", "inetOrgPerson"],
                            "cn": "[n]",
                            "sn": "moved",
                        },
                    },
                },
                {
                    "modify_dn": {
                        "dn": f"uid=moved.[n],{PEOPLE_DN}",
                        "new_rdn": "uid=away.[n]",
                        "new_superior": "dc=example,dc=com",
                    }
                },
                {
                    "name": "back",
                    "modify_dn": {
                        "dn": "uid=away.[n],dc=example,dc=com",
                        "new_rdn": "uid=moved.[n]",
                        "new_superior": PEOPLE_DN,
                    },
                },
                {"delete": {"dn": f"uid=moved.[n],{PEOPLE_DN}"}},
            ],
        },
    ]


def extended_over_tls(directory: Directory) -> list[Operation]:
    """389-DS takes a password modify over TLS alone."""
    expect = {"expect": ["success", *missing_at_times(directory)]}
    return [
        {"name": "who_am_i", "weight": 3, "extended": {"who_am_i": True}},
        {"name": "by_oid", "extended": {"oid": "1.3.6.1.4.1.4203.1.11.3"}},
        {
            "name": "unknown",
            "extended": {"oid": "1.3.6.1.4.1.99999.1", "value": "hex:00ff"},
            "expect": ["protocolError"],
        },
        {
            "name": "password",
            "sequence": [
                {
                    **expect,
                    "let": {"n": "[unique]"},
                    "add": {
                        "dn": f"uid=password.[n],{PEOPLE_DN}",
                        "entry": {
                            "objectClass": ["top", "inetOrgPerson"],
                            "cn": "[n]",
                            "sn": "password",
                            "userPassword": "of yesterday",
                        },
                    },
                },
                {
                    **expect,
                    "extended": {
                        "password_modify": {
                            "user": f"uid=password.[n],{PEOPLE_DN}",
                            "new": "[random:16:alphanumeric]",
                        }
                    },
                },
                {**expect, "delete": {"dn": f"uid=password.[n],{PEOPLE_DN}"}},
            ],
        },
    ]


def controls(directory: Directory) -> list[Operation]:
    everybody = "(objectClass=inetOrgPerson)"
    # slapd's schema names no rule for these, 389-DS knows this one by no name
    rule = ":caseIgnoreOrderingMatch" if directory.kind == "slapd" else ""
    by_name = {"server_side_sort": [f"sn{rule}", f"-employeeNumber{rule}"]}
    operations: list[Operation] = [
        {
            "name": "paged",
            **search(everybody, page_size=300, attributes=["1.1"]),
        },
        {
            "name": "sorted",
            "controls": [by_name],
            **search("(sn=Allen)", attributes=["sn"]),
        },
        {
            "name": "vlv",
            "controls": [
                {"server_side_sort": f"uid{rule}"},
                {"vlv": {"before": 1, "after": 8, "offset": "[1-40]"}},
            ],
            **search("(givenName=Ada)", attributes=["uid"], scope="one"),
        },
        {
            "name": "vlv_value",
            "controls": [
                {"server_side_sort": f"uid{rule}"},
                {"vlv": {"after": 5, "value": "user.5"}},
            ],
            **search("(givenName=Ada)", attributes=["uid"], scope="one"),
        },
        {
            "name": "proxied",
            "controls": [{"proxied_authorization": f"dn:{person('[500-999]')}"}],
            **search("(uid=user.[0-999])", attributes=["cn"]),
        },
        {
            "name": "read_entry",
            "controls": [{"pre_read": ["description"]}, {"post_read": ["description"]}],
            **restored("replace"),
        },
        {"name": "dsa_it", "controls": ["manage_dsa_it"], **search("(uid=user.1)")},
        {"name": "subentries", "controls": ["subentries"], **search("(cn=none)")},
        {
            "name": "unknown",
            "controls": [
                {"oid": "1.3.6.1.4.1.99999.2", "critical": False, "value": "hex:00ff"}
            ],
            **search("(uid=user.[0-999])"),
        },
        {
            "name": "refused",
            "controls": [{"oid": "1.3.6.1.4.1.99999.2", "value": "base64:AP8="}],
            "expect": ["unavailableCriticalExtension"],
            **search("(uid=user.[0-999])"),
        },
    ]
    return operations + (_of_slapd() if directory.kind == "slapd" else [])


def _of_slapd() -> list[Operation]:
    """What 389-DS does not know."""
    return [
        {
            "name": "asserted",
            "controls": [{"assertion": "(sn=Nobody)"}],
            "expect": ["assertionFailed"],
            "delete": {"dn": person("[0-999]")},
        },
        {
            "name": "matched",
            "controls": [
                {"matched_values": ["(objectClass=person)", "(uid=user.[0-9])"]},
                "dont_use_copy",
            ],
            **search("(uid=user.[0-999])"),
        },
        {
            "name": "permitted",
            "controls": ["permissive_modify"],
            **restored("add"),
        },
        {
            "name": "there_already",
            "expect": ["attributeOrValueExists"],
            **restored("add"),
        },
        {"name": "below", **search("(uid=user.[0-999])", scope="children")},
        {
            "name": "incremented",
            "sequence": [
                {
                    "let": {"n": "[unique]"},
                    "add": {
                        "dn": f"uid=count.[n],{PEOPLE_DN}",
                        "entry": {
                            "objectClass": ["top", "account", "posixAccount"],
                            "cn": "[n]",
                            "uidNumber": "0",
                            "gidNumber": "0",
                            "homeDirectory": "/",
                        },
                    },
                },
                {
                    "modify": {
                        "dn": f"uid=count.[n],{PEOPLE_DN}",
                        "increment": {"uidNumber": 42},
                    }
                },
                {
                    "compare": {
                        "dn": f"uid=count.[n],{PEOPLE_DN}",
                        "attribute": "uidNumber",
                        "value": "42",
                    },
                    "expect": ["compareTrue"],
                },
                {"delete": {"dn": f"uid=count.[n],{PEOPLE_DN}"}},
            ],
        },
    ]
