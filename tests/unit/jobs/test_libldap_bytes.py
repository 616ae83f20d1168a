# SPDX-License-Identifier: Apache-2.0
"""Our requests are byte for byte those that libldap sends for the same operation."""

from __future__ import annotations

from typing import Any

import ldap
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldapslam.base.fault import Fault
from ldapslam.jobs.operations import OPERATIONS
from ldapslam.jobs.operations.body import OperationBody
from ldapslam.jobs.requests.scope import Scope
from ldapslam.jobs.requests.template import Template
from support.libldap import LibLdap
from support.template_program import encode_message

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


def template_of(body: OperationBody) -> Template:
    return body.compile(Scope()).template


def operation(kind: str, **fields: Any) -> OperationBody:
    return OPERATIONS[kind].model_validate(fields)


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
    assert (
        encode_message(template_of(operation("search", **fields)), message_id) == sent
    )


@pytest.mark.parametrize(
    "text",
    [
        "(uid=user.1)",
        "(cn=)",
        "(cn=*)",
        "(cn=a*)",
        "(cn=*a)",
        "(cn=*a*)",
        "(cn=a*b*c*d)",
        "(age>=30)",
        "(age<=30)",
        "(cn~=jon)",
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
        "(!(cn=a))",
        "(&(cn=a)(sn=b))",
        "(|(cn=a)(sn=b)(uid=c))",
        "(&)",
        "(|)",
        "(&(|(cn=a)(!(sn=b*)))(mail=*)(age>=1))",
        "(cn= leading and trailing )",
        f"(cn={'x' * 300})",
    ],
)
def test_filter_is_what_libldap_sends(libldap: LibLdap, text: str) -> None:
    fields = {"base": "dc=example,dc=com", "filter": text}
    message_id, sent = search_bytes(libldap, **fields)
    assert (
        encode_message(template_of(operation("search", **fields)), message_id) == sent
    )


VALUES = st.text(
    st.characters(
        codec="utf-8", exclude_characters="()*\\\0[]", exclude_categories=["Co"]
    ),
    min_size=1,
)
ATTRIBUTES = st.from_regex(r"[a-z][a-z0-9-]{0,9}(;[a-z0-9-]{1,3})?", fullmatch=True)
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
    fields = {"base": "", "filter": text}
    message_id, sent = search_bytes(libldap, **fields)
    assert (
        encode_message(template_of(operation("search", **fields)), message_id) == sent
    )


@given(text=st.text("()&|!*=<>~:\\ac0 ", max_size=12))
def test_what_we_accept_libldap_accepts_too(libldap: LibLdap, text: str) -> None:
    try:
        template = template_of(operation("search", base="", filter=text))
    except ValueError:  # pydantic's, with our Fault inside
        return
    message_id, sent = search_bytes(libldap, base="", filter=text)
    assert encode_message(template, message_id) == sent


@pytest.mark.parametrize(
    ("changes", "modlist"),
    [
        pytest.param(
            {"replace": {"description": "new"}},
            [(ldap.MOD_REPLACE, "description", [b"new"])],
            id="replace",
        ),
        pytest.param(
            {"add": {"mail": ["a@example.com", "b@example.com"]}},
            [(ldap.MOD_ADD, "mail", [b"a@example.com", b"b@example.com"])],
            id="several values",
        ),
        pytest.param(
            {"delete": {"mail": []}}, [(ldap.MOD_DELETE, "mail", None)], id="all values"
        ),
        pytest.param(
            {"delete": {"mail": None}}, [(ldap.MOD_DELETE, "mail", None)], id="null"
        ),
        pytest.param(
            {"increment": {"uidNumber": -7}},
            [(ldap.MOD_INCREMENT, "uidNumber", [b"-7"])],
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
            id="the order of the file",
        ),
        pytest.param(
            {"replace": {"description": "x" * 70_000}},
            [(ldap.MOD_REPLACE, "description", [b"x" * 70_000])],
            id="a long value",
        ),
    ],
)
def test_modify_is_what_libldap_sends(
    libldap: LibLdap, changes: dict[str, Any], modlist: list[Any]
) -> None:
    dn = "uid=user.1,ou=people,dc=example,dc=com"
    message_id, sent = libldap.sent_by(
        lambda connection: connection.modify_ext(dn, modlist)
    )
    template = template_of(operation("modify", dn=dn, **changes))
    assert encode_message(template, message_id) == sent


@given(
    number=st.integers(-(10**6), 10**6),
    letters=st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=300),
)
def test_filled_holes_give_what_libldap_sends(
    libldap: LibLdap, number: int, letters: str
) -> None:
    body = operation(
        "search",
        base="ou=org[0-9],dc=example,dc=com",
        filter=r"(&(uid=user.[0:999])(|(cn=\2a[random:3]*x[1-2]y*)(sn:dn:=[random:5])))",
        attributes=["cn"],
    )
    values = ["7", str(number), letters, "1", letters]
    message_id, sent = search_bytes(
        libldap,
        base="ou=org7,dc=example,dc=com",
        filter=rf"(&(uid=user.{number})(|(cn=\2a{letters}*x1y*)(sn:dn:={letters})))",
        attributes=["cn"],
    )
    assert encode_message(template_of(body), message_id, values) == sent


def test_filled_holes_of_a_modify_give_what_libldap_sends(libldap: LibLdap) -> None:
    body = operation(
        "modify",
        dn="uid=user.[0-99],dc=com",
        replace={"description": ["[[x]] [random:4]", "plain"], "sn": "[1:9]"},
    )
    message_id, sent = libldap.sent_by(
        lambda connection: connection.modify_ext(
            "uid=user.42,dc=com",
            [
                (ldap.MOD_REPLACE, "description", [b"[x] abcd", b"plain"]),
                (ldap.MOD_REPLACE, "sn", [b"3"]),
            ],
        )
    )
    assert encode_message(template_of(body), message_id, ["42", "abcd", "3"]) == sent


def test_constant_requests_are_one_literal() -> None:
    template = (
        operation("search", base="dc=com", filter="(&(cn=a)(sn=b))")
        .compile(Scope())
        .template
    )
    assert template.program[0] == 0x01
    assert int.from_bytes(template.program[1:5], "little") == len(template.program) - 5
    assert template.values == ()


def test_a_request_with_too_many_patterns_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 256 patterns") as caught:
        operation("search", base="dc=com", filter=f"(cn={'[0-9]' * 257})")
    assert isinstance(caught.value.errors()[0]["ctx"]["error"], Fault)  # type: ignore[attr-defined]


def test_a_request_that_could_be_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 1048576 bytes"):
        operation("search", base="dc=com", filter=f"(cn={'[random:65536]' * 17})")
