# SPDX-License-Identifier: Apache-2.0
"""What reports are told of a job."""

from __future__ import annotations

import json
from typing import Any

from ldapslam.coordinator.runs.submission import report_plan
from ldapslam.jobs.load import load_job_text

S = 1_000_000_000

JOB = """\
job: planned
targets:
  supplier: ldap://ds1.example.com
  replica: [ldap://ds2.example.com, ldap://ds3.example.com]
run: {duration: 10s, ramp_up: 1s, warm_up: 1s}
streams:
"""


def planned(stream: str) -> dict[str, Any]:
    text = JOB + "\n".join(f"  {line}" for line in stream.strip().splitlines())
    plan = report_plan(load_job_text(text, file="job.yaml", base=None))
    assert json.loads(json.dumps(plan)) == plan
    (one,) = plan["streams"]
    assert isinstance(one, dict)
    return one


def test_a_closed_stream() -> None:
    assert planned(
        """
- name: readers
  target: replica
  load: {closed: {clients: 3}}
  count: 1000
  start_after: 2s
  stop_after: 8s
  operations:
    - search: {base: "dc=example,dc=com", filter: "(uid=a)"}
      expect: [success, noSuchObject]
"""
    ) == {
        "name": "readers",
        "target": "replica",
        "uris": ["ldap://ds2.example.com", "ldap://ds3.example.com"],
        "engine": "native",
        "is_replay": False,
        "model": "closed",
        "rate_per_s": None,
        "peak_rate_per_s": None,
        "clients": 3,
        "connections": 3,
        "count": 1000,
        "start_ns": 2 * S,
        "end_ns": 8 * S,
        "operations": [
            {
                "name": "search",
                "kind": "search",
                "success_codes": [0],
                "expected_codes": [32],
                "is_first": True,
                "per_session": 1,
                "is_paged": False,
            }
        ],
    }


def test_a_rate_is_that_of_the_measure_phase() -> None:
    steady = planned(
        """
- name: writers
  target: supplier
  load: {open: {rate: 150/s, connections: 4}}
  operations: [{delete: {dn: "uid=a,dc=example,dc=com"}}]
"""
    )
    assert (steady["rate_per_s"], steady["peak_rate_per_s"]) == (150, 150)
    assert (steady["clients"], steady["connections"]) == (None, 4)
    # 5 s at 100/s, then 5 s from 100/s to 300/s: 200/s
    staged = planned(
        """
- name: writers
  target: supplier
  load: {open: {stages: [{rate: 100/s, for: 5s}, {ramp_to: 300/s, for: 5s}]}}
  operations: [{delete: {dn: "uid=a,dc=example,dc=com"}}]
"""
    )
    assert (staged["rate_per_s"], staged["peak_rate_per_s"]) == (150, 300)


def test_the_first_request_of_a_session_and_paged_searches_are_marked() -> None:
    operations = planned(
        """
- name: sessions
  target: supplier
  load: {closed: {clients: 2}}
  operations:
    - name: login
      sequence:
        - {bind: {dn: "uid=a,dc=example,dc=com", password: secret}, repeat: 3}
        - search: {base: "dc=example,dc=com", filter: "(uid=*)", page_size: 100}
        - unbind: {}
"""
    )["operations"]
    assert [one["kind"] for one in operations] == ["bind", "search", "unbind"]
    assert [one["is_first"] for one in operations] == [True, False, False]
    assert [one["per_session"] for one in operations] == [3, 1, 1]
    assert [one["is_paged"] for one in operations] == [False, True, False]


def test_servers_whose_directories_are_monitored_are_counted() -> None:
    stream = "  - {name: a, target: supplier, load: {closed: {clients: 1}}, "
    text = JOB + stream + 'operations: [{search: {base: ""}}]}\n'
    monitors = "monitors: [{directory: replica}, {host: supplier}]\n"
    plan = report_plan(load_job_text(text + monitors, file="job.yaml", base=None))
    assert plan["counted"] == ["ldap://ds2.example.com", "ldap://ds3.example.com"]
    assert "counted" not in report_plan(load_job_text(text, file="job.yaml", base=None))
