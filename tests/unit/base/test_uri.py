# SPDX-License-Identifier: Apache-2.0
"""Which texts name a target."""

from __future__ import annotations

import pytest

from ldapslam.base.fault import Fault
from ldapslam.base.uri import check_uri, server_of


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


@pytest.mark.parametrize(
    ("texts", "server"),
    [
        (
            "ldap://ds1 ldap://ds1:389 ldap://DS1/ ldaps://ds1 ldaps://ds1.:636 "
            "ldap://ds1:0389 ldaps://ds1:389",
            "ds1",
        ),
        ("ldap://ds1:1389 ldaps://DS1:1389", "ds1 port 1389"),
        ("ldap://[2001:DB8::1] ldaps://[2001:db8:0::01]", "2001:db8::1"),
        ("ldap://10.0.0.1 ldap://[::ffff:10.0.0.1]:389", "10.0.0.1"),
        ("ldap://localhost ldap://127.0.0.1 ldap://[::1]:389", "localhost"),
        ("ldap://[fe80::1%25eth0]", "fe80::1%eth0"),
        ("ldapi:///", "ldapi:"),
        ("ldapi://%2Frun%2FLdapi ldapi:///run/Ldapi", "ldapi:/run/Ldapi"),
        ("", ""),
        ("ds1:389", "ds1:389"),
        ("ldap://ds1:99999999999", "ldap://ds1:99999999999"),
    ],
)
def test_uris_of_one_server_are_told_as_such(texts: str, server: str) -> None:
    assert {server_of(text) for text in texts.split() or [""]} == {server}
