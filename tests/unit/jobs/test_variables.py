# SPDX-License-Identifier: Apache-2.0
"""Variables of job files, and jobs that extend others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from ldapslam.base.errors import JobErrors
from ldapslam.jobs.load import load_job, load_job_text
from ldapslam.jobs.model import Job
from ldapslam.jobs.reading.variables import override_of
from ldapslam.jobs.schema import job_schema

JOB = """
vars:
  users: 100
  clients: 4
  share: 2.5
  duration: 10s
  secure: false
  base: "ou=people,dc=example,dc=com"
  branch: "ou=new,${base}"
name: family
description: ${users} users of $${users}
targets: {directory: ldap://localhost}
tls: {start_tls: "${secure}"}
run: {duration: "${duration}"}
streams:
  - name: readers
    target: directory
    load: {clients: "${clients}"}
    operations:
      - name: look
        search: {base: "${branch}", filter: "(uid=user.[0..${users}))"}
"""


def job_of(text: str, **given: str) -> Job:
    overrides = [override_of(*pair) for pair in given.items()]
    return load_job_text(text, file="job.yaml", base=None, overrides=overrides)


def fault_of(text: str, **given: str) -> str:
    with pytest.raises(JobErrors) as caught:
        job_of(text, **given)
    return "\n".join(f"{one} | {one.hint}" for one in caught.value.faults)


def test_a_variable_stands_for_its_value_in_any_value_of_the_file() -> None:
    job = job_of(JOB, users="2000", secure="true", base="dc=x", duration="5m")
    (stream,) = job.streams
    assert (stream.load.clients, job.run.duration_ns, job.tls.start_tls) == (
        4,
        300 * 10**9,
        True,
    )
    assert job.description == "2000 users of ${users}"
    assert '"filter": "(uid=user.[0-1999])"' in job.canonical_text()
    assert '"base": "ou=new,dc=x"' in job.canonical_text()


def test_a_job_without_variables_keeps_its_texts() -> None:
    text = (
        JOB[JOB.index("name:") :]
        .replace("${users})", "9)")
        .replace("${branch}", "dc=x")
    )
    text = text.replace('"${secure}"', "true").replace('"${duration}"', "1s")
    job = job_of(text.replace('"${clients}"', "2"))
    assert job.description == "${users} users of $${users}"
    assert load_job_text(job.canonical_text(), file="", base=None) == job


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        (
            {"user": "1"},
            "--var user: vars.user: unknown variable 'user' | did you mean",
        ),
        ({"users": "many"}, "expected a whole number, got 'many' | the default of"),
        ({"users": "1.5"}, "expected a whole number"),
        ({"secure": "yes"}, "expected true or false, got 'yes'"),
        ({"share": "x"}, "expected a number"),
        ({"duration": "5"}, "expected a duration such as '250ms' or '10m', got '5'"),
        ({"base": "x"}, "expected a DN, got 'ou=new,x'"),
        ({"users": "${userz}"}, "unknown variable 'userz'"),
        ({"users": "${base}"}, "unknown variable 'base'"),
        (
            {"clients": "${users - 1}"},
            "expected a variable, got '${users - 1}' | write",
        ),
        ({"clients": "${" + "9" * 1000 + "}"}, "expected a variable"),
    ],
)
def test_what_cannot_be_a_value_is_told_with_the_remedy(
    given: dict[str, str], fault: str
) -> None:
    assert fault in fault_of(JOB, **given)


def test_a_fault_stands_where_the_reference_is_written() -> None:
    assert fault_of(JOB.replace("${branch}", "${brunch}")).startswith(
        "job.yaml:21:24: streams[0].operations[0].search.base: unknown variable"
    )
    faults = fault_of(JOB.replace("${branch}", "(").replace("${clients}", "${client}"))
    assert faults.count("load.clients:") == faults.count("search.base:") == 1
    needed = JOB.replace("clients: 4", "clients: null")
    assert "'clients' has no value | --var clients=VALUE" in fault_of(needed)
    job_of(needed, clients="3")


def family(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)


CHILD = """
extends: base.yaml
name: child
vars: {users: 50}
description: null
streams:
  - name: readers
    load: {rate: 5/s}
  - name: writers
    target: directory
    load: {clients: 1}
    operations: [{modify: {dn: "${base}", replace: {description: x}}}]
"""


def test_a_job_is_another_one_changed(tmp_path: Path) -> None:
    family(tmp_path, base=JOB, child=CHILD)
    job = load_job(tmp_path / "child.yaml", ["vars.clients=9"])
    readers, writers = job.streams
    assert (job.name, job.description) == ("child", "")
    assert readers.load.kind == "open"
    assert "[0-49]" in job.canonical_text()
    assert writers.name == "writers"
    # it goes to the coordinator and the agents
    assert list(job.files) == ["base.yaml"]
    files: dict[str, Any] = {"base.yaml": JOB.encode()}
    there = load_job_text(
        CHILD, file="c", base=None, overrides=["vars.clients=9"], files=files
    )
    assert there.canonical_text() == job.canonical_text()


def test_faults_of_a_family_name_the_file_that_has_them(tmp_path: Path) -> None:
    family(tmp_path, base=JOB.replace("sub", "").replace("look", "l k"), child=CHILD)
    with pytest.raises(JobErrors) as caught:
        load_job(tmp_path / "child.yaml")
    (fault,) = caught.value.faults
    assert (fault.file, fault.line) == ("base.yaml", 20)


@pytest.mark.parametrize(
    ("base", "fault"),
    [
        ("extends: child.yaml", "'child.yaml' extends itself"),
        ("extends: base.yaml", "'base.yaml' extends itself, through"),
        ("- a", "expected a mapping in 'base.yaml'"),
        ("a: [", "base.yaml:2:1: not YAML"),
        ("", "expected a file with a line at least"),
    ],
)
def test_what_cannot_be_extended_is_told(tmp_path: Path, base: str, fault: str) -> None:
    family(tmp_path, base=base, child=CHILD)
    with pytest.raises(JobErrors) as caught:
        load_job(tmp_path / "child.yaml")
    assert fault in "\n".join(map(str, caught.value.faults))


def test_editors_accept_what_the_reader_does() -> None:
    validator = jsonschema.Draft202012Validator(job_schema())
    for text in (JOB, CHILD.replace("description: null", "")):
        tree = yaml.safe_load(text)
        assert [error.message for error in validator.iter_errors(tree)] == []
    assert list(validator.iter_errors({"name": "x"}))
