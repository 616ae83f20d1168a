# SPDX-License-Identifier: Apache-2.0
"""Which texts are distinguished names."""

from __future__ import annotations

import ldap.dn
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldapslam.jobs.dn import check_dn, parse_dn
from ldapslam.jobs.fault import Fault

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


def test_patterns_stand_in_values() -> None:
    pattern = parse_dn("uid=user.[0-9],ou=[random:3],dc=com")
    assert len(pattern.sources) == 2


def test_pattern_does_not_stand_in_an_attribute() -> None:
    with pytest.raises(Fault, match="expected a DN"):
        parse_dn("[random:2]=a,dc=com")
