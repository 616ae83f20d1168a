# SPDX-License-Identifier: Apache-2.0
"""The operations besides search and modify, byte for byte as libldap sends them, or by
the RFC where libldap cannot be asked."""

from __future__ import annotations

from typing import Any

import ldap
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ldap.extop import ExtendedRequest

from ldapslam.base.fault import Fault
from ldapslam.jobs.fields.context import Reading
from ldapslam.jobs.operations import OPERATIONS
from ldapslam.jobs.operations.body import NO_VARIABLE, OperationBody
from ldapslam.jobs.requests.scope import Scope
from ldapslam.jobs.requests.template import UNIFORM, UUID, VARIABLE
from support.compiled import filled, filled_variables
from support.libldap import LibLdap

DN = "uid=user.1,ou=people,dc=example,dc=com"
PEOPLE = "ou=people,dc=example,dc=com"


def operation(kind: str, scope: Scope | None = None, /, **fields: Any) -> OperationBody:
    reading = Reading(scope=scope or Scope())
    return OPERATIONS[kind].model_validate(fields, context=reading)


@pytest.mark.parametrize("dn", [DN, "cn=Müller\\, A,dc=com", "dc=com"])
def test_delete_is_what_libldap_sends(libldap: LibLdap, dn: str) -> None:
    message_id, sent = libldap.sent_by(lambda c: c.delete_ext(dn))
    body = operation("delete", dn=dn)
    assert filled(body.compile(Scope()), message_id=message_id) == sent


def test_compare_is_what_libldap_sends(libldap: LibLdap) -> None:
    message_id, sent = libldap.sent_by(lambda c: c.compare_ext(DN, "sn", "Ü 7"))
    body = operation("compare", dn=DN, attribute="sn", value="Ü [0-9]")
    assert filled(body.compile(Scope()), ["7"], message_id=message_id) == sent


@pytest.mark.parametrize(
    ("fields", "superior", "delete_old"),
    [
        ({}, None, 1),
        ({"delete_old_rdn": False}, None, 0),
        ({"new_superior": "dc=com"}, "dc=com", 1),
        ({"new_superior": "ou=x[0-9],dc=com"}, "ou=x3,dc=com", 1),
    ],
    ids=str,
)
def test_modify_dn_is_what_libldap_sends(
    libldap: LibLdap, fields: dict[str, Any], superior: str | None, delete_old: int
) -> None:
    message_id, sent = libldap.sent_by(
        lambda c: c.rename(DN, "uid=b+cn=c", superior, delete_old)
    )
    body = operation("modify_dn", dn=DN, new_rdn="uid=b+cn=c", **fields)
    texts = ["3"] if "x[" in fields.get("new_superior", "") else []
    assert filled(body.compile(Scope()), texts, message_id=message_id) == sent


def test_add_is_what_libldap_sends(libldap: LibLdap) -> None:
    entry = [("objectClass", [b"top", b"person"]), ("sn", [b"ab"]), ("uid", [b"n.5"])]
    message_id, sent = libldap.sent_by(lambda c: c.add_ext("uid=n.5,dc=com", entry))
    body = operation(
        "add",
        dn="uid=n.5,dc=com",
        entry={"objectClass": ["top", "person"], "sn": "[random:2]", "uid": "n.5"},
    )
    assert filled(body.compile(Scope()), ["ab"], message_id=message_id) == sent


@pytest.mark.parametrize(
    ("dn", "texts", "sent_dn", "attributes"),
    [
        ("uid=n.[0:9],dc=com", ["4"], "uid=n.4,dc=com", {"uid": "n.4"}),
        (
            "uid=[0:9]+cn=a\\2c [1-2]b,ou=[3-4],dc=com",
            ["4", "1", "3"],
            "uid=4+cn=a\\2c 1b,ou=3,dc=com",
            {"uid": "4", "cn": "a, 1b"},
        ),
        (
            "CN = \\C3\\BC[0-9]\\ ,ou=x,dc=com",
            ["4"],
            "CN = \\C3\\BC4\\ ,ou=x,dc=com",
            {"CN": "ü4 "},
        ),
        ("cn=#0401ff,dc=com", [], "cn=#0401ff,dc=com", {}),
        ("uid=fix,dc=com", [], "uid=fix,dc=com", {"uid": "fix"}),
    ],
)
def test_attributes_of_the_rdn_are_added(
    libldap: LibLdap,
    dn: str,
    texts: list[str],
    sent_dn: str,
    attributes: dict[str, str],
) -> None:
    entry = [("sn", [b"x"])]
    entry += [(name, [value.encode()]) for name, value in attributes.items()]
    message_id, sent = libldap.sent_by(lambda c: c.add_ext(sent_dn, entry))
    compiled = operation("add", dn=dn, entry={"sn": "x"}).compile(Scope())
    assert filled(compiled, texts, message_id=message_id) == sent
    assert compiled.ledger_put == compiled.lets[-1].variable


def test_variable_may_stand_for_the_whole_dn() -> None:
    scope = Scope({"x": 0}, 1)
    for dn, sent_dn in (("[x]", "cn=a\\,b,dc=c"), ("cn=d,[x]", "cn=d,cn=a\\,b,dc=c")):
        body = operation("add", scope, dn=dn, entry={"cn": "d"})
        sent = filled(body.compile(scope.copy()), variables={0: "cn=a\\,b,dc=c"})
        named = operation("add", dn=sent_dn, entry={"cn": "d"})
        assert sent == filled(named.compile(Scope()))


def test_simple_bind_is_what_libldap_sends(libldap: LibLdap) -> None:
    message_id, sent = libldap.sent_by(lambda c: c.simple_bind(DN, "pass 7"))
    body = operation("bind", dn=DN, password="pass [0-9]")
    assert filled(body.compile(Scope()), ["7"], message_id=message_id) == sent


def test_anonymous_bind_is_what_libldap_sends(libldap: LibLdap) -> None:
    message_id, sent = libldap.sent_by(lambda c: c.simple_bind("", ""))
    compiled = operation("bind", anonymous=True).compile(Scope())
    assert filled(compiled, message_id=message_id) == sent


@pytest.mark.parametrize(
    ("sasl", "texts", "octets"),
    [
        # BindRequest { version 3, name "", sasl [3] { mechanism, credentials } }
        (
            {"mechanism": "PLAIN", "authcid": "user.[0-9]", "password": "pw"},
            ["7"],
            "020103 0400 a313 0405504c41494e 040a 00 757365722e37 00 7077",
        ),
        (
            {
                "mechanism": "PLAIN",
                "authcid": "a",
                "password": "b",
                "authzid": "u:c",
            },
            [],
            "020103 0400 a310 0405504c41494e 0407 753a63 00 61 00 62",
        ),
        (
            {"mechanism": "EXTERNAL"},
            [],
            # credentials that are there, and empty
            "020103 0400 a30c 040845585445524e414c 0400",
        ),
        (
            {"mechanism": "EXTERNAL", "authzid": "u:c"},
            [],
            "020103 0400 a30f 040845585445524e414c 0403 753a63",
        ),
        (
            {"mechanism": "ANONYMOUS", "authcid": "me"},
            [],
            "020103 0400 a30f 0409414e4f4e594d4f5553 0402 6d65",
        ),
        (
            {"mechanism": "ANONYMOUS"},
            [],
            "020103 0400 a30d 0409414e4f4e594d4f5553 0400",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_sasl_bind_of_one_step_is_a_template(
    sasl: dict[str, Any], texts: list[str], octets: str
) -> None:
    compiled = operation("bind", sasl=sasl).compile(Scope())
    content = bytes.fromhex(octets)
    request = b"\x60" + bytes([len(content)]) + content
    message = b"\x02\x01\x01" + request
    assert filled(compiled, texts) == b"\x30" + bytes([len(message)]) + message
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
    sent = filled(compiled, ["7"], variables={credentials: "n,,n=u7"})
    assert sent.endswith(b"\xa3\x18\x04\x0dSCRAM-SHA-256\x04\x07n,,n=u7")


@pytest.mark.parametrize(
    ("fields", "name", "value"),
    [
        ({"who_am_i": True}, "1.3.6.1.4.1.4203.1.11.3", None),
        ({"oid": "1.2.3"}, "1.2.3", None),
        ({"oid": "1.2.3", "value": ""}, "1.2.3", b""),
        ({"oid": "1.2.3", "value": "text"}, "1.2.3", b"text"),
        ({"oid": "1.2.3", "value": "hex:30 03 0a0100"}, "1.2.3", b"0\x03\n\x01\0"),
        ({"oid": "1.2.3", "value": "base64:MAMKAQA="}, "1.2.3", b"0\x03\n\x01\0"),
        # RFC 3062: SEQUENCE { userIdentity [0], oldPasswd [1], newPasswd [2] }
        (
            {"password_modify": {"user": "u:a", "old": "b", "new": "c"}},
            "1.3.6.1.4.1.4203.1.11.1",
            bytes.fromhex("300b 8003753a61 810162 820163"),
        ),
        (
            {"password_modify": {"new": "c"}},
            "1.3.6.1.4.1.4203.1.11.1",
            bytes.fromhex("3003 820163"),
        ),
        ({"password_modify": {}}, "1.3.6.1.4.1.4203.1.11.1", None),
    ],
    ids=str,
)
def test_extended_operation_is_what_libldap_sends(
    libldap: LibLdap, fields: dict[str, Any], name: str, value: bytes | None
) -> None:
    request = ExtendedRequest(name, value)
    message_id, sent = libldap.sent_by(lambda c: c.extop(request))
    body = operation("extended", **fields)
    assert filled(body.compile(Scope()), message_id=message_id) == sent


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


def test_page_has_the_cookie_of_the_page_before(libldap: LibLdap) -> None:
    control = ldap.controls.SimplePagedResultsControl(True, 200, "a cookie")
    message_id, sent = libldap.sent_by(
        lambda c: c.search_ext("dc=com", 2, "(cn=a)", None, 0, [control])
    )
    compiled = operation(
        "search", base="dc=com", filter="(cn=a)", page_size=200
    ).compile(Scope())
    variables = {compiled.cookie_variable: "a cookie"}
    assert filled(compiled, message_id=message_id, variables=variables) == sent


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


@given(st.text(st.characters(exclude_categories=["Cs", "Co"]), max_size=40))
def test_value_of_any_text_is_what_libldap_sends(libldap: LibLdap, text: str) -> None:
    message_id, sent = libldap.sent_by(
        lambda c: c.add_ext("cn=x", [("d", [text.encode()]), ("cn", [b"x"])])
    )
    escaped = text.replace("[", "[[").replace("]", "]]")
    compiled = operation("add", dn="cn=x", entry={"d": escaped}).compile(Scope())
    assert filled(compiled, message_id=message_id) == sent


@pytest.mark.parametrize(
    ("kind", "fields", "reason"),
    [
        ("add", {"dn": "cn=x"}, "the key 'entry' is missing"),
        ("add", {"dn": "cn=x", "entry": {"cn": []}}, "expected at least one value"),
        ("add", {"template": "t"}, "the key 'under' is missing"),
        ("add", {"dn": "cn=x", "entry": {"cn": "x"}, "under": "dc=x"}, "`under` and"),
        ("bind", {"dn": "cn=x"}, "the key 'password' is missing"),
        ("bind", {"dn": "cn=x", "password": ""}, "expected a password, got ''"),
        ("bind", {"anonymous": True, "password": "x"}, "a password belongs to"),
        ("bind", {"sasl": {"mechanism": "plain"}}, "expected the name of a SASL"),
        ("bind", {"sasl": {"mechanism": "PLAIN"}}, "PLAIN needs authcid and password"),
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
        ("extended", {"oid": "1"}, "expected an OID"),
        ("extended", {"oid": "1.3.6.1.4.1.1466.20037"}, "StartTLS cannot be sent"),
        ("extended", {"who_am_i": True, "value": "x"}, "'value' needs it"),
        ("extended", {"oid": "1.2", "value": "hex:0"}, "expected two hex digits"),
        ("extended", {"oid": "1.2", "value": "base64:!"}, "expected base64"),
        ("modify_dn", {"dn": "cn=x", "new_rdn": "cn=a,dc=b"}, "expected a single RDN"),
        ("modify_dn", {"dn": "cn=x", "new_rdn": ""}, "expected the DN of an entry"),
        ("search", {"base": "", "page_size": 0}, "greater than or equal to 1"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_fields_that_do_not_go_together_are_a_fault(
    kind: str, fields: dict[str, Any], reason: str
) -> None:
    with pytest.raises((Fault, ValueError), match=None) as caught:
        operation(kind, **fields)
    assert reason in str(caught.value)
