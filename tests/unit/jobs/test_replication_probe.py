# SPDX-License-Identifier: Apache-2.0
"""The job type replication_probe: what it makes of its options."""

from __future__ import annotations

import pytest

from ldapslam.base.errors import JobErrors
from ldapslam.jobs.load import load_job_text
from ldapslam.jobs.model import Job
from ldapslam.jobs.plan import agent_plan
from ldapslam.jobs.planning import run_plan

JOB = """\
name: probe
targets:
  supplier: ldap://ds1
  replica: [ldap://ds2, ldap://ds3]
  hub: ldap://ds4
run: {{duration: 10m}}
streams:
  - name: probe
    target: supplier
    type: replication_probe
    options: {options}
"""
DN = "dn: 'cn=probe,dc=example,dc=com'"


def job_of(options: str) -> Job:
    text = JOB.format(options=options).encode()
    return load_job_text(text, file="probe.yaml", base=None)


def test_each_server_that_is_watched_has_an_operation() -> None:
    job = job_of(f"{{replicas: [replica, hub], {DN}}}")
    (stream,) = agent_plan(job, 0, 2, 0).streams
    assert stream.uris == ("ldap://ds1", "ldap://ds2", "ldap://ds3", "ldap://ds4")
    assert (stream.model, stream.total_connections) == ("open", 1)
    assert stream.python is not None
    assert stream.watched == 3
    assert stream.request_names == (
        "write",
        "propagation-replica-1",
        "propagation-replica-2",
        "propagation-hub",
    )
    # one process: the second agent has no part in it
    assert agent_plan(job, 1, 2, 0).streams == ()


def test_reports_know_the_server_of_each_and_the_books_the_target_alone() -> None:
    (planned,) = run_plan(job_of(f"{{replicas: hub, {DN}}}")).streams
    assert planned.uris == ("ldap://ds1",)
    assert planned.watched == {"propagation-hub": "ldap://ds4"}
    assert planned.rate_per_s == 5


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (f"{{replicas: elsewhere, {DN}}}", "unknown target role 'elsewhere'"),
        (f"{{replicas: supplier, {DN}}}", "'supplier' is there twice"),
        (f"{{replicas: [hub, hub], {DN}}}", "'hub' is there twice"),
        (f"{{replicas: [], {DN}}}", "replicas"),
        ("{replicas: hub, dn: 'uid=probe,dc=example'}", "begins with cn="),
        (f"{{replicas: hub, {DN}, rate: 5}}", "rate"),
    ],
)
def test_a_probe_that_cannot_be_is_a_fault(options: str, fault: str) -> None:
    with pytest.raises(JobErrors, match=fault):
        job_of(options)
