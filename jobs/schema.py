# SPDX-License-Identifier: Apache-2.0
"""The JSON Schema of the job file, for editors: generated from the model.

It knows keys, types and units; faults between fields are found only by loading.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from ldapslam.jobs.model import Job

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


def job_schema() -> dict[str, Any]:
    schema = Job.model_json_schema(by_alias=True, schema_generator=_Generator)
    # a job type may set it: wait_for_directory does
    schema["$defs"]["Stream"]["required"].remove("load")
    return {"$schema": DIALECT, **schema, "title": "ldapslam job"}


def job_schema_text() -> str:
    return json.dumps(job_schema(), indent=2) + "\n"
