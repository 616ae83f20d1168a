# SPDX-License-Identifier: Apache-2.0
"""The published JSON Schema of result.json."""

from __future__ import annotations

import json
from typing import Any

from jsonschema import Draft202012Validator

from ldapslam.reports.model import Summary
from ldapslam.reports.result import SCHEMA_FILE, result_of


def result_schema() -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(SCHEMA_FILE.read_text("utf-8"))
    return schema


def valid_result(summary: Summary) -> dict[str, Any]:
    """Return the run's result.json as a program reads it; it follows the schema."""
    text = json.dumps(result_of(summary), allow_nan=False)
    result: dict[str, Any] = json.loads(text)
    Draft202012Validator(result_schema()).validate(result)
    return result
