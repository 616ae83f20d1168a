# SPDX-License-Identifier: Apache-2.0
"""The histogram against HdrHistogram, numpy and the binomial distribution."""

from __future__ import annotations

import itertools
import pickle
import struct
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given
from hypothesis import strategies as st

from ldapslam.base.errors import StoreError
from ldapslam.jobs.fields.thresholds import samples_needed
from ldapslam.results.histogram import (
    BUCKETS,
    MAX_US,
    Histogram,
    Sums,
    block_of,
    bucket_range_ns,
    order_statistic_ranks,
    percentile_rank,
)
from support.histograms import (
    bucket_index,
    histogram_of,
    pack,
    packed_of,
    packed_sums,
)

MAX_NS = MAX_US * 1000
#: Durations over all magnitudes: uniform ones would hardly ever be short.
durations = st.integers(0, 41).flatmap(
    lambda bits: st.integers(0, min(2**bits, MAX_NS))
)
samples = st.lists(durations, max_size=200)


def lognormal(count: int, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.lognormal(np.log(400_000), 1.1, count).astype(np.int64)


@given(st.lists(samples, max_size=5))
def test_merge_is_the_union_whatever_the_parts(parts: list[list[int]]) -> None:
    merged = Histogram.merge(packed_of(part) for part in parts)
    union = histogram_of([value for part in parts for value in part])
    assert pack(merged) == pack(union)


def _of_bucket(bucket: int, number: int) -> Histogram:
    made = Histogram()
    sums = Sums(number, 0, bucket * 1000, bucket * 1000, number * bucket * 1000)
    made.add_counts(np.array([bucket]), np.array([number]), sums)
    return made


@pytest.mark.parametrize("most", [2**8 - 1, 2**16 - 1, 2**32 - 1, 2**50])
@pytest.mark.parametrize("more", [1, 200, 2**31])
def test_counts_outgrow_every_type_of_numbers(most: int, more: int) -> None:
    packed = packed_of([5000])
    ours = _of_bucket(5, most)
    ours.add(_of_bucket(5, more))
    assert ours.counts.tolist() == [0] * 5 + [most + more]
    ours.add_block(block_of([packed] * 301))
    ours.add_counts(np.array([3, 5]), np.array([7.0, 2.0]), Sums(9, 0, 3000, 5000, 0))
    count = most + more + 303
    assert ours.counts.tolist() == [0, 0, 0, 7, 0, count]
    assert ours.total == count + 7
    assert ours.bucket_of_rank(7) == 3
    assert ours.bucket_of_rank(8) == ours.bucket_of_rank(ours.total) == 5


def test_a_histogram_of_few_requests_is_small() -> None:
    """A fleet has thousands of them, and its judge's helpers send them to it."""
    ours = histogram_of(lognormal(20_000))
    assert len(pickle.dumps(ours)) < 1.1 * ours.counts.size


@given(samples)
def test_unpacking_restores_what_was_packed(values: list[int]) -> None:
    packed = packed_of(values)
    assert pack(Histogram.merge([packed])) == packed


@given(durations)
def test_a_bucket_holds_its_value_and_is_narrow(value_ns: int) -> None:
    bucket = int(bucket_index(np.array([value_ns // 1000]))[0])
    low_ns, high_ns = bucket_range_ns(bucket)
    assert low_ns <= value_ns < high_ns
    # one us, or at most 1/1024 of the value
    assert high_ns - low_ns <= max(1000, low_ns / 1024)


@given(st.lists(durations, min_size=1, max_size=200), st.floats(0.1, 99.999))
def test_a_percentile_is_within_half_a_bucket_of_the_value_of_its_rank(
    values: list[int], p: float
) -> None:
    value_ns = histogram_of(values).percentile(p)
    assert value_ns is not None
    exact_ns = sorted(values)[percentile_rank(p, len(values)) - 1]
    assert abs(value_ns - exact_ns) <= max(500, exact_ns / 2048 + 500)


def test_buckets_follow_each_other_without_a_gap() -> None:
    ranges = [bucket_range_ns(bucket) for bucket in range(BUCKETS)]
    assert ranges[0][0] == 0
    assert all(before[1] == after[0] for before, after in itertools.pairwise(ranges))
    assert ranges[-1][1] > MAX_NS


def test_layout_and_percentiles_are_those_of_hdrhistogram() -> None:
    values_us = lognormal(10_000) // 1000
    oracle = HdrHistogram(1, MAX_US, 3)
    for value_us in values_us:
        oracle.record_value(int(value_us))
    ours = histogram_of(values_us * 1000)
    assert ours.counts.nonzero()[0].tolist() == [
        index for index, count in enumerate(oracle.counts) if count
    ]
    for p in (50, 90, 95, 99, 99.9):  # p % of 10,000 values is a whole number
        bucket_us = oracle.get_lowest_equivalent_value(
            oracle.get_value_at_percentile(p)
        )
        value_ns = ours.percentile(p)
        assert value_ns is not None
        low_ns, high_ns = bucket_range_ns(int(bucket_index(np.array([bucket_us]))[0]))
        assert low_ns <= value_ns <= high_ns


def test_hdrhistogram_decodes_what_we_encode() -> None:
    ours = histogram_of(lognormal(5000))
    decoded = HdrHistogram.decode(ours.to_hdr_v2())
    counts = ours.counts.tolist()
    assert list(decoded.counts) == counts + [0] * (decoded.counts_len - len(counts))
    assert decoded.get_total_count() == 5000


def test_min_max_and_mean_are_exact() -> None:
    values = lognormal(777)
    histogram = histogram_of(values)
    assert histogram.min_ns == values.min()
    assert histogram.max_ns == histogram.percentile(100) == values.max()
    assert histogram.mean() == pytest.approx(values.mean(), rel=1e-12)


def test_nothing_lies_above_the_highest_value() -> None:
    histogram = histogram_of([1_000_000, 2_000_000])
    histogram.add(histogram_of([5_000_000]))
    histogram.add(histogram_of([10_000]))
    assert histogram.above(-1) == histogram.total == 4
    assert [histogram.above(bucket) for bucket in (10, 9_000)] == [3, 0]
    assert histogram.beyond(60e9, or_at=False) == 0


@pytest.mark.parametrize("unanswered", [0, 5000])
def test_a_histogram_without_an_answer_has_no_figures(unanswered: int) -> None:
    empty = with_unanswered(np.array([]), unanswered)
    assert (empty.above(5), empty.total) == (unanswered, 0)
    assert empty.percentile(50) is None
    assert empty.percentile(100) is None
    assert empty.ci95(50) is None
    assert empty.mean() is None
    assert Histogram().beyond(1e6, or_at=True) == 0
    assert Histogram.merge([pack(empty)]).total == 0


def test_a_table_adds_the_buckets_of_histograms_by_row() -> None:
    packed = [packed_of(values_ns) for values_ns in ([1000, 3000], [3000], [5000])]
    block = block_of(packed)
    buckets, columns = block.used()
    assert buckets.tolist() == [1, 3, 5]
    table = block.table(np.array([1, 1, -1]), 2, columns, buckets.size)
    assert table.tolist() == [[0, 0, 0], [1, 2, 0]]


def test_values_above_one_hour_rank_above_every_bucket() -> None:
    hours_ns = 3 * 3_600_000_000_000
    histogram = histogram_of([1_000_000] * 97 + [hours_ns] * 3)
    assert (histogram.sample, histogram.total, histogram.overflow) == (100, 97, 3)
    assert histogram.sum_ns == 97 * 1_000_000
    assert packed_sums(pack(histogram)).overflow == 3
    assert histogram.percentile(97) == pytest.approx(1e6, rel=1e-3)
    assert histogram.percentile(98) is None
    assert histogram.percentile(100) == hours_ns  # the maximum is exact
    assert histogram.mean() is None  # the sum is of the buckets' values
    over = histogram_of([hours_ns])
    assert (over.min_ns, over.max_ns) == (hours_ns, hours_ns)
    over.add(histogram_of([10**6]))
    assert (over.min_ns, over.max_ns) == (10**6, hours_ns)
    edge = histogram_of([3_600_000_000_000])
    assert (edge.total, edge.overflow, edge.sum_ns) == (1, 0, 3_600_000_000_000)


def with_unanswered(values_ns: np.ndarray, unanswered: int) -> Histogram:
    histogram = histogram_of(values_ns)
    histogram.unanswered = unanswered
    return histogram


def test_requests_without_an_answer_rank_above_every_value() -> None:
    histogram = with_unanswered(np.arange(1, 971) * 1_000_000, 30)
    assert histogram.sample == 1000
    for p in (50, 90, 97):  # the value of rank 10 p, in ms
        assert histogram.reliable_percentile(p) == pytest.approx(p * 1e7, rel=1e-3)
    assert histogram.percentile(97.1) is None
    assert histogram.reliable_percentile(99) is None
    assert histogram.percentile(100) is None
    assert histogram.mean() is None
    curve = histogram.percentiles(np.array([50.0, 97.0, 97.1, 100.0]))
    assert np.isnan(curve).tolist() == [False, False, True, True]


def test_an_interval_may_end_among_requests_without_an_answer() -> None:
    histogram = with_unanswered(np.arange(1, 992) * 1_000_000, 9)
    low, high = order_statistic_ranks(1000, 0.99) or (0, 0)
    assert low <= histogram.total < high
    interval = histogram.ci95(99)
    assert interval is not None
    assert interval.low_ns == pytest.approx(low * 1e6, rel=1e-3)
    assert interval.high_ns is None
    assert with_unanswered(np.arange(900), 100).ci95(99) is None
    inside = histogram.ci95(50)
    assert inside is not None
    assert inside.high_ns is not None


@given(samples, samples, st.integers(0, 50), st.integers(0, 50))
def test_requests_without_an_answer_add_up(
    one: list[int], other: list[int], first: int, second: int
) -> None:
    merged = with_unanswered(np.array(one), first)
    merged.add(with_unanswered(np.array(other), second))
    assert merged.sample == len(one) + len(other) + first + second
    assert merged.unanswered == first + second


@pytest.mark.parametrize(
    ("p", "needed"),
    [(50, 20), (90, 100), (95, 200), (99, 1000), (99.9, 10_000), (99.99, 100_000)],
)
def test_a_percentile_needs_ten_values_above_it(p: float, needed: int) -> None:
    assert samples_needed(p) == needed
    values = np.arange(needed) * 1000
    assert histogram_of(values[1:]).reliable_percentile(p) is None
    assert histogram_of(values).reliable_percentile(p) is not None


@pytest.mark.parametrize(
    ("p", "total", "rank"),
    [(50, 1, 1), (50, 10, 5), (99.9, 1000, 999), (99.9, 1001, 1000), (0.1, 5, 1)],
)
def test_rank_is_not_disturbed_by_floats(p: float, total: int, rank: int) -> None:
    assert percentile_rank(p, total) == rank


@pytest.mark.parametrize("q", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("total", [5, 6, 20, 101, 300])
def test_order_statistic_ranks_cover_95_percent_and_are_the_tightest(
    total: int, q: float
) -> None:
    exact_q = Fraction(str(q))
    weights = (
        comb(total, k) * exact_q**k * (1 - exact_q) ** (total - k) for k in range(total)
    )
    # below[rank] = P(B < rank) for B binomial(total, q)
    below = list(itertools.accumulate(weights, initial=Fraction(0)))
    tail = Fraction("0.025")
    lows = [rank for rank in range(1, total + 1) if below[rank] <= tail]
    highs = [rank for rank in range(1, total + 1) if 1 - below[rank] <= tail]
    expected = (max(lows), min(highs)) if lows and highs else None
    assert order_statistic_ranks(total, q) == expected


GOOD = packed_of([1000, 2000, 3000])


@pytest.mark.parametrize(
    "packed",
    [
        pytest.param(b"", id="empty"),
        pytest.param(GOOD[:40], id="header cut"),
        pytest.param(GOOD[:-1], id="counts cut"),
        pytest.param(GOOD + b"\0", id="too long"),
        pytest.param(b"SLH2" + GOOD[4:], id="wrong magic"),
        pytest.param(GOOD[:4] + struct.pack("<I", 2**32 - 1) + GOOD[8:], id="huge n"),
        pytest.param(GOOD[:8] + struct.pack("<Q", 4) + GOOD[16:], id="wrong total"),
        pytest.param(
            GOOD[:48] + struct.pack("<HHH", 3, 2, 1) + GOOD[54:], id="descending"
        ),
        pytest.param(
            GOOD[:48] + struct.pack("<HHH", 1, 2, BUCKETS) + GOOD[54:], id="too far"
        ),
        pytest.param(
            struct.pack("<4sIQQQQQ", b"SLH1", 0, 7, 0, 0, 0, 0), id="total of nothing"
        ),
    ],
)
def test_bytes_that_are_no_histogram_are_refused(packed: bytes) -> None:
    with pytest.raises(StoreError, match="packed histogram"):
        Histogram.merge([packed])
