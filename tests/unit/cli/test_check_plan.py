# SPDX-License-Identifier: Apache-2.0
"""What `check` says of a job before it asks any server."""

from __future__ import annotations

import pytest

from ldapslam.cli.measure.check_plan import explain
from ldapslam.jobs.load import load_job_text
from ldapslam.jobs.model import Job

JOB = """\
name: planned
targets:
  supplier: ldap://s
  replica: [ldap://a, ldap://b, ldap://c]
bind: {dn: "cn=all", password: {env: P}}
run: {duration: 60s, ramp_up: 5s, warm_up: 15s, drain: 3s}
agents: {count: 3}
streams:
  - name: readers
    target: replica
    load: {clients: 8}
    operations: [{search: {base: ""}}]
  - name: sessions
    target: supplier
    bind: {sasl: {mechanism: PLAIN, authcid: one, password: {env: P}, authzid: "u:two"}}
    load: {rate: 30/s, connections: 5}
    operations:
      - {weight: 2, search: {base: ""}}
      - sequence:
          - {name: found, search: {base: ""}}
          - {compare: {dn: cn=a, attribute: cn, value: a}, repeat: 3}
"""


def job(*overrides: str) -> Job:
    return load_job_text(JOB, file="planned.yaml", base=None, overrides=overrides)


def lines(*overrides: str) -> list[str]:
    return list(explain(job(*overrides)))


def test_the_length_is_that_of_all_phases_and_what_may_follow() -> None:
    assert lines()[1] == (
        "takes 80s: ramp_up 5s, warm_up 15s, measure 1m; then up to 3s of drain"
    )
    verified = lines("verify.replication.within=40s")
    assert verified[1].endswith("then up to 3s of drain and 40s for the replicas")
    counted = lines("streams.readers.count=9", "streams.sessions.count=9")
    assert counted[1].startswith("takes 80s at most, as it ends when its streams")


@pytest.mark.parametrize(
    ("overrides", "who"),
    [
        ((), ["cn=all", "SASL PLAIN one u:two"]),
        (("bind=null",), ["anonymous", "SASL PLAIN one u:two"]),
    ],
)
def test_each_stream_says_as_whom(overrides: tuple[str, ...], who: list[str]) -> None:
    told = [line for line in lines(*overrides) if line.startswith("stream ")]
    for line, identity in zip(told, who, strict=True):
        assert f", as {identity}; " in line


def test_the_load_of_each_server_and_agent_is_told() -> None:
    # sessions have (2 * 1 + 1 * 4) / 3 = 2 requests: 60/s
    assert [line for line in lines() if line.startswith("load ")] == [
        "load on each of ldap://a, ldap://b: readers 3 clients",
        "load on ldap://c: readers 2 clients",
        "load on ldap://s: sessions 60 requests/s over 5 connections",
        "load of each of 3 agents, at most: readers 3 clients; "
        "sessions 24 requests/s over 2 connections",
    ]


def test_the_highest_rate_is_one_that_is_measured() -> None:
    stages = "[{rate: 1/s, for: 30s}, {ramp_to: 41/s, for: 40s}]"
    load = f"{{stages: {stages}, connections: 5}}"
    (told,) = (
        one for one in lines(f"streams.sessions.load={load}") if "loop, up" in one
    )
    assert "up to 31/s constant" in told


def test_of_many_servers_with_the_same_load_some_are_named() -> None:
    uris = ", ".join(f"ldap://r{n}" for n in range(8))
    told = lines(f"targets.replica=[{uris}]")
    assert (
        "load on each of ldap://r0, ldap://r1, ldap://r2 and 5 more: readers 1 client"
        in told
    )


def test_nothing_is_said_of_servers_where_there_is_one() -> None:
    text = JOB.replace("target: replica", "target: supplier")
    text = text.replace("agents: {count: 3}\n", "")
    one = load_job_text(text, file="one.yaml", base=None)
    assert not any(line.startswith("load ") for line in explain(one))
