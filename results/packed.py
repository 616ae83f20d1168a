# SPDX-License-Identifier: Apache-2.0
"""Packed histograms by the thousand: their headers and buckets as columns. Pure.

`histogram.py` describes the format. A run of hours has millions of histograms: here no
object is made of any, a block of them is read at once. What is no packed histogram is
refused with StoreError, wherever in the block it stands.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ldapslam.base.errors import StoreError

BUCKETS = 23 * 1024
HEADER = struct.Struct("<4sIQQQQQ")
MAGIC = b"SLH1"
#: `min_ns` of a histogram without a value.
EMPTY_MIN_NS = 2**64 - 1

_FIELDS = np.dtype(
    [
        ("magic", "S4"),
        ("n", "<u4"),
        ("total", "<u8"),
        ("overflow", "<u8"),
        ("min_ns", "<u8"),
        ("max_ns", "<u8"),
        ("sum_ns", "<u8"),
    ]
)

Headers = npt.NDArray[np.void]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Block:
    """Packed histograms, one after the other."""

    #: One for each histogram, with the fields of the format.
    headers: Headers
    #: Of all their buckets, in the histograms' order: index and count.
    indexes: npt.NDArray[np.uint16]
    counts: npt.NDArray[np.uint32]

    def sums(self) -> Sums:
        """Over all histograms of the block."""
        headers = self.headers
        filled = headers[(headers["total"] | headers["overflow"]) != 0]
        return Sums(
            total=_exact_sum(headers["total"]),
            overflow=_exact_sum(headers["overflow"]),
            sum_ns=_exact_sum(headers["sum_ns"]),
            min_ns=int(filled["min_ns"].min(initial=EMPTY_MIN_NS)),
            max_ns=int(filled["max_ns"].max(initial=0)),
        )


@dataclass(frozen=True, slots=True)
class Sums:
    """What several histograms have beside their buckets, added up."""

    total: int
    overflow: int
    sum_ns: int
    min_ns: int
    max_ns: int


def header_of(packed: bytes) -> tuple[int, int, int, int, int, int]:
    """Buckets, total, overflow, min, max and sum of one packed histogram."""
    if len(packed) < HEADER.size:
        raise StoreError(f"packed histogram: {len(packed)} bytes are no header")
    magic, n, total, *others = HEADER.unpack_from(packed)
    if magic != MAGIC or len(packed) != HEADER.size + 6 * n:
        raise StoreError(
            f"packed histogram: magic {magic!r}, {n} buckets, {len(packed)} bytes"
        )
    if total and not n:
        raise StoreError(f"packed histogram: {total} values in no bucket")
    overflow, min_ns, max_ns, sum_ns = others
    return n, total, overflow, min_ns, max_ns, sum_ns


def headers_of(packed: Sequence[bytes]) -> Headers:
    """The headers of many, checked; StoreError as `header_of`."""
    size = HEADER.size
    joined = b"".join([one[:size] for one in packed])
    lengths = np.fromiter(map(len, packed), np.int64, len(packed))
    if len(joined) == size * len(packed):
        headers = np.frombuffer(joined, _FIELDS)
        if (
            (headers["magic"] == MAGIC).all()
            and (lengths == size + 6 * headers["n"].astype(np.int64)).all()
            and not ((headers["total"] != 0) & (headers["n"] == 0)).any()
        ):
            return headers
    for one in packed:
        header_of(one)  # says what is wrong with it
    raise StoreError("packed histogram: damaged")


def block_of(packed: Sequence[bytes]) -> Block:
    """The histograms as columns, checked; StoreError when one is damaged."""
    headers = headers_of(packed)
    cuts = (HEADER.size + 2 * headers["n"].astype(np.int64)).tolist()
    cut = list(zip(packed, cuts, strict=True))
    start = HEADER.size
    indexes = np.frombuffer(b"".join([one[start:end] for one, end in cut]), "<u2")
    counts = np.frombuffer(b"".join([one[end:] for one, end in cut]), "<u4")
    filled = headers[headers["n"] != 0]
    if filled.size:
        _check(filled, indexes, counts)
    return Block(headers, indexes, counts)


def _check(
    headers: Headers,
    indexes: npt.NDArray[np.uint16],
    counts: npt.NDArray[np.uint32],
) -> None:
    """Headers that have buckets, and those buckets."""
    lengths = headers["n"].astype(np.int64)
    starts = np.cumsum(lengths) - lengths
    rises = indexes[1:] > indexes[:-1]
    rises[starts[1:] - 1] = True  # from one histogram to the next
    if indexes.max() >= BUCKETS or not rises.all():
        raise StoreError("packed histogram: bucket indexes are not ascending")
    totals = np.add.reduceat(counts, starts, dtype=np.uint64)
    if not np.array_equal(totals, headers["total"]):
        raise StoreError("packed histogram: counts do not add up to the total")


def _exact_sum(values: npt.NDArray[np.uint64]) -> int:
    """Not modulo 2^64."""
    return sum(values.tolist())
