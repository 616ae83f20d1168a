# SPDX-License-Identifier: Apache-2.0
"""configs/schema is what the models say, and editors find it from each example."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from ldapslam.jobs.schema import job_schema, schema_text
from ldapslam.studies.study_file import study_schema
from support.bad_jobs import bad_jobs, job_file
from support.result_schema import result_schema

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
SCHEMAS = {"job": job_schema, "study": study_schema}
EXAMPLES = [
    pytest.param(path, kind, id=path.stem)
    for kind, folder in (("job", "jobs"), ("study", "studies"))
    for path in sorted((CONFIGS / folder).glob("*.yaml"))
]

STUDY = """\
name: faulty
job: search.yaml
axes: {clients: [1, 2]}
"""
BAD_STUDIES = {
    "unknown key": "repeat: 3",
    "unit": "settle: 5",
    "order": "order: shuffled",
    "repeats": "repeats: 0",
    "axis without values": "axes: {clients: []}",
    "axis of two kinds": "axes: {clients: {values: [1], variants: {a: {x: 1}}}}",
    "unknown key of an axis": "axes: {clients: {value: [1]}}",
    "axis of a text": "axes: {clients: many}",
    "name of an axis": "axes: {many clients: [1]}",
    "literal password": "bind: {dn: cn=admin, password: secret}",
    "hook without command": "before: {timeout: 5s}",
    "hook as text": "before: ./restart.sh",
    "job of two kinds": "jobs: {a: a.yaml}",
    "lab of another server": "lab: {server: active-directory}",
    "table without columns": "table: {title: some}",
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_schema_in_the_repository_is_the_models(name: str) -> None:
    kept = (CONFIGS / "schema" / f"{name}.json").read_text()
    now = schema_text(SCHEMAS[name]())
    assert kept == now, (
        f"run `ldapslam describe --schema {name} >configs/schema/{name}.json`"
    )


@pytest.mark.parametrize(
    "schema", [job_schema, study_schema, result_schema], ids=["job", "study", "result"]
)
def test_a_schema_is_one_and_has_an_absolute_id(schema: Any) -> None:
    made = schema()
    jsonschema.Draft202012Validator.check_schema(made)
    assert re.fullmatch(r"urn:ldapslam:\w+:1", made["$id"])


@pytest.mark.parametrize(("path", "kind"), EXAMPLES)
def test_each_example_names_its_schema_and_meets_it(path: Path, kind: str) -> None:
    text = path.read_text()
    named = re.match(r"# yaml-language-server: \$schema=(\S+)\n", text)
    assert named is not None
    schema = path.parent / named[1]
    assert schema.resolve() == CONFIGS / "schema" / f"{kind}.json"
    validator = jsonschema.Draft202012Validator(json.loads(schema.read_text()))
    validator.validate(yaml.safe_load(text))


@pytest.mark.parametrize("fault", BAD_STUDIES)
def test_an_editor_marks_a_faulty_study(fault: str) -> None:
    validator = jsonschema.Draft202012Validator(study_schema())
    good = yaml.safe_load(STUDY)
    validator.validate(good)
    assert not validator.is_valid({**good, **yaml.safe_load(BAD_STUDIES[fault])})


def test_an_editor_marks_every_unknown_key_and_every_wrong_top_of_a_job() -> None:
    validator = jsonschema.Draft202012Validator(job_schema())
    cases = bad_jobs()
    unknown = {
        name for name, case in cases.items() if ": unknown key" in case["faults"]
    }
    assert "type-with-bad-options" in unknown
    for name in (*sorted(unknown), "empty", "only-comments", "list-at-top"):
        content = yaml.safe_load(job_file(cases[name]))
        assert not validator.is_valid(content), name
