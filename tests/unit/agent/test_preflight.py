# SPDX-License-Identifier: Apache-2.0
"""What pre-flight derives without asking anybody; the rest is in tests/integration."""

from __future__ import annotations

import pytest

from ldapslam.agent.admission.preflight import Probe, probes
from ldapslam.base.uri import host_and_port
from ldapslam.jobs.connection_settings import (
    BindSettings,
    ConnectionSettings,
    TlsSettings,
)
from ldapslam.jobs.load import load_job_text
from ldapslam.jobs.plan import agent_plan
from support.fleet import job_text

HOSTS = [
    ("ldap://ds1", ("ds1", 389)),
    ("ldaps://ds1", ("ds1", 636)),
    ("ldap://ds1:1389", ("ds1", 1389)),
    ("ldap://[::1]", ("::1", 389)),
    ("ldap://[::1]:1389", ("::1", 1389)),
    ("ldap://[fe80::1%25eth0]:1", ("fe80::1%eth0", 1)),
]


@pytest.mark.parametrize(("uri", "expected"), HOSTS)
def test_host_and_port_of_a_uri(uri: str, expected: tuple[str, int]) -> None:
    assert host_and_port(uri) == expected


def test_each_way_to_use_a_server_is_tried_once() -> None:
    stream = {
        "target": "replica",
        "load": {"clients": 2},
        "operations": [{"search": {"base": ""}}],
    }
    text = job_text(
        targets={"replica": ["ldap://x", "ldap://y"]},
        streams=[
            {**stream, "name": "one"},
            {**stream, "name": "two"},
            {**stream, "name": "three", "tls": {"start_tls": True}},
        ],
    )
    job = load_job_text(text, file="job", base=None)
    starting_tls = ConnectionSettings(TlsSettings(start_tls=True))
    assert probes(agent_plan(job, 0, 1, 0)) == [
        Probe("ldap://x"),
        Probe("ldap://y"),
        Probe("ldap://x", starting_tls),
        Probe("ldap://y", starting_tls),
    ]


def test_the_password_of_a_sasl_bind_is_not_shown_in_a_simple_one() -> None:
    text = """\
name: sasl
targets: {s: "ldap://127.0.0.1:1389"}
bind: {sasl: {mechanism: SCRAM-SHA-256, authcid: user, password: {env: SECRET}}}
run: {duration: 1s}
agents: {count: 1}
streams:
  - name: one
    target: s
    load: {clients: 1}
    operations: [{search: {base: "dc=example,dc=com"}}]
"""
    plan = agent_plan(load_job_text(text, file="job", base=None), 0, 1, seed=1)
    (probe,) = probes(plan)
    assert probe.connection.bind == BindSettings()
