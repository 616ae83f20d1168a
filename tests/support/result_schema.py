# SPDX-License-Identifier: Apache-2.0
"""The published JSON Schema of result.json."""

from __future__ import annotations

import json
from typing import Any

from ldapslam.reports.result import SCHEMA_FILE


def result_schema() -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(SCHEMA_FILE.read_text("utf-8"))
    return schema
