# SPDX-License-Identifier: Apache-2.0
"""Rules of an allow-list: which addresses, names and sockets each of them allows."""

from __future__ import annotations

import pytest

from ldapslam.agent.admission.target_rules import DEFAULT_RULES, parse_rule, parse_rules
from ldapslam.base.errors import ConfigError


@pytest.mark.parametrize(
    ("rule", "address", "port", "expected"),
    [
        ("10.1.0.0/16", "10.1.2.3", 389, True),
        ("10.1.0.0/16", "10.2.0.1", 389, False),
        ("10.1.2.3", "10.1.2.3", 636, True),
        ("10.1.2.3", "10.1.2.4", 636, False),
        ("10.1.0.0/16:389", "10.1.2.3", 389, True),
        ("10.1.0.0/16:389", "10.1.2.3", 636, False),
        ("2001:db8::/32", "2001:db8::1", 389, True),
        ("2001:db8::/32", "2001:db9::1", 389, False),
        ("[2001:db8::/32]:636", "2001:db8::1", 636, True),
        ("[2001:db8::/32]:636", "2001:db8::1", 389, False),
        ("[::1]", "::1", 389, True),
        # a zone is of this host alone, an IPv4 address in IPv6 is that address
        ("fe80::/10", "fe80::1%eth0", 389, True),
        ("10.1.0.0/16", "::ffff:10.1.2.3", 389, True),
        ("loopback", "::ffff:127.0.0.1", 389, True),
        ("loopback", "127.8.9.10", 389, True),
        ("loopback", "::1", 389, True),
        ("loopback", "10.0.0.1", 389, False),
        # Linux connects it to itself, but that is not what the rule says
        ("loopback", "0.0.0.0", 389, False),
        ("any", "203.0.113.9", 389, True),
        # a name says nothing of addresses
        ("ds1.example.com", "10.1.2.3", 389, False),
        ("ldapi", "127.0.0.1", 389, False),
    ],
)
def test_addresses(rule: str, address: str, port: int, expected: bool) -> None:
    assert parse_rule(rule).allows_address(address, port) is expected


@pytest.mark.parametrize(
    ("rule", "host", "port", "expected"),
    [
        ("ds1.example.com", "ds1.example.com", 389, True),
        ("ds1.example.com", "DS1.Example.COM.", 636, True),
        ("DS1.example.com.", "ds1.example.com", 389, True),
        ("ds1.example.com:636", "ds1.example.com", 636, True),
        ("ds1.example.com:636", "ds1.example.com", 389, False),
        ("ds1.example.com", "ds11.example.com", 389, False),
        ("ds1.example.com", "evil.ds1.example.com", 389, False),
        ("any", "whatever", 389, True),
        ("127.0.0.0/8", "localhost", 389, False),
        ("loopback", "localhost", 389, False),
    ],
)
def test_names(rule: str, host: str, port: int, expected: bool) -> None:
    assert parse_rule(rule).allows_name(host, port) is expected


@pytest.mark.parametrize(
    ("rule", "path", "expected"),
    [
        ("ldapi", "/run/slapd/ldapi", True),
        ("ldapi", "", True),
        ("ldapi:/run/slapd/ldapi", "/run/slapd/ldapi", True),
        ("ldapi:/run/slapd/ldapi", "/run/slapd/other", False),
        ("ldapi:/run/slapd/ldapi", "", False),
        ("any", "/tmp/x", True),
        ("loopback", "/run/slapd/ldapi", False),
    ],
)
def test_sockets(rule: str, path: str, expected: bool) -> None:
    assert parse_rule(rule).allows_socket(path) is expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a b",
        "10.1.0.0/33",
        "10.1.2.3/16",
        "10.1.2",
        "10.1.2.3:0",
        "10.1.2.3:65536",
        "[::1",
        "ldapi:relative/path",
        "ldap://ds1.example.com",
        "-ds1",
        "*",
    ],
)
def test_what_is_no_rule_is_refused_with_the_forms_that_are(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_rule(text)
    assert repr(text) in str(caught.value)
    assert "10.1.0.0/16" in str(caught.value.hint)


def test_without_rules_an_agent_loads_its_own_host_alone() -> None:
    assert parse_rules([]) == DEFAULT_RULES
    assert [rule.text for rule in DEFAULT_RULES] == ["loopback", "ldapi"]
    # a rule takes the place of the defaults
    assert [rule.text for rule in parse_rules(["10.0.0.0/8"])] == ["10.0.0.0/8"]
