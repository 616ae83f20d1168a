# SPDX-License-Identifier: Apache-2.0
"""The engine's names, and their order, are those of proto/fields.py."""

from __future__ import annotations

import pytest

from ldapslam.agent import _engine
from ldapslam.proto import fields


@pytest.mark.parametrize(
    "names",
    ["OPERATION_COUNTERS", "STREAM_COUNTERS", "SET_UP_TIMES", "WORKER_COUNTERS"],
)
def test_counters_are_columns(names: str) -> None:
    assert getattr(_engine, names) == getattr(fields, names)


@pytest.mark.parametrize("names", ["METRICS", "OUTCOMES"])
def test_metrics_and_outcomes_are_columns(names: str) -> None:
    found = tuple(name.lower() for name in getattr(_engine, names))
    assert found == getattr(fields, names)
