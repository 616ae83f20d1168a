# SPDX-License-Identifier: Apache-2.0
"""Histograms of durations: the engine's packed bytes, merged and read with numpy.

Packed, little-endian: "SLH1", u32 n, u64 total, u64 overflow, u64 min_ns, u64 max_ns,
u64 sum_ns, n * u16 bucket index (ascending), n * u32 count. `total` excludes
`overflow`, the number of values above one hour; min, max and sum are exact.

The buckets are those of HdrHistogram with unit 1 us and three significant digits. With
v the value in whole us: below 2048 the bucket is v, one us wide; above, with
b = floor(log2 v) - 10, it is (b << 10) + (v >> b), 2^b us wide. A bucket is never wider
than 1/1024 of its values, so a percentile, the middle of its bucket, is within 0.05 %
(below 1,024 us: within 0.5 us) of the value of that rank. Merging adds counts: the
histogram of a fleet is exactly that of the union of its requests.

Packed histograms are taken in as they come and added up some hundred at a time, when a
figure is asked for; `packed.py` reads blocks of them, for reports that merge millions.

Ranks are taken over the values in buckets, those that overflowed, and the requests
without an answer, which lie above every value. A figure that hangs on what lies above
the buckets is None.
"""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ldapslam.jobs.errors import StoreError
from ldapslam.jobs.thresholds import samples_needed
from ldapslam.reports.results.packed import (
    BUCKETS,
    EMPTY_MIN_NS,
    HEADER,
    MAGIC,
    Block,
    Sums,
    block_of,
    header_of,
)

MAX_US = 3_600_000_000

_HALF = 1024
#: Kept packed at most, by one histogram.
_MOST_PENDING_BYTES = 1 << 18
_NS_PER_US = 1000

#: HdrHistogram V2: cookies of the payload and of its compressed wrapper.
_HDR_V2_COOKIE = 0x1C849303 | 0x10
_HDR_V2_COMPRESSED_COOKIE = 0x1C849304 | 0x10

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Interval95:
    """A 95 % confidence interval."""

    low_ns: float
    #: None: above every value in a bucket.
    high_ns: float | None


class Histogram:
    """Mutable while being merged; the figures are computed when asked for."""

    __slots__ = (
        "_counts",
        "_cumulated",
        "_pending",
        "_pending_bytes",
        "max_ns",
        "min_ns",
        "overflow",
        "sum_ns",
        "total",
        "unanswered",
    )

    def __init__(self) -> None:
        self._counts: Counts = np.zeros(BUCKETS, dtype=np.int64)
        #: Sums of `_counts` up to each bucket; None: not computed.
        self._cumulated: Counts | None = None
        #: Packed histograms that are not in `_counts` yet; their totals are.
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self.total = 0
        self.overflow = 0
        #: Requests without an answer. Agents send them as counters: not packed.
        self.unanswered = 0
        self.sum_ns = 0
        self.min_ns = EMPTY_MIN_NS
        self.max_ns = 0

    @classmethod
    def from_packed(cls, packed: bytes) -> Histogram:
        """StoreError when the bytes are not a packed histogram."""
        histogram = cls()
        histogram.add_packed(packed)
        histogram._settle()
        return histogram

    @classmethod
    def merge(cls, parts: Iterable[bytes]) -> Histogram:
        """The histogram of the union of what the packed parts counted."""
        histogram = cls()
        for packed in parts:
            histogram.add_packed(packed)
        histogram._settle()
        return histogram

    @classmethod
    def of_values(cls, values_ns: npt.ArrayLike) -> Histogram:
        """The histogram of values, as the engine would have recorded them."""
        values = np.asarray(values_ns, dtype=np.int64)
        histogram = cls()
        if values.size:
            values_us = values // _NS_PER_US
            inside = values_us <= MAX_US
            index = bucket_index(values_us[inside])
            histogram._counts = np.bincount(index, minlength=BUCKETS)
            histogram.total = int(inside.sum())
            histogram.overflow = int(values.size - histogram.total)
            histogram.sum_ns = int(values[inside].sum())
            histogram.min_ns = int(values.min())
            histogram.max_ns = int(values.max())
        return histogram

    def add_packed(self, packed: bytes) -> None:
        """Adds a packed histogram; StoreError when the bytes are not one, for what is
        in the buckets not before they are read."""
        n, total, overflow, min_ns, max_ns, sum_ns = header_of(packed)
        if n:
            self._pending.append(packed)
            self._pending_bytes += len(packed)
            if self._pending_bytes > _MOST_PENDING_BYTES:
                self._settle()
        self.total += total
        self.overflow += overflow
        self.sum_ns += sum_ns
        if total or overflow:
            self.min_ns = min(self.min_ns, min_ns)
            self.max_ns = max(self.max_ns, max_ns)

    @property
    def counts(self) -> Counts:
        """Values in each bucket."""
        if self._pending:
            self._settle()
        return self._counts

    def _settle(self) -> None:
        """Adds up what is pending."""
        pending, self._pending, self._pending_bytes = self._pending, [], 0
        if not pending:
            return
        block = block_of(pending)
        self._cumulated = None
        if len(pending) == 1:
            self._counts[block.indexes] += block.counts  # the indexes are distinct
            return
        self._counts += _added_up(block)

    def add_block(self, block: Block) -> None:
        """Adds packed histograms that were read together."""
        self._cumulated = None
        self._counts += _added_up(block)
        self._add_sums(block.sums())

    def add_counts(
        self, buckets: npt.NDArray[np.intp], counts: npt.ArrayLike, sums: Sums
    ) -> None:
        """Adds values by bucket; `buckets` are distinct, and `sums` all the rest."""
        self._cumulated = None
        self._counts[buckets] += np.asarray(counts).astype(np.int64)
        self._add_sums(sums)

    def _add_sums(self, sums: Sums) -> None:
        self.total += sums.total
        self.overflow += sums.overflow
        self.sum_ns += sums.sum_ns
        self.min_ns = min(self.min_ns, sums.min_ns)
        self.max_ns = max(self.max_ns, sums.max_ns)

    def _ranks(self) -> Counts:
        """Values up to each bucket."""
        counts = self.counts
        if self._cumulated is None:
            self._cumulated = np.cumsum(counts)
        return self._cumulated

    @staticmethod
    def check(packed: bytes) -> None:
        """StoreError when the bytes are not a packed histogram."""
        if header_of(packed)[0]:
            block_of([packed])

    def add(self, other: Histogram) -> None:
        self._settle()
        self._counts += other.counts
        self._cumulated = None
        self.total += other.total
        self.overflow += other.overflow
        self.unanswered += other.unanswered
        self.sum_ns += other.sum_ns
        self.min_ns = min(self.min_ns, other.min_ns)
        self.max_ns = max(self.max_ns, other.max_ns)

    def packed(self) -> bytes:
        """The inverse of `from_packed`; `unanswered` has no place in it."""
        index = np.flatnonzero(self.counts)
        if self.counts.max() >= 2**32:
            raise StoreError("packed histogram: a bucket holds more than 2^32 values")
        header = HEADER.pack(
            MAGIC,
            index.size,
            self.total,
            self.overflow,
            self.min_ns,
            self.max_ns,
            self.sum_ns,
        )
        counts = self.counts[index].astype("<u4")
        return header + index.astype("<u2").tobytes() + counts.tobytes()

    @property
    def sample(self) -> int:
        """What ranks are taken over."""
        return self.total + self.overflow + self.unanswered

    def percentile(self, p: float) -> float | None:
        """The value in ns below or at which p % of the sample lies.

        Nearest rank: the value of rank ceil(p / 100 * sample), at least 1. None when
        there is no sample, or no bucket holds that rank; the maximum is known exactly
        unless a request had no answer.
        """
        if not self.sample:
            return None
        if p >= 100:
            return None if self.unanswered else float(self.max_ns)
        rank = percentile_rank(p, self.sample)
        if rank > self.total:
            return None
        bucket = int(np.searchsorted(self._ranks(), rank))
        low_ns, high_ns = bucket_range_ns(bucket)
        return self._clamp((low_ns + high_ns) / 2)

    def reliable_percentile(self, p: float) -> float | None:
        """`percentile`, or None when the sample is too small for it."""
        return self.percentile(p) if self.sample >= samples_needed(p) else None

    def percentiles(self, ps: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """`percentile` of each, for curves, NaN for None; some bucket holds a value."""
        ranks = np.array([percentile_rank(float(p), self.sample) for p in ps])
        known = np.minimum(ranks, self.total)
        buckets = np.searchsorted(self._ranks(), known)
        middles: npt.NDArray[np.float64]
        middles = middles_ns()[buckets].clip(self.min_ns, self.max_ns)
        middles[ranks > self.total] = np.nan
        middles[ps >= 100] = np.nan if self.unanswered else self.max_ns
        return middles

    def ci95(self, p: float) -> Interval95 | None:
        """Order-statistic interval of a percentile.

        None when the sample is too small, or no bucket holds even the lower end. The
        ends are the outer edges of their buckets: the interval is never narrower
        than that of the values themselves. It assumes independent values.
        """
        ranks = order_statistic_ranks(self.sample, p / 100) if self.sample else None
        if ranks is None or ranks[0] > self.total:
            return None
        low, high = np.searchsorted(self._ranks(), ranks)
        low_ns = self._clamp(bucket_range_ns(int(low))[0])
        if ranks[1] > self.total:
            return Interval95(low_ns, None)
        return Interval95(low_ns, self._clamp(bucket_range_ns(int(high))[1]))

    def mean(self) -> float | None:
        """None without a sample, and when a part of it is in no bucket."""
        if not self.total or self.sample > self.total:
            return None
        return self.sum_ns / self.total

    def stddev(self) -> float | None:
        """Of the population, from the middles of the buckets; None as the mean."""
        mean = self.mean()
        if mean is None:
            return None
        index = np.flatnonzero(self.counts)
        squares = (middles_ns()[index] - mean) ** 2
        return math.sqrt(float(squares @ self.counts[index]) / self.total)

    def to_hdr_v2(self) -> str:
        """Base64 of the compressed V2 encoding of HdrHistogram, for a .hlog file."""
        payload = _zigzag_counts(self.counts)
        # cookie, length, index offset, digits, lowest, highest, value ratio
        head = (_HDR_V2_COOKIE, len(payload), 0, 3, 1, MAX_US, 1.0)
        body = zlib.compress(struct.pack(">iiiiqqd", *head) + payload)
        wrapped = struct.pack(">ii", _HDR_V2_COMPRESSED_COOKIE, len(body)) + body
        return base64.b64encode(wrapped).decode("ascii")

    def _clamp(self, value_ns: float) -> float:
        return float(min(max(value_ns, self.min_ns), self.max_ns))


def bucket_index(values_us: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Bucket of each value, which lies in [0, MAX_US]."""
    exponent = np.frexp(values_us.astype(np.float64))[1]  # floor(log2 v) + 1
    shift = np.maximum(exponent.astype(np.int64) - 11, 0)
    return (shift << 10) + (values_us >> shift)


def bucket_range_ns(bucket: int) -> tuple[int, int]:
    """The bucket holds the values in [low, high)."""
    shift = max(bucket // _HALF - 1, 0)
    low_us = (bucket - (shift << 10)) << shift
    return low_us * _NS_PER_US, (low_us + (1 << shift)) * _NS_PER_US


def percentile_rank(p: float, total: int) -> int:
    """ceil(p / 100 * total) without the rounding of floats, at least 1."""
    parts = round(p * 1_000_000)
    return max(1, -(-parts * total // 100_000_000))


@lru_cache(maxsize=4096)
def order_statistic_ranks(total: int, q: float) -> tuple[int, int] | None:
    """Ranks (1-based) whose values enclose the q-quantile with at least 95 %.

    The number B of values at or below the quantile is binomial(total, q), and the
    quantile lies between the values of rank l and u exactly when l <= B < u. So l is
    the largest rank with P(B < l) <= 2.5 %, u the smallest with P(B >= u) <= 2.5 %.
    None when there is no such rank within the sample.
    """
    if not 0 < q < 1:
        return None
    # The binomial within ten standard deviations of its mean: the rest weighs 1e-20.
    reach = 10 * math.sqrt(total * q * (1 - q)) + 10
    first = max(0, math.floor(total * q - reach))
    last = min(total, math.ceil(total * q + reach))
    k = np.arange(first, last, dtype=np.float64)
    steps = np.log((total - k) / (k + 1)) + math.log(q / (1 - q))
    logs = np.concatenate(([0.0], np.cumsum(steps)))
    weights = np.exp(logs - logs.max())
    below = np.cumsum(weights) / weights.sum()  # P(B <= first + i)
    # P(B < l) = P(B <= l - 1) <= 0.025
    low = first + int(np.searchsorted(below, 0.025, side="right"))
    # P(B >= u) = 1 - P(B <= u - 1) <= 0.025
    high = first + int(np.searchsorted(below, 0.975, side="left")) + 1
    if low < 1 or high > total:
        return None
    return low, high


def _added_up(block: Block) -> Counts:
    """Values by bucket; as floats on the way, exact up to 2^53."""
    sums = np.bincount(block.indexes, weights=block.counts, minlength=BUCKETS)
    return sums.astype(np.int64)


@lru_cache(maxsize=1)
def middles_ns() -> npt.NDArray[np.float64]:
    """The middle of each bucket."""
    ranges = np.array([bucket_range_ns(bucket) for bucket in range(BUCKETS)])
    middles: npt.NDArray[np.float64] = ranges.mean(axis=1)
    middles.flags.writeable = False
    return middles


def _zigzag_counts(counts: Counts) -> bytes:
    """Counts as ZigZag LEB128 numbers; a run of n empty buckets is the number -n."""
    out = bytearray()
    position = 0
    for bucket in np.flatnonzero(counts).tolist():
        if bucket > position:
            out += _zigzag(position - bucket)
        out += _zigzag(int(counts[bucket]))
        position = bucket + 1
    return bytes(out)


def _zigzag(number: int) -> bytes:
    value = (number << 1) ^ (number >> 63)
    out = bytearray()
    # HdrHistogram's variant: nine bytes at most, the ninth holds eight bits.
    while value >= 0x80 and len(out) < 8:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
