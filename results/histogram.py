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

Packed histograms are read as columns, some hundred at a time.

Ranks are taken over the values in buckets, those that overflowed, and the requests
without an answer, which lie above every value. A statistic that depends on what lies
above the buckets is None.
"""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ldapslam.base.errors import StoreError
from ldapslam.jobs.fields.thresholds import samples_needed
from ldapslam.results import _columns

BUCKETS = 23 * 1024
#: `min_ns` of a histogram without a value.
EMPTY_MIN_NS = 2**64 - 1
MAX_US = 3_600_000_000

_HALF = 1024
_NS_PER_US = 1000

#: HdrHistogram V2: cookies of the payload and of its compressed wrapper.
_HDR_V2_COOKIE = 0x1C849303 | 0x10
_HDR_V2_COMPRESSED_COOKIE = 0x1C849304 | 0x10

Counts = npt.NDArray[np.int64]
#: Of a histogram: of the narrowest type that holds them.
_Narrow = npt.NDArray[np.unsignedinteger[Any]]

_FIELDS = np.dtype(
    [
        ("magic", "S4"),
        ("n", "<u4"),
        *(
            (name, "<u8")
            for name in ("total", "overflow", "min_ns", "max_ns", "sum_ns")
        ),
    ]
)

Headers = npt.NDArray[np.void]


class Sums(NamedTuple):
    """All that a packed histogram has beside its buckets, in its order."""

    total: int
    overflow: int
    min_ns: int
    max_ns: int
    sum_ns: int


@dataclass(frozen=True, slots=True)
class Block:
    """Packed histograms as columns."""

    #: One for each histogram, with the fields of the format.
    headers: Headers
    #: The buckets of all histograms, in their order: index and count.
    indexes: npt.NDArray[np.uint16]
    counts: npt.NDArray[np.uint32]

    def used(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.uint16]]:
        """The buckets that hold any value, ascending; and the place of each of all
        buckets among them."""
        is_used = np.bincount(self.indexes, minlength=BUCKETS) > 0
        columns: npt.NDArray[np.intp] = np.cumsum(is_used) - is_used
        return np.flatnonzero(is_used), columns.astype(np.uint16)

    def table(
        self,
        rows: npt.NDArray[np.intp],
        height: int,
        columns: npt.NDArray[np.uint16],
        width: int,
    ) -> Counts:
        """Values by row and column: `rows` has the row of each histogram, -1 of one
        that is left out, `columns` the column of each bucket."""
        starts = np.repeat(rows * width, self.headers["n"].astype(np.intp))
        # row -1 is the last row, which is cut off
        table = np.zeros((height + 1) * width, np.int64)
        places = starts + columns[self.indexes]
        np.add.at(table, places, self.counts.astype(np.int64))
        return table.reshape(height + 1, width)[:height]

    def add_each(
        self,
        groups: npt.NDArray[np.integer[Any]],
        histogram_of: Callable[[int], Histogram],
    ) -> None:
        """Adds each histogram to that of its group; group -1: it is left out."""
        ends = np.cumsum(self.headers["n"], dtype=np.intp).tolist()
        fields = self.headers.tolist()
        for group, end, (_, n, *sums) in zip(
            groups.tolist(), ends, fields, strict=True
        ):
            if group < 0:
                continue
            where = slice(end - n, end)
            histogram_of(group).add_counts(
                self.indexes[where], self.counts[where], Sums(*sums)
            )


def sums_of(headers: Headers) -> Sums:
    """Over all these histograms, exact."""
    filled = headers[(headers["total"] | headers["overflow"]) != 0]
    return Sums(
        total=sum(headers["total"].tolist()),
        overflow=sum(headers["overflow"].tolist()),
        min_ns=int(filled["min_ns"].min(initial=EMPTY_MIN_NS)),
        max_ns=int(filled["max_ns"].max(initial=0)),
        sum_ns=sum(headers["sum_ns"].tolist()),
    )


def block_of(packed: Sequence[bytes]) -> Block:
    """The histograms as columns, checked; StoreError when one is damaged."""
    lengths = np.fromiter(map(len, packed), np.int64, len(packed))
    spans = np.stack([np.cumsum(lengths) - lengths, lengths], axis=1)
    return block_at(b"".join(packed), spans)


def block_at(content: bytes, spans: Counts) -> Block:
    """The same of histograms within `content`; `spans` has start and length of each."""
    try:
        headers, indexes, counts = _columns.block(content, spans)
    except ValueError as error:
        raise StoreError(str(error)) from error
    return Block(
        np.frombuffer(headers, _FIELDS),
        np.frombuffer(indexes, "<u2"),
        np.frombuffer(counts, "<u4"),
    )


def check_packed(content: bytes, lengths: Counts) -> None:
    """StoreError where the content is not packed histograms of these lengths, by row,
    without those of length 0."""
    chosen = lengths[lengths != 0]
    if not chosen.size and not content:
        return
    ends = np.cumsum(chosen)
    block_at(content, np.stack([ends - chosen, chosen], axis=1))
    if chosen.sum() != len(content):
        raise StoreError("packed histograms: their lengths do not add up")


def joined(blocks: Sequence[Block]) -> Block:
    """The histograms of all these."""
    if len(blocks) == 1:
        return blocks[0]
    return Block(
        np.concatenate([one.headers for one in blocks]),
        np.concatenate([one.indexes for one in blocks]),
        np.concatenate([one.counts for one in blocks]),
    )


@dataclass(frozen=True, slots=True)
class Interval95:
    """A 95 % confidence interval."""

    low_ns: float
    #: None: above every value in a bucket.
    high_ns: float | None


class Histogram:
    """Mutable while being merged; the statistics are computed when asked for."""

    __slots__ = (
        "_counts",
        "_cumulated",
        "_most",
        "max_ns",
        "min_ns",
        "overflow",
        "sum_ns",
        "total",
        "unanswered",
    )

    def __init__(self) -> None:
        #: Up to the highest bucket that was needed, and no wider than its counts are:
        #: there are many histograms at once.
        self._counts: _Narrow = np.zeros(0, np.uint8)
        #: No bucket has more.
        self._most = 0
        #: Sums of `_counts` up to each bucket; None: not computed.
        self._cumulated: Counts | None = None
        self.total = 0
        self.overflow = 0
        #: Requests without an answer. Agents send them as counters: not packed.
        self.unanswered = 0
        self.sum_ns = 0
        self.min_ns = EMPTY_MIN_NS
        self.max_ns = 0

    @classmethod
    def merge(cls, parts: Iterable[bytes]) -> Histogram:
        """The union of packed histograms; StoreError when one is damaged."""
        histogram = cls()
        histogram.add_block(block_of([*parts]))
        return histogram

    @classmethod
    def union(cls, parts: Iterable[Histogram]) -> Histogram:
        union = cls()
        for histogram in parts:
            union.add(histogram)
        return union

    @property
    def counts(self) -> Counts:
        """Values in each bucket; those beyond the last one have none."""
        return self._counts.astype(np.int64)

    def add_block(self, block: Block) -> None:
        """Adds packed histograms that were read together."""
        sums = sums_of(block.headers)
        if block.headers.size == 1:
            self.add_counts(block.indexes, block.counts, sums)
        else:
            self._add_up(_added_up(block))
            self._add_sums(sums)

    def add_counts(
        self, buckets: npt.NDArray[Any], counts: npt.NDArray[Any], sums: Sums
    ) -> None:
        """Adds values by bucket; `buckets` ascend, and `sums` is all the rest."""
        if buckets.size:
            self._add_ascending(buckets, counts)
        self._add_sums(sums)

    def _add_ascending(
        self, buckets: npt.NDArray[Any], counts: npt.NDArray[Any]
    ) -> None:
        self._room(int(buckets[-1]) + 1, int(counts.max()))
        self._counts[buckets] += counts.astype(self._counts.dtype, copy=False)

    def _add_up(self, counts: npt.NDArray[np.integer[Any]]) -> None:
        """Adds to the first buckets."""
        self._room(counts.size, int(counts.max(initial=0)))
        first = self._counts[: counts.size]
        first += counts.astype(first.dtype, copy=False)

    def _room(self, size: int, more: int) -> None:
        """Before the counts change: room for this number of buckets, of which none
        gets more than `more`."""
        self._cumulated = None
        if size > self._counts.size:
            grown = np.zeros(size, self._counts.dtype)
            grown[: self._counts.size] = self._counts
            self._counts = grown
        self._most += more
        if self._most > np.iinfo(self._counts.dtype).max:
            self._most = int(self._counts.max(initial=0)) + more
            needed = np.min_scalar_type(self._most)
            wider = np.promote_types(self._counts.dtype, needed)
            self._counts = self._counts.astype(wider, copy=False)

    def _add_sums(self, sums: Sums) -> None:
        self.total += sums.total
        self.overflow += sums.overflow
        self.sum_ns += sums.sum_ns
        if sums.total or sums.overflow:
            self.min_ns = min(self.min_ns, sums.min_ns)
            self.max_ns = max(self.max_ns, sums.max_ns)

    def _ranks(self) -> Counts:
        """Values up to each bucket."""
        if self._cumulated is None:
            self._cumulated = np.cumsum(self._counts, dtype=np.int64)
        return self._cumulated

    def add(self, other: Histogram) -> None:
        self._add_up(other._counts)
        self.unanswered += other.unanswered
        self._add_sums(
            Sums(other.total, other.overflow, other.min_ns, other.max_ns, other.sum_ns)
        )

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
        low_ns, high_ns = bucket_range_ns(self.bucket_of_rank(rank))
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

    def bucket_of_rank(self, rank: int) -> int:
        """Of a rank (1-based) up to `total`."""
        return int(np.searchsorted(self._ranks(), rank))

    def above(self, bucket: int) -> int:
        """What of the sample lies above a bucket; -1: all of it."""
        ranks = self._ranks()
        last = min(bucket, ranks.size - 1)
        return self.sample - (int(ranks[last]) if last >= 0 else 0)

    def beyond(self, limit_ns: float, *, or_at: bool) -> int:
        """What of the sample lies above a limit (`or_at`: at it, too), by the values
        that percentiles have."""
        if self.total and (
            self.max_ns < limit_ns or (self.max_ns == limit_ns and not or_at)
        ):
            return self.sample - self.total
        first = int(
            np.searchsorted(middles_ns(), limit_ns, "left" if or_at else "right")
        )
        return self.above(first - 1)

    def between(self, edges_ns: npt.NDArray[np.float64]) -> Counts:
        """Values from each edge up to the next, by those that percentiles have."""
        ranks = np.concatenate(([0], self._ranks()))
        buckets = np.searchsorted(middles_ns(), edges_ns)
        return np.diff(ranks[np.minimum(buckets, ranks.size - 1)])

    def ci95(self, p: float, effective: int | None = None) -> Interval95 | None:
        """Order-statistic interval of a percentile.

        `effective`: how many independent values tell as much as this sample; without
        it, the values are taken for independent. None when that is too small, or no
        bucket holds even the lower end. The ends are the outer edges of their
        buckets: the interval is never narrower than that of the values themselves.
        """
        of = self.sample if effective is None else min(effective, self.sample)
        ranks = order_statistic_ranks(of, p / 100) if of > 0 else None
        if ranks is None:
            return None
        low = max(1, ranks[0] * self.sample // of)
        high = -(-ranks[1] * self.sample // of)
        if low > self.total:
            return None
        low_ns = self._clamp(bucket_range_ns(self.bucket_of_rank(low))[0])
        if high > self.total:
            return Interval95(low_ns, None)
        high_ns = bucket_range_ns(self.bucket_of_rank(high))[1]
        return Interval95(low_ns, self._clamp(high_ns))

    def mean(self) -> float | None:
        """None without a sample, and when a part of it is in no bucket."""
        if not self.total or self.sample > self.total:
            return None
        return self.sum_ns / self.total

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


#: Each bucket's column is its own.
_ITSELF = np.arange(BUCKETS, dtype=np.uint16)


def _added_up(block: Block) -> Counts:
    """Values by bucket."""
    if not block.indexes.size:
        return np.zeros(0, np.int64)
    last = int(block.indexes.max())
    rows = np.zeros(block.headers.size, np.intp)
    return block.table(rows, 1, np.minimum(_ITSELF, last), last + 1).reshape(-1)


@lru_cache(maxsize=1)
def middles_ns() -> npt.NDArray[np.float64]:
    """The middle of each bucket."""
    places = np.arange(_HALF) + 0.5
    firsts = [bucket_range_ns(bucket) for bucket in range(0, BUCKETS, _HALF)]
    # the buckets of a half have one width
    middles = np.concatenate([low + (high - low) * places for low, high in firsts])
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
