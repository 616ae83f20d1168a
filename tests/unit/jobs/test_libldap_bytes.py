# SPDX-License-Identifier: Apache-2.0
"""Our requests are byte for byte those that libldap sends, or what their RFCs say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ldap
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from ldap.extop import ExtendedRequest

from ldapslam.base.fault import Fault
from ldapslam.jobs.operations.body import NO_VARIABLE
from ldapslam.jobs.requests.scope import Scope
from ldapslam.jobs.requests.template import UNIFORM, UUID, VARIABLE
from support.compiled import filled, filled_variables, operation
from support.libldap import LibLdap

DN = "uid=user.1,ou=people,dc=example,dc=com"
SCOPES = {
    "base": ldap.SCOPE_BASE,
    "one": ldap.SCOPE_ONELEVEL,
    "sub": ldap.SCOPE_SUBTREE,
    "children": ldap.SCOPE_SUBORDINATE,
}
DEREF = {
    "never": ldap.DEREF_NEVER,
    "searching": ldap.DEREF_SEARCHING,
    "finding": ldap.DEREF_FINDING,
    "always": ldap.DEREF_ALWAYS,
}


def encoded(
    message_id: int, kind: str, texts: Sequence[str] = (), /, **fields: Any
) -> bytes:
    compiled = operation(kind, **fields).compile(Scope())
    return filled(compiled, texts, message_id=message_id)


def search_bytes(libldap: LibLdap, **fields: Any) -> tuple[int, bytes]:
    """What libldap sends for a search with the fields of a job file."""
    libldap.connection.set_option(ldap.OPT_DEREF, DEREF[fields.get("deref", "never")])
    seconds = int(fields.get("time_limit", "0s").removesuffix("s"))
    libldap.connection.set_option(ldap.OPT_TIMELIMIT, seconds)
    return libldap.sent_by(
        lambda connection: connection.search_ext(
            fields["base"],
            SCOPES[fields.get("scope", "sub")],
            fields.get("filter", "(objectClass=*)"),
            fields.get("attributes"),
            int(fields.get("types_only", False)),
            sizelimit=fields.get("size_limit", 0),
        )
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"base": ""},
        {"base": "dc=example,dc=com"},
        {"base": "dc=example,dc=com", "scope": "base", "attributes": ["cn", "+"]},
        {"base": "dc=example,dc=com", "scope": "one", "attributes": ["1.1"]},
        {"base": "dc=example,dc=com", "scope": "children", "types_only": True},
        {"base": "dc=example,dc=com", "size_limit": 127, "time_limit": "128s"},
        {"base": "dc=example,dc=com", "size_limit": 32768, "time_limit": "65536s"},
        *({"base": "dc=example,dc=com", "deref": deref} for deref in DEREF),
        # Lengths of one, two and three octets.
        *({"base": f"ou={'x' * length},dc=com"} for length in (117, 118, 245, 65536)),
        {"base": "ou=Müller,dc=com", "filter": "(cn=Müller)"},
    ],
    ids=lambda fields: ",".join(
        f"{key}={value!s:.20}" for key, value in fields.items()
    ),
)
def test_search_is_what_libldap_sends(libldap: LibLdap, fields: dict[str, Any]) -> None:
    message_id, sent = search_bytes(libldap, **fields)
    assert encoded(message_id, "search", **fields) == sent


@pytest.mark.parametrize(
    "text",
    [
        "(cn=)",
        "(cn=*)",
        "(cn=*a*)",
        "(cn=a*b*c*d)",
        "(age<=30)",
        r"(cn=\2a\28\29\5c\00\ff)",
        r"(cn=a\2a*b\2A)",
        "(cn;lang-de;x-y=a)",
        "(2.5.4.3=a)",
        "(cn:=a)",
        "(cn:dn:=a)",
        "(cn:caseExactMatch:=a)",
        "(cn:dn:2.5.13.5:=a)",
        "(:2.5.13.5:=a)",
        "(:dn:2.5.13.5:=a)",
        "(&)",
        "(|)",
        "(&(|(cn=a)(!(sn=b*)))(mail=*)(age>=1))",
        "(cn= leading and trailing )",
        f"(cn={'x' * 300})",
    ],
)
def test_filter_is_what_libldap_sends(libldap: LibLdap, text: str) -> None:
    message_id, sent = search_bytes(libldap, base="dc=com", filter=text)
    assert encoded(message_id, "search", base="dc=com", filter=text) == sent


VALUES = st.text(
    st.characters(
        codec="utf-8", exclude_characters="()*\\\0[]", exclude_categories=["Co"]
    ),
    min_size=1,
)
ATTRIBUTES = st.sampled_from(["cn", "x-a1", "cn;lang-de", "a;b;c-1"])
ITEMS = st.one_of(
    st.builds("({}={})".format, ATTRIBUTES, VALUES),
    st.builds("({}=*)".format, ATTRIBUTES),
    st.builds("({}~={})".format, ATTRIBUTES, VALUES),
    st.builds("({}>={})".format, ATTRIBUTES, VALUES),
    st.builds("({}:=\\{:02x})".format, ATTRIBUTES, st.integers(0, 255)),
    st.builds("({}={}*{}*)".format, ATTRIBUTES, VALUES, VALUES),
    st.builds("({}=*{}*{})".format, ATTRIBUTES, VALUES, VALUES),
)
FILTERS = st.recursive(
    ITEMS,
    lambda inner: st.one_of(
        st.builds("(!{})".format, inner),
        st.builds(
            lambda kind, parts: f"({kind}{''.join(parts)})",
            st.sampled_from("&|"),
            st.lists(inner, max_size=4),
        ),
    ),
    max_leaves=8,
)


@given(text=FILTERS)
def test_any_filter_is_what_libldap_sends(libldap: LibLdap, text: str) -> None:
    message_id, sent = search_bytes(libldap, base="", filter=text)
    assert encoded(message_id, "search", base="", filter=text) == sent


@given(text=st.text("()&|!*=<>~:\\ac0 ", max_size=12))
def test_what_we_accept_libldap_accepts_too(libldap: LibLdap, text: str) -> None:
    try:
        operation("search", base="", filter=text)
    except ValueError:  # pydantic's, with our Fault inside
        return
    message_id, sent = search_bytes(libldap, base="", filter=text)
    assert encoded(message_id, "search", base="", filter=text) == sent


@pytest.mark.parametrize(
    ("changes", "modlist", "texts"),
    [
        pytest.param(
            {"replace": {"description": ["[[x]] [random:4]", "plain"], "sn": "[1:9]"}},
            [
                (ldap.MOD_REPLACE, "description", [b"[x] abcd", b"plain"]),
                (ldap.MOD_REPLACE, "sn", [b"3"]),
            ],
            ["abcd", "3"],
            id="patterns",
        ),
        pytest.param(
            {"add": {"mail": ["a@example.com", "b@example.com"]}},
            [(ldap.MOD_ADD, "mail", [b"a@example.com", b"b@example.com"])],
            [],
            id="several values",
        ),
        pytest.param(
            {"delete": {"mail": [], "sn": None}},
            [(ldap.MOD_DELETE, "mail", None), (ldap.MOD_DELETE, "sn", None)],
            [],
            id="all values",
        ),
        pytest.param(
            {"increment": {"uidNumber": -7}},
            [(ldap.MOD_INCREMENT, "uidNumber", [b"-7"])],
            [],
            id="increment",
        ),
        pytest.param(
            {"replace": {"b": "1", "a": 2}, "delete": {"c": "x"}, "add": {"c": "ü"}},
            [
                (ldap.MOD_REPLACE, "b", [b"1"]),
                (ldap.MOD_REPLACE, "a", [b"2"]),
                (ldap.MOD_DELETE, "c", [b"x"]),
                (ldap.MOD_ADD, "c", ["ü".encode()]),
            ],
            [],
            id="the order of the file",
        ),
        pytest.param(
            {"replace": {"description": "x" * 70_000}},
            [(ldap.MOD_REPLACE, "description", [b"x" * 70_000])],
            [],
            id="a long value",
        ),
    ],
)
def test_modify_is_what_libldap_sends(
    libldap: LibLdap, changes: dict[str, Any], modlist: list[Any], texts: list[str]
) -> None:
    message_id, sent = libldap.sent_by(lambda c: c.modify_ext(DN, modlist))
    assert encoded(message_id, "modify", texts, dn=DN, **changes) == sent


RENAMED = {"dn": DN, "new_rdn": "uid=b+cn=c"}


@pytest.mark.parametrize(
    ("kind", "fields", "texts", "request_of_theirs"),
    [
        ("delete", {"dn": DN}, [], lambda c: c.delete_ext(DN)),
        (
            "delete",
            {"dn": "cn=Müller\\, A,dc=com"},
            [],
            lambda c: c.delete_ext("cn=Müller\\, A,dc=com"),
        ),
        (
            "compare",
            {"dn": DN, "attribute": "sn", "value": "Ü [0-9]"},
            ["7"],
            lambda c: c.compare_ext(DN, "sn", "Ü 7"),
        ),
        ("modify_dn", RENAMED, [], lambda c: c.rename(DN, "uid=b+cn=c", None, 1)),
        (
            "modify_dn",
            {**RENAMED, "delete_old_rdn": False},
            [],
            lambda c: c.rename(DN, "uid=b+cn=c", None, 0),
        ),
        (
            "modify_dn",
            {**RENAMED, "new_superior": "ou=x[0-9],dc=com"},
            ["3"],
            lambda c: c.rename(DN, "uid=b+cn=c", "ou=x3,dc=com", 1),
        ),
        (
            "bind",
            {"dn": DN, "password": "pass [0-9]"},
            ["7"],
            lambda c: c.simple_bind(DN, "pass 7"),
        ),
        ("bind", {"anonymous": True}, [], lambda c: c.simple_bind("", "")),
    ],
)
def test_operation_is_what_libldap_sends(
    libldap: LibLdap,
    kind: str,
    fields: dict[str, Any],
    texts: list[str],
    request_of_theirs: Callable[[Any], int],
) -> None:
    message_id, sent = libldap.sent_by(request_of_theirs)
    assert encoded(message_id, kind, texts, **fields) == sent


@pytest.mark.parametrize(
    ("dn", "texts", "sent_dn", "attributes"),
    [
        ("uid=n.[0:9],dc=com", ["4", "ab"], "uid=n.4,dc=com", {"uid": "n.4"}),
        (
            "uid=[0:9]+cn=a\\2c [1-2]b,ou=[3-4],dc=com",
            ["4", "1", "3", "ab"],
            "uid=4+cn=a\\2c 1b,ou=3,dc=com",
            {"uid": "4", "cn": "a, 1b"},
        ),
        (
            "CN = \\C3\\BC[0-9]\\ ,ou=x,dc=com",
            ["4", "ab"],
            "CN = \\C3\\BC4\\ ,ou=x,dc=com",
            {"CN": "ü4 "},
        ),
        ("cn=#0401ff,dc=com", ["ab"], "cn=#0401ff,dc=com", {}),
        ("uid=fix,dc=com", ["ab"], "uid=fix,dc=com", {"uid": "fix"}),
    ],
)
def test_an_add_has_the_attributes_of_its_rdn(
    libldap: LibLdap,
    dn: str,
    texts: list[str],
    sent_dn: str,
    attributes: dict[str, str],
) -> None:
    entry = [("objectClass", [b"top", b"person"]), ("sn", [b"ab"])]
    entry += [(name, [value.encode()]) for name, value in attributes.items()]
    message_id, sent = libldap.sent_by(lambda c: c.add_ext(sent_dn, entry))
    written = {"objectClass": ["top", "person"], "sn": "[random:2]"}
    compiled = operation("add", dn=dn, entry=written).compile(Scope())
    assert filled(compiled, texts, message_id=message_id) == sent
    assert compiled.ledger_put == compiled.lets[-1].variable


@given(st.text(st.characters(exclude_categories=["Cs", "Co"]), max_size=40))
def test_value_of_any_text_is_what_libldap_sends(libldap: LibLdap, text: str) -> None:
    message_id, sent = libldap.sent_by(
        lambda c: c.add_ext("cn=x", [("d", [text.encode()]), ("cn", [b"x"])])
    )
    escaped = text.replace("[", "[[").replace("]", "]]")
    assert encoded(message_id, "add", dn="cn=x", entry={"d": escaped}) == sent


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
    assert encoded(message_id, "extended", **fields) == sent


@given(
    number=st.integers(-(10**6), 10**6),
    letters=st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=300),
)
def test_filled_holes_give_what_libldap_sends(
    libldap: LibLdap, number: int, letters: str
) -> None:
    message_id, sent = search_bytes(
        libldap,
        base="ou=org7,dc=example,dc=com",
        filter=rf"(&(uid=user.{number})(|(cn=\2a{letters}*x1y*)(sn:dn:={letters})))",
        attributes=["cn"],
    )
    ours = encoded(
        message_id,
        "search",
        ["7", str(number), letters, "1", letters],
        base="ou=org[0-9],dc=example,dc=com",
        filter=r"(&(uid=user.[0:999])(|(cn=\2a[random:3]*x[1-2]y*)(sn:dn:=[random:5])))",
        attributes=["cn"],
    )
    assert ours == sent


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


def test_a_request_with_too_many_patterns_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 256 patterns") as caught:
        operation("search", base="dc=com", filter=f"(cn={'[0-9]' * 257})")
    assert isinstance(caught.value.errors()[0]["ctx"]["error"], Fault)  # type: ignore[attr-defined]


def test_a_request_that_could_be_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 1048576 bytes"):
        operation("search", base="dc=com", filter=f"(cn={'[random:65536]' * 17})")


# Requests that libldap does not send, by their RFCs; entries of `of`; fields that do
# not go together.


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
