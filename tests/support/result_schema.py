# SPDX-License-Identifier: Apache-2.0
"""The published JSON Schema of result.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ldapslam.reports import result

_FILE = Path(result.__file__).with_name("result_schema.json")


def result_schema() -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(_FILE.read_text("utf-8"))
    return schema
