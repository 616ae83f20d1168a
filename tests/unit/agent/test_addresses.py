# SPDX-License-Identifier: Apache-2.0
"""Which servers an agent may load, and where they are: resolved once, and used so."""

from __future__ import annotations

import socket
from dataclasses import replace

import pytest

from ldapslam.agent.admission.addresses import with_locations
from ldapslam.agent.admission.limits import AgentLimits
from ldapslam.agent.admission.target_rules import DEFAULT_RULES, parse_rule, parse_rules
from ldapslam.base.errors import ConfigError, TargetNotAllowed, TargetUnreachable
from ldapslam.jobs.load import load_job_text
from ldapslam.jobs.plan import AgentPlan, agent_plan

NAMES = {
    "ds1.example.com": ["10.1.0.1"],
    "both.example.com": ["10.1.0.2", "203.0.113.9"],
    "else.example.com": ["203.0.113.9"],
    "localhost": ["::1", "127.0.0.1"],
    "127.1": ["127.0.0.1"],
}


class Resolver:
    """Knows NAMES, and how often it was asked for each."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        if host[0].isdigit() or ":" in host:
            return NAMES.get(host, [host])
        if host not in NAMES:
            raise socket.gaierror(-2, "Name or service not known")
        return NAMES[host]


_SEARCHES = (
    'load: {clients: 1}\n    operations: [{search: {base: "dc=example,dc=com"}}]'
)


def plan_of(*uris: str, tls: str = "{}", rest: str = "") -> AgentPlan:
    listed = ", ".join(f'"{uri}"' for uri in uris)
    text = f"""\
name: locations
targets: {{s: [{listed}]}}
tls: {tls}
run: {{duration: 1s}}
agents: {{count: 1}}
streams:
  - name: one
    target: s
    {rest or _SEARCHES}
"""
    return agent_plan(load_job_text(text, file="job", base=None), 0, 1, seed=1)


def placed(plan: AgentPlan, *rules: str) -> tuple[AgentPlan, Resolver]:
    resolver = Resolver()
    limits = AgentLimits(targets=parse_rules(rules))
    found, _ = with_locations(plan, limits, "a1", resolver)
    return found, resolver


@pytest.mark.parametrize(
    ("uri", "rules", "expected"),
    [
        ("ldap://ds1.example.com", ["10.1.0.0/16"], "10.1.0.1/389"),
        ("ldaps://ds1.example.com", ["10.1.0.0/16:636"], "10.1.0.1/636"),
        ("ldap://ds1.example.com:1389", ["ds1.example.com"], "10.1.0.1/1389"),
        # of several addresses those that are allowed
        ("ldap://both.example.com", ["10.1.0.0/16"], "10.1.0.2/389"),
        # the name is allowed: all that it stands for
        (
            "ldap://both.example.com",
            ["both.example.com"],
            "10.1.0.2/389 203.0.113.9/389",
        ),
        ("ldap://localhost:389", [], "::1/389 127.0.0.1/389"),
        ("ldap://127.1", [], "127.0.0.1/389"),
        ("ldap://[::1]:1389", [], "::1/1389"),
        ("ldapi:///", [], ""),
        ("ldapi://%2Frun%2Fslapd", ["ldapi:/run/slapd"], ""),
        ("ldap://else.example.com", ["any"], "203.0.113.9/389"),
    ],
)
def test_what_is_allowed_is_where_it_was_found(
    uri: str, rules: list[str], expected: str
) -> None:
    plan, _ = placed(plan_of(uri), *rules)
    assert plan.streams[0].addresses == (expected,)


@pytest.mark.parametrize(
    ("uri", "rules"),
    [
        ("ldap://else.example.com", []),
        ("ldap://else.example.com", ["10.1.0.0/16"]),
        ("ldap://ds1.example.com", ["10.1.0.0/16:636"]),
        ("ldap://ds1.example.com", ["loopback"]),
        ("ldap://203.0.113.9", ["10.0.0.0/8", "ds1.example.com"]),
        ("ldap://[::ffff:203.0.113.9]", ["10.0.0.0/8"]),
        ("ldap://0.0.0.0", []),
        ("ldapi:///", ["loopback"]),
        ("ldapi://%2Ftmp%2Fother", ["ldapi:/run/slapd"]),
    ],
)
def test_what_is_not_allowed_is_refused_with_the_remedy(
    uri: str, rules: list[str]
) -> None:
    with pytest.raises(TargetNotAllowed) as caught:
        placed(plan_of(uri), *rules)
    assert repr(uri) in str(caught.value)
    assert "--allow-target" in str(caught.value.hint)
    assert caught.value.exit_code == 6


def test_one_server_that_is_not_allowed_refuses_the_plan() -> None:
    plan = plan_of("ldap://ds1.example.com", "ldap://else.example.com")
    with pytest.raises(TargetNotAllowed, match="else"):
        placed(plan, "10.0.0.0/8")


def test_a_name_is_resolved_once_however_many_streams_use_it() -> None:
    plan = plan_of("ldap://ds1.example.com", "ldap://localhost")
    plan = replace(plan, streams=(plan.streams[0], plan.streams[0]))
    found, resolver = placed(plan, "any")
    assert sorted(resolver.asked) == ["ds1.example.com", "localhost"]
    assert found.streams[0].addresses == found.streams[1].addresses
    assert len(found.streams[0].addresses) == 2


def test_a_name_that_does_not_resolve_is_a_target_that_is_not_there() -> None:
    with pytest.raises(TargetUnreachable, match="does not resolve"):
        placed(plan_of("ldap://no.example.com"), "any")


IMPORT = "type: bulk_load\n    options: {server: slapd}"


def test_a_server_that_may_be_absent_need_not_resolve_if_its_name_is_allowed() -> None:
    plan = plan_of("ldap://no.example.com", rest=IMPORT)
    found, _ = placed(plan, "no.example.com")
    assert found.streams[0].addresses == ("",)
    with pytest.raises(TargetUnreachable, match="does not resolve"):
        placed(plan, "10.0.0.0/8")


@pytest.mark.parametrize(
    ("uri", "tls", "rule", "is_allowed"),
    [
        # libldap resolves again for ldaps: the certificate, or the operator, vouches
        ("ldaps://ds1.example.com", "{verify: true}", "10.0.0.0/8", True),
        ("ldaps://ds1.example.com", "{verify: false}", "10.0.0.0/8", False),
        ("ldaps://ds1.example.com", "{verify: false}", "ds1.example.com", True),
        ("ldaps://ds1.example.com", "{verify: false}", "any", True),
        ("ldaps://10.1.0.1", "{verify: false}", "10.0.0.0/8", True),
        (
            "ldap://ds1.example.com",
            "{verify: false, start_tls: true}",
            "10.0.0.0/8",
            True,
        ),
    ],
)
def test_a_name_that_is_resolved_again_needs_somebody_to_vouch_for_it(
    uri: str, tls: str, rule: str, is_allowed: bool
) -> None:
    plan = plan_of(uri, tls=tls)
    if is_allowed:
        assert placed(plan, rule)[0].streams[0].addresses[0].startswith("10.1.0.1/")
    else:
        with pytest.raises(TargetNotAllowed, match="verify: false"):
            placed(plan, rule)


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
