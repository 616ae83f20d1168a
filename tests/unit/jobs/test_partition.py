# SPDX-License-Identifier: Apache-2.0
"""Splits of totals over agents are exact."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldapslam.jobs.plan import participants, share

PARTS = st.integers(1, 200)
TOTALS = st.integers(0, 10**9)


@given(total=TOTALS, parts=PARTS)
def test_shares_sum_exactly_and_differ_by_at_most_one(total: int, parts: int) -> None:
    shares = [share(total, parts, index) for index in range(parts)]
    assert sum(shares) == total
    assert max(shares) - min(shares) <= 1


@given(total=st.integers(0, 500), parts=PARTS)
def test_share_counts_the_numbers_that_are_dealt_to_the_part(
    total: int, parts: int
) -> None:
    for index in range(parts):
        assert share(total, parts, index) == len(range(index, total, parts))


@given(total=TOTALS, parts=PARTS)
def test_participants_are_exactly_the_parts_with_a_share(
    total: int, parts: int
) -> None:
    drivers = participants(total, parts)
    assert all(share(total, parts, index) > 0 for index in range(drivers))
    assert all(share(total, parts, index) == 0 for index in range(drivers, parts))


@pytest.mark.parametrize(("parts", "index"), [(0, 0), (3, 3), (3, -1)])
def test_part_that_does_not_exist_is_refused(parts: int, index: int) -> None:
    with pytest.raises(ValueError, match="part"):
        share(10, parts, index)
