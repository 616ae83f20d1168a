# SPDX-License-Identifier: Apache-2.0
"""What is counted where there is too much of something."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ldapslam.coordinator.bounds import Bound, exceeded


@contextmanager
def exceeds(**bounds: int) -> Iterator[None]:
    """Within, these bounds are exceeded, each so often, and no others."""
    before = exceeded()
    yield
    now = exceeded()
    found = {one.name: now[one] - before[one] for one in Bound}
    assert {name: count for name, count in found.items() if count} == bounds
