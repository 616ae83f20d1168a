# SPDX-License-Identifier: Apache-2.0
"""Times counted by the borders of Prometheus' classic histograms. Pure.

The borders are decimal, the engine's buckets are not: a border stands for the nearest
edge of one of them. Up to 30 ms every border is such an edge, and the count of values
below it is exact; from 50 ms on the edge is up to 0.05 % off.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ldapslam.results.histogram import Block, middles_ns, sums_of

_NS_PER_S = 1e9
#: 20 µs to 30 s, six to a decade.
BORDERS_NS = [
    tenths * 10**exponent
    for exponent in range(3, 10)
    for tenths in (10, 15, 20, 30, 50, 70)
    if 20_000 <= tenths * 10**exponent <= 30_000_000_000
]
BORDERS_S = [border_ns / _NS_PER_S for border_ns in BORDERS_NS]


@lru_cache(maxsize=1)
def _places() -> npt.NDArray[np.uint16]:
    """The place in `TimeBuckets` of each of the engine's buckets."""
    places = np.searchsorted(np.array(BORDERS_NS), middles_ns(), side="right")
    return places.astype(np.uint16)


class TimeBuckets:
    """Mutable; only grows."""

    __slots__ = ("_counts", "_sum_ns")

    def __init__(self) -> None:
        #: Values below each border and not below the one before; those above all.
        self._counts = np.zeros(len(BORDERS_NS) + 1, np.int64)
        self._sum_ns = 0

    def add(self, block: Block) -> None:
        one_row = np.zeros(block.headers.size, np.intp)
        self._counts += block.table(one_row, 1, _places(), self._counts.size)[0]
        sums = sums_of(block.headers)
        self._counts[-1] += sums.overflow
        self._sum_ns += sums.sum_ns

    def copy(self) -> TimeBuckets:
        copy = TimeBuckets()
        copy._counts, copy._sum_ns = self._counts.copy(), self._sum_ns
        return copy

    @property
    def counts(self) -> list[int]:
        """Of each bucket by itself; the last one is above all borders."""
        return self._counts.tolist()

    @property
    def sum_s(self) -> float:
        return self._sum_ns / _NS_PER_S
