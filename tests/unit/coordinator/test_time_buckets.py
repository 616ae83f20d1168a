# SPDX-License-Identifier: Apache-2.0
"""Counts at decimal borders, from buckets that are not decimal."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ldapslam.coordinator.outputs.time_buckets import BORDERS_NS, TimeBuckets
from ldapslam.results.histogram import BUCKETS, bucket_range_ns
from support.histograms import packed_of

MS = 1_000_000
EDGES_NS = np.array([bucket_range_ns(bucket)[0] for bucket in range(BUCKETS)])


def test_up_to_30_ms_each_border_is_an_edge_of_the_engine() -> None:
    exact = [border_ns for border_ns in BORDERS_NS if border_ns in EDGES_NS]
    assert [one for one in BORDERS_NS if one <= 30 * MS] == exact
    assert max(exact) == 30 * MS


def test_beyond_a_border_stands_for_an_edge_at_most_a_twentieth_of_a_percent_off() -> (
    None
):
    for border_ns in BORDERS_NS:
        near_ns = EDGES_NS[np.abs(EDGES_NS - border_ns).argmin()]
        buckets = TimeBuckets()
        buckets.add([packed_of([near_ns - 1, near_ns])])
        place = BORDERS_NS.index(border_ns)
        # the first below it, the second not
        assert buckets.counts[place : place + 2] == [1, 1]
        assert abs(near_ns - border_ns) / border_ns <= 0.0005


@given(st.lists(st.integers(0, 30 * MS), min_size=1, max_size=50))
def test_counts_below_30_ms_are_those_of_the_values_themselves(
    times: list[int],
) -> None:
    buckets = TimeBuckets()
    half = len(times) // 2
    buckets.add([packed_of(times[:half]), packed_of(times[half:])])
    below = np.cumsum(buckets.counts)
    for border_ns, count in zip(BORDERS_NS, below, strict=False):
        if border_ns <= 30 * MS:
            assert count == sum(one < border_ns for one in times)
    assert below[-1] == len(times)
    assert buckets.sum_s == sum(times) / 1e9
