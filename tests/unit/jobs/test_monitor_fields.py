# SPDX-License-Identifier: Apache-2.0
"""What a job file says of monitors and of what is verified after the load."""

from __future__ import annotations

import pytest

from ldapslam.base.errors import JobErrors
from ldapslam.base.units import NS_PER_S
from ldapslam.jobs.load import load_job_text
from ldapslam.jobs.model import Job

JOB = """\
name: monitored
targets:
  supplier: ldap://ds1.example.com
  replica: [ldap://ds2.example.com, ldap://ds3.example.com]
run: {duration: 10s}
streams:
  - name: readers
    target: replica
    load: {clients: 4}
    operations:
      - search: {base: "dc=example,dc=com"}
"""


def job(more: str = "") -> Job:
    return load_job_text(JOB + more, file="job.yaml", base=None)


def test_a_job_has_no_monitors_and_verifies_nothing_by_itself() -> None:
    assert job().monitors == []
    assert job().verify is None


@pytest.mark.parametrize(
    ("text", "kind", "role"),
    [
        ("{directory: replica}", "directory", "replica"),
        ("{host: supplier, processes: [slapd]}", "host", "supplier"),
        ("{entry: 'cn=a', target: replica, counters: [b]}", "entry", "replica"),
        ("{log: /var/log/slapd.log, format: openldap}", "log", None),
        ("{log: /a, format: 389ds, target: supplier}", "log", "supplier"),
    ],
)
def test_each_kind_of_monitor_knows_its_servers(
    text: str, kind: str, role: str | None
) -> None:
    (monitor,) = job(f"monitors: [{text}]\n").monitors
    assert (monitor.kind, monitor.role) == (kind, role)
    assert monitor.every_ns is None


def test_a_monitor_may_have_its_own_pace_and_bind() -> None:
    (monitor,) = job(
        "monitors: [{directory: replica, every: 250ms, "
        "bind: {dn: 'cn=monitor', password: {env: PASSWORD}}}]\n"
    ).monitors
    assert monitor.every_ns == NS_PER_S // 4
    assert monitor.bind is not None
    assert monitor.bind.dn == "cn=monitor"


def test_replication_is_compared_in_full_unless_the_job_says_otherwise() -> None:
    verify = job("verify: {replication: {within: 60s}}\n").verify
    assert verify is not None
    check = verify.replication
    assert check.within_ns == 60 * NS_PER_S
    assert (check.base, check.content, check.sample) == (None, True, None)


def test_the_canonical_job_is_an_equal_one() -> None:
    found = job(
        "monitors: [{directory: replica, every: 1s}, "
        "{entry: 'cn=a', target: replica, attributes: [b]}]\n"
        "verify: {replication: {within: 60s, base: 'dc=example,dc=com', sample: 99}}\n"
    )
    again = load_job_text(found.canonical_text(), file="canonical", base=None)
    assert again == found


@pytest.mark.parametrize(
    "names",
    [
        "attributes: [one, two, One]",
        "counters: [one, one]",
        "attributes: [one], counters: [one]",
    ],
)
def test_an_attribute_is_read_once(names: str) -> None:
    with pytest.raises(JobErrors, match="the attribute 'one' is there twice"):
        job(f"monitors: [{{entry: 'cn=a', target: replica, {names}}}]\n")
