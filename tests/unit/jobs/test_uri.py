# SPDX-License-Identifier: Apache-2.0
"""Which texts name a target."""

from __future__ import annotations

import pytest

from ldapslam.jobs.fault import Fault
from ldapslam.jobs.uri import check_uri


@pytest.mark.parametrize(
    ("text", "uri"),
    [
        ("ldap://ds1.example.com", "ldap://ds1.example.com"),
        ("ldap://ds1.example.com/", "ldap://ds1.example.com"),
        ("ldaps://10.0.0.1:1636", "ldaps://10.0.0.1:1636"),
        ("ldap://[::1]:389", "ldap://[::1]:389"),
        ("ldap://ldap_2", "ldap://ldap_2"),
        ("ldapi:///", "ldapi:///"),
        ("ldapi://", "ldapi:///"),
        ("ldapi://%2Fvar%2Frun%2Fldapi", "ldapi://%2Fvar%2Frun%2Fldapi"),
    ],
)
def test_uri_is_accepted(text: str, uri: str) -> None:
    assert check_uri(text) == uri


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ds1",
        "ds1:389",
        "http://ds1",
        "ldap:ds1",
        "ldap://",
        "ldap://ds1:0",
        "ldap://ds1:65536",
        "ldap://ds1:port",
        "ldap://ds1/dc=example",
        "ldap://ds1?cn",
        "ldap://user@ds1",
        "ldap://ds 1",
        "ldap://ds1 ldap://ds2",
        "ldapi:///var/run/ldapi",
    ],
)
def test_what_names_no_target_is_a_fault_with_a_hint(text: str) -> None:
    with pytest.raises(Fault) as caught:
        check_uri(text)
    assert caught.value.hint
