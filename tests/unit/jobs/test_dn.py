# SPDX-License-Identifier: Apache-2.0
"""Which texts are distinguished names."""

from __future__ import annotations

import ldap.dn
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldapslam.base.fault import Fault
from ldapslam.jobs.requests.dn import check_dn, is_of_server, parse_dn
from ldapslam.jobs.requests.template import (
    FILE_RANDOM,
    PARENT,
    VARIABLE,
    ValueSource,
)

NAMES = [
    "",
    "dc=com",
    "uid=user.1,ou=people,dc=example,dc=com",
    "cn=a+sn=b,dc=com",
    "2.5.4.3=a,dc=com",
    "cn=Müller,dc=com",
    r"cn=a\,b,dc=com",
    r"cn=\23\2c\C3\BC,dc=com",
    r"cn=\#a\ ,dc=com",
    "cn=#04024869,dc=com",
    "cn=,dc=com",
    "cn=a=b,dc=com",
    "uid=a, ou=b, dc=com",
]
NO_NAMES = [
    "a= #\\;",
    "people",
    "dc=com,",
    ",dc=com",
    "dc=example,,dc=com",
    "dc=example;dc=com,x",
    "=com",
    "1=a",
    "-cn=a",
    "cn=a<b",
    'cn="a"',
    r"cn=a\x",
    "cn=a\\",
    "cn=a\0b",
]


@pytest.mark.parametrize("text", NAMES)
def test_name_is_accepted_as_libldap_does(text: str) -> None:
    assert check_dn(text) == text
    assert ldap.dn.is_dn(text)


@pytest.mark.parametrize("text", NO_NAMES)
def test_what_is_no_name_is_a_fault(text: str) -> None:
    with pytest.raises(Fault) as caught:
        check_dn(text)
    assert caught.value.reason.startswith("expected a DN, got ")


@given(st.text('ab=,+\\"#<>; 1', max_size=12))
def test_what_we_accept_libldap_accepts_too(text: str) -> None:
    try:
        check_dn(text)
    except Fault:
        return
    assert ldap.dn.is_dn(text)


def test_variable_is_escaped_in_a_value_and_stands_for_whole_rdns_as_it_is() -> None:
    names = {"who": 0, "base": 1}
    assert parse_dn("cn=[who],[base]", names).nodes == (
        b"cn=",
        ValueSource(VARIABLE, lo=0, width=1),
        b",",
        ValueSource(VARIABLE, lo=1),
    )
    assert parse_dn("[base]", names).nodes == (ValueSource(VARIABLE, lo=1),)
    assert parse_dn("cn=a, [parent:base]", names).nodes == (
        b"cn=a, ",
        ValueSource(PARENT, lo=1),
    )
    assert parse_dn("[file:dns.txt]").nodes == (
        ValueSource(FILE_RANDOM, data=b"dns.txt"),
    )


@pytest.mark.parametrize(
    "text",
    ["[1-9]", "cn=a,[uuid]", "[who]x,dc=com", "[who]+cn=a", "[random:2]=a,dc=com"],
)
def test_other_patterns_stand_for_no_rdn(text: str) -> None:
    with pytest.raises(Fault):
        parse_dn(text, {"who": 0})


def test_pattern_that_draws_what_needs_escaping_is_refused() -> None:
    with pytest.raises(Fault, match="cannot be drawn into a DN unescaped"):
        parse_dn("cn=[random:3:a,b],dc=com")


@pytest.mark.parametrize(
    ("dn", "expected"),
    [
        ("", True),
        ("cn=config", True),
        ("cn=encryption, CN = Config", True),
        ("commonName=conf\\69g", True),
        ("2.5.4.3=monitor", True),
        ("cn=[0-9],cn=schema", True),
        ("cn=config,dc=com", False),
        ("o=config", False),
        ("uid=user.[0-9],ou=people,dc=com", False),
        ("[dn]", None),
        ("cn=a,[parent]", None),
        ("cn=a,cn=[name]", None),
        ("cn=a,cn=con[name]ig", None),
    ],
)
def test_entries_of_the_server_itself_are_known(dn: str, expected: bool | None) -> None:
    assert is_of_server(dn) is expected
