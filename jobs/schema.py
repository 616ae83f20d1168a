# SPDX-License-Identifier: Apache-2.0
"""JSON Schemas of the files that people write, from the models' own descriptions.

configs/schema has them; `ldapslam describe --schema` prints them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from ldapslam.jobs.fields.sections import Section
from ldapslam.jobs.model import Job
from ldapslam.jobs.reading import extension, variables
from ldapslam.jobs.types import job_types

DIALECT = "https://json-schema.org/draft/2020-12/schema"


class _Generator(GenerateJsonSchema):
    """Keys that may be left out are left out, not null; defaults are written in the
    file's notation (`Section` adds them)."""

    def nullable_schema(self, schema: Any) -> Any:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: Any) -> Any:
        return self.generate_inner(schema["schema"])

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


#: A value that a variable may stand for.
_REFERENCE = {"type": "string", "pattern": r"\$\{"}
_VALUE = {"type": ["string", "number", "boolean", "null"]}


def head(name: str) -> dict[str, Any]:
    """What a schema begins with."""
    title = f"ldapslam {name}"
    return {"$schema": DIALECT, "$id": f"urn:ldapslam:{name}:1", "title": title}


def section_schema(section: type[Section]) -> dict[str, Any]:
    """Of a section with those inside it, in `$defs`, before variables are replaced."""
    schema = section.model_json_schema(by_alias=True, schema_generator=_Generator)
    schema.pop("title", None)
    whole: dict[str, Any] = _with_references(schema)
    return whole


def job_schema() -> dict[str, Any]:
    """Of job files, with what is gone before the model sees it."""
    whole = section_schema(Job)
    definitions = whole.pop("$defs")
    # a job type may set the load: bulk_load does; one target needs no name
    definitions["Stream"]["required"] = ["name"]
    definitions["Stream"].setdefault("allOf", []).extend(_options(definitions))
    before = {
        variables.KEY: {
            "description": "variables and their defaults: `describe vars`",
            "type": "object",
            "additionalProperties": _VALUE,
        },
        extension.KEY: {
            "description": "the job file that this one changes: `describe extends`",
            "type": "string",
        },
    }
    whole["properties"] |= before
    # of what is changed, a part is enough
    part = {
        "properties": dict.fromkeys(whole["properties"], True) | before,
        "additionalProperties": False,
    }
    return {
        **head("job"),
        "type": "object",
        "if": {"required": [extension.KEY]},
        "then": part,
        "else": whole,
        "$defs": definitions,
    }


def _options(definitions: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What each job type asks for; their sections are added to the definitions."""
    for name, job_type in job_types().items():
        schema = section_schema(job_type.Options)
        definitions |= schema.pop("$defs", {})
        definitions[job_type.Options.__name__] = schema
        reference = {"$ref": f"#/$defs/{job_type.Options.__name__}"}
        yield {
            "if": {"properties": {"type": {"const": name}}, "required": ["type"]},
            "then": {"properties": {"options": reference}},
        }


def _with_references(schema: Any) -> Any:
    """The schema, where a reference may stand for what is not any text."""
    if isinstance(schema, list):
        return [_with_references(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: _with_references(one) for key, one in schema.items()}
    if "patternProperties" in inner:
        inner.setdefault("additionalProperties", False)
    kind = schema.get("type")
    is_any_text = kind == "string" and not {"pattern", "enum"} & {*schema}
    if is_any_text or kind not in ("string", "integer", "number", "boolean"):
        return inner
    told = {key: inner.pop(key) for key in ("description", "default") if key in inner}
    return {**told, "anyOf": [inner, _REFERENCE]}


def schema_text(schema: dict[str, Any]) -> str:
    return json.dumps(schema, indent=1) + "\n"
