# SPDX-License-Identifier: Apache-2.0
"""A population's record as a file, and as part of a job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ldapslam.agent.admission.preflight import probes
from ldapslam.base.errors import ConfigError, JobErrors
from ldapslam.base.fault import Fault
from ldapslam.jobs.fields.population import PopulationRecord, parse_record
from ldapslam.jobs.load import load_job_text
from ldapslam.jobs.model import Job
from ldapslam.jobs.plan import agent_plan

RECORD = PopulationRecord(
    base="dc=example,dc=com",
    entries=3,
    fingerprint="0f" * 32,
    sample=(("dc=example,dc=com", "ab" * 16), ("cn=a b,dc=example,dc=com", "cd" * 16)),
    ignored=("description",),
)

JOB = """\
name: search
targets: {{supplier: "ldap://ds1", replica: ["ldap://ds2", "ldap://ds3"], more: "ldap://ds4"}}
population: {population}
run: {{duration: 1s}}
streams:
  - name: a
    target: supplier
    load: {{clients: 1}}
    operations: [{{search: {{base: dc=example}}}}]
  - name: b
    target: replica
    load: {{clients: 2}}
    operations: [{{search: {{base: dc=example}}}}]
  - name: c
    target: replica
    bind: {{dn: cn=c, password: {{env: C}}}}
    load: {{clients: 1}}
    operations: [{{search: {{base: dc=example}}}}]
"""


def job(folder: Path, population: str, text: str) -> Job:
    (folder / "p").write_text(text)
    return load_job_text(
        JOB.format(population=population).encode(), file="job.yaml", base=folder
    )


def test_a_record_is_read_as_it_was_written() -> None:
    assert parse_record(RECORD.to_text(), "p") == RECORD


@pytest.mark.parametrize(
    "changed",
    [
        {"schema": "other/1"},
        {"base": "no dn"},
        {"entries": 1},
        {"entries": "3"},
        {"fingerprint": "0f"},
        {"sample": {}},
        {"sample": {"no dn": "ab" * 16}},
        {"sample": {"dc=x": "short"}},
        {"sample": []},
        {"ignored": [5]},
        {"ignored": "sn"},
        {"entries": True},
        {"base": "dc=\ud800"},
        {"sample": {"dc=\ud800": "ab" * 16}},
        {"ignored": None},
    ],
    ids=str,
)
def test_what_is_no_record_is_refused(changed: dict[str, Any]) -> None:
    document = json.loads(RECORD.to_text())
    with pytest.raises(Fault, match=r"'p'|\"p\"") as caught:
        parse_record(json.dumps({**document, **changed}), "p")
    assert "data verify" in (caught.value.hint or "")
    with pytest.raises(Fault):
        parse_record(json.dumps({**document, **changed})[:-5], "p")


def test_nested_without_end_is_no_record() -> None:
    with pytest.raises(Fault, match="expected a population's record"):
        parse_record("[" * 200_000, "p")


def test_the_first_agent_looks_once_on_every_server_that_streams_use(
    tmp_path: Path,
) -> None:
    loaded = job(tmp_path, "{file: p}", RECORD.to_text())
    found = [
        (probe.uri, probe.connection.bind.dn, probe.population)
        for probe in probes(agent_plan(loaded, 0, 2, 1))
    ]
    assert found == [
        ("ldap://ds1", None, RECORD),
        ("ldap://ds2", None, None),
        ("ldap://ds3", None, None),
        # as one that may read
        ("ldap://ds2", "cn=c", RECORD),
        ("ldap://ds3", "cn=c", RECORD),
    ]
    others = probes(agent_plan(loaded, 1, 2, 1))
    assert {probe.population for probe in others} == {None}


def test_roles_may_be_named(tmp_path: Path) -> None:
    loaded = job(tmp_path, "{file: p, targets: [supplier]}", RECORD.to_text())
    found = probes(agent_plan(loaded, 0, 1, 1))
    assert [probe.uri for probe in found if probe.population] == ["ldap://ds1"]


@pytest.mark.parametrize(
    ("population", "text", "fault"),
    [
        ("{file: p}", "dn: dc=x", "expected a population's record"),
        ("{file: p, targets: [replicas]}", RECORD.to_text(), "unknown target role"),
        ("{file: p, targets: [more]}", RECORD.to_text(), "no stream has the target"),
        ("{file: q}", "", "'q'"),
    ],
)
def test_faults_of_the_job(
    population: str, text: str, fault: str, tmp_path: Path
) -> None:
    with pytest.raises(JobErrors, match=fault):
        job(tmp_path, population, text)


def test_servers_that_nobody_asks_before_the_run_are_refused(tmp_path: Path) -> None:
    (tmp_path / "p").write_text(RECORD.to_text())
    text = (
        "name: j\ntargets: {a: 'ldap://ds1'}\npopulation: {file: p}\n"
        "run: {duration: 5m}\nstreams:\n  - {name: w, target: a, "
        "type: bulk_load, options: {server: slapd}}\n"
    )
    loaded = load_job_text(text.encode(), file="job.yaml", base=tmp_path)
    with pytest.raises(ConfigError, match="'ldap://ds1' cannot be looked for"):
        probes(agent_plan(loaded, 0, 1, 1))
