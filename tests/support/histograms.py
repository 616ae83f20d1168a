# SPDX-License-Identifier: Apache-2.0
"""Histograms of values, and packed ones, as the engine would have made them."""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt

from ldapslam.results.histogram import MAX_US, Histogram, Sums, block_of, sums_of


def histogram_of(values_ns: npt.ArrayLike) -> Histogram:
    values = np.asarray(values_ns, dtype=np.int64)
    histogram = Histogram()
    if values.size:
        values_us = values // 1000
        inside = values_us <= MAX_US
        index, counts = np.unique(bucket_index(values_us[inside]), return_counts=True)
        total = int(inside.sum())
        histogram.add_counts(
            index,
            counts,
            Sums(
                total=total,
                overflow=int(values.size - total),
                min_ns=int(values.min()),
                max_ns=int(values.max()),
                sum_ns=int(values[inside].sum()),
            ),
        )
    return histogram


def pack(histogram: Histogram) -> bytes:
    """Without `unanswered`, which has no place in it."""
    index = np.flatnonzero(histogram.counts)
    header = struct.pack(
        "<4sIQQQQQ",
        b"SLH1",
        index.size,
        histogram.total,
        histogram.overflow,
        histogram.min_ns,
        histogram.max_ns,
        histogram.sum_ns,
    )
    counts = histogram.counts[index].astype("<u4")
    return header + index.astype("<u2").tobytes() + counts.tobytes()


def packed_sums(packed: bytes) -> Sums:
    return sums_of(block_of([packed]).headers)


def packed_of(values_ns: npt.ArrayLike) -> bytes:
    return pack(histogram_of(values_ns))


def bucket_index(values_us: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Bucket of each value, which lies in [0, MAX_US]."""
    exponent = np.frexp(values_us.astype(np.float64))[1]  # floor(log2 v) + 1
    shift = np.maximum(exponent.astype(np.int64) - 11, 0)
    return (shift << 10) + (values_us >> shift)
