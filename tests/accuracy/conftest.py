# SPDX-License-Identifier: Apache-2.0
"""Accuracy is measured with the CPU at hand, whatever else the machine does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.priority import session_first


@pytest.fixture(scope="session", autouse=True)
def cpu_first() -> Iterator[None]:
    with session_first():
        yield
