# SPDX-License-Identifier: Apache-2.0
"""Splits of totals over agents are exact."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldapslam.jobs.plan import participants, share

PARTS = st.integers(1, 200)


@given(total=st.integers(0, 500), parts=PARTS)
def test_share_counts_the_numbers_that_are_dealt_to_the_part(
    total: int, parts: int
) -> None:
    shares = [share(total, parts, index) for index in range(parts)]
    assert shares == [len(range(index, total, parts)) for index in range(parts)]
    assert participants(total, parts) == sum(number > 0 for number in shares)


@pytest.mark.parametrize(("parts", "index"), [(0, 0), (3, 3), (3, -1)])
def test_part_that_does_not_exist_is_refused(parts: int, index: int) -> None:
    with pytest.raises(ValueError, match="part"):
        share(10, parts, index)
