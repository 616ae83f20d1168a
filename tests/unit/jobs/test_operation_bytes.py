# SPDX-License-Identifier: Apache-2.0
"""Requests that libldap does not send, by their RFCs; entries of `of`; fields that do
not go together."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from ldapslam.base.fault import Fault
from ldapslam.jobs.operations.body import NO_VARIABLE
from ldapslam.jobs.requests.scope import Scope
from ldapslam.jobs.requests.template import UNIFORM, UUID, VARIABLE
from support.compiled import filled, filled_variables, operation

DN = "uid=user.1,ou=people,dc=example,dc=com"
PEOPLE = "ou=people,dc=example,dc=com"


def tlv(tag: int, content: bytes) -> bytes:
    return bytes([tag, len(content)]) + content


def test_variable_may_stand_for_the_whole_dn() -> None:
    scope = Scope({"x": 0}, 1)
    for dn, sent_dn in (("[x]", "cn=a\\,b,dc=c"), ("cn=d,[x]", "cn=d,cn=a\\,b,dc=c")):
        body = operation("add", scope, dn=dn, entry={"cn": "d"})
        sent = filled(body.compile(scope.copy()), variables={0: "cn=a\\,b,dc=c"})
        named = operation("add", dn=sent_dn, entry={"cn": "d"})
        assert sent == filled(named.compile(Scope()))


@pytest.mark.parametrize(
    ("fields", "texts", "credentials"),
    [
        ("mechanism: PLAIN, authcid: 'u.[0-9]', password: p", ["7"], b"\0u.7\0p"),
        ("mechanism: PLAIN, authcid: a, password: b, authzid: 'u:c'", [], b"u:c\0a\0b"),
        # credentials that are there, and empty
        ("mechanism: EXTERNAL", [], b""),
        ("mechanism: EXTERNAL, authzid: 'u:c'", [], b"u:c"),
        ("mechanism: ANONYMOUS, authcid: me", [], b"me"),
        ("mechanism: ANONYMOUS", [], b""),
    ],
)
def test_sasl_bind_of_one_step_is_a_template(
    fields: str, texts: list[str], credentials: bytes
) -> None:
    sasl = yaml.safe_load(f"{{{fields}}}")
    compiled = operation("bind", sasl=sasl).compile(Scope())
    # BindRequest { version 3, name "", sasl [3] { mechanism, credentials } }
    choice = tlv(0x04, sasl["mechanism"].encode()) + tlv(0x04, credentials)
    request = tlv(0x60, b"\x02\x01\x03" + tlv(0x04, b"") + tlv(0xA3, choice))
    assert filled(compiled, texts) == tlv(0x30, b"\x02\x01\x01" + request)
    assert compiled.sasl is None


def test_sasl_bind_of_several_steps_is_left_to_the_engine() -> None:
    scope = Scope({"user": 0}, 1)
    body = operation(
        "bind",
        sasl={"mechanism": "SCRAM-SHA-256", "authcid": "u[0-9]", "password": "p"},
    )
    compiled = body.compile(scope)
    assert compiled.sasl is not None
    mechanism, authcid, password, authzid, credentials = compiled.sasl
    assert (mechanism, authzid) == ("SCRAM-SHA-256", -1)
    assert [let.variable for let in compiled.lets] == [authcid, password]
    assert sorted([authcid, password, credentials]) == [1, 2, 3]
    assert scope.variables == 4
    sent = filled(compiled, ["7"], variables={credentials: "\x04\x07n,,n=u7"})
    assert sent.endswith(b"\xa3\x18\x04\x0dSCRAM-SHA-256\x04\x07n,,n=u7")


@pytest.mark.parametrize(
    ("number", "octets"), [("\x05", "500105"), ("\x01\x00", "50020100")]
)
def test_abandon_has_the_message_id_of_what_it_abandons(
    number: str, octets: str
) -> None:
    compiled = operation("abandon", of="search", after="1ms").compile(Scope())
    assert filled(compiled, [number])[5:] == bytes.fromhex(octets)
    assert (compiled.action, compiled.response_tag) == ("abandon", 0)


def test_unbind_is_two_octets() -> None:
    compiled = operation("unbind").compile(Scope())
    assert filled(compiled) == bytes.fromhex("3005 020101 4200")
    assert (compiled.action, compiled.response_tag) == ("unbind", 0)


def test_values_of_a_paged_search_are_drawn_before_its_first_page() -> None:
    compiled = operation(
        "search", base="ou=[1-9],dc=com", filter="(cn=[uuid])", page_size=9
    ).compile(Scope())
    assert {v.kind for v in compiled.template.values} == {VARIABLE}
    assert [let.template.values[0].kind for let in compiled.lets] == [UNIFORM, UUID]


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("delete", {}),
        ("modify", {"replace": {"cn": "x"}}),
        ("compare", {"attribute": "cn", "value": "x"}),
        ("modify_dn", {"new_rdn": "cn=y"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_entry_of_an_add_stands_where_the_dn_would(
    kind: str, fields: dict[str, Any]
) -> None:
    named = operation(kind, dn=DN, **fields).compile(Scope())
    taken = operation(kind, of="add", order="random", **fields).compile(Scope())
    assert (named.ledger_of, named.ledger_take) == (None, NO_VARIABLE)
    assert (taken.ledger_of, taken.ledger_order) == ("add", "random")
    assert taken.ledger_take != NO_VARIABLE
    variables = {taken.ledger_take: DN}
    assert filled(taken, variables=variables) == filled(named)


@pytest.mark.parametrize(
    ("superior", "texts", "new_dn"),
    [
        (None, ["7"], f"uid=new.7,{PEOPLE}"),
        ("ou=[0-9],dc=com", ["7", "3"], "uid=new.7,ou=3,dc=com"),
        ("", ["7"], "uid=new.7"),
    ],
)
def test_renamed_entry_is_known_by_its_new_dn(
    superior: str | None, texts: list[str], new_dn: str
) -> None:
    fields = {} if superior is None else {"new_superior": superior}
    body = operation("modify_dn", of="add", new_rdn="uid=new.[0-9]", **fields)
    compiled = body.compile(Scope())
    assert compiled.ledger_take != NO_VARIABLE
    assert compiled.ledger_put == compiled.lets[-1].variable
    taken = {compiled.ledger_take: DN}
    known, drawn = filled_variables(compiled, texts, taken)
    assert known[compiled.ledger_put] == new_dn
    assert list(drawn) == []
    rdn, _, parent = new_dn.partition(",")
    named = operation(
        "modify_dn", dn=DN, new_rdn=rdn, **(fields and {"new_superior": parent})
    )
    assert filled(compiled, texts, variables=taken) == filled(named.compile(Scope()))


@pytest.mark.parametrize(
    ("kind", "fields", "reason"),
    [
        ("add", {"dn": "cn=x", "entry": {"cn": []}}, "expected at least one value"),
        ("add", {"dn": "cn=x", "entry": {"cn": "x"}, "under": "dc=x"}, "`under` and"),
        ("bind", {"anonymous": True, "password": "x"}, "a password belongs to"),
        (
            "bind",
            {"sasl": {"mechanism": "GSSAPI", "password": "x"}},
            "GSSAPI has no password",
        ),
        (
            "bind",
            {"sasl": {"mechanism": "EXTERNAL", "authzid": "me"}},
            "expected 'dn:' and a DN, or 'u:'",
        ),
        ("extended", {"who_am_i": True, "value": "x"}, "'value' needs it"),
        ("extended", {"oid": "1.2", "value": "base64:!"}, "expected base64"),
        ("modify_dn", {"dn": "cn=x", "new_rdn": ""}, "expected the DN of an entry"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_fields_that_do_not_go_together_are_a_fault(
    kind: str, fields: dict[str, Any], reason: str
) -> None:
    with pytest.raises((Fault, ValueError), match=None) as caught:
        operation(kind, **fields)
    assert reason in str(caught.value)
