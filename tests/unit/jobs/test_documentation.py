# SPDX-License-Identifier: Apache-2.0
"""The job file's documentation and JSON Schema follow from the model, completely."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from ldapslam.base.errors import ConfigError
from ldapslam.jobs.describe import describe, sections_of_jobs, topics
from ldapslam.jobs.fields.sections import Section, fields_of
from ldapslam.jobs.load import load_job
from ldapslam.jobs.schema import job_schema
from support.bad_jobs import bad_jobs, job_file

READY_JOBS = sorted((Path(__file__).parents[3] / "configs" / "jobs").glob("*.yaml"))
BAD_JOBS = bad_jobs()


ALL = sorted(set(sections_of_jobs().values()), key=lambda section: section.__qualname__)


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    schema = job_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("section", ALL, ids=lambda section: section.__name__)
def test_every_field_is_described(section: type[Section]) -> None:
    assert section.summary()
    for key, info in fields_of(section):
        assert info.description, key
        if info.is_required():
            assert info.examples, f"{key} is required and has no example"


def test_description_names_every_field_and_fits_a_terminal() -> None:
    text = "\n".join(map(describe, topics()))
    for section in ALL:
        for key, _ in fields_of(section):
            assert f"  {key}: " in text
    assert max(len(line) for line in text.splitlines()) <= 80


@pytest.mark.parametrize("topic", ["let", "streams.operations.let"])
def test_one_field_is_described_by_its_name_or_path(topic: str) -> None:
    text = describe(topic)
    assert text.startswith("streams[].operations[]\n  let: ")
    assert "weight" not in text


def test_one_section_is_described_with_those_inside_it() -> None:
    titles = re.findall(r"^(.+)\n-+$", describe("streams.load"), re.MULTILINE)
    assert titles == [
        "streams[].load",
        "streams[].load.stages[]",
        "streams[].load.stages",
        "streams[].load.trace",
        "streams[].load.trace.binds",
        "streams[].load.trace.modifies",
        "streams[].load.trace.adds",
    ]


@pytest.mark.parametrize(
    ("word", "title"),
    [("search", "streams[].operations[].search"), ("auth", "types.auth")],
)
def test_operations_and_types_are_described_by_their_names(
    word: str, title: str
) -> None:
    assert describe(word).startswith(f"{title}\n---")


def test_unknown_section_names_the_nearest() -> None:
    with pytest.raises(ConfigError) as caught:
        describe("stream")
    assert caught.value.hint == "did you mean 'streams'?"


@pytest.mark.parametrize("path", READY_JOBS, ids=lambda path: path.stem)
def test_ready_job_loads_and_meets_the_schema(
    path: Path, validator: jsonschema.Draft202012Validator
) -> None:
    validator.validate(yaml.safe_load(path.read_text()))
    validator.validate(json.loads(load_job(path).canonical_text()))


@pytest.mark.parametrize(
    "name",
    [
        "missing-unit-of-duration",
        "wrong-type-of-streams",
        "zero-clients",
        "closed-and-open",
        "neither-closed-nor-open",
        "unknown-operation",
        "two-operations-in-one",
        "bad-scope",
        "rate-without-unit",
        "literal-password",
        "validity-without-percent",
        "job-name-with-spaces",
        "modify-without-changes",
    ],
)
def test_schema_finds_what_an_editor_should_mark(
    name: str, validator: jsonschema.Draft202012Validator
) -> None:
    content: Any = yaml.safe_load(job_file(BAD_JOBS[name]))
    assert not validator.is_valid(content)


def test_schema_has_defaults_in_the_notation_of_the_file() -> None:
    definitions = job_schema()["$defs"]
    assert definitions["Run"]["properties"]["interval"]["default"] == "1s"
    assert definitions["Validity"]["properties"]["busy_share"]["default"] == "95%"
    assert definitions["Load"]["properties"]["max_backlog"]["default"] == "10s"
