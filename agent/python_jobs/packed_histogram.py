# SPDX-License-Identifier: Apache-2.0
"""Adds packed histograms of several processes up, still packed.

The format is that of agent/csrc/histogram.h. Everything here comes from processes of
our own on this host; the coordinator checks what it is sent.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Sequence

#: Magic, buckets, total, overflow, min, max and sum in ns.
_HEADER = struct.Struct("<4sIQQQQQ")
_MAGIC = b"SLH1"
_EMPTY_MIN_NS = 2**64 - 1


def add_packed(parts: Sequence[bytes]) -> bytes:
    """The histogram of the union of what the parts counted; empty parts are left out,
    without others the result is empty."""
    parts = [part for part in parts if part]
    if len(parts) < 2:
        return parts[0] if parts else b""
    counts: Counter[int] = Counter()
    total = overflow = max_ns = sum_ns = 0
    min_ns = _EMPTY_MIN_NS
    for part in parts:
        magic, n, *figures = _HEADER.unpack_from(part)
        if magic != _MAGIC or len(part) != _HEADER.size + 6 * n:
            raise ValueError(f"packed histogram: magic {magic!r}, {len(part)} bytes")
        numbers = struct.unpack_from(f"<{n}H{n}I", part, _HEADER.size)
        for bucket, count in zip(numbers[:n], numbers[n:], strict=True):
            counts[bucket] += count
        total += figures[0]
        overflow += figures[1]
        min_ns = min(min_ns, figures[2])
        max_ns = max(max_ns, figures[3])
        sum_ns += figures[4]
    buckets = sorted(counts)
    n = len(buckets)
    header = _HEADER.pack(_MAGIC, n, total, overflow, min_ns, max_ns, sum_ns)
    return header + struct.pack(
        f"<{n}H{n}I", *buckets, *(counts[bucket] for bucket in buckets)
    )
