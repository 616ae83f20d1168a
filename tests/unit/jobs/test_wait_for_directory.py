# SPDX-License-Identifier: Apache-2.0
"""The job type wait_for_directory: what it makes of its options."""

from __future__ import annotations

import pytest

from ldapslam.agent.admission.preflight import probes
from ldapslam.base.errors import JobErrors
from ldapslam.jobs.load import load_job_text
from ldapslam.jobs.plan import AgentPlan, agent_plan

JOB = """\
name: wait
targets: {{replica: ["ldap://ds1", "ldap://ds2"]}}
run: {{duration: 10m}}
streams:
  - name: wait
    target: replica
    type: wait_for_directory
    options: {options}
"""


def plan_of(options: str) -> AgentPlan:
    text = JOB.format(options=options).encode()
    return agent_plan(load_job_text(text, file="wait.yaml", base=None), 0, 1, 0)


def test_one_client_asks_all_servers_once_and_none_need_be_there_before() -> None:
    plan = plan_of("{base: 'dc=example', limit: 5m}")
    (stream,) = plan.streams
    assert (stream.connections, stream.total_operations) == (1, 1)
    assert stream.uris == ("ldap://ds1", "ldap://ds2")
    assert stream.python is not None
    assert stream.python.options == {
        "base": "dc=example",
        "limit_ns": 300_000_000_000,
        "interval_ns": 500_000_000,
    }
    assert probes(plan) == []


def test_an_interval_beyond_the_limit_is_a_fault() -> None:
    with pytest.raises(JobErrors, match="interval is longer than the limit"):
        plan_of("{limit: 1s, interval: 2s}")
