# SPDX-License-Identifier: Apache-2.0
"""Controls: byte for byte as python-ldap and libldap send them, or by their RFCs."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ldap.controls import LDAPControl, RequestControl
from ldap.controls.libldap import AssertionControl, MatchedValuesControl
from ldap.controls.readentry import PostReadControl, PreReadControl
from ldap.controls.simple import (
    AuthorizationIdentityRequestControl,
    ManageDSAITControl,
    ProxyAuthzControl,
)
from ldap.controls.sss import SSSRequestControl
from ldap.controls.vlv import VLVRequestControl
from pydantic import ValidationError

from ldapslam.base.fault import Fault
from ldapslam.jobs.fields.context import Reading
from ldapslam.jobs.operations.controls import CONTROLS, Control
from ldapslam.jobs.operations.search import Search
from ldapslam.jobs.operations.sequence import Operation
from ldapslam.jobs.requests.scope import Scope
from support.compiled import filled
from support.libldap import LibLdap

SEARCH = Search.model_validate({"base": "dc=com", "filter": "(cn=a)"})
DN = "uid=user.1,dc=com"
SUBENTRIES = "1.3.6.1.4.1.4203.1.10.1"


def control(given: Any, scope: Scope | None = None) -> Control:
    return Control.model_validate(given, context=Reading(scope=scope or Scope()))


def sent_with(given: Any, texts: list[str] = [], message_id: int = 1) -> bytes:  # noqa: B006
    scope = Scope({"x": 0}, 1)
    node = control(given, scope).node(scope)
    compiled = SEARCH.compile(scope, [node])
    return filled(compiled, texts, message_id=message_id, variables={0: "var"})


@pytest.mark.parametrize(
    ("given", "texts", "theirs"),
    [
        ("manage_dsa_it", [], RequestControl("2.16.840.1.113730.3.4.2", True)),
        ({"manage_dsa_it": True, "critical": False}, [], ManageDSAITControl(False)),
        (
            {"proxied_authorization": "dn:uid=user.[0-9],dc=com"},
            ["1"],
            ProxyAuthzControl(True, f"dn:{DN}".encode()),
        ),
        ({"proxied_authorization": ""}, [], ProxyAuthzControl(True, b"")),
        ("authorization_identity", [], AuthorizationIdentityRequestControl(True)),
        (
            {"assertion": "(&(cn=[x])(!(sn=*b)))"},
            [],
            AssertionControl(True, "(&(cn=var)(!(sn=*b)))"),
        ),
        (
            {"matched_values": ["(cn=a[0-9]*)", "(mail=*)"]},
            ["7"],
            MatchedValuesControl(True, "((cn=a7*)(mail=*))"),
        ),
        (
            {"matched_values": "(cn>=[random:2])"},
            ["zz"],
            MatchedValuesControl(True, "((cn>=zz))"),
        ),
        ({"pre_read": ["cn", "*"]}, [], PreReadControl(True, ["cn", "*"])),
        ({"post_read": "entryCSN"}, [], PostReadControl(True, ["entryCSN"])),
        ({"pre_read": []}, [], PreReadControl(True, [])),
        (
            {"server_side_sort": ["sn", "mail:exactRule"]},
            [],
            SSSRequestControl(True, ["sn", "mail:exactRule"]),
        ),
        # RFC 2891; reverseOrder [1] by hand: pyasn1's TRUE is not RFC 4511's 0xff
        (
            {"server_side_sort": "-uid:2.5.13.3"},
            [],
            RequestControl(
                "1.2.840.113556.1.4.473",
                True,
                bytes.fromhex("3014 3012 0403756964 8008322e352e31332e33 8101ff"),
            ),
        ),
        (
            {"vlv": {"before": 1, "after": 20, "offset": 3, "count": 1000}},
            [],
            VLVRequestControl(
                True, before_count=1, after_count=20, offset=3, content_count=1000
            ),
        ),
        (
            {"vlv": {"value": "m[random:1]"}},
            ["x"],
            VLVRequestControl(
                True, before_count=0, after_count=0, greater_than_or_equal="mx"
            ),
        ),
        ("permissive_modify", [], RequestControl("1.2.840.113556.1.4.1413", True)),
        ("tree_delete", [], RequestControl("1.2.840.113556.1.4.805", True)),
        ("dont_use_copy", [], RequestControl("1.3.6.1.1.22", True)),
        ("password_policy", [], RequestControl("1.3.6.1.4.1.42.2.27.8.5.1", True)),
        # RFC 3672: the value is a BOOLEAN.
        ("subentries", [], RequestControl(SUBENTRIES, True, b"\x01\x01\xff")),
        ({"subentries": False}, [], RequestControl(SUBENTRIES, True, b"\x01\x01\x00")),
        ({"oid": "1.2.3"}, [], RequestControl("1.2.3", True)),
        ({"oid": "1.2.3", "value": ""}, [], RequestControl("1.2.3", True, b"")),
        (
            {"oid": "1.2.3", "critical": False, "value": "n [0-9]"},
            ["4"],
            RequestControl("1.2.3", False, b"n 4"),
        ),
        (
            {"oid": "1.2.3", "value": "base64:AP8="},
            [],
            RequestControl("1.2.3", True, b"\x00\xff"),
        ),
    ],
    ids=lambda value: "" if isinstance(value, RequestControl) else str(value)[:50],
)
def test_control_is_what_libldap_sends(
    libldap: LibLdap, given: Any, texts: list[str], theirs: LDAPControl
) -> None:
    message_id, sent = libldap.sent_by(
        lambda c: c.search_ext("dc=com", 2, "(cn=a)", None, 0, [theirs])
    )
    assert sent_with(given, texts, message_id) == sent


def test_several_controls_keep_their_order(libldap: LibLdap) -> None:
    theirs = [SSSRequestControl(True, ["cn"]), ManageDSAITControl()]
    message_id, sent = libldap.sent_by(
        lambda c: c.search_ext("dc=com", 2, "(cn=a)", None, 0, theirs)
    )
    scope = Scope()
    ours = [
        control(given).node(scope)
        for given in (
            {"server_side_sort": "cn"},
            {"manage_dsa_it": True, "critical": False},
        )
    ]
    assert filled(SEARCH.compile(scope, ours), message_id=message_id) == sent


def test_drawn_offset_is_one_of_the_range_as_an_integer() -> None:
    compiled = SEARCH.compile(
        Scope(), [control({"vlv": {"offset": "[126-129]"}}).node(Scope())]
    )
    (source,) = compiled.template.values
    # 127 is the last one that needs a single octet
    assert [text.hex() for text, _ in source.choices] == ["7e", "7f", "0080", "0081"]
    assert len({weight for _, weight in source.choices}) == 1


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"oid": "1.2.840.113556.1.4.319"}, "paged results are a matter"),
        ({"assertion": "(cn=[y])"}, "unknown pattern or name 'y'"),
        ({"matched_values": "(&(cn=a)(cn=b))"}, "expected a filter of one item"),
        ({"matched_values": "(cn:dn:=a)"}, "expected a filter of one item"),
        ({"matched_values": []}, "at least 1 item"),
        ({"server_side_sort": "+cn"}, "expected a sort key, got '+cn'"),
        ({"server_side_sort": ["cn:"]}, "expected a sort key"),
        ({"vlv": {"offset": 0}}, "expected an offset from 1"),
        ({"vlv": {"offset": "[1-5000]"}}, "a range of at most 4096 offsets"),
        ({"vlv": {"offset": "first"}}, "expected an offset from 1, or a range"),
        ({"vlv": {"offset": 1, "before": -1}}, "greater than or equal to 0"),
        ({"proxied_authorization": "cn=x"}, "expected 'dn:' and a DN"),
        ({"manage_dsa_it": True, "value": "x"}, "'value' needs it"),
        ({"manage_dsa_it": "yes"}, "Input should be True"),
        ({"oid": "1.2", "critical": "yes"}, "expected true or false"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_broken_control_is_a_fault(given: Any, reason: str) -> None:
    with pytest.raises(ValueError, match="validation error") as caught:
        control(given)
    assert reason in str(caught.value)


def test_every_control_has_a_field() -> None:
    assert set(CONTROLS) <= set(Control.model_fields)


OF_ROOT = {"base": ""}


@pytest.mark.parametrize(
    ("kind", "controls", "body", "reason"),
    [
        (
            "search",
            ["manage_dsa_it", {"manage_dsa_it": True}],
            OF_ROOT,
            "'manage_dsa_it' is given twice",
        ),
        ("unbind", [{"oid": "1.2"}], {}, "unbind takes no controls"),
        (
            "delete",
            [{"oid": "1.2.840.113556.1.4.805"}],
            {"dn": DN},
            "would remove entries that this run",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_misplaced_control_is_a_fault_with_a_hint(
    kind: str, controls: list[Any], body: dict[str, Any], reason: str
) -> None:
    ((place, fault),) = misplaced({kind: body, "controls": controls})
    assert place == ("controls", len(controls) - 1)
    assert reason in fault.reason
    assert fault.hint


MISPLACED = "twice|takes no controls|not for the operation|sorted result|would remove"


def misplaced(operation: dict[str, Any]) -> list[tuple[Any, Fault]]:
    """The faults of controls that are right by themselves."""
    try:
        Operation.model_validate(operation, context=Reading())
    except ValidationError as error:
        found: list[tuple[Any, Any]] = [
            (one["loc"], one.get("ctx", {}).get("error")) for one in error.errors()
        ]
        return [one for one in found if re.search(MISPLACED, str(one[1]))]
    return []


@pytest.mark.parametrize(
    "operation",
    [
        {"delete": {"of": "add"}, "controls": ["tree_delete"]},
        {"search": OF_ROOT, "controls": [{"oid": "1.2"}, {"oid": "1.3"}]},
        {"search": {}, "controls": "what the field finds"},
        {"search": {}, "controls": [None, 3, "unknown", {}, {"oid": 3}]},
        {"controls": [{"vlv": {}}, {"server_side_sort": "cn"}], "search": {}},
    ],
    ids=str,
)
def test_other_controls_are_none(operation: dict[str, Any]) -> None:
    assert misplaced(operation) == []
